# A selection takes a remainder of numbers below zero for the elements that it does not choose.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='float32', shape=(1,), layout='contiguous', values='normal', bound=0, seed=0),
    Input(dtype='int64', shape=(32, 1, 1), layout='contiguous', values='integers', bound=0, seed=1),
    Input(dtype='int64', shape=(1, 1), layout='contiguous', values='index', bound=32, seed=2),
    Input(dtype='int64', shape=(4,), layout='contiguous', values='index', bound=1, seed=3),
    Input(dtype='int64', shape=(1,), layout='contiguous', values='index', bound=4, seed=4),
    Input(dtype='float16', shape=(32,), layout='contiguous', values='special', bound=0, seed=5),
    Input(dtype='int64', shape=(7,), layout='contiguous', values='index', bound=7, seed=6),
    Input(dtype='int64', shape=(16, 100), layout='contiguous', values='index', bound=7, seed=7),
)
DYNAMIC = False
GRADIENTS = False


def program(x0, x1, x2, x3, x4, x5, x6, x7):
    v2 = x0.any(0)
    v5 = x1[x2, x3]
    v6 = torch.arange(x1.shape[-3], device=x1.device, dtype=int64)
    v6[23::2] = 1
    v7 = torch.cat([x0, x0], 0)
    v8 = v7 * 2 if v7.shape[0] > 4 else v7 + 1
    v9 = v2 + x2
    v10 = v7 + v9
    v11 = v5.squeeze()
    v13 = torch.gather(v11, 0, x4)
    v14 = v8 + v8.shape[0]
    v15 = v14.squeeze()
    v17 = v11.sum(0)
    v18 = -v8
    v19, v20, = torch.sort(v6, stable=True, dim=-1, descending=False)
    v22 = F.one_hot(x6, 7)
    v24 = F.one_hot(x7, 7)
    v25 = v11.to(float64)
    return (v25, x0, x1, x2, v9, x4, v14, x5, v20, v22, v24,)
