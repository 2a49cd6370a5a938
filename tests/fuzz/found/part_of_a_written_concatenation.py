# A part of a concatenation that index_fill wrote in place lay in it: who read the part got what was written.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='int64', shape=(1, 129, 1), layout='contiguous', values='integers', bound=0, seed=0),
    Input(dtype='int8', shape=(2, 1), layout='contiguous', values='integers', bound=0, seed=1),
    Input(dtype='int64', shape=(1, 1), layout='contiguous', values='index', bound=2, seed=2),
    Input(dtype='int64', shape=(1,), layout='contiguous', values='index', bound=1, seed=3),
    Input(dtype='int64', shape=(1,), layout='contiguous', values='index', bound=1, seed=4),
    Input(dtype='int64', shape=(1, 1), layout='contiguous', values='index', bound=1, seed=5),
    Input(dtype='float32', shape=(1, 129, 1), layout='contiguous', values='normal', bound=0, seed=6),
    Input(dtype='int64', shape=(1,), layout='contiguous', values='index', bound=4, seed=7),
)
DYNAMIC = True
GRADIENTS = False


def program(x0, x1, x2, x3, x4, x5, x6, x7):
    v2 = x1 + x1
    v3 = torch.cat([x1, v2], 0)
    v4 = v2.flip(0)
    v5 = v4.transpose(0, 0)
    v6 = v5 + v5
    v7 = torch.full_like(v6, 0)
    v8 = v7.clone()
    v11 = v8[x2, x3]
    v13 = torch.index_select(v11, 0, x4)
    v15 = torch.gather(v13, 0, x5)
    v17 = x0 / (x6.abs() + 1)
    v18 = v4.repeat(2, 1)
    v20 = torch.index_fill(v3, 0, x7, 1)
    v21 = v18.clone()
    v22 = (torch.arange(v21.shape[0], device=v21.device) - torch.arange(v21.shape[-2], device=v21.device)[:, None])
    return (v22, v20, v21,)
