"""What is wrong with a file at a URL is told of the URL, and not of its copy on this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from http_server import Server
from mutant_formats import FORMATS, Format
from nacre import DataError, Layer, NacreError, Store, local_file, make_component, open_records
from nacre.cli.app import nacre as command
from nacre_data import AsyncHDF5DataLayer, CharTextLayer, DataLayer, HDF5DataLayer, ImageDataLayer, MemoryDataLayer
from ranks import state_at

pytest.importorskip("aiohttp")

ONE_FILE = [name for name, format in FORMATS.items() if format.path == format.target and len(format.make()) == 1]


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(name="server")
def server_() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


def told(format: Format, path: Path) -> str:
    """Return what is wrong with a file, or "" if all of it can be read."""
    try:
        with open_records([path], store=make_component(Store, format.store)) as reader:
            for _ in reader.rows():
                pass
    except NacreError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", ONE_FILE)
def test_errors_of_stores_name_the_url(name: str, server: Server, tmp_path: Path) -> None:
    format, here, wrong = FORMATS[name], tmp_path / FORMATS[name].path, 0
    for number in range(8):
        data = format.mutant(name, number, format.make())[format.target]
        here.write_bytes(data)
        url = server.at(f"/{number}/{format.path}", data)
        message = told(format, local_file(url))
        assert message == told(format, here).replace(str(here), url)
        assert str(tmp_path) not in message
        wrong += bool(message)
    assert wrong


LAYERS: dict[str, Callable[..., Layer]] = {
    "Data": DataLayer,
    "Data, in processes": lambda **fields: DataLayer(processes=1, ahead=2, **fields),
    "HDF5Data": HDF5DataLayer,
    "AsyncHDF5Data": AsyncHDF5DataLayer,
    "ImageData": ImageDataLayer,
    "CharText": lambda **fields: CharTextLayer(steps=2, **fields),
}


@pytest.mark.parametrize("name", LAYERS)
def test_errors_of_sources_name_the_url(name: str, server: Server, tmp_path: Path) -> None:
    data = b"\xff" if name == "CharText" else b"this is nothing"
    ending = {"CharText": "txt", "ImageData": "png"}.get(name, "h5")
    url = server.at(f"/some/x.{ending}", data)
    with pytest.raises(NacreError) as caught:
        state_at(LAYERS[name](name="d", source=url, batch_size=1)).forward([])
    assert f"{url}: " in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_errors_of_a_mean_name_the_url(server: Server, tmp_path: Path) -> None:
    url = server.at("/some/mean.h5", b"this is nothing")
    mean: Any = ["data", {"type": "SubMean", "mean_file": url}]
    layer = MemoryDataLayer(name="d", data=[np.ones((2, 3))], tops="data", batch_size=2, transformers=[mean])
    with pytest.raises(DataError) as caught:
        state_at(layer).forward([])
    assert f"{url}: " in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


def test_commands_name_the_url(server: Server, tmp_path: Path) -> None:
    url = server.at("/some/x.csv", b"a,label\n1,2\nnan,3\n")
    done = CliRunner().invoke(command, ["data", "verify", url, "--json"])
    assert done.exit_code == 2, done.output
    assert [(one["file"], one["key"]) for one in json.loads(done.stdout)["bad"]] == [(url, "line 3")]
    damaged = server.at("/some/x.h5", b"this is nothing")
    target = str(tmp_path / "x.h5")
    for words in (["show", damaged], ["verify", damaged], ["convert", damaged, target], ["mean", damaged, target]):
        done = CliRunner().invoke(command, ["data", *words])
        assert done.exit_code == 2
        assert f"error: {damaged}: " in done.output
        assert str(tmp_path / "cache") not in done.output
