# A maximum over a size that is known to be 1 has no axis, and its gradient comes after it in one kernel.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='float32', shape=(1, 4), layout='contiguous', values='normal', bound=0, seed=1),
)
DYNAMIC = True
GRADIENTS = True


def program(x0):
    v1 = x0.unfold(0, 1, 2)
    v2 = torch.diagonal(v1, -1, dim1=-2, dim2=-1)
    v3 = v2.max(1, keepdim=True).values
    return (v3,)
