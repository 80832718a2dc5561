"""`nacre data mean`."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from command_line import run
from nacre import Net
from nacre_data import DataLayer

Arrays = dict[str, np.ndarray]


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_source_subtracts_it(per_channel: bool, train: Arrays) -> None:
    out = run("data", "mean", "train.h5", "mean.h5", *["--per-channel"] * per_channel).out
    assert out == f"wrote mean.h5: the mean of 60 records, shape {(1,) if per_channel else (1, 2, 4)}\n"
    mean = {"type": "SubMean", "mean_file": "mean.h5"}
    layer = DataLayer(source=("train.h5",), batch_size=60, transformers=[["data", mean]])
    net = Net("t", [layer], backend="numpy", dtype="float64")
    net.feed()
    wanted = train["data"] - train["data"].mean(axis=(0, 2, 3) if per_channel else 0, keepdims=True, dtype=np.float64)
    assert net.blob("data") == pytest.approx(wanted, abs=1e-14)
    net.shutdown()


def test_it_is_of_all_records_of_any_store(train: Arrays) -> None:
    run("data", "convert", "train.h5", "train.stream")
    told = run("data", "mean", "train.stream", "train.h5", "mean.npy", "--json").json
    mean = train["data"].mean(axis=0, dtype=np.float64)
    assert told == {"target": "mean.npy", "records": 120, "shape": [1, 2, 4], "mean": pytest.approx(mean.mean())}
    assert np.load("mean.npy") == pytest.approx(mean, abs=1e-15)
    run("data", "mean", "train.h5", "label.npy", "--field", "label")
    assert np.load("label.npy").tolist() == [1.0]


def test_the_mean_of_bytes_is_exact() -> None:
    pixels = np.full((1000, 1, 2, 2), 255, np.uint8)
    pixels[0] = 0
    np.save("white.npy", pixels)
    run("data", "mean", "white.npy", "mean.h5")
    with h5py.File("mean.h5") as file:
        assert file["mean"].dtype == np.float64
        assert (file["mean"][()] == 255 * 999 / 1000).all()


def test_what_has_no_mean_is_told() -> None:
    np.save("odd.npy", np.array([[1.0], [np.nan]]))
    assert (
        "odd.npy: record 1: 'data' has numbers that are not finite"
        in run("data", "mean", "odd.npy", "mean.h5", code=2).err
    )
    np.save("empty.npy", np.empty((0, 3)))
    assert "empty.npy: there are no records" in run("data", "mean", "empty.npy", "mean.h5", code=2).err
    Path("some.packets").write_bytes(b"123\n45\n")
    error = run("data", "mean", "some.packets", "mean.h5", code=2).err
    assert "some.packets: the records of 'data' have different shapes" in error
    assert "--shape" in error
    run("data", "mean", "some.packets", "mean.h5", "--shape", "1,1,1")
    with h5py.File("mean.h5") as file:
        assert file["mean"][()].tolist() == [[[2.5]]]
    assert "mean.h5: it is there already" in run("data", "mean", "train.h5", "mean.h5", code=2).err
