"""Small files that could cost much: what nacre takes for them is bounded, and so is what it says of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from nacre import DataError, Field, NacreError, Net
from nacre.config import load
from nacre.config.overrides import apply_override
from nacre.discovery.settings import settings
from nacre.errors import LONGEST, ConfigError, brief
from nacre.files.toml import parse_toml
from nacre.net.files import FileRecords, batches
from nacre.net.records import store_of
from nacre_data import AsyncHDF5DataLayer, HDF5DataLayer, SubMean
from record_files import predict_input

MIB = 1 << 20


@contextmanager
def at_most(limit: int) -> Generator[None]:
    """Let what is done in here allocate so many bytes at a time."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= limit


# Text

DEEP_KEYS = {
    "a key": ".".join("a" * 40_000) + " = 1",
    "a table": f"[{'.'.join('a' * 40_000)}]",
    "an array of tables": f"[[ {' . '.join('a' * 40_000)} ]]",
    "within a table": f"x = {{ {'.'.join('a' * 40_000)} = 1 }}",
    "quoted": ".".join(['"a"'] * 20_000) + " = 1",
    "quoted, with escapes": ".".join([r'"\""'] * 15_000) + " = 1",
    "quoted otherwise": ".".join(["'a'", "b"] * 10_000) + " = 1",
}


@pytest.mark.parametrize("what", DEEP_KEYS)
def test_a_key_of_many_parts(what: str, tmp_path: Path) -> None:
    path = tmp_path / "net.toml"
    path.write_text("\n" + DEEP_KEYS[what])
    with at_most(MIB), pytest.raises(ConfigError, match=r"a key has more than 16 parts \(at line 2\)"):
        load(path)


def test_many_keys_of_parts(tmp_path: Path) -> None:
    path = tmp_path / "net.toml"
    path.write_text("".join(f"[k{number}.a.b.c.d.e.f.g]\n" for number in range(40_000)))
    with at_most(8 * MIB), pytest.raises(ConfigError, match="280,000 dots"):
        load(path)


def test_settings_and_overrides_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nacre.toml").write_text(DEEP_KEYS["a key"])
    with at_most(MIB), pytest.raises(ConfigError, match="a key has more than 16 parts"):
        settings()
    with at_most(MIB), pytest.raises(ConfigError, match="a key has more than 16 parts"):
        apply_override({}, f"seed={{ {DEEP_KEYS['a key']} }}")


@pytest.mark.parametrize(
    "text",
    [
        'name = "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o"',
        "[a.b.c.d.e.f]\nx = [1.0, 2.5, 3.25, 4.125]",
        'path = "../../../../../../../../../../../../../../../../../../../data/train.h5"',
        "# Sentences. One. After. Another.",
    ],
)
def test_what_people_write_has_fewer(text: str) -> None:
    assert parse_toml(text) is not None


LONG = "x" * 100_000
NET = '[[layer]]\ntype = "InnerProduct"\nbottoms = "a"\ntops = "b"\noutput_dim = 3\n'
VALUES = {
    "a text": f'bias = "{LONG}"',
    "a list": f"output_dim = [{'1, ' * 50_000}]",
    "texts": f'bottoms = ["{LONG}", "{LONG}"]',
    "a number": f"bottoms = 0x{'f' * 100_000}",
    "numbers": f"bottoms = [0x{'f' * 100_000}]",
    "a table": f"output_dim = {{ {', '.join(f'k{number} = 1' for number in range(10_000))} }}",
    "nested lists": f"output_dim = {'[' * 200}{']' * 200}",
    "a type": f'type = "{LONG}"',
    "a type that is none": f"type = [{'1, ' * 50_000}]",
    "a field": f"{LONG} = 1",
    "fields": "\n".join(f"field{number} = 1" for number in range(10_000)),
    "a name": f'name = "{LONG}!"',
    "a component": f'neuron = "{LONG}"',
    "a component's field": f'neuron = {{ type = "ReLU", {LONG} = 1 }}',
}


