"""Files that name their classes differently."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from counted import Counted
from nacre import Field, Reader, Store, open_records
from nacre.net.files import FileRecords
from registries import NewRegistry


class Named(Store):
    """One record of each class; the file says from where to where the classes count."""

    endings = (".named",)

    def open(self, path: Path, fields: Any = ()) -> Reader:
        return NamedReader(*map(int, path.read_text(encoding="utf-8").split()))


class NamedReader(Reader):
    def __init__(self, begin: int, end: int) -> None:
        self.count: int | None = end - begin
        self.fields = {"label": Field((), "int64", tuple(Counted(number) for number in range(begin, end)))}

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        out["label"][...] = numbers


@pytest.fixture
def paths(tmp_path: Path, new_registry: NewRegistry) -> list[Path]:
    new_registry(discover=False).register(Named)
    parts = {"a": (0, 400), "b": (200, 600), "c": (100, 300)}
    for name, (begin, end) in parts.items():
        (tmp_path / f"{name}.named").write_text(f"{begin} {end}", encoding="utf-8")
    return [tmp_path / f"{name}.named" for name in parts]


LABELS = [*range(400), *range(200, 600), *range(100, 300)]


def test_many_classes_of_joined_files(paths: list[Path]) -> None:
    Counted.compared = 0
    with open_records(paths) as reader:
        assert Counted.compared < 5000, "each class is looked for among all of them"
        assert reader.fields["label"].classes == tuple(map(str, range(600)))
        assert [int(row["label"]) for row in reader.rows()] == LABELS


def test_many_classes_of_files_side_by_side(paths: list[Path]) -> None:
    Counted.compared = 0
    with FileRecords(None, paths, "label") as records:
        assert records.classes == [*map(str, range(600))]
        assert [int(row.value) for row in records.rows()] == LABELS  # type: ignore[arg-type]  # none is an error
    assert Counted.compared < 5000, "each class is looked for among all of them"
