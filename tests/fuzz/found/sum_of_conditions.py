# A factor of conditions that are added up was kept as a number, of which the negation is none of a condition.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='bool', shape=(1, 64, 1, 2), layout='contiguous', values='integers', bound=0, seed=0),
    Input(dtype='bool', shape=(), layout='contiguous', values='integers', bound=0, seed=1),
)
DYNAMIC = False
GRADIENTS = True


def program(x0, x1):
    v2 = x1 + x1
    v3 = F.pad(x0, [4, 4], value=-1)
    v4 = v3 + v3
    v5 = v4 + v4
    v6 = torch.add(v5, v5, alpha=2)
    v7 = v6 + v6
    v8 = v7 + v7
    v9 = v8[:, 28:51, 0:0, 4:7]
    v10 = torch.logical_not(v7)
    return (v10, v4,)