@pytest.mark.parametrize("what", VALUES)
def test_a_value_is_not_repeated_whole(what: str, tmp_path: Path) -> None:
    path = tmp_path / "net.toml"
    key = VALUES[what].partition(" ")[0]
    path.write_text("".join(line for line in NET.splitlines(True) if not line.startswith(key + " ")) + VALUES[what])
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert len(str(caught.value)) < 3 * LONGEST
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("what", ["top", "table", "layers", "pins"])
def test_a_file_that_is_wrong_everywhere(what: str, tmp_path: Path) -> None:
    path = tmp_path / "net.toml"
    many = range(5_000)
    path.write_text(
        {
            "top": "\n".join(f"key{number} = 1" for number in many),
            "table": "[plugins]\n" + "\n".join(f"key{number} = 1" for number in many),
            "layers": "[[layer]]\n" * 5_000,
            "pins": "[plugins.pin]\n" + "\n".join(f"key{number} = 1" for number in many),
        }[what]
    )
    with pytest.raises(ConfigError) as caught:
        load(path)
    lines = str(caught.value.args[0]).split("\n")
    assert len(lines) == 51
    assert lines[-1].endswith("more mistakes")
    assert len(str(caught.value)) < 20_000


def test_an_error_of_a_plugins_is_bounded_too() -> None:
    error = NacreError(f"layer {LONG}: kernel=0\nbut more", LONG)
    first, second = str(error.args[0]).split("\n")
    assert len(first) <= LONGEST + 5
    assert first.startswith("layer x")
    assert first.endswith("x: kernel=0")
    assert second == "but more"
    assert len(error.remedy) <= LONGEST + 5


def test_ordinary_values_are_shown_whole() -> None:
    for value in (1, -1.5, "text", (1, 2, 3), [1] * 20, {"type": "ReLU"}, None, True, 10**400, "x" * 150):
        assert brief(value) == repr(value)


# Data


def huge(path: Path, name: str, shape: tuple[int, ...], **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset(name, shape, np.float32, **options)
        file.create_dataset("label", (shape[0],), np.int8, **options)
    assert path.stat().st_size < 5_000
    return path


LAYOUTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "in chunks": {"chunks": (1,)},
    "in large chunks": {"chunks": True},
    "packed": {"chunks": True, "compression": "gzip"},
}
READERS: dict[str, Callable[[Path], object]] = {
    "predict": lambda path: predict_input(path),
    "HDF5Data": lambda path: feed(HDF5DataLayer, path),
    "AsyncHDF5Data": lambda path: feed(AsyncHDF5DataLayer, path),
    "SubMean": lambda path: SubMean(mean_file=path).transform(np.ones((2, 30 * MIB), np.int8), None, "train"),
}


def feed(layer: Any, path: Path) -> None:
    with Net("t", [layer(name="hdf5", source=path, batch_size=1)], backend="numpy") as net:
        net.feed()


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_numbers_that_are_declared_but_not_stored(layout: str, reader: str, tmp_path: Path) -> None:
    name = "mean" if reader == "SubMean" else "data"
    path = huge(tmp_path / "a.h5", name, (30 * MIB,), **LAYOUTS[layout])
    with (
        at_most(65 * MIB if reader == "SubMean" else 4 * MIB),
        pytest.raises(DataError, match=r"it declares [0-9,]+ bytes"),
    ):
        READERS[reader](path)


def test_a_mean_that_is_no_records_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "mean.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("mean", data=np.zeros((1000, 10_000), np.int8), chunks=True, compression="gzip")
    with at_most(4 * MIB), pytest.raises(DataError, match=r"a mean of shape \(1000, 10000\) does not fit records of"):
        SubMean(mean_file=path).transform(np.ones((2, 3)), None, "train")


@pytest.mark.parametrize("ending", [".npy", ".h5"])
def test_predict_takes_memory_for_one_batch(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{ending}"
    with store_of(path).create(path, {"data": Field((1000,), "float64")}) as writer:
        writer.append({"data": np.ones((5000, 1000))})
    with at_most(16 * MIB), FileRecords(None, [path], "data") as records:
        assert sum(len(batch.records["data"]) for batch in batches({"data": records}, 100)) == 5000


def test_an_array_that_declares_more_than_there_is(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.ones(3))
    path.write_bytes(path.read_bytes().replace(b"(3,), }        ", b"(3000000000,), "))
    with at_most(MIB), pytest.raises(DataError, match=r"declares an array of shape \(3000000000,\)|header"):
        predict_input(path)
