# A position made with a stride that is an argument had 64 bits, where the loop kept 32.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='float32', shape=(), layout='contiguous', values='normal', bound=0, seed=0),
    Input(dtype='int64', shape=(4, 1, 3), layout='contiguous', values='integers', bound=0, seed=1),
    Input(dtype='float32', shape=(3, 8, 1), layout='transposed', values='normal', bound=0, seed=2),
    Input(dtype='int64', shape=(1,), layout='contiguous', values='index', bound=3, seed=3),
)
DYNAMIC = True
GRADIENTS = False


def program(x0, x1, x2, x3):
    v3 = x1.transpose(-3, 0)
    v4 = torch.topk(v3, 1, 1).values
    v5 = (torch.arange(v4.shape[0], device=v4.device) - torch.arange(v4.shape[0], device=v4.device)[:, None])
    v6 = v4.movedim(-1, -3)
    torch._dynamo.graph_break()
    x2[x3] = 2
    v8 = v5[0::2, 0:0]
    v9 = x1.prod(-1)
    v10, v11, = torch.chunk(x1, 2, -3)
    v12 = torch.softmax(x2, 2)
    v13, v14, = torch.chunk(v6, 2, -3)
    v15 = torch.flatten(x2, 0)
    v16 = torch.arange(v12.shape[-3], device=v12.device, dtype=int64)
    v17 = x1.unfold(-3, 3, 3)
    v18 = v9.permute((1, 0))
    v19 = v13[:, 3:4, -1:]
    v20 = v19[0::3, 0:0, 0:1]
    v21 = v15.argmax(-1, keepdim=True)
    v22 = torch.cat([v17, v17, v17], 0)
    v23 = torch.pow(v22.abs() + 1, 0.5)
    v24 = v10[0:0, :, 0::3]
    return (v24, x1, x2, v9, v16, v18, v21, v22, v23,)
