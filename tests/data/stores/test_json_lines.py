"""JSON lines as a store."""

import json
import os
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre import DataError, Field, Net, blocks
from nacre.testing import StoreTests
from nacre_data import DataLayer
from nacre_data.stores import json_lines, lines
from nacre_data.stores.json_lines import JSONLines
from nacre_data.stores.pipe import Pipe


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "records.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(path: Path, *wanted: str, **options):
    """Return the fields of a file, and all records."""
    with JSONLines(**options).open(path, wanted) as reader:
        found = [rows for _, rows in blocks(reader)]
        return reader.fields, {name: np.concatenate([rows[name] for rows in found]) for name in reader.fields}


def refused(folder: Path, text: str | bytes, *wanted: str, **options) -> str:
    """Return what the error about a file says, with its remedy, behind the path."""
    path = write(folder, text)
    with pytest.raises(DataError) as caught:
        read(path, *wanted, **options)
    message = str(caught.value)
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


class TestJSONLines(StoreTests):
    store = JSONLines()
    damage_shows = False

    def fields(self):
        return {
            "data": Field((2, 3), "float64"),
            "label": Field((), "int64", classes=("cat", "dog")),
            "count": Field((1,), "int64"),
            "on": Field((), "bool"),
        }


class TestLinesOfOthers(TestJSONLines):
    store = JSONLines(fill=-1)

    def make(self, folder: Path):
        text = (
            '\ufeff{"x": [1, null], "key": "a", "y": "b", "n": 1}\r\n\n'
            '{"n":2.5,"y":"\\u00e4\\n","x":[3,4.5]}\r\n{"key": "c", "y": "b", "x": [NaN, 1e2], "n": null}'
        )
        x, n = np.array([[1, -1], [3, 4.5], [-1, 100]]), np.array([1, 2.5, -1])
        return write(folder, text), {"x": x, "y": np.array([0, 1, 0]), "n": n}


def test_fields_are_those_of_the_first_record_or_those_wanted(tmp_path):
    text = '{"a": 1, "b": "x", "key": "k", "c": {}}\n{"key": "l", "b": "x", "a": 2, "c": 3}\n'
    fields, rows = read(write(tmp_path, text), "b", "a", "key")
    assert fields == {"b": Field((), "int64", ("x",)), "a": Field((), "int64"), "key": Field((), "int64", ("k", "l"))}
    assert {name: array.tolist() for name, array in rows.items()} == {"b": [0, 0], "a": [1, 2], "key": [0, 1]}
    assert list(read(write(tmp_path, '{"key": 3}\n'))[0]) == ["key"]


def test_types_and_classes(tmp_path):
    text = '{"a": 1, "b": true, "c": [1], "d": "10", "e": -0.0}\n{"a": 2, "b": false, "c": [0.5], "d": "9", "e": 3}\n'
    fields, rows = read(write(tmp_path, text))
    assert {name: (field.shape, field.dtype) for name, field in fields.items()} == {
        "a": ((), "int64"),
        "b": ((), "bool"),
        "c": ((1,), "float64"),
        "d": ((), "int64"),
        "e": ((), "float64"),
    }
    assert fields["d"].classes == ("9", "10")
    assert rows["d"].tolist() == [1, 0]
    assert np.signbit(rows["e"]).tolist() == [True, False]


