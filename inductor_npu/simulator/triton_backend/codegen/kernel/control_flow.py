"""scf.for, scf.while and scf.if. Scalars and tensors of one element are carried as LLVM values, others in scratch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ...ttir.ir import Block, Op, Value
from ..analysis.operations import ATOMICS, READS, WRITES, is_tensor, is_virtual, moves
from ..emit.context import CodegenContext
from ..evaluation.evaluator import scalar_of
from ..forms.lane import Uniform
from ..forms.scratch import Buffer, strides_with_innermost
from ..forms.types import element_of, llvm_type, shape_of
from ..forms.value import Val
from ..nests.materialise import keep
from ..planning.steps import Group, KeptRoot
from ..planning.vector_axis import vector_axis

# Writes the operations of a block but its terminator, then roots, if that is said in loop nests of their own.
WriteBlock = Callable[[Block, Sequence[KeptRoot], bool], None]


def emit_region(context: CodegenContext, op: Op, write_block: WriteBlock) -> None:
    """Writes an operation with regions, which ends in a new block."""
    {"scf.for": _for, "scf.if": _if, "scf.while": _while}[op.name](context, op, write_block)


def is_in_scratch(value: Value) -> bool:
    """Whether a carried value lives in scratch rather than in an LLVM value."""
    return is_tensor(value) and math.prod(shape_of(value.type)) > 1


def _home(context: CodegenContext, source: Value) -> Buffer:
    """Scratch for a value like `source`, laid out as suits computing `source`."""
    shape = shape_of(source.type)
    axis = vector_axis(Group([KeptRoot(source, shape)], shape), context.places, context.facts.strides)
    return context.scratch.allocate(shape, element_of(source.type), strides_with_innermost(shape, axis))


def _copies(values: Sequence[Value], homes: Sequence[Buffer]) -> list[KeptRoot]:
    return [KeptRoot(v, shape_of(v.type), home) for v, home in zip(values, homes)]


def _kept(block: Block, values: Sequence[Value], carried: Sequence[Value] = ()) -> list[KeptRoot]:
    """Those of `values` that read what `block` may overwrite before it hands them on, or one of the `carried` tiles,
    into which the next ones are written: tiles of one element, which are computed where their only user is, the end.
    """
    overwritten = set(carried)
    if any(op.name in WRITES or op.name in ATOMICS for op in block.walk()):
        overwritten.update(result for op in block.ops if op.name in READS for result in op.results)
    of_one_element = [v for v in dict.fromkeys(values) if is_tensor(v) and not is_in_scratch(v)]
    return [KeptRoot(v, shape_of(v.type)) for v in of_one_element if _reads(v, overwritten)]


def _handed_on(block: Block, values: Sequence[Value], homes: Mapping[int, Buffer]) -> list[KeptRoot]:
    """What is written at the end of `block`, which hands on `values`: those at the places of `homes` into these."""
    return [*_kept(block, values), *_copies([values[i] for i in homes], list(homes.values()))]


class _Phis:
    """Phi instructions at the head of a block, to be completed when the block's other predecessors are known."""

    def __init__(self, context: CodegenContext) -> None:
        self.b = context.b
        self.segment = self.b.new_segment()
        self.b.new_segment()
        self.values: list[Val] = []
        self.incoming: list[list[str]] = []

    def add(self, element: str) -> Val:
        val = Val(self.b.fresh("%p"), element)
        self.values.append(val)
        self.incoming.append([])
        return val

    def edge(self, values: Sequence[Val], label: str) -> None:
        for slots, value in zip(self.incoming, values):
            slots.append(f"[ {value.text}, %{label} ]")

    def close(self) -> None:
        for val, slots in zip(self.values, self.incoming):
            self.segment.append(f"  {val.text} = phi {llvm_type(val.element, 0)} {', '.join(slots)}")


