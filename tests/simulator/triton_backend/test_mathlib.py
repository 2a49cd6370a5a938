"""Math functions: accuracy over all of f32, special values, any number of lanes."""

from __future__ import annotations

import warnings

import mpmath as mp
import numpy as np
import pytest

from inductor_npu.simulator.triton_backend.mathlib import DEFINITIONS, Library, UnknownFunction, build_function
from inductor_npu.simulator.triton_backend.mathlib.library import name_for

from .mathlib_harness import compile_text, evaluate
from .mathlib_reference import BINARY, LOG_DOMAIN, MP_UNARY, SPECIALS, UNARY, inputs_f32, ulp_errors

EXACT = {"sqrt", "round", "rint", "floor", "ceil", "trunc", "logb", "fmod", "remainder", "fmin", "fmax", "copysign"}
ONE_ULP = {"exp", "exp2", "exp10", "log", "log10"}
WIDE_RESULT = {"erfcx": 4, "erfinv": 6, "normcdf": 4, "cyl_bessel_i0": 10, "cyl_bessel_i1": 10}  # f64, in ulp


@pytest.fixture(autouse=True)
def quiet_references():
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def bound_f32(name: str) -> float:
    return 0.5001 if name in EXACT else 1.1 if name in ONE_ULP else 2.0


@pytest.fixture(scope="module")
def sweep() -> np.ndarray:
    return inputs_f32(step=30011, count=20_000)


@pytest.fixture(scope="module")
def pairs(sweep: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    specials = np.asarray(SPECIALS, np.float32)
    ordinary = random.normal(0, 3, (2, 20_000)).astype(np.float32)
    shuffled = random.permutation(sweep)[:60_000], random.permutation(sweep)[:60_000]
    grid = np.repeat(specials, len(specials)), np.tile(specials, len(specials))
    left, right = (np.concatenate([shuffled[i], grid[i], ordinary[i]]) for i in range(2))
    return left, right


@pytest.mark.parametrize("name", UNARY)
def test_unary_f32_accuracy(name, sweep):
    errors = ulp_errors(evaluate(name, sweep), UNARY[name](sweep.astype(np.float64)))
    worst = np.argmax(errors)
    assert errors[worst] <= bound_f32(name), f"{name}({sweep[worst]!r}) is off by {errors[worst]} ulp"


@pytest.mark.parametrize("name", BINARY)
def test_binary_f32_accuracy(name, pairs):
    x, y = pairs
    errors = ulp_errors(evaluate(name, x, y), BINARY[name](x.astype(np.float64), y.astype(np.float64)))
    worst = np.argmax(errors)
    assert errors[worst] <= bound_f32(name), f"{name}({x[worst]!r}, {y[worst]!r}) is off by {errors[worst]} ulp"


@pytest.mark.parametrize("name", MP_UNARY)
def test_unary_f64_accuracy(name):
    random = np.random.default_rng(0)
    sizes = 10.0 ** random.uniform(-300, 2.8, 40)
    x = np.concatenate([random.normal(0, 3, 200), random.uniform(-1, 1, 60), sizes, -sizes])
    x = random.uniform(-1, 1, 200) if name == "erfinv" else np.abs(x) if name in LOG_DOMAIN else x
    got = evaluate(name, x)
    with mp.workprec(150):
        for argument, value in zip(x, got):
            reference = MP_UNARY[name](mp.mpf(float(argument)))
            rounded = float(reference)
            if not np.isfinite(rounded):
                assert value == rounded
                continue
            error = abs(mp.mpf(float(value)) - reference) / mp.mpf(float(np.spacing(abs(rounded))))
            assert error <= WIDE_RESULT.get(name, 2), f"{name}({argument!r}) is off by {error} ulp"


@pytest.mark.parametrize("name", UNARY)
def test_special_values_f64(name):
    x = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324])
    errors = ulp_errors(evaluate(name, x), UNARY[name](x), np.float64)
    assert errors.max() <= 8, (x, evaluate(name, x), UNARY[name](x))


@pytest.mark.parametrize("lanes", [1, 4, 7, 8])
@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "erf", "pow", "atan2", "lgamma", "fmod"])
def test_any_number_of_lanes_gives_the_same_bits(name, lanes):
    x = np.concatenate([np.linspace(-10, 10, 501), [1e6, -1e30, np.inf, np.nan]]).astype(np.float32)
    arguments = (x,) if len(DEFINITIONS[name].signatures[0]) == 1 else (x, x[::-1].copy())
    np.testing.assert_array_equal(evaluate(name, *arguments, lanes=lanes), evaluate(name, *arguments, lanes=16))


@pytest.mark.parametrize("lanes", [1, 2, 3, 16])
def test_every_function_compiles(lanes):
    library = Library()
    for definition in DEFINITIONS.values():
        for signature in definition.signatures:
            library.function(definition.name, signature, lanes)
    import llvmlite.binding as llvm

    llvm.parse_assembly(library.text()).verify()


