# A kernel in pieces, of bytes that lie apart, was written four times with the same tile, which did not fit the Unified Buffer.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='int64', shape=(1, 1, 100), layout='contiguous', values='integers', bound=0, seed=0),
    Input(dtype='int8', shape=(32, 64), layout='every second', values='integers', bound=0, seed=1),
    Input(dtype='float32', shape=(1,), layout='contiguous', values='normal', bound=0, seed=2),
    Input(dtype='int64', shape=(1,), layout='contiguous', values='index', bound=1, seed=3),
    Input(dtype='float32', shape=(), layout='contiguous', values='normal', bound=0, seed=4),
    Input(dtype='float32', shape=(), layout='contiguous', values='normal', bound=0, seed=5),
)
DYNAMIC = True
GRADIENTS = False


def program(x0, x1, x2, x3, x4, x5):
    v3 = torch.relu(x2)
    v5 = torch.index_select(v3, -1, x3)
    v7 = x3.abs()
    v8 = v7 // 3
    v9 = (torch.arange(v8.shape[0], device=v8.device) - torch.arange(v8.shape[0], device=v8.device)[:, None])
    v10 = v8.to(int64)
    v11 = torch.cat([x3, v8], 0)
    v12 = v7.any(0)
    v13 = torch.stack([v12, v12, v12], 0)
    x1[19:] *= -1
    v14 = v13.expand(-1)
    v15 = v9.prod(-1)
    v16 = x2 * x2.shape[-1]
    v17 = v13.sum((0,))
    v18 = x3 < v17
    v19 = v5.mean()
    v21 = v12.reshape(-1)
    return (v21, x1, v5, v7, v15, v16, x5,)
