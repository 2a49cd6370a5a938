# The group norm of equal numbers magnifies what their sum is rounded by, which was held to be wrong.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='float32', shape=(1,), layout='contiguous', values='normal', bound=0, seed=0),
    Input(dtype='int64', shape=(100, 5, 3, 2), layout='contiguous', values='integers', bound=0, seed=1),
    Input(dtype='int64', shape=(1,), layout='contiguous', values='index', bound=100, seed=2),
)
DYNAMIC = False
GRADIENTS = False


def program(x0, x1, x2):
    v2 = torch.full_like(x1, 1)
    v4 = v2[x2]
    v5 = torch.sigmoid(v4)
    v6 = torch.cat([v5, v5, v5], 0)
    v7 = torch.var(v6, 0, correction=0)
    v8 = v6[:, :, 0:0, 0:0]
    v9 = v8 + v8
    v10 = F.group_norm(v5, 1)
    return (v10,)
