"""The state that all code written for one kernel shares."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ...ttir.ir import Function, Value
from ..analysis.facts import Facts
from ..forms.lane import Lane
from ..forms.scratch import Buffer, Place, Scratch
from ..forms.value import Val
from ..options import CodegenOptions
from ..planning.plain_atomics import are_atomics_plain
from .builder import Builder
from .conversions import Conversions
from .elementwise import Elementwise
from .floats import Floats
from .integers import Integers
from .lanes import Lanes
from .math_functions import MathFunctions
from .memory import Memory
from .scalars import Scalars


@dataclass(eq=False)
class CodegenContext:
    """What is known of the kernel (`facts`), who writes its instructions (`b` the text itself, the others through it),
    and where values are: `places` says it of every scalar that was written and of every tile that is kept in `scratch`.

    `use_counts` is how often each value is an operand. `plain_atomics` says that what are atomics is done by one
    thread, without. `work` estimates the elements that a program touches, of which those in loops, `loop_depth` deep,
    count more. `messages` are those of device_assert.
    """

    options: CodegenOptions
    facts: Facts
    use_counts: Counter[Value]
    plain_atomics: bool
    b: Builder
    elementwise: Elementwise
    memory: Memory
    program_ids: list[Val]
    grid: list[Val]
    scratch: Scratch = field(default_factory=Scratch)
    places: dict[Value, Place] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    work: int = 0
    loop_depth: int = 0

    def __post_init__(self) -> None:
        elementwise = self.elementwise
        self.lanes, self.scalars, self.integers = elementwise.lanes, elementwise.scalars, elementwise.integers
        self.floats, self.math = elementwise.floats, elementwise.math

    @classmethod
    def of(cls, function: Function, options: CodegenOptions) -> CodegenContext:
        """The context for `function` before anything of it is written."""
        builder = Builder(options.record)
        floats = Floats(Conversions(builder), options.enable_fp_fusion)
        functions = MathFunctions(floats)
        integers = Integers(Lanes(Scalars(builder)), functions)
        use_counts = Counter(v for op in function.body.walk() for v in op.operands)
        unobserved = not (options.record or options.checked)
        last = options.grid_limit - 1
        return cls(
            options=options,
            facts=Facts.of(function, options.distinct_arguments),
            use_counts=use_counts,
            plain_atomics=options.exclusive and unobserved and are_atomics_plain(function, use_counts),
            b=builder,
            elementwise=Elementwise(integers, floats, functions),
            memory=Memory(integers),
            program_ids=[Val(f"%program.{axis}", "i32").known(0, last) for axis in "xyz"],
            grid=[Val(f"%grid.{axis}", "i32").known(1, options.grid_limit) for axis in "xyz"],
        )

    def lane(self, value: Value) -> Lane:
        """A scalar that was written before."""
        lane = self.places[value]
        assert not isinstance(lane, Buffer), "scalars are never kept in scratch"
        return lane
