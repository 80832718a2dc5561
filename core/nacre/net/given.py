"""What `predict` is given for the blobs that a net needs: arrays, or files with records, a batch at a time."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..errors import DataError, NacreError, brief
from ..fields.inputs import local_file
from ..protocols.data_store import Field
from ..protocols.layer import Layer
from ..protocols.view import Fitted
from .columns import COLUMNS
from .files import FileRecords, Needed, batches, beside, reading_of
from .fitted import CLASSES
from .frames import array_of, by_columns
from .input import InputLayer, may_fill, without_ones
from .records import Packed, codec_of


@dataclass(frozen=True)
class Given:
    """Records for some blobs: `arrays` (records, *shape) of all, or `files`.

    `classes` are the names that the numbers of a blob count, where it was given names.
    """

    arrays: Mapping[str, np.ndarray]
    files: Mapping[str, FileRecords] = field(default_factory=dict[str, FileRecords])
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of a record of each blob."""
        files = {name: one.shape for name, one in self.files.items()}
        return files or {name: array.shape[1:] for name, array in self.arrays.items()}

    @property
    def count(self) -> int | None:
        """The number of records; None if it is known only at the end."""
        return next(iter(self.files.values())).count if self.files else len(next(iter(self.arrays.values())))

    def batches(self, size: int) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield the records, `size` at a time. Raises DataError if one cannot be read."""
        if not self.files:
            for start in range(0, self.count or 0, size):
                yield {name: array[start:][:size] for name, array in self.arrays.items()}
            return
        for batch in batches(self.files, size):
            if batch.errors:
                raise next(iter(batch.errors.values()))
            yield batch.records


@contextmanager
def opened(
    data: Any,
    sources: Mapping[str, Layer],
    shapes: Mapping[str, tuple[int, ...]],
    fitted: Fitted,
    pins: Mapping[str, str],
) -> Generator[Given]:
    """Open what `net.predict` is given for the blobs of some sources; `shapes` has those of records that are known.

    Raises:
        DataError: it does not fit the blobs, or a file cannot be read.
    """
    with ExitStack() as stack:
        arrays: dict[str, np.ndarray] = {}
        files: dict[str, FileRecords] = {}
        classes: dict[str, Sequence[str]] = {}
        every = _by_blob(data, [*sources], fitted)
        names = {name: fitted.get(name, {}).get(CLASSES, ()) for name in every}
        paths = {
            name: _paths(one) for name, one in every.items() if are_files(one) and not (names[name] and are_texts(one))
        }
        for name, given in every.items():
            columns = fitted.get(name, {}).get(COLUMNS, ())
            if name in paths:
                if isinstance(one := given, str) and names[name] and "://" not in one and not Path(one).exists():
                    raise DataError(
                        f"{brief(one)}: no such file or folder", "texts come in a list: net.predict([text])"
                    )
                needed = Needed(shapes.get(name), others=beside(paths, name), columns=columns)
                reader = FileRecords(sources[name], paths[name], name, needed, pins=pins)
                files[name] = stack.enter_context(reader)
                continue
            arrays[name] = _records(name, given, sources[name], shapes.get(name), columns)
            if arrays[name].dtype.kind in "OUS":
                arrays[name], classes[name] = numbered(name, arrays[name], names[name])
        classes |= {name: one.classes for name, one in files.items()}
        if arrays and files:
            arrays |= {name: _whole(one) for name, one in files.items()}
            files = {}
        counts = {len(array) for array in arrays.values()}
        if len(counts) > 1:
            raise DataError(f"the arrays have different numbers of records: {', '.join(map(str, sorted(counts)))}")
        yield Given(arrays, files, classes)


def are_files(given: Any) -> bool:
    """Return whether this is the path of a file or a folder, or a list of such."""
    if isinstance(given, list | tuple):
        every = cast("Sequence[Any]", given)
        return bool(every) and all(isinstance(one, str | os.PathLike) for one in every)
    return isinstance(given, str | os.PathLike)


def listed_files(given: Any) -> list[str]:
    """Return the paths of files that are given: of one, or several in a list."""
    several = isinstance(given, list | tuple)
    return [os.fspath(path) for path in cast("Sequence[Any]", given if several else [given])]


def are_texts(given: Any) -> bool:
    """Return whether this is a list of texts, which are names of classes where such are known."""
    return isinstance(given, list | tuple) and all(isinstance(one, str) for one in cast("Sequence[Any]", given))


def _by_blob(data: Any, needed: Sequence[str], fitted: Fitted) -> dict[str, Any]:
    """Return what is given for each blob; that of several may stand in the columns of a data frame."""
    if isinstance(data, Mapping):
        given = {str(name): one for name, one in cast("Mapping[Any, Any]", data).items()}
        if missing := [name for name in needed if name not in given]:
            raise DataError(f"the net needs the blobs {', '.join(needed)}, but {', '.join(missing)} is missing")
        return {name: given[name] for name in needed}
    if len(needed) == 1:
        return {needed[0]: data}
    known = {name: fitted.get(name, {}).get(COLUMNS, ()) for name in needed}
    if (found := by_columns(data, known)) is not None:
        return found
    all_in_each = are_files(data) and not isinstance(data, tuple)  # a list of files, of which each has records of all
    if all_in_each:
        return dict.fromkeys(needed, cast("Any", data))
    if isinstance(data, list | tuple) and len(several := cast("Sequence[Any]", data)) == len(needed):
        return dict(zip(needed, several, strict=True))
    message = f"the net needs the blobs {', '.join(needed) or 'none'}"
    raise DataError(message, "give a tuple of arrays in this order, or data={name: array}")


# Files


def _paths(given: Any) -> list[Path]:
    """Return the paths of files on this machine; those of URLs are fetched."""
    paths = cast("Sequence[Any]", given if isinstance(given, list | tuple) else [given])
    return [local_file(path if isinstance(path, str) else Path(path)) for path in paths]


def _whole(records: FileRecords) -> np.ndarray:
    """Return all records of files."""
    read = Given({}, {records.blob: records})
    return np.concatenate([batch[records.blob] for batch in read.batches(256)])


# Arrays


def _records(name: str, given: Any, source: Layer, shape: tuple[int, ...] | None, columns: Sequence[str]) -> np.ndarray:
    """Return records as an array: numbers, or texts; those of a data frame have their columns in this order."""
    pictures = None if shape is None else through_codec(name, given, source, shape)
    array = array_of(name, given, columns, missing=may_fill(source, name)) if pictures is None else pictures
    if array.dtype.kind not in "fiubOUS":
        raise DataError(f"blob '{name}': the data must be numbers, but the array has the type {array.dtype}")
    if isinstance(source, InputLayer) and without_ones(array.shape[1:]) == without_ones(source.shape):
        return array.reshape(len(array), *source.shape)
    return array


def numbered(name: str, texts: np.ndarray, known: Sequence[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return numbers in place of texts, and the names that they count: those of training find them.

    Raises:
        DataError: no names of this blob are known since training.
    """
    if not known:
        raise DataError(f"blob '{name}': the data must be numbers, but the array has the type {texts.dtype}")
    found, numbers = np.unique(texts.astype(str), return_inverse=True)
    return numbers.reshape(texts.shape), tuple(map(str, found))


