"""The errors of sources, transformers and files of records, as a person reads them."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from nacre import Net, load_snapshot
from nacre_data import (
    AsyncHDF5DataLayer,
    CharTextLayer,
    HDF5DataLayer,
    HDF5OutputLayer,
    MemoryDataLayer,
    RandomNormalLayer,
    RandomShift,
    SubMean,
)
from provoked import Message, check_message
from record_files import read_records


def hdf5(layer: Any = HDF5DataLayer, **arrays: Any) -> Any:
    """Return a net whose source reads these arrays from an HDF5 file."""
    with h5py.File("train.h5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return Net("small", [layer(name="train", source="train.h5", batch_size=2)])


def source(name: str, content: bytes) -> Any:
    """Return a net whose source reads a file."""
    Path(name).write_bytes(content)
    return Net("small", [HDF5DataLayer(name="train", source=name, batch_size=2)])


def memory(*arrays: Any, **fields: Any) -> Any:
    return Net("small", [MemoryDataLayer(name="train", data=list(arrays), **{"batch_size": 2, **fields})])


def read(name: str, content: bytes, shape: tuple[int, ...] | None = None) -> Any:
    """Read the records of a file."""
    Path(name).write_bytes(content)
    return read_records(Path(name), shape=shape)


def text(content: bytes, phase: Any = "train", **fields: Any) -> Any:
    """Return a net whose source reads a text."""
    Path("a.txt").write_bytes(content)
    layer = CharTextLayer(name="text", source="a.txt", **{"batch_size": 2, "steps": 3, **fields})
    return Net("small", [layer], phase=phase)


def transformed(transformer: Any, *shape: int) -> Any:
    with memory(np.ones((2, *shape)), tops="data", transformers=[["data", transformer]]) as net:
        return net.forward()


def written() -> Any:
    Path("out.h5").write_bytes(b"")
    return Net(
        "small",
        [
            MemoryDataLayer(tops="data", data=[np.eye(2)], batch_size=2),
            HDF5OutputLayer(name="out", bottoms="data", filename="out.h5"),
        ],
    )


def linked() -> Any:
    with h5py.File("train.h5", "w") as file:
        file["label"] = np.zeros(4)
        file["data"] = h5py.ExternalLink("secret.h5", "data")
    return Net("small", [HDF5DataLayer(name="train", source="train.h5", batch_size=2)])


def packed() -> Any:
    with h5py.File("train.h5", "w") as file:
        file["label"] = np.zeros(4)
        file.create_dataset("data", (1 << 40,), "f4")
    return Net("small", [HDF5DataLayer(name="train", source="train.h5", batch_size=2)])


X, Y = np.ones((4, 3)), np.arange(4)
PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==")

MESSAGES: list[Message] = [
    (
        lambda: Net("small", [HDF5DataLayer(name="train", source="train.h5", batch_size=2)]),
        ("train: train.h5: no such file\n  nacre looked for it in HERE"),
    ),
    (
        lambda: (
            Path("train.h5").write_bytes(b"dear diary"),
            Net("small", [HDF5DataLayer(name="train", source="train.h5", batch_size=2)]),
        ),
        "train: train.h5: this is not an HDF5 file",
    ),
    (
        lambda: (
            Path("train.txt").write_text("\n"),
            Net("small", [HDF5DataLayer(name="train", source="train.txt", batch_size=2)]),
        ),
        "train: train.txt: this list of files is empty",
    ),
    (
        lambda: hdf5(data=X, labels=Y),
        (
            "train: train.h5: dataset 'label': it does not exist in '/' (did you mean 'labels'?); that has: "
            "data, labels\n"
            "  give the top the name of a dataset, or use another file"
        ),
    ),
    (
        linked,
        (
            "train: train.h5: dataset 'data': 'data' is a soft or external link, which may lead out of the file\n"
            "  copy it with h5repack, or write it again, so that the file contains its own numbers"
        ),
    ),
    (
        packed,
        (
            "train: train.h5: dataset 'data': it declares 4,398,046,511,104 bytes, but the file can hold at "
            "most 0 of them\n"
            "  write all of its numbers, so that they are stored"
        ),
    ),
    (
        lambda: hdf5(data=X, label=Y[:3]),
        (
            "train: train.h5: 'label' has 3 records, but 'data' has 4\n"
            "  name the fields that are wanted: their datasets count the records"
        ),
    ),
    (
        lambda: hdf5(data=X[:1], label=Y[:1]),
        ("train: batch_size=2, but the data have only 1 records\n  set batch_size to 1 or less"),
    ),
    (
        lambda: hdf5(data=X, label=3),
        "train: train.h5: dataset 'label' is a single value, but its first axis must count the records",
    ),
    (
        lambda: hdf5(data=X, label=np.array([b"a"] * 4)),
        "train: train.h5: dataset 'label' is of type |S1, but it must hold whole or floating-point numbers",
    ),
    (
        lambda: hdf5(AsyncHDF5DataLayer, data=X, labels=Y),
        (
            "train: train.h5: dataset 'label': it does not exist in '/' (did you mean 'labels'?); that has: "
            "data, labels\n"
            "  give the top the name of a dataset, or use another file"
        ),
    ),
    (
        lambda: memory(X),
        "train: data has 1 arrays, but it needs one for each top: data, label",
    ),
    (
        lambda: memory(X[:0], Y[:0]),
        "train: there are no records in data",
    ),
    (
        lambda: memory(X, Y, transformers=[["date", "Scale"]]),
        "train: transformers name the top 'date', but it must be one of data, label",
    ),
    (
        lambda: RandomNormalLayer(name="noise", tops="x", batch_size=[2, 3]),
        "noise: batch_size=(2, 3), but it needs one number, or one for each of the 1 tops",
    ),
    (
        lambda: SubMean(mean=3, mean_file="mean.h5"),
        "SubMean: mean=(3.0,) and mean_file=('mean.h5',), but exactly one of them is needed",
    ),
    (
        lambda: transformed(SubMean(mean=[1, 2]), 3, 4, 4),
        "train: transformers: data: SubMean: a mean of shape (2,) does not fit records of shape (3, 4, 4)",
    ),
    (
        lambda: transformed(RandomShift(), 5),
        "train: transformers: data: RandomShift: records must be (channels, rows, columns), not (5,)",
    ),
    (
        written,
        ("out: out.h5 exists already\n  move it away, use another name, or set force_overwrite to replace it"),
    ),
    (
        lambda: read("a.csv", b"1,2\n1;2\n"),
        (
            "a.csv: line 2 has 1 cells, but the first line has 2\n"
            "  complete the line; a cell with the separator in it must stand in quotes"
        ),
    ),
    (
        lambda: read("a.csv", b"1,2\n1\n"),
        (
            "a.csv: line 2 has 1 cells, but the first line has 2\n"
            "  complete the line; a cell with the separator in it must stand in quotes"
        ),
    ),
    (
        lambda: read("a.npy", b"dear diary"),
        ("a.npy: this is not a NumPy array\n  write it with numpy.save"),
    ),
    (
        lambda: read("a.png", b"dear diary", (1, 8, 8)),
        (
            "a.png: this is not a picture that can be read (BMP, GIF, JPEG, PNG, PPM, TIFF, WEBP)\n"
            "  write it again as PNG, or take it out (nacre data verify lists all of them); "
            'in a net, a source with on_error = "skip" leaves it out'
        ),
    ),
    (
        lambda: read("a.png", PNG, (8,)),
        "a.png: a picture cannot become a record of shape (8,)\n  the shape must be (1, 3 or 4, rows, columns)",
    ),
    (
        lambda: text(b"ab\nn\xe9"),
        (
            "text: a.txt: line 2: the byte 0xe9 at offset 4 is not UTF-8\n"
            "  convert the file to UTF-8, for example with iconv -f LATIN1 -t UTF-8"
        ),
    ),
    (
        lambda: text(b"ab\nc", vocabulary=["a", "b", "\n"]),
        (
            "text: a.txt: line 2: the character 'c' is not one of the 3 characters of the vocabulary\n"
            '  correct the text, or let all unknown ones share a number: unknown = "own"'
        ),
    ),
    (
        lambda: text(b"abcabc"),
        (
            "text: batch_size=2 and steps=3 need 7 characters, but the text has only 6\n"
            "  set batch_size or steps to less, or give a longer text"
        ),
    ),
    (
        lambda: text(b"abc", phase="test"),
        (
            "text: the vocabulary is that of the training's text, of which nothing is known in phase 'test'\n"
            "  derive this net from the training net (net.derive), or give it fitted=snapshot.fitted()"
        ),
    ),
    (
        lambda: (Path("a.h5").write_bytes(b"dear diary"), load_snapshot("a.h5")),
        "a.h5: this is no file of nacre's, or its beginning is damaged",
    ),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message[1].partition("\n")[0][:60])
def test_the_text_of_an_error(message: Message, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_message(message, tmp_path, monkeypatch)
