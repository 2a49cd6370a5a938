# With AVX-512 a tail of one element was stored as wide as it was before its conversion, over its neighbour.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='bool', shape=(17, 16, 7, 7), layout='contiguous', values='integers', bound=0, seed=1),
    Input(dtype='bfloat16', shape=(17, 16, 7, 7), layout='contiguous', values='normal', bound=0, seed=2),
)
DYNAMIC = False
GRADIENTS = False


def program(x0, x1):
    v1 = torch.erf(x1)
    v2 = v1 + v1
    v3 = x0.unsqueeze(0) + v2
    v4 = x1.amax(1)
    return (v3, v4,)
