# The sixth power of a difference of indices was computed in the 32 bits of an address.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='float32', shape=(100,), layout='contiguous', values='normal', bound=0, seed=0),
)
DYNAMIC = False
GRADIENTS = False


def program(x0):
    v1 = torch.arange(x0.shape[0], device=x0.device, dtype=int64)
    v2 = x0 - v1
    v3 = v2.sum()
    v4 = (torch.arange(v2.shape[0], device=v2.device) - torch.arange(v2.shape[0], device=v2.device)[:, None])
    v5, v6, = torch.sort(v4, stable=True, dim=0, descending=False)
    v7 = v4 * v4
    v8 = v7.clone()
    v9 = v8.to(int64)
    v10 = v9 - v9
    v11 = v10.transpose(0, 0)
    v12 = v7 + v11
    v13 = v12 + v12
    v14 = v13 + v13
    v15 = v12 + v14
    v16 = v15 + v15
    v17 = v16 + v16
    v18 = v17 + v17
    v19 = torch.sin(v18)
    v20 = v19 + v19
    v21 = v20 + v20
    v22 = v21 + v21
    v23 = torch.pow(v8, 3)
    return (v23,)
