"""`triton.language.extra.libdevice` for target `npu`: every function of Triton's generic list, with CUDA's overloads.

A call becomes `tt.extern_elementwise` with the symbol `__npu_<name>_<type>`: <name> is the function's name here, <type>
the type of its first argument (of the second for jn and yn) as i32, u32, i64, u64, f32 or f64; `symbol_parts` takes
such a symbol apart again. The code generator finds the function by that name, and the types of its operands, in
`mathlib`.

Half-precision arguments, which CUDA's libdevice refuses, are computed in fp32; a floating-point result is rounded back.
A narrower number is widened where another argument asks for it: `pow(x, 2.0)` of an fp64 `x` computes in fp64.
"""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Any

from triton.language import core

_PREFIX = "__npu_"
_GENERIC = "triton.language.extra.libdevice"

# Signatures, in the order in which they are tried, and the functions that have them.
_UNARY = "f32 -> f32; f64 -> f64"
_BINARY = "f32 f32 -> f32; f64 f64 -> f64"
_TERNARY = "f32 f32 f32 -> f32; f64 f64 f64 -> f64"
_ROUNDINGS = "rn rz rd ru"


def _rounded(*names: str) -> str:
    """Each name with each of the four rounding modes: to nearest even, toward zero, down, up."""
    return " ".join(f"{name}_{mode}" for name in names for mode in _ROUNDINGS.split())


_FUNCTIONS: tuple[tuple[str, str], ...] = (
    # Integers and bits
    ("i32 -> i32; i64 -> i32", "clz popc ffs"),
    ("i32 -> i32; i64 -> i64", "brev"),
    ("i32 i32 i32 -> i32", "byte_perm"),
    ("i32 i32 -> i32; u32 u32 -> u32; i64 i64 -> i64; u64 u64 -> u64", "mulhi"),
    ("i32 i32 -> i32; u32 u32 -> u32", "mul24 hadd rhadd"),
    ("i32 i32 u32 -> i32; u32 u32 u32 -> u32", "sad"),
    ("i32 -> i32; i64 -> i64; f32 -> f32; f64 -> f64", "abs"),
    # Arithmetic with a rounding mode
    (_BINARY, _rounded("add", "sub", "mul", "div")),
    (_TERNARY, _rounded("fma") + " fma"),
    (_UNARY, _rounded("rcp", "sqrt")),
    ("f32 -> f32", "rsqrt_rn"),
    ("f64 -> f64", "rcp64h"),
    # Rounding and parts of a number
    (_UNARY, "floor ceil trunc round rint nearbyint logb"),
    ("f32 -> i64; f64 -> i64", "llrint llround"),
    ("f32 -> i32; f64 -> i32", "isnan isinf signbit ilogb"),
    ("f32 -> i32", "finitef"),
    ("f64 -> i32", "isfinited"),
    ("f32 i32 -> f32; f64 i32 -> f64", "ldexp scalbn"),
    (_BINARY, "copysign nextafter fmod remainder fdim"),
    ("f32 -> f32", "saturatef"),
    # Powers, exponentials, logarithms
    ("f32 i32 -> f32; f64 i32 -> f64; f32 f32 -> f32; f64 f64 -> f64", "pow"),
    (_UNARY, "sqrt rsqrt cbrt rcbrt exp exp2 exp10 expm1 log log2 log10 log1p"),
    (_BINARY, "hypot rhypot"),
    (_TERNARY, "norm3d rnorm3d"),
    ("f32 f32 f32 f32 -> f32; f64 f64 f64 f64 -> f64", "norm4d rnorm4d"),
    # Trigonometric and hyperbolic functions
    (_UNARY, "sin cos tan sinpi cospi asin acos atan sinh cosh tanh asinh acosh atanh"),
    (_BINARY, "atan2"),
    # Special functions
    (_UNARY, "erf erfc erfcx erfinv erfcinv normcdf normcdfinv lgamma tgamma j0 j1 y0 y1 cyl_bessel_i0 cyl_bessel_i1"),
    ("i32 f32 -> f32; i32 f64 -> f64", "jn yn"),
    # Fast versions of CUDA
    ("f32 -> f32", "fast_sinf fast_cosf fast_tanf fast_tanhf fast_expf fast_exp10f fast_logf fast_log2f fast_log10f"),
    ("f32 f32 -> f32", "fast_dividef fast_powf"),
    # Conversions
    ("f64 -> f32", _rounded("double2float")),
    ("f64 -> i32", _rounded("double2int", "double2uint") + " double2loint double2hiint"),
    ("f64 -> i64", _rounded("double2ll", "double2ull")),
    ("f32 -> i32", _rounded("float2int", "float2uint")),
    ("f32 -> i64", _rounded("float2ll", "float2ull")),
    ("i32 -> f64", "int2double_rn"),
    ("u32 -> f64", "uint2double_rn"),
    ("i32 -> f32", _rounded("int2float")),
    ("u32 -> f32", _rounded("uint2float")),
    ("i64 -> f32", _rounded("ll2float")),
    ("u64 -> f32", _rounded("ull2float")),
    ("i64 -> f64", _rounded("ll2double")),
    ("u64 -> f64", _rounded("ull2double")),
    # The same bits as another type
    ("i32 -> f32", "int_as_float"),
    ("u32 -> f32", "uint_as_float"),
    ("f32 -> i32", "float_as_int float_as_uint"),
    ("i64 -> f64", "longlong_as_double"),
    ("f64 -> i64", "double_as_longlong"),
    ("i32 i32 -> f64", "hiloint2double"),
)

