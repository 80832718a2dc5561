"""Records for `predict`, read from files of any format that a store reads, a batch at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from math import isfinite, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, NacreError, as_named
from ..net.records import open_records
from ..protocols.data_store import Reader, located
from .screen import warn

if TYPE_CHECKING:
    import numpy as np

    from ..config.netfile import NetFile
    from ..net.net import Net
    from ..net.predict import Wanted
    from ..protocols.layer import Layer, Phase
    from ..protocols.view import Fitted


NAMED = 5  # records in a warning
OPEN_FILES = 64  # at a time: a process may have only some hundreds


@dataclass
class Batch:
    """Records (records, *shape), and the key of each, which is its number if it has no name."""

    records: np.ndarray[Any, Any]
    keys: list[str]


class Inputs:
    """The records of files, one file after the other, for one blob of a net.

    `shape` is that of a record in the net, None if it is not known; `from_option` is true if it comes from --shape, and
    is that of a record before the source's transformers.

    Attributes:
        shape: of the records, before the source's transformers.
        count: their number, None if it is known only at the end.
        named: whether some have names.
        classes: names that the records count, if they have names, of all files together.

    Raises:
        DataError: a file cannot be read, or its records do not fit; the message names it.
    """

    def __init__(
        self,
        file: NetFile,
        paths: Sequence[Path],
        blob: str,
        shape: tuple[int, ...] | None = None,
        divide: float = 1.0,
        *,
        from_option: bool = False,
    ) -> None:
        if not divide or not isfinite(divide):
            message = f"--divide {divide:g}: it must be a finite number other than 0"
            raise DataError(message, "leave it out, or use another number")
        self.file = file
        self.paths = paths
        self.blob = blob
        self.divide = divide
        self.wanted = shape
        self.from_option = from_option
        sources = [layer for layer in file.layers if layer.is_source and blob in layer.tops]
        self.replaced = sources[0] if sources else None  # the first, if several phases have one
        self.field = self.replaced.stored_as(blob) if self.replaced else blob
        self.reading = dict(self.replaced.reading()) if self.replaced else {}
        self.opened: dict[int, Reader] = {}
        try:
            self.shape, self.count = self._look_into_all()
        except BaseException:
            self.close()
            raise

    def _look_into_all(self) -> tuple[tuple[int, ...], int | None]:
        """Open all files, so that what is wrong with one is told before any work is done."""
        shapes: list[tuple[int, ...]] = []
        self.named = False
        self.classes: list[str] = []
        count: int | None = 0
        for number, path in enumerate(self.paths):
            reader = self.opened[number] = self._open(path)
            shapes.append(self._shape(path, reader))
            self.named |= reader.named
            self.classes += [name for name in reader.fields[self.field].classes if name not in self.classes]
            count = None if count is None or reader.count is None else count + reader.count
            if len(self.opened) > OPEN_FILES:
                self.opened.pop(number).close()
        if len(set(shapes)) > 1:
            found = ", ".join(f"{path}: {shape}" for path, shape in zip(self.paths, shapes, strict=True))
            raise DataError(f"the records have different shapes: {found}", "use files with records of one shape")
        return shapes[0], count

    def _open(self, path: Path) -> Reader:
        shapes = {self.field: self.wanted} if self.wanted else {}
        options = self.reading
        if not (options.get("store") and options["store"].fits(path)):
            options = {name: value for name, value in options.items() if name != "store"}
        return open_records([path], [self.field], shapes=shapes, pins=self.file.pins, **options)

    def _shape(self, path: Path, reader: Reader) -> tuple[int, ...]:
        """Return the shape of a file's records, which may have other axes than the net's, or be cut by its source."""
        import numpy as np

        if reader.count == 0:
            raise DataError(f"{path}: it has no records")
        field, wanted = reader.fields[self.field], self.wanted
        if np.dtype(field.dtype).kind not in "fiub":
            raise DataError(f"{path}: its records must be numbers, but they have the type {field.dtype}")
        if field.shape is None:
            message = f"the shape of '{self.blob}' is not known, because the data of {self.file.path} are missing"
            raise DataError(message, "add the shape of a record, for example --shape 1,8,8")
        if wanted is None or field.shape == wanted:
            return field.shape
        if prod(field.shape) == prod(wanted):
            return wanted
        if not self.from_option and self._cut(path, field.shape) == wanted:
            return field.shape
        who = "--shape is" if self.from_option else "the net needs"
        remedy = "correct --shape, or leave it out" if self.from_option else "scale or cut the records to this shape"
        raise DataError(f"{path}: its records have the shape {field.shape}, but {who} {wanted}", remedy)

    def _cut(self, path: Path, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape that the source's transformers give to records of a file."""
        try:
            return self.replaced.prepared_shape(self.blob, shape) if self.replaced else shape
        except NacreError as error:
            raise type(error)(f"{path}: {error.args[0]}", error.remedy) from error

    def batches(self, size: int) -> Generator[Batch]:
        """Yield the records, `size` at a time. Those with numbers that are not finite are a warning.

        Raises:
            DataError: a file cannot be read; the message names it.
        """
        import numpy as np

        rows = self._rows()
        while some := list(islice(rows, size)):
            records = np.stack([record for _, record in some]).reshape(len(some), *self.shape)
            yield Batch(records if self.divide == 1 else records / self.divide, [key for key, _ in some])

    def _rows(self) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
        """Yield each record with its key: its number among all, unless its file has names for records."""
        import numpy as np

        number = 0
        for place, path in enumerate(self.paths):
            bad: list[int] = []
            with self.opened.pop(place, None) or self._open(path) as reader:
                numbers = [self.classes.index(name) for name in reader.fields[self.field].classes]
                for here, row in enumerate(reader.rows()):
                    record = self._numbered(row[self.field], numbers, path)
                    if not np.isfinite(record).all():
                        bad.append(here)
                    where = as_named(str(path)) if len(self.paths) > 1 else ""
                    yield located(where, reader.key(here)) if reader.named else str(number), record
                    number += 1
            _warn_of_not_finite(bad, path)
        if not number:
            raise DataError(f"{self.paths[0]}: it has no records")

    def _numbered(self, record: Any, numbers: Sequence[int], path: Path) -> Any:
        """Return a record of a file whose classes have these numbers in `classes`; without names it stays as it is."""
        import numpy as np

        if not numbers:
            return record
        if not 0 <= record.min() <= record.max() < len(numbers):
            what = f"the number {record.min() if record.min() < 0 else record.max()}"
            raise DataError(
                f"{path}: '{self.blob}' has {what}, but only the classes 0 to {len(numbers) - 1} have names"
            )
        return np.array(numbers)[record]

    def close(self) -> None:
        """Close the files; may be called twice."""
        while self.opened:
            self.opened.popitem()[1].close()

    def __enter__(self) -> Inputs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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


