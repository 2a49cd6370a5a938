# Values that are equal along a row are held for each of its indices, which the plan did not count.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input
from fuzz.wider import wider

INPUTS = (
    Input(dtype='int64', shape=(100,), layout='contiguous', values='integers', bound=0, seed=0),
    Input(dtype='int64', shape=(32, 17), layout='expanded', values='integers', bound=0, seed=1),
    Input(dtype='float32', shape=(3, 4, 8, 2), layout='contiguous', values='normal', bound=0, seed=2),
    Input(dtype='int16', shape=(32, 17), layout='expanded', values='integers', bound=0, seed=3),
)
DYNAMIC = False
GRADIENTS = True
MORE = 1
VECTORS = 512
THREADS = 0


def program(x0, x1, x2, x3):
    v2 = x1.sum(-2, keepdim=True)
    v3 = F.pad(v2, (0, 0), mode='constant')
    v4 = torch.tril(v2, 2)
    v5 = torch.cat([x1, v4], 0)
    v6 = torch.tanh(v4)
    v7 = v5 / (v5.abs() + 1)
    v8 = v7 + v7
    v9 = v2 - v6
    v10 = x1.cumsum(1)
    v12 = torch.view_as_complex((x2.transpose(2, 1) * 2))
    v13, v14, = torch.aminmax(x0, dim=0)
    v16, v17, = torch.var_mean(v8, 0, correction=0)
    v18 = v16.to(float32)
    v19 = x3 // 3
    v20 = torch.minimum(v19, v19)
    v21 = v20 + v20
    v22 = v19 + v14
    v23 = v20 * v22
    return (v23, x1, v4, v16, v17, v18,)
