# An axis that says by a loaded index which row is meant, and has to be whole, was walked and in the tile at once.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='int64', shape=(1, 17, 2), layout='reversed order', values='integers', bound=0, seed=0),
    Input(dtype='int64', shape=(3,), layout='contiguous', values='index', bound=2, seed=1),
)
DYNAMIC = False
GRADIENTS = False


def program(x0, x1):
    v1 = x0 + x0
    v3 = v1[..., x1]
    return (v3,)