def side_by_side(records: Mapping[str, Inputs], size: int) -> Iterator[dict[str, Batch]]:
    """Yield the records of each blob, `size` at a time. Raises DataError if one has more records than another."""
    with ExitStack() as stack:
        every = {blob: stack.enter_context(closing(one.batches(size))) for blob, one in records.items()}
        while found := {blob: batch for blob, batches in every.items() if (batch := next(batches, None)) is not None}:
            counts = {blob: len(found[blob].keys) if blob in found else 0 for blob in every}
            if len(set(counts.values())) > 1:
                fewest, most = min(counts, key=lambda one: counts[one]), max(counts, key=lambda one: counts[one])
                raise DataError(
                    f"there are fewer records for '{fewest}' than for '{most}'", "give as many records for every blob"
                )
            yield found


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


def with_data(file: NetFile, phase: Phase, paths: Sequence[str]) -> NetFile:
    """Return a net file whose sources of a phase read these files; those for whom an `Input` stands do so again.

    Raises:
        ConfigError: a source reads no files.
    """
    from ..net.input import InputLayer

    layers: dict[str, Layer] = {}
    for layer in file.layers:
        if layer.is_source and phase not in layer.exclude and (layer.needs_data or isinstance(layer, InputLayer)):
            source = layer.reading_from(paths)
            layers.setdefault(source.name, source)
        else:
            layers[layer.name] = layer
    return dataclasses.replace(file, layers=tuple(layers.values()))


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


def _warn_of_not_finite(bad: Sequence[int], path: Path) -> None:
    if bad:
        more = f" and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
        named = f"{', '.join(map(str, bad[:NAMED]))}{more}"
        warn(f"{path}: {'record' if len(bad) == 1 else 'records'} {named}: some numbers are not finite")
