"""SourceTests pass a source that keeps its promises, and find every one that is broken."""

import os
import threading
from typing import Annotated, Any

import numpy as np
import pytest

from nacre import ConfigError, ContractError, DataError, Layer, Names, SourceState, default, positive
from nacre.random import Random
from nacre.testing import SourceTests as SourceSuite
from nacre.testing.trial import Example
from run_suite import besides, failures, kit_tests, one_or_all

DATA = np.arange(14.0).reshape(7, 2)


class SevenState(SourceState):
    """Seven records, on any number of ranks."""

    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob((layer.batch_size, 2)), backend.blob((layer.batch_size,), "int64")]
        self.trains = backend.phase == "train"
        self.check()
        self.position = 0

    def together(self):
        """Return how many records all ranks have in a batch."""
        return self.backend.joined(self.layer.batch_size)[1]

    def check(self):
        if self.trains and self.together() > 7:
            raise DataError(f"{self.layer.name}: batch_size={self.layer.batch_size}, but there are 7 records")

    def order(self, epoch):
        if not self.layer.shuffle:
            return list(range(7))
        return Random(self.backend.seed, self.layer.name, lambda: epoch).generator().permutation(7).tolist()

    def chosen(self):
        """Return the next records of all ranks, each with its pass."""
        found = []
        while len(found) < self.together():
            found.append((self.order(self.epoch)[self.position], self.epoch))
            self.position += 1
            if self.position == 7:
                self.position, self.epoch = 0, self.epoch + 1
                if not self.trains:
                    break
        return found

    def forward(self, inputs):
        every, size = self.chosen(), self.layer.batch_size
        mine = every[self.backend.joined(size)[0] :][:size]
        self.rows = len(mine)
        self.write(mine + [self.filling(every)] * (size - len(mine)))

    def filling(self, every):
        return every[-1]

    def write(self, mine):
        for row, (record, _) in enumerate(mine):
            self.blobs[0][row], self.blobs[1][row] = DATA[record], record
        records, passes = zip(*mine, strict=True)
        self.numbers = np.array(records), np.array(passes)

    def keys(self, numbers):
        return [f"the {number}th" for number in numbers]

    def rewind(self):
        self.position = 0

    def memory(self):
        return {"position": self.position, "epoch": self.epoch}

    def remember(self, memory):
        self.position, self.epoch = int(memory["position"]), int(memory["epoch"])


class SevenLayer(Layer, is_source=True):
    """Feed seven records."""

    tops: Names = default(("data", "label"))
    batch_size: Annotated[int, positive] = 3
    shuffle: bool = False
    state: Any = SevenState

    def setup(self, backend, inputs, diffs):
        return self.state(self, backend, inputs, diffs)


class Seven(SourceSuite):
    layer = SevenLayer
    state = SevenState

    def write(self, folder):
        return {"state": self.state}

    def records(self):
        return {"data": DATA, "label": np.arange(7)}


def test_a_source_that_keeps_its_promises_passes():
    assert failures(Seven) == {}


# Sources that break one promise each

BROKEN = {}


def broken(check, words):
    """Note a state that must be found out by this check, in these words."""

    def note(state):
        BROKEN[state.__name__] = (state, f"test_{check}", words)
        return state

    return note


@broken("blobs", "a blob is of type float32 in a net of type float64")
class HasATypeOfItsOwn(SevenState):
    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.blobs[0] = backend.blob((layer.batch_size, 2), "float32")


@broken("blobs_are_written", "row . of 'data' is .*, where the blobs held other numbers before")
class WritesOnlyRealRows(SevenState):
    def write(self, mine):
        super().write(mine[: self.rows])


@broken("order", r"phase validation, batch 0: the records \[6, 5, 4\] instead of \[0, 1, 2\]")
class IsReversedOutsideOfTraining(SevenState):
    def order(self, epoch):
        order = super().order(epoch)
        return order if self.trains else order[::-1]


@broken("order", r"the records \[\?, \?, \?\] instead of \[0, 1, 2\]")
class MixesUpDataAndLabels(SevenState):
    def write(self, mine):
        super().write(mine)
        self.blobs[1][:] = (self.blobs[1] + 1) % 7


@broken("rows", "phase validation, batch 2: rows is 3 instead of 1")
class CountsTheFilling(SevenState):
    def forward(self, inputs):
        super().forward(inputs)
        self.rows = self.layer.batch_size


@broken("last_batch", r"phase validation, batch 2: rows 1 to 2 do not count, and hold the records \[0, 0\]")
class FillsUpWithTheFirst(SevenState):
    def filling(self, every):
        return (0, every[-1][1])


