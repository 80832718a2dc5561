"""StoreTests: what every store, a format of files with records, has to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ..errors import ContractError, DataError
from ..net.records import open_records
from ..protocols.data_store import Field, Reader, Store, blocks
from .outside import Things
from .suite import Checks, When, defines, only

RECORDS = 7
"""In the files that the tests write."""
WRITES = defines("fields")
READS_ONLY = When("without `fields`", lambda suite: not WRITES.holds(suite))
COUNTED = When("not `sequential`", lambda suite: not suite.sequential)


class StoreTests(Checks):
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

    SUBJECT = "store"
    store: ClassVar[Store]
    exact: ClassVar[bool] = True
    sequential: ClassVar[bool] = False
    step: ClassVar[int] = 1
    damage_shows: ClassVar[bool] = True
    replaces: ClassVar[bool] = True

    # What the tests work on

    @classmethod
    def check_subject(cls) -> None:
        if cls.fields is StoreTests.fields and cls.make is StoreTests.make:
            raise ContractError(
                f"{cls.__name__} gives neither fields nor make()",
                'write def fields(self): return {"x": Field((3,), "float32")}, or make() for a store that only reads',
            )

    def fields(self) -> Mapping[str, Field]:
        """Return the fields of the records that the tests write; none for a store that only reads."""
        return {}

    def make(self, folder: Path) -> tuple[Path, Mapping[str, Any]]:
        """Write a file; return its path, and {field: array of all records}, or {field: list}, as they are read back."""
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
        return self._read_fields(path, ())

    def _read_fields(self, path: Path, fields: Sequence[str]) -> dict[str, Any]:
        with open_records([path], fields, store=self.store) as reader:
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

    def test_contents(self, tmp_path: Path) -> None:
        """Every record of a file is read, with all its fields, as it was written."""
        path, wanted = self.make(tmp_path)
        found = self.read_all(path)
        assert set(found) == set(wanted), f"the fields {_listed(found)} are read, but {_listed(wanted)} are in the file"
        for name in wanted:
            assert self.same(found[name], wanted[name]), f"field '{name}' is read with other numbers than it has"

    def test_fields(self, tmp_path: Path) -> None:
        """`fields` and `count` say what is read: shapes, types, classes, and the number of records."""
        path, wanted = self.make(tmp_path)
        with open_records([path], store=self.store) as reader:
            count = None if self.sequential else len(next(iter(wanted.values())))
            assert reader.count == count, f"count is {reader.count} instead of {count}"
            for row in reader.rows():
                for name, field in reader.fields.items():
                    value = np.asarray(row[name])
                    what = f"field '{name}' is declared as {field.dtype} of shape {field.shape}, but read as"
                    assert value.dtype == np.dtype(field.dtype), f"{what} {value.dtype}"
                    assert field.shape is None or value.shape == field.shape, f"{what} shape {value.shape}"
                    known = not field.classes or 0 <= int(value) < len(field.classes)
                    assert known, f"field '{name}' is {value}, but there are {len(field.classes)} classes"

    @only(COUNTED)
    def test_any_order(self, tmp_path: Path) -> None:
        """Records are read in any order, and again, by their numbers."""
        path, _ = self.make(tmp_path)
        wanted = self.read_all(path)
        with open_records([path], store=self.store) as reader:
            assert reader.count is not None, "count is None: say sequential = True"
            last = reader.count - 1
            for numbers in ([last, 0], [0, 0, last, last], [last // 2], [*range(last, -1, -1)], [*range(last + 1)], []):
                rows = self._read(reader, numbers)
                for name, values in wanted.items():
                    right = self.same(rows[name], [values[number] for number in numbers])
                    assert right, f"field '{name}' of the records {numbers}, read by number, has other numbers"

    def test_some_fields(self, tmp_path: Path) -> None:
        """Fields that are asked for, one alone or all in another order, hold what they hold among all."""
        path, _ = self.make(tmp_path)
        wanted = self._read_fields(path, ())
        for names in ([*wanted][::-1], *([name] for name in wanted)):
            try:
                found = self._read_fields(path, names)
            except DataError:
                if len(names) == len(wanted):
                    raise
                continue  # such as a table's columns of numbers, which are not known without those of texts
            for name in names:
                right = self.same(found[name], wanted[name])
                assert right, f"field '{name}' has other numbers where the fields asked for are {', '.join(names)}"

    def test_rows(self, tmp_path: Path) -> None:
        """`rows(start)` begins with that record, and ends with the last."""
        path, _ = self.make(tmp_path)
        wanted = self.read_all(path)
        count = len(next(iter(wanted.values())))
        with open_records([path], store=self.store) as reader:
            for start in (0, 1, count - 1, count):
                rows = list(reader.rows(start))
                assert len(rows) == count - start, f"rows({start}) gives {len(rows)} records of {count}"
                for name, values in wanted.items():
                    right = self.same([row[name] for row in rows], [*values[start:]])
                    assert right, f"field '{name}' of rows({start}) has other numbers than the file"

    def test_keys(self, tmp_path: Path) -> None:
        """`key` names each record differently."""
        path, wanted = self.make(tmp_path)
        with open_records([path], store=self.store) as reader:
            keys = [reader.key(number) for number in range(len(next(iter(wanted.values()))))]
            assert all(keys), f"a record has no key: {keys}"
            assert len(set(keys)) == len(keys), f"two records have one key: {keys}"

    def test_two_files(self, tmp_path: Path) -> None:
        """Two files are read one after the other, as if they were one."""
        path, _ = self.make(tmp_path)
        wanted = self.read_all(path)
        with open_records([path, path], store=self.store) as reader:
            rows = list(reader.rows())
            for name, values in wanted.items():
                right = self.same([row[name] for row in rows], [*values, *values])
                assert right, f"field '{name}' of two files has other numbers than that of both, one after the other"

    def test_missing_field(self, tmp_path: Path) -> None:
        """A field that is not in the file is refused in a sentence that names field and file."""
        path, wanted = self.make(tmp_path)
        told = _refused(lambda: open_records([path], [*wanted, "nothing_such"], store=self.store), "an unknown field")
        for word in ("nothing_such", str(path)):
            assert word in told, f"the error about a field that is not there does not name {word}: {told}"

    def test_close(self, tmp_path: Path) -> None:
        """Closing a file twice is harmless, and nothing stays open."""
        path, _ = self.make(tmp_path)
        for first in (True, False):
            before = Things.open()
            reader = self.store.open(path)
            reader.close()
            reader.close()
            left = Things.open().besides(before, files=not first)  # the first time libraries open files of their own
            assert not left, f"after close() {left}"
            del reader  # else what it left open would be closed in the next round

    # Bad files

    def test_other_files(self, tmp_path: Path) -> None:
        """A file that does not exist, and one of another format, are refused in a sentence that names it."""
        path, _ = self.make(tmp_path)
        for bad, content, what in (
            (path.with_name("no" + path.name), None, "a file that does not exist"),
            (path.with_name("bad" + path.name), b"\x89 no\xff", "a file of another format"),
        ):
            if content is not None:
                bad.write_bytes(content)
            told = _refused(lambda bad=bad: self.read_all(bad), what)
            assert str(bad) in told, f"the error about {what} does not name it: {told}"

    def test_truncated(self, tmp_path: Path) -> None:
        """Cut after each byte, a file is refused, or what it still holds is read rightly."""
        path, wanted = self.make(tmp_path)
        if path.is_dir():
            pytest.skip("a folder cannot be cut")
        data, cut = path.read_bytes(), path.with_name("cut" + path.name)
        noticed, ends = 0, range(0, len(data), self.step)
        for end in ends:
            cut.write_bytes(data[:end])
            where = f"of a file cut after {end} of {len(data)} bytes"
            try:
                found = self.read_all(cut)
            except DataError as error:
                noticed += str(cut) in str(error)
                continue
            except Exception as error:
                raise AssertionError(
                    f"the reading {where} ends in {type(error).__name__} instead of DataError"
                ) from error
            assert not self.damage_shows, f"the first {end} of {len(data)} bytes are read as if they were all"
            for name, values in found.items():
                assert len(values) <= len(wanted[name]), f"{where} more records are read than it had"
        assert noticed == len(ends) if self.damage_shows else noticed, "the error about a cut file does not name it"

    # Writing

    @only(WRITES)
    def test_complete_files(self, tmp_path: Path) -> None:
        """A file has its name only when it is complete, and one that was there stays until then."""
        path, records = tmp_path / f"new{self.store.endings[0]}", self.records(2)
        writer = self.store.create(path, self.fields())
        try:
            writer.append(records)
            assert not path.exists(), f"{path.name} is there before its writer is closed"
        finally:
            writer.close(commit=False)
            writer.close(commit=False)
        left = [one.name for one in tmp_path.iterdir()]
        assert not left, f"close(commit=False) leaves {_listed(left)}"
        with self.store.create(path, self.fields()) as writer:
            writer.append(records)
        before = self.read_all(path)
        told = ZeroDivisionError if self.replaces else DataError
        try:
            with self.store.create(path, self.fields()) as writer:
                raise ZeroDivisionError
        except told:
            after = self.read_all(path)
            for name, values in before.items():
                assert self.same(values, after[name]), "a file that could not be written has replaced an older one"
        left = [one.name for one in tmp_path.iterdir() if one != path]
        assert not left, f"a writer that failed leaves {_listed(left)}"

    @only(WRITES)
    def test_appended_arrays(self, tmp_path: Path) -> None:
        """Arrays that were appended may change afterwards."""
        path, wanted = tmp_path / f"new{self.store.endings[0]}", self.records(2)
        given = {name: values.copy() for name, values in wanted.items()}
        with self.store.create(path, self.fields()) as writer:
            writer.append(given)
            for values in given.values():
                values[:] = 0
        found = self.read_all(path)
        for name, values in wanted.items():
            assert self.same(found[name], values), f"'{name}' changes in the file with the array that was appended"

    @only(WRITES)
    def test_continued(self, tmp_path: Path) -> None:
        """A file is continued with the same fields; others are refused, or change nothing that was there."""
        records = self.records(2)
        for what, fields in {"the same fields": self.fields(), **_others(self.fields())}.items():
            path = tmp_path / f"{what.replace(' ', '_')}{self.store.endings[0]}"
            with self.store.create(path, self.fields()) as writer:
                writer.append(records)
            before, random = self._named(path), np.random.default_rng(1)
            try:
                with self.store.create(path, fields, append=True) as writer:
                    writer.append({name: _random(random, field, 2) for name, field in fields.items()})
                count = 4
            except DataError:
                count = 2
            after = self._named(path)
            assert set(before) == set(after), f"after {what} were appended, the file has the fields {_listed(after)}"
            for name, values in before.items():
                assert len(after[name]) == count, f"after {what} were appended, '{name}' has {len(after[name])} records"
                assert self.same(after[name][:2], values), f"'{name}' is another one after {what} were appended"

    def _named(self, path: Path) -> dict[str, Any]:
        """Return all records of a file, with the names of classes instead of their numbers."""
        found = self.read_all(path)
        with open_records([path], store=self.store) as reader:
            for name, field in reader.fields.items():
                if classes := field.classes:
                    found[name] = [classes[int(number)].encode() for number in found[name]]
        return found

    @only(WRITES)
    def test_no_place(self, tmp_path: Path) -> None:
        """A file that cannot be written is refused in a sentence that names it."""
        path = tmp_path / "no" / f"new{self.store.endings[0]}"

        def write() -> None:
            with self.store.create(path, self.fields()) as writer:
                writer.append(self.records(2))

        told = _refused(write, "a file in a folder that does not exist")
        for word in ("cannot be written", str(path)):
            assert word in told, f"the error about a file that cannot be written does not say '{word}': {told}"
        left = [one.name for one in tmp_path.iterdir()]
        assert not left, f"a writer that failed leaves {_listed(left)}"

    @only(READS_ONLY)
    def test_read_only(self, tmp_path: Path) -> None:
        """A store that only reads refuses to write in a sentence."""
        _refused(lambda: self.store.create(tmp_path / "new", {"x": Field((), "float32")}).close(False), "create()")

    def _read(self, reader: Reader, numbers: Sequence[int]) -> dict[str, Any]:
        out = {
            name: [None] * len(numbers) if field.shape is None else np.empty((len(numbers), *field.shape), field.dtype)
            for name, field in reader.fields.items()
        }
        reader.read(np.array(numbers, np.int64), out)
        return out


def _refused(call: Callable[[], object], what: str) -> str:
    """Return the sentence in which `call` is refused."""
    try:
        call()
    except DataError as error:
        return str(error)
    except Exception as error:
        raise AssertionError(f"{what} ends in {type(error).__name__} instead of DataError") from error
    raise AssertionError(f"{what} is not refused: raise DataError")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


def _others(fields: Mapping[str, Field]) -> dict[str, Mapping[str, Field]]:
    """Return other fields than these, by what is different."""
    others: dict[str, Mapping[str, Field]] = {"one field more": {**fields, "another": Field((), "float32")}}
    for name, field in fields.items():
        rest = {one: fields[one] for one in fields if one != name}
        if rest:
            others[f"no {name}"] = rest
        if field.shape is not None and not field.codec:
            others[f"another shape of {name}"] = {**fields, name: replace(field, shape=(*field.shape, 2), classes=())}
            kind = "int16" if np.dtype(field.dtype).kind == "f" else "float64"
            others[f"another type of {name}"] = {**fields, name: replace(field, dtype=kind, classes=())}
            if field.classes:
                classes = (*field.classes[1:], "another class")
                others[f"other classes of {name}"] = {**fields, name: replace(field, classes=classes)}
    return others


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
