"""Tar archives in WebDataset's layout as stores."""

import gzip
import io
import tarfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from nacre import DataError, Field, open_records, store_of
from nacre.testing import StoreTests
from nacre_data.stores.tar import Tar

MIB = 1 << 20
FIELDS = {"data": Field((2, 3), "float32"), "label": Field((), "int64", classes=("cat", "dog")), "x": Field((), "int8")}
JPEG, PNG = b"\xff\xd8\xff one", b"\x89PNG\r\n\x1a\n two"


class TestTar(StoreTests):
    store = Tar()
    step = 61
    damage_shows = False  # cut in the zeros behind its end, an archive is complete; see below

    def fields(self):
        return FIELDS


class TestOneField(TestTar):
    step = 61

    def fields(self):
        return {"mask": Field((2,), "uint8")}


def archive(path, members, **options):
    """Write members, {name: bytes}, with Python's library."""
    with tarfile.open(path, "w", **options) as file:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))
    return path


def npy(array):
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def rows(path, fields=()):
    with Tar().open(path, fields) as reader:
        return [*reader.rows()]


# The layout


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_what_webdataset_writes_is_read(tmp_path, form):
    deep = "very/" * 30  # longer than a header has room for
    deep = deep if form != tarfile.USTAR_FORMAT else "very/"
    files = (("cls", b"7\n"), ("jpg", JPEG), ("json", b"{}"))
    members = {f"{deep}{number}.{ending}": data for number in range(3) for ending, data in files}
    path = archive(tmp_path / "x.tar", members, format=form)
    assert isinstance(store_of(path), Tar)
    with Tar().open(path) as reader:
        assert reader.fields == {
            "data": Field(None, "uint8", codec="Picture"),
            "label": Field((), "int64"),
            "json": Field(None, "uint8"),
        }
        assert [reader.count, reader.key(2)] == [3, f"{deep}2"]
        out = {"data": [None] * 2, "label": np.empty(2, np.int64), "json": [None] * 2}
        reader.read(np.array([2, 0]), out)
        assert out["data"] == [JPEG, JPEG]
        assert out["label"].tolist() == [7, 7]
        assert bytes(out["json"][0]) == b"{}"


def test_fields_are_named_between_key_and_ending(tmp_path):
    members = {"a.JPG": JPEG, "a.mask.png": PNG, "a.box.npy": npy(np.array([1.5, 2])), "a.n.id": b"-7"}
    path = archive(tmp_path / "x.tar", members)
    (row,) = rows(path)
    assert [*row] == ["data", "mask", "box", "n"]
    assert [row["data"], row["mask"], row["box"].tolist(), row["n"]] == [JPEG, PNG, [1.5, 2], -7]
    assert [*rows(path, ["box", "mask"])[0]] == ["box", "mask"]
    with pytest.raises(DataError, match="no field 'other'; they have: data, mask, box, n"):
        rows(path, ["other"])


def test_fields_without_names_are_named_by_what_is_wanted(tmp_path):
    path = archive(tmp_path / "x.tar", {"a.cls": b"3", "a.png": PNG})
    assert rows(path, ["image", "class"]) == [{"image": PNG, "class": 3}]
    assert rows(path, ["image"]) == [{"image": PNG}]
    assert rows(path, ["label"]) == [{"label": 3}]
    with pytest.raises(DataError, match="no field 'more'"):
        rows(path, ["image", "class", "more"])


def test_pictures_of_several_formats_are_one_field(tmp_path):
    assert rows(archive(tmp_path / "x.tar", {"a.jpg": JPEG, "b.png": PNG})) == [{"data": JPEG}, {"data": PNG}]


def test_what_is_no_part_of_a_record_is_ignored(tmp_path):
    members = {"._a.jpg": b"", ".hidden/a.jpg": b"", "__about__/a.jpg": b"", "README": b"", "./a.jpg": JPEG}
    assert rows(archive(tmp_path / "x.tar", members)) == [{"data": JPEG}]


