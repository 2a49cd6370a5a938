# Rows that are sorted and rows that a gather on chip wants whole did not fit the Unified Buffer together.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='int64', shape=(5, 32, 64), layout='contiguous', values='integers', bound=0, seed=0),
)
DYNAMIC = False
GRADIENTS = False


def program(x0):
    v1 = x0 // torch.where(x0 == 0, 3, x0)
    v2 = F.pad(v1, [0, 2], mode='reflect')
    v3, v4, = torch.sort(v2, stable=True, dim=1, descending=True)
    return (v4,)
