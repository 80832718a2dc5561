"""StoreTests passes a store that keeps its promises, and each check finds the fault that it is named for."""

import numpy as np
import pytest

from nacre import ContractError, DataError, Field, Reader, Store, Writer
from nacre.files import NewFile, check_file, os_errors
from nacre.testing import StoreTests as StoreSuite
from run_suite import failures

# A store that keeps its promises: three numbers a record, and behind them how many records there are


class GoodReader(Reader):
    def __init__(self, path, fields=()):
        with os_errors(path, "cannot be read", DataError):
            data = path.read_bytes()
        body = data[:-8]
        if len(body) % 24 or len(data) < 8 or int(np.frombuffer(data[-8:], "<i8")[0]) != len(body) // 24:
            raise DataError(f"{path}: this is no file of triples, or its end is missing")
        self.path = path
        self.numbers = np.frombuffer(body, "<f8").reshape(-1, 3)
        self.count = len(self.numbers)
        self.fields = {"x": Field((3,), "float64")}

    def read(self, numbers, out):
        for array in out.values():
            array[...] = self.numbers[numbers]


class GoodWriter(Writer):
    def __init__(self, path):
        self.new = NewFile(path, DataError)
        self.file = self.new.temporary.open("wb")
        self.count = 0

    def append(self, rows, keys=()):
        self.file.write(rows["x"].astype("<f8").tobytes())
        self.count += len(rows["x"])

    def close(self, commit):
        if not self.file.closed:
            self.file.write(np.array(self.count, "<i8").tobytes())
            self.file.close()
        if commit:
            self.new.commit()
        self.new.drop()


class Triples(Store):
    """Three numbers a record (.tri)."""

    endings = (".tri",)
    reader, writer = GoodReader, GoodWriter

    def open(self, path, fields=()):
        check_file(path, "a .tri file")
        return self.reader(path, fields)

    def create(self, path, fields, *, append=False):
        if append:
            raise DataError(f"{path}: nothing can be appended to a .tri file")
        return self.writer(path)


class Good(StoreSuite):
    store = Triples()

    def fields(self):
        return {"x": Field((3,), "float64")}


class Copied(StoreSuite):
    """A store that only reads: its file is written by hand."""

    store = Triples()

    def make(self, folder):
        numbers = np.arange(1.0, 22.0).reshape(7, 3)
        path = folder / "copied.tri"
        path.write_bytes(numbers.tobytes() + np.array(7).tobytes())
        return path, {"x": numbers}


class Reads(Triples):
    def create(self, path, fields, *, append=False):
        raise DataError(f"{path}: .tri files are only read")


def test_a_store_that_keeps_its_promises_passes():
    assert failures(Good) == {}
    assert "read_only" not in Good.required()

    class OnlyReads(Copied):
        store = Reads()

    assert failures(OnlyReads) == {}
    assert not {"no_place", "complete_files"} & set(OnlyReads.required())


# Stores that break one promise each

BROKEN = {}


def broken(check, words, suite=Good):
    """Note a reader, a writer or a store that must be found out by this check, in these words."""

    def note(cls):
        made = {"reader": cls} if issubclass(cls, Reader) else {"writer": cls}
        store = cls if issubclass(cls, Store) else type(cls.__name__, (Triples,), made)
        BROKEN[cls.__name__] = (store, suite, f"test_{check}", words)
        return cls

    return note


@broken("contents", "field 'x' is read with other numbers than it has")
class RoundsNumbers(GoodWriter):
    def append(self, rows, keys=()):
        super().append({"x": rows["x"].astype("float32")}, keys)


@broken("fields", r"field 'x' is declared as float32 of shape \(3,\), but read as float64")
class SaysAnotherType(GoodReader):
    def __init__(self, path, fields=()):
        super().__init__(path, fields)
        self.fields = {"x": Field((3,), "float32")}

    def rows(self, start=0):
        for row in self.numbers[start:]:
            yield {"x": row}

    def read(self, numbers, out):
        self.fields = {"x": Field((3,), "float64")}
        super().read(numbers, out)


@broken("any_order", "read by number, has other numbers")
class ReadsInOrder(GoodReader):
    def read(self, numbers, out):
        super().read(np.sort(numbers), out)


@broken("some_fields", "field 'x' has other numbers where the fields asked for are x")
class SkipsAColumnForEachField(GoodReader):
    def __init__(self, path, fields=()):
        super().__init__(path, fields)
        self.numbers = np.roll(self.numbers, len(fields), axis=1)


@broken("rows", r"rows\(1\) gives 7 records of 7")
class BeginsAtTheFirst(GoodReader):
    def rows(self, start=0):
        yield from super().rows(0)


@broken("keys", "two records have one key")
class HasOneKey(GoodReader):
    def key(self, number):
        return "a record"


