"""HDF5Output: blobs written to an HDF5 file, batch by batch."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, BinaryIO
from weakref import WeakValueDictionary

import numpy as np

from nacre import DataError, Layer, LayerState, Names, OutputPath, at_least, default, output_place
from nacre.files import make_empty, os_errors, put_in_place

from .hdf5_checks import open_hdf5

MARK, MARKED = "written by", b"nacre HDF5Output"
"""The attribute of a file that an `HDF5Output` wrote."""

_writing: WeakValueDictionary[Path, HDF5OutputState] = WeakValueDictionary()
"""The state that writes each file now: two would mix their rows."""


class HDF5OutputLayer(Layer, is_sink=True):
    """Append the rows of every bottom that count to a dataset of an HDF5 file, after each forward pass.

    dataset[written : written + rows] = x[:rows], where written is the number of rows before.

    The file gets its name when the net is shut down, and is then complete. Until then it is `.NAME.tmp` in the same
    folder; a process that is killed leaves that behind, and the next run replaces it. There is no file if there was no
    pass, or if the run ends with an error. A file is written in one phase of a training: with `ValidationPerformance`,
    exclude `validation` or `train`. A resumed training writes only the rows of its own passes, and replaces the file of
    the first part if `force_overwrite` allows it: move that file away to keep it.

    Raises DataError if the file exists (unless `force_overwrite`), if another net is writing it, and if it cannot be
    written; ConfigError if another layer reads it, and if `force_overwrite` is set in a net file, but the file was not
    written by an HDF5Output. After Mocha.jl's `HDF5OutputLayer`.

    Example:
        [[layer]]
        type = "HDF5Output"
        bottoms = ["prob"]  # (8, 10)
        filename = "prob.h5"
    """

    bottoms: Annotated[Names, at_least(1), "what is written"]
    filename: Annotated[OutputPath, "the HDF5 file; relative to the working folder"]
    datasets: Annotated[Names, "names of the datasets, one for each bottom; by default the bottoms'"] = default(())
    force_overwrite: Annotated[bool, "replace an existing file"] = False

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if self.datasets and len(self.datasets) != len(self.bottoms):
            yield f"datasets={self.datasets}, but there must be as many as bottoms, {len(self.bottoms)}"
        if len(set(self.datasets)) != len(self.datasets):
            yield f"datasets={self.datasets}, but their names must be different"


class HDF5OutputState(LayerState, of=HDF5OutputLayer, reads="", host_only=True):
    """`HDF5OutputLayer` on any backend."""

    def __init__(self, layer: HDF5OutputLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.path = Path(layer.filename)
        self.temporary = self.path.with_name(f".{self.path.name}.tmp")
        self.file: Any = None
        self.datasets: list[Any] = []
        self.broken = False
        self.handled: BaseException | None = None

    def ready(self) -> None:
        """Raise an error if the file could not be written, before anything is computed.

        Raises:
            DataError: the file exists already, or another net is writing it.
        """
        self._check_free()
        other = _writing.setdefault(self.path.resolve(), self)
        if other is not self:
            raise DataError(
                f"{self.layer.name}: {self.path} is being written by layer '{other.layer.name}' of another net, "
                f"in phase '{other.phase}'",
                f'write it in one phase only, for example with exclude = ["{self.phase}"]'
                if self.phase != other.phase
                else "shut that net down first, or use another name",
            )

    def _check_free(self) -> None:
        if self.path.exists() and not self.layer.force_overwrite:
            raise DataError(
                f"{self.layer.name}: {self.path} exists already",
                "move it away, use another name, or set force_overwrite to replace it",
            )
        output_place(self.layer.filename, is_output_file)

    def forward(self, inputs: list[Any]) -> None:
        with self._writing():
            if self.file is None:
                self._create(inputs)
            for x, dataset in zip(inputs, self.datasets, strict=True):
                start, rows = len(dataset), min(self.backend.rows, len(x))
                dataset.resize(start + rows, axis=0)
                dataset[start:] = x[:rows]

    def _create(self, inputs: list[Any]) -> None:
        import h5py

        make_empty(self.temporary)  # its error about the folder is clearer than that of h5py
        self.file = h5py.File(self.temporary, "w")
        self.file.attrs[MARK] = np.bytes_(MARKED)
        self.handled = sys.exception()  # of a run in an `except`, which that error does not end
        self.datasets = [
            self.file.create_dataset(name, (0, *x.shape[1:]), x.dtype, maxshape=(None, *x.shape[1:]), chunks=True)
            for name, x in zip(self.layer.datasets or self.layer.bottoms, inputs, strict=True)
        ]

    @contextmanager
    def _writing(self) -> Generator[None]:
        try:
            with os_errors(self.path, f"cannot be written by layer '{self.layer.name}'", DataError):
                yield
        except BaseException:
            self.broken = True
            raise

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        """Do nothing: written blobs have no gradient."""

    def shutdown(self) -> None:
        if _writing.get(self.path.resolve()) is self:
            del _writing[self.path.resolve()]
        if self.file is None:
            return
        file, self.file, self.datasets = self.file, None, []
        error, handled, self.handled = sys.exception(), self.handled, None
        if self.broken or (error is not None and error is not handled):
            with suppress(OSError):  # the error that ends the run is more useful
                file.close()
            with suppress(OSError):
                self.temporary.unlink()
            return
        with self._writing():
            file.close()
            self._check_free()
            put_in_place(self.temporary, self.path)


def is_output_file(file: BinaryIO) -> bool:
    """Return whether a file is what an `HDF5Output` wrote."""
    try:
        with open_hdf5(file, where="it") as opened:
            return opened.attribute(MARK) == MARKED
    except DataError:
        return False
