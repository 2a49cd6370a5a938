# A diagonal that begins beyond the matrix, whose gradient replaces none of it, was given a border of negative length.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='float32', shape=(17, 1), layout='contiguous', values='integers', bound=0, seed=0),
    Input(dtype='float32', shape=(1, 1), layout='contiguous', values='normal', bound=0, seed=1),
    Input(dtype='int64', shape=(1, 1), layout='contiguous', values='integers', bound=0, seed=2),
)
DYNAMIC = False
GRADIENTS = True


def program(x0, x1, x2):
    v3 = torch.flatten(x1, 1)
    v4 = v3.transpose(0, 0)
    v5 = v4[:, :]
    v6 = v5 + v5
    v7 = torch.sin(v6)
    v8 = v7 + v7
    v9 = torch.sin(v8)
    v10 = torch.sin(v9)
    v11 = v10 + v10
    v12 = v11 + v11
    v13 = v12 + v12
    v14 = torch.diagonal(v13, 3, dim1=-2, dim2=-1)
    v15 = v14 + v14
    v16 = v15 + v15
    v17 = v16 + v16
    v18 = v17.clone()
    return (v18,)
