"""Provider `cuda`: what can be tested without a GPU."""
