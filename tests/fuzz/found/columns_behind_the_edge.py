# An assert said that an index was out of bounds: results of columns behind a mask's edge were not written, and read.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input
from fuzz.wider import wider

INPUTS = (
    Input(dtype='int64', shape=(1,), layout='contiguous', values='integers', bound=0, seed=0),
    Input(dtype='float32', shape=(), layout='contiguous', values='normal', bound=0, seed=1),
    Input(dtype='int64', shape=(), layout='contiguous', values='integers', bound=0, seed=2),
    Input(dtype='float32', shape=(3, 4), layout='contiguous', values='normal', bound=0, seed=3),
    Input(dtype='int64', shape=(3, 9), layout='contiguous', values='ends', bound=4, seed=4),
    Input(dtype='float32', shape=(1,), layout='contiguous', values='normal', bound=0, seed=5),
    Input(dtype='int64', shape=(1, 1), layout='contiguous', values='index', bound=3, seed=6),
    Input(dtype='int64', shape=(5,), layout='contiguous', values='index', bound=9, seed=7),
    Input(dtype='int64', shape=(3, 5), layout='contiguous', values='index', bound=4, seed=8),
    Input(dtype='int64', shape=(16, 5), layout='contiguous', values='index', bound=3, seed=9),
    Input(dtype='int64', shape=(3, 5), layout='contiguous', values='integers', bound=0, seed=10),
    Input(dtype='bool', shape=(2,), layout='contiguous', values='integers', bound=0, seed=11),
)
DYNAMIC = False
GRADIENTS = True
MORE = 0
VECTORS = 256


def program(x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11):
    v5 = torch.gather(x3, -1, x4)
    v6 = torch.arange(v5.shape[-2], device=v5.device, dtype=int64)
    v10 = v5[x6, x7]
    v11 = v10.sum()
    v12 = v10.detach().to(torch.float8_e4m3fn).to(torch.float8_e5m2).to(float32) * 0.0078125
    v14 = torch.gather(x3, 1, x8)
    v16 = torch.gather(x8, 0, x9)
    v17 = torch.matmul(v12, v12.transpose(-1, -2))
    v18 = torch.maximum(v14, v10)
    v19 = v18 + v18
    v20 = v19 + v18
    v21 = v20 + v19
    v22 = v20 - v21
    v23 = v22 - v22
    v24 = v23 - v22
    v26 = x6 >= x10
    v27 = torch.topk(x5, 1, -1).values
    v29 = (x11 <= 0).all(0)
    v30 = x5.argmax(-1, keepdim=True)
    return (v30, v23, v26,)
