"""StoreTests: a format of files with records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ..errors import ContractError, DataError
from ..net.records import open_records
from ..protocols.data_store import Field, Reader, Store, blocks

RECORDS = 7


class StoreTests:
    """The tests of a store, with files that they write through it.

    An author gives the store, and what its records may hold:

        class TestTabs(StoreTests):
            store = TabStore()

            def fields(self):
                return {"x": Field((3,), "float64"), "label": Field((), "int64", classes=("cat", "dog"))}

    A store that only reads gives a file instead, with what is in it:

        class TestIDX(StoreTests):
            store = IDX()

            def make(self, folder):
                path = folder / "train-images-idx3-ubyte"
                path.write_bytes(...)
                return path, {"data": images}

    Attributes:
        store: the store.
        exact: whether numbers come back with the same bits; else to six digits.
        sequential: whether it has no numbers, only `rows`.
        step: bytes between two ends of a truncated file.
        damage_shows: whether each truncated file is noticed; formats of lines cannot tell one that ends with a line.
        replaces: whether a complete new file replaces an old one; a store of folders may refuse that.
    """

    store: ClassVar[Store]
    exact: ClassVar[bool] = True
    sequential: ClassVar[bool] = False
    step: ClassVar[int] = 1
    damage_shows: ClassVar[bool] = True
    replaces: ClassVar[bool] = True

    # What the tests work on

    def fields(self) -> Mapping[str, Field]:
        """Return the fields of the records that the tests write; none for a store that only reads."""
        return {}

    def make(self, folder: Path) -> tuple[Path, Mapping[str, Any]]:
        """Write a file; return its path, and {field: array of all records}, or {field: list}, as they are read back."""
        if not self.fields():
            raise ContractError(f"{type(self).__name__} gives neither fields nor make()", "define one of the two")
        path = folder / f"records{self.store.endings[0]}"
        records = self.records(RECORDS)
        with self.store.create(path, self.fields()) as writer:
            writer.append({name: values[:3] for name, values in records.items()}, ["a", "b", "c"])
            writer.append({name: values[3:] for name, values in records.items()}, ["d", "e", "f", "g"])
        return path, records

    def records(self, count: int) -> dict[str, np.ndarray]:
        """Return records of the fields with random numbers."""
        random = np.random.default_rng(0)
        return {name: _random(random, field, count) for name, field in self.fields().items()}

    def read_all(self, path: Path) -> dict[str, Any]:
        """Return all records of a file, as nets take them: joined and decoded."""
        with open_records([path], store=self.store) as reader:
            found = [rows for _, rows in blocks(reader, size=3)]
            return {name: _joined([rows[name] for rows in found]) for name in reader.fields}

    def same(self, found: Any, wanted: Any) -> bool:
        """Return whether the numbers of a field are right."""
        if len(found) != len(wanted):
            return False
        pairs = list(zip(found, wanted, strict=True))
        if any(isinstance(one, bytes) for pair in pairs for one in pair):
            return all(one == other for one, other in pairs)
        if self.exact:
            return all(
                np.array_equal(one, other, equal_nan=np.asarray(other).dtype.kind == "f") for one, other in pairs
            )
        return all(np.allclose(one, other, rtol=1e-6, equal_nan=True) for one, other in pairs)

    # Reading

    def test_what_is_in_a_file_is_read(self, tmp_path: Path) -> None:
        path, wanted = self.make(tmp_path)
        found = self.read_all(path)
        assert set(found) == set(wanted)
        assert [name for name in wanted if not self.same(found[name], wanted[name])] == []

    def test_fields_say_what_is_read(self, tmp_path: Path) -> None:
        path, wanted = self.make(tmp_path)
        with open_records([path], store=self.store) as reader:
            count = len(next(iter(wanted.values())))
            assert reader.count == (None if self.sequential else count)
            for name, field in reader.fields.items():
                for row in reader.rows():
                    value = np.asarray(row[name])
                    assert value.dtype == np.dtype(field.dtype)
                    assert field.shape is None or value.shape == field.shape
                    assert not field.classes or 0 <= int(value) < len(field.classes)

    def test_records_are_read_in_any_order_and_again(self, tmp_path: Path) -> None:
        path, wanted = self.make(tmp_path)
        with open_records([path], store=self.store) as reader:
            if reader.count is None:
                return
            last = reader.count - 1
            for numbers in ([last, 0], [0, 0, last, last], [last // 2], [*range(last, -1, -1)], [*range(last + 1)], []):
                rows = self._read(reader, numbers)
                for name, values in wanted.items():
                    assert self.same(rows[name], [values[number] for number in numbers]), (name, numbers)

    def test_rows_begin_where_they_are_asked_to(self, tmp_path: Path) -> None:
        path, wanted = self.make(tmp_path)
        count = len(next(iter(wanted.values())))
        with open_records([path], store=self.store) as reader:
            for start in (0, 1, count - 1, count):
                rows = list(reader.rows(start))
                assert len(rows) == count - start
                for name, values in wanted.items():
                    assert self.same([row[name] for row in rows], [*values[start:]])

    def test_every_record_has_a_key(self, tmp_path: Path) -> None:
        path, wanted = self.make(tmp_path)
        with open_records([path], store=self.store) as reader:
            keys = [reader.key(number) for number in range(len(next(iter(wanted.values()))))]
            assert all(keys)
            assert len(set(keys)) == len(keys)

    def test_two_files_are_one(self, tmp_path: Path) -> None:
        path, wanted = self.make(tmp_path)
        with open_records([path, path], store=self.store) as reader:
            rows = list(reader.rows())
            for name, values in wanted.items():
                assert self.same([row[name] for row in rows], [*values, *values])

    def test_a_field_that_is_not_there_is_told(self, tmp_path: Path) -> None:
        path, wanted = self.make(tmp_path)
        with pytest.raises(DataError, match="nothing_such") as caught:
            open_records([path], [*wanted, "nothing_such"], store=self.store)
        assert str(path) in str(caught.value)

    def test_closing_twice_is_harmless(self, tmp_path: Path) -> None:
        path, _ = self.make(tmp_path)
        reader = self.store.open(path)
        reader.close()
        reader.close()

    # Bad files

    def test_no_file_and_another_file_are_told(self, tmp_path: Path) -> None:
        path, _ = self.make(tmp_path)
        for bad, content in (
            (path.with_name("no" + path.name), None),
            (path.with_name("bad" + path.name), b"\x89 no\xff"),
        ):
            if content is not None:
                bad.write_bytes(content)
            with pytest.raises(DataError) as caught:
                self.read_all(bad)
            assert str(bad) in str(caught.value)

    def test_a_truncated_file_ends_in_a_sentence(self, tmp_path: Path) -> None:
        """Cut after each byte, a file is refused, or what it still holds is read rightly."""
        path, wanted = self.make(tmp_path)
        if path.is_dir():
            return
        data, cut = path.read_bytes(), path.with_name("cut" + path.name)
        noticed, ends = 0, range(0, len(data), self.step)
        for end in ends:
            cut.write_bytes(data[:end])
            try:
                found = self.read_all(cut)
            except DataError as error:
                noticed += str(cut) in str(error)
                continue
            assert not self.damage_shows, f"the first {end} of {len(data)} bytes are read as if they were all"
            for name, values in found.items():
                assert len(values) <= len(wanted[name])
        assert noticed == len(ends) if self.damage_shows else noticed

    # Writing

    def test_a_file_has_its_name_when_it_is_complete(self, tmp_path: Path) -> None:
        if not self.fields():
            return
        path, records = tmp_path / f"new{self.store.endings[0]}", self.records(2)
        writer = self.store.create(path, self.fields())
        writer.append(records)
        assert not path.exists()
        writer.close(commit=False)
        writer.close(commit=False)
        assert list(tmp_path.iterdir()) == []
        with self.store.create(path, self.fields()) as writer:
            writer.append(records)
        before = self.read_all(path)
        told = ZeroDivisionError if self.replaces else DataError
        with pytest.raises(told), self.store.create(path, self.fields()) as writer:
            raise ZeroDivisionError
        assert [name for name in before if not self.same(before[name], self.read_all(path)[name])] == []
        assert list(tmp_path.iterdir()) == [path]

    def test_what_was_appended_may_change_afterwards(self, tmp_path: Path) -> None:
        if not self.fields():
            return
        path, wanted = tmp_path / f"new{self.store.endings[0]}", self.records(2)
        given = {name: values.copy() for name, values in wanted.items()}
        with self.store.create(path, self.fields()) as writer:
            writer.append(given)
            for values in given.values():
                values[:] = 0
        found = self.read_all(path)
        assert [name for name in wanted if not self.same(found[name], wanted[name])] == []

    def test_a_file_that_cannot_be_written_is_told(self, tmp_path: Path) -> None:
        if not self.fields():
            with pytest.raises(DataError):
                self.store.create(tmp_path / "new", {"x": Field((), "float32")})
            return
        path = tmp_path / "no" / f"new{self.store.endings[0]}"
        with (
            pytest.raises(DataError, match="cannot be written") as caught,
            self.store.create(path, self.fields()) as writer,
        ):
            writer.append(self.records(2))
        assert str(path) in str(caught.value)
        assert list(tmp_path.iterdir()) == []

    def _read(self, reader: Reader, numbers: Sequence[int]) -> dict[str, Any]:
        out = {
            name: [None] * len(numbers) if field.shape is None else np.empty((len(numbers), *field.shape), field.dtype)
            for name, field in reader.fields.items()
        }
        reader.read(np.array(numbers, np.int64), out)
        return out


def _random(random: np.random.Generator, field: Field, count: int) -> np.ndarray:
    assert field.shape is not None, "write make() for fields whose shape differs"
    shape, dtype = (count, *field.shape), np.dtype(field.dtype)
    if field.classes:
        return np.arange(count).astype(dtype) % len(field.classes)
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    return random.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)


def _joined(parts: Sequence[Any]) -> Any:
    return (
        np.concatenate(parts) if parts and isinstance(parts[0], np.ndarray) else [one for part in parts for one in part]
    )
