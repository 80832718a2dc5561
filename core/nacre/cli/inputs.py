"""Records for `predict`, read from files by what plugins offer for the files' endings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from math import isfinite, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, NacreError, where_it_is
from ..files.reading import unchanged
from .screen import warn

if TYPE_CHECKING:
    import numpy as np

    from ..config.netfile import NetFile
    from ..protocols.layer import Phase


NAMED = 5  # records that a warning names
AT_A_TIME = 1 << 20  # numbers that are looked at


def read_inputs(
    file: NetFile,
    paths: Sequence[Path],
    blob: str,
    shape: tuple[int, ...] | None,
    divide: float = 1.0,
    *,
    said: bool = False,
) -> np.ndarray[Any, Any]:
    """Read records (records, *shape) from files, one behind the other, and divide their numbers.

    `shape` is None where nothing tells it; `said` tells that the user did, by --shape. A record
    whose numbers are not all finite is warned of.

    Raises:
        DataError: a file cannot be read, or its records do not fit; the message names it.
    """
    import numpy as np

    from ..protocols.records import reader_of

    if not divide or not isfinite(divide):
        raise DataError(f"--divide {divide:g}: it must be a finite number other than 0", "leave it out, or say another")
    readers = [reader_of(path, file.pins) for path in paths]
    if shape is None and any(reader.needs_shape for reader in readers):
        told = f"no source of {file.path} tells the shape of '{blob}': its data are not here"
        raise DataError(told, "say it: --shape 1,8,8")
    parts: list[np.ndarray[Any, Any]] = []
    for path, reader in zip(paths, readers, strict=True):
        if not path.is_file():
            if path.exists():
                raise DataError(f"{path}: not a file", "name a file with records")
            raise DataError(f"{path}: no such file", where_it_is(path))
        with unchanged(path, grows=reader.grows):
            read = reader.read(path, blob, shape)
        part = _shaped(read, shape, path, said=said)
        parts.append(part if divide == 1 else part / divide)
        _warn_of_not_finite(part, path)
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) > 1:
        told = ", ".join(f"{path}: {part.shape[1:]}" for path, part in zip(paths, parts, strict=True))
        raise DataError(f"the records are of different shapes: {told}")
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def known_shape(file: NetFile, blob: str) -> tuple[int, ...] | None:
    """Return the shape of a record, as a source of the net file has it whose data are there, or None."""
    batch = _known_batch(file, blob)
    return batch and batch[1:]


def fed(file: NetFile, phase: Phase) -> NetFile:
    """Return a net file whose net has sources in a phase: for `predict`, which may have none, inputs like its sources.

    Raises:
        DataError: nothing tells their shape.
    """
    from ..net.predict import layers_for, wanted

    if phase != "predict" or any(layer.is_source and phase not in layer.exclude for layer in file.layers):
        return file
    want = wanted(file.layers)
    batches = {blob: _known_batch(file, blob) for blob in want.needed}
    if missing := [blob for blob, batch in batches.items() if batch is None]:
        told = f"no source of {file.path} tells the shape of '{missing[0]}': its data are not here"
        remedy = (
            f'bring them, or add a [[layer]] with type = "Input", tops = ["{missing[0]}"], and the shape of a record'
        )
        raise DataError(told, f'{remedy}, and exclude = ["train", "validation", "test"]')
    known = {blob: batch for blob, batch in batches.items() if batch}
    layers = layers_for(want, {blob: batch[1:] for blob, batch in known.items()}, max(one[0] for one in known.values()))
    return dataclasses.replace(file, layers=tuple(layers))


def _known_batch(file: NetFile, blob: str) -> tuple[int, ...] | None:
    for phase in ("test", "validation", "train", "predict"):
        try:
            with file.net(phase, allocate=False, fallback="warn") as net:
                if blob in net.memory.final:
                    return net.memory.final[blob].shape
        except NacreError:
            continue
    return None


def _shaped(
    part: np.ndarray[Any, Any], shape: tuple[int, ...] | None, path: Path, *, said: bool
) -> np.ndarray[Any, Any]:
    if part.dtype.kind not in "fiub":
        raise DataError(f"{path}: an array of {part.dtype} has no numbers")
    if part.ndim == 0 or not len(part):
        raise DataError(f"{path}: there is no record in it")
    if shape is None or part.shape[1:] == shape:
        return part
    if prod(part.shape[1:]) != prod(shape):
        who = "--shape says" if said else "the net takes"
        remedy = "say their shape, or leave --shape out" if said else "scale or cut them to the net's shape"
        raise DataError(f"{path}: its records are of shape {part.shape[1:]}, but {who} {shape}", remedy)
    return part.reshape(-1, *shape)


def whole_records(part: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return whether each record has all its numbers: none is NaN."""
    import numpy as np

    return _of_each(part, lambda numbers: np.logical_not(np.isnan(numbers)))


def _of_each(part: np.ndarray[Any, Any], test: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
    """Return whether all numbers of each record pass a test; in pieces, since the answers would take much memory."""
    import numpy as np

    if part.dtype.kind != "f":
        return np.ones(len(part), bool)
    step = max(1, AT_A_TIME * len(part) // max(1, part.size))
    starts = range(0, len(part), step)
    return np.concatenate([test(part[start : start + step]).reshape(-1, part[0].size).all(axis=1) for start in starts])


def _warn_of_not_finite(part: np.ndarray[Any, Any], path: Path) -> None:
    import numpy as np

    bad = np.flatnonzero(~_of_each(part, np.isfinite)).tolist()
    if bad:
        more = f" and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
        named = f"{', '.join(map(str, bad[:NAMED]))}{more}"
        warn(f"{path}: {'record' if len(bad) == 1 else 'records'} {named}: not all numbers are finite")