def test_keys_are_lines(tmp_path):
    with JSONLines().open(write(tmp_path, '\n{"a": 1}\n\n\n{"a": 1}\n{"a": 1}')) as reader:
        assert [reader.key(number) for number in range(3)] == ["line 2", "line 5", "line 6"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ": line 1: the file has no records"),
        ("\n\n", ": line 1: the file has no records"),
        ('{"a": 1}\n{"a": 1\n', ": line 2 is not JSON: at character 8: Expecting ',' delimiter"),
        ('{"a": 1} {"a": 1}\n', ": line 1 is not JSON: at character 10: Extra data"),
        ('{"a": 1}\n \n', ": line 2 is not JSON"),
        ("[1, 2]\n", ": line 1 is [1, 2], which is not an object"),
        ('{"a": "\\ud83d\\ude00 \\\\ud800"}\n{"a": "\\uD800x"}\n', r": line 2 has '\ud800', which is half a character"),
        ("{}\n", ": line 1 has no fields"),
        ('{"key": "x"}\n', ": line 1 has no fields"),
        ('{"a": 1, "a": 2}\n', ": line 1 has the field 'a' twice"),
        ('{"a": 1}\n{"b": 1}\n', ": line 2 has no field 'a'; it has: b"),
        ('{"a": 1}\n{"a": 1, "b": 1}\n', ": line 2 has the field 'b', but the first record has not"),
        ('{"a": 1}\n{"a": "x"}\n', ": line 2: 'a' is \"x\", but in line 1 it is 1"),
        ('{"a": 1}\n{"a": true}\n', ": line 2: 'a' is true, but in line 1 it is 1"),
        ('{"a": [1, 2]}\n{"a": [1]}\n', ": line 2: 'a' is [1], but in line 1 it is [1, 2]"),
        (
            '{"a": null}\n',
            ": line 1: 'a' is null, and a missing value cannot be used\n  write a value there, or say fill = NUMBER",
        ),
        ('{"a": [1, null]}\n', ": line 1: 'a' is [1, null], and a missing"),
        ('{"a": NaN}\n', ": line 1: 'a' is NaN, and a missing"),
        ('{"a": {"b": 1}}\n', ": line 1: 'a' is {\"b\": 1}, which is no number"),
        ('{"a": ["x"]}\n', ": line 1: 'a' is [\"x\"], which is no number"),
        ('{"a": [1, "x"]}\n', ": line 1: 'a' is [1, \"x\"], which is no number"),
        ('{"a": [null, "1"]}\n', ": line 1: 'a' is [null, \"1\"], which is no number"),
        ('{"a": []}\n', ": line 1: 'a' is [], which is no number"),
        ('{"a": [[1], [1, 2]]}\n', ": line 1: 'a' is [[1], [1, 2]]: its lists differ in length"),
        ('{"a": 18446744073709551615}\n', "which is no number of 64 bits"),
        (f'{{"a": {10**30}}}\n', "which is no number of 64 bits"),
        (f'{{"a": {"1" * 5000}}}\n', ": line 1 cannot be read"),
        (f'{{"a": {"[" * 40}1{"]" * 40}}}\n', ": line 1: 'a' is [[["),
        (f'{{"a": {"[" * 70}1{"]" * 70}}}\n', ": line 1: 'a' is [[["),
        (f'{{"a": {"[" * 100_000}1{"]" * 100_000}}}\n', ": line 1 cannot be read"),
        (b'{"a": 1}\n{"a": "\xe4"}\n', ": line 2 is not in UTF-8"),
    ],
)
def test_what_is_wrong_is_told(text, said, tmp_path):
    assert said in refused(tmp_path, text)


def test_a_field_that_is_not_there_is_told(tmp_path):
    text = '{"data": 1, "label": 2}\n'
    assert ": line 1 has no field 'lable' (did you mean 'label'?); it has: data, label" in refused(
        tmp_path, text, "lable"
    )


def test_a_record_that_is_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "CHUNK", 10)
    monkeypatch.setattr(lines, "LONGEST", 50)
    assert "check the ends of the lines" in refused(tmp_path, '{"a": [' + "1, " * 60)


def test_missing_values_are_filled(tmp_path):
    text = '{"a": 1}\n{"a": null}\n'
    assert read(write(tmp_path, text), fill=7)[1]["a"].tolist() == [1.0, 7.0]
    assert np.isnan(read(write(tmp_path, text), fill=float("nan"))[1]["a"]).tolist() == [False, True]
    assert ": line 2: 'a' is null, but in line 1" in refused(tmp_path, '{"a": "x"}\n{"a": null}\n', fill=0)


# Writing


def test_what_is_written(tmp_path):
    fields = {"x": Field((2, 1), "float32"), "on": Field((), "bool"), "label": Field((), "int64", ("b", 'ä"'))}
    with JSONLines().create(tmp_path / "new.jsonl", fields) as writer:
        x = np.array([[[0.1], [1e20]], [[-1], [np.nan]]], "f4")
        writer.append({"x": x, "on": np.array([True, False]), "label": np.array([0, 1])}, ["k 1", "k\n2"])
    assert (tmp_path / "new.jsonl").read_text("utf-8") == (
        '{"key": "k 1", "x": [[0.1], [1e+20]], "on": true, "label": "b"}\n'
        '{"key": "k\\n2", "x": [[-1.0], [null]], "on": false, "label": "ä\\""}\n'
    )


