# ruff: noqa: N802 (sympy finds a printer's methods by the names of its classes)
"""Writes the eager stand-in of a kernel: its loops as torch operators, for a kernel that the Triton compiler refuses.

Inductor's loop bodies consist of loads and stores at index expressions, about a hundred pointwise operations,
reductions and scans. Each becomes one torch operator over the whole loop nest. The stand-in has the name and the
arguments of the kernel, so the rest of the graph does not change. It computes the same values: fp16 and bf16 are
computed in fp32, and a load sees memory as it was before the kernel, unless an earlier loop of the kernel stored
there. A loop body that cannot be expressed so is an error, because no result is better than a wrong one.
"""

from __future__ import annotations

import copy
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import RemovedArg
from torch._inductor.ops_handler import DefaultHandler
from torch._inductor.runtime.triton_compat import OutOfResources
from torch._inductor.utils import get_fused_kernel_name
from torch._inductor.virtualized import V
from torch.utils._sympy.printers import PythonPrinter

from inductor_npu import config
from inductor_npu.errors import KernelCompileError, NpuError

_COMPUTED_IN_FP32 = (torch.float16, torch.bfloat16)

# Operations of the loop language whose torch namesake has another name or spelling.
_SPELLING = {
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "mul_rn": "({0} * {1})",
    "neg": "(-{0})",
    "truediv": "torch.true_divide({0}, {1})",
    "int_truediv": "torch.true_divide({0}, {1})",
    "div_rn": "torch.true_divide({0}, {1})",
    "floordiv": "torch.div({0}, {1}, rounding_mode='floor')",
    "truncdiv": "torch.div({0}, {1}, rounding_mode='trunc')",
    "mod": "torch.fmod({0}, {1})",
    "fma": "({0} * {1} + {2})",
    "identity": "{0}",
    "and_": "({0} & {1})",
    "or_": "({0} | {1})",
    "xor": "({0} ^ {1})",
    "lshift": "({0} << {1})",
    "rshift": "({0} >> {1})",
    "where": "torch.where({0}, {1}, {2})",
    "trunc_to_int": "torch.trunc({0}).to({1})",
    "ceil_to_int": "torch.ceil({0}).to({1})",
    "floor_to_int": "torch.floor({0}).to({1})",
    "round_to_int": "torch.round({0}).to({1})",
    "erfcx": "torch.special.erfcx({0})",
}

# Random numbers have to be those of the compiled kernels that use the same seed (a mask drawn forward is drawn again
# backward).
_REFUSED = frozenset(
    {
        "rand",
        "randn",
        "randint64",
        "rand_eager",
        "randn_eager",
        "load_seed",
        "bucketize",
        "inline_asm_elementwise",
    }
)

_REDUCTIONS = {
    "sum": "{0}.sum({1}, keepdim=True, dtype={2})",
    "max": "torch.amax({0}, {1}, keepdim=True)",
    "min": "torch.amin({0}, {1}, keepdim=True)",
    "argmax_value": "torch.amax({0}, {1}, keepdim=True)",
    "argmin_value": "torch.amin({0}, {1}, keepdim=True)",
    "any": "({0} != 0).any({1}, keepdim=True)",
}


_FRAME = ("///---", "[INFO]")  # what Ascend's Triton puts around the message of a compiler's stage


class UnsupportedError(Exception):
    """The loops contain an operation without an eager form; the message names it."""


def replace(kernel: Any, name: str, failure: Exception) -> str:
    """Returns the source of an expression that creates the eager stand-in of `kernel`, which does not compile because
    of `failure`.

    Raises KernelCompileError if `config.strict` is set, or if the loops have no eager form.
    """
    operators, reason = _operators_of(kernel), reason_of(failure)
    if config.strict:
        hint = "; unset INDUCTOR_NPU_STRICT to run its operators in eager"
        raise KernelCompileError(
            kernel=name, operators=operators, reason=reason, why="strict mode is on", hint=hint
        ) from failure
    try:
        source = _text(kernel, name)
    except UnsupportedError as why:
        raise KernelCompileError(kernel=name, operators=operators, reason=reason, why=why, hint="") from failure
    _import_runtime()
    return f"EagerKernel({name!r}, {operators!r}, {reason!r}, '''\n{source}''')"


