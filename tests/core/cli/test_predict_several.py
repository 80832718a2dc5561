"""`nacre predict` for a net that reads several blobs."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from command_line import run
from nacre import Net, Snapshot, load_snapshot
from nacre.config import load
from nacre_data import HDF5Store

NET = """
[[layer]]
type = "Input"
name = "a"
tops = ["left"]
shape = [3]
batch_size = 2
[[layer]]
type = "Input"
name = "b"
tops = ["right"]
shape = [2]
batch_size = 2
[[layer]]
type = "Concat"
bottoms = ["left", "right"]
tops = ["both"]
[[layer]]
type = "InnerProduct"
name = "ip"
bottoms = ["both"]
tops = ["y"]
output_dim = 4
"""


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Write a net file, a snapshot and data into the working folder; return what the net says of the data."""
    monkeypatch.chdir(tmp_path)
    Path("net.toml").write_text(NET)
    random = np.random.default_rng(0)
    left, right = random.normal(size=(7, 3)), random.normal(size=(7, 2))
    np.save("left.npy", left)
    np.save("right.npy", right)
    with h5py.File("both.h5", "w") as file:
        file["left"], file["right"] = left, right
    with load("net.toml").net("predict", backend="numpy") as net:
        Path("net.h5").write_bytes(HDF5Store().encode(snapshot_of(net)))
        return np.asarray(net.predict({"left": left, "right": right}, output="y"))


def snapshot_of(net: Net) -> Snapshot:
    arrays = {f"parameters/{name}": one.value for name, one in net.parameters.items()}
    return Snapshot(0, arrays, {"net": net.name, "layers": [], "memory": {}, "aliases": {}})


@pytest.mark.parametrize("inputs", [["left=left.npy", "right=right.npy"], ["both.h5"]])
@pytest.mark.parametrize("size", [[], ["--batch-size", 3]])
def test_each_blob_has_its_file_or_files_have_all(inputs: list[str], size: list[str], answers: np.ndarray) -> None:
    assert load_snapshot("net.h5").arrays
    run("predict", "net.toml", "net.h5", *inputs, *size, "--blob", "y", "--out", "y.npy", "--backend", "numpy")
    assert np.allclose(np.load("y.npy"), answers, atol=1e-6)
    told = run("predict", "net.toml", "net.h5", *inputs, *size, "--json", "--backend", "numpy").json
    assert [one["classes"][0]["class"] for one in told] == answers.argmax(axis=1).tolist()


@pytest.mark.usefixtures("answers")
@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["left=left.npy"], "the net reads left, right, but there is no file for right"),
        (["left=left.npy", "right=short.npy"], "there are fewer records for 'right' than for 'left'"),
        (["left=left.npy", "right=right.npy", "--shape", "3"], "--shape is for nets of one input"),
        (["left=left.npy", "right=no.npy"], "no.npy: no such file"),
    ],
)
def test_what_is_wrong_is_told(inputs: list[str], message: str) -> None:
    np.save("short.npy", np.ones((5, 2)))
    assert message in run("predict", "net.toml", "net.h5", *inputs, code=2).err
