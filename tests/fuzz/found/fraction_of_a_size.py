# A fraction of sizes that are arguments was cut to a whole number.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='float32', shape=(5, 7), layout='contiguous', values='normal', bound=0, seed=0),
)
DYNAMIC = True
GRADIENTS = True


def program(x0):
    v1 = x0 * (x0.shape[0] / (x0.shape[0] + x0.shape[1]))
    v2 = x0.var(-1)
    return (v1, v2,)
