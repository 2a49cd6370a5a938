"""What is decided before a line is written: steps and their order, loop nests, what is kept, which axis fills lanes."""