def test_the_library_reads_what_is_written(tmp_path):
    fields = {"data": Field(None, "uint8", codec="Picture"), "label": Field((), "int64", classes=("cat", "dog"))}
    path = tmp_path / "x.tar"
    with Tar().create(path, fields) as writer:
        writer.append({"data": [JPEG, PNG], "label": np.array([1, 0])}, ["cat/1.jpg", ""])
    with tarfile.open(path) as file:
        found = {member.name: file.extractfile(member).read() for member in file}
    about = b'{"label": {"classes": ["cat", "dog"], "varies": false}}'
    assert found == {
        "__nacre__/fields.json": about,
        "00000000_cat_1_jpg.jpg": JPEG,
        "00000000_cat_1_jpg.cls": b"1",
        "00000001.png": PNG,
        "00000001.cls": b"0",
    }
    with Tar().open(path) as reader:
        assert reader.fields == fields


def test_shapes_that_differ_are_kept(tmp_path):
    path, arrays = tmp_path / "x.tar", [np.arange(3.0), np.ones((2, 2))]
    with Tar().create(path, {"x": Field(None, "float64")}) as writer:
        writer.append({"x": arrays})
    assert [row["x"].tolist() for row in rows(path)] == [one.tolist() for one in arrays]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(some.lists(some.tuples(some.integers(-(1 << 63), (1 << 63) - 1), some.binary(max_size=3000)), min_size=1))
def test_any_records_come_back(tmp_path, records):
    members = {}
    for number, (label, data) in enumerate(records):
        members |= {f"{number}.cls": str(label).encode(), f"{number}.bin": data}
    found = rows(archive(tmp_path / "x.tar", members))
    assert [(row["label"], bytes(row["bin"])) for row in found] == records


# Bad archives


def test_truncated_after_each_byte(tmp_path):
    """All that is cut before the two empty blocks at its end is told."""
    whole = archive(tmp_path / "whole.tar", {"a.cls": b"1", "b.cls": b"2"})
    data, path = whole.read_bytes(), tmp_path / "x.tar"
    for end in range(4 * 512 + 512):
        path.write_bytes(data[:end])
        with pytest.raises(DataError, match=r"x\.tar"):
            rows(path)


def test_any_changed_byte_ends_in_a_sentence_or_in_numbers(tmp_path):
    data = archive(tmp_path / "whole.tar", {"a.cls": b"1", "a.npy": npy(np.arange(4))}).read_bytes()[:2560]
    path, random, past = tmp_path / "x.tar", np.random.default_rng(0), 0
    for place in range(len(data)):
        bad = bytearray(data)
        bad[place] ^= int(random.integers(1, 256))
        path.write_bytes(bad + bytes(1024))
        try:
            found = rows(path)
        except DataError:
            continue
        past += 1
        assert all(row["data"].size <= 1000 for row in found if "data" in row)
    assert past > 100


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({}, "no records"),
        ({"a.cls": b"1", "b.jpg": JPEG}, "record 'b' has no file for 'label'"),
        ({"a.jpg": JPEG, "a.png": PNG}, "record 'a' has two files for one field, 'data'"),
        (
            {"a.png": PNG, "a.npy": npy(np.ones(2)), "a.cls": b"1"},
            "record 'a' has two files for one field, 'data'\n  name the fields",
        ),
        ({"a.png": PNG, "a.cls": b"1", "a.label.id": b"2"}, "record 'a' has two files for one field, 'label'"),
        ({"a.cls": b"1", "b.cls": b"x"}, "b: 'label' is b'x'"),
        ({"a.cls": b"9" * 30}, "whole number of 64 bits"),
        ({"a.cls": b"9" * 3000}, "whole number of 64 bits"),
        ({"a.npy": npy(np.zeros(3)), "b.npy": npy(np.zeros((3, 1)))}, r"b: 'data' has the shape \(3, 1\)"),
        ({"a.npy": npy(np.zeros(3000)), "b.npy": npy(np.zeros(3))}, "b: 'data' has 152 bytes, but"),
        ({"a.npy": npy(np.zeros(3))[:-1]}, "a: its array: damaged"),
        ({"a.npy": b"no array"}, "a: its array: damaged"),
        ({"a.npy": npy(np.array(["x"]))}, "a: its array of shape"),
        ({"__nacre__/fields.json": b"[", "a.cls": b"1"}, r"fields\.json' is damaged"),
        ({"__nacre__/fields.json": b'{"label": {"classes": [1]}}', "a.cls": b"1"}, r"fields\.json' is damaged"),
    ],
)
def test_wrong_archives_are_told(tmp_path, members, words):
    path = archive(tmp_path / "x.tar", members)
    with pytest.raises(DataError, match=words) as caught:
        rows(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(tmp_path, kind):
    (tmp_path / "secret.jpg").write_bytes(JPEG)
    with tarfile.open(tmp_path / "x.tar", "w") as file:
        member = tarfile.TarInfo("a.jpg")
        member.type, member.linkname = kind, "../secret.jpg"
        file.addfile(member)
    with pytest.raises(DataError, match=r"'a\.jpg' is a link or a special file"):
        rows(tmp_path / "x.tar")


def test_negative_sizes_and_chains_of_headers_end(tmp_path):
    """A negative size would lead back to the same header for ever."""
    path = tmp_path / "x.tar"
    for form in (tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME):
        member = tarfile.TarInfo("a.cls")
        member.type = form
        header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
        header[124:136] = b"\xff" * 10 + b"\xfe\x00"  # -512
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        path.write_bytes(bytes(header) * 20 + bytes(1024))
        with pytest.raises(DataError, match=r"x\.tar"):
            rows(path)
    chain = tarfile.TarInfo("x")
    chain.type = tarfile.XHDTYPE
    path.write_bytes(chain.tobuf() * 5000 + bytes(1024))
    with pytest.raises(DataError, match="no tar archive, or it is damaged"):
        rows(path)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_header_that_says_it_is_long_takes_no_memory(tmp_path, kind):
    """Python makes room for so many bytes as are asked for."""
    member = tarfile.TarInfo("a.cls")
    member.type, member.size = kind, 1 << 33
    path = tmp_path / "x.tar"
    path.write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"x\.tar"):
            rows(path)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


