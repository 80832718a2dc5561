"""Find the first number in a net that is not finite (NaN or infinite)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ..engine.memory import Memory
from ..engine.ops import Op, Value, plain_space
from ..engine.parameters import Slot
from ..protocols.array import Array


def first_bad_blob(memory: Memory, losses: Mapping[str, float]) -> str:
    """Return the first blob with such a number after a forward pass, and its layer; else the loss that is not finite.

    Blobs whose memory already holds something else are skipped.
    """
    if found := _first_bad(memory, memory.ops):
        return found
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


def _first_bad_parameter(memory: Memory, slots: Iterable[Slot]) -> str:
    for what in ("gradient", "value"):
        for slot in slots:
            array = slot.gradient if what == "gradient" else slot.storage.array
            if array is not None and _bad(memory, array):
                return f"the {what} of parameter '{slot.name}' of layer '{slot.layer}'"
    return ""


def first_bad_array(memory: Memory, arrays: Iterable[tuple[str, Array]]) -> str:
    """Return the name of the first array that has such a number; "" if none has."""
    return next((name for name, array in arrays if _bad(memory, array)), "")


def _array(memory: Memory, op: Op, value: Value) -> Array:
    """Return a blob's present content as a plain array."""
    space = op.space(value)
    if value.pinned:
        return memory.array(value, plain_space(memory.main))
    if space[0] != "own":
        return memory.array(value, space)
    array = op.backend.empty(value.shape, value.dtype)
    op.backend.unpack(memory.own(value, space), array)
    return array


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
