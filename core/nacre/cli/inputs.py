"""Records for `predict`, read from files by the readers that plugins offer for the files' endings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from math import isfinite, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, NacreError
from ..files.reading import check_file, unchanged
from .screen import warn

if TYPE_CHECKING:
    import numpy as np

    from ..config.netfile import NetFile
    from ..protocols.layer import Phase


NAMED = 5  # records in a warning
AT_A_TIME = 1 << 20  # numbers to check in one piece


def read_inputs(
    file: NetFile,
    paths: Sequence[Path],
    blob: str,
    shape: tuple[int, ...] | None,
    divide: float = 1.0,
    *,
    from_option: bool = False,
) -> np.ndarray[Any, Any]:
    """Return the records (records, *shape) of all files, one after the other, with their numbers divided.

    `shape` is None if it is not known; `from_option` is true if it comes from --shape. Records with numbers that are
    not finite are a warning.

    Raises:
        DataError: a file cannot be read, or its records do not fit; the message names it.
    """
    import numpy as np

    from ..protocols.records import reader_of

    if not divide or not isfinite(divide):
        raise DataError(
            f"--divide {divide:g}: it must be a finite number other than 0", "leave it out, or use another number"
        )
    readers = [reader_of(path, file.pins) for path in paths]
    if shape is None and any(reader.needs_shape for reader in readers):
        message = f"the shape of '{blob}' is not known, because the data of {file.path} are missing"
        raise DataError(message, "add the shape of a record, for example --shape 1,8,8")
    parts: list[np.ndarray[Any, Any]] = []
    for path, reader in zip(paths, readers, strict=True):
        check_file(path, "a file with records")
        with unchanged(path, grows=reader.grows):
            read = reader.read(path, blob, shape)
        part = _shaped(read, shape, path, from_option=from_option)
        parts.append(part if divide == 1 else part / divide)
        _warn_of_not_finite(part, path)
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) > 1:
        found = ", ".join(f"{path}: {part.shape[1:]}" for path, part in zip(paths, parts, strict=True))
        raise DataError(f"the records have different shapes: {found}", "use files with records of one shape")
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def known_shape(file: NetFile, blob: str) -> tuple[int, ...] | None:
    """Return the shape of a record from a source of the net file, or None if the data of all sources are missing."""
    batch = _known_batch(file, blob)
    return batch and batch[1:]


def fed(file: NetFile, phase: Phase) -> NetFile:
    """Return a net file with sources in a phase; for `predict`, if there are none, with inputs like its sources.

    Raises:
        DataError: their shape is not known.
    """
    from ..net.predict import layers_for, wanted

    if phase != "predict" or any(layer.is_source and phase not in layer.exclude for layer in file.layers):
        return file
    want = wanted(file.layers)
    batches = {blob: _known_batch(file, blob) for blob in want.needed}
    if missing := [blob for blob, batch in batches.items() if batch is None]:
        message = f"the shape of '{missing[0]}' is not known, because the data of {file.path} are missing"
        layer = f'a [[layer]] with type = "Input", tops = ["{missing[0]}"], the shape of a record'
        raise DataError(message, f'copy the data here, or add {layer}, and exclude = ["train", "validation", "test"]')
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
    part: np.ndarray[Any, Any], shape: tuple[int, ...] | None, path: Path, *, from_option: bool
) -> np.ndarray[Any, Any]:
    if part.dtype.kind not in "fiub":
        raise DataError(f"{path}: its records must be numbers, but they have the type {part.dtype}")
    if part.ndim == 0 or not len(part):
        raise DataError(f"{path}: it has no records")
    if shape is None or part.shape[1:] == shape:
        return part
    if prod(part.shape[1:]) != prod(shape):
        wanted = "--shape is" if from_option else "the net needs"
        remedy = "correct --shape, or leave it out" if from_option else "scale or cut the records to this shape"
        raise DataError(f"{path}: its records have the shape {part.shape[1:]}, but {wanted} {shape}", remedy)
    return part.reshape(-1, *shape)


def whole_records(part: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return for each record whether no number in it is NaN."""
    import numpy as np

    return _of_each(part, lambda numbers: np.logical_not(np.isnan(numbers)))


def _of_each(part: np.ndarray[Any, Any], test: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
    """Return for each record whether all its numbers pass a test; it works in pieces, to save memory."""
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
        warn(f"{path}: {'record' if len(bad) == 1 else 'records'} {named}: some numbers are not finite")
