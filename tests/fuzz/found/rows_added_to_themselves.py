# Values that are the tensor they are added to were added in place: an error about overlapping memory.

import torch
import torch.nn.functional as F
from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8

from fuzz.case import Input

INPUTS = (
    Input(dtype='int64', shape=(129, 3), layout='contiguous', values='integers', bound=0, seed=0),
    Input(dtype='int64', shape=(5,), layout='contiguous', values='index', bound=129, seed=1),
    Input(dtype='int64', shape=(5,), layout='contiguous', values='index', bound=5, seed=2),
)
DYNAMIC = True
GRADIENTS = False


def program(x0, x1, x2):
    v1 = F.embedding(x1, x0)
    v2 = v1.index_put((x2,), v1, accumulate=True)
    return (v2,)
