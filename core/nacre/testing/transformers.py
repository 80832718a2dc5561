"""TransformerTests: what everything that changes the batches of a source has to do."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import ConfigError, ContractError, DataError
from ..fields.tables import table_of
from ..protocols.components import Blocks, Transformer
from ..protocols.layer import PHASES
from ..random import RecordRandom
from .bench import spoiled
from .close import TOLERANCES, assert_close
from .components import ComponentTests
from .outside import global_state, refusal
from .suite import When, defines, gives, only
from .trial import Example

NAME = "tested/data/0"
AT_ONCE = 4
"""Threads that use one transformer at the same time."""
TURNS = 20
"""Batches that each of them changes."""
REFERENCE = defines("reference")
FITTED = When("transformers with `fit`", lambda suite: suite.component.fit is not Transformer.fit)


@dataclass
class Batch:
    """Records, their numbers in the data and the pass over these, and what transformers draw by."""

    records: np.ndarray
    numbers: Sequence[int]
    epoch: int = 0
    phase: str = "train"
    seed: int = 0
    name: str = NAME

    def random(self) -> RecordRandom:
        """Return the random numbers of these records."""
        random = RecordRandom(self.seed, self.name, lambda: 3)
        random.at(self.numbers, [self.epoch] * len(self.numbers))
        return random


class TransformerTests(ComponentTests):
    """The tests of a transformer.

    An author gives the class, records to try it with, and what it makes of them:

        class TestInvert(TransformerTests):
            component = Invert

            def reference(self, transformer, records, phase):
                return 255 - records

    One that draws random numbers says so; what it draws is not known here, so it needs no reference.

    Attributes:
        component: the class.
        dtypes: the types of blobs it works in.
        is_random: whether it draws random numbers in phase `train`.
        wrong_shapes: shapes of records that `shape_of` must refuse.
    """

    BASE = Transformer
    is_random: ClassVar[bool] = False
    wrong_shapes: ClassVar[Sequence[tuple[int, ...]]] = ()

    def records(self, example: Example) -> np.ndarray:
        """Return at least 7 records, as they are stored; by default pictures (3, 6, 6) of bytes."""
        return np.random.default_rng(0).integers(0, 256, (8, 3, 6, 6)).astype(np.uint8)

    def reference(self, transformer: Any, records: np.ndarray, phase: str) -> np.ndarray:
        """Return what it makes of float64 records, computed naively; the transformer is fitted to them if need be."""
        raise ContractError(f"{type(self).__name__} does not define reference()")

    @classmethod
    def check_subject(cls) -> None:
        super().check_subject()
        if not (REFERENCE.holds(cls) or cls.is_random):
            raise ContractError(
                f"{cls.__name__} has no reference()", "define it, or say is_random = True if random numbers are drawn"
            )

    def make_fitted(self, example: Example) -> Any:
        """Make the transformer of an example, fitted to its records if it has to be."""
        made = self.make_component(example)
        return made.with_fitted(made.fit(self._blocks(example, 3))) if made.needs_fit else made

    # What it makes of records

    @only(REFERENCE)
    def test_reference(self, dtype: str, example: Example) -> None:
        """Every number is what the reference says, in all phases."""
        made, records = self.make_fitted(example), self.records(example)
        for phase in PHASES:
            expected = np.asarray(self.reference(made, records.astype(np.float64), phase))
            for given in (records, records.astype(dtype)):
                found = self.changed(made, _batch(given, phase=phase), dtype)
                assert_close(found, expected, f"phase {phase}, records of type {given.dtype}", TOLERANCES[dtype])

    def test_everything_is_written(self, dtype: str, example: Example) -> None:
        """`transform_into` writes every number of `out`, whose shape is what `shape_of` says."""
        made, batch = self.make_fitted(example), _batch(self.records(example))
        first, second = (self.changed(made, batch, dtype, before=before) for before in (np.nan, 7))
        assert_close(first, second, "what is made, where `out` held NaN instead of 7", 0.0)

    def test_records_are_left_alone(self, dtype: str, example: Example) -> None:
        """`transform_into` does not change the records that it is given."""
        made, records = self.make_fitted(example), self.records(example)
        for phase in PHASES:
            for given in (records, records.astype(dtype)):
                batch = _batch(given, phase=phase)
                self.changed(made, batch, dtype)
                same = batch.records.tobytes() == given.tobytes()
                assert same, f"phase {phase}: it changes the records that it is given (type {given.dtype})"

    def test_in_place(self, dtype: str, example: Example) -> None:
        """Where shape and type stay, `transform` makes in place what `transform_into` writes elsewhere."""
        made, records = self.make_fitted(example), self.records(example).astype(dtype)
        if made.shape_of(records.shape[1:]) != records.shape[1:]:
            return
        for phase in PHASES:
            wanted, here = self.changed(made, _batch(records, phase=phase), dtype), records.copy()
            made.transform(here, _batch(records).random(), phase)
            assert_close(here, wanted, f"phase {phase}: what transform() makes", 0.0)

    def test_given_type(self, dtype: str, example: Example) -> None:
        """Records as they are stored become what the same numbers in the blob's type become."""
        made, records = self.make_fitted(example), self.records(example)
        found = self.changed(made, _batch(records), dtype)
        wanted = self.changed(made, _batch(records.astype(dtype)), dtype)
        assert_close(found, wanted, f"of records of type {records.dtype}", TOLERANCES[dtype])

    @only(When("transformers with `keeps_type`", lambda suite: suite.component.keeps_type))
    def test_stored_type(self, example: Example) -> None:
        """With `keeps_type` it works in the type of the records, too, to one unit of it."""
        made, records = self.make_fitted(example), self.records(example)
        kind = records.dtype
        found = self.changed(made, _batch(records), str(kind)).astype(np.float64)
        wanted = self.changed(made, _batch(records), "float64")
        if kind.kind in "iu":
            wanted = np.clip(wanted, np.iinfo(kind).min, np.iinfo(kind).max)
        off = np.abs(found - wanted).max()
        assert off <= 1, f"records of type {kind} are changed in this type with numbers that are off by up to {off:.3g}"

    @only(gives("wrong_shapes"))
    def test_wrong_shapes(self, example: Example) -> None:
        """`shape_of` refuses records that do not fit, by a ConfigError or DataError that names the shape."""
        made = self.make_component(example)
        for shape in self.wrong_shapes:
            told = refusal((ConfigError, DataError), lambda shape=shape: made.shape_of(shape))
            assert told, f"records of shape {shape} are accepted"
            named = str(shape) in told or any(str(length) in told for length in shape)
            assert named, f"the error does not name the shape {shape}: {told}"

    # By whom it is used

    def test_batches(self, dtype: str, example: Example) -> None:
        """What a record becomes does not depend on the other records of its batch, nor on its place there."""
        made, records = self.make_fitted(example), self.records(example)
        for phase in PHASES[:2]:
            whole = self.changed(made, _batch(records, phase=phase), dtype)
            for numbers in (range(3), range(3, len(records)), range(len(records) - 1, -1, -1)):
                found = self.changed(made, _batch(records, numbers, phase=phase), dtype)
                what = f"phase {phase}: the records {list(numbers)} in a batch of their own"
                assert_close(found, whole[list(numbers)], what, TOLERANCES[dtype])

    @only(When("transformers with `by_record`", lambda suite: suite.component.by_record))
    def test_by_record(self, dtype: str, example: Example) -> None:
        """With `by_record` it draws no random numbers, so that parts of a batch can be handed over."""
        made, batch = self.make_fitted(example), _batch(self.records(example))
        out = np.zeros((len(batch.records), *made.shape_of(batch.records.shape[1:])), dtype)
        try:
            made.transform_into(batch.records, out, None, "train")
        except AttributeError as error:
            raise AssertionError(f"by_record is declared, but it draws random numbers ({error})") from error

    def test_random_numbers(self, dtype: str, example: Example) -> None:
        """In phase `train` other seeds, passes and names give other numbers if, and only if, the tests say `is_random`.

        In the other phases nothing is drawn.
        """
        made, records = self.make_fitted(example), self.records(example)
        others: dict[str, Mapping[str, Any]] = {"seed": {"seed": 1}, "pass": {"epoch": 1}, "name": {"name": "other"}}
        for phase in PHASES:
            first = self.changed(made, _batch(records, phase=phase), dtype)
            again = self.changed(made, _batch(records, phase=phase), dtype)
            assert_close(again, first, f"phase {phase}: the same records, the second time", 0.0)
            for what, options in others.items():
                same = np.array_equal(self.changed(made, _batch(records, phase=phase, **options), dtype), first)
                if self.is_random and phase == "train":
                    assert not same, f"another {what} changes nothing, but is_random is declared"
                else:
                    assert same, f"phase {phase}: another {what} gives other numbers" + (
                        "" if self.is_random else ": say is_random = True in the class of tests"
                    )

    def test_global_state(self, example: Example) -> None:
        """It neither reads nor changes the random numbers of `numpy.random` and `random`, nor NumPy's settings."""
        found: list[np.ndarray] = []
        for seed in (1, 2):
            with global_state(seed):
                found.append(self.changed(self.make_fitted(example), _batch(self.records(example)), self.dtypes[0]))
        same = np.array_equal(found[0], found[1])
        assert same, "what it makes depends on the global random numbers: draw from the `random` that it gets"

    def test_several_at_once(self, example: Example) -> None:
        """One transformer serves several nets at once, each in a thread of its own, and batches of any size in turn."""
        made, records, dtype = self.make_fitted(example), self.records(example), self.dtypes[-1]
        batches = [_batch(records, range(start, len(records))) for start in range(AT_ONCE)]
        wanted = [self.changed(self.make_fitted(example), batch, dtype) for batch in batches]
        wrong: list[str] = []

        def work(first: int) -> None:
            for turn in range(first, first + TURNS):
                try:
                    found = self.changed(made, batches[turn % AT_ONCE], dtype)
                    assert_close(found, wanted[turn % AT_ONCE], "what is made beside others", 0.0)
                except Exception as error:
                    wrong.append(f"{type(error).__name__}: {error}")

        for first in range(AT_ONCE):
            work(first)
        assert not wrong, f"of batches of several sizes in turn: {wrong[0]}"
        threads = [threading.Thread(target=work, args=(first,)) for first in range(AT_ONCE)]
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(before)
        assert not wrong, f"in {AT_ONCE} threads at once: {wrong[0]}: keep nothing of a batch in the transformer"

    def test_made_again(self, dtype: str, example: Example) -> None:
        """What is made of its table, as in processes that read, changes records in the same way."""
        made, batch = self.make_fitted(example), _batch(self.records(example))
        table = json.loads(json.dumps(table_of(self.make_component(example))))
        again = type(made)(**{name: value for name, value in table.items() if name != "type"})
        if made.needs_fit:
            again = again.with_fitted(again.fit(self._blocks(example, 3)))
        what = f"what is made by the transformer of the table {table}"
        assert_close(self.changed(again, batch, dtype), self.changed(made, batch, dtype), what, 0.0)

    # What it is fitted to

    @only(FITTED)
    def test_fit(self, dtype: str, example: Example) -> None:
        """What `fit` returns can be kept in a snapshot, and what comes back from there serves as well."""
        made, batch = self.make_component(example), _batch(self.records(example))
        fitted: Mapping[str, Any] = made.fit(self._blocks(example, 3))
        assert hasattr(fitted, "items"), f"fit() returns a {type(fitted).__name__} instead of a dict"
        kept = _kept(fitted)
        wanted = self.changed(made.with_fitted(fitted), batch, dtype)
        again = self.make_component(example).with_fitted(kept)
        assert_close(self.changed(again, batch, dtype), wanted, "fitted by what a snapshot kept", 0.0)

    @only(FITTED)
    def test_fit_blocks(self, example: Example) -> None:
        """What is learned does not depend on the size of the blocks, nor on what was fitted before."""
        made = self.make_component(example)
        first = _kept(made.fit(self._blocks(example, 3)))
        for size in (1, 100, 3):
            found = _kept(made.fit(self._blocks(example, size)))
            assert set(found) == set(first), f"in blocks of {size} it learns {sorted(found)} instead of {sorted(first)}"
            for key, value in found.items():
                if isinstance(value, np.ndarray):
                    assert_close(value, first[key], f"'{key}', in blocks of {size}", 1e-12)
                else:
                    assert value == first[key], f"'{key}' is {value!r}, in blocks of {size}, instead of {first[key]!r}"

    @only(FITTED)
    def test_fit_leaves_records_alone(self, example: Example) -> None:
        """`fit` does not change the blocks."""
        records = self.records(example).astype(np.float64)
        before = records.copy()
        self.make_component(example).fit(_blocks(records, 3))
        assert np.array_equal(records, before, equal_nan=True), "fit() changes the records that it reads"

    @only(FITTED)
    def test_fit_is_needed(self, example: Example) -> None:
        """Without what it was fitted to, or with that of other records, it raises a DataError, not another error."""
        made, records = self.make_component(example), self.records(example)
        if not made.needs_fit:
            return
        other = self.make_component(example)
        for what, tried in (("not fitted", made), ("fitted to nothing", other.with_fitted({}))):
            try:
                self.changed(tried, _batch(records), self.dtypes[0])
            except DataError:
                continue
            except Exception as error:
                told = f"{type(error).__name__}: {error}"
                raise AssertionError(f"{what}, it raises {told}: use fitted_array()") from error
            raise AssertionError(f"{what}, it raises no DataError")

    @only(FITTED)
    def test_fit_of_equal_records(self, dtype: str, example: Example) -> None:
        """Fitted to records that are all the same, or to a single one, it gives finite numbers, or refuses them."""
        made, records = self.make_component(example), self.records(example)
        for same in (np.repeat(records[:1], 5, axis=0), records[:1]):
            try:
                fitted = made.with_fitted(made.fit(_blocks(same.astype(np.float64), 3)))
                found = self.changed(fitted, _batch(same), dtype)
            except DataError:
                continue
            assert np.isfinite(found).all(), f"fitted to {len(same)} equal records it gives a number that is not finite"

    # How it is checked

    def changed(self, made: Any, batch: Batch, dtype: str, *, before: float = np.nan) -> np.ndarray:
        """Return what a transformer makes of a batch, in a type; `before` is what the memory held."""
        shape = (len(batch.records), *made.shape_of(batch.records.shape[1:]))
        out = spoiled(shape, dtype, before)
        made.transform_into(batch.records, out, batch.random(), batch.phase)
        return out

    def _blocks(self, example: Example, size: int) -> Blocks:
        return _blocks(self.records(example).astype(np.float64), size)


def _blocks(records: np.ndarray, size: int) -> Blocks:
    def read() -> Iterator[np.ndarray]:
        yield from (records[start : start + size] for start in range(0, len(records), size))

    reading: Callable[[], Iterator[np.ndarray]] = read
    return Blocks(len(records), records.shape[1:], (), reading)


def _batch(records: np.ndarray, numbers: Sequence[int] | None = None, **options: Any) -> Batch:
    numbers = range(len(records)) if numbers is None else numbers
    return Batch(records[list(numbers)], list(numbers), **options)


def _kept(fitted: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was learned as it comes back from a snapshot."""
    kept: dict[str, Any] = {}
    for key, value in fitted.items():
        if hasattr(value, "dtype"):
            array: np.ndarray = np.array(value)
            finite = array.dtype.kind in "biu" or (array.dtype.kind == "f" and bool(np.isfinite(array).all()))
            assert finite, f"fit() returns '{key}', an array of {array.dtype} that a snapshot cannot hold: not finite"
            kept[key] = array
            continue
        try:
            kept[key] = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise AssertionError(f"fit() returns '{key}' of type {type(value).__name__}: {error}") from error
    return kept
