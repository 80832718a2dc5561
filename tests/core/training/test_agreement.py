"""Whether the ranks of a training train the same, and what may differ between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import Net, RankError, Solver
from nacre.testing.crew import crew, own_backend, together
from nacre.training.agreement import contents_of
from nacre_data import IterableDataLayer, MemoryDataLayer, NumpyDataLayer
from nacre_layers import GRULayer, InnerProductLayer, LSTMLayer, RNNLayer, SoftmaxLossLayer, SquareLossLayer
from nacre_parallel import AllReduce


def losses(layers: Callable[[], list[Any]], size: int) -> list[list[float]]:
    """Return the losses that each rank has, each with layers of its own."""
    ranks = crew(size)

    def train(rank: int) -> list[float]:
        given = AllReduce().layers(layers(), ranks[rank])
        options: dict[str, Any] = {"dtype": "float64", "backend": own_backend("numpy")}
        with Net("net", given, communicator=ranks[rank], **options) as net:
            training = Solver("SGD", lr_policy=0.1, framework=AllReduce()).start(net)
            found: list[float] = []
            for _ in range(4):
                training.step()
                found.append(training.loss)
            return found

    return together(ranks, train)


@pytest.mark.parametrize("kind", [LSTMLayer, GRULayer, RNNLayer])
def test_a_kernel_may_decline_the_rows_of_one_rank(kind: Any) -> None:
    def layers() -> list[Any]:
        random = np.random.default_rng(3)
        x, labels = random.normal(size=(20, 4, 3)), random.integers(0, 2, 20)
        return [
            MemoryDataLayer(name="data", tops=["x", "label"], data=[x, labels], batch_size=5),
            kind(name="rec", bottoms=["x"], tops=["h"], output_dim=6),
            InnerProductLayer(name="score", bottoms=["h"], tops=["score"], output_dim=2),
            SoftmaxLossLayer(name="loss", bottoms=["score", "label"]),
        ]

    assert np.abs(np.subtract(losses(layers, 3), losses(layers, 1)[0])).max() < 1e-10


class Dataset:
    def __len__(self) -> int:
        return 40

    def __getitem__(self, number: int) -> dict[str, Any]:
        x = np.random.default_rng(number).normal(size=4)
        return {"x": x, "label": int(x[0] > 0)}


def from_python(data: Any) -> list[Any]:
    return [
        IterableDataLayer(name="data", data=data, tops=["x", "label"], batch_size=8),
        InnerProductLayer(name="score", bottoms=["x"], tops=["score"], output_dim=2),
        SoftmaxLossLayer(name="loss", bottoms=["score", "label"]),
    ]


def test_the_data_of_each_rank_may_be_an_object_of_its_own() -> None:
    def layers() -> list[Any]:
        return from_python(Dataset())

    def of_a_function() -> list[Any]:
        def records() -> Iterator[Any]:
            return map(Dataset().__getitem__, range(40))

        return from_python(records)

    alone = losses(layers, 1)[0]
    for made in (layers, of_a_function):
        assert np.abs(np.subtract(losses(made, 2), alone)).max() < 1e-10


@pytest.mark.parametrize("place", [0, -1])
def test_arrays_of_other_numbers_are_refused(place: int) -> None:
    def layers() -> list[Any]:
        x = np.zeros((400_000, 2))
        x[place, 1] = next(numbers)
        return [
            MemoryDataLayer(name="data", tops=["x"], data=[x], batch_size=8),
            InnerProductLayer(name="y", bottoms=["x"], tops=["y"], output_dim=2),
            SquareLossLayer(name="loss", bottoms=["y", "x"]),
        ]

    numbers = iter([1, 1])
    assert len(losses(layers, 2)) == 2
    numbers = iter([1, 2])
    with pytest.raises(RankError, match="contents of the data of layer 'data': checksums of arrays is "):
        losses(layers, 2)


@pytest.mark.parametrize("rows", [(40, 41), (40, 40), (400_000, 400_000)])
@pytest.mark.parametrize("place", [0, -1])
def test_files_of_other_bytes_are_refused(tmp_path: Path, rows: tuple[int, int], place: int) -> None:
    """Such as one that a machine has only begun to copy, or that is older there."""
    paths = [tmp_path / "a/x.npy", tmp_path / "b/x.npy"]
    for number, (count, path) in enumerate(zip(rows, paths, strict=True)):
        path.parent.mkdir()
        values = np.zeros((count, 2))
        values[place] = number
        np.save(path, values)
    found = [contents_of(NumpyDataLayer(name="data", tops=["x"], source=[str(path)], batch_size=8)) for path in paths]
    assert [one["bytes of files"] for one in found] == [[path.stat().st_size] for path in paths]
    assert found[0]["checksums of files"] != found[1]["checksums of files"]
    assert contents_of(NumpyDataLayer(name="data", tops=["x"], source=[str(paths[0])], batch_size=8)) == found[0]


def test_data_of_another_name_are_refused() -> None:
    class Others(Dataset):
        pass

    every = iter([Dataset(), Others()])
    with pytest.raises(RankError, match=r"the ranks do not train the same: layer 'data': data is '<.*Dataset object>'"):
        losses(lambda: from_python(next(every)), 2)
