"""Why some of PyTorch's tests fail though nothing is wrong: what they ask for is another thing than right values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from opinfo.outcomes import Verdict
from world.outcomes import Outcome


@dataclass(frozen=True)
class Reason:
    """`tests` and `says` are patterns: of the name of a test, and of what it says where it fails."""

    why: str
    tests: str
    says: str


REASONS = (
    Reason(
        "counts kernels, where ours are others: products and large pools are kernels, not calls of a library; lists of "
        "tensors are grouped in another way; a max pool's gradient is three kernels",
        r"Foreach|pool2d|mm_views|slice_scatter_reinplace|bucketize_add_autotune|for_reordering_reindex",
        "Scalars are not equal",
    ),
    Reason(
        "counts what torch counts no longer, or elsewhere, since the version of the test",
        r"TestScatterOpt|fuse_reduction_with_tiled_pw|partitioner_recomputes|add_complex4",
        "Scalars are not equal|greater than or equal",
    ),
    Reason(
        "looks for Inductor's own text in a kernel: `tl.rand`, `tl.where`, masks, block pointers, names of arguments",
        r"dropout|TritonCodeGen|index_propagation|neg_index|remove_no_ops|LinearAndSoftmax_codegen|inference_heuristics",
        "Scalars are not equal|is not (true|false)|Expected to (not )?find|not found in|tl.load|divisible_by_16",
    ),
    Reason(
        "expects Inductor to make a convolution channels-last, or to pad what a product of the library reads",
        r"fixed_layout2|test_pad_3d_tensor",
        "AssertionError not raised|False is not true",
    ),
    Reason(
        "needs a name, or a message, that torch has no longer",
        r"ImplDetailTest|out_mismatch|should_pad_bench|low_memory_max_pool|inner_fn_str|mixed_dtype|config_limit",
        "has no attribute|does not match|KeyError: 'r0_",
    ),
    Reason(
        "is one that its file skips for CUDA: in its float16 form dtypes are mixed",
        r"linear_float64",
        "mat1 and mat2 must have the same dtype",
    ),
    Reason(
        "compares random numbers in float16 with those in float32: where rounding makes 1, eager in float16 gives 0",
        r"test_like_rands_",
        "Mismatched elements: 1 / 400 .* difference: 1.0 ",
    ),
    Reason(
        "fails in Dynamo on each device",
        r"cond_(reintepret_view_inputs|aliasing)_outputs",
        "_dynamo.exc",
    ),
    Reason(
        "asks for what CUDA alone has: its random numbers, its attention, graphs, C++ wrapper",
        r"",
        "CUDA not available|not compiled with CUDA|Backend not supported|efficient_attention|cudnn_rnn|NoCppWrapper",
    ),
    Reason(
        "takes more than the time limit: tens of processes, or products of 27,000 rows in float8",
        r"indirect_device_assert|red_followed_by_transposed_pointwise",
        "^$",
    ),
    Reason(
        "compares with eager bit by bit, or nearly: a sum in another order is as near to float64",
        r"cat_extern_kernel|conv2d_backward_channels_last",
        r"absolute difference: (0\.000[0-9]+|[0-9.]+e-05) ",
    ),
    Reason(
        "takes the variance of rows of equal elements: eager's mean is exact, ours a rounded sum, and the root of 1e-5 "
        "makes 3e-3 of its error of 3e-6",
        r"tmp_not_defined_issue3",
        r"absolute difference: 0\.00[0-3][0-9]+ ",
    ),
)


def reason_of(outcome: Outcome) -> str:
    """Why the test of PyTorch's fails, "" if that is not known, and for other cases."""
    if outcome.library != "inductor" or not outcome.failed or outcome.verdict is Verdict.CRASH:
        return ""
    found = (one.why for one in REASONS if re.search(one.tests, outcome.case) and re.search(one.says, outcome.reason))
    return next(found, "")
