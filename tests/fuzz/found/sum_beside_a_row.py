# Dynamo names the sizes of a tensor and of the base of its row apart, and the guard of a kernel on them had no source.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='float32', shape=(4, 5), layout='contiguous', values='integers', bound=0, seed=0),
    Input(dtype='int64', shape=(), layout='contiguous', values='index', bound=4, seed=1),
)
DYNAMIC = True
GRADIENTS = False


def program(x0, x1):
    v1 = x0 + x0
    v2 = v1[x1]
    v3 = v1.cumsum(1)
    v4 = v2 + v2
    return (v3, v4,)
