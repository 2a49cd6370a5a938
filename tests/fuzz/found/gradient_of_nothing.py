# Where a graph breaks the first part gets zeros for what the second part makes no use of: no gradient in eager.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='float32', shape=(1,), layout='contiguous', values='normal', bound=0, seed=0),
    Input(dtype='float32', shape=(1,), layout='contiguous', values='normal', bound=0, seed=1),
)
DYNAMIC = False
GRADIENTS = True


def program(x0, x1):
    v2 = x0 + x0
    v3 = x1 + x1
    torch._dynamo.graph_break()
    v4 = torch.cat([v3, v2], 0)
    v5 = v3.prod(-1)
    return (v5,)
