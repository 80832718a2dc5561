"""Names of fields in formats that hold pictures and labels but no names."""

from pathlib import Path

import numpy as np
import pytest

from nacre import Field, Store, open_records
from nacre_data.stores.cifar import CIFAR
from nacre_data.stores.csv import CSV
from nacre_data.stores.idx import IDX
from nacre_data.stores.names import data_and_label, parts_of
from nacre_data.stores.pictures import Pictures
from nacre_data.stores.shard import Shard

PICTURES = np.zeros((4, 3, 32, 32), np.uint8)
LABELS = np.array([3, 1, 0, 2])


@pytest.mark.parametrize(
    ("wanted", "parts"),
    [
        (["image", "kind"], ["data", "label"]),
        (["label", "image"], ["label", "data"]),
        (["kind", "data"], ["label", "data"]),
        (["label", "data"], ["label", "data"]),
        (["data", "kind"], ["data", "label"]),
        (["image"], ["data"]),
        (["label"], ["label"]),
        (["data", "label", "more"], ["data", "label", ""]),
    ],
)
def test_data_and_label_keep_their_parts(wanted: list[str], parts: list[str]) -> None:
    assert parts_of(wanted) == dict(zip(wanted, parts, strict=True))
    if len(wanted) < 3:
        assert data_and_label("a file", wanted) == dict(zip(parts, wanted, strict=True))


def written(store: Store, path: Path) -> Path:
    with store.create(path, {"data": Field((3, 32, 32), "uint8"), "label": Field((), "int64")}) as writer:
        writer.append({"data": PICTURES, "label": LABELS})
    return path


def cifar(folder: Path) -> Path:
    path = folder / "data_batch_1.bin"
    path.write_bytes(
        b"".join(bytes([label]) + picture.tobytes() for label, picture in zip(LABELS, PICTURES, strict=True))
    )
    return path


def listed(folder: Path) -> Path:
    written(Pictures(), folder / "pictures")
    path = folder / "list.txt"
    names = sorted(one.relative_to(folder) for one in folder.rglob("*.png"))
    path.write_text("".join(f"{name} {name.parent.name}\n" for name in names))
    return path


def table(folder: Path) -> Path:
    path = folder / "a.csv"
    path.write_text("length,width,label\n1,2,3\n4,5,1\n")
    return path


FILES = {
    "cifar": (CIFAR(), cifar),
    "idx": (IDX(), lambda folder: written(IDX(), folder / "x-images-idx3-ubyte")),
    "folder": (Pictures(), lambda folder: written(Pictures(), folder / "new")),
    "list": (Pictures(), listed),
    "datum": (Shard(), lambda folder: written(Shard(codec="Datum"), folder / "a.kvfile")),
    "singa": (Shard(), lambda folder: written(Shard(codec="SingleLabelImageRecord"), folder / "a.kvfile")),
    "table": (CSV(), table),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("wanted", [["label", "image"], ["kind", "data"], ["image", "label"], ["label"]])
def test_no_format_takes_pictures_for_labels(name: str, wanted: list[str], tmp_path: Path) -> None:
    store, make = FILES[name]
    with open_records([make(tmp_path)], wanted, store=store) as reader:
        assert sorted(reader.fields) == sorted(wanted)
        for one in wanted:
            field = reader.fields[one]
            assert (field.shape == () and not field.codec) == (one in ("label", "kind"))