def through_codec(name: str, given: Any, source: Layer, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return records that the codec of a source brings to the net's shape; None if they have it, or there is no codec.

    The codec writes each record, such as a picture of any size, and reads it as it does those of files.
    """
    if not (codec := reading_of(source).get("codec")):
        return None
    every = cast("Sequence[Any]", given if isinstance(given, list | tuple) else array_of(name, given))
    with suppress(ValueError):  # lists of different lengths: array_of tells it
        if all(_fits(np.shape(one), name, source, shape) for one in every):
            return None
    packed, made = Packed(name, codec_of(codec), {name: shape}), list[Any]([None] * len(every))
    for number, one in enumerate(every):
        try:
            data = packed.codec.encode({name: _record(one)})
            packed.describe(data, Field(None, "uint8"))
            packed.decode(data, {name: made}, number)
        except NacreError as error:
            single = "a single record is [x]" if len(shape) == 1 + len(np.shape(_record(one))) else ""
            remedy = "; ".join(filter(None, [error.remedy, single]))
            raise DataError(f"'{name}': record {number}: {error.args[0]}", remedy) from error
        if not _fits(np.shape(made[number]), name, source, shape):
            message = f"'{name}': record {number} becomes one of shape {np.shape(made[number])}"
            raise DataError(f"{message}, but the net needs {shape}", "scale or cut the records to this shape")
    return np.stack(made)


def _record(given: Any) -> Any:
    """Return what a codec writes: an array, or the object that it is given as, such as a picture of Pillow's."""
    return np.array(cast("Any", given)) if isinstance(given, list | tuple) else given


def _fits(found: tuple[int, ...], name: str, source: Layer, shape: tuple[int, ...]) -> bool:
    """Return whether records of a shape become those that a net needs without a codec."""
    if found == shape or (isinstance(source, InputLayer) and without_ones(found) == without_ones(shape)):
        return True
    with suppress(NacreError):
        return source.prepared_shape(name, found) == shape
    return False
