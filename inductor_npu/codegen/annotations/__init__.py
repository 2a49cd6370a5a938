"""What a generated module says of its kernels: where they came from, and which bytes they move."""
