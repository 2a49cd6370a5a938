"""Grouped matrix products (mixture of experts) as one kernel of ours."""
