"""Layers that write blobs to a file, batch by batch, in any format that a store writes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, BinaryIO, ClassVar
from weakref import WeakValueDictionary

from nacre import (
    ConfigError,
    DataError,
    Field,
    Layer,
    LayerState,
    Maybe,
    Names,
    OutputFile,
    Store,
    Writer,
    at_least,
    check_replaceable,
    default,
    may_overwrite,
    may_reach,
    output_place,
    store_to_write,
)
from nacre.files import is_there, is_url

from .files import named
from .stores.packed import CodecName
from .stores.table_options import TextOptions
from .uploads import create_records

NAMES = "names of the fields in the file, one for each bottom; by default the bottoms'"

_writing: WeakValueDictionary[Path, FileOutputState] = WeakValueDictionary()
"""The state that writes each file now: two would mix their rows."""


class FileOutputLayer(Layer, is_sink=True):
    """The fields of a layer that writes a file; a subclass says the format, and has a field for the names in it."""

    named_by: ClassVar[str] = "names"
    """The field with the names in the file."""
    lengths_differ: ClassVar[bool] = False
    """Whether the file can hold more rows of one bottom than of another."""

    bottoms: Annotated[Names, at_least(1), "what is written"]
    filename: Annotated[OutputFile, "the file, relative to the working folder, or its URL"]
    force_overwrite: Annotated[bool, "replace an existing file"] = False

    def format(self) -> Store:
        """Return the format of the file."""
        raise NotImplementedError

    def wrote(self, file: BinaryIO) -> bool:
        """Return whether a file carries a mark that such a layer wrote it, so that a net file may replace it."""
        return False

    def in_file(self) -> tuple[str, ...]:
        """Return the names of the bottoms in the file."""
        return getattr(self, self.named_by) or self.bottoms

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        names = self.in_file()
        if len(names) != len(self.bottoms):
            yield f"{self.named_by}={names}, but there must be as many as bottoms, {len(self.bottoms)}"
        if len(set(names)) != len(names):
            yield f"{self.named_by}={names}, but their names must be different"


class OutputLayer(FileOutputLayer, is_sink=True):
    """Append the rows of every bottom that count to a file of any format that a store writes, after each forward pass.

    field[written : written + rows] = x[:rows], where written is the number of rows before.

    The store is found by the name of the file, or named by `store`. The file gets its name when the net is shut down,
    and is then complete. Until then it is `.NAME.tmp` in the same folder; a process that is killed leaves that behind,
    and the next run replaces it. There is no file if there was no pass, or if the run ends with an error. A file is
    written in one phase of a training: with `ValidationPerformance`, exclude `validation` or `train`. A resumed
    training writes only the rows of its own passes: move the file of the first part away to keep it.

    Raises DataError if the file exists (unless `--overwrite FILE` or `force_overwrite` says otherwise), if another net
    is writing it, and if it cannot be written; ConfigError if another layer reads it, if the bottoms have different
    numbers of rows, and if the file exists and `force_overwrite` is set in a net file: whose file it is cannot be seen,
    so only `--overwrite FILE` lets a net file replace it.

    Example:
        [[layer]]
        type = "Output"
        bottoms = ["prob"]  # (8, 10)
        filename = "prob.npz"
    """

    names: Annotated[Names, NAMES] = default(())
    store: Annotated[Maybe[Store], "format of the file; by default that of its name"] = default(None)

    def format(self) -> Store:
        return store_to_write(Path(self.filename), self.store or "")


class HDF5OutputLayer(FileOutputLayer, is_sink=True):
    """Append the rows of every bottom that count to a dataset of an HDF5 file, after each forward pass.

    dataset[written : written + rows] = x[:rows], where written is the number of rows before.

    All else is as for Output, but bottoms may have different numbers of rows, and an attribute marks the file: with
    `force_overwrite` a net file may replace what an HDF5Output wrote. After Mocha.jl's `HDF5OutputLayer`.

    Example:
        [[layer]]
        type = "HDF5Output"
        bottoms = ["prob"]  # (8, 10)
        filename = "prob.h5"
    """

    named_by = "datasets"
    lengths_differ = True

    datasets: Annotated[Names, "names of the datasets, one for each bottom; by default the bottoms'"] = default(())

    def format(self) -> Store:
        from .stores.hdf5 import MarkedHDF5

        return MarkedHDF5()

    def wrote(self, file: BinaryIO) -> bool:
        from .stores.hdf5 import MarkedHDF5

        return MarkedHDF5().wrote(file)


class NumpyOutputLayer(FileOutputLayer, is_sink=True):
    """Append the rows of every bottom that count to an array in a NumPy file, after each forward pass.

    array[written : written + rows] = x[:rows], where written is the number of rows before.

    A .npy file holds the array of one bottom; a .npz file holds one for each, which stay in memory until the end.
    All else is as for Output.

    Example:
        [[layer]]
        type = "NumpyOutput"
        bottoms = ["prob"]  # (8, 10)
        filename = "prob.npy"
    """

    names: Annotated[Names, NAMES] = default(())

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if not self.filename.lower().endswith((".npy", ".npz")):
            yield f"filename={str(self.filename)!r}, but it must end in .npy (one array) or .npz (several)"
        elif not self._holds_several() and len(self.bottoms) > 1:
            yield f"bottoms={self.bottoms}, but a .npy file holds one array: use a .npz file"

    def format(self) -> Store:
        from .stores.npy import NPY, NPZ

        return NPZ() if self._holds_several() else NPY()

    def _holds_several(self) -> bool:
        return self.filename.lower().endswith(".npz")


class CSVOutputLayer(TextOptions, FileOutputLayer, is_sink=True):
    """Append the rows of every bottom that count to a table as text, after each forward pass: each row is a line.

    column[written : written + rows] = x[:rows], where written is the number of rows before.

    The first line names the columns: `prob` if a row has one number, else `prob.0`, `prob.1`, ... All digits are
    written that a number needs to be read as the same one. All else is as for Output.

    Example:
        [[layer]]
        type = "CSVOutput"
        bottoms = ["prob", "label"]  # (8, 10), (8,)
        filename = "prob.csv"
    """

    names: Annotated[Names, NAMES] = default(())

    def format(self) -> Store:
        from .stores.csv import CSV

        return CSV(separator=self.separator, decimal=self.decimal, encoding=self.encoding)


class JSONLOutputLayer(FileOutputLayer, is_sink=True):
    """Append the rows of every bottom that count to a file of JSON lines, after each forward pass.

    object[written + row] = {bottom: x[row], ...}, where written is the number of rows before.

    Each row is a line with an object, in which each bottom is a number or a list. All else is as for Output.

    Example:
        [[layer]]
        type = "JSONLOutput"
        bottoms = ["prob", "label"]  # (8, 10), (8,)
        filename = "prob.jsonl"
    """

    names: Annotated[Names, NAMES] = default(())

    def format(self) -> Store:
        from .stores.json_lines import JSONLines

        return JSONLines()


class LMDBOutputLayer(FileOutputLayer, is_sink=True):
    """Append the rows of every bottom that count to an LMDB database, after each forward pass: each row is a value.

    value[written + row] = {bottom: x[row], ...}, where written is the number of rows before.

    The database is a folder, or a single file if its name ends in .mdb. Values are nacre's own records; with
    `codec = "Datum"` Caffe reads them, if the bottoms are data and whole numbers as labels. Keys are numbers of ten
    digits. All else is as for Output. Needs lmdb: pip install "nacre[lmdb]".

    Example:
        [[layer]]
        type = "LMDBOutput"
        bottoms = ["prob", "label"]  # (8, 10), (8,)
        filename = "prob.lmdb"
    """

    names: Annotated[Names, NAMES] = default(())
    codec: CodecName = ""

    def format(self) -> Store:
        from .stores.lmdb import LMDB

        return LMDB(codec=self.codec)


class ShardOutputLayer(FileOutputLayer, is_sink=True):
    """Append the rows of every bottom that count to a shard of SINGA's, after each forward pass: each row is a value.

    value[written + row] = {bottom: x[row], ...}, where written is the number of rows before.

    The shard is a folder with a file shard.dat, or a single file if its name ends in .kvfile. Values are nacre's own
    records; with `codec = "SingleLabelImageRecord"` SINGA reads them, if the bottoms are data and whole numbers as
    labels. Keys are numbers of eight digits. All else is as for Output.

    Example:
        [[layer]]
        type = "ShardOutput"
        bottoms = ["prob", "label"]  # (8, 10), (8,)
        filename = "prob.shard"
    """

    names: Annotated[Names, NAMES] = default(())
    codec: CodecName = ""

    def format(self) -> Store:
        from .stores.shard import Shard

        return Shard(codec=self.codec)


class FileOutputState(LayerState, of=FileOutputLayer, reads="", host_only=True):
    """A layer that writes a file, on any backend."""

    def __init__(self, layer: FileOutputLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        if backend.ranks > 1:
            raise ConfigError(
                f"{layer.name}: {backend.ranks} ranks that share each batch would all write {layer.filename}",
                f'write it with one process, after the training: exclude = ["{backend.phase}"] here, and nacre test or '
                "nacre predict --out",
            )
        lengths = [x.shape[0] for x in inputs]
        if len(set(lengths)) > 1 and not layer.lengths_differ:
            told = ", ".join(f"'{name}' has {rows}" for name, rows in zip(layer.bottoms, lengths, strict=True))
            message = f"{layer.name}: a record of the file has one row of each bottom, but their numbers differ: {told}"
            raise ConfigError(message, "write each to a file of its own, or use HDF5Output")
        with named(layer.name):
            self.store = layer.format()
        self.path = Path(layer.filename)
        self.writer: Writer | None = None
        self.broken = False
        self.handled: BaseException | None = None

    def ready(self) -> None:
        """Raise an error if the file could not be written, before anything is computed.

        Raises:
            DataError: the file exists already, or another net is writing it.
        """
        with named(self.layer.name):
            self._check_free()
            other = _writing.setdefault(self.path.resolve(), self)
            if other is not self:
                raise DataError(
                    f"{self.path} is being written by layer '{other.layer.name}' of another net, "
                    f"in phase '{other.phase}'",
                    f'write it in one phase only, for example with exclude = ["{self.phase}"]'
                    if self.phase != other.phase
                    else "shut that net down first, or use another name",
                )

    def _check_free(self) -> None:
        filename = self.layer.filename
        remote = is_url(filename)
        there = is_there(filename, may_reach(filename)) if remote else self.path.exists()
        if there and not (self.layer.force_overwrite or may_overwrite(filename)):
            message = f"{filename} exists already"
            raise DataError(message, "move it away, use another name, or set force_overwrite to replace it")
        if there and remote:
            check_replaceable(filename)
        output_place(filename, self.layer.wrote)

    def forward(self, inputs: list[Any]) -> None:
        names = self.layer.in_file()
        try:
            with named(self.layer.name):
                if self.writer is None:
                    fields = {name: Field(x.shape[1:], x.dtype.name) for name, x in zip(names, inputs, strict=True)}
                    self.writer = create_records(self.store, self.layer.filename, fields)
                    self.handled = sys.exception()  # of a run in an `except`, which that error does not end
                rows = (x[: min(self.backend.rows, len(x))] for x in inputs)
                self.writer.append(dict(zip(names, rows, strict=True)))
        except BaseException:
            self.broken = True
            raise

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        """Do nothing: written blobs have no gradient."""

    def shutdown(self) -> None:
        if _writing.get(self.path.resolve()) is self:
            del _writing[self.path.resolve()]
        if self.writer is None:
            return
        writer, self.writer = self.writer, None
        error, handled, self.handled = sys.exception(), self.handled, None
        if self.broken or (error is not None and error is not handled):
            with suppress(DataError, OSError):  # the error that ends the run is more useful
                writer.close(commit=False)
            return
        with named(self.layer.name), writer:
            self._check_free()
