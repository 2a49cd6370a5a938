"""Loop nests over tiles: what the roots of a group do, chunk by chunk."""