def source_of(kernel: Any, name: str) -> str:
    """Returns the source of a function `name` that computes `kernel`, which no Triton kernel can, with eager operators.

    Raises KernelCompileError if the loops have no eager form.
    """
    try:
        return _text(kernel, name)
    except UnsupportedError as why:
        reason = kernel.why_in_eager
        raise KernelCompileError(kernel=name, operators=_operators_of(kernel), reason=reason, why=why, hint="") from why


def made_of(kernel: Any, name: str, source: str) -> str:
    """Returns the source of an expression that creates the stand-in of `kernel` from `source`, the text of its function
    `name` (`source_of`).
    """
    _import_runtime()
    arguments = f"{name!r}, {_operators_of(kernel)!r}, {kernel.why_in_eager!r}, '''\n{source}''', warns=False"
    return f"EagerKernel({arguments})"


def _text(kernel: Any, name: str) -> str:
    """The source of the function: a kernel that has no loops of Inductor's writes its own."""
    writer = EagerWriter(kernel, name)
    write = getattr(kernel, "write_eager", None)
    return writer.write(kernel.features.scheduler_nodes()) if write is None else write(writer)


def _operators_of(kernel: Any) -> str:
    # A kernel over a list of tensors (an optimizer's step) has a part for each.
    nodes = [*kernel.features.scheduler_nodes()] or kernel.nodes
    return get_fused_kernel_name(nodes, "original_aten").removeprefix("fused_").replace("_", " ").strip()


def _import_runtime() -> None:
    V.graph.wrapper_code.add_import_once("from inductor_npu.runtime.eager_kernels import EagerKernel")


def written(kernel: Any, name: str) -> str | None:
    """Returns the source of a function `name` that computes the complete `kernel` with eager operators on the same
    arguments; None if its loops have no eager form, or are not comparable with it. The kernel itself does not change.
    """
    if getattr(kernel, "rounds_inside", False):
        return None  # the stand-in does not, and nobody knows by how much sums of what is rounded may differ
    arguments = kernel.args
    kernel.args = copy.copy(arguments)
    for field, value in vars(arguments).items():
        if isinstance(value, (dict, list)):
            setattr(kernel.args, field, copy.copy(value))
    try:
        source = _text(kernel, name)
        same = [a.name for a in kernel.args.python_argdefs()[0]] == [a.name for a in arguments.python_argdefs()[0]]
    except UnsupportedError:
        return None
    finally:
        kernel.args = arguments
    return source if same else None


def reason_of(failure: Exception) -> str:
    """Returns the message of `failure` in one line: the last line of Triton's error, which follows the source position;
    the first line of LLVM's; and the first line of a tile that does not fit, which the largest tiles follow.
    """
    lines = [line.strip() for line in str(failure).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(_FRAME)] or lines or [""]
    if diagnoses := [line for line in lines if ": error: " in line]:
        lines = diagnoses
    return f"{type(failure).__name__}: {lines[0 if isinstance(failure, (NpuError, OutOfResources)) else -1]}"


class _IndexPrinter(PythonPrinter):
    """Prints index expressions whose symbols may be tensors: min, max and conditions become calls."""

    def _print_Max(self, expr: sympy.Expr) -> str:
        return f"largest({', '.join(map(self._print, expr.args))})"

    def _print_Min(self, expr: sympy.Expr) -> str:
        return f"smallest({', '.join(map(self._print, expr.args))})"

    def _print_Where(self, expr: sympy.Expr) -> str:
        return f"torch.where({', '.join(map(self._print, expr.args))})"

    def _print_Piecewise(self, expr: sympy.Expr) -> str:
        raise UnsupportedError(f"index expression {expr}")

    def _print_And(self, expr: sympy.Expr) -> str:
        return " & ".join(f"({self._print(arg)})" for arg in expr.args)

    def _print_Or(self, expr: sympy.Expr) -> str:
        return " | ".join(f"({self._print(arg)})" for arg in expr.args)


