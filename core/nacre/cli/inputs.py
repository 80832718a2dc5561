"""Records for `predict` and `test`, from files of any format that a store reads; and the net that reads them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, NacreError
from ..net.columns import COLUMNS
from ..net.files import FileRecords, Needed

if TYPE_CHECKING:
    import numpy as np

    from ..config.netfile import NetFile
    from ..net.net import Net
    from ..net.predict import Wanted
    from ..protocols.layer import Phase
    from ..protocols.view import Fitted


def records_of(
    file: NetFile,
    paths: Sequence[Path],
    blob: str,
    shape: tuple[int, ...] | None = None,
    divide: float = 1.0,
    *,
    from_option: bool = False,
    others: Collection[str] = (),
) -> FileRecords:
    """Return the records of files for one blob of a net file.

    `shape` is that of a record in the net, None if it is not known; `from_option` is true if it comes from --shape, and
    is that of a record before the source's transformers; `others` are the other blobs that are
    read.

    Raises:
        DataError: no file can be read, or records do not fit; the message names the file.
    """
    if not divide or not isfinite(divide):
        message = f"--divide {divide:g}: it must be a finite number other than 0"
        raise DataError(message, "leave it out, or use another number")
    source = next((layer for layer in file.layers if layer.is_source and blob in layer.tops), None)
    unknown = f"the data of {file.path} are missing: add the shape of a record, for example --shape 1,8,8"
    columns = file.fitted.get(blob, {}).get(COLUMNS, ())
    needed = Needed(shape, others=others, columns=columns, unknown=unknown)
    if from_option:
        needed = dataclasses.replace(
            needed, prepared=False, who="--shape is", remedy="correct --shape, or leave it out"
        )
    return FileRecords(source, paths, blob, needed, divide=divide, pins=file.pins)


def blobs_of(file: NetFile, want: Wanted, shape: tuple[int, ...] | None) -> Sequence[str]:
    """Return the blobs of the sources that the outputs need; `shape` is that of --shape.

    Raises:
        DataError: they need none, or several, although a shape is given.
    """
    if not want.needed:
        raise DataError(f"{file.path}: the net reads no blob of its sources", "choose another blob (--blob)")
    if shape is not None and len(want.needed) > 1:
        read = ", ".join(want.needed)
        raise DataError(f"--shape is for nets of one input, but this one reads {read}", "leave it out")
    return want.needed


def by_blob(file: NetFile, paths: Sequence[Path], blobs: Sequence[str]) -> dict[str, list[Path]]:
    """Return the files of each blob: those given as BLOB=FILE, and all others, which have records of every one.

    Raises:
        DataError: a blob has no file.
    """
    found: dict[str, list[Path]] = {blob: [] for blob in blobs}
    for path in paths:
        name, equals, rest = str(path).partition("=")
        named = bool(equals) and name in found and not path.exists()
        for blob in (name,) if named else blobs:
            found[blob].append(Path(rest) if named else path)
    if missing := [blob for blob, files in found.items() if not files]:
        form = " ".join(f"{blob}=FILE" for blob in blobs)
        raise DataError(
            f"{file.path}: the net reads {', '.join(blobs)}, but there is no file for {missing[0]}",
            f"give {form}, or files with all of them",
        )
    return found


def known_shape(file: NetFile, blob: str) -> tuple[int, ...] | None:
    """Return the shape of a record from a source of the net file, or None if the data of all sources are missing."""
    batch, _ = _known_batch(file, blob)
    return batch and batch[1:]


def fed(file: NetFile, phase: Phase) -> NetFile:
    """Return a net file with sources in a phase; for `predict`, if there are none, with inputs like its sources.

    Raises:
        DataError: their shape is not known.
    """
    from ..net.fitted import joined
    from ..net.predict import layers_for, wanted

    if phase != "predict" or any(layer.is_source and phase not in layer.exclude for layer in file.layers):
        return file
    want = wanted(file.layers, algorithm=file.algorithm)
    found = {blob: _known_batch(file, blob) for blob in want.needed}
    if missing := [blob for blob, (batch, _) in found.items() if batch is None]:
        message = f"the shape of '{missing[0]}' is not known, because the data of {file.path} are missing"
        layer = f'a [[layer]] with type = "Input", tops = ["{missing[0]}"], the shape of a record'
        raise DataError(message, f'copy the data here, or add {layer}, and exclude = ["train", "validation", "test"]')
    known = {blob: batch for blob, (batch, _) in found.items() if batch}
    layers = layers_for(want, {blob: batch[1:] for blob, batch in known.items()}, max(one[0] for one in known.values()))
    return dataclasses.replace(file, layers=tuple(layers), fitted=joined(fitted for _, fitted in found.values()))


def written_net(
    file: NetFile,
    want: Wanted,
    shapes: Mapping[str, tuple[int, ...]],
    batch_size: int,
    backend: str | None = None,
    types: Mapping[str, str] | None = None,
    *,
    allocate: bool = True,
) -> Net:
    """Return the layers of a net file that outputs need, as a net for `predict` whose sources' blobs are written.

    The sources' data may be missing. Its parameters are 0 until they are loaded; `types` are those of blobs that are
    not of the net's type. Without `allocate` it can only be looked at.
    """
    from ..net.predict import layers_for

    layers = layers_for(want, shapes, batch_size, types)
    present = dataclasses.replace(file, layers=tuple(layers))
    options: dict[str, Any] = {"fallback": "warn", "keep": want.outputs, "initialise": False, "allocate": allocate}
    return present.net("predict", backend=backend, **options)


def _known_batch(file: NetFile, blob: str) -> tuple[tuple[int, ...] | None, Fitted]:
    """Return the shape of a blob in the first phase that can be planned, and what that net knows of the data."""
    for phase in ("test", "validation", "train", "predict"):
        try:
            with file.net(phase, allocate=False, fallback="warn") as net:
                if blob in net.memory.final:
                    return net.memory.final[blob].shape, net.fitted
        except NacreError:
            continue
    return None, {}


def whole_records(records: Mapping[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Return for each record whether no number in it is NaN, in any of the blobs."""
    import numpy as np

    return np.all([[not np.isnan(record).any() for record in array] for array in records.values()], axis=0)
