# The axis with stride 1 took its room before the rows that are sorted, which are never in parts.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input
from fuzz.wider import wider

INPUTS = (
    Input(dtype='float32', shape=(1,), layout='contiguous', values='normal', bound=0, seed=0),
    Input(dtype='int32', shape=(1, 17, 33), layout='reversed order', values='integers', bound=0, seed=1),
    Input(dtype='float32', shape=(), layout='contiguous', values='normal', bound=0, seed=2),
)
DYNAMIC = False
GRADIENTS = True
MORE = 0
VECTORS = 0
THREADS = 0


def program(x0, x1, x2):
    v3 = x2 + x2
    v4 = wider(torch.bitwise_left_shift, (x1 * 9999).to(torch.uint32), 1, within=int64).to(int64)
    v5 = v4 + v4
    v6 = v5.clone()
    v7 = wider(torch.bitwise_right_shift, (v6 * 9999).to(torch.uint16), 1, within=int64).to(int64)
    v8 = v7 + v7
    v9, v10, = torch.sort(v7, stable=True, dim=2, descending=False)
    return (v10,)
