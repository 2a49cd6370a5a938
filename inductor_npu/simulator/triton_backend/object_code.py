"""LLVM IR to native object code, and object code to functions in this process, with llvmlite: no external compiler
runs.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping
from typing import Any

import llvmlite
import llvmlite.binding as llvm


class LlvmError(RuntimeError):
    """LLVM refused the module: a bug of the code generator, with LLVM's own words."""


@functools.cache
def toolchain() -> tuple[str, str, str]:
    """What object code depends on besides the IR: versions of llvmlite and LLVM, the host's CPU, its features."""
    version = ".".join(map(str, llvm.llvm_version_info))
    return f"llvmlite {llvmlite.__version__} LLVM {version}", llvm.get_host_cpu_name(), _host_features()


@functools.cache
def _host_features() -> str:
    return llvm.get_host_cpu_features().flatten()


@functools.cache
def _initialised() -> bool:
    if llvm.llvm_version_info < (20,):  # llvmlite 0.45, the first with LLVM 20, does this itself and refuses the call
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return True


def _target_machine(opt_level: int, without: str = "") -> Any:
    """A machine like the host; `without` takes features of it away ("-avx512vl")."""
    _initialised()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    features = ",".join(filter(None, (_host_features(), without)))
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=opt_level, reloc="pic", codemodel="small", jit=True
    )


# vmovmskps, vmovmskpd and vpmovmskb of a register, behind a prefix (VEX) of two or of three bytes. Bytes of other
# instructions may look like one; none of these three looks different.
_SIGN_BITS = re.compile(
    rb"(?:\xc5|\xc4[\x01\x21\x41\x61\x81\xa1\xc1\xe1])[\x78\x79\x7c\x7d\xf8\xf9\xfc\xfd][\x50\xd7][\xc0-\xff]"
)


def compile_object(ir: str, opt_level: int) -> bytes:
    """Object code for the host. Raises LlvmError if `ir` is not a valid module.

    `opt_level` 0 optimises nothing, 1 does what output of our code generator needs, 2 and 3 run LLVM's own pipelines:
    they take five times as long and find next to nothing in code that is written as vectors, with its loops unrolled
    and what is invariant in them hoisted.

    LLVM 22 joins vpmovq2m and kmov (and their like) into vmovmskpd, which can name no register beyond 15: it then reads
    another one, without a word (https://github.com/llvm/llvm-project/issues/191304). In object code the register that
    was meant is gone, so that code with such an instruction, about one kernel in a hundred, is made again without
    AVX-512VL, the only source of short vectors in those registers.
    """
    code = _compiled(ir, opt_level)
    if "+avx512vl" in _host_features().split(",") and _SIGN_BITS.search(code):
        return _compiled(ir, opt_level, without="-avx512vl")
    return code


def _compiled(ir: str, opt_level: int, without: str = "") -> bytes:
    machine = _target_machine(2 if opt_level else 0, without)
    try:
        module = llvm.parse_assembly(ir)
        module.verify()
    except RuntimeError as error:
        raise LlvmError(str(error)) from error
    if opt_level == 1:
        _optimise_briefly(module, machine)
    else:
        tuning = llvm.create_pipeline_tuning_options(speed_level=opt_level)
        tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_unrolling = False
        builder = llvm.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


def _optimise_briefly(module: Any, machine: Any) -> None:
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    whole = llvm.create_new_module_pass_manager()
    whole.add_always_inliner_pass()  # the math library's functions
    whole.add_global_dead_code_eliminate_pass()
    whole.run(module, builder)
    each = llvm.create_new_function_pass_manager()
    each.add_sroa_pass()
    each.add_instruction_combine_pass()
    each.add_simplify_cfg_pass()
    each.add_new_gvn_pass()
    each.add_instruction_combine_pass()
    each.add_aggressive_dce_pass()
    for function in module.functions:
        if not function.is_declaration:
            each.run(function, builder)


_library_numbers = itertools.count()
_loaded: list[Any] = []


@functools.cache
def _linker() -> Any:
    # JITLink gives a kernel's code and constants one piece of memory. LLVM's older linker maps them apart, possibly out
    # of an instruction's reach (2 GiB); it was seen to abort a process that had CUDA's libraries mapped, which that
    # would explain.
    return llvm.create_lljit_compiler(_target_machine(2), use_jit_link=True)


def load_function(object_code: bytes, entry: str, symbols: Mapping[str, int]) -> int:
    """The address of `entry` after linking `object_code` into this process; `symbols` are addresses it may refer to.

    The code stays loaded until the process ends: a launch that still waits in a stream's queue may need it at any time,
    and Triton does not say when a kernel is dropped.
    """
    builder = llvm.JITLibraryBuilder()
    builder.add_object_img(object_code).add_current_process().export_symbol(entry)
    for name, address in symbols.items():
        builder.import_symbol(name, address)
    try:
        library = builder.link(_linker(), f"kernel{next(_library_numbers)}")
    except RuntimeError as error:
        raise LlvmError(str(error)) from error
    _loaded.append(library)
    return library[entry]
