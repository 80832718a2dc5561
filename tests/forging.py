"""Snapshots whose digest is right and whose content is not, and values that no field should choke on."""

import copy
import io
import json
import os
import random
from typing import Any

import h5py
import numpy as np

from nacre.snapshots.snapshot import Snapshot
from nacre_data.hdf5_store import USER_BLOCK, _user_block

ODD: tuple[Any, ...] = (
    *(None, True, False, "", " ", "0", "a\0b", "../../x", "os:system", "é\u202e", "\ud800", "x" * 5000, "NaN", "loss"),
    *(0, 1, -1, 2, 3, 7, 255, 65536, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**40, -(2**63)),
    *(0.0, -0.0, 0.5, 1.0, -1.5, 1e-320, 1e38, 1e39, 1e308, float("nan"), float("inf"), float("-inf")),
    *([], [0], [1, 1], [-1], [2**31, 2**31], [2**63], ["a"], ["a", "a"], [None], [[]], [[1], [2]], [0.5, 2], [1] * 100),
    *({}, {"type": 3}, {"type": "os:system"}, {"type": "ReLU"}, {"a": {"b": []}}, {"type": "Constant", "value": "x"}),
)


def trials(few: int, many: int) -> int:
    """Return how many trials to make: few in the default run, many in the long one."""
    return many if "NACRE_TRIALS" in os.environ else few


def pack(header: Any, arrays: dict[str, Any]) -> bytes:
    """Return a snapshot's file that holds any header and any arrays."""
    memory = io.BytesIO()
    with h5py.File(memory, "w", userblock_size=USER_BLOCK) as file:
        text = json.dumps(header).encode()
        file.create_dataset("snapshot", data=text, dtype=h5py.string_dtype("utf-8", len(text)))
        for name, array in arrays.items():
            file.create_dataset(f"arrays/{name}", data=array)
    data = bytearray(memory.getvalue())
    data[:USER_BLOCK] = _user_block(memoryview(bytes(data[USER_BLOCK:])))
    return bytes(data)


def forge(snapshot: Snapshot, number: int) -> tuple[bytes, str]:
    """Return a snapshot's file in which a thing or two are others than they were, and say which."""
    dice = random.Random(number)
    header: Any = {
        "iteration": snapshot.iteration,
        "arrays": list(snapshot.arrays),
        "state": copy.deepcopy(snapshot.state),
    }
    arrays, told = dict(snapshot.arrays), []
    for _ in range(dice.choice((1, 1, 2))):
        if dice.random() < 0.25:
            name = dice.choice(list(arrays))
            arrays[name], change = _odd_array(arrays[name], dice)
            told.append(f"{name} {change}")
            continue
        # what lies deep is no more likely than what does not
        inside: Any = header
        key: Any = dice.choice(["iteration", "arrays", *["state"] * 20])
        while isinstance(inside[key], dict | list) and inside[key] and (key == "state" or dice.random() < 0.7):
            inside = inside[key]
            key = dice.choice(list(inside)) if isinstance(inside, dict) else dice.randrange(len(inside))
        if isinstance(inside, dict) and dice.random() < 0.1:
            told.append(f"{key} is gone")
            del inside[key]
            if inside is header:
                break
        else:
            inside[key] = copy.deepcopy(dice.choice(ODD))
            told.append(f"{key} = {inside[key]!r:.60}")
    return pack(header, arrays), "; ".join(told)


def _odd_array(array: Any, dice: random.Random) -> tuple[Any, str]:
    kind = dice.choice(("shape", "type", "number", "empty", "scalar", "longer"))
    if kind == "type":
        return array.astype(dice.choice(("int8", "uint64", "float16", "complex64", "bool", "S3"))), "of another type"
    if kind == "number" and array.size:
        changed = array.copy()
        kind = array.dtype.kind
        top = np.finfo(array.dtype).max if kind in "fc" else np.iinfo(array.dtype).max if kind in "iu" else 1
        changed.reshape(-1)[dice.randrange(array.size)] = dice.choice((0, top, -1 if kind not in "uS" else 1))
        return changed, "with another number"
    shaped = {"shape": array.reshape(-1, 1), "empty": array[:0] if array.ndim else array, "scalar": np.float64(1)}
    return shaped.get(kind, np.zeros((3, *array.shape), array.dtype)), f"{kind}"
