"""Which loops become one kernel; kernels that are used again, compiled ahead, tuned."""
