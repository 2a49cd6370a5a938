"""Decisions before any text is written: steps and their order, loop nests, materialised values, the vector axis."""
