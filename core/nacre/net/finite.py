"""Find the first number in a net that is not finite (NaN or infinite)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from ..discovery.blame import called
from ..engine.memory import Memory
from ..engine.ops import Op, Value, plain_space
from ..engine.parameters import Slot
from ..errors import NotFiniteError
from ..protocols.array import Array
from ..protocols.backend import Step
from ..protocols.view import Scalars


def first_bad_blob(memory: Memory, losses: Mapping[str, float]) -> str:
    """Return the first blob with such a number after a forward pass, and its layer; else the loss that is not finite.

    Blobs whose memory already holds something else are skipped.
    """
    for op in memory.ops:
        for value in op.outputs:
            if not _overwritten(memory, value) and _bad(memory, _array(memory, op, value)):
                return f"{_called(op, value)}{_came_from(memory, op)}"
    for name, loss in losses.items():
        if loss - loss != 0:
            return f"the loss of layer '{name}'"
    return "the sum of the losses"


def bad_records(memory: Memory) -> dict[str, int]:
    """Return how many records of the last batch have such a number: {"blob 'data' of layer 'test'": 3}."""
    import numpy as np

    found: dict[str, int] = {}
    for op in memory.ops:
        for value in op.outputs if op.is_source else ():
            if value.dtype.startswith("float"):
                rows = _host(memory, _array(memory, op, value))[: getattr(op.state, "rows", None)]
                if not np.isfinite(rows).all():
                    bad = ~np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
                    found[_called(op, value)] = int(bad.sum())
    return found


def first_bad_parameter(memory: Memory, slots: Iterable[Slot]) -> str:
    """Return the first parameter that has such a number in its gradient, or else in its value; "" if none has.

    If a blob of a source has one, return that instead: layers between, such as a ReLU, may have hidden it.
    """
    slots = list(slots)
    found = _first_bad_parameter(memory, slots)
    return found and (_first_bad(memory, [op for op in memory.ops if op.is_source]) or found)


def _first_bad_parameter(memory: Memory, slots: Sequence[Slot]) -> str:
    for what in ("gradient", "value"):
        for slot in slots:
            array = slot.gradient if what == "gradient" else slot.storage.array
            if array is not None and _bad(memory, array):
                through = _came_through(memory, slot, slots) if what == "gradient" else ""
                return f"the {what} of parameter '{slot.name}' of layer '{slot.layer}'{through}"
    return ""


def _came_through(memory: Memory, slot: Slot, slots: Iterable[Slot]) -> str:
    """Return the layers that a parameter's gradient has come through since it was finite in another's."""
    good = {use.op for one in slots if not _bad_gradient(memory, one) for use in one.uses}
    readers: dict[int, list[Op]] = {}
    for op in memory.ops:
        for value in op.inputs:
            readers.setdefault(id(value), []).append(op)
    found: set[Op] = set()
    waiting = [use.op for use in slot.uses]
    while waiting:
        for value in waiting.pop().outputs:
            above = [op for op in readers.get(id(value), ()) if op.backward and op not in found]
            found.update(above)
            waiting += [op for op in above if op not in good]
    return _listed("which came through", [op for op in memory.ops if op in found])


def _bad_gradient(memory: Memory, slot: Slot) -> bool:
    return slot.gradient is None or _bad(memory, slot.gradient)


def _came_from(memory: Memory, op: Op) -> str:
    """Return the layers below whose blobs are gone, so that the number may be from one of them."""
    writers = {id(value): (one, value) for one in memory.ops for value in one.outputs}
    found: set[Op] = set()
    waiting = [op]
    while waiting:
        below = [writers[id(value)] for value in waiting.pop().inputs if id(value) in writers]
        gone = [one for one, value in below if one not in found and _overwritten(memory, value)]
        found.update(gone)
        waiting += gone
    return _listed("after", [one for one in memory.ops if one in found])


def _overwritten(memory: Memory, value: Value) -> bool:
    """Return whether another value is in a value's memory by now: one that shares it, or of a layer in place."""
    return value.shared or _last_in(memory, value) is not value