def _for(context: CodegenContext, op: Op, write_block: WriteBlock) -> None:
    b = context.b
    body: Block = op.regions[0]
    lower, upper, step = (scalar_of(context, v) for v in op.operands[:3])
    initial, arguments, yielded = op.operands[3:], body.arguments[1:], body.ops[-1].operands
    for argument, value in zip(arguments, initial):
        if element_of(argument.type) == "ptr":
            context.facts.aliases.carried(argument, value)
    tensors = [i for i, v in enumerate(initial) if is_in_scratch(v)]
    scalars = [i for i, v in enumerate(initial) if not is_in_scratch(v)]
    homes = [_home(context, _layout_source(yielded[i], initial[i])) for i in tensors]
    keep(context, _copies([initial[i] for i in tensors], homes))
    started = [scalar_of(context, initial[i]) for i in scalars]

    header, inside, done = b.fresh("for"), b.fresh("do"), b.fresh("end")
    before = b.current_label
    b.line(f"br label %{header}")
    known = b.enter(header)
    phis = _Phis(context)
    iv = phis.add(lower.element)
    carried = [phis.add(element_of(initial[i].type)) for i in scalars]
    phis.edge([lower, *started], before)
    unsigned = bool(op.attrs.get("unsigned"))
    if not unsigned or (lower.low >= 0 and upper.low >= 0):
        iv.known(lower.low, max(lower.low, upper.high - 1), math.gcd(lower.divisor, step.divisor))
    predicate = "ult" if unsigned else "slt"
    more = b.effect("i1", 0, f"icmp {predicate} {iv}, {upper.text}")
    b.line(f"br i1 {more.text}, label %{inside}, label %{done}")
    b.enter(inside)
    context.places[body.arguments[0]] = Uniform(iv)
    for i, val in zip(scalars, carried):
        context.places[arguments[i]] = Uniform(val)
    for i, home in zip(tensors, homes):
        context.places[arguments[i]] = home
    _loop_body(context, write_block, body, yielded, [arguments[i] for i in tensors], homes)
    following = [scalar_of(context, yielded[i]) for i in scalars]
    next_ = b.effect(iv.element, 0, f"add {iv}, {step.text}")
    phis.edge([next_, *following], b.current_label)
    b.line(f"br label %{header}")
    phis.close()
    b.leave(done, known)
    for i, val in zip(scalars, carried):
        context.places[op.results[i]] = Uniform(val)
    for i, home in zip(tensors, homes):
        context.places[op.results[i]] = home


def _layout_source(yielded: Value, initial: Value) -> Value:
    """Whose memory accesses decide the layout of a carried tile: the loop's, unless it only passes the value on."""
    return yielded if yielded.owner is not None else initial


def _loop_body(
    context: CodegenContext,
    write_block: WriteBlock,
    body: Block,
    yielded: list[Value],
    arguments: list[Value],
    homes: list[Buffer],
) -> None:
    """The body, then all next values at once: no chunk is overwritten that another still reads. They are written where
    they are read, in one loop nest, unless one needs elements of a carried tile at other places.
    """
    next_tiles = [y for y in yielded if is_in_scratch(y)]
    changed = [(y, a, h) for y, a, h in zip(next_tiles, arguments, homes) if y is not a]
    mine = set(arguments)
    moved = _moves(body, mine)
    crossing = any(_reads(y, mine - {a}) for y, a, _ in changed)
    values = [y for y, _, _ in changed]
    kept = _kept(body, yielded, arguments)
    if not any(_reads(v, moved) for v in values):
        tail = [*kept, *_copies(values, [h for _, _, h in changed])]
        write_block(body, tail, bool(moved) or crossing)
        return
    spare = [context.scratch.allocate(h.shape, h.element, h.strides) for _, _, h in changed]
    write_block(body, [*kept, *_copies(values, spare)], False)
    for (value, _, _), buffer in zip(changed, spare):
        context.places[value] = buffer
    keep(context, _copies(values, [h for _, _, h in changed]))


