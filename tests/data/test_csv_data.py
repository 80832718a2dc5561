"""CSVData: the source Data with the options of tables as its own."""

import numpy as np
import pytest

from nacre import ConfigError, DataError, Field, Net
from nacre_data import CSV, HDF5, CSVDataLayer, DataLayer, JSONLines

TABLE = "id;länge;breite;art\n7;5,1;3,5;setosa\n8;7,0;;virginica\n9;6,3;3,3;setosa\n"
OPTIONS = {"separator": ";", "decimal": ",", "encoding": "latin-1", "label": "art", "data": ["länge", "breite"]}


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(TABLE.encode("latin-1"))
    return path


@pytest.mark.parametrize("cache_bytes", [0, 1 << 28])
def test_it_is_data_with_the_store(table, cache_bytes):
    given = {"name": "d", "source": table, "batch_size": 3, "cache_bytes": cache_bytes}
    sources = [
        CSVDataLayer(**given, **OPTIONS, fill=0),
        DataLayer(**given, store=CSV(**OPTIONS, fill=0)),
        DataLayer(**given, store={"type": "CSV", **OPTIONS, "fill": 0}),
    ]
    for source in sources:
        net = Net("n", [source], backend="numpy")
        net.forward()
        assert net.blob("data").tolist() == np.array([[5.1, 3.5], [7, 0], [6.3, 3.3]], "f4").tolist()
        assert net.blob("label").tolist() == [0, 1, 0]
        assert net.blob("label").dtype == np.int64
        net.shutdown()


def test_errors_name_layer_file_and_line(table):
    net = Net("n", [CSVDataLayer(name="flowers", source=table, batch_size=3, **OPTIONS)], backend="numpy")
    with pytest.raises(DataError) as caught:
        net.forward()
    assert str(caught.value).startswith(f"flowers: {table}: line 3: column 'breite' has no value ('')")
    with pytest.raises(DataError, match=r"flowers: .*: there is no column 'species'; its columns are 'id',"):
        Net("n", [CSVDataLayer(name="flowers", source=table, batch_size=3, **{**OPTIONS, "label": "species"})])
    net.shutdown()


def test_options_are_checked_when_the_layer_is_made(table):
    with pytest.raises(ConfigError, match="d: decimal=',' and separator=''"):
        CSVDataLayer(name="d", source=table, batch_size=3, decimal=",")
    with pytest.raises(ConfigError, match="d: encoding='klingon'"):
        CSVDataLayer(name="d", source=table, batch_size=3, encoding="klingon")


def test_tables_are_joined_by_the_names_of_classes(tmp_path):
    for number, names in enumerate(("ab", "ba", "b")):
        rows = "".join(f"{number},{name}\n" for name in names)
        (tmp_path / f"{number}.csv").write_text(f"x,label\n{rows}")
    source = CSVDataLayer(name="d", source=[tmp_path / f"{number}.csv" for number in range(3)], batch_size=5)
    net = Net("n", [source], backend="numpy")
    net.forward()
    assert net.blob("label").tolist() == [0, 1, 1, 0, 1]
    net.shutdown()


@pytest.mark.parametrize("cache_bytes", [0, 1 << 28])
def test_text_feeds_the_same_bits_as_hdf5(cache_bytes, tmp_path):
    random = np.random.default_rng(0)
    rows = {"data": random.standard_normal((50, 1, 3, 3)).astype("f4"), "label": random.integers(0, 3, 50)}
    fields = {"data": Field((1, 3, 3), "float32"), "label": Field((), "int64", ("a", "b", "c"))}
    fed = []
    for store, name in ((HDF5(), "x.h5"), (CSV(), "x.csv"), (CSV(), "x.tsv"), (JSONLines(), "x.jsonl")):
        with store.create(tmp_path / name, fields) as writer:
            writer.append(rows)
        given = {"name": "d", "batch_size": 30, "shuffle": True, "cache_bytes": cache_bytes}
        net = Net("n", [DataLayer(source=tmp_path / name, **given)], backend="numpy", seed=3)
        for _ in range(3):
            net.forward()
            fed.append((name, net.blob("data").tobytes(), net.blob("label").tobytes()))
        net.shutdown()
    assert [one[1:] for one in fed] == [one[1:] for one in fed[:3]] * 4


def test_text_files_of_singa(tmp_path):
    """A record on each line, the label first (its store `textfile`, read by CSVInput)."""
    path = tmp_path / "train.csv"
    path.write_text("7,0,255,51,3\n2,1,1,2,254\n")
    source = CSVDataLayer(source=str(path), batch_size=2, header=False, label=0, shape=[1, 2, 2])
    with Net("n", [source], backend="numpy") as net:
        net.feed()
        assert net.blob("label").tolist() == [7, 2]
        assert net.blob("data").tolist() == [[[[0, 255], [51, 3]]], [[[1, 1], [2, 254]]]]


def columns(path, *names):
    path.write_text(",".join([*names, "label"]) + "\n" + ",".join("1" * (len(names) + 1)) + "\n")
    return path


def test_tables_whose_columns_are_in_another_order_are_not_joined(tmp_path):
    paths = [columns(tmp_path / "1.csv", "a", "b"), columns(tmp_path / "2.csv", "b", "a")]
    said = "column 'b' comes at place 0, counted from 0, but in .*1.csv at place 1\n  name the columns in one order"
    with pytest.raises(DataError, match=f"d: .*2.csv: 'data': {said}: data = \\['a', 'b'\\]"):
        Net("n", [CSVDataLayer(name="d", source=paths, batch_size=2)], backend="numpy")
    Net("n", [CSVDataLayer(source=paths, batch_size=2, data=["b", "a"])], backend="numpy").shutdown()
    paths[1] = columns(tmp_path / "2.csv", "c", "b")
    Net("n", [CSVDataLayer(source=paths, batch_size=2)], backend="numpy").shutdown()


@pytest.mark.parametrize("processes", [0, 1])
def test_columns_in_another_order_than_in_training_are_refused(processes, tmp_path):
    given = {"batch_size": 1, "processes": processes}
    sources = [
        CSVDataLayer(name="train", source=columns(tmp_path / "1.csv", "a", "b"), exclude="test", **given),
        CSVDataLayer(name="test", source=columns(tmp_path / "2.csv", "b", "a"), exclude="train", **given),
    ]
    with Net("n", sources, backend="numpy") as net:
        assert net.fitted == {"data": {"columns": ["a", "b"]}, "label": {"classes": []}}
        said = "test: 'data': column 'b' comes at place 0, counted from 0, but in training at place 1"
        with pytest.raises(DataError, match=said):
            net.derive("test")
        columns(tmp_path / "2.csv", "c", "b")
        with net.derive("test") as tested:
            assert tested.fitted["data"] == {"columns": ["a", "b"]}
