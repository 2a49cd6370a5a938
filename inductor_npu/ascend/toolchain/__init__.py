"""Everything that runs inside the environment of Ascend's compiler, one process a core."""
