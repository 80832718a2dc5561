"""Calls of the onednn backend's helper, run without a net."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre_onednn.dnnl.primitives import Call
from nacre_onednn.record import Record, aligned, sizes_of


def run(calls: Sequence[Call], buffers: dict[str, Any], threads: int) -> None:
    """Run calls on buffers by name; those that lack are scratch memory full of NaN, which must not get into results."""
    scratch = {name: aligned(size) for name, size in sizes_of(calls, buffers).items()}
    for one in scratch.values():
        one[...] = 255
    record = Record()
    for call in calls:
        record.add_call(call, {name: one.ctypes.data for name, one in {**buffers, **scratch}.items()}, ())
    record.replay(threads)()


def assert_same_bits(results: Sequence[dict[str, Any]]) -> None:
    """Check that all results are the first, and are not nothing."""
    for other in results[1:]:
        for name, one in results[0].items():
            assert one.any()
            assert one.tobytes() == other[name].tobytes(), name
