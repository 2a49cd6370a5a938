"""Eager operators of the real torch_npu at the stand-in, which has no library of operators (aclnn): each runs as the
CPU's, on tensors that alias device memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

# Operators that torch_npu does itself with the runtime alone: memory, views, copies between devices.
_TORCH_NPUS_OWN = frozenset(
    (
        "empty.memory_format",
        "empty_strided",
        "view",
        "as_strided",
        "_reshape_alias",
        "set_",
        "set_.source_Storage",
        "set_.source_Storage_storage_offset",
        "set_.source_Tensor",
        "resize_",
        "record_stream",
        "is_pinned",
        "_pin_memory",
        "unfold",
        "_to_copy",
        "empty_like",
        "new_empty_strided",
        "alias",
        "detach",
        "is_set_to",
        "lift",
        "_unsafe_view",
    )
)

_libraries: list[torch.library.Library] = []


def install() -> None:
    """Replaces torch_npu's registrations for its device."""
    for function in (_on_aliases, _matmul_backward, _dtype_cast, _attention, _attention_backward):
        _hide_from_dynamo(function)
    library, own = torch.library.Library("aten", "IMPL"), torch.library.Library("npu", "IMPL")
    _libraries.extend((library, own))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # each says that it overrides another
        for name in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"):
            namespace, _, operator = name.partition("::")
            if namespace != "aten" or operator in _TORCH_NPUS_OWN:
                continue
            packet, _, overload = operator.partition(".")
            found = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
            if found is not None:
                library.impl(operator, functools.partial(_on_aliases, found), "PrivateUse1", allow_override=True)
        # Of these PyTorch has none for the CPU.
        library.impl("matmul_backward", _matmul_backward, "PrivateUse1", allow_override=True)
        own.impl("_npu_dtype_cast", _dtype_cast, "PrivateUse1", allow_override=True)
        own.impl("npu_fusion_attention_v3", _named(_ATTENTION, _attention), "PrivateUse1", allow_override=True)
        own.impl("npu_fusion_attention_grad_v3", _attention_backward, "PrivateUse1", allow_override=True)


def _hide_from_dynamo(function: Any) -> None:
    """An operator is not Python that Dynamo sees, on a chip; it would break graphs within these functions here. Says so
    without importing Dynamo, which takes its time.
    """
    frames = torch._C._dynamo.eval_frame
    skip = frames._FrameAction.SKIP
    frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))


def _dtype_cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What HCCL's process group calls for types that HCCL does not reduce."""
    return _on_aliases(torch.ops.aten._to_copy.default, tensor, dtype=dtype)


def _matmul_backward(
    grad: torch.Tensor, left: torch.Tensor, right: torch.Tensor, wanted: list[bool]
) -> tuple[torch.Tensor | None, ...]:
    """torch_npu's own backward pass of `matmul`, gradients of those that are wanted."""
    rows, columns = (left if left.dim() > 1 else left[None]), (right if right.dim() > 1 else right[:, None])
    if left.dim() == 1:
        grad = grad.unsqueeze(-2 if right.dim() > 1 else -1)
    if right.dim() == 1:
        grad = grad.unsqueeze(-1)
    of_left = (grad @ columns.mT).sum_to_size(rows.shape).reshape(left.shape) if wanted[0] else None
    of_right = (rows.mT @ grad).sum_to_size(columns.shape).reshape(right.shape) if wanted[1] else None
    return of_left, of_right


# Arguments of `npu_fusion_attention_v3` behind its layout, which may come without their names.
_ATTENTION = ("pse", "padding_mask", "atten_mask", "scale", "keep_prob", "pre_tockens", "next_tockens")
_ATTENTION += ("inner_precise", "prefix", "actual_seq_qlen", "actual_seq_kvlen", "sparse_mode")


