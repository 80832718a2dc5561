"""What a store would write and not read again, it refuses to write."""

import os

import numpy as np
import pytest

from command_line import run
from nacre import DataError, Field, open_records, store_to_write
from nacre_data.stores.csv import CSV
from nacre_data.stores.pipe import Pipe

LARGE = np.array([1 << 63], np.uint64)


@pytest.mark.parametrize(
    ("name", "field", "values", "said"),
    [
        ("a.jsonl", Field((), "uint64"), LARGE, "'x' is 9223372036854775808, but whole numbers are read up to"),
        ("a.csv", Field((), "uint64"), LARGE, "'x' is 9223372036854775808, but whole numbers are read up to"),
        ("a.csv", Field((), "int64", ("", "b")), np.array([0]), "'' would be read as something else"),
        ("a.tar", Field((0,), "int64"), np.zeros((1, 0), int), "'x' has the shape .0,., which holds no number"),
        ("a.tar", Field(None, "int64"), [np.zeros(0, int)], "'x' has the shape .0,., which holds no number"),
    ],
)
def test_what_is_not_read_again_is_refused(name, field, values, said, tmp_path):
    path = tmp_path / name
    with pytest.raises(DataError, match=said), store_to_write(path).create(path, {"x": field}) as writer:
        writer.append({"x": values})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["0", "", "1e5"])
def test_columns_that_would_be_no_header_are_refused(name, tmp_path):
    with pytest.raises(DataError, match="a column cannot be called"):
        CSV().create(tmp_path / "a.csv", {name: Field((), "int64"), "z": Field((), "int64")})


def test_a_missing_text_can_be_a_class(tmp_path):
    path, store = tmp_path / "a.csv", CSV(fill=0.0)
    with store.create(path, {"x": Field((), "int64", ("", "b"))}) as writer:
        writer.append({"x": np.array([0, 1])})
    with open_records([path], ["x"], store=store) as reader:
        assert reader.fields["x"].classes == ("", "b")


def test_a_tar_keeps_the_classes_of_labels_of_any_type(tmp_path):
    path = tmp_path / "a.tar"
    fields = {"label": Field((), "uint8", ("cat", "dog"))}
    with store_to_write(path).create(path, fields) as writer:
        writer.append({"label": np.array([1, 0])})
    with open_records([path]) as reader:
        assert dict(reader.fields) == fields


def test_a_wide_table_is_divided_once(tmp_path, monkeypatch):
    """Not once for each column, which took time in proportion to the square of their number."""
    from nacre_data.stores import cells

    path = tmp_path / "a.csv"
    names = [f"c{column}" for column in range(40)]
    path.write_text("\n".join([",".join(names), *[",".join("ab"[row % 2] for _ in names) for row in range(6)]]))
    divided = []

    class Counted(str):
        def split(self, *arguments):
            divided.append(self)
            return str.split(self, *arguments)

        rsplit = split

    before = cells.Rows.__init__
    monkeypatch.setattr(
        cells.Rows, "__init__", lambda self, records, *rest: before(self, [Counted(one) for one in records], *rest)
    )
    with open_records([path]) as reader:
        divided.clear()
        assert len([*reader.rows()]) == 6
    assert len(divided) == 6


def test_a_wide_table_of_numbers_is_read_once(tmp_path, monkeypatch):
    """NumPy divides whole records, for each column that it is asked for."""
    from nacre_data.stores import cells

    path = tmp_path / "a.csv"
    names = ["data.0", *(f"c{column}" for column in range(40))]
    path.write_text("\n".join([",".join(names), *[",".join(f"{row}.5" for _ in names) for row in range(6)]]))
    monkeypatch.setattr(cells.Rows, "numbers", None)
    with open_records([path]) as reader:
        rows = [*reader.rows()]
    assert [row["c39"] for row in rows] == [row + 0.5 for row in range(6)]


def test_missing_values_are_converted_and_told(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([1.0, np.nan]))
    done = run("data", "convert", tmp_path / "a.npz", tmp_path / "a.jsonl")
    assert "whoever reads it has to say fill in the store" in " ".join(done.err.split())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_may_have_a_large_number(tmp_path):
    """select() takes no file above 1023."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1200 and hard != resource.RLIM_INFINITY:
        pytest.skip("there may be no such number")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    held = []
    try:
        while not held or held[-1] < 1024:
            held.append(os.open(os.devnull, os.O_RDONLY))
        os.mkfifo(tmp_path / "a")
        pipe = Pipe(tmp_path / "a")
        writer = os.open(tmp_path / "a", os.O_WRONLY)
        os.write(writer, b"{}")
        os.close(writer)
        assert pipe.read(2) == b"{}"
        assert pipe.read(2) == b""
        pipe.close()
    finally:
        for file in held:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