@broken("missing_field", "an unknown field is not refused: raise DataError")
class TakesAnyField(GoodReader):
    def __init__(self, path, fields=()):
        super().__init__(path, fields)
        self.fields = {name: Field((3,), "float64") for name in fields or ("x",)}


OPEN = []


@broken("close", r"after close\(\) 1 more files are open")
class StaysOpen(GoodReader):
    def __init__(self, path, fields=()):
        super().__init__(path, fields)
        OPEN.append(path.open("rb"))


@broken("close", r"after close\(\) 1 more files are open")
class NeverCloses(GoodReader):
    file = None

    def __init__(self, path, fields=()):
        super().__init__(path, fields)
        self.file = path.open("rb")

    def __del__(self):
        if self.file is not None:
            self.file.close()


@broken("other_files", "a file of another format ends in ValueError instead of DataError")
class TrustsEveryFile(GoodReader):
    def __init__(self, path, fields=()):
        if path.name.startswith("bad"):
            np.frombuffer(path.read_bytes(), "<f8")
        super().__init__(path, fields)


@broken("truncated", "the first 8 of 176 bytes are read as if they were all")
class FindsItsEndInTheMiddle(GoodReader):
    def __init__(self, path, fields=()):
        if path.stat().st_size == 8:
            self.path, self.count, self.fields = path, 0, {"x": Field((3,), "float64")}
            self.numbers = np.zeros((0, 3))
        else:
            super().__init__(path, fields)


@broken("complete_files", "new.tri is there before its writer is closed")
class WritesInPlace(GoodWriter):
    def __init__(self, path):
        super().__init__(path)
        self.place = path
        self.there = path.exists()

    def append(self, rows, keys=()):
        super().append(rows, keys)
        if not self.there:
            self.place.touch()

    def close(self, commit):
        if not commit and not self.there:
            self.place.unlink(missing_ok=True)
        super().close(commit)


@broken("complete_files", r"close\(commit=False\) leaves new.tri")
class CommitsAnyway(GoodWriter):
    def close(self, commit):
        if not self.file.closed:
            super().close(True)


@broken("appended_arrays", "'x' changes in the file with the array that was appended")
class KeepsTheArrays(GoodWriter):
    def __init__(self, path):
        super().__init__(path)
        self.waiting = []

    def append(self, rows, keys=()):
        self.waiting.append(rows["x"])

    def close(self, commit):
        waiting, self.waiting = self.waiting, []
        for x in waiting:
            super().append({"x": x})
        super().close(commit)


@broken("continued", "after the same fields were appended, 'x' has 2 records")
class ForgetsWhatWasThere(Triples):
    def create(self, path, fields, *, append=False):
        return super().create(path, fields)


@broken("no_place", "a file in a folder that does not exist ends in FileNotFoundError instead of DataError")
class SaysItInPythonsWords(Triples):
    def create(self, path, fields, *, append=False):
        path.with_name("probe").touch()
        path.with_name("probe").unlink()
        return super().create(path, fields)


@broken("read_only", r"create\(\) is not refused: raise DataError", Copied)
class WritesAfterAll(Triples):
    """It says nothing of fields, but writes."""


LAST = []


@broken("two_files", "field 'x' of two files has other numbers")
class ContinuesTheLastFile(GoodReader):
    def __init__(self, path, fields=()):
        super().__init__(path, fields)
        self.numbers = self.numbers * (-1 if LAST else 1)
        LAST.append(self)

    def close(self):
        if self in LAST:
            LAST.remove(self)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_found_by_its_check(name):
    store, base, check, words = BROKEN[name]
    found = failures(type("Suite", (base,), {"store": store()}))
    for file in OPEN:
        file.close()
    assert check in found, f"{name} is not found by {check}, but by {found}"
    with pytest.raises(AssertionError, match=words):
        raise found[check]
    assert len(found) <= 4, f"{name} is found by {sorted(found)}"


def test_every_check_finds_something():
    assert {f"test_{check.name}" for check in StoreSuite.table()} == {check for _, _, check, _ in BROKEN.values()}


def test_a_store_without_a_file_is_told():
    with pytest.raises(ContractError, match=r"Nothing gives neither fields nor make\(\)") as caught:

        class Nothing(StoreSuite):
            store = Triples()

    assert caught.value.remedy.startswith('write def fields(self): return {"x": Field((3,), "float32")}')


def test_fields_that_are_no_method_are_told():
    with pytest.raises(ContractError, match=r"Some\.fields is \{'x': Field\(.*\}, but it must be a method") as caught:
        type("Some", (StoreSuite,), {"store": Triples(), "fields": {"x": Field((3,), "float64")}})
    assert caught.value.remedy == "write def fields(self): return ..."
