"""What a graph does not compile without, or computes something else: these passes cannot be switched off."""
