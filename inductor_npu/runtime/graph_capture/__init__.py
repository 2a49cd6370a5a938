"""mode="reduce-overhead": the launches of compiled graphs are captured and replayed (docs/graphs.md)."""
