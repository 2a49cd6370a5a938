"""Algebra of index expressions: split points, bounds, predicates, exactness beyond 32 bits. Knows no kernel."""