class EagerWriter(DefaultHandler):
    """An ops handler that writes one Python statement for each operation; values are names of local variables."""

    def __init__(self, kernel: Any, name: str) -> None:
        self.kernel = kernel
        self.name = name
        self.lines: list[str] = []
        self.epilogue: list[str] = []
        self.stored: dict[str, str] = {}
        self.before: dict[str, str] = {}
        self.count = 0
        self.inside_mask = False
        self.shape = ""
        self.rank = 0
        self.reduced = 0

    # --- one function for the whole kernel ---

    def write(self, nodes: Sequence[Any]) -> str:
        """Returns the source of the function: the loop nest of each node in order, with stores in program order."""
        for node in nodes:
            for leaf in node.get_nodes():
                self._loop_nest(leaf)
        return self.finished()

    def finished(self) -> str:
        """The source of the function with the lines that are written."""
        parameters = [definition.name for definition in self.kernel.args.python_argdefs()[0]]
        parameters += [f"{tree.prefix}numel" for tree in self.kernel.active_range_trees()]
        body = "\n".join([*self._prologue(parameters), *self.lines])
        return f"def {self.name}({', '.join(parameters)}):\n{textwrap.indent(body, '    ')}\n"

    def _prologue(self, parameters: Sequence[str]) -> list[str]:
        device = next((name for name in parameters if "ptr" in name), None)
        if device is None:
            raise UnsupportedError("a kernel without tensors")
        snapshots = [f"{local} = memory_like({argument})" for argument, local in self.before.items()]
        return [f"device = {device}.device", *snapshots]

    def _loop_nest(self, node: Any) -> None:
        iteration, reduction = (list(sizes) for sizes in node.get_ranges())
        sizes = [*iteration, *reduction]
        self.rank, self.reduced = len(sizes), len(reduction)
        self.iteration_shape = self._tuple([*map(self.index_text, iteration), *["1"] * self.reduced])
        self.shape = self._tuple(map(self.index_text, sizes))
        variables = []
        for position, size in enumerate(sizes):
            variable = self._assign(f"axis({self.index_text(size)}, {position}, {self.rank}, device)", prefix="i")
            variables.append(sympy.Symbol(variable, integer=True, nonnegative=True))
        with V.set_ops_handler(self), V.set_kernel_handler(self.kernel):
            node._body(variables[: len(iteration)], variables[len(iteration) :])

    # --- lines and names ---

    def _assign(self, expression: str, prefix: str = "v") -> str:
        self.count += 1
        variable = f"{prefix}{self.count}"
        self.lines.append(f"{variable} = {expression}")
        return variable

    def index_text(self, expression: Any) -> str:
        """An index expression as Python text."""
        expression = self.kernel.rename_indexing(sympy.sympify(expression))
        return _IndexPrinter().doprint(expression)

    @staticmethod
    def _tuple(parts: Any) -> str:
        return "(" + "".join(f"{part}, " for part in parts) + ")"

    def _full(self, value: str) -> str:
        return f"{value}.expand({self.shape})"

    @staticmethod
    def _compute_type(dtype: torch.dtype) -> torch.dtype:
        return torch.float32 if dtype in _COMPUTED_IN_FP32 else dtype

    # --- memory ---

    def load(self, name: str, index: sympy.Expr) -> str:
        if V.graph.is_unspec_arg(name):
            dtype = self._compute_type(V.graph.get_dtype(name))
            return self._assign(f"torch.tensor({self.kernel.args.input(name)}, dtype={dtype}, device=device)")
        value = f"gather({self._memory(name)}, {self.index_text(index)}, {self.inside_mask})"
        dtype = V.graph.get_dtype(name)
        return self._assign(f"{value}.float()" if dtype in _COMPUTED_IN_FP32 else value)

    def _memory(self, name: str) -> str:
        """The flat memory of `name`: what this kernel stored there, otherwise the contents before the kernel."""
        if name in self.stored:
            return self.stored[name]
        argument = self._argument(name) or self.kernel.args.input(name)
        return self.before.setdefault(argument, f"before_{argument}")

    def _argument(self, name: str) -> str | None:
        name = V.graph.scheduler.mutation_real_name.get(name, name)
        return self.kernel.args.arg_name(name)

    def store(self, name: str, index: sympy.Expr, value: str, mode: str | None = None) -> None:
        if mode not in (None, "atomic_add"):
            raise UnsupportedError(f"a store with mode {mode}")
        self._scatter(name, index, value, self.shape, accumulate=mode == "atomic_add")

    def store_reduction(self, name: str, index: sympy.Expr, value: str) -> None:
        self._scatter(name, index, value, self.iteration_shape, accumulate=False)

    def _scatter(self, name: str, index: sympy.Expr, value: str, shape: str, accumulate: bool) -> None:
        if value is None:
            return  # an assertion stores nothing: its buffer only orders it among the other loops
        where = self.index_text(index)
        argument = self._argument(name)
        gone = (V.graph.removed_buffers, V.graph.inplaced_to_remove, self.kernel.inplaced_to_remove)
        removed = isinstance(self.kernel.args.output_buffers.get(name), RemovedArg) or any(name in one for one in gone)
        if argument is not None and not removed:
            self.lines.append(f"scatter(flat({argument}), {where}, {value}, {shape}, {accumulate})")
        if accumulate:
            return  # what an atomic store leaves is only defined when the kernel has ended: nothing in it may load it
        dtype = V.graph.get_dtype(name)
        if name not in self.stored:
            memory = f"{self._flat_size(name)}, dtype={dtype}, device=device"
            start = f"memory_like({argument})" if argument is not None and not removed else f"torch.zeros({memory})"
            self.stored[name] = self._assign(start, prefix="stored")
        self.lines.append(f"scatter({self.stored[name]}, {where}, {value}, {shape}, False)")
        for changed in V.graph.scheduler.name_to_buf[name].get_mutations():
            self.stored[changed] = self.stored[name]  # later loops load what was changed in place by its first name

    def _flat_size(self, name: str) -> str:
        layout = V.graph.get_buffer(name).get_layout()
        last = sum((size - 1) * stride for size, stride in zip(layout.size, layout.stride))
        return self.index_text(sympy.Max(0, last + layout.offset) + 1)

    # --- values ---

    def constant(self, value: Any, dtype: torch.dtype) -> str:
        return self._assign(f"torch.tensor({value!r}, dtype={self._compute_type(dtype)}, device=device)")

    def index_expr(self, expr: sympy.Expr, dtype: torch.dtype) -> str:
        return self._assign(f"as_index({self.index_text(expr)}, device).to({self._compute_type(dtype)})")

    value_expr = index_expr

    def indirect_indexing(self, index_var: str, size: Any, check: bool = True, wrap_neg: bool = True) -> sympy.Symbol:
        length = self.index_text(size)
        if wrap_neg:
            index_var = self._assign(f"torch.where({index_var} < 0, {index_var} + {length}, {index_var})")
        if check and not self.inside_mask:
            message = f"index out of bounds: 0 <= index < {length} in kernel {self.name}"
            self.lines.append(f"check(({index_var} >= 0) & ({index_var} < {length}), {message!r})")
        return sympy.Symbol(index_var, integer=True)

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        """Does nothing: an eager operator checks its own indices."""

    def device_assert_async(self, cond: str, msg: str) -> None:
        self.lines.append(f"check({cond}, {msg!r})")

    def to_dtype(
        self, x: str, dtype: torch.dtype, src_dtype: torch.dtype | None = None, use_compute_types: bool = True
    ) -> str:
        return self._assign(f"{x}.to({self._compute_type(dtype) if use_compute_types else dtype})")

    def to_dtype_bitcast(self, x: str, dtype: torch.dtype, src_dtype: torch.dtype) -> str:
        value = self._assign(f"{x}.to({src_dtype}).view({dtype})")
        return self._assign(f"{value}.to({self._compute_type(dtype)})")

    def bucketize(
        self,
        values: str,
        boundaries: tuple[str, Any, Any, Any],
        boundary_indices: str,
        indexing_dtype: torch.dtype,
        right: bool,
        sorter: tuple[str, Any] | None = None,
        sorter_indices: str | None = None,
    ) -> str:
        if sorter is not None:
            raise UnsupportedError("bucketize with a sorter")
        name, count, _, stride = boundaries
        where = f"{self._memory(name)}, {self.index_text(count)}, {self.index_text(stride)}, {boundary_indices}"
        return self._assign(f"bucket({values}, {where}, {right}).to({indexing_dtype})")

    def masked(self, mask: str, body: Callable[[], str], other: Any) -> str:
        outside, self.inside_mask = self.inside_mask, True
        value = body()
        self.inside_mask = outside
        return self._assign(
            f"torch.where({mask}, {value}, torch.tensor({other!r}, dtype={value}.dtype, device=device))"
        )

    def frexp(self, x: str) -> tuple[str, str]:
        both = self._assign(f"torch.frexp({x})")
        return f"{both}[0]", f"{both}[1]"

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """A pointwise operation: its own spelling, else the operator of that name in torch or torch.special."""
        if name in _REFUSED:
            raise UnsupportedError(f"the operation {name}")
        if name in _SPELLING:
            return self._assign(_SPELLING[name].format(*args))
        for module in ("torch", "torch.special"):
            if hasattr(torch if module == "torch" else torch.special, name):
                return self._assign(f"{module}.{name}({', '.join(map(str, args))})")
        raise UnsupportedError(f"the operation {name}")

    # --- reductions, scans, sorts ---

    def _axes(self) -> str:
        return self._tuple(range(self.rank - self.reduced, self.rank))

    def dot(self, left: str, right: str) -> tuple[str, str]:
        """The products of two values, which the reduction around them sums."""
        return left, right

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: str, value: Any) -> Any:
        if reduction_type == "dot":
            left, right = value
            return self._assign(f"contraction({left}, {right}, {self.reduced}, {self._compute_type(dtype)})")
        values = value if isinstance(value, tuple) else (value,)
        full = [self._full(part) for part in values]
        if reduction_type in _REDUCTIONS:
            return self._assign(_REDUCTIONS[reduction_type].format(full[0], self._axes(), self._compute_type(dtype)))
        if reduction_type in ("prod", "xor_sum"):
            operator = "*" if reduction_type == "prod" else "^"
            return self._assign(f"fold(lambda a, b: (a[0] {operator} b[0],), ({full[0]},), {self.reduced})[0]")
        known = f", {full[1]}" if len(full) > 1 else ""  # positions in the order of the tensor
        if reduction_type in ("argmax", "argmin"):
            return self._assign(f"argument({full[0]}, {self.reduced}, {reduction_type == 'argmax'}{known})")
        if reduction_type in ("argmax_with_value", "argmin_with_value"):
            extreme = "max" if reduction_type.startswith("argmax") else "min"
            best = self._assign(_REDUCTIONS[extreme].format(full[0], self._axes(), None))
            return best, self._assign(f"argument({full[0]}, {self.reduced}, {extreme == 'max'}{known})")
        if reduction_type == "online_softmax_reduce":
            return self._parts(f"softmax_parts({full[0]}, {self._axes()})", 2)
        if reduction_type == "welford_reduce":
            return self._parts(f"welford({full[0]}, {self.reduced})", 3)
        if reduction_type == "welford_combine":
            return self._parts(f"fold(welford_step, {self._tuple(full)}, {self.reduced})", 3)
        raise UnsupportedError(f"the reduction {reduction_type}")

    def _parts(self, expression: str, count: int) -> tuple[str, ...]:
        whole = self._assign(expression)
        return tuple(f"{whole}[{part}]" for part in range(count))

    def scan(self, dtypes: Any, combine_fn: Callable[..., Any], values: tuple[str, ...]) -> tuple[str, ...]:
        combine = self._function(combine_fn, len(values))
        full = self._tuple(map(self._full, values))
        return self._parts(f"scan({combine}, {full}, {self.reduced})", len(values))

    def _function(self, combine_fn: Callable[..., Any], count: int) -> str:
        """A local function of two tuples that does what `combine_fn` does with operations."""
        outer, self.lines = self.lines, []
        result = combine_fn(tuple(f"a[{i}]" for i in range(count)), tuple(f"b[{i}]" for i in range(count)))
        body, self.lines = [*self.lines, f"return {self._tuple(result)}"], outer
        self.count += 1
        name = f"combine{self.count}"
        self.lines += [f"def {name}(a, b):", *(f"    {line}" for line in body)]
        return name

    def sort(self, dtypes: Any, values: tuple[str, ...], stable: bool, descending: bool) -> tuple[str, ...]:
        full = self._tuple(map(self._full, values))
        return self._parts(f"sort({full}, {self.reduced}, {stable}, {descending})", len(values))
