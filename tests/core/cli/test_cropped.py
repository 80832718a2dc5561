"""Records that the source cuts, on the command line: predictions cut out the middle."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from command_line import run
from nacre import load_snapshot
from nacre.config import load

PICTURES = np.random.default_rng(0).integers(0, 256, (12, 1, 6, 8), np.uint8)
NET = """
[[layer]]
type = "HDF5Data"
source = "train.h5"
batch_size = 4
transformers = [
    ["data", { type = "Crop", size = [4, 5] }], ["data", "Mirror"],
    ["data", { type = "SubMean", mean = 100 }], ["data", { type = "Scale", scale = 0.01 }],
]

[[layer]]
type = "InnerProduct"
name = "ip"
bottoms = ["data"]
tops = ["ip"]
output_dim = 3
exclude = []

[[layer]]
type = "SoftmaxLoss"
name = "loss"
bottoms = ["ip", "label"]
exclude = ["predict"]

[solver]
type = "SGD"
max_iter = 3
lr_policy = 0.01

[[callback]]
type = "Snapshot"
every_n_iter = 3
folder = "snapshots"
"""


@pytest.fixture(name="trained")
def trained_(folder: Path) -> Path:
    Path("cut.toml").write_text(NET, encoding="utf-8")
    with h5py.File("train.h5", "w") as file:
        file["data"], file["label"] = PICTURES, np.arange(12) % 3
    run("train", "cut.toml", "--json")
    return folder / "snapshots"


def expected(snapshot: Path) -> np.ndarray:
    """Return the outputs of the pictures' middles by hand."""
    saved = load_snapshot(snapshot)
    weight, bias = (saved.arrays[f"parameters/ip/{name}"] for name in ("weight", "bias"))
    middles = (PICTURES[:, :, 1:5, 1:6].astype(np.float32) - 100) * np.float32(0.01)
    return middles.reshape(12, -1) @ weight.T + bias


@pytest.mark.parametrize("missing", [False, True])
def test_the_middle_is_cut_out_of_records_to_predict(trained: Path, missing: bool) -> None:
    whole, cut = PICTURES, PICTURES[:, :, 1:5, 1:6]
    if missing:
        Path("train.h5").unlink()
    for number, records in enumerate((whole, np.pad(whole, [(0, 0), (0, 0), (1, 1), (2, 2)]), cut)):
        np.save("some.npy", records)
        shape = ["--shape", ",".join(map(str, records.shape[1:]))] if missing and number else []
        run("predict", "cut.toml", trained, "some.npy", "--blob", "ip", "--out", "out.npy", *shape)
        np.testing.assert_allclose(np.load("out.npy"), expected(trained), rtol=1e-5, atol=1e-5)
        if not missing:
            with load("cut.toml").net("train") as net:
                net.parameters.load(load_snapshot(trained))
                np.testing.assert_allclose(net.predict(records, "ip"), expected(trained), rtol=1e-5, atol=1e-5)


def test_records_that_are_too_small(trained: Path) -> None:
    np.save("some.npy", PICTURES[:, :, :4, :4])
    assert run("predict", "cut.toml", trained, "some.npy", code=2).err == (
        "error: some.npy: Crop: size=(4, 5) is larger than the pictures, which have (4, 4) pixels\n"
    )


def test_pictures_are_scaled_to_the_window_or_to_a_record_that_is_cut(trained: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for number, picture in enumerate(PICTURES):
        image.fromarray(picture[0]).save(f"{number}.png")
        image.fromarray(picture[0, 1:5, 1:6]).save(f"cut-{number}.png")
    for prefix, shape in (("", ["--shape", "1,6,8"]), ("cut-", [])):
        names = [f"{prefix}{number}.png" for number in range(12)]
        run("predict", "cut.toml", trained, *names, "--blob", "ip", "--out", "out.npy", *shape)
        np.testing.assert_allclose(np.load("out.npy"), expected(trained), rtol=1e-5, atol=1e-5)
