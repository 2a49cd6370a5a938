"""libdevice's `fast_` functions: the accurate functions, which are fast."""

from __future__ import annotations

from .library import DEFINITIONS, define

for _fast, _accurate in (
    ("fast_sinf", "sin"),
    ("fast_cosf", "cos"),
    ("fast_tanf", "tan"),
    ("fast_tanhf", "tanh"),
    ("fast_expf", "exp"),
    ("fast_exp10f", "exp10"),
    ("fast_logf", "log"),
    ("fast_log2f", "log2"),
    ("fast_log10f", "log10"),
):
    define(_fast, "f32", "f64")(DEFINITIONS[_accurate].body)
define("fast_powf", "f32 f32", "f64 f64")(DEFINITIONS["pow"].body)
