"""The common code of sources over numbered records: batches, passes, orders, types and transformers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import numpy as np

from nacre import (
    Converted,
    DataError,
    Layer,
    Names,
    SnapshotError,
    SourceState,
    Transformer,
    at_least,
    count_in,
    default,
    make_component,
    non_negative,
    positive,
    same_numbers,
)
from nacre.random import RecordRandom

from .ahead import Batch, ReadAhead
from .fitting import ClassNames, Fitting, fitting_complaints, prepare
from .pipeline import Change, Pipeline, place_type, shape_after, told
from .records import ONE_NUMBER, Records
from .sampling import Sampling, sampled, sampling_complaints
from .split import Split, part_of, split_complaints
from .tables import Naming


class Transformers(
    Converted[Sequence[Sequence[str | Transformer | Mapping[str, Any]]], tuple[tuple[str, Transformer], ...]]
):
    """Pairs of a top and a transformer, which changes the batches of that top; applied in this order."""

    wants = "a list of [top, transformer], such as [['data', {'type': 'Scale', 'scale': 0.5}]]"

    @staticmethod
    def convert(value: Any) -> tuple[tuple[str, Transformer], ...]:
        pairs: list[tuple[str, Transformer]] = []
        for pair in value:
            top, transformer = pair
            if isinstance(pair, str) or not isinstance(top, str):
                raise ValueError
            if not isinstance(transformer, Transformer):
                transformer = make_component(Transformer, transformer)
            pairs.append((top, transformer))
        return tuple(pairs)


CacheBytes = Annotated[int, non_negative, same_numbers, "keep the data in memory if they have no more bytes than this"]
Ahead = Annotated[int, non_negative, same_numbers, "batches that a thread reads before they are needed"]


class RecordSourceLayer(Layer, is_source=True):
    """The fields of a source over records; a subclass adds the data, and returns a `RecordSourceState`."""

    tops: Annotated[Names, at_least(1), "names of the blobs"] = default(("data", "label"))
    batch_size: Annotated[int, positive, "number of records in a batch"]
    shuffle: Annotated[bool, "use a new random order of the records in each pass"] = False
    split: Annotated[Split, "part of the records that is fed, such as the validation part"] = default(None)
    sampling: Annotated[Sampling, "how often records are drawn in training: classes alike, or by weights"] = default(
        None
    )
    ahead: Ahead = 0
    transformers: Annotated[Transformers, "transformers of the batches: a list of [top, transformer]"] = default(())
    classes: Annotated[ClassNames, "names of the classes of labels, in the order of their numbers: {top: names}"] = (
        default(None)
    )

    @property
    def conversion(self) -> tuple[tuple[str, Transformer], ...]:
        """Return all that changes the batches: `transformers`, and what a subclass's own fields stand for."""
        return self.transformers

    def changes(self, top: str) -> Sequence[Transformer]:
        return [transformer for name, transformer in self.conversion if name == top]

    def reading_from(self, paths: Sequence[str]) -> Layer:
        return replace(super().reading_from(paths), split=None, sampling=None, shuffle=False)

    def prepared_shape(self, top: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape_after([transformer for name, transformer in self.conversion if name == top], shape)

    def prepare(
        self,
        top: str,
        records: Any,
        random: Any,
        phase: str,
        fitted: Mapping[str, Any],
        classes: Sequence[str] = (),
    ) -> np.ndarray:
        return prepare(self, top, records, random, phase, fitted, classes)

    def columns(self, phase: str) -> dict[str, str]:
        """Return the fields that are needed besides the tops, each with what names it."""
        fields = {self.split.get("group", ""): "split: group"}
        if phase == "train":
            fields |= {field: f"sampling: {kind}" for kind, field in self.sampling.items()}
        return {field: what for field, what in fields.items() if field and field not in self.tops}

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        for top, _ in self.transformers:
            if top not in self.tops:
                yield f"transformers name the top '{top}', but it must be one of {', '.join(self.tops)}"
        yield from fitting_complaints(self)
        yield from split_complaints(self.split)
        yield from sampling_complaints(self.sampling)


def check_batch(layer: Any, backend: Any, count: int) -> None:
    """Raise DataError if the batch of a layer is larger than its data in phase `train`; in others it is filled up."""
    ranks, together = backend.ranks, layer.batch_part is not None
    whole = backend.joined(layer.batch_size)[1]
    if backend.phase == "train" and whole > count:
        size, most = (whole, count) if together else (layer.batch_size, count // ranks)
        who = "" if ranks == 1 else f" of {ranks} ranks together" if together else f" on each of {ranks} ranks"
        fewer = f"let at most {count} of the ranks train, with a batch_size of {count if together else 1}"
        raise DataError(
            f"{layer.name}: batch_size={size}{who}, but the data have only {count} records",
            f"set batch_size to {most} or less" if count >= ranks else fewer,
        )


class Passes:
    """Which records come next, pass by pass; see `RecordSourceState`.

    `position` is where in the order of this pass the next batch begins, that of all ranks together; `epoch` is how many
    passes are complete. Both are the same on every rank. `epochs` are the passes of the last batch's records.
    """

    def __init__(self, layer: Any, backend: Any, count: int | None) -> None:
        if count is not None:
            check_batch(layer, backend, count)
        self.count = count or 0
        self.shuffle: bool = layer.shuffle
        self.trains = backend.phase == "train"
        self.first, self.whole = backend.joined(layer.batch_size)  # rows of the ranks before this one, and of all
        self.random = backend.random(layer.name, lambda: self.epoch)
        self.position = 0
        self.epoch = 0
        self.order: np.ndarray | None = None
        self.shuffled = -1
        self.epochs = np.empty(layer.batch_size, np.int64)

    def choose(self, batch: np.ndarray) -> int:
        """Fill `batch` with the numbers of this rank's next records; return how many of them are real."""
        size = len(batch)
        before, left = self.first, self.whole
        filled = 0
        while left:
            records = self._order()[self.position : self.position + left]
            ours = records[before:][: size - filled]
            batch[filled : filled + len(ours)] = ours
            self.epochs[filled:] = self.epoch
            filled += len(ours)
            before, left = max(0, before - len(records)), left - len(records)
            self.position += len(records)
            if self.position >= self.count:
                self.epoch, self.position = self.epoch + 1, 0
                if not self.trains:
                    batch[filled:] = records[-1]
                    break
        return filled

    def _order(self) -> np.ndarray:
        """Return the order of this pass."""
        if self.order is None:
            self.order = np.arange(self.count)
        if self.shuffle and self.shuffled != self.epoch:
            self.arrange(self.order, self.random.generator())
            self.shuffled = self.epoch
        return self.order

    def arrange(self, order: np.ndarray, generator: np.random.Generator, /) -> None:
        """Put the records into the order of a shuffled pass: as `Generator.permutation`, but in this memory."""
        order.sort()
        generator.shuffle(order)


def read_batch(passes: Passes, records: Records, batch: Batch) -> bool:
    """Fill a batch with the next records; return whether a pass outside of training ends with it.

    Nothing is read ahead behind that: which pass comes next is not known.
    """
    batch.rows = passes.choose(batch.records)
    batch.epochs[:] = passes.epochs
    batch.position, batch.epoch = passes.position, passes.epoch
    records.read(batch.records, batch.arrays)
    rows, begun = batch.records[: batch.rows], batch.epochs[: batch.rows] == batch.epoch
    bad = bool(records.left_out(rows))
    batch.left_out = records.left_out(rows[~begun]) if bad else ()
    batch.begun = records.left_out(rows[begun]) if bad else ()
    return not passes.trains and not passes.position


class RecordSourceState(SourceState, host_only=True):
    """A source over records, on any backend.

    A pass is one time through all records. In phase `train` the next pass begins inside a batch. In the other phases
    the last batch of a pass is filled up with its last record, `rows` is the number of real ones, and the next batch
    begins a new pass. In phase `train` no batch is larger than the data. `epoch` grows with the batch that has the last
    record of a pass. The order is that of the records, or with `shuffle` a permutation of all of them that is a
    function of seed, layer name and epoch. With `sampling` a pass in phase `train` has as many records, but some of
    them several times, and others not at all.

    With several ranks, a batch of all ranks together has the batch_size records of each, and each rank takes its part
    of them, in the order of the ranks. At the end of a pass in other phases the last ranks may have no real row.

    With `ahead`, a thread reads batches before they are needed; `passes` and `records` belong to it while it runs.
    `position` and `epoch` are those after the batch that was used last, so that a snapshot does not contain what is
    only read ahead. Transformers are applied when a batch is used; until then records stay in the type in which they
    are stored, if that is smaller than the net's.

    One whole number per record (labels: record shape () or (1,)) makes an int64 blob, unless a transformer changes it.
    All other data become blobs of the net's floating type.

    Raises:
        DataError: the batch of a training is larger than the data.
    """

    converter: Callable[[int, np.ndarray, Sequence[Change]], Any] | None = None
    """For kernels: what returns the pipeline of a top, given its number, an array like its batches, and its changes.

    It has `run` and `stages`, not empty, as `Pipeline` has them; None leaves the top to this state. One that says
    `resident` has all records (`Records.in_memory`), and gets their numbers alone: its arrays of batches have no rows.
    """

    def __init__(self, layer: Any, backend: Any, records: Records, passes: Passes | None = None) -> None:
        super().__init__(layer, backend, [], [])
        changed = {top for top, transformer in layer.conversion if not isinstance(transformer, Naming)}
        kinds = zip(layer.tops, records.shapes, records.dtypes, strict=True)
        labels = [top for top, shape, kind in kinds if kind.kind != "f" and shape in ONE_NUMBER and top not in changed]
        naming = {top for top, transformer in layer.conversion if isinstance(transformer, Naming)}
        classes = [top for top in labels if top not in naming] or labels  # categories are inputs
        if layer.split:
            records = part_of(layer.name, records, classes[0] if classes else "", layer.split)
        self.records = records
        self.position = 0
        self.left_out: list[str] = []
        self.told_of = 0  # as many as a pass left out when it was last warned of
        self.ahead: ReadAhead[Batch] | None = None
        self.broken_off = self.interrupted = False
        self.passes = passes or Passes(layer, backend, records.count)
        if layer.sampling and backend.phase == "train":
            self.passes.shuffle, self.passes.arrange = True, sampled(layer, records, classes)
        for top, given in zip(layer.tops, records.shapes, strict=True):
            with told(layer.name, f"transformers: {top}"):
                shape = layer.prepared_shape(top, given)
            self.blobs.append(backend.blob((layer.batch_size, *shape), "int64" if top in labels else backend.dtype))
        self.fitting = Fitting(layer, backend, records, labels)
        self.fitted = self.fitting.fitted
        self.changes: list[list[Change]] = []
        self.randoms: list[RecordRandom] = []
        numbers = dict.fromkeys(layer.tops, 0)
        for top, _ in layer.conversion:
            name = f"{layer.name}/{top}/{numbers[top]}"
            self.randoms.append(RecordRandom(backend.seed, name, lambda: int(backend.scalars["step"])))
            numbers[top] += 1

    def ready(self) -> None:
        self._stop()
        self.changes = self.changes or self.fitting.changes(self.randoms)
        size, number = self.layer.batch_size, max(1, self.layer.ahead)
        batches = [(np.empty(size, np.intp), np.empty(size, np.int64), self._places()) for _ in range(number)]
        self.batches = [Batch(*arrays) for arrays in batches]
        tops = zip(self.layer.tops, self.batches[0].arrays, self.blobs, self.changes, strict=True)
        self.pipelines: list[tuple[int, Any]] = []
        for number, (top, place, blob, changes) in enumerate(tops):
            made = self.converter and self.converter(number, place, changes)
            made = made or Pipeline(self.layer.name, top, place, blob, changes, self.phase)
            if getattr(made, "resident", False):  # it has all records, and only needs their numbers
                for batch in self.batches:
                    batch.arrays[number] = batch.arrays[number][:0]
            if made.stages:
                self.pipelines.append((number, made))

    def _places(self) -> list[np.ndarray]:
        """Return arrays for a batch, as `Records.read` fills them: the blobs themselves, if nothing is between."""
        places: list[np.ndarray] = []
        stored = zip(self.records.shapes, self.records.dtypes, strict=True)
        for blob, (shape, kind), changes in zip(self.blobs, stored, self.changes, strict=True):
            shape = len(blob), *shape
            kind = place_type(kind, blob.dtype) if changes or self.layer.ahead else blob.dtype
            direct = not self.layer.ahead and (shape, kind) == (blob.shape, blob.dtype)
            places.append(blob if direct else np.zeros(shape, kind))
        return places

    def forward(self, inputs: list[Any]) -> None:
        batch = self._next()
        for top, pipeline in self.pipelines:
            pipeline.run(batch.arrays[top], batch.records, batch.epochs)
        ends = batch.epoch > self.epoch
        self.rows, self.position, self.epoch = batch.rows, batch.position, batch.epoch
        self.left_out += batch.left_out
        begun, self.numbers = batch.begun, (batch.records.copy(), batch.epochs.copy())  # the batch is filled again
        if self.ahead is not None:
            self.ahead.free.put(batch)
        if ends:
            self._warn_of_left_out()
            if self.phase != "train":
                self._stop()  # the thread has ended with the pass
        self.left_out += begun

    def keys(self, numbers: Sequence[int]) -> list[str]:
        self._stop()  # the thread uses the reader, too
        return [self.records.key(int(number)) for number in numbers]

    def _warn_of_left_out(self) -> None:
        """Warn at the end of a pass of records that were replaced by others, if no pass before had so many."""
        left_out, self.left_out = self.left_out, []
        first, number = next(iter(left_out), ""), len(left_out)
        if number <= self.told_of:
            return
        self.told_of = number
        message = f"{self.layer.name}: {number} of {self.records.count} records of pass {self.epoch} were left out"
        warnings.warn(f"{message}: each was replaced by one before it. The first: {first}", stacklevel=2)

    def _next(self) -> Batch:
        if self.broken_off:
            self._stop()  # so that it begins at the same position
        fill = partial(read_batch, self.passes, self.records)
        try:
            if self.layer.ahead:
                self.ahead = self.ahead or ReadAhead(fill, self.batches)
                if self.interrupted:
                    raise DataError(f"{self.layer.name}: it was closed while it was read")
                return self.ahead.take()
            fill(self.batches[0])
            return self.batches[0]
        except BaseException:
            self.broken_off = True
            if self.ahead is not None:
                self.ahead.end()  # nothing waits for that here: it may take long
            raise

    def rewind(self) -> None:
        """Begin this pass again with the next batch: `epoch`, and with it the order, stays as it is."""
        if self.position:  # else what is read ahead begins the pass
            self.position = 0
            self._stop()

    def _stop(self) -> None:
        """End the thread, drop what it has read, and go on after the batch that was used last."""
        if self.ahead is not None:
            self.ahead.stop()
            self.ahead = None
        self.broken_off = False
        self.passes.position, self.passes.epoch = self.position, self.epoch

    def memory(self) -> dict[str, int]:
        return {"position": self.position, "epoch": self.epoch, "count": self.records.count}

    def remember(self, memory: Mapping[str, Any]) -> str | None:
        """Continue after the batch after which `memory` was made.

        Raises:
            SnapshotError: the data now have a different number of records.
        """
        if not memory:
            return None
        if int(memory["count"]) != self.records.count:
            raise SnapshotError(
                f"{self.layer.name}: the snapshot was made with {memory['count']} records, but now there are "
                f"{self.records.count}",
                "continue with the same data, or start a new training from the snapshot's parameters",
            )
        self.position, self.epoch = count_in(memory, "position"), count_in(memory, "epoch")
        self._stop()
        return None

    def interrupt(self) -> None:
        self.interrupted = True
        self.records.interrupt()
        if self.ahead is not None:
            self.ahead.interrupt()

    def shutdown(self) -> None:
        self.interrupt()
        if self.ahead is None or self.ahead.give_up(self.layer.name):
            self._stop()
            self.records.close()
