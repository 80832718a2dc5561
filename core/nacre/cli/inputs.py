"""Records for `predict`, from arrays, HDF5 files, tables and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, NacreError

if TYPE_CHECKING:
    import numpy as np

    from ..config import NetFile

READ_AT_ONCE = 256


def input_blob(file: NetFile) -> str:
    """Give the blob that the layers of phase `predict` read and none of them writes: what a record is written to.

    Raises:
        DataError: there is none, or there are several.
    """
    from ..layer import bottoms_of, tops_of

    layers = [layer for layer in file.layers if "predict" not in layer.exclude and not layer.is_source]
    written = {name for layer in layers if not layer.is_inplace for name in tops_of(layer)}
    open_ends = {name for layer in layers if tops_of(layer) for name in bottoms_of(layer)} - written
    if len(open_ends) != 1:
        found = ", ".join(sorted(open_ends)) or "none"
        raise DataError(
            f"{file.path}: a net for `predict` must read exactly one blob of its sources, but reads: {found}"
        )
    return open_ends.pop()


def read_inputs(
    file: NetFile, paths: Sequence[Path], blob: str, shape: tuple[int, ...], divide: float
) -> np.ndarray[Any, Any]:
    """Read records (records, *shape) from files, one behind the other.

    Raises:
        DataError: a file cannot be read, or its records do not fit; the message names it.
    """
    import numpy as np

    if not divide:
        raise DataError("--divide 0: it must be another number")
    if not shape and any(path.suffix.lower() not in (".npy", ".h5", ".hdf5") for path in paths):
        shape = _known_shape(file, blob)
    parts: list[np.ndarray[Any, Any]] = []
    for path in paths:
        if not path.is_file():
            raise DataError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
        kind = path.suffix.lower()
        if kind == ".npy":
            part = _read_npy(path)
        elif kind in (".h5", ".hdf5"):
            part = _read_hdf5(path, blob)
        elif kind == ".csv":
            part = _read_csv(path)
        else:
            part = _read_picture(path, shape, divide)
        parts.append(_shaped(part, shape, path))
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) > 1:
        told = ", ".join(f"{path}: {part.shape[1:]}" for path, part in zip(paths, parts, strict=True))
        raise DataError(f"the records are of different shapes: {told}")
    return np.concatenate(parts)


def _known_shape(file: NetFile, blob: str) -> tuple[int, ...]:
    """Give the shape of a record, as a source of the net file has it whose data are there."""
    for phase in ("test", "validation", "train"):
        try:
            with file.net(phase, allocate=False, fallback="warn") as net:
                if blob in net.schedule.final:
                    return net.schedule.final[blob].shape[1:]
        except NacreError:
            continue
    raise DataError(
        f"no source of {file.path} tells the shape of '{blob}': its data are not here", "say it: --shape 1,8,8"
    )


def _shaped(part: np.ndarray[Any, Any], shape: tuple[int, ...], path: Path) -> np.ndarray[Any, Any]:
    if part.dtype.kind not in "fiub":
        raise DataError(f"{path}: an array of {part.dtype} has no numbers")
    if part.ndim == 0 or not len(part):
        raise DataError(f"{path}: there is no record in it")
    if not shape or part.shape[1:] == shape:
        return part
    if prod(part.shape[1:]) != prod(shape):
        raise DataError(f"{path}: its records have {prod(part.shape[1:])} numbers, but the net takes {shape}")
    return part.reshape(-1, *shape)


def _read_npy(path: Path) -> np.ndarray[Any, Any]:
    import numpy as np

    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path}: this is no array of NumPy's: {error}") from error


def _read_hdf5(path: Path, blob: str) -> np.ndarray[Any, Any]:
    """Read a dataset as training does: by the source for HDF5, which trusts no file."""
    import numpy as np

    from ..net import Net
    from ..registry import registry

    source: Any = registry().open("layer", "HDF5Data")

    def read(batch_size: int) -> np.ndarray[Any, Any]:
        layer = source(name=str(path.name), tops=[blob], source=[path.absolute()], batch_size=batch_size)
        with Net("input", [layer], backend="numpy", phase="predict") as net:
            parts: list[np.ndarray[Any, Any]] = []
            while net.epoch == 0:
                net.forward()
                parts.append(net.blob(blob)[: int(net.scalars["rows"])])
        return np.concatenate(parts)

    try:
        return read(READ_AT_ONCE)
    except DataError:  # there may be fewer
        return read(1)


def _read_csv(path: Path) -> np.ndarray[Any, Any]:
    import numpy as np

    try:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: it cannot be read: {error}") from error
    rows: list[list[float]] = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append([float(cell) for cell in line.split(",")])
        except ValueError:
            raise DataError(
                f"{path}: record {number}: not all of {line[:40]!r} are numbers, divided by commas"
            ) from None
        if len(rows[-1]) != len(rows[0]):
            raise DataError(f"{path}: record {number} has {len(rows[-1])} numbers, but the first has {len(rows[0])}")
    return np.array(rows)


def _read_picture(path: Path, shape: tuple[int, ...], divide: float) -> np.ndarray[Any, Any]:
    """Read one picture as (1, channels, rows, columns)."""
    import numpy as np

    try:
        from PIL import Image
    except ImportError as error:
        raise DataError(f"{path}: pictures need Pillow", "pip install nacre[images]") from error
    modes = {1: "L", 3: "RGB", 4: "RGBA"}
    if len(shape) != 3 or shape[0] not in modes:
        raise DataError(
            f"{path}: a picture cannot become a record of shape {shape}; it must be (1, 3 or 4, rows, columns)"
        )
    try:
        with Image.open(path) as image:
            picture = image.convert(modes[shape[0]]).resize((shape[2], shape[1]), Image.Resampling.LANCZOS)
    except Exception as error:  # of Pillow, whose plugins raise whatever they like on damaged files
        raise DataError(f"{path}: this is no picture that Pillow reads: {error}") from error
    pixels = np.asarray(picture, np.float64).reshape(shape[1], shape[2], shape[0])
    return np.moveaxis(pixels, -1, 0)[np.newaxis] / divide
