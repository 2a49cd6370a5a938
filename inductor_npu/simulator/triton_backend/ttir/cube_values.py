"""Which values of a kernel the cube core has, and what the vector cores read of them.

- *Operands.* A tile that is loaded only to be an operand of dots goes to L1, as does its transpose; a row that is
  loaded only to be the first accumulator (a bias) goes there, too. An operand that is computed is a tile of the Unified
  Buffer, and goes to L1 by way of device memory.
- *Accumulators.* What a dot makes is in L0C, as is what a loop carries from one dot to the next.
- *On the way out* an accumulator is stored, with a cast, by the cube core itself. What is done with it otherwise is
  done by the vector cores, which read it as a tile: of the narrower type, if that cast comes first.
"""

from __future__ import annotations

from .forms import DOTS, VIEWS, Forms
from .ir import Function, Op, TensorType, Value

TRANSPOSE = "tt.trans"
# Casts that the cube core does while it stores; of an accumulator, to a type no wider.
_CASTS = frozenset({"arith.truncf", "tt.fp_to_fp", "arith.trunci"})


class CubeValues:
    """`operands` and `accumulators` as above; `read`, those accumulators (or casts of them) that are tiles for the
    vector cores, of which `read_twice` are stored in two types; `elsewhere`, all that is no tile of theirs.
    """

    def __init__(self, kernel: Function, forms: Forms) -> None:
        self._forms = forms
        self._users = forms.users
        self.dots = [op for op in kernel.body.walk() if op.name in DOTS]
        self.accumulators: set[Value] = set()
        self.operands: set[Value] = set()
        self.read: set[Value] = set()
        self.read_twice: set[Value] = set()
        self.elsewhere: set[Value] = set()
        if not self.dots:
            return
        self._find_accumulators(kernel)
        self._find_operands(kernel)
        self._find_read()
        self.elsewhere |= (self.accumulators | self.operands) - self.read

    def holds(self, value: Value) -> bool:
        """Whether the cube core has `value`, be it that the vector cores read it, too."""
        return value in self.accumulators or value in self.elsewhere

    def is_row_of_bias(self, value: Value) -> bool:
        """Whether an accumulator begins as a loaded row that is repeated: the cube core's bias table."""
        broadcast = value.owner
        if broadcast is None or broadcast.name != "tt.broadcast":
            return False
        row = broadcast.operands[0]
        shape = row.type.shape if isinstance(row.type, TensorType) else ()
        return shape[-2:-1] == (1,) and self._is_loaded(operand_root(row))

    def _starts_in_cube(self, dot: Op) -> bool:
        """Whether the accumulator operand of `dot` costs the vector cores nothing: a number, an accumulator, a bias."""
        start = dot.operands[2]
        return self._forms.is_uniform(start) or start in self.accumulators or self.is_row_of_bias(start)

    def _find_accumulators(self, kernel: Function) -> None:
        """Finds what dots make, and what loops carry from dot to dot; of nested loops each is one if the other is, so
        that all that may be are taken for accumulators until one is found not to be.
        """
        made = {result for dot in self.dots for result in dot.results}
        carried = []
        for loop in (op for op in kernel.body.walk() if op.name == "scf.for"):
            body = loop.regions[0]
            values = zip(loop.operands[3:], body.arguments[1:], body.ops[-1].operands, loop.results, strict=True)
            carried += [each for each in values if self._is_only_added_to(each[1])]
        while True:
            self.accumulators = made | {value for _, argument, _, result in carried for value in (argument, result)}
            kept = [
                each
                for each in carried
                if each[2] in self.accumulators and (self._forms.is_uniform(each[0]) or each[0] in self.accumulators)
            ]
            if len(kept) == len(carried):
                return
            carried = kept

    def _is_only_added_to(self, argument: Value) -> bool:
        """Whether dots, or loops around dots, are all that reads what a loop carries."""
        return all(
            (user.name in DOTS and argument is user.operands[2] and argument not in user.operands[:2])
            or (user.name == "scf.for" and argument in user.operands[3:])
            for user in self._users.get(argument, [])
        )

    def _find_operands(self, kernel: Function) -> None:
        for op in kernel.body.walk():
            if op.name == "tt.load" and self._is_loaded(op.result) and self._feeds_dots_only(op.result):
                self._add_operand(op.result)

    def _add_operand(self, value: Value) -> None:
        self.operands.add(value)
        for user in self._users.get(value, []):
            if user.name in VIEWS or user.name == TRANSPOSE:
                self._add_operand(user.result)

    def _is_loaded(self, value: Value) -> bool:
        """Whether one transfer brings it from device memory to L1."""
        load = value.owner
        if load is None or load.name != "tt.load":
            return False
        index = self._forms.index_of(load.operands[0])
        return index.is_regular and (index.steps[-1:] in ((), (0,), (1,))) and not self._forms.is_selected(load)

    def _feeds_dots_only(self, value: Value) -> bool:
        own = self._users.get(value, [])
        return bool(own) and all(
            value in user.operands[:2] or self.is_row_of_bias(value)
            if user.name in DOTS
            else (user.name in VIEWS or user.name == TRANSPOSE) and self._feeds_dots_only(user.result)
            for user in own
        )

    def _find_read(self) -> None:
        for value in self.accumulators:
            if value.owner is not None and value.owner.name in DOTS and not self._starts_in_cube(value.owner):
                self.read.add(value)  # the vector cores add it to what it starts from
                continue
            uses = [user for user in self._users.get(value, []) if not self._adds(user, value)]
            if not uses:
                continue
            if len(uses) == 1 and uses[0].name in _CASTS:
                cast = uses[0].result
                self.elsewhere.add(cast)
                if not self._is_stored_only(cast):
                    self.read.add(cast)
            elif len(uses) > 1 or uses[0].name != "tt.store":
                self.read.add(value)
                if all(self._leaves(user) for user in uses):
                    self.read_twice.add(value)
        self.elsewhere -= self.read

    def _adds(self, user: Op, value: Value) -> bool:
        """Whether `user` goes on with the accumulator in L0C."""
        if user.name in DOTS:
            return value is user.operands[2] and value not in user.operands[:2]
        return user.name == "scf.yield" or (user.name == "scf.for" and self._is_carried(user, value))

    def _is_carried(self, loop: Op, value: Value) -> bool:
        return any(
            start is value and result in self.accumulators
            for start, result in zip(loop.operands[3:], loop.results, strict=True)
        )

    def _leaves(self, user: Op) -> bool:
        return user.name == "tt.store" or (user.name in _CASTS and self._is_stored_only(user.result))

    def _is_stored_only(self, value: Value) -> bool:
        return all(user.name == "tt.store" and user.operands[1] is value for user in self._users.get(value, []))


def operand_root(value: Value) -> Value:
    """The tile that a dot's operand is a view or the transpose of."""
    while value.owner is not None and (value.owner.name in VIEWS or value.owner.name == TRANSPOSE):
        value = value.owner.operands[0]
    return value
