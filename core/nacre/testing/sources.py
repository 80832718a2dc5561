"""SourceTests: what every source of data has to do: passes, rows, going on after a restart, ranks."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest

from ..errors import ContractError, DataError, brief
from ..net.net import Net
from ..protocols.backend import HostMemory
from ..protocols.layer import PHASES, Layer, Phase, tops_of
from ..protocols.part import BATCH, Part, part_of
from ..protocols.state import SourceState
from .bench import spoil
from .outside import Things, check_unchanged, global_state, growth, saved
from .suite import Checks, When, only
from .trial import NAME, Example

FED = 100
"""Batches between the two looks at the memory that is in use."""
GROWTH = 50
"""Bytes for each of them that may be in use besides: lists of Python's grow in leaps."""
TOLD = When("with `records`", lambda suite: not suite.endless and suite.records is not SourceTests.records)
SHUFFLES = When("with a `shuffle`", lambda suite: bool(suite.shuffling()))
ENDS = When("not `endless`", lambda suite: not suite.endless)
ENDLESS = When("`endless`", lambda suite: suite.endless)


class SourceTests(Checks):
    """The tests of a source: a layer that feeds data.

    An author writes data, and says which records they hold, in their order:

        class TestTabData(SourceTests):
            layer = TabDataLayer

            def write(self, folder):
                write_tabs(folder / "seven.tab", np.arange(7.0), np.arange(7) % 3)
                return {"source": folder / "seven.tab", "tops": ["x", "label"]}

            def records(self):
                return {"x": np.arange(7.0), "label": np.arange(7) % 3}

    and pytest runs all methods `test_...` below that apply. There must be at least six records, no two of them equal.
    A source without records that can be told, such as one of texts, has no `records`: then order and rows are not
    tested, but everything else is.

    Attributes:
        layer: the class.
        dtypes: the types it works in.
        size: the field that says how many records a batch has.
        shuffle: fields that make the order random; {"shuffle": True} if the layer has such a field, {} for none.
        endless: whether there are no passes, because the data have no end.
    """

    SUBJECT = "layer"
    layer: ClassVar[type[Layer]]
    size: ClassVar[str] = "batch_size"
    shuffle: ClassVar[Mapping[str, Any] | None] = None
    endless: ClassVar[bool] = False
    IN_TURNS = frozenset({"test_blobs", "test_order"})

    def write(self, folder: Path) -> Mapping[str, Any]:
        """Write data into a folder; return the fields of the layer that reads them."""
        return {}

    def records(self) -> Mapping[str, Any]:
        """Return all records, as the blobs hold them: {top: array}, axis 0 counts them."""
        return {}

    def examples(self) -> Iterable[Example]:
        """Return the forms in which the source is tested, by further fields: `Example({"ahead": 2}, label="ahead")`."""
        yield Example()

    @classmethod
    def shuffling(cls) -> Mapping[str, Any]:
        """Return the fields that make the order random."""
        if cls.shuffle is not None:
            return cls.shuffle
        return {"shuffle": True} if "shuffle" in {field.name for field in cls.layer.fields()} else {}

    @contextmanager
    def feeding(
        self, folder: Path, example: Example, *, batch: int = 0, name: str = NAME, made: Layer | None = None, **net: Any
    ) -> Generator[Feeding]:
        """Let the source work in a net of its own, and shut it down; further options are the net's."""
        layer = made or self.make_in(folder, example, batch=batch or self._batch(), name=name)
        options: dict[str, Any] = {"backend": HostMemory.shared(), **net}
        fed = Feeding(layer, **options)
        try:
            yield fed
        finally:
            fed.net.shutdown()

    def make_in(self, folder: Path, example: Example, *, batch: int = 3, name: str = NAME) -> Layer:
        """Make the layer of an example, with batches of so many records."""
        written = self.write(folder)
        if not isinstance(written, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ContractError(
                f"{type(self).__name__}.write() returns {brief(written)}, but it must be the fields of the layer",
                'end it with return {"source": folder / "...", ...}, or return {} for none',
            )
        fields: dict[str, Any] = {"name": name, **written, self.size: batch, **example.fields}
        return self.layer(**fields)

    # Blobs

    def test_blobs(self, backend: str, dtype: str, example: Example, tmp_path: Path) -> None:
        """The blobs have the shapes and types that `setup` declared, which depend on the net's type and on no data."""
        layer = self.make_in(tmp_path, example)
        with Net("test", [layer], backend=backend, dtype=cast("Any", dtype), allocate=False) as planned:
            final = planned.memory.final
            declared = {top: (tuple(final[top].shape), final[top].dtype) for top in tops_of(layer)}
        with self.feeding(tmp_path, example, made=layer, backend=backend, dtype=dtype) as fed:
            assert isinstance(fed.state, SourceState), f"its state is a {type(fed.state).__name__}, but no SourceState"
            assert fed.state.endless == self.endless, f"endless is {fed.state.endless}, but the suite says otherwise"
            tops = fed.batch().tops
            found = {top: (array.shape, str(array.dtype)) for top, array in tops.items()}
            assert found == declared, f"setup declares {declared}, but the blobs are {found}"
            other = {array.dtype.name for array in tops.values() if array.dtype.kind == "f"} - {dtype}
            assert not other, f"a blob is of type {', '.join(other)} in a net of type {dtype}"

    def test_blobs_are_written(self, example: Example, tmp_path: Path) -> None:
        """Every number of every blob is written for each batch, whatever the blobs held before."""
        for phase in ("train", "validation"):
            with (
                self.feeding(tmp_path, example, phase=phase) as clean,
                self.feeding(tmp_path, example, phase=phase) as spoiled,
            ):
                for number in range(5):
                    spoil(spoiled.net.backend, spoiled.state.blobs)
                    wrong = spoiled.batch().differs(clean.batch())
                    assert not wrong, (
                        f"phase {phase}, batch {number}: {wrong}, where the blobs held other numbers before"
                    )

    # Passes

    @only(TOLD)
    def test_order(self, backend: str, dtype: str, example: Example, tmp_path: Path) -> None:
        """Three passes feed the records in their order; in phase train a pass begins inside a batch."""
        for phase in PHASES:
            with self.feeding(tmp_path, example, phase=phase, backend=backend, dtype=dtype) as fed:
                for number, (first, real, _) in self._expected(phase):
                    wanted = [(first + row) % self._count() for row in range(real)]
                    found = self._numbers(fed.batch())[:real]
                    assert found == wanted, (
                        f"phase {phase}, batch {number}: the records {_listed(found)} instead of {_listed(wanted)}"
                    )

    @only(TOLD)
    def test_rows(self, example: Example, tmp_path: Path) -> None:
        """`rows` is the number of records in the batch: all, but for the last batch of a pass outside of training."""
        for phase in ("train", "validation"):
            with self.feeding(tmp_path, example, phase=phase) as fed:
                for number, (_, real, _) in self._expected(phase):
                    rows = fed.batch().rows
                    assert rows == real, f"phase {phase}, batch {number}: rows is {rows} instead of {real}"

    @only(TOLD)
    def test_last_batch(self, example: Example, tmp_path: Path) -> None:
        """Outside of training the last batch of a pass is filled up with its last record."""
        for phase in PHASES[1:2]:
            with self.feeding(tmp_path, example, phase=phase) as fed:
                for number, (_, real, _) in self._expected(phase):
                    found = self._numbers(fed.batch())
                    wanted = [found[real - 1]] * (len(found) - real)
                    assert found[real:] == wanted, (
                        f"phase {phase}, batch {number}: rows {real} to {len(found) - 1} do not count, and hold the "
                        f"records {_listed(found[real:])} instead of the last one, {found[real - 1]}, again"
                    )

    @only(TOLD)
    def test_end_of_pass(self, example: Example, tmp_path: Path) -> None:
        """`epoch` counts complete passes: it rises with the batch that has the last record of one."""
        for phase in ("train", "validation"):
            with self.feeding(tmp_path, example, phase=phase) as fed:
                assert fed.state.epoch == 0, f"phase {phase}: epoch is {fed.state.epoch} before the first batch"
                for number, (_, _, epoch) in self._expected(phase):
                    found = fed.batch().epoch
                    assert found == epoch, f"phase {phase}: epoch is {found} after batch {number}, instead of {epoch}"

    @only(TOLD)
    def test_small_data(self, example: Example, tmp_path: Path) -> None:
        """A batch larger than the data is filled up outside of training, and refused in it, in a sentence."""
        size = self._count() + 2
        with self.feeding(tmp_path, example, batch=size, phase="validation") as fed:
            for epoch in (1, 2):
                batch = fed.batch()
                assert (batch.rows, batch.epoch) == (size - 2, epoch), (
                    f"{size - 2} records in a batch of {size}: rows is {batch.rows}, and epoch {batch.epoch} after "
                    f"{epoch} of them"
                )
        told = ""
        try:
            with self.feeding(tmp_path, example, batch=size) as fed:
                fed.batch()
        except DataError as error:
            told = str(error)
        assert told, f"in phase train a batch of {size} is accepted for {size - 2} records: raise DataError"
        assert NAME in told, f"the error does not name the layer '{NAME}': {told}"

    @only(ENDS)
    def test_rewind(self, example: Example, tmp_path: Path) -> None:
        """After `rewind` the next batch begins a pass, wherever the source was; `epoch` stays as it is."""
        for phase, count in itertools.product(("train", "validation"), range(5)):
            with (
                self.feeding(tmp_path, example, phase=phase) as fed,
                self.feeding(tmp_path, example, phase=phase) as new,
            ):
                for _ in range(count):
                    fed.batch()
                epoch = fed.state.epoch
                fed.state.rewind()
                assert fed.state.epoch == epoch, f"phase {phase}: rewind changes epoch from {epoch}"
                for number in range(3):
                    wrong = fed.batch().differs(new.batch(), epochs=False)
                    assert not wrong, (
                        f"phase {phase}, rewound after {count} batches: batch {number} is not that of a pass: {wrong}"
                    )

    @only(ENDLESS)
    def test_endless(self, example: Example, tmp_path: Path) -> None:
        """Data without an end have no passes: `rewind` does no harm, and no two batches are the same."""
        with self.feeding(tmp_path, example, phase="validation") as fed:
            first = fed.batch()
            fed.state.rewind()
            batches = [first, fed.batch(), fed.batch()]
            assert not any(one.same_numbers(other) for one, other in itertools.combinations(batches, 2)), (
                "two batches of endless data are the same"
            )
            assert {batch.epoch for batch in batches} == {0}, "endless data have no passes, but epoch has risen"

    # A random order

    @only(TOLD, SHUFFLES)
    def test_shuffled_passes(self, example: Example, tmp_path: Path) -> None:
        """Every shuffled pass has every record once, in another order."""
        every = sorted(range(self._count()))
        for phase in ("train", "validation"):
            passes = self._shuffled(tmp_path, example, phase=phase)
            for number, order in enumerate(passes):
                found: list[Any] = sorted(order, key=str)
                assert found == sorted(every, key=str), (
                    f"phase {phase}: shuffled pass {number} has the records {_listed(order)} instead of each once"
                )
            twice = [number for number, order in enumerate(passes) if order in passes[:number]]
            assert not twice, f"phase {phase}: shuffled pass {twice[0]} has the same order as one before"

    @only(TOLD, SHUFFLES)
    def test_order_of_shuffle(self, example: Example, tmp_path: Path) -> None:
        """A shuffled order is a function of seed, layer name and pass, and of nothing else."""
        first = self._shuffled(tmp_path, example)
        same: dict[str, dict[str, Any]] = {
            "made again": {},
            "in phase validation": {"phase": "validation"},
            "with another batch size": {"batch": 2},
        }
        for where, options in same.items():
            other = self._shuffled(tmp_path, example, **options)
            assert other == first, f"shuffled {where}, the order is {_listed(other[0])} instead of {_listed(first[0])}"
        for where, options in {"seed": {"seed": 1}, "layer name": {"name": "another"}}.items():
            other = self._shuffled(tmp_path, example, **options)
            assert other[0] != first[0], f"with another {where} the shuffled order is the same: {_listed(first[0])}"

    # Restarts

    def test_resume(self, example: Example, tmp_path: Path) -> None:
        """What `memory` gives after any batch lets a new source go on with the next one, bit for bit."""
        ways = [example, *([_with(example, self.shuffling())] if self.shuffling() else [])]
        for way in ways:
            shuffled = "shuffled, " if way is not example else ""
            with self.feeding(tmp_path, way) as fed:
                memories, batches = [saved(fed.state.memory())], list[Batch]()
                for _ in range(2 * -(-(self._count() or 9) // self._batch()) + 3):
                    batches.append(fed.batch())
                    memories.append(saved(fed.state.memory()))
            for done in range(len(batches) - 2):
                with self.feeding(tmp_path, way) as resumed:
                    if memories[done]:
                        resumed.state.remember(memories[done])
                    resumed.net.step = done
                    for number in range(done, done + 3):
                        wrong = resumed.batch().differs(batches[number])
                        assert not wrong, f"{shuffled}resumed after {done} batches: batch {number} differs: {wrong}"

    def test_begins_anew(self, example: Example, tmp_path: Path) -> None:
        """What `memory` gives before the first batch lets a used source begin anew, as validations do."""
        ways = [example, *([_with(example, self.shuffling())] if self.shuffling() else [])]
        for phase, way in itertools.product(("train", "validation"), ways):
            with self.feeding(tmp_path, way, phase=phase) as fed:
                memory = saved(fed.state.memory())
                batches = [fed.batch() for _ in range(-(-(self._count() or 9) // self._batch()) + 1)]
                if memory:
                    fed.state.remember(memory)
                elif not self.endless:
                    fed.state.rewind()
                fed.net.step = 0
                for number, batch in enumerate(batches):
                    wrong = fed.batch().differs(batch, epochs=bool(memory))
                    assert not wrong, f"phase {phase}, begun anew: batch {number} differs: {wrong}"

    def test_memory(self, example: Example, tmp_path: Path) -> None:
        """`memory` gives arrays, finite numbers and texts; it changes nothing, and later batches do not change it."""
        with self.feeding(tmp_path, example) as fed, self.feeding(tmp_path, example) as other:
            for number in range(4):
                memory = fed.state.memory()
                before = saved(memory)
                wrong = fed.batch().differs(other.batch())
                assert not wrong, f"after memory() batch {number} is another one: {wrong}"
                check_unchanged(memory, before, "the next batch")

    # Others

    def test_ranks(self, example: Example, tmp_path: Path) -> None:
        """The batches of several ranks are together the batch of one rank with as many records, also if uneven.

        Where a batch of a validation has fewer records than there are ranks, some feed one that does not count.
        """
        uneven: tuple[tuple[int, int, Phase], ...] = ((3, 5, "train"), (3, 7, "validation"), (3, 2, "validation"))
        for ranks, size, phase in ((2, 4, "train"), (2, 4, "validation"), *uneven):
            whole = self.make_in(tmp_path, example, batch=size)
            with self.feeding(tmp_path, example, made=whole, phase=phase) as fed:
                expected = [fed.batch() for _ in range(4)]
            found: list[list[bytes]] = [[] for _ in expected]
            for rank in range(ranks):
                start, stop = part_of(size, rank, ranks)
                layer = self.make_in(tmp_path, example, batch=max(stop - start, 1))
                layer.as_part_of(whole, Part(BATCH, rank, ranks, size, start, stop))
                with self.feeding(tmp_path, example, made=layer, phase=phase, rank=rank, ranks=ranks) as part:
                    for number, batch in enumerate(expected):
                        mine = part.batch()
                        found[number] += mine.in_bytes()[: min(mine.rows, stop - start)]
                        assert mine.epoch == batch.epoch, (
                            f"phase {phase}, rank {rank} of {ranks}: epoch is {mine.epoch} after batch {number}, but "
                            f"{batch.epoch} on one rank"
                        )
            for number, batch in enumerate(expected):
                assert sorted(found[number]) == sorted(batch.in_bytes()[: batch.rows]), (
                    f"phase {phase}, batch {number}: {ranks} ranks do not have together what one rank has in a batch "
                    f"of {size}: take the rows that backend.joined(rows) says"
                )

    @only(TOLD)
    def test_keys(self, example: Example, tmp_path: Path) -> None:
        """`numbers` are those of the records in the batch and their passes; `keys` names each record differently."""
        for phase in ("train", "validation"):
            with self.feeding(tmp_path, example, phase=phase) as fed:
                keys: dict[int, str] = {}
                for number, (first, real, _) in self._expected(phase):
                    batch = fed.batch()
                    if fed.state.numbers is None:
                        pytest.skip("the source does not say the numbers of its records (SourceState.numbers)")
                    records, passes = ([int(one) for one in numbers][:real] for numbers in fed.state.numbers)
                    held = self._numbers(batch)[:real]
                    assert records == held, (
                        f"phase {phase}, batch {number}: numbers says {_listed(records)}, but the blobs hold "
                        f"{_listed(held)}"
                    )
                    begun = 0 if phase == "train" else first // self._count()
                    wanted = [begun + (first + row - begun * self._count()) // self._count() for row in range(real)]
                    assert passes == wanted, (
                        f"phase {phase}, batch {number}: the records are of the passes {wanted}, but numbers says "
                        f"{passes}"
                    )
                    told: list[Any] = fed.state.keys(records)
                    assert all(isinstance(key, str) and key for key in told), f"keys({records}) gives {told!r}"
                    for record, key in zip(records, told, strict=True):
                        assert keys.setdefault(record, key) == key, f"the key of record {record} changes: {key!r}"
                assert len(set(keys.values())) == len(keys), f"two records have one key: {sorted(keys.values())}"

    def test_two_nets(self, example: Example, tmp_path: Path) -> None:
        """The same layer in a training net and in a validation net at once feeds what it feeds alone."""
        layer = self.make_in(tmp_path, example)
        alone: dict[str, list[Batch]] = {}
        for phase in ("train", "validation"):
            with self.feeding(tmp_path, example, made=layer, phase=phase) as fed:
                alone[phase] = [fed.batch() for _ in range(4)]
        with (
            self.feeding(tmp_path, example, made=layer) as train,
            self.feeding(tmp_path, example, made=layer, phase="validation") as held_out,
        ):
            for number in range(4):
                for phase, fed in (("train", train), ("validation", held_out)):
                    wrong = fed.batch().differs(alone[phase][number])
                    assert not wrong, f"phase {phase}: batch {number} is another one beside a second net: {wrong}"

    def test_global_state(self, example: Example, tmp_path: Path) -> None:
        """It neither reads nor changes the random numbers of `numpy.random` and `random`, nor NumPy's settings."""
        way = _with(example, self.shuffling())
        found: list[list[Batch]] = []
        for seed in (1, 2):
            with global_state(seed), self.feeding(tmp_path, way) as fed:
                found.append([fed.batch() for _ in range(3)])
        for number, (one, other) in enumerate(zip(*found, strict=True)):
            assert one.same_numbers(other), (
                f"batch {number} depends on the global random numbers: draw from nacre.random.Random"
            )

    def test_shutdown(self, example: Example, tmp_path: Path) -> None:
        """`shutdown` closes all files, threads and processes that the source has opened; it may be called twice."""
        layer = self.make_in(tmp_path, example)
        fed = None
        for batches in (1, 0, 2):  # the first time libraries open files of their own
            del fed  # what the one before has left open is closed now, not while this one is looked at
            gc.collect()
            before = Things.open()
            fed = Feeding(layer, backend=HostMemory.shared())
            for _ in range(batches):
                fed.batch()
            fed.state.interrupt()
            fed.net.shutdown()
            fed.state.shutdown()
            left = Things.open().besides(before, files=batches != 1)
            assert not left, f"after {batches} batches and shutdown {left}"

    def test_growth(self, tmp_path: Path) -> None:
        """Feeding on needs no more memory: nothing is kept of earlier batches and passes."""
        with self.feeding(tmp_path, next(iter(self.examples()))) as fed:
            for _ in range(FED // 3):
                fed.net.feed()
            more = growth(lambda: [fed.net.feed() for _ in range(FED)], GROWTH * FED)
        assert more <= GROWTH * FED, (
            f"{FED} batches more, and {more:,} bytes more are in use: what is kept of each batch?"
        )

    # How it is checked

    def _count(self) -> int:
        return len(next(iter(self.records().values()), ()))

    def _batch(self) -> int:
        """Return the records of a batch: 3, or more, so that the last one of a pass is not full."""
        return next(size for size in itertools.count(3) if self._count() % size or not self._count())

    def _expected(self, phase: str) -> Iterable[tuple[int, tuple[int, int, int]]]:
        """Return for each batch of three passes where it begins, its real rows, and the passes complete after it."""
        count, size = self._count(), self._batch()
        batches: list[tuple[int, int, int]] = []
        position = 0
        while position < 3 * count:
            real = size if phase == "train" else min(size, count - position % count)
            batches.append((position, real, (position + real) // count))
            position += real
        return enumerate(batches)

    def _numbers(self, batch: Batch) -> list[int | str]:
        """Return the number of the record in each row, "?" for what is none."""
        records = {top: np.asarray(values) for top, values in self.records().items()}
        count = self._count()
        if count < 6:
            raise ContractError(f"{type(self).__name__}.records() gives {count} records", "give at least 6")
        if set(records) != set(batch.tops):
            raise ContractError(
                f"{type(self).__name__}.records() has {', '.join(records)}, but the tops are {', '.join(batch.tops)}"
            )
        every = Batch({top: values.astype(batch.tops[top].dtype) for top, values in records.items()}, 0, 0).in_bytes()
        if len(known := {key: number for number, key in enumerate(every)}) < count:
            raise ContractError(f"{type(self).__name__}.records() has two records that are equal", "let them differ")
        return [known.get(key, "?") for key in batch.in_bytes()]

    def _shuffled(self, folder: Path, example: Example, **options: Any) -> list[list[int | str]]:
        """Return the order of three shuffled passes."""
        found: list[int | str] = []
        count = self._count()
        with self.feeding(folder, _with(example, self.shuffling()), **options) as fed:
            while len(found) < 3 * count:
                batch = fed.batch()
                found += self._numbers(batch)[: batch.rows]
        return [found[start : start + count] for start in range(0, 3 * count, count)]


@dataclass
class Batch:
    """What a source has fed: the tops, how many rows are real, and how many passes are complete after it."""

    tops: dict[str, np.ndarray]
    rows: int
    epoch: int

    def in_bytes(self) -> list[bytes]:
        """Return the bytes of each row."""
        arrays = [np.ascontiguousarray(array) for array in self.tops.values()]
        return [b"|".join(array[row].tobytes() for array in arrays) for row in range(min(map(len, arrays)))]

    def same_numbers(self, other: Batch) -> bool:
        """Return whether all tops are the same, bit for bit."""
        return all(array.tobytes() == other.tops[top].tobytes() for top, array in self.tops.items())

    def differs(self, other: Batch, *, epochs: bool = True) -> str:
        """Return what is not as in the other batch, bit for bit; "" if all is."""
        for top, array in self.tops.items():
            there = other.tops[top]
            if array.tobytes() != there.tobytes():
                row = next(row for row in range(len(array)) if array[row].tobytes() != there[row].tobytes())
                return f"row {row} of '{top}' is {_brief(array[row])} instead of {_brief(there[row])}"
        if self.rows != other.rows:
            return f"rows is {self.rows} instead of {other.rows}"
        return f"epoch is {self.epoch} instead of {other.epoch}" if epochs and self.epoch != other.epoch else ""


class Feeding:
    """A source at work in a net of its own, iteration by iteration."""

    def __init__(self, layer: Layer, *, phase: Phase = "train", **options: Any) -> None:
        self.layer = layer
        self.net = Net(f"test of {type(layer).__name__}", [layer], phase=phase, **options)
        self.state = cast("SourceState", self.net.node_ops[layer.name].state)

    def batch(self) -> Batch:
        """Feed the next batch, and return it."""
        self.net.feed()
        self.net.advance()
        if self.net.phase == "train":
            self.net.step += 1
        tops = {top: np.array(self.net.blob(top)) for top in tops_of(self.layer)}
        return Batch(tops, self.state.rows, self.state.epoch)


def _with(example: Example, fields: Mapping[str, Any]) -> Example:
    return Example({**example.fields, **fields})


def _listed(numbers: Sequence[Any]) -> str:
    return f"[{', '.join(map(str, numbers[:20]))}{', ...' if len(numbers) > 20 else ''}]"


def _brief(row: np.ndarray) -> str:
    return _listed(row.reshape(-1)[:4].tolist())
