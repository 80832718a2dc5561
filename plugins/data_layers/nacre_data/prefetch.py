"""Prefetch: a source, and the layers that parse its records, run by a thread while the net computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from nacre import (
    ConfigError,
    HostMemory,
    InputLayer,
    Layer,
    Layers,
    NacreError,
    Names,
    Net,
    SourceState,
    at_least,
    default,
    every,
    layer_maker,
    same_numbers,
    tops_of,
)

from .ahead import ReadAhead

MOST = 1000  # batches
IN_NO_SOURCE = ("is_sink", "has_param", "has_loss", "has_stats")
"""The traits of layers that cannot be in a Prefetch."""


class PrefetchLayer(Layer, is_source=True):
    """Run a source, and the layers that parse its records, in a thread of their own, while the net computes.

    y = the tops of the layers in it, of batches that are ready before they are needed.

    The layers above name the tops of the embedded layers, which have no prefix; by default these are the tops that no
    embedded layer reads. `exclude` holds for all embedded layers. The batches, and the random numbers in them, are the
    same as without Prefetch; one that was made and not yet used does not count as read. Embedded layers have neither
    parameters nor gradients. After SINGA's `PrefetchLayer`.

    Example:
        [[layer]]
        type = "Prefetch"
        tops = ["rgb", "label"]  # (8, 3, 6, 6), (8,)
        layer = [
            { type = "HDF5Data", source = "train.h5", tops = ["data", "label"], batch_size = 8, shuffle = true },
            { type = "RGBImage", bottoms = ["data"], tops = ["rgb"], crop_size = 6, mirror = true },
        ]
    """

    layer: Annotated[Layers, at_least(1), "the source, and the layers that read its tops"]
    tops: Annotated[Names, "tops of embedded layers; by default those that no embedded layer reads"] = default(())
    ahead: Annotated[
        int,
        every(lambda number: 0 <= number <= MOST, f"from 0 to {MOST:,}"),
        same_numbers,
        "batches that are made ahead; 0: without a thread",
    ] = 2

    def _complete(self) -> None:
        object.__setattr__(self, "layer", tuple(self._made()))
        if not self.tops:
            read = {bottom for layer in self.layer if not layer.is_inplace for bottom in _bottoms(layer)}
            every = dict.fromkeys(top for layer in self.layer for top in tops_of(layer))
            object.__setattr__(self, "tops", tuple(top for top in every if top not in read))
        super()._complete()

    def _made(self) -> Iterator[Layer]:
        entries: tuple[Any, ...] = self.layer
        for entry in entries:
            if isinstance(entry, Layer):
                yield entry
                continue
            try:
                _, make = layer_maker(entry)
                yield make(**{str(key): value for key, value in entry.items() if key != "type"})
            except NacreError as error:
                lines = str(error.args[0]).split("\n")
                raise ConfigError(
                    "\n".join(f"{self.name or 'Prefetch'}/{line}" for line in lines), error.remedy
                ) from error

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if not any(layer.is_source for layer in self.layer):
            yield "no embedded layer is a source, so there is nothing to read"
        every = dict.fromkeys(top for layer in self.layer for top in tops_of(layer))
        for top in self.tops:
            if top not in every:
                yield f"tops name '{top}', but the embedded layers write {', '.join(every) or 'nothing'}"
        for layer in self.layer:
            if found := [trait for trait in IN_NO_SOURCE if getattr(layer, trait)]:
                yield f"'{layer.name}' declares {found[0]}, so it cannot be embedded: place it outside"

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> PrefetchState:
        return PrefetchState(self, backend)

    # For records from elsewhere

    def made_from(self, top: str) -> tuple[list[str], list[Layer]]:
        """Return the sources' blobs that a top is made from, and the layers between."""
        needed, between = {top}, list[Layer]()
        parsers = [one for one in self.layer if not one.is_source]
        while found := [one for one in parsers if one not in between and needed.intersection(tops_of(one))]:
            between += found
            needed.update(bottom for one in found for bottom in _bottoms(one))
        given = dict.fromkeys(blob for source in self.layer if source.is_source for blob in tops_of(source))
        return [blob for blob in given if blob in needed], between

    def _origin(self, top: str) -> tuple[Layer, str, list[Layer]]:
        """Return the source that a top is made from, the source's blob, and the layers between.

        Raises:
            ConfigError: it is made from several blobs.
        """
        blobs, between = self.made_from(top)
        if len(blobs) != 1:
            message = f"{self.name}: '{top}' is made from {', '.join(blobs)}, so no other records can stand for it"
            raise ConfigError(message, "name one of these among the tops, and place the layers between outside")
        return next(one for one in self.layer if one.is_source and blobs[0] in tops_of(one)), blobs[0], between

    def reading_from(self, paths: Sequence[str]) -> Layer:
        layers = [one.reading_from(paths) if one.is_source else one for one in self.layer]
        return replace(self, layer=layers, exclude=())

    def stored_as(self, top: str) -> str:
        source, blob, _ = self._origin(top)
        return source.stored_as(blob)

    def reading(self) -> Mapping[str, Any]:
        return next(layer for layer in self.layer if layer.is_source).reading()

    def prepared_shape(self, top: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        source, blob, between = self._origin(top)
        shape = source.prepared_shape(blob, shape)
        if not between:
            return shape
        with self._parsing(top, blob, between, (1, *shape), "", "float32", allocate=False) as net:
            return net.memory.final[top].shape[1:]

    def prepare(
        self,
        top: str,
        records: Any,
        random: Any,
        phase: Any,
        fitted: Mapping[str, Any],
        classes: Sequence[str] = (),
    ) -> Any:
        source, blob, between = self._origin(top)
        records = source.prepare(blob, records, random, phase, fitted, classes)
        if not between:
            return records
        kind = str(records.dtype)
        types = ("", kind) if records.dtype.kind == "f" else (kind, "float32")
        with self._parsing(top, blob, between, records.shape, *types, allocate=True) as net:
            net.write(blob, records)
            net.forward()
            return net.blob(top)

    def _parsing(
        self,
        top: str,
        blob: str,
        layers: Sequence[Layer],
        shape: tuple[int, ...],
        kind: str,
        dtype: Any,
        **options: Any,
    ) -> Net:
        """Return a net that makes a top from records which are written into it."""
        given = InputLayer(name=f"records-{blob}", tops=[blob], batch_size=shape[0], shape=shape[1:], dtype=kind)
        where = {"backend": HostMemory.shared(), "phase": "predict", "dtype": dtype, "keep": top}
        return Net(self.name, [given, *layers], **where, **options)


def _bottoms(layer: Layer) -> tuple[str, ...]:
    return tuple(getattr(layer, "bottoms", ()))


class Made:
    """A batch that was made: its tops, what the embedded sources say of it, and the layers' memory after it."""

    def __init__(self) -> None:
        self.arrays: Sequence[np.ndarray] = ()
        self.rows = self.epoch = 0
        self.numbers: tuple[Any, Any] | None = None
        self.memory: Mapping[str, Any] = {}


class Making:
    """Makes one batch after the other: for `step`, `step + stride`, and so on. It has no reference to the state."""

    def __init__(self, net: Net, tops: Sequence[str], step: int, stride: int) -> None:
        self.net = net
        self.tops = tops
        self.step = step
        self.stride = stride

    def __call__(self, made: Made) -> bool:
        net = self.net
        net.step, epoch = self.step, net.epoch
        net.forward()
        net.advance()
        made.arrays = [net.blob(top) for top in self.tops]
        made.rows, made.epoch = int(net.scalars["rows"]), net.epoch
        sources = [op.state for op in net.ops if isinstance(op.state, SourceState)]
        made.numbers = sources[0].numbers if len(sources) == 1 else None
        made.memory = memory_of(net)
        self.step += self.stride
        return net.phase != "train" and net.epoch != epoch  # nothing is made ahead behind the end of a pass


def memory_of(net: Net) -> dict[str, Any]:
    """Return a copy of the memory of all layers of a net, under "layer:key"."""
    layers = net.node_ops.items()
    return {f"{name}:{key}": deepcopy(value) for name, op in layers for key, value in op.state.memory().items()}


class PrefetchState(SourceState, host_only=True):
    """`PrefetchLayer` on any backend: the embedded layers are a net in NumPy's memory, and a thread runs it.

    The net belongs to the thread while that runs. What this state knows of itself is of the batch that was used last. A
    batch is made for the step at which it will be used, if the steps go on as before; if they do not, what is ready is
    dropped, and made again.
    """

    def __init__(self, layer: PrefetchLayer, backend: Any) -> None:
        super().__init__(layer, backend, [], [])
        here = [one for one in layer.layer if self.phase not in one.exclude]
        for top in layer.tops:
            if not any(top in tops_of(one) for one in here):
                raise ConfigError(f"{layer.name}: no embedded layer writes the top '{top}' in phase {self.phase}")
        backend.joined(0)  # so that this is no source that does not ask: the embedded ones do, in their own net
        self.origins = {top: blobs[0] for top in layer.tops if len(blobs := layer.made_from(top)[0]) == 1}
        known = {blob: backend.fitted[top] for top, blob in self.origins.items() if top in backend.fitted}
        self.net = Net(
            layer.name,
            here,
            backend=HostMemory.shared(),
            phase=backend.phase,
            seed=backend.seed,
            dtype=backend.dtype,
            deterministic=backend.deterministic,
            keep=layer.tops,
            fitted=known,
            allocate=False,
            rank=backend.rank,
            ranks=backend.ranks,
        )
        final = self.net.memory.final
        self.blobs = [backend.blob(final[top].shape, final[top].dtype) for top in layer.tops]
        self.sources = [op.state for op in self.net.ops if isinstance(op.state, SourceState)]
        self.endless = all(source.endless for source in self.sources)
        self.ahead: ReadAhead[Made] | None = None
        self.used: Mapping[str, Any] = {}
        self.inside = self.broken_off = False
        self.step, self.stride = 0, int(self.phase == "train")
        self.fitted = self._learned()

    def _learned(self) -> dict[str, Any]:
        learned = self.net.fitted
        return {top: learned[blob] for top, blob in self.origins.items() if blob in learned}

    def ready(self) -> None:
        if not self.net.allocated:
            self.net.allocate()
            self.used, self.fitted = memory_of(self.net), self._learned()

    def forward(self, inputs: list[Any]) -> None:
        made = self._next()
        for blob, array in zip(self.blobs, made.arrays, strict=True):
            np.copyto(blob, array)
        self.inside = self.phase == "train" or made.epoch == self.epoch
        self.rows, self.epoch, self.numbers, self.used = made.rows, made.epoch, made.numbers, made.memory
        if self.ahead is not None:
            self.ahead.free.put(made)
        if not self.inside:
            self._stop()  # the thread has ended with the pass

    def _next(self) -> Made:
        if self.broken_off:
            self._drop()  # so that it begins at the same place
        last, self.step = self.step, self.backend.step
        if self.ahead is not None and self.step != last + self.stride:
            self.stride = int(self.phase == "train" and self.step > last)
            self._drop()
        making = Making(self.net, self.layer.tops, self.step, self.stride)
        try:
            if self.layer.ahead:
                self.ahead = self.ahead or ReadAhead(making, [Made() for _ in range(self.layer.ahead)])
                return self.ahead.take()
            made = Made()
            making(made)
            return made
        except BaseException:
            self.broken_off = True
            if self.ahead is not None:
                self.ahead.end()
            raise

    def _stop(self) -> None:
        if self.ahead is not None:
            self.ahead.stop()
            self.ahead = None

    def _drop(self) -> str | None:
        """End the thread, drop what it has made, and go on after the batch that was used last."""
        self._stop()
        self.broken_off = False
        said: list[str] = []
        for name, op in self.net.node_ops.items():
            own = {key[len(name) + 1 :]: value for key, value in self.used.items() if key.partition(":")[0] == name}
            said += filter(None, [op.state.remember(own) if own else None])
        return "; ".join(said) or None

    def rewind(self) -> None:
        """Begin a pass with the next batch, which it does at the end of a pass anyway."""
        if self.inside:
            self._drop()
            for op in self.net.ops:
                op.state.rewind()
            self.used, self.inside = memory_of(self.net), False

    def memory(self) -> Mapping[str, Any]:
        return self.used

    def remember(self, memory: Mapping[str, Any]) -> str | None:
        if not memory:
            return None
        self.used, self.inside = dict(memory), True
        said = self._drop()
        self.epoch = self.net.epoch
        return said

    def interrupt(self) -> None:
        for source in self.sources:
            source.interrupt()
        if self.ahead is not None:
            self.ahead.interrupt()

    def shutdown(self) -> None:
        self.interrupt()
        if self.ahead is None or self.ahead.give_up(self.layer.name):
            self._stop()
            self.net.shutdown()
