# The bounds of a truncated quotient of indices are floating-point numbers in Inductor, and were held against whole ones.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='float32', shape=(1, 16), layout='contiguous', values='normal', bound=0, seed=0),
)
DYNAMIC = False
GRADIENTS = False


def program(x0):
    v1 = (torch.arange(x0.shape[0], device=x0.device) - torch.arange(x0.shape[1], device=x0.device)[:, None])
    v2 = torch.div(v1, 7, rounding_mode='trunc')
    v3 = v2 * 3 - 1
    return (v3,)
