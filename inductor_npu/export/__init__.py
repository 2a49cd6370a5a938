"""Models as one file, which a process without Triton, LLVM or the code generator loads and runs (docs/export.md)."""
