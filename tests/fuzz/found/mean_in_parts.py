# Parts of a row that do not divide it had a `%` in the address, and were summed one by one.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input
from fuzz.wider import wider

INPUTS = (
    Input(dtype='float32', shape=(100, 2, 100, 1), layout='contiguous', values='normal', bound=0, seed=0),
    Input(dtype='int64', shape=(1,), layout='contiguous', values='integers', bound=0, seed=1),
    Input(dtype='int64', shape=(9,), layout='contiguous', values='ends', bound=1, seed=2),
)
DYNAMIC = False
GRADIENTS = True
MORE = 0
VECTORS = 256
THREADS = 0


def program(x0, x1, x2):
    v2 = wider(torch.cumsum, x0.detach(), 0, dtype=torch.bool, within=int64)
    v3 = v2 * 2 if v2.shape[0] > 4 else v2 + 1
    v4 = torch.sin(v3)
    v6 = x2 // 3
    v7 = v6 + v6
    v8 = v4.mean()
    v9 = (torch.arange(v7.shape[0], device=v7.device) - torch.arange(v7.shape[0], device=v7.device)[:, None])
    v10 = torch.stack([v9, v9], 0)
    v11 = v10 + v10
    v12 = v11 + (x0.shape[0] // 2)
    v13 = v12.sum(0, dtype=torch.bool)
    return (v13, v8,)