_TYPES = {
    "i32": core.int32,
    "u32": core.uint32,
    "i64": core.int64,
    "u64": core.uint64,
    "f32": core.float32,
    "f64": core.float64,
}

Overload = tuple[tuple[str, ...], str]  # types of the arguments, type of the result


def symbol_parts(symbol: str) -> tuple[str, str]:
    """Name and type of a symbol: ("exp", "f32") for `__npu_exp_f32`. Raises ValueError for any other text."""
    name, separator, type_ = symbol.removeprefix(_PREFIX).rpartition("_")
    if not symbol.startswith(_PREFIX) or not separator or type_ not in _TYPES:
        raise ValueError(f"`{symbol}` is not a function of npu's libdevice")
    return name, type_


def _widens(given: core.dtype, wanted: core.dtype, has_float: bool) -> bool:
    """Whether a number of type `given` may be passed where `wanted` is asked for."""
    if given == wanted:
        return True
    if given.is_floating():
        return wanted.is_floating() and given.primitive_bitwidth < wanted.primitive_bitwidth
    if wanted.is_floating():
        return has_float  # a whole number next to floats, such as the 1 of copysign(x, 1)
    if given.primitive_bitwidth < wanted.primitive_bitwidth:
        return given.is_int_unsigned() or given.is_bool() or wanted.is_int_signed()
    return False


def _choose(name: str, overloads: list[Overload], given: list[core.dtype]) -> Overload:
    """The first signature that fits exactly, else the first that the arguments can be widened to."""
    has_float = any(type_.is_floating() for type_ in given)
    for fits in (lambda have, want: have == want, lambda have, want: _widens(have, want, has_float)):
        for arguments, result in overloads:
            if all(fits(have, _TYPES[want]) for have, want in zip(given, arguments, strict=True)):
                return arguments, result
    known = "; ".join(f"({', '.join(str(_TYPES[type_]) for type_ in arguments)})" for arguments, _ in overloads)
    raise TypeError(f"libdevice.{name} has no version for ({', '.join(map(str, given))}); it takes {known}")


def _function(name: str, overloads: list[Overload]) -> Any:
    arity = len(overloads[0][0])

    def call(*arguments: Any, **context: Any) -> core.tensor:
        # `context` is the compiler's handle, which Triton passes by keyword: `_semantic`, or `_builder` in Triton 3.2.
        if len(arguments) != arity:
            raise TypeError(f"libdevice.{name} takes {arity} arguments, {len(arguments)} were given")
        tensors = [core.to_tensor(argument, **context) for argument in arguments]
        given = [tensor.dtype for tensor in tensors]
        wanted, result = _choose(name, overloads, given)
        converted = [
            tensor if have == _TYPES[want] else core.cast(tensor, _TYPES[want], **context)
            for tensor, have, want in zip(tensors, given, wanted, strict=True)
        ]
        selector = wanted[1] if name in ("jn", "yn") else wanted[0]
        symbol = f"{_PREFIX}{name}_{selector}"
        types = tuple(_TYPES[want] for want in wanted)
        value = core.extern_elementwise("", "", converted, {types: (symbol, _TYPES[result])}, is_pure=True, **context)
        halves = [type_ for type_ in given if type_.is_floating() and type_.primitive_bitwidth == 16]
        if result == "f32" and halves and not any(type_ == core.float32 for type_ in given):
            value = core.cast(value, halves[0], **context)
        return value

    # Triton passes its handle only to functions whose signature names it.
    parameters = [Parameter(f"arg{index}", Parameter.POSITIONAL_ONLY) for index in range(arity)]
    handle = Parameter("_semantic", Parameter.KEYWORD_ONLY, default=None)
    call.__signature__ = Signature([*parameters, handle])  # type: ignore[attr-defined]
    call.__name__ = call.__qualname__ = name
    call.__module__ = _GENERIC  # whoever compiles a kernel that names it puts the function of its own target there
    call.__doc__ = "; ".join(f"({', '.join(arguments)}) -> {result}" for arguments, result in overloads)
    return core.extern(call)


def _parse(text: str) -> list[Overload]:
    pairs = (signature.split(" -> ") for signature in text.split("; "))
    return [(tuple(arguments.split()), result) for arguments, result in pairs]


FUNCTIONS = {name: _parse(overloads) for overloads, names in _FUNCTIONS for name in names.split()}
"""What each function takes and gives, by its name."""
globals().update({name: _function(name, overloads) for name, overloads in FUNCTIONS.items()})

__all__ = ["FUNCTIONS", "symbol_parts", *FUNCTIONS]
