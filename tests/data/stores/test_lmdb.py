"""LMDB as a store: what the library writes is read without it, and what is damaged is told."""

import os
import subprocess
import sys
import tracemalloc
from contextlib import closing

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from nacre import DataError, Field, open_records, store_of
from nacre.testing import StoreTests
from nacre_data.codecs.datum import Datum
from nacre_data.stores.lmdb import LMDB
from nacre_data.stores.lmdb_pages import Pages

lmdb = pytest.importorskip("lmdb")
MIB = 1 << 20
FIELDS = {"data": Field((2, 3), "float32"), "label": Field((), "int64", classes=("cat", "dog"))}


class TestLMDB(StoreTests):
    store = LMDB()

    def fields(self):
        return FIELDS


class TestOneField(TestLMDB):
    def fields(self):
        return {"x": Field((), "uint8")}


class TestLargeValues(TestLMDB):
    def fields(self):
        return {"data": Field((50, 50), "float64")}


class TestDatum(TestLMDB):
    store = LMDB(codec="Datum")

    def fields(self):
        return {"data": Field((2, 3, 4), "uint8"), "label": Field((), "int64")}


class TestSINGA(TestLMDB):
    store = LMDB(codec="SingleLabelImageRecord")

    def fields(self):
        return {"data": Field((5,), "float32"), "label": Field((), "int64")}


class SingleFile(LMDB):
    endings = (".mdb",)


class TestSingleFile(TestLMDB):
    store = SingleFile()
    step = 97


class TestLargeValuesInASingleFile(TestLargeValues):
    store = SingleFile()
    step = 997


def caffe(path, records, **options):
    """Write records as Caffe's tools do."""
    with lmdb.open(str(path), map_size=1 << 26, **options) as environment, environment.begin(write=True) as transaction:
        for key, record in records.items():
            transaction.put(key.encode(), Datum().encode(record))


def pixels(count, shape=(3, 4, 5)):
    return np.random.default_rng(0).integers(0, 256, (count, *shape), np.uint8)


def pairs(path):
    with closing(Pages(path / "data.mdb")) as pages:
        return [(pages.entries.key(number), pages.value(number)) for number in range(len(pages.entries))]


# What others write


def test_what_caffe_writes_is_read(tmp_path):
    images = pixels(300)
    records = {f"{n:08d}_cat/{n}.jpg": {"data": image, "label": np.array(n % 7)} for n, image in enumerate(images)}
    caffe(tmp_path / "train_lmdb", records)
    assert isinstance(store_of(tmp_path / "train_lmdb"), LMDB)
    with open_records([tmp_path / "train_lmdb"]) as reader:
        assert reader.fields == {"data": Field((3, 4, 5), "uint8"), "label": Field((), "int64")}
        assert reader.count == 300
        assert reader.key(17) == "00000017_cat/17.jpg"
        out = {"data": np.empty((3, 3, 4, 5), np.uint8), "label": np.empty(3, np.int64)}
        reader.read(np.array([299, 0, 17]), out)
        np.testing.assert_array_equal(out["data"], images[[299, 0, 17]])
        assert out["label"].tolist() == [299 % 7, 0, 17 % 7]
    with open_records([tmp_path / "train_lmdb"], ["image", "class"]) as reader:
        assert [*reader.fields] == ["image", "class"]
    with open_records([tmp_path / "train_lmdb"], ["label"]) as reader:
        assert [*reader.fields] == ["label"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    some.dictionaries(
        some.binary(min_size=1, max_size=200), some.integers(1, 3).flatmap(lambda n: some.binary(max_size=10**n * 9))
    ),
    some.sets(some.integers(0, 30)),
)
def test_the_pages_of_any_database_are_read(tmp_path_factory, entries, removed):
    path = tmp_path_factory.mktemp("any")
    with lmdb.open(str(path), map_size=1 << 26) as environment:
        for start in range(0, len(entries), 7):
            with environment.begin(write=True) as transaction:
                for key, value in [*entries.items()][start : start + 7]:
                    transaction.put(key, value)
        with environment.begin(write=True) as transaction:
            for number in removed & set(range(len(entries))):
                transaction.delete([*entries][number])
        with environment.begin() as transaction:
            wanted = [*transaction.cursor()]
    assert pairs(path) == wanted