@broken("end_of_pass", "phase train: epoch is 0 after batch 2, instead of 1")
class NoticesTheEndTooLate(SevenState):
    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.real = 0

    def chosen(self):
        self.epoch = self.real
        found = super().chosen()
        self.epoch, self.real = (self.epoch, self.epoch) if self.epoch == self.real else (self.real, self.epoch)
        return found

    def memory(self):
        return {"position": self.position, "epoch": self.epoch, "real": self.real}

    def remember(self, memory):
        super().remember(memory)
        self.real = int(memory["real"])


@broken("small_data", "in phase train a batch of 9 is accepted for 7 records")
class TakesAnyBatch(SevenState):
    def check(self):
        pass


@broken("small_data", "the error does not name the layer 'tested': too large")
class SaysNotWho(SevenState):
    def check(self):
        if self.trains and self.layer.batch_size > 7:
            raise DataError("too large")


@broken("rewind", "phase train, rewound after 1 batches: batch 0 is not that of a pass")
class StaysWhereItIs(SevenState):
    def rewind(self):
        pass


@broken("shuffled_passes", "shuffled pass 1 has the same order as one before")
class ShufflesOnce(SevenState):
    def order(self, epoch):
        return super().order(0)


@broken("shuffled_passes", "instead of each once")
class DrawsWithRepetition(SevenState):
    def order(self, epoch):
        order = super().order(epoch)
        return [order[0], *order[:-1]] if self.layer.shuffle else order


@broken("order_of_shuffle", "with another seed the shuffled order is the same")
class ForgetsTheSeed(SevenState):
    def order(self, epoch):
        random = Random(0, self.layer.name, lambda: epoch).generator()
        return random.permutation(7).tolist() if self.layer.shuffle else super().order(epoch)


@broken("order_of_shuffle", "with another layer name the shuffled order is the same")
class ForgetsItsName(SevenState):
    def order(self, epoch):
        random = Random(self.backend.seed, "mine", lambda: epoch).generator()
        return random.permutation(7).tolist() if self.layer.shuffle else super().order(epoch)


@broken("resume", "^resumed after 1 batches: batch 1 differs: row 0 of 'data' is")
class ForgetsItsPosition(SevenState):
    def memory(self):
        return {"position": 0, "epoch": self.epoch}


@broken("resume", "^shuffled, resumed after 3 batches: batch 3 differs")
class OrdersByItsOwnCount(SevenState):
    """The order goes by the passes since the start, which no memory knows."""

    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.first = 0

    def order(self, epoch):
        return super().order(epoch - self.first)

    def remember(self, memory):
        super().remember(memory)
        self.first = self.epoch


@broken("memory", r"memory\['position'\] is changed by the next batch: return a copy")
class GivesItsOwnArray(SevenState):
    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.place = np.zeros(1)

    def forward(self, inputs):
        super().forward(inputs)
        self.place[0] = self.position

    def memory(self):
        return {"position": self.place, "epoch": self.epoch}

    def remember(self, memory):
        self.place[...] = memory["position"]
        self.position, self.epoch = int(self.place[0]), int(memory["epoch"])


@broken("memory", r"memory\['all'\] is of type dict, but a snapshot holds arrays, numbers and texts")
class GivesADict(SevenState):
    def memory(self):
        return {"all": super().memory()}

    def remember(self, memory):
        super().remember(memory["all"])


@broken("ranks", "2 ranks do not have together what one rank has in a batch of 4")
class IsTheSameOnEachRank(SevenState):
    def chosen(self):
        whole = self.layer.batch_size
        found = super().chosen()
        return found[:whole] * self.backend.ranks


@broken("ranks", r"3 ranks do not have together what one rank has in a batch of 5: .* backend.joined\(rows\)")
class TakesItsRowsByRank(SevenState):
    """It takes its rows as if all ranks had as many."""

    def forward(self, inputs):
        every, size = self.chosen(), self.layer.batch_size
        mine = every[size * self.backend.rank :][:size]
        self.rows = len(mine)
        self.write(mine + [self.filling(every)] * (size - len(mine)))


class NeverAsks(TakesItsRowsByRank):
    """It does not ask `joined` for anything: its ranks have wrong rows where their parts are not equally long."""

    def together(self):
        return self.layer.batch_size * self.backend.ranks


@broken("keys", "two records have one key")
class HasOneKey(SevenState):
    def keys(self, numbers):
        return ["a record" for _ in numbers]


@broken("keys", "batch 0: numbers says")
class CountsFromOne(SevenState):
    def write(self, mine):
        super().write(mine)
        assert self.numbers is not None
        self.numbers = self.numbers[0] + 1, self.numbers[1]


@broken("two_nets", "phase validation: batch 0 is another one beside a second net")
class SharesItsPlace(SevenState):
    """A position of the layer, as a file that both nets read would have."""

    def chosen(self):
        places = PLACES.setdefault(id(self.layer), [self.position])
        self.position = places[0]
        found = super().chosen()
        places[0] = self.position
        return found

    def shutdown(self):
        PLACES.clear()

    def rewind(self):
        super().rewind()
        PLACES[id(self.layer)] = [0]

    def remember(self, memory):
        super().remember(memory)
        PLACES[id(self.layer)] = [self.position]


