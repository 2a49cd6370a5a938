"""Block sizes: how much of a loop one program works on at a time, so that it fits the Unified Buffer and feeds every
core.
"""