def _named(names: tuple[str, ...], function: Any) -> Any:
    """`function` with what follows its first five arguments by name."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args[:5], **dict(zip(names, args[5:])), **kwargs)

    return call


_CAUSAL = 2  # `sparse_mode`: each row sees what is before it, counted from the left upper corner
_LANES = 8  # in which the chip's attention keeps a row's largest score, and the sum of its powers


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, head_num: int, input_layout: str, **settings: Any
) -> tuple[torch.Tensor, ...]:
    """What torch_npu makes of scaled_dot_product_attention: the result, what a backward pass needs, and the state of
    the random numbers, of which none are drawn.
    """
    scores = _scores(query, key, input_layout, settings)
    largest = scores.amax(-1, keepdim=True)
    powers = (scores - largest).exp()
    total = powers.sum(-1, keepdim=True)
    result = ((powers / total) @ value.float()).to(query.dtype)
    wide = (*scores.shape[:-1], _LANES)
    nothing = torch.empty(0, dtype=query.dtype, device=query.device)
    seed, offset = (torch.zeros(1, dtype=torch.int64, device=query.device) for _ in range(2))
    return result, largest.expand(wide).contiguous(), total.expand(wide).contiguous(), nothing, seed, offset


def _attention_backward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dy: torch.Tensor,
    head_num: int,
    input_layout: str,
    *,
    softmax_max: torch.Tensor,
    softmax_sum: torch.Tensor,
    attention_in: torch.Tensor,
    scale_value: float = 1.0,
    **settings: Any,
) -> tuple[torch.Tensor, ...]:
    """Gradients of query, key and value from what the forward pass kept."""
    scores = _scores(query, key, input_layout, {**settings, "scale": scale_value})
    weights = (scores - softmax_max[..., :1]).exp() / softmax_sum[..., :1]
    dy, attention = dy.float(), attention_in.float()
    of_scores = weights * (dy @ value.float().mT - (dy * attention).sum(-1, keepdim=True)) * scale_value
    gradients = of_scores @ key.float(), of_scores.mT @ query.float(), weights.mT @ dy
    none = (torch.zeros(shape, dtype=query.dtype, device=query.device) for shape in ((0,), ()))  # of pse and sink
    return *(gradient.to(query.dtype).contiguous() for gradient in gradients), *none


def _scores(query: torch.Tensor, key: torch.Tensor, input_layout: str, settings: dict[str, Any]) -> torch.Tensor:
    """Scaled scores in float32; minus infinity where the mask, in which True leaves a pair out, says so."""
    left_out = settings.get("atten_mask")
    if (
        input_layout != "BNSD"
        or settings.get("pse") is not None
        or settings.get("padding_mask") is not None
        or settings.get("keep_prob", 1.0) != 1.0
        or settings.get("sparse_mode", 0) not in (0, 1, _CAUSAL)
    ):
        raise NotImplementedError(f"the stand-in's attention: {input_layout}, {settings}")
    scores = query.float() @ key.float().mT * settings.get("scale", 1.0)
    if settings.get("sparse_mode", 0) == _CAUSAL:  # the mask that comes with it is for any size
        left_out = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1).to(scores.device)
    return scores if left_out is None else scores.masked_fill(left_out.bool(), float("-inf"))


def alias(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor over the device memory of `tensor`; whoever uses it waits for the device first."""
    bytes_ = tensor.untyped_storage().nbytes()
    if not bytes_:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
    address = tensor.untyped_storage().data_ptr()
    memory = torch.frombuffer((ctypes.c_char * bytes_).from_address(address), dtype=torch.uint8)
    empty = torch.empty(0, dtype=tensor.dtype)
    return empty.set_(memory.untyped_storage(), tensor.storage_offset(), tensor.size(), tensor.stride())


@contextlib.contextmanager
def _numbers_of(generator: torch.Generator | None, device: Any) -> Iterator[None]:
    """The CPU's random numbers follow from the state of the device's generator, which goes on, and are restored."""
    if generator is None:
        index = torch.device(device or "npu").index
        generator = torch.npu.default_generators[torch.npu.current_device() if index is None else index]
    state = generator.get_state()
    seed, offset = state.view(torch.int64).tolist()
    state.view(torch.int64)[1] = offset + 4
    generator.set_state(state)
    before = torch.get_rng_state()
    torch.default_generator.manual_seed((seed * 1_000_003 + offset) & (2**63 - 1))
    try:
        yield
    finally:
        torch.set_rng_state(before)


