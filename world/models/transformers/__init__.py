"""transformers: every architecture of its config mapping, with a small config that is derived from the default one.

`shrinking.py` makes configs small, `inputs.py` guesses what a model takes, `building.py` tries one with the other.
"""

from world.models.transformers.building import build, members, small

__all__ = ["build", "members", "small"]
