"""Whether the ranks of a training train the same: the same net, by the same solver, on the same data and versions."""

from __future__ import annotations

import platform
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..errors import RankError, brief
from ..fields.configured import inside
from ..fields.tables import table_of
from ..fields.types import Paths
from ..protocols.communicator import Communicator
from ..protocols.layer import Layer
from ..protocols.state import SourceState
from ..snapshots.environment import FOR_PEOPLE
from .checkpoint import described, remembered
from .members import Members

if TYPE_CHECKING:
    import numpy as np

MISSING = "missing"
MACHINE = (*FOR_PEOPLE, "libc", "processor")
"""What may differ from rank to rank, besides the plan."""
ENDS = 1 << 20
"""How many bytes at each end of an array are looked at, and of the files of a source together."""
LEAST = 1 << 12
"""The same of a file, however many there are."""


def facts_of(members: Members) -> dict[str, Any]:
    """Return what must be the same on all ranks before they train."""
    net = members.net
    state = described(members)
    environment = state.pop("environment")
    state.pop("plan")  # that of the first, which all follow as far as they can
    layers = {f"layer '{table['name']}'": table for table in state.pop("layers")}
    data: dict[str, Any] = {}
    if net.division is not None:  # ranks have other layers
        state = {key: value for key, value in state.items() if key != "parts"}
    elif net.target.part is not None:  # a kernel may decline the rows of one rank, and not those of another
        state["parts"] = {name: _without_kernel(origin) for name, origin in state["parts"].items()}
    for op in net.ops if net.division is None else ():
        if isinstance(op.state, SourceState):
            memory = {key: value for key, value in remembered(op.state).items() if isinstance(value, int | str)}
            joined = net.view().joined
            shapes = [[joined(length)[1] for length in one.shape[:1]] + [*one.shape[1:]] for one in op.outputs]
            data[f"data of layer '{op.name}'"] = {**memory, "shapes": shapes}
    for layer in net.layers:
        if layer.is_source and (contents := contents_of(layer.undivided)):
            data[f"contents of the data of layer '{layer.name}'"] = contents
    texts = {name: value for name, value in environment.items() if isinstance(value, str) and name not in MACHINE}
    versions = {f"version of {name}": value for name, value in texts.items()}
    return {**versions, **layers, **data, **state}


def contents_of(source: Layer) -> dict[str, list[int]]:
    """Return what tells the data of a source from others, at no cost: checksums of the ends of arrays and files.

    Others of the same size may differ all the same.
    """
    import numpy as np

    arrays: list[Any] = []
    table_of(source, (), arrays)
    known: list[np.ndarray] = [one for one in arrays if isinstance(one, np.ndarray)]
    paths = [
        path
        for part in inside(source)
        for field in type(part).fields()
        if field.takes(Paths)
        for path in cast("tuple[Any, ...]", getattr(part, field.name) or ())
    ]
    files = [Path(path) for path in paths if isinstance(path, str) and Path(path).is_file()]
    few = max(LEAST, ENDS // max(1, len(files)))
    found = {
        "checksums of arrays": [_checksum(one) for one in known if not one.dtype.hasobject],
        "bytes of files": [path.stat().st_size for path in files],
        "checksums of files": [_file_checksum(path, few) for path in files],
    }
    return {what: numbers for what, numbers in found.items() if numbers}


def _checksum(array: np.ndarray) -> int:
    """Return that of the first and last numbers of an array, which may be larger than memory."""
    rows = array.reshape(1) if not array.ndim else array
    few = max(1, ENDS // max(1, rows[:1].nbytes))
    return zlib.crc32(rows[-few:].tobytes(), zlib.crc32(rows[:few].tobytes()))


def _file_checksum(path: Path, few: int) -> int:
    """Return that of the first and last bytes of a file."""
    with path.open("rb") as file:
        first = zlib.crc32(file.read(few))
        file.seek(max(0, path.stat().st_size - few))
        return zlib.crc32(file.read(few), first)


def _without_kernel(origin: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in origin.items() if not key.startswith("kernel")}


def fingerprint(members: Members, iteration: int) -> dict[str, Any]:
    """Return what must be the same on all ranks when they begin: the iteration, and a checksum of each parameter."""
    same = {slot.name for slot in members.net.slots if slot.everywhere}
    values = {name: handle.value for name, handle in members.net.parameters.items() if name in same}
    sums = {name: zlib.crc32(value.tobytes()) for name, value in values.items()}
    return {"iteration": iteration, **{f"checksum of {name}": found for name, found in sums.items()}}


def check_agreement(communicator: Communicator, facts: Mapping[str, Any]) -> None:
    """Compare facts, which JSON can hold, with those of all other ranks.

    Raises:
        RankError: they differ; the message says what differs first, and where.
    """
    every = communicator.gather([platform.node(), facts])
    host, first = every[0]
    for rank, (other_host, other) in enumerate(every):
        if (found := _first_difference(first, other)) is not None:
            where, one, two = found
            there = f" ({other_host})" if other_host != host else ""
            raise RankError(
                f"the ranks do not train the same: {where} is {brief(one)} on rank 0, but {brief(two)} on rank "
                f"{rank}{there}",
                "start all ranks with the same net file, options, data and versions",
            )


def _first_difference(one: Any, other: Any, where: str = "") -> tuple[str, Any, Any] | None:
    """Return where two values differ first, and the two values there; None if they are equal."""
    if one == other:
        return None
    if isinstance(one, dict) and isinstance(other, dict):
        first, second = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        for key in dict.fromkeys([*first, *second]):
            place = f"{where}: {key}" if where else key
            found = _first_difference(first.get(key, MISSING), second.get(key, MISSING), place)
            if found is not None:
                return found
    return where, cast("Any", one), cast("Any", other)
