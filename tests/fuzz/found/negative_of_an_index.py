# The negative of an index that is limited could not be compared with the limit where loops were merged.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='float32', shape=(1,), layout='contiguous', values='normal', bound=0, seed=0),
    Input(dtype='float32', shape=(2,), layout='contiguous', values='normal', bound=0, seed=1),
    Input(dtype='float32', shape=(1,), layout='contiguous', values='normal', bound=0, seed=2),
)
DYNAMIC = True
GRADIENTS = True


def program(x0, x1, x2):
    v3 = x2 + x2
    v4 = (torch.arange(x1.shape[0], device=x1.device) - torch.arange(x1.shape[0], device=x1.device)[:, None])
    v5, v6, = torch.sort(v4, stable=True, dim=0, descending=False)
    v7 = v6.sum(0, keepdim=True)
    v8 = v7.unfold(0, 1, 1)
    v9 = x1 + v8
    v10 = torch.utils.checkpoint.checkpoint(lambda value: torch.sin(value) * value, v9, use_reentrant=False)
    v11 = -(torch.arange(v6.shape[0], device=v6.device) - torch.arange(v6.shape[0], device=v6.device)[:, None]).clamp(-2, 5)
    v12 = v11 + v10
    v13 = v12 + v12
    v14 = torch.stack([v11, v5, v11], 0)
    return (v14,)