def test_many_entries_and_deep_trees_are_read(tmp_path):
    entries = {f"{n * 7919 % 100_003:0200d}".encode(): bytes([n % 251]) * (n % 40) for n in range(3000)}
    with lmdb.open(str(tmp_path), map_size=1 << 26) as environment, environment.begin(write=True) as transaction:
        for key, value in entries.items():
            transaction.put(key, value)
        assert transaction.stat()["depth"] >= 3
    assert pairs(tmp_path) == sorted(entries.items())


def test_what_nacre_writes_the_library_reads(tmp_path):
    with LMDB(codec="Datum").create(tmp_path / "x.lmdb", {"data": Field((1, 2, 2), "uint8")}) as writer:
        writer.append({"data": np.arange(8, dtype=np.uint8).reshape(2, 1, 2, 2)}, ["a", "b"])
    assert [path.name for path in (tmp_path / "x.lmdb").iterdir()] == ["data.mdb"]
    with lmdb.open(str(tmp_path / "x.lmdb"), readonly=True, lock=False) as environment, environment.begin() as view:
        assert [*view.cursor()] == [
            (b"0000000000_a", bytes.fromhex("08 01 10 02 18 02 22 04 00 01 02 03")),
            (b"0000000001_b", bytes.fromhex("08 01 10 02 18 02 22 04 04 05 06 07")),
        ]


def test_an_encoded_picture_stays_bytes_for_its_codec(tmp_path):
    image = b"\x89PNG\r\n\x1a\n"
    value = b"\x22\x08" + image + b"\x28\x03\x38\x01"
    with lmdb.open(str(tmp_path / "x")) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"0", value)
    with LMDB().open(tmp_path / "x") as reader:
        assert reader.fields["data"] == Field(None, "uint8", codec="Picture")
        assert [*reader.rows()] == [{"data": image, "label": 3}]


def test_pictures_are_copied_as_they_are(tmp_path):
    fields = {"x": Field(None, "uint8", codec="Picture"), "label": Field((), "int64", classes=("cat", "dog"))}
    images = [b"\xff\xd8\xff one", b"\xff\xd8\xff another one"]
    for codec in ("Record", "Datum"):
        path = tmp_path / f"{codec}.lmdb"
        with LMDB(codec=codec).create(path, fields) as writer:
            writer.append({"x": images, "label": np.array([1, 0])})
        with LMDB().open(path, ["x", "label"]) as reader:
            assert reader.fields["x"] == fields["x"]
            assert reader.fields["label"].classes == (("cat", "dog") if codec == "Record" else ())
            assert [row["x"] for row in reader.rows()] == images


# Folders that cannot be written, and changes meanwhile


def test_reading_changes_nothing_in_the_folder(tmp_path):
    caffe(tmp_path / "x", {"0": {"data": pixels(1)[0]}}, lock=False)
    before = [(file.name, file.stat().st_mtime_ns) for file in (tmp_path / "x").iterdir()]
    (tmp_path / "x").chmod(0o500)
    (tmp_path / "x/data.mdb").chmod(0o400)
    with open_records([tmp_path / "x"]) as reader:
        assert reader.count == 1
        assert [(file.name, file.stat().st_mtime_ns) for file in (tmp_path / "x").iterdir()] == before
    (tmp_path / "x").chmod(0o700)


