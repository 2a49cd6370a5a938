"""The LLVM function of a kernel: its arguments, its loop over programs, its blocks and their control flow."""
