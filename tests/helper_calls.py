"""Calls of the onednn backend's helper, run without a net."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from typing import Any

import pytest

import nacre_onednn
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


def without_helper(patch: pytest.MonkeyPatch) -> None:
    """Let nobody find the helper."""
    names = [found.name for found in pkgutil.walk_packages(nacre_onednn.__path__, "nacre_onednn.")]
    # all first: what is imported between two patches would keep the first one's answer for ever
    modules = [importlib.import_module(name) for name in names if not name.endswith("._helper")]
    for module in modules:
        for name, answer in {"helper": None, "has_avx512": False, "has_amx": False, "lanes": 0}.items():
            if callable(getattr(module, name, None)):
                patch.setattr(module, name, lambda answer=answer: answer)
