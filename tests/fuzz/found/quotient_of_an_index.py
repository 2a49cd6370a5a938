# Quotients of a number that was protected from expansion could not be compared where loops over a concatenation were merged.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='float32', shape=(4,), layout='contiguous', values='normal', bound=0, seed=0),
    Input(dtype='float32', shape=(4, 4), layout='contiguous', values='normal', bound=0, seed=1),
    Input(dtype='int32', shape=(4, 4), layout='contiguous', values='integers', bound=0, seed=2),
)
DYNAMIC = False
GRADIENTS = True


def program(x0, x1, x2):
    v1 = torch.minimum((torch.arange(x0.shape[0], device=x0.device) - torch.arange(x0.shape[0], device=x0.device)[:, None]), (torch.arange(x0.shape[0], device=x0.device) - torch.arange(x0.shape[0], device=x0.device)[:, None]).new_zeros(()))
    v2 = x0[0]
    v4 = v1 + x1
    v5 = torch.isnan(x1)
    v7 = v5 + x2
    v8 = v7 + v7
    v9 = F.pad(v8, [0, 0], mode='circular')
    v10 = torch.var(v4, 0, correction=0)
    v11 = v1.reshape(-1)
    v12 = torch.isnan(v11)
    v13 = v12 + v11
    v14 = v13 // 3
    v15 = v11.to(float64)
    v16 = F.layer_norm(v15, v15.shape[-1:])
    v17 = v5.prod(-1)
    v18 = torch.cat([v17, v17, v14], 0)
    v19 = torch.tril(v9, 0)
    return (v19, v18,)
