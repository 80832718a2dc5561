"""What every communicator has from its collective calls: how arrays of several ranks come together."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

from nacre.net.division import whole_arrays
from nacre.protocols.communicator import Communicator
from nacre.protocols.part import Cut
from nacre.testing.crew import crew, together

RANKS, NUMBERS = 8, 1 << 18
WHOLE = NUMBERS * 8


class Alone(Communicator):
    """One of several ranks, of which `told` is what they describe; nothing comes from the others."""

    def __init__(self, rank: int, told: list[Any]) -> None:
        self.rank, self.size, self.told = rank, RANKS, told
        self.sent: list[tuple[int, int]] = []

    def gather(self, value: Any) -> list[Any]:
        return self.told

    def bcast(self, array: np.ndarray, root: int = 0) -> None:
        self.sent.append((root, array.nbytes))


def peak(communicator: Communicator, arrays: dict[str, np.ndarray], cuts: dict[str, Cut | None]) -> float:
    """Return how much memory `whole_arrays` asks for at most, as a multiple of the one array of the whole."""
    tracemalloc.start()
    try:
        assert whole_arrays(communicator, arrays, cuts)["w"].nbytes == WHOLE
        return tracemalloc.get_traced_memory()[1] / WHOLE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("rank", [0, 3])
def test_whole_arrays_take_no_more_memory_than_they_have(rank: int) -> None:
    """Every rank had a row as long as the longest for each of them: eleven times the array, of eight ranks."""
    owned = [["w", [NUMBERS], "<f8", None]]
    communicator = Alone(rank, [owned, [], owned, *[[]] * (RANKS - 3)])  # that of the first counts
    arrays: dict[str, np.ndarray] = {} if rank else {"w": np.ones(NUMBERS)}
    assert peak(communicator, arrays, dict.fromkeys(arrays)) < 1.1
    assert communicator.sent == [(0, WHOLE)]


def test_parts_take_the_memory_of_one_besides() -> None:
    part = NUMBERS // RANKS
    cuts = [Cut((NUMBERS,), 0, one * part, (one + 1) * part) for one in range(RANKS)]
    told = [[["w", [part], "<f8", [[NUMBERS], 0, cut.start, cut.stop, 1]]] for cut in cuts]
    communicator = Alone(3, told)
    assert peak(communicator, {"w": np.ones(part)}, {"w": cuts[3]}) < 1 + 2.1 / RANKS
    assert communicator.sent == [(one, part * 8) for one in range(RANKS)]


def test_arrays_of_all_ranks() -> None:
    """Of other shapes and types on each, also without numbers or without a dimension, and none of them the owner's."""
    turned = np.arange(6.0).reshape(2, 3).T

    def given(rank: int) -> dict[str, Any]:
        first = {"turned": turned, "empty": np.zeros((0, 2), "int8"), "number": 3, "true": np.array([True, False])}
        return [first, {}, {"turned": np.arange(2, dtype="complex64")}][rank]

    ranks = crew(3)
    for every in together(ranks, lambda rank: ranks[rank].gather_arrays(given(rank))):
        assert [sorted(one) for one in every] == [sorted(given(rank)) for rank in range(3)]
        for rank, found in enumerate(every):
            for name, array in given(rank).items():
                np.testing.assert_array_equal(found[name], array, strict=True)
                assert not np.shares_memory(found[name], np.asarray(array))
    wanted = together(
        ranks,
        lambda rank: [
            (*one[:2], one[3]) for one in ranks[rank].each_array(given(rank), {"turned": 5}, lambda one, _: one > 0)
        ],
    )
    assert wanted == [[(2, "turned", 5)]] * 3