def _last_in(memory: Memory, value: Value) -> Value:
    """Return the value that was written last into the memory of one."""
    if value.group.fixed is not None:
        return value
    written = {id(one): one for op in memory.ops for one in op.outputs if not any(one is top for _, top in op.aliases)}
    members = [one for one in written.values() if one.group is value.group]
    return members[-1] if members else value


def _listed(word: str, ops: Sequence[Op]) -> str:
    names = ", ".join(f"'{op.name}'" for op in ops)
    return f", {word} layer{'s' * (len(ops) > 1)} {names}" if ops else ""


class Watch:
    """Looks at what each step has written: the first number that is not finite is an error that names the layer."""

    def __init__(self, memory: Memory, slots: Iterable[Slot], scalars: Scalars) -> None:
        self._memory = memory
        self._slots = list(slots)
        self._scalars = scalars
        self._ops = {id(op.state): op for op in memory.ops}

    def __call__(self, step: Step) -> None:
        """Look at the arrays that a step may have written.

        Raises:
            NotFiniteError: one of them has such a number.
        """
        op = self._ops.get(id(step.state))
        for name, array in self._written(step, op):
            if _bad(self._memory, array):
                who = called(step.worker) or f"{step.kind} of {step.name}"
                raise NotFiniteError(
                    f"iteration {int(self._scalars['step'])}: {who}: {step.kind} writes the first number that is not "
                    f"finite, into {name}",
                    "try a smaller learning rate, or check the data and the fields of this layer",
                )

    def _written(self, step: Step, op: Op | None) -> Iterator[tuple[str, Array]]:
        if step.kind == "forward" and op is not None:
            yield from ((f"blob '{value.name}'", _now(self._memory, op, value)) for value in op.outputs)
            if op.layer.has_loss:
                import numpy as np

                yield "its loss", np.asarray(float(op.state.loss))
        elif step.kind == "backward" and op is not None:
            for parameter in op.state.parameters:
                if parameter.gradient is not None:
                    yield f"the gradient of parameter '{parameter.name}'", parameter.gradient
            for value in op.input_diffs:
                if value is not None:
                    yield f"the gradient of blob '{value.name}'", _now(self._memory, op, value)
        elif step.kind not in ("copy", "rows", "phase"):
            for slot in self._slots:
                if slot.gradient is not None and not slot.frozen:
                    yield f"the gradient of parameter '{slot.name}'", slot.gradient
                yield f"parameter '{slot.name}'", slot.storage.array


def _now(memory: Memory, op: Op, value: Value) -> Array:
    """Return what an op has just written, as a plain array."""
    space = op.space(value)
    if space[0] != "own":
        return memory.array(value, space)
    array = op.backend.empty(value.shape, value.dtype)
    op.backend.unpack(memory.own(value, space), array)
    return array


def first_bad_array(memory: Memory, arrays: Iterable[tuple[str, Array]]) -> str:
    """Return the name of the first array that has such a number; "" if none has."""
    return next((name for name, array in arrays if _bad(memory, array)), "")


def _array(memory: Memory, op: Op, value: Value) -> Array:
    """Return a blob's present content as a plain array."""
    return memory.array(value, plain_space(memory.main)) if value.pinned else _now(memory, op, value)


def _first_bad(memory: Memory, ops: Iterable[Op]) -> str:
    for op in ops:
        for value in op.outputs:
            if not value.shared and _bad(memory, _array(memory, op, value)):
                return _called(op, value)
    return ""


def _called(op: Op, value: Value) -> str:
    return f"blob '{value.name}' of layer '{op.node.name}'"


def _bad(memory: Memory, array: Array) -> bool:
    import numpy as np

    return not np.isfinite(_host(memory, array)).all()


def _host(memory: Memory, array: Array) -> Any:
    import numpy as np

    return cast("Any", array) if isinstance(array, np.ndarray) else memory.main.to_host(array)
