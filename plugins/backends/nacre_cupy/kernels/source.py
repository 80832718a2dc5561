"""Sources whose records are kept on the device, or sent as they are stored and changed there: see convert.cu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nacre import Array, NacreError, Own, SourceState, misfit, type_name

from ..memory import bytes_of
from .convert import Arithmetic, Conversion, Crop, Mirror, Shift

CHANGES = ("Crop", "Mirror", "RandomShift", "Scale", "SubMean")
"""nacre's transformers of pictures that convert.cu knows."""
ALWAYS_ALIKE = ("Scale", "SubMean")
"""Transformers that change a record in the same way in every pass."""
SHARE = 8
"""Records that lie in memory are kept on the device if they need this part of its free memory, or less."""


class SourceKernel(SourceState, dtypes=("float32", "float64")):
    """A source over records: its own state reads them, and changes what the device does not.

    Pictures of bytes or float32 whose transformers are all of `CHANGES` are changed on the device. The records of a top
    that lie in memory are kept there if they fit: such pictures as they are stored, others as they go into the net, if
    nothing changes them or what is always alike. All other tops are made on the host, and sent.
    """

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.own: Any = layer.setup(backend, inputs, diffs)
        self.blobs = list(self.own.blobs)

    def ready(self) -> None:
        self.converted: set[int] = set()
        self.numbers_there = Numbers(self.backend, self.layer.batch_size)
        self.own.blobs = [np.zeros(blob.shape, blob.dtype) for blob in self.blobs]
        self.own.converter = self._converter
        self.own.ready()

    def _converter(self, top: int, place: np.ndarray, changes: Sequence[Any]) -> Any:
        """Return what writes the batches of a top, like `place`, on the device; None if its own state makes them."""
        try:
            made = self._pictures(top, place, changes) or self._resident(top, changes)
        except NacreError:  # its own state tells it with the first batch
            return None
        self.converted |= set() if made is None else {top}
        return made

    def _pictures(self, top: int, place: np.ndarray, changes: Sequence[Any]) -> Converter | None:
        known = place.ndim == 4 and changes and all(_name(one) in CHANGES for one, _ in changes)
        if not known or Conversion.unfit(place.shape[1:], str(place.dtype), len(place)):
            return None
        found = self.own.records.in_memory(top)
        held = found if found is not None and found.dtype == place.dtype and self._fits(found.nbytes) else None
        where = self.backend, self.phase, self.blobs[top]
        return Converter(*where, place, changes, held, self.numbers_there)

    def _resident(self, top: int, changes: Sequence[Any]) -> Resident | None:
        blob, found = self.blobs[top], self.own.records.in_memory(top)
        if found is None or found.dtype.kind not in "biuf" or any(_name(one) not in ALWAYS_ALIKE for one, _ in changes):
            return None
        if not self._fits(bytes_of((len(found), *blob.shape[1:]), blob.dtype)):
            return None
        records = _prepared(found, blob, changes, self.phase)
        return None if records is None else Resident(self.backend, blob, records, self.numbers_there)

    def _fits(self, size: int) -> bool:
        """Return whether so many bytes may be kept on the device."""
        free = self.backend.backend.free_memory()
        return free is not None and size <= free[0] // SHARE

    def forward(self, inputs: list[Any]) -> None:
        self.numbers_there.are_old = True
        self.own.forward(inputs)
        for top, (host, blob) in enumerate(zip(self.own.blobs, self.blobs, strict=True)):
            if top not in self.converted:
                self._send(host, blob)

    def _send(self, host: np.ndarray, blob: Own) -> None:
        if blob.layout == "channels last":
            host = np.ascontiguousarray(np.moveaxis(host, 1, -1))
        self.backend.backend.upload(host, blob.memory)

    # What its own state knows

    @property
    def rows(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride] (it is read only)
        return self.own.rows

    @property
    def epoch(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.own.epoch

    @property
    def fitted(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.own.fitted

    @property
    def endless(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.own.endless

    @property
    def numbers(self) -> tuple[Any, Any] | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.own.numbers

    def keys(self, numbers: Sequence[int]) -> list[str]:
        return self.own.keys(numbers)

    def interrupt(self) -> None:
        self.own.interrupt()

    def rewind(self) -> None:
        self.own.rewind()

    def memory(self) -> Mapping[str, Any]:
        return self.own.memory()

    def remember(self, memory: Mapping[str, Any]) -> str | None:
        return self.own.remember(memory)

    def shutdown(self) -> None:
        self.own.shutdown()


class Numbers:
    """The numbers of a batch's records on the device, sent once for all tops."""

    def __init__(self, view: Any, images: int) -> None:
        self.view, self.array, self.are_old = view, view.empty((images,), "int64"), True

    def of(self, records: np.ndarray) -> Array:
        """Return the array of these numbers."""
        if self.are_old:
            self.view.backend.upload(records.astype(np.int64), self.array)
            self.are_old = False
        return self.array


class Resident:
    """A top whose records all lie on the device as they go into the net: only their numbers are sent."""

    stages = ("take",)
    resident = True

    def __init__(self, view: Any, blob: Own, records: np.ndarray, numbers: Numbers) -> None:
        self.view, self.blob, self.numbers = view, blob, numbers
        laid = np.moveaxis(records, 1, -1) if blob.layout == "channels last" else records
        self.held = view.constant(np.ascontiguousarray(laid).reshape(len(laid), -1), blob.dtype)

    def run(self, batch: np.ndarray, records: np.ndarray, epochs: np.ndarray) -> None:
        """Enqueue the copy of a batch's records into the blob."""
        there = self.blob.memory.reshape(len(records), -1)
        self.view.xp.take(self.held, self.numbers.of(records), axis=0, out=there)


class Converter:
    """The way of one top's pictures to the device: they are sent as they are stored, with where their pixels come from.

    `held` are the pictures of all records, if the device is to keep them: then only the numbers of a batch's are sent.
    """

    stages = ("convert",)

    def __init__(
        self,
        view: Any,
        phase: str,
        blob: Own,
        place: np.ndarray,
        changes: Sequence[Any],
        held: np.ndarray | None,
        numbers: Numbers,
    ) -> None:
        self.view, self.phase, self.blob, self.images, self.numbers = view, phase, blob, len(place), numbers
        known: list[Crop | Mirror | Shift | Arithmetic] = []
        self.draws: list[tuple[Any, int]] = []
        shape, stored = place.shape[1:], str(place.dtype)
        for transformer, random in changes:
            change, count = _change(transformer, shape)
            known.append(change)
            if count:
                self.draws.append((random, count))
            shape = transformer.checked_shape(shape)
        self.conversion = Conversion(view, place.shape[1:], known)
        self.batch = view.empty(place.shape, stored)
        self.resident = held is not None
        if held is not None:
            self.held = view.constant(np.ascontiguousarray(held).reshape(len(held), -1), stored)
        self.places = view.empty((len(self.conversion.sizes), self.images, 3), "int32")

    def run(self, batch: np.ndarray, records: np.ndarray, epochs: np.ndarray) -> None:
        """Send a batch, and enqueue its conversion into the blob."""
        backend = self.view.backend
        drawn: list[np.ndarray] = []
        for random, count in self.draws if self.phase == "train" else ():
            random.at(records, epochs)
            drawn.append(random.each(count))
        backend.upload(self.conversion.places(drawn, self.images, self.phase), self.places)
        if self.resident:
            flat = self.batch.reshape(self.images, -1)
            backend.xp.take(self.held, self.numbers.of(records), axis=0, out=flat)
        else:
            backend.upload(batch, self.batch)
        channels = self.blob.shape[1] if self.blob.layout == "channels last" else 0
        self.conversion.enqueue(self.batch, self.places, self.blob.memory, self.blob.dtype, channels)


def _prepared(records: np.ndarray, blob: Own, changes: Sequence[Any], phase: str) -> np.ndarray | None:
    """Return all records as they go into a net; None if one has a number that the blob's type has not."""
    made = np.empty((len(records), *blob.shape[1:]), blob.dtype)
    if not changes:
        if made.dtype.kind in "iu" and misfit(records, made.dtype) is not None:
            return None
        np.copyto(made, records, casting="unsafe")
    given = records
    for transformer, random in changes:
        transformer.transform_into(given, made, random, phase)
        given = made
    return made


def _name(transformer: Any) -> str:
    """Return the name of a transformer of nacre's, or ""."""
    kind = type(transformer)
    return type_name(kind) if kind.__module__ == "nacre_data.transformers" else ""


def _change(transformer: Any, shape: Sequence[int]) -> tuple[Crop | Mirror | Shift | Arithmetic, int]:
    """Return a transformer as convert.cu knows it, for records of a shape, and how many numbers it draws for each."""
    name = _name(transformer)
    if name == "Crop":
        return Crop(*transformer.size), 2
    if name == "Mirror":
        return Mirror(), 1
    if name == "RandomShift":
        return Shift(transformer.pixels), 2
    if name == "Scale":
        return Arithmetic(np.asarray(transformer.scale), multiplies=True), 0
    mean = transformer.fit_to(tuple(shape), np.dtype("float64"))
    return Arithmetic(mean.reshape(tuple(shape)) if mean.size == np.prod(shape) else mean, multiplies=False), 0
