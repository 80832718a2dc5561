"""Layers that one kernel computes together: the top between them is never written, and has no memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

from ..discovery.blame import answered
from ..errors import ContractError
from ..protocols.blob import Blob
from ..protocols.state import LayerState
from .ops import Op, intermediates


def join(ops: list[Op], keep: Iterable[str] | None, stack: ExitStack) -> list[Op]:
    """Return ops in which kernels that offer it (`LayerState.joined_with`) have taken over the kernel below.

    Only one layer reads the top between two such kernels, and it is not among the blobs `keep`, which can be read from
    outside; None keeps all. The `shutdown` of each new state is put on the `stack`.
    """
    if keep is None:
        return ops
    found: list[Op] = []
    writers: dict[int, Op] = {}
    readers = Counter(id(value) for op in ops for value in op.inputs)
    final = {value.name: value for op in ops for value in op.outputs}
    kept = {id(final[name]) for name in keep if name in final}
    for op in ops:
        for index, value in enumerate(op.inputs):
            lower = writers[id(value)]
            if readers[id(value)] == 1 and id(value) not in kept and (made := _joined(op, index, lower, stack)):
                found.remove(lower)
                op = made
                break
        found.append(op)
        writers |= {id(value): op for value in op.outputs}
    return found


def _joined(op: Op, index: int, lower: Op, stack: ExitStack) -> Op | None:
    """Return an op that does the work of two, of which the upper one reads the lower one's top, or None."""
    if lower.backend is not op.backend or lower.aliases or not all(_is_simple(one) for one in (lower, op)):
        return None
    make = op.state.joined_with(lower.state, index)
    if make is None:
        return None
    others = [number for number in range(len(op.inputs)) if number != index]
    inputs = [*lower.inputs, *(op.inputs[number] for number in others)]
    blobs: list[Any] = [value.declared() for value in inputs]
    wanted = [*lower.diff_arrays, *(op.diff_arrays[number] for number in others)]
    diffs: list[Any] = [None if one is None else Blob(one.shape, one.dtype) for one in wanted]
    state = answered(op.state, "joined_with", make(blobs, diffs), LayerState, "a function that makes a kernel")
    stack.callback(state.shutdown)
    (top,) = op.outputs
    if [tuple(one.shape) for one in state.blobs] != [top.shape]:
        raise ContractError(f"{type(state).__name__} joins layers, but it does not declare the top of the upper one")
    of_neuron = op.neuron is not None  # of the lower one's own layer
    name, choice = (lower.name, lower.choice) if of_neuron else (op.name, op.choice)
    made = Op(op.node, name, state, op.backend, choice, inputs, blobs, diffs)
    if made.space(top) != top.space:
        return None  # it may be that of the first bottom, which is another one now
    made.neuron = lower.neuron if of_neuron else None
    made.members = [*lower.members, *op.members]
    lower.intermediates = op.intermediates = []
    made.outputs = [top]
    made.intermediates = intermediates(made)
    made.components = [*lower.components, *op.components]
    made.in_place, made.backward = lower.in_place and op.in_place, lower.backward or op.backward
    without = (number + len(lower.inputs) for number, other in enumerate(others) if other in op.without_gradient)
    made.without_gradient = lower.without_gradient | set(without)
    return made


def _is_simple(op: Op) -> bool:
    """Return whether an op is that of a kernel with one top, on whole batches of the whole net."""
    divided = op.node.part is not None or op.node.micro is not None
    return op.kernel and len(op.outputs) == 1 and not (op.is_source or divided)
