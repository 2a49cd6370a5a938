"""Products of matrices for which one call of the library for each is not the best."""
