"""Facts about the operations of a kernel, computed on demand. Nothing here changes or writes anything."""
