# The eager stand-in of loops with fnuz types had no largest value along an axis (argmax_value).

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input
from fuzz.wider import wider

INPUTS = (
    Input(dtype='float32', shape=(100, 2), layout='contiguous', values='normal', bound=0, seed=0),
    Input(dtype='float32', shape=(1, 1, 2), layout='contiguous', values='normal', bound=0, seed=1),
    Input(dtype='float16', shape=(2, 4, 4), layout='contiguous', values='normal', bound=0, seed=2),
    Input(dtype='float8_e4m3fn', shape=(), layout='contiguous', values='normal', bound=0, seed=3),
)
DYNAMIC = True
GRADIENTS = False
MORE = 0
VECTORS = 0


def program(x0, x1, x2, x3):
    x1[0:] = 1
    v2 = F.layer_norm(x0, x0.shape[-1:])
    v3 = v2 + (v2.shape[0] // 2)
    v3.add_(1)
    v5 = wider(F.local_response_norm, x2, 2, within=float32)
    v6 = x2.detach().to(torch.float8_e4m3fnuz).to(float64) * 0.0078125
    v7 = v6.max(-1).values
    v8 = torch.var(v7, 0, correction=0)
    v9 = torch.pow(v8.abs() + 1, 0.5)
    v10 = v9.sum((0,))
    v11 = torch.stack([v10, v10], 0)
    v12 = torch.tril(v7, 1)
    v13 = v12.flip(-2)
    v14 = v13.expand(-1, -1)
    v15 = v14 * ((v14.shape[0] % 2 == 0))
    v17 = x3.to(float32)
    v18 = v3.detach()
    v19 = torch.relu(v12)
    v20 = torch.atan(v6)
    v21 = v18.flip(0)
    v22 = v13 + v13.shape[1]
    return (v22, x0, v2, v5, v8, v11, v12, v17, v18,)
