"""SINGA's shards as stores: their bytes, and the defects of SINGA's own reader and writer that must not come back."""

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from nacre import DataError, Field, open_records, store_of
from nacre.testing import StoreTests
from nacre_data.codecs.record import describing
from nacre_data.codecs.single_label_image_record import SingleLabelImageRecord
from nacre_data.stores.shard import Shard, Tuples

MIB = 1 << 20
FIELDS = {"data": Field((2, 3), "float32"), "label": Field((), "int64", classes=("cat", "dog"))}
SINGA = Shard(codec="SingleLabelImageRecord")
IMAGES = {"data": Field((4,), "uint8"), "label": Field((), "int64")}


class TestShard(StoreTests):
    store = Shard()
    damage_shows = False  # a file that is cut between two records shows nothing; see below

    def fields(self):
        return FIELDS


class TestRecordsOfSINGA(TestShard):
    store = SINGA

    def fields(self):
        return IMAGES


class ShardFolder(Shard):
    endings = (".shard",)


class TestFolder(TestShard):
    store = ShardFolder()


def tuple_of(key, value):
    """Return the bytes of a tuple, as the format's description says: lengths of 8 bytes, the lowest first."""
    return len(key).to_bytes(8, "little") + key + len(value).to_bytes(8, "little") + value


def image(number):
    return {"data": np.full(4, number, np.uint8), "label": np.array(number)}


def value(number):
    return SingleLabelImageRecord().encode(image(number))


def shard(path, numbers, begin=b""):
    path.write_bytes(begin + b"".join(tuple_of(f"{number:05d}".encode(), value(number)) for number in numbers))
    return path


def labels(path, **options):
    with Shard(**options).open(path) as reader:
        return [int(row["label"]) for row in reader.rows()]


def append(path, numbers, store=SINGA):
    with store.create(path, IMAGES, append=True) as writer:
        for number in numbers:
            writer.append({name: one[np.newaxis] for name, one in image(number).items()}, [f"{number:05d}"])


# Bytes


def test_golden_bytes(tmp_path):
    (tmp_path / "x.kvfile").write_bytes(bytes.fromhex("05" + "00" * 7 + "30" * 4 + "31" + "03" + "00" * 7 + "616263"))
    tuples = Tuples(tmp_path / "x.kvfile")
    assert [tuples.entries.key(0), tuples.value(0), len(tuples.entries)] == [b"00001", b"abc", 1]
    tuples.close()


def test_it_is_written_byte_for_byte(tmp_path):
    with SINGA.create(tmp_path / "train", IMAGES) as writer:
        writer.append({"data": np.array([[1] * 4, [2] * 4], np.uint8), "label": np.array([1, 2])})
    assert [*(tmp_path / "train").iterdir()] == [tmp_path / "train/shard.dat"]
    assert (tmp_path / "train/shard.dat").read_bytes() == b"".join(
        tuple_of(key, value(number)) for key, number in ((b"00000000", 1), (b"00000001", 2))
    )
    assert isinstance(store_of(tmp_path / "train"), Shard)
    assert isinstance(store_of(tmp_path / "train/shard.dat"), Shard)


def test_our_own_records_are_described_first(tmp_path):
    with Shard().create(tmp_path / "x.kvfile", FIELDS) as writer:
        writer.append({"data": np.zeros((1, 2, 3)), "label": np.zeros(1)}, ["felix"])
    assert (tmp_path / "x.kvfile").read_bytes().startswith(tuple_of(b"!fields", describing(FIELDS)))
    with Shard().open(tmp_path / "x.kvfile") as reader:
        assert reader.fields == FIELDS
        assert reader.key(0) == "felix"


