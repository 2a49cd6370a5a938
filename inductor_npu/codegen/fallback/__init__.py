"""Eager stand-ins: a kernel's loops as eager operators, for kernels that do not compile and for accuracy mode."""
