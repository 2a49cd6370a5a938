# Products of 8-bit floats are beyond their range where eager saturates.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input
from fuzz.wider import wider

INPUTS = (
    Input(dtype='int8', shape=(100, 1, 1), layout='contiguous', values='integers', bound=0, seed=0),
    Input(dtype='float32', shape=(2, 2, 8, 8), layout='contiguous', values='integers', bound=0, seed=1),
    Input(dtype='float32', shape=(1, 2, 3, 3), layout='contiguous', values='integers', bound=0, seed=2),
    Input(dtype='float32', shape=(3, 3, 2), layout='contiguous', values='normal', bound=0, seed=3),
)
DYNAMIC = False
GRADIENTS = True
MORE = 0
VECTORS = 512
THREADS = 0


def program(x0, x1, x2, x3):
    v1 = x0 + x0
    v2 = v1 + v1
    v3 = v2 + v2
    v7 = torch.view_as_complex(x3.transpose(0, 0))
    v8 = x3.detach().to(torch.float8_e4m3fn)
    v9 = (x3 * 64).detach().to(torch.float8_e4m3fn)
    v10 = v9 * v9
    return (v10,)