def test_compressed_archives_are_refused(tmp_path):
    path = tmp_path / "x.tar.gz"
    path.write_bytes(gzip.compress(archive(tmp_path / "x.tar", {"a.cls": b"1"}).read_bytes()))
    with pytest.raises(DataError, match="compressed archive") as caught, open_records([path]):
        pass
    assert "gunzip" in caught.value.remedy
    with pytest.raises(DataError, match="compressed archive"):
        Tar().create(path, FIELDS)
    path.rename(tmp_path / "y.tar")
    with pytest.raises(DataError, match="no tar archive"):
        rows(tmp_path / "y.tar")


def test_what_an_archive_has_no_room_for_is_told(tmp_path):
    path = tmp_path / "x.tar"
    with pytest.raises(DataError, match="the field 'a/b' cannot be part"):
        Tar().create(path, {"a/b": Field((), "int64")})
    with pytest.raises(DataError, match="encoded as Datum"):
        Tar().create(path, {"a": Field(None, "uint8", codec="Datum")})
    with pytest.raises(DataError, match="nothing can be appended"):
        Tar().create(path, FIELDS, append=True)
    picture = Field(None, "uint8", codec="Picture")
    with pytest.raises(DataError, match="record 0: 'a' is a picture"), Tar().create(path, {"a": picture}) as writer:
        writer.append({"a": [b"what?"]})
    assert list(tmp_path.iterdir()) == []


def test_memory_is_bounded(tmp_path):
    path, block = tmp_path / "x.tar", np.zeros((4, MIB), np.uint8)
    tracemalloc.start()
    with Tar().create(path, {"data": Field((MIB,), "uint8")}) as writer:
        for _ in range(30):
            writer.append({"data": block})
    with Tar().open(path) as reader:
        for _ in range(2):
            reader.read(np.arange(4), {"data": block})
    assert tracemalloc.get_traced_memory()[1] < 64 * MIB
    tracemalloc.stop()


def test_a_file_that_is_cut_while_it_is_read_ends_in_a_sentence(tmp_path):
    path = archive(tmp_path / "x.tar", {f"{n}.cls": b"1" for n in range(9)})
    with Tar().open(path) as reader:
        with Path(path).open("r+b") as file:
            file.truncate(1024)
        with pytest.raises(DataError, match="was cut while record 8"):
            reader.read(np.array([8]), {"label": np.empty(1, np.int64)})
