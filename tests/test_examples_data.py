"""The handwritten digits under examples/digits are what NOTICE says they are."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path

import h5py
import numpy as np
import pytest

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits"

# Contents, not files: another HDF5 library may lay out the same arrays differently.
SHA256 = {
    ("train.h5", "data"): "b284d50d1ff250076877f9fa076dc54f7a48937f997c4571de6cae27017f4f99",
    ("train.h5", "label"): "00d355536cfe54c3c5aaa1bbc756008bcc5ba7030407f225954ebda1d1ca46c9",
    ("test.h5", "data"): "cfff6ae4478611800cb91b9d2c5ae329e83dec33ba4d539ec56620f0182f6b56",
    ("test.h5", "label"): "7a7a9acee298b8862700d7c2a0341a0ee3744e1369c9107a26149f5d0e61b304",
}
LABEL_COUNTS = {
    "train.h5": [143, 146, 142, 146, 144, 145, 144, 143, 141, 143],
    "test.h5": [35, 36, 35, 37, 37, 37, 37, 36, 33, 37],
}


def read(name: str) -> dict[str, np.ndarray]:
    with h5py.File(DIGITS / name) as file:
        return {key: file[key][:] for key in file}


@pytest.mark.parametrize(("name", "images"), [("train.h5", 1437), ("test.h5", 360)])
def test_shapes_types_and_labels(name: str, images: int) -> None:
    arrays = read(name)
    assert set(arrays) == {"data", "label"}
    assert (arrays["data"].shape, arrays["data"].dtype) == ((images, 1, 8, 8), np.uint8)
    assert (arrays["label"].shape, arrays["label"].dtype) == ((images,), np.uint8)
    assert (arrays["data"].min(), arrays["data"].max()) == (0, 16)
    assert np.bincount(arrays["label"]).tolist() == LABEL_COUNTS[name]


@pytest.mark.parametrize(("name", "key"), SHA256)
def test_contents(name: str, key: str) -> None:
    assert hashlib.sha256(read(name)[key].tobytes()).hexdigest() == SHA256[name, key]


def test_same_as_scikit_learn() -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn only confirms where the digits come from")
    digits = datasets.load_digits()
    train, test = read("train.h5"), read("test.h5")
    assert np.array_equal(np.concatenate([train["data"], test["data"]])[:, 0], digits.images)
    assert np.array_equal(np.concatenate([train["label"], test["label"]]), digits.target)


def test_the_net_names_files_that_are_there() -> None:
    net = tomllib.loads((DIGITS / "lenet.toml").read_text(encoding="utf-8"))
    sources = {layer["name"]: layer["source"] for layer in net["layer"] if layer["type"] == "HDF5Data"}
    assert sources == {"train": ["train.h5"], "test": ["test.h5"]}
    names = [layer["name"] for layer in net["layer"]]
    assert len(names) == len(set(names))


def test_what_comes_from_others_is_attributed() -> None:
    notice = (DIGITS.parents[1] / "NOTICE").read_text(encoding="utf-8")
    for said in ("Alpaydin", "Kaynak", "10.24432/C50P49", "CC BY 4.0", "train.h5", "test.h5"):
        assert said in notice