def _moves(body: Block, arguments: set[Value]) -> set[Value]:
    """Values in the body that hold elements of the carried tiles at other places."""
    tainted, moved = set(arguments), set()
    for op in body.ops:
        if not any(o in tainted or o in moved for o in op.operands):
            continue
        if is_virtual(op):
            if moves(op) or any(o in moved for o in op.operands):
                moved.update(op.results)
            else:
                tainted.update(op.results)
    return moved


def _reads(value: Value, arguments: set[Value]) -> bool:
    """Whether computing `value` reads one of `arguments`."""
    stack, seen = [value], set()
    while stack:
        v = stack.pop()
        if v in arguments:
            return True
        if v not in seen and v.owner is not None and is_virtual(v.owner):
            seen.add(v)
            stack += v.owner.operands
    return False


def _if(context: CodegenContext, op: Op, write_block: WriteBlock) -> None:
    b = context.b
    condition = scalar_of(context, op.operands[0])
    branches = [r for r in op.regions if r.ops]
    yields = [r.ops[-1].operands if r.ops[-1].name == "scf.yield" else [] for r in branches]
    homes = {i: _home(context, yields[0][i]) for i, r in enumerate(op.results) if is_in_scratch(r)}
    labels = [b.fresh("then"), b.fresh("else")]
    join = b.fresh("fi")
    targets = labels if len(branches) > 1 else [labels[0], join]
    b.line(f"br i1 {condition.text}, label %{targets[0]}, label %{targets[1]}")
    known, outside = b.known[0], context.places
    edges: list[tuple[str, list[Val]]] = []
    for label, branch, values in zip(labels, branches, yields):
        b.known[0] = dict(known)
        context.places = dict(outside)
        b.enter(label)
        write_block(branch, _handed_on(branch, values, homes), False)
        scalars = [scalar_of(context, values[i]) for i in range(len(op.results)) if i not in homes]
        edges.append((b.current_label, scalars))
        b.line(f"br label %{join}")
    b.leave(join, known)
    rest = [r for i, r in enumerate(op.results) if i not in homes]
    for k, result in enumerate(rest):
        incoming = ", ".join(f"[ {values[k].text}, %{label} ]" for label, values in edges)
        element = element_of(result.type)
        context.places[result] = Uniform(b.effect(element, 0, f"phi {llvm_type(element, 0)} {incoming}"))
    for i, home in homes.items():
        context.places[op.results[i]] = home


def _while(context: CodegenContext, op: Op, write_block: WriteBlock) -> None:
    b = context.b
    before, after = op.regions
    initial = op.operands
    passed, yielded = before.ops[-1].operands[1:], after.ops[-1].operands
    homes = {i: _home(context, yielded[i]) for i, v in enumerate(initial) if is_in_scratch(v)}
    results = {i: _home(context, v) for i, v in enumerate(passed) if is_in_scratch(v)}
    keep(context, _copies([initial[i] for i in homes], list(homes.values())))
    scalars = [i for i in range(len(initial)) if i not in homes]
    started = [scalar_of(context, initial[i]) for i in scalars]

    header, inside, done = b.fresh("while"), b.fresh("do"), b.fresh("end")
    entered_from = b.current_label
    b.line(f"br label %{header}")
    known = b.enter(header)
    phis = _Phis(context)
    for i in scalars:
        context.places[before.arguments[i]] = Uniform(phis.add(element_of(initial[i].type)))
    phis.edge(started, entered_from)
    for i, home in homes.items():
        context.places[before.arguments[i]] = home
    write_block(before, _handed_on(before, passed, results), False)
    condition = scalar_of(context, before.ops[-1].operands[0])
    for i, (argument, value) in enumerate(zip(after.arguments, passed)):
        lane = results[i] if i in results else Uniform(scalar_of(context, value))
        context.places[argument] = context.places[op.results[i]] = lane
    b.line(f"br i1 {condition.text}, label %{inside}, label %{done}")
    b.enter(inside)
    write_block(after, _handed_on(after, yielded, homes), False)
    following = [scalar_of(context, yielded[i]) for i in scalars]
    phis.edge(following, b.current_label)
    b.line(f"br label %{header}")
    phis.close()
    b.leave(done, known)
