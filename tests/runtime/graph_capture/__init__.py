"""mode="reduce-overhead": compiled graphs that are captured and replayed."""
