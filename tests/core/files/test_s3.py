"""S3, through its own library, from a server on this machine."""

from __future__ import annotations

import http.server
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest

from command_line import run
from http_server import Bucket
from nacre import ConfigError, DataError, Net
from nacre.config import load
from nacre.files import remote
from nacre_data import DataLayer

pytest.importorskip("s3fs")

URL = "s3://digits/some/x.npz"


def a_few_lines() -> Iterator[str]:
    """Let our own few lines stand for S3."""
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    server.files = {}
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def moto() -> Iterator[str]:
    """Let moto stand for S3."""
    reason = 'moto, an imitation of S3, is large and not installed: pip install "moto[s3,server]"'
    server = pytest.importorskip("moto.server", reason=reason).ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    url = "http://{}:{}".format(*server.get_host_and_port())
    urlopen(Request(f"{url}/moto-api/reset", method="POST")).close()  # what the test before has put
    os.environ["AWS_ENDPOINT_URL"] = url
    remote._system(URL, lambda _: True).mkdir("digits")
    yield url
    server.stop()


@pytest.fixture(name="s3", autouse=True, params=[a_few_lines, pytest.param(moto, marks=pytest.mark.long)])
def s3_(request: pytest.FixtureRequest, own_cache: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "ENDPOINT_URL"):
        monkeypatch.setenv(f"AWS_{name}", "nobody")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    server = request.param()
    monkeypatch.setenv("AWS_ENDPOINT_URL", next(server))
    yield
    assert [*server] == []


def test_files_go_there_and_come_back(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", data=np.arange(12.0).reshape(6, 2), label=np.arange(6))
    assert f"wrote {URL}: 6 records" in run("data", "convert", tmp_path / "x.npz", URL).out
    assert "it is there already" in run("data", "convert", tmp_path / "x.npz", URL, code=2).err
    with Net("n", [DataLayer(source=URL, batch_size=3)], backend="numpy") as net:
        net.forward()
        assert net.blob("data").tolist() == [[0, 1], [2, 3], [4, 5]]
    assert "6 records" in run("data", "show", URL).out


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^s3://digits/none\.npz: cannot be read: no such file\n  check the URL$"):
        remote.fetch("s3://digits/none.npz")


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.registry import _registry

    monkeypatch.delitem(_registry, "s3", raising=False)
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(
        DataError, match=r"^s3://digits/x: .* needs a library: .*s3fs.*\n  pip install \"nacre\[remote\]\""
    ):
        remote.fetch("s3://digits/x")


def test_a_net_file_reads_only_from_buckets_that_are_allowed(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", data=np.ones((6, 2)), label=np.arange(6))
    run("data", "convert", tmp_path / "x.npz", URL)
    net = tmp_path / "net.toml"
    net.write_text(f'[[layer]]\ntype = "Data"\nname = "d"\nsource = "{URL}"\nbatch_size = 3\n')
    with pytest.raises(ConfigError, match=r"a net file may reach only hosts .*\n  .*--allow-remote s3://digits "):
        load(net, allow_remote=["s3://letters"]).net(backend="numpy")
    with load(net, allow_remote=["s3://digits"]).net(backend="numpy") as made:
        made.forward()
