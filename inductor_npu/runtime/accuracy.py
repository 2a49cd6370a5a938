"""What a kernel does in accuracy mode: it runs beside its operators in eager, on copies of the same memory."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from inductor_npu.errors import AccuracyError
from inductor_npu.runtime.eager_kernels import flat, function_of

FOLDER = "npu_accuracy"  # in torch's folder for debugging (torch._dynamo.config.debug_dir_root)
INPUTS = "inputs.pt"

# What a result may differ by, relative to itself. Both compute in float32 where a type is narrower; what they store is
# rounded to the type. Long sums in another order are most of it for float32.
_RELATIVE = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
# Of the largest result of the same tensor, for those that are small differences.
_OF_LARGEST = 1e-2
# So many times what the results change by if each input changes by its last bit.
_OF_CHANGE = 16.0
_SHAKEN = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Difference:
    """Where a kernel's memory differs: the argument's name and type, how many elements of how many, and the first of
    them with what it is, what eager has, and what it may differ by.
    """

    argument: str
    dtype: torch.dtype
    different: int
    elements: int
    index: int
    actual: Any
    expected: Any
    allowed: float


class ComparedKernel:
    """Stands where a compiled kernel would: same name, same `run`, which raises AccuracyError where the kernel and its
    operators in eager differ.

    `function` is the kernel's name in its own module `source`; `operators_source` is the stand-in's; `lines` are the
    user's.
    """

    def __init__(
        self,
        kernel: Any,
        name: str,
        function: str,
        operators: str,
        lines: Sequence[str],
        source: str,
        operators_source: str,
    ) -> None:
        self._kernel, self.name, self.function, self.operators = kernel, name, function, operators
        self.lines, self.source, self.operators_source = lines, source, operators_source
        self._eager = function_of(name, operators_source)

    def run(self, *args: Any, stream: int = 0, **kwargs: Any) -> None:
        """Launches the kernel, waits for it, and compares what it wrote."""
        if hasattr(self._kernel, "result"):  # compiled, in the shape that Inductor hands it on
            self._kernel = self._kernel.result()
        inputs = copies(args)
        self._kernel.run(*args, stream=stream, **kwargs)
        difference = difference_from(self._eager, inputs, args)
        if difference is not None:
            raise AccuracyError(
                kernel=self.name,
                operators=self.operators or "no operators",
                lines="\n".join(self.lines) or "(source lines unknown)",
                folder=self._save(inputs),
                **vars(difference),
            )

    def _save(self, inputs: Sequence[Any]) -> Path:
        from torch._dynamo import config as dynamo_config

        root = Path(dynamo_config.debug_dir_root) / FOLDER
        root.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=root)).resolve()
        torch.save(copies(inputs, "cpu"), folder / INPUTS)
        (folder / "reproduce.py").write_text(
            f'"""Kernel {self.name} ({self.operators}) on the inputs with which it differed from eager."""\n\n'
            "from pathlib import Path\n\n"
            "from inductor_npu.runtime.accuracy import reproduce\n\n"
            f"KERNEL = r'''\n{self.source}'''\n\nOPERATORS = r'''\n{self.operators_source}'''\n\n"
            'if __name__ == "__main__":\n'
            f'    inputs = Path(__file__).with_name("{INPUTS}")\n'
            f"    reproduce({self.name!r}, {self.function!r}, KERNEL, OPERATORS, inputs)\n"
        )
        return folder


def reproduce(name: str, function: str, source: str, operators_source: str, inputs: Path) -> None:
    """Runs a kernel and its operators on saved inputs and prints whether, and where, they differ."""
    from inductor_npu.runtime.async_compile import NpuAsyncCompile

    saved = torch.load(inputs, weights_only=True)
    args = copies(saved, "npu")
    kernel = NpuAsyncCompile().triton(function, source, device_str="npu")
    kernel.run(*args, stream=torch.npu.current_stream().npu_stream)
    difference = difference_from(function_of(name, operators_source), copies(saved, "npu"), args)
    print("no difference" if difference is None else difference)


def copies(args: Sequence[Any], device: str | None = None) -> list[Any]:
    """`args` with copies of all memory, on `device` if it is given; tensors that shared memory share it again."""
    storages: dict[int, torch.UntypedStorage] = {}

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in storages:
            whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
            storages[key] = whole.to(device or tensor.device, copy=True).untyped_storage()
        empty = torch.empty(0, dtype=tensor.dtype, device=storages[key].device)
        return empty.set_(storages[key], tensor.storage_offset(), tensor.size(), tensor.stride())

    return [copy(arg) if isinstance(arg, torch.Tensor) else arg for arg in args]


def difference_from(eager: Any, inputs: Sequence[Any], results: Sequence[Any]) -> Difference | None:
    """Where the memory of `results`, on which a kernel has run, differs from what the function `eager` makes of
    `inputs`; None if it does not differ beyond the rounding of its types.
    """
    expected, shaken = copies(inputs), _shaken(inputs)
    eager(*expected)
    eager(*shaken)
    names = list(inspect.signature(eager).parameters)
    for name, result, *others in zip(names, results, expected, shaken, inputs):
        if isinstance(result, torch.Tensor):
            found = _difference(name, *(flat(tensor).cpu() for tensor in (result, *others)))
            if found is not None:
                return found
    return None


def _shaken(inputs: Sequence[Any]) -> list[Any]:
    """Copies of `inputs` in which each floating-point number is off by its last bit, up or down."""
    generator = torch.Generator().manual_seed(0)
    shaken = copies(inputs)
    done: set[int] = set()
    for tensor in shaken:
        if isinstance(tensor, torch.Tensor) and tensor.dtype in _SHAKEN and tensor.numel():
            memory = flat(tensor)
            if (place := memory.data_ptr()) not in done:
                done.add(place)
                sign = torch.randint(0, 2, memory.shape, generator=generator) * 2 - 1
                factor = 1 + sign * torch.finfo(tensor.dtype).eps
                memory.mul_(factor.to(tensor.dtype).to(memory.device))
    return shaken


def _upper_quartile(numbers: torch.Tensor) -> float:
    """What three quarters of `numbers` are not above. Of the results of a kernel some do not change when its inputs do,
    because what two inputs changed by cancels.
    """
    count = numbers.numel()
    return float(numbers.kthvalue(max(1, count * 3 // 4)).values) if count else 0.0


def _difference(
    name: str, result: torch.Tensor, expected: torch.Tensor, shaken: torch.Tensor, before: torch.Tensor
) -> Difference | None:
    """Of one argument's memory, as one axis. What neither of the two has written is as it was `before`."""
    dtype = result.dtype
    if dtype.is_floating_point:
        result, expected, shaken, before = (tensor.double() for tensor in (result, expected, shaken, before))
    written = (expected != before) | (result != before)
    if dtype.is_floating_point:
        finite = expected[written & expected.isfinite()].abs()
        relative = _RELATIVE.get(dtype, 0.25)  # 8 bits: two or three of them are the number's own
        floor = relative * _OF_LARGEST * (float(finite.max()) if finite.numel() else 0.0)
        change = (shaken - expected).abs().nan_to_num(posinf=0.0)
        allowed = relative * expected.abs() + _OF_CHANGE * change.clamp(min=_upper_quartile(change[written])) + floor
        same = (result == expected) | (result.isnan() & expected.isnan())
        # What is not finite must be so in both, unless the last bit of an input decides that.
        undecided = shaken.isfinite() != expected.isfinite()
        bad = written & ~same & ~undecided & ~((result - expected).abs() <= allowed)
    else:
        allowed = torch.zeros(result.shape, dtype=torch.float64)
        bad = written & (result != expected) & (shaken == expected)
    if not bool(bad.any()):
        return None
    index = int(bad.nonzero()[0])
    return Difference(
        name,
        dtype,
        int(bad.sum()),
        int(written.sum()),
        index,
        result[index].item(),
        expected[index].item(),
        float(allowed[index]),
    )
