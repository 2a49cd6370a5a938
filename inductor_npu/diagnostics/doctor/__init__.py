"""`inductor-npu doctor`: whether this package compiles for `npu` on this machine, and what is wrong."""
