"""Finds the first number of a net that is not finite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..engine.ops import Op, Value, plain_space
from ..engine.parameters import Slot
from ..protocols.array import Array

if TYPE_CHECKING:
    from ..training.spans import Span
    from .net import Net


def first_bad_blob(net: Net) -> str:
    """Name the first blob that holds such a number after a forward pass, with its layer; else the loss that is one.

    Blobs whose memory holds something else by then are passed over.
    """
    if found := _first_bad(net, net.ops):
        return found
    for name, loss in net.losses().items():
        if loss - loss != 0:
            return f"the loss of layer '{name}'"
    return "the sum of the losses"


def bad_records(net: Net) -> dict[str, int]:
    """Count the records with such a number that the sources gave last: {"blob 'data' of layer 'test'": 3}."""
    import numpy as np

    found: dict[str, int] = {}
    for op in net.ops:
        for value in op.outputs if op.is_source else ():
            if value.dtype.startswith("float"):
                rows = _host(net, _array(net, op, value))[: getattr(op.state, "rows", None)]
                if not np.isfinite(rows).all():
                    bad = ~np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
                    found[_called(op, value)] = int(bad.sum())
    return found


def first_bad_parameter(net: Net, slots: Iterable[Slot]) -> str:
    """Name the first parameter, by gradient and then by value, that holds such a number; "" if none does.

    Where a source gave one it is named instead: what lies between may have passed over it, as a ReLU may.
    """
    slots = list(slots)
    found = _first_bad_parameter(net, slots)
    return found and (_first_bad(net, [op for op in net.ops if op.is_source]) or found)


def _first_bad_parameter(net: Net, slots: Iterable[Slot]) -> str:
    for what in ("gradient", "value"):
        for slot in slots:
            array = slot.gradient if what == "gradient" else slot.storage.array
            if array is not None and _bad(net, array):
                return f"the {what} of parameter '{slot.name}' of layer '{slot.layer}'"
    return ""


def first_bad_history(net: Net, spans: Sequence[Span], histories: Mapping[str, Sequence[Array]]) -> str:
    """Name the first history of a method, by parameter, that holds such a number; "" if none does."""
    for name, arrays in histories.items():
        for span, array in zip(spans, arrays, strict=True):
            for part, start, size in span.parts:
                if _bad(net, array[start : start + size]):
                    return f"the history '{name}' of parameter '{part}'"
    return ""


def _array(net: Net, op: Op, value: Value) -> Array:
    """Give a plain array of a blob as it is now."""
    space = op.space(value)
    if value.pinned:
        return net.schedule.array(value, plain_space(net.backend))
    if space[0] != "own":
        return net.schedule.array(value, space)
    array = op.backend.empty(value.shape, value.dtype)
    op.backend.unpack(net.schedule.own(value, space), array)
    return array


def _first_bad(net: Net, ops: Iterable[Op]) -> str:
    for op in ops:
        for value in op.outputs:
            if not value.shared and _bad(net, _array(net, op, value)):
                return _called(op, value)
    return ""


def _called(op: Op, value: Value) -> str:
    return f"blob '{value.name}' of layer '{op.layer.name}'"


def _bad(net: Net, array: Array) -> bool:
    import numpy as np

    return not np.isfinite(_host(net, array)).all()


def _host(net: Net, array: Array) -> Any:
    import numpy as np

    return cast("Any", array) if isinstance(array, np.ndarray) else net.backend.to_host(array)
