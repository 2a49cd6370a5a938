# A result that the backward graph reads, too, was overwritten by it: a rewrite had hidden that they share memory.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='float32', shape=(1, 3, 2), layout='contiguous', values='normal', bound=0, seed=0),
    Input(dtype='float32', shape=(), layout='contiguous', values='normal', bound=0, seed=1),
)
DYNAMIC = False
GRADIENTS = True


def program(x0, x1):
    v2 = torch.matmul(x0, x0.transpose(-1, -2))
    v3 = F.group_norm(v2, 1)
    v4 = v2.squeeze()
    v5 = v2 + v4
    torch._dynamo.graph_break()
    v5[0:] = 1
    v6 = F.layer_norm(v3, v3.shape[-1:])
    return (v6, v4,)