def test_what_cannot_be_written_is_told(tmp_path):
    path = tmp_path / "new.jsonl"
    for name, field, said in (
        ("x", Field(None, "uint8", codec="Picture"), "differs in shape"),
        ("x", Field((0,), "float32"), "holds no number"),
        ("x", Field((1,), "int64", ("a",)), "a class is one text"),
        ("key", Field((), "float32"), "no field can be called 'key'"),
    ):
        with pytest.raises(DataError, match=said) as caught:
            JSONLines().create(path, {name: field})
        assert str(path) in str(caught.value)
    for field, value, said in (
        (Field((), "float64"), np.inf, "no infinite numbers"),
        (Field((), "int64", ("a",)), -1, "'x' is -1, but there are 1 classes"),
        (Field((), "int64", ("\udc80",)), 0, r"utf-8 has no .*, which is in the class .*\n  rename the class"),
    ):
        with pytest.raises(DataError, match=said), JSONLines().create(path, {"x": field}) as writer:
            writer.append({"x": np.array([value])})
    assert list(tmp_path.iterdir()) == []


def test_appending(tmp_path):
    path, store, fields = tmp_path / "new.jsonl", JSONLines(), {"a": Field((2,), "int64"), "b": Field((), "bool")}
    for number in range(3):
        with store.create(path, fields, append=True) as writer:
            writer.append({"a": np.array([[number, 5]]), "b": np.array([True])}, ["x"])
            writer.flush()
            assert len(read(path)[1]["a"]) == number + 1
    before = path.read_bytes()
    writer = store.create(path, fields, append=True)
    writer.append({"a": np.array([[9, 9]]), "b": np.array([True])})
    writer.flush()
    writer.close(commit=False)
    assert path.read_bytes() == before
    with pytest.raises(DataError, match=r"'b' is bool of shape .*, but to be appended is nothing"):
        store.create(path, {"a": fields["a"]}, append=True)


@pytest.mark.parametrize("whole", [0, 1, 2])
def test_a_last_record_that_was_cut_is_told_and_cut_off(whole, tmp_path):
    """After each byte; a record that only lacks the end of its line is whole."""
    path, fields = tmp_path / "new.jsonl", {"a": Field((2,), "int64")}
    with JSONLines().create(path, fields) as writer:
        writer.append({"a": np.array([[1, 2], [3, 4], [5, 6]][: whole + 1])})
    data = path.read_bytes()
    complete = data[: data[:-1].rfind(b"\n") + 1]
    for end in range(len(complete) + 1, len(data)):
        path.write_bytes(data[:end])
        if end < len(data) - 1:
            with pytest.warns(UserWarning, match=f"its last record is cut; its {end - len(complete)} bytes are cut"):
                writer = JSONLines().create(path, fields, append=True)
            assert path.read_bytes() == complete
        else:
            writer = JSONLines().create(path, fields, append=True)
        writer.append({"a": np.array([[7, 8]])})
        writer.close(commit=True)
        assert path.read_bytes() == (complete if end < len(data) - 1 else data) + b'{"a": [7, 8]}\n'


def test_appending_nothing_leaves_no_file_that_was_not_there(tmp_path):
    with (
        pytest.raises(ZeroDivisionError),
        JSONLines().create(tmp_path / "new.jsonl", {"x": Field((), "int8")}, append=True),
    ):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


NUMBERS = st.one_of(
    st.tuples(st.just("float64"), st.floats(allow_nan=False, allow_infinity=False)),
    st.tuples(st.just("float32"), st.floats(allow_nan=False, allow_infinity=False, width=32)),
    st.tuples(st.just("int64"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("uint8"), st.integers(0, 255)),
    st.tuples(st.just("bool"), st.booleans()),
)


@given(
    number=NUMBERS,
    shape=st.lists(st.integers(1, 3), max_size=3).map(tuple),
    count=st.integers(1, 4),
    names=st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=5, unique=True),
    name=st.text(st.characters(codec="utf-8")).filter(lambda name: name not in ("key", "label")),
)
def test_all_records_come_back(tmp_path_factory, number, shape, count, names, name):
    dtype, value = number
    path = tmp_path_factory.mktemp("records") / "records.jsonl"
    values, labels = np.full((count, *shape), value, dtype), np.arange(count) % len(names)
    fields = {name: Field(shape, dtype), "label": Field((), "int64", tuple(names))}
    with JSONLines().create(path, fields) as writer:
        writer.append({name: values, "label": labels}, [f"k{number}" for number in range(count)])
    fields, found = read(path)
    assert found[name].astype(dtype).tobytes() == values.tobytes()
    assert [fields["label"].classes[label] for label in found["label"]] == [names[label] for label in labels]
    records = [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]
    assert [record["key"] for record in records] == [f"k{number}" for number in range(count)]