def test_a_change_while_it_is_read_is_told(tmp_path):
    path = tmp_path / "x"
    caffe(path, {str(n): {"data": pixels(1)[0]} for n in range(9)})
    with open_records([path]) as reader:
        os.utime(path / "data.mdb", ns=(1, 1))
        with pytest.raises(DataError, match="was changed while record 3"):
            reader.read(np.array([3]), {"data": np.empty((1, 3, 4, 5), np.uint8)})


def test_a_file_that_is_cut_while_it_is_read_ends_in_a_sentence(tmp_path):
    path = tmp_path / "x"
    caffe(path, {str(n): {"data": pixels(1, (3, 40, 50))[0]} for n in range(9)})
    with open_records([path]) as reader:
        os.truncate(path / "data.mdb", 8192)
        with pytest.raises(DataError, match="was cut while"):
            reader.read(np.array([8]), {"data": np.empty((1, 3, 40, 50), np.uint8)})


# Damage


def small(path):
    """Write a small database with large and small values."""
    images = [pixels(1, (1, 1, n))[0] for n in (30, 3000, 40, 5000)]
    caffe(path, {f"{n:04d}": {"data": image, "label": np.array(n)} for n, image in enumerate(images)})
    return path / "data.mdb", images


def test_a_database_that_is_truncated_after_any_byte_is_refused(tmp_path):
    file, _ = small(tmp_path / "whole")
    data, cut = file.read_bytes(), tmp_path / "cut.mdb"
    for end in range(0, len(data), 61):
        cut.write_bytes(data[:end])
        with pytest.raises(DataError, match=r"cut\.mdb"):
            LMDB().open(cut)


def test_any_changed_byte_ends_in_a_sentence_or_in_numbers(tmp_path):
    file, _ = small(tmp_path / "whole")
    data, changed = file.read_bytes(), tmp_path / "changed.mdb"
    random, past, told = np.random.default_rng(0), 0, []
    places = [*range(200), *range(4096, 4296), *random.integers(0, len(data), 600).tolist()]
    for place in places:
        bad = bytearray(data)
        bad[place] ^= int(random.integers(1, 256))
        changed.write_bytes(bad)
        try:
            with LMDB().open(changed) as reader:
                past += 1
                for row in reader.rows():
                    assert row["data"].size <= len(data)
        except DataError as error:
            told.append(str(error))
    assert past > len(places) // 3
    assert [words for words in told if str(changed) not in words] == []


def test_loops_and_wrong_pages_are_refused(tmp_path):
    """A branch whose every node leads to the same leaf, or to itself, ends soon."""
    entries = {f"{n:0200d}".encode(): b"x" for n in range(200)}
    with lmdb.open(str(tmp_path / "x"), map_size=MIB) as environment, environment.begin(write=True) as transaction:
        for key, value in entries.items():
            transaction.put(key, value)
    file = tmp_path / "x/data.mdb"
    data = file.read_bytes()
    pages = [data[start : start + 4096] for start in range(0, len(data), 4096)]
    (branch,) = [number for number, page in enumerate(pages) if page[10] & 1 and not page[10] & 8]
    for target in (branch, 2**40, 0, 3):
        bad = bytearray(data)
        start = branch * 4096
        for place in range(start + 16, start + int.from_bytes(data[start + 12 : start + 14], "little"), 2):
            node = start + int.from_bytes(data[place : place + 2], "little")
            bad[node : node + 6] = target.to_bytes(6, "little")
        file.write_bytes(bad)
        with pytest.raises(DataError, match="damaged"):
            Pages(file)


def test_values_that_overlap_are_refused(tmp_path):
    """Else a small file could declare thousands of large records."""
    with lmdb.open(str(tmp_path / "x")) as environment, environment.begin(write=True) as transaction:
        for number in range(4):
            transaction.put(b"%d" % number, b"x" * 5000)
    file = tmp_path / "x/data.mdb"
    data = bytearray(file.read_bytes())
    leaf = next(start for start in range(8192, len(data), 4096) if data[start + 10] & 2)
    for place in range(leaf + 16, leaf + int.from_bytes(data[leaf + 12 : leaf + 14], "little"), 2):
        node = leaf + int.from_bytes(data[place : place + 2], "little")
        data[node : node + 4] = (12_000).to_bytes(4, "little")
        data[node + 9 : node + 17] = (3).to_bytes(8, "little")  # the page of all values
    file.write_bytes(data)
    with pytest.raises(DataError, match="values overlap"):
        Pages(file)


