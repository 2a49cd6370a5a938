"""Max pools over windows that overlap, and their gradients."""
