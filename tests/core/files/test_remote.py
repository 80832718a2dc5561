"""Files at URLs: what a server does wrong, who may be asked, and the cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

from http_server import Handler, Server
from nacre import ConfigError, DataError, Net, local_file, open_records
from nacre.cli.app import nacre as command
from nacre.config import dumps, load
from nacre.files.remote import fetch, is_at, is_url, shown
from nacre_data import DataLayer, HDF5DataLayer, ImageDataLayer, MemoryDataLayer, OutputLayer
from nacre_solvers import JSONLog

pytest.importorskip("aiohttp")

DATA = bytes(range(256)) * 100


@pytest.fixture(name="server")
def server_() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture(name="temporary")
def temporary_(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder for temporary files to this test alone, which looks at what is left there."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(autouse=True)
def _cache(own_cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "NACRE_REMOTE_TIMEOUT", "NACRE_REMOTE_BYTES"):
        monkeypatch.delenv(name, raising=False)


def kept(tmp_path: Path) -> dict[str, bytes]:
    """Return the files in the cache besides the locks."""
    files = [path for path in (tmp_path / "cache/remote").glob("*-*/*") if path.is_file()]
    return {path.name: path.read_bytes() for path in files}


# What is fetched


def test_a_file_is_copied_once(server: Server, tmp_path: Path) -> None:
    url = server.at("/some/data.bin", DATA)
    path = fetch(url)
    assert path.read_bytes() == DATA
    assert path.name == "data.bin"
    assert path.parent.parent == tmp_path / "cache/remote"
    assert path.parent.name.startswith("127.0.0.1_")
    assert fetch(url) == path
    assert [method for method, _ in server.asked].count("GET") == 1
    assert kept(tmp_path) == {"data.bin": DATA}


def test_a_file_that_has_changed_is_another_copy(server: Server) -> None:
    url = server.at("/a", lambda handler: handler.give(b"old", '"1"'))
    old = fetch(url)
    server.at("/a", lambda handler: handler.give(b"new", '"2"'))
    assert fetch(url).read_bytes() == b"new"
    assert old.read_bytes() == b"old"  # somebody may be reading it
    server.at("/a", lambda handler: handler.give(b"longer", '"2"'))
    assert fetch(url).read_bytes() == b"longer"


def test_an_empty_file(server: Server) -> None:
    assert fetch(server.at("/empty", b"")).read_bytes() == b""


# What a server does wrong


def test_it_is_not_there(server: Server, tmp_path: Path) -> None:
    server.at("/there", DATA)
    url = f"http://user:secret@{server.host}/none.h5?signature=secret"
    with pytest.raises(
        DataError, match=r"none\.h5: cannot be read: the server answers 404 Not Found\n  check"
    ) as caught:
        fetch(url)
    assert "secret" not in str(caught.value)
    assert kept(tmp_path) == {}


def test_it_breaks_off(server: Server, tmp_path: Path) -> None:
    def broken(handler: Handler) -> None:
        handler.give(DATA, sent=DATA[:-1])
        handler.close_connection = True

    with pytest.raises(DataError, match=r"/a\.h5: was not read to its end: .*\n  check the URL, and try again"):
        fetch(server.at("/a.h5", broken))
    assert kept(tmp_path) == {}
    assert fetch(server.at("/a.h5", DATA)).read_bytes() == DATA


def test_it_stalls(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stalled(handler: Handler) -> None:
        handler.give(DATA, sent=DATA[:-1])
        if handler.command == "GET":
            server.stopping.wait(60)

    def silent(_: Handler) -> None:
        server.stopping.wait(60)

    monkeypatch.setenv("NACRE_REMOTE_TIMEOUT", "0.2")
    words = r"/a\.h5: was not read to its end: no answer within 0\.2 s\n  .*NACRE_REMOTE_TIMEOUT=300"
    with pytest.raises(DataError, match=words):
        fetch(server.at("/a.h5", stalled))
    with pytest.raises(DataError, match=r"/b\.h5: cannot be read: no answer within 0\.2 s"):
        fetch(server.at("/b.h5", silent))
    assert kept(tmp_path) == {}


def test_nobody_answers(server: Server) -> None:
    url = server.at("/a.h5", DATA)
    server.stop()
    with pytest.raises(DataError, match=r"/a\.h5: cannot be read: .*[Cc]onnect"):
        fetch(url)


def test_it_changes_meanwhile(server: Server, tmp_path: Path) -> None:
    def changing(handler: Handler) -> None:
        handler.give(DATA, f'"{len(server.asked)}"')

    with pytest.raises(DataError, match=r"/a\.h5: it changed while it was read\n  try again"):
        fetch(server.at("/a.h5", changing))
    assert kept(tmp_path) == {}


def test_it_is_longer_or_shorter_than_told(server: Server, tmp_path: Path) -> None:
    def given(data: bytes) -> Callable[[Handler], None]:
        return lambda handler: handler.give(DATA if handler.command == "HEAD" else data)

    with pytest.raises(DataError, match=r"/a: it has more than the 25,600 bytes that the server told"):
        fetch(server.at("/a", given(DATA * 2)))
    with pytest.raises(DataError, match=r"/b: it breaks off after 25,599 of 25,600 bytes\n  try again"):
        fetch(server.at("/b", given(DATA[:-1])))
    assert kept(tmp_path) == {}


def test_it_does_not_say_its_length(server: Server) -> None:
    def endless(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.close_connection = True

    with pytest.raises(DataError, match=r"/a\.h5: the server does not say its length"):
        fetch(server.at("/a.h5", endless))


# Who may be asked


def redirect(target: str) -> Callable[[Handler], None]:
    def answer(handler: Handler) -> None:
        handler.send_response(302)
        handler.send_header("Location", target)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def test_a_redirect_is_followed_only_to_allowed_hosts(server: Server) -> None:
    other = Server()
    try:
        url = server.at("/a.h5", redirect(other.at("/b.h5", DATA)))
        words = rf"a\.h5: the server leads to http://{other.host}/b\.h5, whose host is not allowed\n  .*{other.host}"
        with pytest.raises(ConfigError, match=words):
            fetch(url, lambda url: is_at(url, [server.host]))
        assert other.asked == []
        assert fetch(url, lambda url: is_at(url, [server.host, other.host])).read_bytes() == DATA
        assert fetch(url).read_bytes() == DATA
    finally:
        other.stop()


@pytest.fixture(name="digits")
def digits_(server: Server, tmp_path: Path) -> str:
    """Return the URL of an HDF5 file."""
    with h5py.File(tmp_path / "made.h5", "w") as file:
        file["data"], file["label"] = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
    return server.at("/digits/train.h5", (tmp_path / "made.h5").read_bytes())


def net_file(folder: Path, url: str, kind: str = "Data") -> Path:
    path = folder / "net.toml"
    path.write_text(f'[[layer]]\ntype = "{kind}"\nname = "d"\nsource = "{url}"\nbatch_size = 3\n')
    return path


@pytest.mark.parametrize("kind", ["Data", "HDF5Data", "AsyncHDF5Data"])
def test_a_net_file_fetches_only_from_hosts_that_are_allowed(
    kind: str, server: Server, digits: str, tmp_path: Path
) -> None:
    path = net_file(tmp_path, digits, kind)
    words = rf"a net file may reach only hosts .* {digits}\n  .*--allow-remote 127\.0\.0\.1 .*allow_remote=\[\.\.\.\]"
    for hosts in ([], ["localhost", "s3://127.0.0.1", f"127.0.0.1:{int(server.host[10:]) + 1}"]):
        with pytest.raises(ConfigError, match=words):
            load(path, allow_remote=hosts).net(backend="numpy")
    assert server.asked == []
    for host in ("127.0.0.1", server.host):
        with load(path, allow_remote=[host]).net(backend="numpy") as net:
            net.forward()
            assert net.blob("data").tolist() == [[0, 1], [2, 3], [4, 5]]


def test_a_url_of_the_user_is_free(digits: str, tmp_path: Path) -> None:
    path = net_file(tmp_path, "train.h5")
    with load(path, [f"layer.d.source={digits}"]).net(backend="numpy") as net:
        net.forward()
    with Net("n", [DataLayer(source=digits, batch_size=3)], backend="numpy") as net:
        net.forward()
    again = load(net_file(tmp_path, digits))
    assert f'source = ["{digits}"]' in dumps(again)  # a URL has no folder


def test_settings_allow_hosts_for_every_net(digits: str, tmp_path: Path, no_settings: Path) -> None:
    own = no_settings / "nacre"
    own.mkdir(exist_ok=True)
    (own / "nacre.toml").write_text('allow_remote = ["127.0.0.1"]')
    try:
        load(net_file(tmp_path, digits)).net(backend="numpy").shutdown()
    finally:
        (own / "nacre.toml").unlink()


def test_a_list_at_a_url_names_files_beside_it(server: Server, digits: str, tmp_path: Path) -> None:
    listed = server.at("/digits/train.txt", b"train.h5\n../digits/train.h5\n")
    for layer in (DataLayer, HDF5DataLayer):
        with Net("n", [layer(source=listed, batch_size=12)], backend="numpy") as net:
            net.forward()
            assert net.blob("data")[:, 0].tolist() == [0, 2, 4, 6, 8, 10] * 2
    outside = server.at("/digits/far.txt", b"http://localhost:1/train.h5\n")
    with pytest.raises(ConfigError, match=r"a net file may reach only .*localhost:1/train\.h5"):
        load(net_file(tmp_path, outside), allow_remote=["127.0.0.1"]).net(backend="numpy")
    (tmp_path / "here.txt").write_text(digits)
    with pytest.raises(DataError, match=r"here\.txt: it names the URL http.*\n  name URLs in the source itself"):
        Net("n", [DataLayer(source=str(tmp_path / "here.txt"), batch_size=1)])


def test_a_picture(server: Server) -> None:
    pillow = pytest.importorskip("PIL.Image")
    pillow.fromarray(np.full((4, 5, 3), 7, np.uint8)).save(made := Path(local_file("made.png")))
    url = server.at("/cat.png", made.read_bytes())
    made.unlink()
    with Net("n", [ImageDataLayer(tops="data", source=url, batch_size=1)], backend="numpy") as net:
        net.forward()
        assert (net.blob("data") == 7).all()


def test_commands_take_urls(digits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = CliRunner().invoke(command, ["data", "show", digits])
    assert shown.exit_code == 0 and "6 records" in shown.output
    made = CliRunner().invoke(command, ["data", "convert", digits, str(tmp_path / "x.csv")])
    assert made.exit_code == 0, made.output
    net = net_file(tmp_path, digits)
    refused = CliRunner().invoke(command, ["summary", str(net)])
    assert refused.exit_code != 0
    assert CliRunner().invoke(command, ["summary", str(net), "--allow-remote", "127.0.0.1"]).exit_code == 0


@pytest.mark.parametrize(
    "words", [["graph", "--format", "dot"], ["summary"], ["explain"], ["time", "--runs", "1"], ["gradcheck"]]
)
def test_every_command_with_a_net_file_may_be_allowed_a_host(words: list[str], digits: str, tmp_path: Path) -> None:
    net = str(net_file(tmp_path, digits))
    refused = CliRunner().invoke(command, [words[0], net, *words[1:], "--backend", "numpy"])
    assert refused.exit_code == 2
    assert "--allow-remote 127.0.0.1" in refused.output
    done = CliRunner().invoke(command, [words[0], net, *words[1:], "--backend", "numpy", "--allow-remote", "127.0.0.1"])
    assert "a net file may reach only" not in done.output
    assert done.exit_code == 0 or words == ["gradcheck"], done.output  # it has no loss


def test_all_commands_that_read_a_net_file_have_the_option() -> None:
    for name in ("train", "test", "predict", "demo", "graph", "summary", "explain", "time", "gradcheck"):
        assert "--allow-remote HOST" in CliRunner().invoke(command, [name, "--help"]).output, name


# Outputs


def test_commands_write_to_urls(digits: str, tmp_path: Path, temporary: Path) -> None:
    def run(*words: str) -> str:
        return CliRunner().invoke(command, words).output

    url = f"file://{tmp_path}/x.npz"
    assert run("data", "convert", digits, url) == f"wrote {url}: 6 records, data float64 (2,); label int64 ()\n"
    assert np.load(tmp_path / "x.npz")["data"].tolist() == np.arange(12.0).reshape(6, 2).tolist()
    assert run("data", "convert", digits, url).startswith(f"error: {url}: it is there already\n  ")
    assert run("data", "convert", digits, url, "--overwrite").startswith(f"wrote {url}: ")
    assert run("data", "mean", digits, f"file://{tmp_path}/mean.h5").startswith(f"wrote file://{tmp_path}/mean.h5: ")
    parts = [f"file://{tmp_path}/{name}.npz" for name in "ab"]
    run("data", "split", digits, *(word for part in parts for word in ("--part", f"{part}=0.5")))
    assert [len(np.load(tmp_path / f"{name}.npz")["label"]) for name in "ab"] == [3, 3]
    assert run("data", "convert", digits, f"file://{tmp_path}/").startswith(f"error: file://{tmp_path}/: ")
    assert run("data", "convert", digits, f"file://{tmp_path}/x.tfrecord").startswith("error: file://")
    assert not (tmp_path / "x.tfrecord").exists()
    assert not [*temporary.iterdir()]


def written(url: Any, **fields: Any) -> None:
    source = MemoryDataLayer(name="d", tops=["x"], data=[np.arange(5.0)], batch_size=2)
    layers = [source, OutputLayer(name="out", bottoms=["x"], filename=url, **fields)]
    with Net("n", layers, backend="numpy", phase="test") as net:
        net.forward_epoch()


@pytest.mark.parametrize("name", ["x.h5", "x.npy", "x.csv", "x.jsonl", "x.kvfile", "x.mdb", "x.shard"])
def test_outputs_are_uploaded_when_they_are_complete(name: str, tmp_path: Path, temporary: Path) -> None:
    url = f"file://{tmp_path}/{name}"
    written(url)
    with open_records([tmp_path / name], ["x"]) as reader:
        assert [row["x"].reshape(()) for row in reader.rows()] == [0, 1, 2, 3, 4]
    with pytest.raises(DataError, match=rf"^out: {url} exists already"):
        written(url)
    written(url, force_overwrite=True)
    assert not [*temporary.iterdir()]
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_error_uploads_nothing() -> None:
    import fsspec

    source = MemoryDataLayer(name="d", tops=["x"], data=[np.arange(5.0)], batch_size=2)

    def run() -> None:
        layers = [source, OutputLayer(name="out", bottoms=["x"], filename="memory://some/x.npy")]
        with Net("n", layers, backend="numpy", phase="test") as net:
            net.forward()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert not fsspec.filesystem("memory").exists("memory://some/x.npy")
    written("memory://some/x.npy")
    assert fsspec.filesystem("memory").exists("memory://some/x.npy")


def test_a_net_file_uploads_only_to_hosts_that_are_allowed(tmp_path: Path) -> None:
    path, url = tmp_path / "net.toml", f"file://{tmp_path}/x.npy"
    path.write_text(
        '[[layer]]\ntype = "Input"\ntops = ["x"]\nshape = [2]\nbatch_size = 3\n\n'
        f'[[layer]]\ntype = "Output"\nname = "out"\nbottoms = ["x"]\nfilename = "{url}"\nforce_overwrite = true\n'
    )
    with pytest.raises(ConfigError, match=r"a net file may reach only hosts .*x\.npy\n.*--allow-remote file://"):
        load(path).net(backend="numpy")
    for overwrite in ((), (url,)):
        with load(path, allow_remote=["file://"], overwrite=overwrite).net(backend="numpy") as net:
            net.write("x", np.ones((3, 2)))
            net.forward()
        assert np.load(tmp_path / "x.npy").tolist() == [[1, 1]] * 3
    with pytest.raises(
        ConfigError, match=r"x\.npy: it exists, and a net file may not replace .*\n.*--overwrite file://"
    ):
        load(path, allow_remote=["file://"]).net(backend="numpy")


def test_callbacks_write_on_this_machine() -> None:
    with pytest.raises(ConfigError, match="path='https://x/y', but it must be a path"):
        JSONLog(path="https://x/y")


# The library and the settings


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fsspec", "aiohttp"):
        with monkeypatch.context() as context:
            context.setitem(sys.modules, name, None)
            with pytest.raises(DataError, match=r"/a: .* needs a library: .*\n  pip install \"nacre\[remote\]\""):
                fetch("http://localhost/a")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nothing://x/a", r"^nothing://x/a: cannot be read: Protocol not known: nothing"),
        ("http://localhost/", r"^http://localhost/: this URL names no file"),
        ("http://localhost/a/..", "names no file"),
    ],
)
def test_what_is_no_url_of_a_file(url: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        fetch(url)


@pytest.mark.parametrize("text", ["0", "-1", "x", "nan", "inf"])
def test_settings_are_numbers(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NACRE_REMOTE_TIMEOUT", text)
    with pytest.raises(ConfigError, match=f"NACRE_REMOTE_TIMEOUT='{text}': it must be a number above 0"):
        fetch("http://localhost/a")


def test_which_hosts_a_url_belongs_to() -> None:
    assert is_at("https://Data.Example.org/x", ["data.example.org"])
    assert is_at("http://data.example.org:81/x", ["data.example.org:81"])
    assert not is_at("http://data.example.org:81/x", ["data.example.org:80"])
    assert not is_at("http://data.example.org@evil.org/x", ["data.example.org"])
    assert not is_at("http://evil.data.example.org/x", ["data.example.org"])
    assert is_at("s3://bucket/x", ["s3://bucket"])
    assert not is_at("s3://bucket/x", ["bucket"])
    assert not is_at("file:///etc/x", ["", "etc"])
    assert [is_url(text) for text in ("s3://b/x", "C://x", "data/x.h5", "http:/x", "a b://x", "http://")] == [
        True,
        *[False] * 5,
    ]
    assert shown("https://me:secret@host/x?key=1#2") == "https://host/x"


def test_other_systems_of_fsspec(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(DATA)
    assert fetch(f"file://{tmp_path}/a.bin").read_bytes() == DATA
    with pytest.raises(DataError, match=r"none: cannot be read: no such file"):
        fetch(f"file://{tmp_path}/none")
    with pytest.raises(ConfigError, match=r"--allow-remote file://"):
        load(net_file(tmp_path, f"file://{tmp_path}/a.h5")).net()


# The cache


def fetched_elsewhere(*urls: str, **environment: str) -> str:
    """Fetch URLs in a process of its own, one after the other, and return what is wrong."""
    code = "import sys; from nacre.files.remote import fetch\nfor url in sys.argv[1:]: print(fetch(url))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *urls],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stderr


def test_the_oldest_that_nobody_uses_are_removed(server: Server, tmp_path: Path) -> None:
    urls = [server.at(f"/{name}", name.encode() * 1000) for name in "abcd"]
    for place, url in enumerate(urls[:3]):
        assert fetched_elsewhere(url) == ""
        (folder,) = [path.parent for path in (tmp_path / "cache/remote").glob(f"*-*/{'abc'[place]}")]
        os.utime(folder, (place, place))
    held = fetch(urls[0])  # the newest by that, and in use
    os.utime(held.parent, (0, 0))
    assert fetched_elsewhere(urls[3], NACRE_REMOTE_BYTES="3000") == ""
    assert sorted(kept(tmp_path)) == ["a", "c", "d"]
    assert "/b: it has 1,000 bytes, but the cache" in fetched_elsewhere(urls[1], NACRE_REMOTE_BYTES="1999")
    assert sorted(kept(tmp_path)) == ["a"]
    assert held.read_bytes() == b"a" * 1000


def test_a_file_that_never_fits(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NACRE_REMOTE_BYTES", "1000")
    words = r"/a: it has 25,600 bytes, but the cache .* may have 1,000\n  let it have more: NACRE_REMOTE_BYTES=25600"
    with pytest.raises(DataError, match=words):
        fetch(server.at("/a", DATA))


def test_several_at_once_copy_it_once(server: Server, tmp_path: Path) -> None:
    url = server.at("/a", DATA)
    several = [threading.Thread(target=lambda: errors.append(fetched_elsewhere(url))) for _ in range(3)]
    errors: list[str] = []
    for one in several:
        one.start()
    for one in several:
        one.join()
    assert errors == ["", "", ""]
    assert [method for method, _ in server.asked].count("GET") == 1
    assert kept(tmp_path) == {"a": DATA}


def test_a_process_may_use_more_copies_than_it_may_have_open_files(server: Server) -> None:
    code = """if True:
        import resource, sys
        from nacre.files.remote import fetch

        fetch(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
        for url in sys.argv[2:]:
            print(fetch(url).read_bytes() == b"x")
    """
    urls = [server.at(f"/{place}", b"x") for place in range(40)]
    done = subprocess.run([sys.executable, "-c", code, *urls], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n" * 39, "")


def test_what_a_killed_process_left_is_replaced(server: Server, tmp_path: Path) -> None:
    url = server.at("/a", DATA)
    path = fetch(url)
    path.unlink()
    path.with_name(".a.tmp").write_bytes(b"half")
    assert fetch(url) == path
    assert kept(tmp_path) == {"a": DATA}
