"""Rewrites of a graph, and of the loops that its operators become, before Inductor's scheduler sees them."""