@pytest.mark.parametrize("name", ["exp", "tanh", "sin", "erf"])
def test_half_precision_arguments_compute_in_f32_and_round(name):
    x = np.linspace(-3, 3, 999).astype(np.float16)
    expected = UNARY[name](x.astype(np.float64)).astype(np.float16)
    got = evaluate(name, x)
    assert np.max(np.abs(got.view(np.int16).astype(int) - expected.view(np.int16))) <= 1


def test_nextafter_and_ilogb():
    x = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 1e-45, 3.4028235e38, np.nan, 0.0], np.float32)
    y = np.array([1.0, -1.0, 2.0, 2.0, 0.0, 0.0, -1.0, np.inf, 0.0, 0.0], np.float32)
    np.testing.assert_array_equal(evaluate("nextafter", x, y), np.nextafter(x, y))
    np.testing.assert_array_equal(evaluate("ilogb", x[2:4]), [0, 0])
    np.testing.assert_array_equal(evaluate("ilogb", np.array([1e-45, 0.75, 1e30], np.float32)), [-149, -1, 99])


def test_ldexp_and_powi():
    x = np.array([1.0, -3.5, 1e-45, 1e38, 1.5], np.float32)
    n = np.array([-149, 3, 200, 5, -2000], np.int32)
    np.testing.assert_array_equal(evaluate("ldexp", x, n), np.ldexp(x.astype(np.float64), n).astype(np.float32))
    np.testing.assert_array_equal(evaluate("ldexp", x.astype(np.float64), n), np.ldexp(x.astype(np.float64), n))
    base = np.array([-2.0, 3.0, 0.0, -1.0, 1.1], np.float32)
    power = np.array([3, -2, -1, 2**31 - 1, 10], np.int32)
    with np.errstate(divide="ignore"):
        expected = np.power(base.astype(np.float64), power.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(evaluate("pow", base, power), expected)


@pytest.mark.parametrize("element", [np.float32, np.float64])
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "div", "sqrt", "fma", "rcp"])
def test_directed_rounding_brackets_the_exact_value(operation, element):
    random = np.random.default_rng(2)
    exponents = 2.0 ** random.integers(-20, 20, (3, 300))
    x, y, z = (random.uniform(0.5, 1, (3, 300)) * exponents).astype(element)
    arguments = {"sqrt": (x,), "rcp": (x,), "fma": (x, y, z)}.get(operation, (x, y))
    exact = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": lambda a, b: a / b,
        "sqrt": mp.sqrt,
        "rcp": lambda a: 1 / a,
        "fma": lambda a, b, c: a * b + c,
    }[operation]
    down, up, zero, near = (evaluate(f"{operation}_{mode}", *arguments) for mode in ("rd", "ru", "rz", "rn"))
    with mp.workprec(300):
        for i, row in enumerate(zip(*arguments)):
            value = exact(*(mp.mpf(float(v)) for v in row))
            assert mp.mpf(float(down[i])) <= value <= mp.mpf(float(up[i]))
            assert up[i] == down[i] or up[i] == np.nextafter(down[i], element(np.inf))
            assert zero[i] == (down[i] if value >= 0 else up[i])
            assert near[i] in (down[i], up[i])


def test_the_rounding_mode_is_restored():
    x = np.full(64, 0.1, np.float32)
    evaluate("add_ru", x, x)
    assert np.float32(1) + np.float32(2**-24) == 1


def test_unknown_functions_are_named():
    library = Library()
    with pytest.raises(UnknownFunction, match="no function 'frobnicate'"):
        library.function("frobnicate", ("f32",), 8)
    with pytest.raises(UnknownFunction, match=r"not for \(i32\)"):
        library.function("exp", ("i32",), 8)


def test_a_library_writes_each_function_and_declaration_once():
    library = Library()
    library.function("exp", ("f32",), 8)
    library.function("exp", ("f32",), 8)
    library.function("tanh", ("f32",), 8)
    assert library.text().count("define internal <8 x float> @npu.exp.f32.v8") == 1
    assert library.text().count("declare <8 x float> @llvm.fma.v8f32") == 1
    compile_text(library.text())


def test_every_overload_of_libdevice_has_its_function():
    from inductor_npu.simulator.triton_backend import libdevice

    plain = {"u32": "i32", "u64": "i64"}
    for signatures, names in libdevice._FUNCTIONS:
        for name in names.split():
            for arguments, result in libdevice._parse(signatures):
                selector = arguments[1] if name in ("jn", "yn") else arguments[0]
                function = build_function(name_for(name, selector), tuple(plain.get(a, a) for a in arguments), 4)
                assert function.result == plain.get(result, result), name
    assert name_for("mulhi", "u64") == "umulhi"
    assert name_for("uint2float_rn", "u32") == "uint2float_rn"
