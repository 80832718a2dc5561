"""Tables of text as a store."""

import codecs
import csv
import io
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counted import Counted
from nacre import ConfigError, DataError, Field, blocks, class_order
from nacre.testing import StoreTests
from nacre_data.stores import csv as csv_store
from nacre_data.stores import lines
from nacre_data.stores.csv import CSV, CSVReader

IRIS = "length,width,species\n5.1,3.5,setosa\n7,3.2,versicolor\n6.3,3.3,virginica\n5.8,2.7,virginica\n"


def write(folder: Path, text: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(path: Path, *wanted: str, **options):
    """Return the fields of a table, and all records."""
    with CSV(**options).open(path, wanted) as reader:
        found = [rows for _, rows in blocks(reader)]
        return reader.fields, {name: np.concatenate([rows[name] for rows in found]) for name in reader.fields}


def values(folder: Path, text: str | bytes, *wanted: str, name: str = "table.csv", **options):
    """Return the records of a table as lists."""
    return {name: array.tolist() for name, array in read(write(folder, text, name), *wanted, **options)[1].items()}


def refused(folder: Path, text: str | bytes, *wanted: str, name: str = "table.csv", **options) -> str:
    """Return what the error about a table says, with its remedy, behind the path."""
    path = write(folder, text, name)
    with pytest.raises(DataError) as caught:
        read(path, *wanted, **options)
    message = str(caught.value)
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


class TestCSV(StoreTests):
    store = CSV()
    damage_shows = False

    def fields(self):
        return {"data": Field((2, 3), "float64"), "label": Field((), "int64", classes=("cat", "dog"))}


class TestTabs(TestCSV):
    store = CSV(separator="\t")
    step = 11


class TestDecimalCommas(TestCSV):
    store = CSV(separator=";", decimal=",")
    step = 11


class TestUTF16(TestCSV):
    store = CSV(encoding="utf-16")
    step = 11


class TestNumbersOfOneColumn(TestCSV):
    step = 7

    def fields(self):
        return {"data": Field((), "int64"), "score": Field((), "float64"), "bits": Field((4,), "float64")}


class TestForeignTable(TestCSV):
    def make(self, folder: Path):
        data = np.array([[5.1, 3.5], [7, 3.2], [6.3, 3.3], [5.8, 2.7]])
        return write(folder, IRIS.replace("species", "label")), {"data": data, "label": np.array([0, 1, 2, 2])}


class TestQuotedNewlines(TestCSV):
    def make(self, folder: Path):
        text = '"x","the ""label""","label"\r\n1,"a\nb,c","x"\r\n\r\n2,"""","y"\r\n3,a,"x"'
        wanted = {"data": [[1.0], [2.0], [3.0]], 'the "label"': [2, 0, 1], "label": [0, 1, 0]}
        return write(folder, text), {name: np.array(array) for name, array in wanted.items()}


# The columns


def test_a_table_without_a_header(tmp_path):
    assert values(tmp_path, "1,2\n3,4\n") == {"data": [[1, 2], [3, 4]]}
    assert values(tmp_path, "1,2,0\n3,4,1\n", label=2) == {"data": [[1, 2], [3, 4]], "label": [0, 1]}
    iris = IRIS[IRIS.index("\n") + 1 :]
    assert values(tmp_path, iris, header=False, label=2)["label"] == [0, 1, 2, 2]


def test_a_header_of_numbers(tmp_path):
    assert values(tmp_path, "2019,2020\n3,4\n", header=True) == {"data": [[3, 4]]}


def test_labels_by_name_and_by_number(tmp_path):
    text = "label,a,b\n7,1.5,2\n3,0.5,4\n"
    wanted = {"data": [[1.5, 2], [0.5, 4]], "label": [7, 3]}
    assert values(tmp_path, text) == wanted
    assert values(tmp_path, text, label=0) == wanted
    assert values(tmp_path, text, "label", "data") == wanted
    assert values(tmp_path, text, label="b") == {"data": [[7, 1.5], [3, 0.5]], "label": [2, 4]}
    assert values(tmp_path, text, label="") == {"data": [[7, 1.5, 2], [3, 0.5, 4]]}


def test_names_that_are_wanted(tmp_path):
    """A name is that of a column; of the others, the first is the data, and the second the label."""
    text = "label,a,b\n7,1.5,2\n3,0.5,4\n"
    assert values(tmp_path, text, "x", "y") == {"x": [[1.5, 2], [0.5, 4]], "y": [7, 3]}
    assert values(tmp_path, text, "x", "b") == {"x": [[1.5], [0.5]], "b": [2, 4]}
    assert values(tmp_path, text, "b", "a") == {"b": [2, 4], "a": [1.5, 0.5]}
    assert values(tmp_path, text, "x") == {"x": [[1.5, 2], [0.5, 4]]}
    assert list(values(tmp_path, text, "b", "label", "x")) == ["b", "label", "x"]


def test_columns_of_the_data(tmp_path):
    text = "name,a,b,c,label\nx,1,2,3,0\ny,4,5,6,1\n"
    assert values(tmp_path, text, data=["c", "a"]) == {"data": [[3, 1], [6, 4]], "label": [0, 1]}
    assert values(tmp_path, text, "data", data=[1, 3]) == {"data": [[1, 3], [4, 6]]}
    assert values(tmp_path, text, "data", data="b") == {"data": [[2], [5]]}
    assert values(tmp_path, text, data=[1, 2], shape=[2, 1])["data"] == [[[1], [2]], [[4], [5]]]


def test_columns_of_texts_are_classes(tmp_path):
    text = "size,colour,label\n1,red,a\n2,blue,b\n3,red,a\n"
    fields, rows = read(write(tmp_path, text))
    assert fields["colour"] == Field((), "int64", ("blue", "red"))
    assert fields["label"].classes == ("a", "b")
    assert {name: array.tolist() for name, array in rows.items()} == {
        "data": [[1], [2], [3]],
        "colour": [1, 0, 1],
        "label": [0, 1, 0],
    }
    assert values(tmp_path, text, "data", "colour") == {"data": [[1], [2], [3]], "colour": [1, 0, 1]}
    assert values(tmp_path, "colour\nred\nblue\n") == {"colour": [1, 0]}


def test_classes_are_in_the_order_of_code_points(tmp_path):
    classes = ["b", "B", "é", "z"]
    text = "x,label\n" + "".join(f"1,{name}\n" for name in classes)
    assert read(write(tmp_path, text))[0]["label"].classes == ("B", "b", "z", "é")


def test_labels_keep_their_type(tmp_path):
    assert read(write(tmp_path, "x,label\n1,3\n1,-2\n"))[0]["label"] == Field((), "int64")
    assert read(write(tmp_path, "x,label\n1,3\n1,2.5\n"))[0]["label"] == Field((), "float64")
    assert read(write(tmp_path, f"x,label\n1,3\n1,{2**63}\n"))[0]["label"] == Field((), "float64")
    assert values(tmp_path, f"x,label\n1, {-(2**63)}\n1,+{2**63 - 1}\n")["label"] == [-(2**63), 2**63 - 1]


def test_a_first_column_without_a_name_is_no_data(tmp_path):
    """As pandas and R write the index."""
    assert values(tmp_path, ",a,label\nx,1,0\ny,2,1\n") == {"data": [[1], [2]], "label": [0, 1]}
    assert values(tmp_path, '"","a","label"\n"1",1,0\n"2",2,1\n') == {"data": [[1], [2]], "label": [0, 1]}


def test_one_column(tmp_path):
    assert values(tmp_path, "1\n2\n") == {"data": [[1], [2]]}
    assert values(tmp_path, '"a;b"\n2\n') == {"data": [[2]]}


# How it is written


@pytest.mark.parametrize("mark", [codecs.BOM_UTF8, b""])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
def test_marks_and_ends_of_lines(mark, end, tmp_path):
    text = mark + end.join(["x,label", "1,ä", "2,b"]).encode()
    for content in (text, text + end.encode()):
        assert values(tmp_path, content) == {"data": [[1], [2]], "label": [1, 0]}


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-16-le", "shift_jis", "utf-8-sig"])
def test_encodings(encoding, tmp_path):
    text = "größe,label\n1,x\n2,y\n" if encoding != "shift_jis" else "大,label\n1,表\n2,y\n"
    path = write(tmp_path, text.encode(encoding))
    fields, rows = read(path, text[: text.index(",")], "label", encoding=encoding)
    assert rows[text[: text.index(",")]].tolist() == [1, 2]
    assert len(fields["label"].classes) == 2


def test_separators_and_decimals(tmp_path):
    wanted = {"data": [[1.5, -2000]]}
    assert values(tmp_path, "1,5;-2e3\n", separator=";", decimal=",") == wanted
    assert values(tmp_path, "1.5\t-2e3\n", name="table.TSV") == wanted
    assert values(tmp_path, "1.5|-2E+3\n", separator="|") == wanted
    assert values(tmp_path, " 1.5 , -2000.\n") == wanted


def test_all_that_numbers_are(tmp_path):
    texts = ["0", "-0.0", "1.", ".5", "+3", "1e-320", "1E5", "inf", "-Infinity", "0.1", "9" * 40]
    assert values(tmp_path, ",".join(texts) + "\n") == {"data": [[*map(float, texts)]]}


def test_missing_values(tmp_path):
    text = "a,b,label\n1,NA,0\n,2,1\nnan,?,0\n"
    assert ": line 2: column 'b' has no value ('NA')" in refused(tmp_path, text)
    assert "fill = NUMBER" in refused(tmp_path, text)
    assert values(tmp_path, text, fill=-1)["data"] == [[1, -1], [-1, 2], [-1, -1]]
    assert np.isnan(read(write(tmp_path, text), fill=float("nan"))[1]["data"]).sum() == 4
    assert values(tmp_path, "a,b\n1,-99\n", missing="-99", fill=0) == {"data": [[1, 0]]}
    assert values(tmp_path, "a,b\n1,NA\n", "x", "b", fill=0.5) == {"x": [[1]], "b": [0.5]}


def test_many_different_texts_are_looked_up_once_each(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_store, "class_order", lambda names: tuple(map(Counted, class_order(names))))
    (tmp_path / "a.csv").write_text("text\n" + "".join(f"text {number}\n" for number in range(500)))
    Counted.compared = 0
    with CSV().open(tmp_path / "a.csv", ("text",)) as reader:
        assert Counted.compared < 5000
        classes = reader.fields["text"].classes
        assert [classes[row["text"]] for row in reader.rows()] == [f"text {number}" for number in range(500)]


def test_a_missing_text_is_a_class_of_its_own_where_missing_numbers_are_filled(tmp_path):
    text = "size,colour,label\n1,,a\n,red,b\n3,NA,a\n,blue,b\n"
    said = refused(tmp_path, text)
    assert said.startswith(": line 2: column 'colour' has no value ('')\n  write a value there, or say fill = NUMBER")
    assert said.endswith("a missing text is then a class of its own")
    fields, rows = read(write(tmp_path, text), fill=0)
    assert fields["colour"] == Field((), "int64", ("", "blue", "red"))
    assert rows["colour"].tolist() == [0, 2, 0, 1]
    assert rows["data"].tolist() == [[1], [0], [3], [0]]
    assert values(tmp_path, text, "colour", fill=0, missing="NA")["colour"] == [0, 2, 0, 1]  # "" is a text then
    assert ": line 5: column 'label' has no value" in refused(tmp_path, f"{text[:-2]}\n", fill=0)


def test_the_kind_of_a_column_is_that_of_its_first_value(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_store, "ROWS", 2)
    text = "size,colour,none,label\n" + "NA,,,a\n" * 5 + "3,red,,b\n"
    fields, rows = read(write(tmp_path, text), fill=-1)
    assert list(fields) == ["data", "label", "colour"]
    assert rows["data"].tolist() == [[-1, -1]] * 5 + [[3, -1]]
    assert rows["colour"].tolist() == [0] * 5 + [1]
    assert ": line 7: column 'colour' is 'red', which is not a number" in refused(tmp_path, text, "data", fill=-1)
    assert ": line 3 has 2 cells, but" in refused(tmp_path, "a,b,c\n,2,3\n4,5\n", fill=0)


def test_the_data_come_first(tmp_path):
    assert list(values(tmp_path, "colour,label,size\nred,a,1\n")) == ["data", "label", "colour"]


def test_offsets_take_8_bytes_a_line(tmp_path):
    path = write(tmp_path, "a,b\n" + "1,2\n" * 300_000)
    with CSV().open(path) as reader:
        assert isinstance(reader, CSVReader)
        kept = [one for one in vars(reader.text).values() if isinstance(one, np.ndarray)]
        assert sum(one.nbytes for one in kept) < 8 * 300_000 + 1000
        assert reader.count == 300_000
        assert reader.key(299_999) == "line 300001"


def test_keys_are_lines(tmp_path):
    with CSV().open(write(tmp_path, '\n\na,label\n1,"x\n\ny"\n\n2,z\n3,z\n')) as reader:
        assert [reader.key(number) for number in range(3)] == ["line 4", "line 8", "line 9"]


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_pieces_of_any_size(chunk, tmp_path, monkeypatch):
    text = '\ufeffa,label\r\n1.5,"x\r\ny,"""\n\n' + "2,äöü\n3,z\n" * 9
    wanted = values(tmp_path, text)
    assert len(wanted["data"]) == 19
    monkeypatch.setattr(lines, "CHUNK", chunk)
    assert values(tmp_path, text) == wanted


# What is wrong


@pytest.mark.parametrize(
    ("text", "said", "options"),
    [
        ("", ": line 1: the table is empty", {}),
        ("\n\n", ": line 1: the table is empty", {}),
        ("a,b\n", ": line 1: the table has a header, but no records", {}),
        (
            "a;b\n1;2\n",
            ": line 1 is 'a;b', whose cells seem to be divided by ';', not by ','\n  say separator = ';', or",
            {},
        ),
        (
            "a,b\n1,2\n",
            ": line 1 is 'a,b', whose cells seem to be divided by ',', not by ';'\n  say separator = ',', or",
            {"separator": ";"},
        ),
        ("1,5\n", ": line 1 is '1,5', whose cells seem to be divided by ','", {"separator": ";"}),
        ("Nr;a;b\n1;2,5;3,5\n", ": line 1 is 'Nr;a;b', whose cells seem to be divided by ';', not by ','", {}),
        ("Nr;a;b\n1;2,5;3,5\n", "\n  say separator = ';' and decimal = \",\", or put each cell with ';'", {}),
        ("Nr;a, cm;b\n1;2,5;3,5\n", "\n  say separator = ';' and decimal = \",\", or put", {}),
        ('"a";"b";"label"\n"1";"2";"x"\n', "\n  say separator = ';', or put", {}),
        ("a\tb\n1,5\t2,5\n", "\n  say separator = '\\t' and decimal = \",\", or put", {}),
        ("a,b,c;d\n1,2\n", ": line 2 has 2 cells, but the first line has 3", {}),
        ("a,1\n2,3\n", ": line 1 has the text 'a' and the number '1', so that it is not clear", {}),
        ("NA,\n2,3\n", ": line 1 has no values, so that it is not clear", {}),
        ("a,b\n1,2\n1,2,3\n", ": line 3 has 3 cells, but the first line has 2", {}),
        ('a,b\n"1",2\n"1"\n', ": line 3 has 1 cells, but the first line has 2", {}),
        ("a,b\n1,x\n", ": line 2: column 'b' is 'x', which is not a number", {"data": "b"}),
        ("1,2\n1,x\n", ": line 2: column 1 (counted from 0) is 'x', which is not a number", {}),
        ("1,2\n1,1_0\n", ": line 2: column 1 (counted from 0) is '1_0', which is not a number", {}),
        ("1,2\n1,٣\n", ": line 2: column 1 (counted from 0) is '٣', which is not a number", {}),
        ("1;2\n1;1,5\n", "is '1,5', which is not a number\n  say decimal = \",\"", {"separator": ";"}),
        ("1;2\n1;1.5\n", 'say decimal = "."', {"separator": ";", "decimal": ","}),
        ("a,label\n1,x\n2,3\n", ": line 3: column 'label' is a number, '3', but in line 2 it is a text, 'x'", {}),
        ("a,label\n1,x\n2,\n", ": line 3: column 'label' has no value ('')", {"fill": 0}),
        ("a,label\n1,1\n2,NA\n", ": line 3: column 'label' has no value ('NA')", {"fill": 0}),
        ("a,b\n1,2\n", ": there is no column 'c'; its columns are 'a', 'b'", {"label": "c"}),
        ("a,species\n1,2\n", "(did you mean 'species'?)", {"label": "specis"}),
        ("a,a\n1,2\n", ": 2 columns are called 'a'", {"label": "a"}),
        ("a,b,a\n1,2,3\n", ": 2 columns are called 'a', at the places 0, 2, counted from 0\n  rename one, or ", {}),
        ("a,b,a\n1,2,3\n", ": 2 columns are called 'a', at the places 0, 2, counted from 0", {"data": ["b", "a"]}),
        ("a,a\n1,2\n", "choose columns by their places, counted from 0: data = [0, 1]", {}),
        (",b,,,,\n1,2,3,4,5,6\n", ": 5 columns are called '', at the places 0, 2, 3, 4, ..., counted", {}),
        ("a,b\n1,2\n", ": there is no column 2: it has 2, counted from 0", {"label": 2}),
        ("1,2\n", ": it has no header, so that there is no column 'b'", {"label": "b"}),
        ("a,b\n1,2\n", ": column 'b' is the label, but is also among", {"label": "b", "data": ["a", "b"]}),
        ("a,b\n1,2\n", ": shape=(3,) are 3 numbers, but 'data' has 2 columns", {"shape": [3]}),
        ("data.0,b,b\n1,2,3\n", ": 2 columns are called 'b'", {}),
        ('a,b\n1,"2\n', ": line 2: its quotes", {}),
        ('a,b\n1,2\n1,"2"3\n', ": line 3: its quotes", {}),
        ('a,b\n1,2"\n1,2"\n', ": line 2: its quotes", {}),
        ("a,b\n1,2\r1,2\n", ": line 2: its quotes, or the ends of lines", {}),
        ("a,b\r1,2\r", ": line 1: its quotes, or the ends of lines", {}),
        ("1," * 200_000 + "1\n", ": line 1 has 200,001 cells, but a table may have 131,072", {}),
        (b"a,b\n1,2\n\xe4,3\n", ": line 3 is not in UTF-8: it has the byte 0xe4", {}),
        ("a,b\n1,2\n".encode("utf-16"), "encoding = 'latin-1' or 'utf-16'", {}),
        (b"a,b\n1,2\n\xff,3\n", ": it is not in the encoding ascii", {"encoding": "ascii"}),
    ],
)
def test_what_is_wrong_is_told(text, said, options, tmp_path):
    assert said in refused(tmp_path, text, **options)


def test_columns_of_one_name_are_chosen_by_their_places(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,a,label\n1,2,3,x\n4,5,6,y\n")
    with CSV(data=[2, 0]).open(tmp_path / "a.csv") as reader:
        assert reader.fields["data"].columns == ()
        out = {"data": np.empty((2, 2))}
        reader.read(np.arange(2), out)
    assert out["data"].tolist() == [[3, 1], [6, 4]]
    with CSV().open(tmp_path / "a.csv", ["b", "label"]) as reader:
        assert [*reader.fields] == ["b", "label"]


@pytest.mark.parametrize(("text", "label"), [("a,b\n1,2\n", "kind"), ("1,2\n", "kind"), ("1,2\n", 2)])
def test_records_to_predict_need_no_label(text, label, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with CSV(label=label).open(path, ["data"]) as reader:
        assert dict(reader.fields) == {"data": Field((2,), "float64")}


@pytest.mark.parametrize(
    ("text", "wanted", "said"),
    [
        ("a,b\n1,2\n", ["data", "label"], ": it is not clear which column is 'label'; its columns are 'a', 'b'"),
        ("1,2\n", ["data", "label"], ": it is not clear which column is 'label'; it has no header, and 2 columns"),
        ("a,b\n1,2\n", ["label"], ": it is not clear which column is 'label'"),
        ("a,label\n1,2\n", ["x", "y", "z"], "which column is 'y'"),
        ("a,label\n1,2\n", ["x", "label", "z"], "which column is 'z'"),
        ("a,label\n1,2\n", ["label", "a", "z"], ": no column is left for 'z'"),
        ("data.0,label\n1,2\n", ["x"], ": it has no field 'x'"),
        ("a,colour,label\n1,red,2\n", ["data", "label"], ": line 2: column 'colour' is 'red', which is not a number"),
    ],
)
def test_fields_that_are_not_there_are_told(text, wanted, said, tmp_path):
    assert said in refused(tmp_path, text, *wanted)


def test_columns_are_fields_by_their_names(tmp_path):
    """As nacre writes them; `data`, or `shape`, say what the data are instead."""
    text = "x.0,x.1,data,y.1\n1,2,3,4\n"
    assert values(tmp_path, text) == {"x": [[1, 2]], "data": [3], "y.1": [4]}
    assert values(tmp_path, text, "x", "y.1") == {"x": [[1, 2]], "y.1": [4]}
    assert values(tmp_path, text, data=["x.1", "data"]) == {"data": [[2, 3]]}
    assert values(tmp_path, text, shape=[2, 2]) == {"data": [[[1, 2], [3, 4]]]}
    assert values(tmp_path, "x.1,x.0\n1,2\n") == {"data": [[1, 2]]}
    assert values(tmp_path, "x.0,x.999999999\n1,2\n") == {"data": [[1, 2]]}


def test_a_text_among_numbers_names_what_to_do(tmp_path):
    said = refused(tmp_path, "a,colour,label\n1,red,2\n", "data", "label")
    assert "want this column as a field of its own" in said
    assert "data = [...]" in said


@pytest.mark.parametrize("content", ["\n", "1\n", ",", "1,", '"', '""\n', '"\n', "\r", "a"])
def test_small_files_cost_little(content, tmp_path):
    path = write(tmp_path, content * 200_000)
    tracemalloc.start()
    try:
        with suppress(DataError), CSV().open(path) as reader:
            assert reader.count
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < max(64 << 20, 20 * path.stat().st_size)


def test_too_long_a_record(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "CHUNK", 10)
    monkeypatch.setattr(lines, "LONGEST", 50)
    assert "check the ends of the lines, and that every quote is closed" in refused(tmp_path, 'a\n"' + "1\n" * 60)


def test_a_file_that_changes_while_it_is_open(tmp_path):
    path = write(tmp_path, IRIS)
    with CSV(label="species").open(path) as reader:
        path.write_text(IRIS[:-20])
        with pytest.raises(DataError, match="was cut while it was read"):
            next(reader.rows())


@pytest.mark.parametrize(
    "options",
    [
        {"separator": ",,"},
        {"separator": "a"},
        {"separator": '"'},
        {"separator": "ä"},
        {"decimal": ";"},
        {"decimal": ","},
        {"encoding": "klingon"},
        {"encoding": "hex"},
        {"label": 1.5},
        {"data": [True]},
        {"shape": [0]},
    ],
)
def test_options_that_mean_nothing(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        CSV(**options)


# Writing

CLASSES = ("cat", "dog")


def test_what_is_written(tmp_path):
    fields = {"x": Field((2, 1), "float32"), "n": Field((), "bool"), "label": Field((), "int64", ("b;c", 'a"'))}
    rows = {"x": np.array([[[0.1], [1e20]], [[-1], [np.nan]]], "f4"), "n": [True, False], "label": np.array([0, 1])}
    for store, wanted in (
        (CSV(), ',x.0.0,x.1.0,n,label\nk 1,0.1,1e+20,1,b;c\n"k,2",-1,nan,0,"a"""\n'),
        (CSV(separator=";", decimal=","), ';x.0.0;x.1.0;n;label\nk 1;0,1;1e+20;1;"b;c"\nk,2;-1;nan;0;"a"""\n'),
    ):
        with store.create(tmp_path / "new.csv", fields) as writer:
            writer.append(rows, ["k 1", "k,2"])
        assert (tmp_path / "new.csv").read_text() == wanted


@pytest.mark.parametrize(
    ("values", "cells"),
    [([3, 2.5, 4], ["3", "2.5", "4"]), ([3, -4, 1e15], ["3.0", "-4", "1000000000000000"]), ([1e22, 1], ["1e+22", "1"])],
)
def test_a_column_of_real_numbers_stays_one(values, cells, tmp_path):
    path, fields = tmp_path / "new.csv", {"x": Field((2,), "float32"), "price": Field((), "float64")}
    with CSV().create(path, fields) as writer:
        for _ in range(2):
            writer.append({"x": np.ones((len(values), 2)), "price": np.array(values, float)})
    again = [cell.removesuffix(".0") for cell in cells]
    assert path.read_text() == "\n".join(["x.0,x.1,price", *(f"1,1,{cell}" for cell in [*cells, *again]), ""])
    with CSV().open(path) as reader:
        assert reader.fields["price"].dtype == "float64"


def test_an_empty_table_has_a_header(tmp_path):
    with CSV().create(tmp_path / "new.csv", {"x": Field((2,), "float32")}) as writer:
        writer.append({"x": np.zeros((0, 2))})
    assert (tmp_path / "new.csv").read_text() == "x.0,x.1\n"


def test_python_reads_what_is_written(tmp_path):
    random = np.random.default_rng(0)
    rows = {"x": random.standard_normal((20, 3)), "label": random.integers(0, 2, 20)}
    with CSV().create(tmp_path / "new.csv", {"x": Field((3,), "float64"), "label": Field((), "int64", CLASSES)}) as one:
        one.append(rows)
    with (tmp_path / "new.csv").open(newline="") as file:
        header, *found = csv.reader(file)
    assert header == ["x.0", "x.1", "x.2", "label"]
    assert [[*map(float, row[:3])] for row in found] == rows["x"].tolist()
    assert [row[3] for row in found] == [CLASSES[number] for number in rows["label"]]


def test_what_cannot_be_written_is_told(tmp_path):
    path = tmp_path / "new.csv"
    for field, said in (
        (Field(None, "uint8", codec="Picture"), "differs in shape"),
        (Field((0,), "float32"), "holds no number"),
        (Field((), "int64", ("3", "7")), "'3' would be read as something else"),
        (Field((), "int64", ("a", "NA")), "'NA' would be read as something else"),
        (Field((1,), "int64", CLASSES), "a class is one text"),
    ):
        with pytest.raises(DataError, match=said) as caught:
            CSV().create(path, {"x": field})
        assert str(path) in str(caught.value)
    with pytest.raises(DataError, match=r"2 columns are called 'x\.0'"):
        CSV().create(path, {"x": Field((2,), "int8"), "x.0": Field((), "int8")})
    with (
        pytest.raises(DataError, match="'label' is 2, but there are 2 classes"),
        CSV().create(path, {"label": Field((), "int64", CLASSES)}) as writer,
    ):
        writer.append({"label": np.array([0, 2])})
    with (
        pytest.raises(DataError, match=r"its encoding ascii has no 'ä', .* the class 'ä'\n  write UTF-8"),
        CSV(encoding="ascii").create(path, {"label": Field((), "int64", ("ä",))}) as writer,
    ):
        writer.append({"label": np.array([0])})
    writer = CSV().create(path, {"x": Field((), "int64")})
    writer.append({"x": np.array([0])}, ["a"])
    with pytest.raises(DataError, match="names of records are not given"), writer:
        writer.append({"x": np.array([0])})
    assert list(tmp_path.iterdir()) == []


def test_classes_that_are_their_numbers(tmp_path):
    """Folders 0 to 9 become labels 0 to 9."""
    classes = tuple(map(str, range(12)))
    with CSV().create(tmp_path / "new.csv", {"data": Field((), "int64", classes)}) as writer:
        writer.append({"data": np.array([11, 3])})
    assert read(tmp_path / "new.csv")[1]["data"].tolist() == [11, 3]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_appending(encoding, tmp_path):
    path, store, fields = tmp_path / "new.csv", CSV(encoding=encoding), {"data": Field((2,), "int64")}
    for number in range(3):
        with store.create(path, fields, append=True) as writer:
            writer.append({"data": np.array([[number, 5]])}, ["ö"])
            writer.flush()
            assert len(read(path, encoding=encoding)[1]["data"]) == number + 1
    with store.create(path, fields, append=True):
        pass
    assert read(path, encoding=encoding)[1]["data"].tolist() == [[0, 5], [1, 5], [2, 5]]
    before = path.read_bytes()
    writer = store.create(path, fields, append=True)
    writer.append({"data": np.array([[9, 9]])}, ["ö"])
    writer.flush()
    writer.close(commit=False)
    assert path.read_bytes() == before
    for other in ({"data": Field((3,), "int64")}, {"x": Field((2,), "int64")}):
        with (
            pytest.raises(DataError, match="begins with another line"),
            store.create(path, other, append=True) as writer,
        ):
            writer.append({name: np.ones((1, *(field.shape or ()))) for name, field in other.items()}, ["ö"])
    with pytest.raises(DataError, match="begins with another line"), store.create(path, fields, append=True) as writer:
        writer.append({"data": np.ones((1, 2))})
    path.write_bytes(before[: -len("\n".encode(encoding.replace("16", "16-le").removesuffix("-sig")))])
    with pytest.raises(DataError, match="last line has no end"), store.create(path, fields, append=True) as writer:
        writer.append({"data": np.array([[9, 9]])}, ["ö"])


def test_appending_nothing_leaves_no_file_that_was_not_there(tmp_path):
    with pytest.raises(ZeroDivisionError), CSV().create(tmp_path / "new.csv", {"x": Field((), "int8")}, append=True):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=6)


@given(
    numbers=st.lists(st.lists(st.floats(allow_nan=False), min_size=2, max_size=2), min_size=1, max_size=9),
    names=st.lists(TEXTS.filter(lambda text: CSV().cells(Path("x")).kind(text) == "a text"), min_size=1, max_size=9),
    keys=st.booleans(),
    separator=st.sampled_from(",;\t|"),
    decimal=st.sampled_from(".,"),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32-be"]),
)
def test_all_tables_come_back(tmp_path_factory, numbers, names, keys, separator, decimal, encoding):
    if separator == decimal:
        return
    path = tmp_path_factory.mktemp("tables") / "table.csv"
    store = CSV(separator=separator, decimal=decimal, encoding=encoding)
    classes = tuple(dict.fromkeys(names))
    labels = np.arange(len(numbers)) % len(classes)
    fields = {"data": Field((2, 1), "float64"), "label": Field((), "int64", classes)}
    with store.create(path, fields) as writer:
        writer.append(
            {"data": np.array(numbers)[:, :, None], "label": labels}, (names * 9)[: len(numbers)] if keys else ()
        )
    with store.open(path) as reader:
        (found,) = [rows for _, rows in blocks(reader)]
        assert found["data"].tolist() == np.array(numbers)[:, :, None].tolist()
        back = reader.fields["label"].classes
        assert [back[label] for label in found["label"]] == [classes[label] for label in labels]


@given(rows=st.lists(st.lists(st.text('ab1.,;"\n é', max_size=4), min_size=3, max_size=3), min_size=1, max_size=6))
def test_tables_are_divided_as_python_divides_them(tmp_path_factory, rows):
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([["x", "y", "z"], *rows])
    path = write(tmp_path_factory.mktemp("tables"), text.getvalue())
    texts = [row for row in rows if all(CSV().cells(path).kind(cell) == "a text" for cell in row)]
    if len(texts) < len(rows):
        return
    fields, found = read(path)
    back = [[fields[name].classes[number] for number in found[name]] for name in "xyz"]
    assert [*zip(*back, strict=True)] == [tuple(row) for row in rows]


def test_a_long_record_is_looked_at_a_few_times_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the time that it takes grows with the square of its length."""
    path, looks = tmp_path / "a.csv", []
    path.write_text('a,b\n1,"' + "x\n" * 50_000 + '"\n')
    ends = lines._ends
    monkeypatch.setattr(lines, "CHUNK", 100)
    monkeypatch.setattr(lines, "_ends", lambda part, *, quotes: looks.append(part) or ends(part, quotes=quotes))
    with CSV().open(path, ["b"]) as reader:
        assert reader.count == 1
    assert len(looks) < 50


# From table to table


def copied(folder: Path, text: str, read_by: CSV, written_by: CSV, *wanted: str) -> str:
    """Return what becomes of a table that one store reads and another writes."""
    with (
        read_by.open(write(folder, text), wanted) as reader,
        written_by.create(folder / "copy.csv", reader.fields) as new,
    ):
        for _, rows in blocks(reader):
            new.append(rows)
    return (folder / "copy.csv").read_text()


def test_columns_keep_their_names_and_their_order(tmp_path):
    text = "kind,a,colour,b\nrose,1.5,red,2.5\ntulip,3.5,white,4.5\n"
    for read_by in (CSV(), CSV(label="kind"), CSV(label=0)):
        assert copied(tmp_path, text, read_by, CSV()) == text
    assert copied(tmp_path, text, CSV(label=0, data=[3, 1]), CSV()) == "kind,a,b\nrose,1.5,2.5\ntulip,3.5,4.5\n"
    assert copied(tmp_path, text, CSV(), CSV(), "kind", "b") == "kind,b\nrose,2.5\ntulip,4.5\n"
    with CSV(label="kind").open(write(tmp_path, text)) as reader:
        fields = {name: (field.columns, field.places) for name, field in reader.fields.items()}
    assert fields == {"data": (("a", "b"), (1, 3)), "label": (("kind",), (0,)), "colour": (("colour",), (2,))}
    with CSV().open(write(tmp_path, "x.0,y,x.1\n1,2,3\n")) as reader:
        assert reader.fields["x"].columns == ("x.0", "x.1")


def test_names_of_fields_stand_for_columns_without_names_or_with_the_same(tmp_path):
    assert copied(tmp_path, "1.5,2,0.5\n", CSV(label=1), CSV()) == "data.0,label,data.1\n1.5,2,0.5\n"
    without = CSV(header=False, label=0)
    assert copied(tmp_path, "x,1.5\ny,2.5\n", without, without) == "x,1.5\ny,2.5\n"
    assert copied(tmp_path, "a,a\n1.5,2.5\n", CSV(data=[0, 1]), CSV()) == "data.0,data.1\n1.5,2.5\n"
    fields = {"data": Field((2,), "float64", columns=("label", "b")), "label": Field((), "int64")}
    with CSV().create(tmp_path / "new.csv", fields):
        pass
    assert (tmp_path / "new.csv").read_text() == "data.0,data.1,label\n"


def test_a_table_without_a_header_is_continued(tmp_path):
    store = CSV(header=False)
    for _ in range(2):
        with store.create(tmp_path / "new.csv", {"x": Field((2,), "float64")}, append=True) as new:
            new.append({"x": np.ones((1, 2))})
    assert (tmp_path / "new.csv").read_text() == "1,1\n1,1\n"
