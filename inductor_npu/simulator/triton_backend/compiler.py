"""NpuBackend: Triton's compiler for target `npu`, from Triton's IR to native code of the host."""

from __future__ import annotations

import functools
import hashlib
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Any

from triton._C.libtriton import ir, passes
from triton.backends.compiler import BaseBackend, GPUTarget

from ...diagnostics.compile_time.phases import Phase, timed
from ...target import NpuTarget, get_target
from ...triton_npu.ascend_options import AscendOptions
from ..memory_check import is_checked
from . import launch_record
from .host_functions import sort_of

BACKEND = "npu"
LARGEST_TILES = 5  # that many are kept for the message of a kernel that does not fit


@dataclass(frozen=True)
class NpuOptions(AscendOptions):
    """Options of one compilation. Those below `opt_level` exist because Triton, Inductor or autotune configurations of
    other targets pass or read them; they change nothing here.

    `debug` keeps device_assert; `enable_fp_fusion` lets a * b + c round once (by default as TRITON_DEFAULT_FP_FUSION
    says); `distinct_arguments` promises that a tensor that the kernel writes reaches it through one argument only;
    `exclusive` that, while the kernel runs, nobody else writes what it adds to by atomics;
    `record` makes the kernel count what it does (see `launch_record.py`), `checked` have it checked (see
    `checked_launch.py`); `opt_level` (0 to 3) is that of `object_code.compile_object`.
    """

    arch: str = ""
    debug: bool = False
    sanitize_overflow: bool = True
    default_dot_input_precision: str = "ieee"
    allowed_dot_input_precisions: tuple[str, ...] = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6", "hf32")
    supported_fp8_dtypes: tuple[str, ...] = ("fp8e4nv", "fp8e5")
    deprecated_fp8_dtypes: tuple[str, ...] = ()
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    max_num_imprecise_acc_default: int = 0
    enable_fp_fusion: bool = True
    distinct_arguments: bool = False
    exclusive: bool = False
    record: bool = False
    checked: bool = False
    opt_level: int = 1
    num_warps: int = 1
    num_stages: int = 1
    num_ctas: int = 1
    warp_size: int = 1
    cluster_dims: tuple[int, int, int] = (1, 1, 1)
    maxnreg: int | None = None
    min_shared_mem: int | None = None
    sched4reg: bool = False
    clc: bool = False
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    extern_libs: tuple[tuple[str, str], ...] = ()
    allow_fp8e4nv: bool = True
    allow_fp8e4b15: bool = False
    ir_override: str | None = None
    instrumentation_mode: str = ""
    fpsan_homomorphic_casts: bool = False
    backend_name: str = BACKEND

    def hash(self) -> str:
        """A digest of every option, for Triton's cache key."""
        return hashlib.sha256(repr(sorted(asdict(self).items())).encode()).hexdigest()


class NpuBackend(BaseBackend):
    """Compiles for the embedded NPU. `target.arch` is the name of an NpuTarget, such as Ascend910B3."""

    binary_ext = "obj"
    supports_native_tensor_specialization = True

    def __init__(self, target: GPUTarget) -> None:
        super().__init__(target)
        self.binary_ext = "obj"
        self._npu: NpuTarget = get_target(str(target.arch))
        _install_cache_manager()

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == BACKEND

    def hash(self) -> str:
        """A digest of this backend's source, the toolchain, the host's CPU and the target's facts."""
        return _identity(self._npu)

    def parse_options(self, opts: dict[str, Any]) -> NpuOptions:
        """The options that exist here out of `opts`; Triton itself reports unknown ones."""
        known = {field.name for field in fields(NpuOptions)}
        given = {name: value for name, value in opts.items() if name in known and value is not None}
        for name, value in given.items():
            if isinstance(value, list):
                given[name] = tuple(value)
        if isinstance(given.get("extern_libs"), dict):
            given["extern_libs"] = tuple(given["extern_libs"].items())
        given.setdefault("record", launch_record.is_counting())
        given.setdefault("checked", is_checked())
        given.setdefault("enable_fp_fusion", os.environ.get("TRITON_DEFAULT_FP_FUSION", "1") == "1")
        return NpuOptions(**{**given, "arch": self._npu.name})

    def pack_metadata(self, metadata: Any) -> tuple[int, int, int]:
        """What launch hooks get with every launch."""
        return metadata.num_warps, metadata.num_ctas, metadata.shared

    def get_codegen_implementation(self, options: NpuOptions | None = None) -> dict[str, Any]:
        """Target-specific answers for Triton's front end: dot takes operands of any size."""
        return {"min_dot_size": lambda lhs_type, rhs_type: (1, 1, 1)}

    def get_module_map(self) -> dict[str, ModuleType]:
        from . import libdevice

        return {"triton.language.extra.libdevice": libdevice}

    def load_dialects(self, context: Any) -> None:
        """TTIR's dialects, which Triton loads itself, are all that is needed."""

    def add_stages(self, stages: dict[str, Any], options: NpuOptions, language: Any = None) -> None:
        """ttir (Triton's passes), llir (text of the LLVM module), obj (object code with its header)."""
        if language is not None and getattr(language, "name", "TRITON") != "TRITON":
            raise NotImplementedError(f"{language.name.lower()} kernels are not supported on npu; write them in Triton")
        stages["ttir"] = lambda module, metadata: make_ttir(module)

        def llir(module: Any, metadata: dict[str, Any]) -> str:
            with timed(Phase.LLVM_IR):
                return _make_llir(module, metadata, options, self._npu)

        def obj(text: str, metadata: dict[str, Any]) -> bytes:
            with timed(Phase.LLVM):
                return _make_object(text, metadata, options)

        stages["llir"], stages["obj"] = llir, obj


