"""CIFAR-10 and CIFAR-100 in their binary versions: label bytes, then a picture, record by record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from nacre import DataError, Field, Reader, Store, open_records
from nacre.files import check_file, os_errors, unchanged

from ..files import inside
from .names import DATA, LABEL, data_and_label
from .raw import RawRows

PICTURE = (3, 32, 32)
BYTES = 3072  # of a picture
LONGEST_LIST = 1 << 16  # bytes of a file with names of classes
REMEDY = "get it again from https://www.cs.toronto.edu/~kriz/cifar.html"


@dataclass(frozen=True)
class Kind:
    """One of the two data sets: how many classes each label byte counts, and the file that names them."""

    name: str
    classes: tuple[tuple[int, str], ...]

    @property
    def size(self) -> int:
        """Bytes of a record."""
        return len(self.classes) + BYTES


FINE = "fine_label_names.txt"
CIFAR_10 = Kind("CIFAR-10", ((10, "batches.meta.txt"),))
CIFAR_100 = Kind("CIFAR-100", ((20, "coarse_label_names.txt"), (100, FINE)))
KINDS = (CIFAR_10, CIFAR_100)
BATCHES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
NAMES = {**dict.fromkeys((*BATCHES, "test_batch.bin"), CIFAR_10), **dict.fromkeys(("train.bin", "test.bin"), CIFAR_100)}


class CIFAR(Store):
    """CIFAR-10 and CIFAR-100 in their binary versions: pictures (3, 32, 32), and labels.

    The files are data_batch_1.bin to data_batch_5.bin and test_batch.bin, or train.bin and test.bin; a folder stands
    for its files to train on. The classes have names if batches.meta.txt, or fine_label_names.txt and
    coarse_label_names.txt, is beside the file.
    """

    folder = f"the files of CIFAR, such as {BATCHES[0]}"
    labels: Annotated[Literal["fine", "coarse"], "labels of CIFAR-100: 100 fine ones, or 20 coarse ones"] = "fine"

    @classmethod
    def fits(cls, path: Path) -> bool:
        return path.name.lower() in NAMES or any((path / name).exists() for name in (BATCHES[0], FINE))

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        if path.is_dir():
            return open_records(_files(path), fields, store=self)
        check_file(path, "a binary file of CIFAR-10 or CIFAR-100")
        wanted = data_and_label(path, fields)
        size = path.stat().st_size
        kind = _kind(path, size)
        if self.labels == "coarse" and kind is CIFAR_10:
            raise DataError(f"{path}: CIFAR-10 has no coarse labels", 'leave out labels = "coarse"')
        byte = 0 if self.labels == "coarse" else len(kind.classes) - 1
        count, names = kind.classes[byte]
        classes = _classes(path.with_name(names), count)
        with os_errors(path, "cannot be read", DataError):
            rows = RawRows(path, 0, size // kind.size, (kind.size,), np.dtype(np.uint8))
        return CIFARReader(rows, wanted, kind, byte, classes)


class CIFARReader(Reader):
    """Records of one file; label `byte` of each is read."""

    def __init__(
        self, rows: RawRows, wanted: Mapping[str, str], kind: Kind, byte: int, classes: tuple[str, ...]
    ) -> None:
        self.rows_in_file = rows
        self.wanted = wanted
        self.kind = kind
        self.byte = byte
        self.count: int | None = rows.count
        parts = {DATA: Field(PICTURE, "uint8"), LABEL: Field((), "int64", classes)}
        self.fields: Mapping[str, Field] = {name: parts[part] for part, name in wanted.items()}

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        rows = np.empty((len(numbers), self.kind.size), np.uint8)
        self.rows_in_file.read(numbers, rows)
        for part, name in self.wanted.items():
            if name not in out:
                continue
            if part == DATA:
                out[name][...] = rows[:, -BYTES:].reshape(-1, *PICTURE)
            else:
                self._check(numbers, rows[:, self.byte])
                out[name][...] = rows[:, self.byte]

    def _check(self, numbers: np.ndarray, labels: np.ndarray) -> None:
        count = self.kind.classes[self.byte][0]
        for row in np.flatnonzero(labels >= count)[:1].tolist():
            message = f"{self.rows_in_file.path}: {self.key(int(numbers[row]))}: its label is {labels[row]}, "
            raise DataError(f"{message}but the classes of {self.kind.name} have the numbers 0 to {count - 1}", REMEDY)

    def close(self) -> None:
        self.rows_in_file.close()


def _files(folder: Path) -> list[Path]:
    """Return the files of a folder to train on."""
    there = [name for name in (*BATCHES, "train.bin") if (folder / name).exists()]
    if not there:
        message = f"{folder}: it has neither {BATCHES[0]} to {BATCHES[-1]} nor train.bin"
        raise DataError(message, "give the folder with the binary version's files")
    if "train.bin" in there and len(there) > 1:
        raise DataError(f"{folder}: it has {there[0]} and train.bin, of two data sets", "give the file itself")
    if missing := [name for name in BATCHES if name not in there and there != ["train.bin"]]:
        raise DataError(f"{folder}: {missing[0]} is missing", "put it there, or give the files one by one")
    return [inside(folder / name, folder) for name in there]


def _kind(path: Path, size: int) -> Kind:
    """Return the data set that a file belongs to: by its name, or one with another name by its size."""
    named = NAMES.get(path.name.lower())
    possible = [kind for kind in ((named,) if named else KINDS) if size and size % kind.size == 0]
    if len(possible) == 1:
        return possible[0]
    sizes = " and ".join(f"records of {kind.name} have {kind.size:,}" for kind in KINDS)
    if possible:
        message = f"{path}: its {size:,} bytes may be of either data set: {sizes}"
        raise DataError(message, "rename it as its data set does: data_batch_1.bin, or train.bin")
    of = f" of {named.name}" if named else ""
    raise DataError(f"{path}: its {size:,} bytes are no whole records{of}: {sizes}", REMEDY)


def _classes(path: Path, count: int) -> tuple[str, ...]:
    """Return the names in a file with one on each line; none if there is no such file."""
    if not path.exists():
        return ()
    check_file(inside(path, path.parent), "a file with the names of the classes")
    if path.stat().st_size > LONGEST_LIST:
        raise DataError(f"{path}: a list of classes must not be larger than {LONGEST_LIST:,} bytes")
    with os_errors(path, "cannot be read", DataError), unchanged(path):
        content = path.read_bytes()
    try:
        names = tuple(line.strip() for line in content.decode().split("\n") if line.strip())
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: this is not a list of names: {error}") from error
    if len(names) != count or len(set(names)) != count:
        message = (
            f"{path}: it has {len(names)} names, {len(set(names))} of them different, but there are {count} classes"
        )
        raise DataError(message, f"give each class a line, or remove {path.name}")
    return names
