"""Stores under sources: the same training as from HDF5, and pictures inside records."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import run
from nacre import Field, Net, Solver, Store, open_records
from nacre.config import load
from nacre_data import LMDB, DataLayer, ImageDataLayer, Shard, Tar

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits"
FIELDS = {"data": Field(None, "uint8", codec="Picture"), "label": Field((), "int64", classes=("cat", "dog"))}
HOLDING = {"x.lmdb": LMDB(), "y.lmdb": LMDB(codec="Datum"), "x.kvfile": Shard(), "x.tar": Tar()}


def losses(source: Path, **options: Any) -> list[float]:
    """Train the example of the digits for some iterations; give the loss of each."""
    overrides = ["layer.train.type=Data", f'layer.train.source="{source}"']
    overrides += [f"layer.train.{name}={value}" for name, value in options.items()]
    found: list[float] = []
    with load(DIGITS / "lenet.toml", overrides).net("train", backend="numpy") as net:
        for _ in range(3):
            Solver("SGD", max_iter=1).solve(net)
            found.append(net.forward())
    return found


@pytest.mark.parametrize("cache_bytes", [0, 1 << 28])
def test_the_digits_train_alike_from_every_store(tmp_path: Path, cache_bytes: int) -> None:
    pytest.importorskip("lmdb")
    wanted = losses(DIGITS / "train.h5", cache_bytes=cache_bytes)
    assert len(set(wanted)) == 3
    for name in ("x.npz", "x.csv", "x.jsonl", "x.lmdb", "x.kvfile", "x.shard", "x.tar"):
        run("data", "convert", str(DIGITS / "train.h5"), str(tmp_path / name))
        assert losses(tmp_path / name, cache_bytes=cache_bytes) == wanted, name


def test_the_digits_train_alike_from_folders_of_pictures(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    folder, back = tmp_path / "digits", tmp_path / "back.h5"
    run("data", "convert", str(DIGITS / "train.h5"), str(folder), "--to-store", "Pictures")
    run("data", "convert", str(folder), str(back), "--shape", "1,8,8")  # in the order of the folders
    assert losses(folder, shape="[1, 8, 8]") == losses(back)


def pictures() -> tuple[np.ndarray, list[bytes]]:
    """Return pictures, and PNGs of them."""
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (6, 3, 8, 10), np.uint8)
    encoded: list[bytes] = []
    for one in pixels:
        file = io.BytesIO()
        image.fromarray(np.moveaxis(one, 0, -1).copy()).save(file, "PNG")
        encoded.append(file.getvalue())
    return pixels, encoded


@pytest.mark.parametrize("name", HOLDING)
def test_pictures_in_records_are_decoded_scaled_and_cut(tmp_path: Path, name: str) -> None:
    """`encoded: true` of a Datum was ignored by SINGA."""
    pytest.importorskip("lmdb")
    pixels, encoded = pictures()
    path, store = tmp_path / name, HOLDING[name]
    assert isinstance(store, Store)
    with store.create(path, FIELDS) as writer:
        writer.append({"data": encoded, "label": np.arange(6) % 2})
    with open_records([path], shapes={"data": (3, 8, 10)}) as reader:
        out = {"data": np.empty((6, 3, 8, 10), np.uint8), "label": np.empty(6, np.int64)}
        reader.read(np.arange(6), out)
    np.testing.assert_array_equal(out["data"], pixels)
    assert out["label"].tolist() == [0, 1] * 3
    for layer in (
        DataLayer(source=path, batch_size=6, shape=(3, 8, 10)),
        ImageDataLayer(source=path, store=store, batch_size=6, crop_size=(8, 10)),
    ):
        with Net("pictures", [layer], backend="numpy") as net:
            net.feed()
            np.testing.assert_array_equal(net.blob("data"), pixels)
            assert net.blob("label").tolist() == [0, 1] * 3


@pytest.mark.parametrize("name", HOLDING)
def test_opening_reads_only_the_first_picture(tmp_path: Path, name: str) -> None:
    """Hundreds of large ones would need much memory."""
    pytest.importorskip("lmdb")
    _, (encoded, *_) = pictures()
    large = encoded + bytes(1 << 20)
    with HOLDING[name].create(tmp_path / name, FIELDS) as writer:
        for _ in range(8):
            writer.append({"data": [large] * 8, "label": np.zeros(8)})
    tracemalloc.start()
    with open_records([tmp_path / name]) as reader:
        assert reader.count == 64
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("name", HOLDING)
def test_names_are_kept_and_numbers_are_none(tmp_path: Path, name: str) -> None:
    pytest.importorskip("lmdb")
    fields = {"data": Field((1, 2, 2), "uint8")}
    for keys, found in (([], ["", ""]), (["felix", "rex"], ["felix", "rex"])):
        path = tmp_path / f"{len(keys)}{name}"
        with HOLDING[name].create(path, fields) as writer:
            writer.append({"data": np.zeros((2, 1, 2, 2), np.uint8)}, keys)
        with open_records([path]) as reader:
            assert reader.named == bool(keys)
            assert [reader.key(number).lstrip("0123456789_") for number in (0, 1)] == found


def test_pictures_become_databases_and_archives_by_the_command(tmp_path: Path) -> None:
    pytest.importorskip("lmdb")
    pixels, encoded = pictures()
    for number, one in enumerate(encoded):
        folder = tmp_path / "train" / ("cat", "dog")[number // 3]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.png").write_bytes(one)
    for name in ("x.lmdb", "x.kvfile", "x.tar"):
        run("data", "convert", str(tmp_path / "train"), str(tmp_path / name), "--shape", "3,8,10")
        with open_records([tmp_path / name]) as reader:
            assert reader.fields["label"].classes == ("cat", "dog")
            np.testing.assert_array_equal([row["data"] for row in reader.rows()], pixels)