# Triton's own simplifications, in order; a version of Triton lacks those that it does not need. Block pointers and
# tensor descriptors become plain pointers with masks.
_TTIR_PASSES = (
    (passes.common, "add_inliner"),
    (passes.ttir, "add_rewrite_tensor_pointer"),  # up to Triton 3.8
    (passes.ttir, "add_rewrite_tensor_descriptor_to_pointer"),  # from Triton 3.4 on
    (passes.common, "add_canonicalizer"),
    (passes.ttir, "add_combine"),
    (passes.ttir, "add_reorder_broadcast"),
    (passes.common, "add_cse"),
    (passes.ttir, "add_triton_licm"),  # from Triton 3.3 on; also hoists loads
    (passes.common, "add_licm"),
    (passes.common, "add_symbol_dce"),
    (passes.ttir, "add_loop_unroll"),
)


def make_ttir(module: Any) -> Any:
    """Triton's own simplifications of a module, in place."""
    _keep_calls(module)
    manager = ir.pass_manager(module.context)
    manager.enable_debug()
    for group, name in _TTIR_PASSES:
        if hasattr(group, name):
            getattr(group, name)(manager)
    _run(manager, module)
    return module


def _keep_calls(module: Any) -> None:
    """Has Triton leave calls of what the host does by a function of its runtime."""
    names: list[str] = []

    def note(operation: Any) -> None:
        if operation.get_name() == "tt.func":
            names.append(operation.get_str_attr("sym_name"))

    module.walk(note)
    for name in names:
        if sort_of(name) is not None:
            module.get_function(name).set_attr("noinline", ir.builder(module.context).get_bool_attr(True))


def _run(manager: Any, module: Any) -> None:
    if _passes_take_a_name():
        manager.run(module, "make_ttir")
    else:
        manager.run(module)


@functools.cache
def _passes_take_a_name() -> bool:
    """Whether `run` wants a name for reproducers, as it does from Triton 3.5 on."""
    return "str" in (ir.pass_manager.run.__doc__ or "")


def _make_llir(module: Any, metadata: dict[str, Any], options: NpuOptions, target: NpuTarget) -> str:
    """TTIR to LLVM IR. Fills the metadata that loading the kernel needs."""
    from .checked_launch import access_records
    from .codegen import generate
    from .codegen.errors import UnsupportedOperation
    from .errors import comment_above, tile_record, unsupported_operation
    from .ttir import budget, parser
    from .ttir.passes import simplify

    text = str(module)
    parsed = parser.parse(text)
    name = parsed.kernel.name
    has_calls = any(sort_of(function) is not None for function in parsed.functions)
    simplify(parsed)
    footprint = budget.footprint(parsed.kernel, target)
    if has_calls:  # the chip has no such functions: its footprint is that of all operations
        parsed = parser.parse(text)
        simplify(parsed, with_host_functions=True)
    try:
        kernel = generate(parsed, options, target.max_grid)
    except UnsupportedOperation as error:
        raise unsupported_operation(name, error.op_name, error.line, error.reason) from error
    metadata.update(
        name=name,
        shared=footprint.unified_buffer,
        l1=footprint.l1,
        l0c=footprint.l0c,
        rows_shared=footprint.is_shared,
        largest_tiles=[tile_record(tile) for tile in footprint.largest[:LARGEST_TILES]],
        largest_in_l1=[tile_record(tile) for tile in footprint.largest_in_l1[:LARGEST_TILES]],
        largest_in_l0c=[tile_record(tile) for tile in footprint.largest_in_l0c[:LARGEST_TILES]],
        entry=kernel.entry,
        scratch_bytes=kernel.scratch_bytes,
        work_per_program=kernel.work_per_program,
        messages=list(kernel.messages),
    )
    if options.checked:
        metadata["accesses"] = access_records(kernel.accesses)
        metadata["operators"] = comment_above(parsed.kernel.line)
    return kernel.llvm_ir


def _make_object(text: str, metadata: dict[str, Any], options: NpuOptions) -> bytes:
    from .kernel_file import KernelFile
    from .object_code import compile_object

    return KernelFile(
        object_code=compile_object(text, options.opt_level),
        entry=metadata["entry"],
        scratch_bytes=metadata["scratch_bytes"],
        work_per_program=metadata["work_per_program"],
        messages=tuple(metadata["messages"]),
    ).pack()


@functools.cache
def _identity(target: NpuTarget) -> str:
    from .object_code import toolchain

    digest = hashlib.sha256(repr((toolchain(), target)).encode())
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _cache_knobs() -> Any | None:
    """Triton's settings of its cache; None with Triton 3.2, which reads the environment. Triton 3.2 makes a backend for
    each launch, and a search for a module that is not there takes longer than the launch.
    """
    try:
        from triton import knobs
    except ImportError:
        return None
    return knobs.cache


def _install_cache_manager() -> None:
    """Let Triton use our cache manager, through its official knob, unless the user chose one."""
    from .cache import RobustCacheManager

    cache = _cache_knobs()
    if cache is None:
        os.environ.setdefault("TRITON_CACHE_MANAGER", f"{RobustCacheManager.__module__}:{RobustCacheManager.__name__}")
    elif cache.manager_class is None:
        cache.manager_class = RobustCacheManager