def test_texts_in_lists_take_no_memory(tmp_path):
    """NumPy would make as much room for each as for the longest."""
    for deep in ("{}", "[{}]", "[[1], [{}]]"):
        many = ", ".join([f'"{"x" * 10_000}"', *['"x"'] * 10_000])
        tracemalloc.start()
        try:
            told = refused(tmp_path, f'{{"x": [{deep.format(many)}]}}\n')
            assert tracemalloc.get_traced_memory()[1] < 8 << 20
        finally:
            tracemalloc.stop()
        assert "which is no number of 64 bits, no list of them, and no text" in told


# Pipes


def piped(path: Path, *texts: str) -> None:
    """Make a named pipe into which one text after the other is written, each for whoever opens the pipe."""

    def write_all() -> None:
        for text in texts:
            path.write_text(text)

    os.mkfifo(path)
    threading.Thread(target=write_all, daemon=True).start()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_records_come_through_a_pipe_in_each_pass(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    piped(path, '{"data": [1, 2.5], "label": 1}\n\n{"label": 0, "data": [3, 4]}\n', '{"data": [5.0, 6], "label": 2}')
    layer = DataLayer(name="d", source=path, tops=["data", "label"], batch_size=2)
    with Net("n", [layer], backend="numpy", phase="validation") as net:
        net.feed()
        assert (net.blob("data").tolist(), net.blob("label").tolist()) == ([[1, 2.5], [3, 4]], [1, 0])
        net.feed()
        assert (net.blob("data")[0].tolist(), net.blob("label")[0], net.rows) == ([5, 6], 2, 1)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_that_is_opened_anew_while_it_is_read_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, writers = tmp_path / "x.jsonl", list[int]()

    def late(*files: Any) -> Any:
        if writers:
            os.write(writers[0], b"late")
            return real(*files)
        found = real(*files)  # the last writer has closed it
        writers.append(os.open(path, os.O_WRONLY))
        return found

    os.mkfifo(path)
    with Pipe(path) as pipe:
        os.close(os.open(path, os.O_WRONLY))
        real = pipe.waiting.select
        monkeypatch.setattr(pipe.waiting, "select", late)
        assert pipe.read(4) == b"late"
        os.close(writers[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: there are no records"),
        ('{"x": "a"}\n', "'x' is text, whose classes are known only when all records have come"),
        ('{"x": 1}\n{"x": 0.5}\n', "line 2: 'x' is 0.5, but all before are whole"),
        ('{"x": 1}\n{"x": [1]}\n', "line 2: 'x' is [1], but in line 1 it is 1"),
        ('{"x": 1}\n{"x": nu', "line 2 is not JSON: at character 7: Expecting value"),
        ('{"x": 1}\n{"x": "\udc80"}\n', "line 2 is not in UTF-8: it has the byte 0x80"),
        ('{"x": [' + "1, " * 30 + "1]}", "line 1 has more than 0 MiB"),
    ],
)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_what_is_wrong_in_a_pipe_is_told(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "LONGEST", 64)
    path = tmp_path / "x.jsonl"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(text.encode(errors="surrogateescape"),), daemon=True)
    writer.start()
    with pytest.raises(DataError) as caught, JSONLines().open(path) as reader:
        list(reader.rows())
    writer.join()
    assert str(caught.value).startswith(f"{path}: {message}")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_the_records_of_a_pipe_come_once(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    piped(path, '{"x": null}\n{"x": 2}\n{"x": 3}\n')
    with JSONLines(fill=7).open(path) as reader:
        assert [float(row["x"]) for row in reader.rows(1)] == [2, 3]
        with pytest.raises(DataError, match="its records came already, and come only once"):
            reader.rows()