PLACES: dict[int, list[int]] = {}


@broken("global_state", "the state of the global random numbers has changed")
class DrawsFromNumpy(SevenState):
    def order(self, epoch):
        np.random.random()  # noqa: NPY002
        return super().order(epoch)


@broken("global_state", "batch 0 depends on the global random numbers")
class ReadsNumpysState(SevenState):
    def order(self, epoch):
        order = super().order(epoch)
        state: Any = np.random.get_state()  # noqa: NPY002
        return np.roll(order, int(state[1][0])).tolist() if self.layer.shuffle else order


@broken("shutdown", "after 0 batches and shutdown 1 more files are open than before")
class LeavesAFileOpen(SevenState):
    def ready(self):
        self.file = os.open(os.devnull, os.O_RDONLY)

    def __del__(self):  # so that this test leaves none open
        if hasattr(self, "file"):
            os.close(self.file)


@broken("shutdown", "a thread is still there: .*reader")
class LeavesAThread(SevenState):
    def ready(self):
        self.end = threading.Event()
        threading.Thread(target=self.end.wait, name="reader", daemon=True).start()

    def __del__(self):
        if hasattr(self, "end"):
            self.end.set()


@broken("growth", "100 batches more, and .* bytes more are in use: what is kept of each batch")
class KeepsEverything(SevenState):
    def forward(self, inputs):
        super().forward(inputs)
        self.kept = [*getattr(self, "kept", ()), self.blobs[0].copy()]


@one_or_all
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_found_by_its_check(name, every, monkeypatch):
    state, check, words = BROKEN[name]
    monkeypatch.setattr("nacre.testing.outside.LATE", 0.05)

    class Suite(Seven):
        pass

    Suite.state = state
    found = failures(Suite, dtypes=["float64"], without=besides(Suite, check, every, ["test_growth"]))
    assert check in found, f"{name} is not found by {check}, but by {found}"
    with pytest.raises(AssertionError, match=words):
        raise found[check]
    assert len(found) <= 4, f"{name} is found by {sorted(found)}"


def test_a_source_that_never_asks_for_its_rows_is_refused():
    class Suite(Seven):
        state = NeverAsks

    found = failures(Suite, dtypes=["float64"], without=kit_tests(Suite) - {"test_ranks"})["test_ranks"]
    assert isinstance(found, ConfigError)
    assert "does not ask which rows of a batch are this rank's" in str(found)


# Suites that are wrong themselves


def test_a_suite_that_is_written_otherwise_is_told(tmp_path):
    with pytest.raises(ContractError, match=r"Some\.records is \{'x': \[1\]\}, but it must be a method") as caught:
        type("Some", (Seven,), {"records": {"x": [1]}})
    assert caught.value.remedy == "write def records(self): return ..."
    with pytest.raises(ContractError, match=r"Some\.write is \{\}") as caught:
        type("Some", (Seven,), {"write": {}})
    assert caught.value.remedy == "write def write(self, folder): return ..."
    suite = type("Some", (Seven,), {"write": lambda self, folder: None})
    with pytest.raises(ContractError, match=r"Some\.write\(\) returns None, but it must be the fields") as caught:
        suite().make_in(tmp_path, Example())
    assert caught.value.remedy.startswith('end it with return {"source": folder / "..."')


def test_records_that_cannot_be_told_apart_are_told():
    class Few(Seven):
        def records(self):
            return {"data": DATA[:5], "label": np.arange(5)}

    class Equal(Seven):
        def records(self):
            return {"data": 0 * DATA, "label": np.zeros(7)}

    class Other(Seven):
        def records(self):
            return {"x": DATA}

    for suite, words in (
        (Few, "gives 5 records"),
        (Equal, "two records that are equal"),
        (Other, "has x, but the top"),
    ):
        found = failures(suite, dtypes=["float64"], without=kit_tests(suite) - {"test_order"})["test_order"]
        assert isinstance(found, ContractError)
        assert words in str(found)


def test_checks_that_do_not_apply_do_not_exist():
    class Endless(SourceSuite):
        layer = SevenLayer
        endless = True

    class Untold(SourceSuite):
        layer = SevenLayer

    assert Endless.test_order is None
    assert Endless.test_rewind is None
    assert Untold.test_order is None
    assert Untold.test_endless is None
    assert callable(Untold.test_rewind)


@pytest.mark.parametrize("count", [6, 7, 9, 12, 60])
def test_the_last_batch_of_a_pass_is_not_full(count):
    suite = type("Some", (Seven,), {"records": lambda self: {"data": np.arange(count)}})()
    rows = [real for _, (_, real, _) in suite._expected("validation")]
    assert min(rows) < max(rows) == suite._batch() < count
