# The address of a sum named the elements that are summed, because sizes were only known to be equal.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='float32', shape=(64, 1, 64), layout='contiguous', values='normal', bound=0, seed=0),
    Input(dtype='float32', shape=(100, 4, 4, 8), layout='contiguous', values='normal', bound=0, seed=1),
    Input(dtype='float32', shape=(1, 2, 2, 3), layout='contiguous', values='normal', bound=0, seed=2),
    Input(dtype='int64', shape=(5, 7, 7, 6), layout='contiguous', values='index', bound=1, seed=3),
    Input(dtype='int64', shape=(3,), layout='contiguous', values='index', bound=1, seed=4),
    Input(dtype='float64', shape=(3,), layout='inside', values='integers', bound=0, seed=5),
)
DYNAMIC = True
GRADIENTS = False


def program(x0, x1, x2, x3, x4, x5):
    v2 = torch.argsort(x1, dim=-4, stable=True)
    v3 = x1[-1:, 0::3, 0:2, 3::2]
    v4 = v2 & v2
    v5 = v3.any(1)
    v6 = F.layer_norm(v3, v3.shape[-1:])
    v7 = v4 * 2 if v4.shape[0] > 1 else v4 + 1
    v8 = torch.argsort(v5, dim=-2, stable=True)
    v9 = torch.exp(-v2.abs())
    v10 = torch.bucketize(v3, torch.arange(-3, 4, device=v3.device, dtype=float32), right=True)
    v11 = F.pad(v3, [0, 3, 3, 2, 2, 3], mode='replicate')
    v12 = torch.utils.checkpoint.checkpoint(lambda value: torch.sin(value) * value, x1, use_reentrant=False)
    v13 = torch.softmax(v6, -2)
    v14 = torch.tanh(v9)
    v17 = torch.gather(v11, 0, x3)
    v19 = torch.index_select(v3, 0, x4)
    v20 = torch.sqrt(v11.var(-1, correction=0) + 0.5)
    v22 = F.layer_norm(v14, v14.shape[-1:])
    x1.neg_()
    return (v22, v9, v10, v13, v14, x5,)