def test_shards_of_singa_1_are_read(tmp_path):
    path = tmp_path / "x.kvfile"
    plain = b"sg\x00\x00" + len(value(3)).to_bytes(8, "little") + value(3)
    path.write_bytes(b"sg\x01\x00" + tuple_of(b"first", value(2)) + plain)
    assert labels(path) == [2, 3]
    with Shard().open(path) as reader:
        assert [reader.key(0), reader.key(1)] == ["first", "record 1"]
    with pytest.raises(DataError, match=r"SINGA 1\.x are only read"):
        append(path, [4])
    for end in range(1, path.stat().st_size):
        path.write_bytes((b"sg\x01\x00" + tuple_of(b"first", value(2)) + plain)[:end])
        try:
            assert labels(path) == [2]
            assert end == 4 + len(tuple_of(b"first", value(2)))
        except DataError as error:
            assert str(path) in str(error)  # noqa: PT017
    path.write_bytes(b"sg\x01\x00" + tuple_of(b"first", value(2)) + b"xx\x00\x00" + tuple_of(b"a", value(3)))
    with pytest.raises(DataError, match="record 1"):
        labels(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(some.lists(some.tuples(some.binary(max_size=300), some.binary(min_size=1, max_size=20_000)), max_size=10))
def test_any_tuples_are_indexed(tmp_path, pairs):
    path = tmp_path / "x.kvfile"
    path.write_bytes(b"".join(tuple_of(*pair) for pair in pairs))
    tuples = Tuples(path)
    assert [(tuples.entries.key(number), tuples.value(number)) for number in range(len(tuples.entries))] == pairs
    assert tuples.torn == ""
    tuples.close()


# Torn tails


def test_truncated_after_each_byte(tmp_path):
    """A torn record is told with its number, or left out as told, and never read."""
    path = shard(tmp_path / "x.kvfile", range(3))
    data, each = path.read_bytes(), len(tuple_of(b"00000", value(0)))
    for end in range(len(data)):
        path.write_bytes(data[:end])
        complete, torn = divmod(end, each)
        if torn:
            with pytest.raises(DataError, match=rf"x\.kvfile: record {complete} at byte {complete * each} is cut"):
                labels(path)
        if complete:
            assert labels(path, torn_tail=True) == [*range(complete)]
        else:
            with pytest.raises(DataError, match=r"record 0 at byte 0 is cut|it has no records"):
                labels(path, torn_tail=True)


def test_a_torn_tail_is_cut_before_more_is_appended(tmp_path):
    """The tail is longer than what is appended: nothing of it may stay behind."""
    path = shard(tmp_path / "x.kvfile", range(2))
    complete = path.read_bytes()
    path.write_bytes(complete + tuple_of(b"torn" * 100, b"x" * 1000)[:-1])
    with pytest.warns(UserWarning, match=r"record 2 at byte .* is cut.*; its 1,415 bytes are cut off"):
        append(path, [2])
    assert path.read_bytes() == complete + tuple_of(b"00002", value(2))


def test_a_file_that_is_cut_in_its_last_value_is_not_counted_as_complete(tmp_path):
    path = shard(tmp_path / "x.kvfile", range(3))
    os.truncate(path, path.stat().st_size - 1)
    with Shard(torn_tail=True).open(path) as reader:
        assert reader.count == 2
    with pytest.warns(UserWarning, match="record 2"):
        append(path, [7])
    assert labels(path) == [0, 1, 7]


def test_nothing_is_left_of_what_was_not_committed(tmp_path):
    path = shard(tmp_path / "x.kvfile", range(2))
    before = path.read_bytes()
    writer = SINGA.create(path, IMAGES, append=True)
    writer.append({"data": np.zeros((1, 4)), "label": np.zeros(1)})
    writer.flush()
    writer.close(commit=False)
    assert path.read_bytes() == before
    SINGA.create(tmp_path / "new.kvfile", IMAGES, append=True).close(commit=False)
    assert not (tmp_path / "new.kvfile").exists()


# Keys


def test_long_keys_are_kept(tmp_path):
    """SINGA read keys into 256 bytes when it continued a shard."""
    path, key = tmp_path / "x.kvfile", "k" * 5000
    for number, name in ((1, key), (2, key + "2")):
        with SINGA.create(path, IMAGES, append=True) as writer:
            writer.append({"data": np.zeros((1, 4)), "label": np.array([number])}, [name])
    with Shard().open(path) as reader:
        assert [reader.key(0), reader.key(1)] == [key, key + "2"]
    assert labels(path) == [1, 2]


@pytest.mark.parametrize("codec", ["SingleLabelImageRecord", "Record"])
def test_a_key_is_refused_the_second_time(tmp_path, codec):
    """SINGA forgot the keys of the same run."""
    path, store = tmp_path / "x.kvfile", Shard(codec=codec)
    with pytest.raises(DataError, match="record 2 has the key '00001'"):
        append(path, [0, 1, 1], store)
    append(path, [0, 1], store)
    with pytest.raises(DataError, match="record 2 has the key '00000'"):
        append(path, [0], store)
    assert labels(path) == [0, 1]


def test_other_fields_are_not_appended(tmp_path):
    path = tmp_path / "x.kvfile"
    append(path, [0], Shard())
    with pytest.raises(DataError, match="'data' is .*, but to be appended is"):  # noqa: RUF043
        Shard().create(path, {"data": Field((5,), "uint8"), "label": Field((), "int64")}, append=True)
    with pytest.raises(DataError, match="'data' is .*, but to be appended is"):  # noqa: RUF043
        Shard().create(path, {"data": Field((4,), "float32"), "label": Field((), "int64")}, append=True)


def test_another_format_is_not_appended(tmp_path):
    path = tmp_path / "x.kvfile"
    append(path, [0], SINGA)
    with pytest.raises(DataError, match="in the format SingleLabelImageRecord, but Record is to be") as caught:
        append(path, [1], Shard())
    assert caught.value.remedy == 'give codec = "SingleLabelImageRecord"'
    assert labels(path) == [0]


# Damage, size, kills


def test_what_is_no_shard_is_told(tmp_path):
    path = tmp_path / "x.kvfile"
    for data in (b"\x01", b"x" * 5000, tuple_of(b"a", b""), tuple_of(b"a", b"b") + b"\xff" * 20):
        path.write_bytes(data)
        with pytest.raises(DataError, match="is cut, or this is no shard"):
            labels(path)
        path.write_bytes(b"")
    with pytest.raises(DataError, match="it has no records"):
        labels(path)
    path.write_bytes(tuple_of(b"a", b"no record"))
    with pytest.raises(DataError, match="a: its value, 9 bytes, is in none of the formats"):
        labels(path)


def test_every_changed_byte_of_our_own_records_is_noticed(tmp_path):
    path = tmp_path / "x.kvfile"
    with Shard().create(path, FIELDS) as writer:
        writer.append({"data": np.ones((2, 2, 3)), "label": np.zeros(2)}, ["a", "b"])
    data, unnoticed = path.read_bytes(), []
    for place in range(len(data)):
        bad = bytearray(data)
        bad[place] ^= 1
        path.write_bytes(bad)
        try:
            with Shard().open(path) as reader:
                list(reader.rows())
                unnoticed.append(reader.key(0) + reader.key(1))
        except DataError:
            continue
    assert [found for found in unnoticed if found == "ab"] == []  # what remains are keys, which are names


def test_the_record_that_describes_the_others_is_never_one_of_them(tmp_path):
    with Shard().create(tmp_path / "x.kvfile", FIELDS) as writer:
        writer.append({"data": np.zeros((1, 2, 3)), "label": np.zeros(1)})
    data = (tmp_path / "x.kvfile").read_bytes().replace(b"!fields", b"?fields")
    (tmp_path / "x.kvfile").write_bytes(data)
    with pytest.raises(DataError, match=r"x\.kvfile: \?fields: it describes the other records, but its key is"):
        labels(tmp_path / "x.kvfile")


def test_memory_is_bounded(tmp_path):
    path, rows = tmp_path / "x.kvfile", np.zeros((4, MIB), np.uint8)
    tracemalloc.start()
    with Shard().create(path, {"data": Field((MIB,), "uint8")}) as writer:
        for _ in range(30):
            writer.append({"data": rows})
    with Shard().open(path) as reader:
        for _ in range(2):
            reader.read(np.arange(4), {"data": rows})
    assert tracemalloc.get_traced_memory()[1] < 64 * MIB
    tracemalloc.stop()


KILLED = """
import os
from pathlib import Path
import numpy as np
from nacre import Field
from nacre_data import Shard

writer = Shard().create(Path({path!r}), {{"x": Field((500,), "float64")}}, append=True)
first = writer.count
for number in range(first, first + {count}):
    writer.append({{"x": np.full((1, 500), number)}})
    if number == first + {count} - 3:
        writer.flush()
writer.place.stream.raw.write(b"half a record")
os.kill(os.getpid(), 9)
"""


def test_what_was_flushed_survives_a_kill(tmp_path):
    path = tmp_path / "x"
    for count in (4, 9):
        script = KILLED.format(path=str(path), count=count)
        assert subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=False).returncode == -9
    with pytest.raises(DataError, match="is cut") as caught:
        Shard().open(path)
    assert "append=True" in caught.value.remedy
    with open_records([path], store=Shard(torn_tail=True)) as reader:
        found = [row["x"][0] for row in reader.rows()]
    assert found == [*range(len(found))]
    assert len(found) >= 9


def test_a_shard_without_records_is_begun(tmp_path):
    path = Path(tmp_path / "x.kvfile")
    for numbers in ([], [], [1]):
        append(path, numbers, Shard())
    assert labels(path) == [1]