def test_what_is_no_plain_database_is_told(tmp_path):
    with lmdb.open(str(tmp_path / "named"), max_dbs=2) as environment:
        environment.open_db(b"inner")
    with pytest.raises(DataError, match="named databases, such as 'inner'"):
        LMDB().open(tmp_path / "named")
    with lmdb.open(str(tmp_path / "empty")):
        pass
    with pytest.raises(DataError, match="it has no records"):
        LMDB().open(tmp_path / "empty")
    with lmdb.open(str(tmp_path / "odd")) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"a", b"no record")
    with pytest.raises(DataError, match="odd: a: its value, 9 bytes, is in none of the formats"):
        LMDB().open(tmp_path / "odd")
    with pytest.raises(DataError, match="this is no"):
        LMDB(codec="Datum").open(tmp_path / "odd")


def test_records_that_differ_are_told(tmp_path):
    one, other = ({"data": pixels(1)[0], "label": np.array(1)}, {"data": pixels(1, (1, 2, 2))[0], "label": np.array(1)})
    caffe(tmp_path / "shape", {"a": one, "b": other})
    with LMDB().open(tmp_path / "shape") as reader, pytest.raises(DataError, match=r"shape: b: 'data' has the shape"):
        list(reader.rows())
    caffe(tmp_path / "label", {"a": one, "b": {"data": one["data"]}})
    with LMDB().open(tmp_path / "label") as reader, pytest.raises(DataError, match="label: b: it has no 'label'"):
        list(reader.rows())


def test_small_records_do_not_make_room_for_large_ones(tmp_path):
    """The first record is large: nobody makes room for thousands of its size."""
    caffe(tmp_path / "x", {"a": {"data": pixels(1, (3, 400, 400))[0]}, "b": {"data": pixels(1, (1, 1, 1))[0]}})
    with pytest.raises(DataError, match=r"x: b: it has 9 bytes, but the others' numbers have 480,000"):
        LMDB().open(tmp_path / "x")


def test_labels_that_count_no_class_stay(tmp_path):
    """Such as those that a loss ignores, and maps of classes."""
    fields = {"label": Field((), "int64", classes=("a", "b")), "map": Field((2,), "int8", classes=("c",))}
    with LMDB().create(tmp_path / "x.lmdb", fields) as writer:
        writer.append({"label": np.array([-1, 255]), "map": np.array([[0, -1], [9, 0]])})
    with open_records([tmp_path / "x.lmdb"]) as reader:
        assert [(int(row["label"]), row["map"].tolist()) for row in reader.rows()] == [(-1, [0, -1]), (255, [9, 0])]


# Writing


def test_the_map_grows(tmp_path):
    with LMDB().create(tmp_path / "x.lmdb", {"data": Field((1 << 18,), "float32")}) as writer:
        for _ in range(40):
            writer.append({"data": np.ones((1, 1 << 18), np.float32)})
    with open_records([tmp_path / "x.lmdb"]) as reader:
        assert reader.count == 40


def test_memory_is_bounded(tmp_path):
    path, rows = tmp_path / "x.lmdb", np.zeros((4, 1 << 20), np.uint8)
    tracemalloc.start()
    with LMDB().create(path, {"data": Field((1 << 20,), "uint8")}) as writer:
        for _ in range(30):
            writer.append({"data": rows})
    with LMDB().open(path) as reader:
        for _ in range(2):
            reader.read(np.arange(4), {"data": rows})
    assert tracemalloc.get_traced_memory()[1] < 64 * MIB
    tracemalloc.stop()


