"""Facts about the operations of a kernel, found out on demand: nothing here changes or writes anything."""
