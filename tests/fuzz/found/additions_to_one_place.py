# Additions to the only place of a tensor were made once for each tile, not for each element.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='int8', shape=(), layout='contiguous', values='integers', bound=0, seed=0),
    Input(dtype='int64', shape=(2,), layout='contiguous', values='index', bound=1, seed=1),
)
DYNAMIC = False
GRADIENTS = False


def program(x0, x1):
    v1 = x0.unsqueeze(0)
    v2 = x0.unsqueeze(0)
    v3 = v2[0]
    v4 = v3 + v3
    v5 = v4 + v4
    v6 = v5 + v5
    v7 = v6 + v6
    v8 = torch.cat([v2, v2], 0)
    v9 = v8[-1:]
    v11 = torch.scatter_add(v9, 0, x1, v8)
    v12 = v11 + v11
    v13 = v12 // 3
    v14 = torch.pow(v13, 3)
    v15, = torch.chunk(v14, 2, 0)
    v16 = v15 + v15
    v17 = v16.reshape(-1)
    return (v17,)