def test_a_database_is_continued(tmp_path):
    for codec, first in (("", 3), ("", 5), ("Datum", 2)):
        path = tmp_path / f"{codec}.lmdb"
        fields = {"data": Field((1, 2, 2), "uint8"), "label": Field((), "int32")}
        with LMDB(codec=codec).create(path, fields, append=True) as writer:
            writer.append({"data": np.full((first, 1, 2, 2), first), "label": np.arange(first)})
    with open_records([tmp_path / ".lmdb"]) as reader:
        assert [int(row["label"]) for row in reader.rows()] == [0, 1, 2, 0, 1, 2, 3, 4]
        assert reader.key(7) == "0000000007"
    with pytest.raises(DataError, match=r"'data' is .*uint8.*, but to be appended"):
        LMDB().create(tmp_path / ".lmdb", {"data": Field((1, 2, 2), "float32")}, append=True)


def test_a_database_without_records_is_begun(tmp_path):
    for records in (0, 0, 2):
        with LMDB().create(tmp_path / "x.lmdb", FIELDS, append=True) as writer:
            writer.append({"data": np.zeros((records, 2, 3)), "label": np.zeros(records, np.int64)})
    with LMDB().open(tmp_path / "x.lmdb") as reader:
        assert [reader.count, reader.key(0)] == [2, "0000000000"]


def test_what_caffe_wrote_is_continued_by_its_numbers(tmp_path):
    caffe(tmp_path / "x", {"00007": {"data": pixels(1)[0]}})
    with LMDB(codec="Datum").create(tmp_path / "x", {"data": Field((3, 4, 5), "uint8")}, append=True) as writer:
        writer.append({"data": pixels(1)}, ["b.jpg"])
    with open_records([tmp_path / "x"]) as reader:
        assert [reader.key(0), reader.key(1)] == ["00007", "00008_b.jpg"]
    caffe(tmp_path / "y", {"z": {"data": pixels(1)[0]}})
    with pytest.raises(DataError, match="last key is 'z', which is no number"):
        LMDB(codec="Datum").create(tmp_path / "y", {"data": Field((3, 4, 5), "uint8")}, append=True)
    caffe(tmp_path / "w", {"9": {"data": pixels(1)[0]}})
    with (
        pytest.raises(DataError, match="keys have 1 digits, and all are used"),
        LMDB(codec="Datum").create(tmp_path / "w", {"data": Field((3, 4, 5), "uint8")}, append=True) as writer,
    ):
        writer.append({"data": pixels(1)})


def test_a_name_that_is_too_long_is_told(tmp_path):
    with (
        pytest.raises(DataError, match="has 611 bytes, but 511 are possible"),
        LMDB().create(tmp_path / "x.lmdb", FIELDS) as writer,
    ):
        writer.append({"data": np.zeros((1, 2, 3)), "label": np.zeros(1)}, ["x" * 600])


def test_without_the_library_the_remedy_is_told(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(DataError, match="needs the library lmdb") as caught:
        LMDB().create(tmp_path / "x.lmdb", FIELDS)
    assert caught.value.remedy == 'pip install "nacre[lmdb]"'
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os
from pathlib import Path
import numpy as np
from nacre import Field
from nacre_data import LMDB

writer = LMDB().create(Path({path!r}), {{"x": Field((5,), "float64")}}, append=True)
for number in range({count}):
    writer.append({{"x": np.full((1, 5), number)}})
    if number == {count} - 3:
        writer.flush()
os.kill(os.getpid(), 9)
"""


def test_what_was_flushed_survives_a_kill(tmp_path):
    for count in (4, 9):
        script = KILLED.format(path=str(tmp_path / "x.lmdb"), count=count)
        assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    with open_records([tmp_path / "x.lmdb"]) as reader:
        assert [row["x"][0] for row in reader.rows()] == [0, 1, *range(7)]
