"""What generated modules import: device functions, launches, grid, autotuner, eager stand-ins."""