def _is_there(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "npu"


_TASK = ctypes.CFUNCTYPE(None, ctypes.c_int64)
_recorded: list[Any] = []  # calls of operators in graphs, for good: tests make few


@_TASK
def _run_recorded(number: int) -> None:
    _recorded[number]()


def _recorded_call(operator: Any, args: Any, kwargs: Any) -> Any:
    """In a capture: the results have memory now, and values whenever the graph is replayed."""
    if torch.Tag.nondeterministic_seeded in operator.tags:
        raise NotImplementedError(f"the stand-in captures no random operator ({operator})")
    device = next((value.device for value in tree_leaves((args, kwargs)) if _is_there(value)), None)
    device = device or torch.device("npu", torch.npu.current_device())
    metas: list[tuple[torch.Tensor, torch.Tensor]] = []

    def to_meta(value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device("meta")
        if not isinstance(value, torch.Tensor):
            return value
        metas.append((value, torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")))
        return metas[-1][1]

    def to_npu(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        given = next((given for given, meta in metas if meta is value), None)
        return (
            given
            if given is not None
            else torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)
        )

    meta_args, meta_kwargs = tree_map(to_meta, (args, kwargs))
    results = tree_map(to_npu, operator(*meta_args, **meta_kwargs))
    host_args, host_kwargs = tree_map(_to_host, (args, kwargs))
    places = [alias(value) for value in tree_leaves(results) if isinstance(value, torch.Tensor)]

    def run() -> None:
        with torch.no_grad():
            made = [
                value for value in tree_leaves(operator(*host_args, **host_kwargs)) if isinstance(value, torch.Tensor)
            ]
            for place, value in zip(places, made):
                if place.data_ptr() != value.data_ptr():
                    place.copy_(value)

    _recorded.append(run)
    push = ctypes.CDLL("libascendcl.so").standin_push
    push(
        ctypes.c_void_p(torch.npu.current_stream(device).npu_stream), _run_recorded, ctypes.c_int64(len(_recorded) - 1)
    )
    return results


def _to_host(value: Any) -> Any:
    if _is_there(value):
        return alias(value)
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _on_aliases(operator: Any, *args: Any, **kwargs: Any) -> Any:
    if torch.npu.is_current_stream_capturing():
        return _recorded_call(operator, args, kwargs)
    pairs: list[tuple[torch.Tensor, torch.Tensor]] = []

    def on_the_host(value: Any) -> Any:
        if _is_there(value):
            pairs.append((alias(value), value))
            return pairs[-1][0]
        if isinstance(value, torch.device) and value.type == "npu":
            return torch.device("cpu")
        return value

    device = kwargs.get("device")
    for index in {value.device.index for value in tree_leaves((args, kwargs)) if _is_there(value)}:
        torch.npu.current_stream(index).synchronize()
        torch.npu.synchronize(index)
    args, kwargs = tree_map(on_the_host, (args, kwargs))
    generator = kwargs.get("generator")
    if generator is not None:
        kwargs["generator"] = None
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradPrivateUse1)):
        if torch.Tag.nondeterministic_seeded in operator.tags:
            with _numbers_of(generator, pairs[0][1].device if pairs else device):
                result = operator(*args, **kwargs)
        else:
            result = operator(*args, **kwargs)
    if pairs:
        device = pairs[0][1].device
    elif device is None:
        device = torch.device("npu", torch.npu.current_device())

    def back(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        for on_host, given in pairs:
            if value is on_host:
                if given.shape != value.shape:  # an `out=` that was resized
                    given.resize_(value.shape)
                    alias(given).copy_(value)
                return given
        if value.device.type != "cpu":
            return value
        moved = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)
        alias(moved).copy_(value)
        return moved

    return tree_map(back, result)
