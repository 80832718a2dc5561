"""Sources whose pictures are sent as they are stored, as bytes, and changed on the device: see convert.cu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nacre import NacreError, Own, SourceState, type_name

from .convert import Arithmetic, Conversion, Crop, Mirror

CHANGES = ("Crop", "Mirror", "Scale", "SubMean")
"""nacre's transformers that convert.cu knows."""
SHARE = 8
"""Records that lie in memory are kept on the device if they need this part of its free memory, or less."""


class SourceKernel(SourceState, dtypes=("float32", "float64")):
    """A source over records: its own state reads them, and changes what the device does not.

    A top is converted on the device if its records are pictures of bytes and all its transformers are of `CHANGES`. The
    others are made on the host, and sent as they are.
    """

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        kinds: dict[str, set[str]] = {}
        for top, transformer in layer.conversion:
            kinds.setdefault(top, set()).add(_name(transformer))
        if any(some <= set(CHANGES) for some in kinds.values()):
            return None
        return f"serves pictures that are changed by {', '.join(CHANGES)} alone"

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.own: Any = layer.setup(backend, inputs, diffs)
        self.blobs = list(self.own.blobs)

    def ready(self) -> None:
        self.converted: set[int] = set()
        self.own.blobs = [np.zeros(blob.shape, blob.dtype) for blob in self.blobs]
        self.own.converter = self._converter
        self.own.ready()

    def _converter(self, top: int, place: np.ndarray, changes: Sequence[Any]) -> Converter | None:
        """Return what converts the batches of a top, which are like `place`; None if its own state has to."""
        blob, shape = self.blobs[top], place.shape[1:]
        known = place.ndim == 4 and changes and all(_name(one) in CHANGES for one, _ in changes)
        if not known or Conversion.unfit(shape, str(place.dtype), len(place)) or place.dtype != np.uint8:
            return None
        try:
            converter = Converter(self.backend, self.phase, blob, place, changes, self._held(top))
        except NacreError:  # its own state tells it with the first batch
            return None
        self.converted.add(top)
        return converter

    def _held(self, top: int) -> np.ndarray | None:
        """Return all records of a top if they lie in memory as bytes, and may lie in the device's; else None."""
        records = self.own.records
        found = None if records.in_memory is None else records.in_memory[top]
        free = self.backend.backend.free_memory()
        fits = found is not None and free and found.dtype == np.uint8 and found.nbytes <= free[0] // SHARE
        return found if fits else None

    def forward(self, inputs: list[Any]) -> None:
        self.own.forward(inputs)
        for top, (host, blob) in enumerate(zip(self.own.blobs, self.blobs, strict=True)):
            if top not in self.converted:
                self._send(host, blob)

    def _send(self, host: np.ndarray, blob: Own) -> None:
        if blob.layout == "channels last":
            host = np.ascontiguousarray(host.transpose(0, 2, 3, 1))
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


class Converter:
    """The way of one top's batches to the device: bytes are sent, with where each picture's pixels come from.

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
    ) -> None:
        self.view, self.phase, self.blob, self.images = view, phase, blob, len(place)
        known: list[Crop | Mirror | Arithmetic] = []
        self.draws: list[tuple[Any, int]] = []
        shape = place.shape[1:]
        for transformer, random in changes:
            change, count = _change(transformer, shape)
            known.append(change)
            if count:
                self.draws.append((random, count))
            shape = transformer.checked_shape(shape)
        self.conversion = Conversion(view, place.shape[1:], known)
        self.batch = view.empty(place.shape, "uint8")
        self.resident = held is not None
        if held is not None:
            self.held = view.constant(np.ascontiguousarray(held).reshape(len(held), -1), "uint8")
            self.numbers = view.empty((self.images,), "int64")
        self.places = view.empty((len(self.conversion.sizes), self.images, 3), "int32")

    def run(self, batch: np.ndarray, records: np.ndarray, epochs: np.ndarray) -> None:
        """Send a batch, and enqueue its conversion into the blob."""
        backend = self.view.backend
        for random, _ in self.draws:
            random.at(records, epochs)
        drawn = [random.each(count) for random, count in self.draws]
        backend.upload(self.conversion.places(drawn, self.images, self.phase), self.places)
        if self.resident:
            backend.upload(records.astype(np.int64), self.numbers)
            flat = self.batch.reshape(self.images, -1)
            backend.xp.take(self.held, self.numbers, axis=0, out=flat)
        else:
            backend.upload(batch, self.batch)
        channels = self.blob.shape[1] if self.blob.layout == "channels last" else 0
        self.conversion.enqueue(self.batch, self.places, self.blob.memory, self.blob.dtype, channels)


def _name(transformer: Any) -> str:
    """Return the name of a transformer of nacre's, or ""."""
    kind = type(transformer)
    return type_name(kind) if kind.__module__ == "nacre_data.transformers" else ""


def _change(transformer: Any, shape: Sequence[int]) -> tuple[Crop | Mirror | Arithmetic, int]:
    """Return a transformer as convert.cu knows it, for records of a shape, and how many numbers it draws for each."""
    name = _name(transformer)
    if name == "Crop":
        return Crop(*transformer.size), 2
    if name == "Mirror":
        return Mirror(), 1
    if name == "Scale":
        return Arithmetic(np.asarray(transformer.scale), multiplies=True), 0
    mean = transformer.fit_to(tuple(shape), np.dtype("float64"))
    return Arithmetic(mean.reshape(tuple(shape)) if mean.size == np.prod(shape) else mean, multiplies=False), 0
