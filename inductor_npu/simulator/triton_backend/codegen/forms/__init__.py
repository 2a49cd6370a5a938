"""How a value is held, data alone: element types and literals, LLVM values, lanes of a chunk, coordinates, scratch."""
