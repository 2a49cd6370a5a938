"""Masks of attention that layers make anew."""
