"""The value of a tile at a chunk of lanes, wherever it is needed: computed, gathered, or read from scratch."""
