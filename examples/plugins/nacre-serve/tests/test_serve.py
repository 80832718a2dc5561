"""The server, asked over a real connection on this machine."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nacre_serve
import numpy as np
import pytest
from click.testing import CliRunner
from nacre_serve.command import command
from nacre_serve.server import Handler, Server

from nacre import ConfigError, Solver
from nacre.cli import Predictor, read_trained
from nacre.config import load
from nacre.testing import CommandTests, check_plugin
from nacre_solvers import Snapshot

NET = """
[[layer]]
type = "NumpyData"
name = "train"
tops = ["data", "label"]
source = "train.npz"
batch_size = 12
exclude = ["predict"]
[[layer]]
type = "InnerProduct"
name = "score"
bottoms = ["data"]
tops = ["score"]
output_dim = 2
[[layer]]
type = "SoftmaxLoss"
name = "loss"
bottoms = ["score", "label"]
exclude = ["predict"]
[[layer]]
type = "Softmax"
name = "prob"
bottoms = ["score"]
tops = ["prob"]
exclude = ["train"]
"""


@pytest.fixture
def predictor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Predictor]:
    """Return a net that knows dark from bright pictures of 4 x 4 pixels."""
    monkeypatch.chdir(tmp_path)
    write_trained(200)
    file, saved = read_trained(Path("net.toml"), (), None, "snapshots")
    with Predictor(file, saved, batch_size=4, backend="numpy") as made:
        yield made


def write_trained(iterations: int) -> None:
    """Write the net file, its data and a snapshot into the working folder."""
    label = np.arange(24) % 2
    np.savez("train.npz", data=label[:, None, None, None] * np.full((1, 4, 4), 250.0), label=label)
    Path("net.toml").write_text(NET)
    with load("net.toml").net("train", backend="numpy") as net:
        Solver("SGD", max_iter=iterations, lr_policy=1e-5, callbacks=[Snapshot()]).solve(net)


@pytest.fixture
def server(predictor: Predictor) -> Iterator[Server]:
    """Return the server at work."""
    with Server(0, predictor, "net") as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(server: Server, body: Any, kind: str = "application/json", path: str = "/", **headers: str) -> tuple[int, Any]:
    """Return the code and the answer to a request."""
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", path, data, {"Content-Type": kind, **headers})
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def test_records_and_pictures_are_answered(server: Server) -> None:
    """As `nacre predict --json` would."""
    code, (told,) = ask(server, np.full((1, 4, 4), 250.0).tolist(), path="/bright%20one")
    assert (code, told["record"], told["key"], told["classes"][0]["class"]) == (200, 0, "bright one", 1)
    assert told["classes"][0]["percent"] > 50
    image = pytest.importorskip("PIL.Image")
    for value in (0, 250):
        file = io.BytesIO()
        image.new("L", (4, 4), value).save(file, "PNG")
        code, (told,) = ask(server, file.getvalue(), "image/png", "/a.png")
        assert (code, told["key"], told["classes"][0]["class"]) == (200, "a.png", value // 250)


def test_what_waits_is_computed_together(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first ones four at a time, as many as a batch has."""
    predictor, counts, begun = server.batcher.predictor, [], threading.Event()
    answer = predictor.answer

    def slow(records: Any) -> Any:
        counts.append(len(records))
        begun.wait(30)
        return answer(records)

    monkeypatch.setattr(predictor, "answer", slow)
    with ThreadPoolExecutor(9) as pool:
        asked = [pool.submit(ask, server, np.full(16, 250.0 * (n % 2)).tolist(), path=f"/{n}") for n in range(9)]
        while server.batcher.waiting.qsize() + sum(counts) < 9:
            begun.wait(0.01)
        begun.set()
        found = [one.result() for one in asked]
    assert [told["classes"][0]["class"] for _, (told,) in found] == [n % 2 for n in range(9)]
    assert [told["key"] for _, (told,) in found] == [str(n) for n in range(9)]
    assert sum(counts) == 9 and counts[1] == max(counts) == 4


def test_bad_requests_are_told(server: Server) -> None:
    """And the next ones are answered."""
    server.limit = 4096
    no_picture = "this is not a picture" if find_spec("PIL") else "pictures need Pillow"
    for code, error, (body, kind, headers) in (
        (400, "the request is not JSON", (b"{", "application/json", {})),
        (400, "the net reads no 'file'", ({"file": "/etc/passwd"}, "application/json", {})),
        (400, "the record has the shape (3,), but the net needs (1, 4, 4)", ([1, 2, 3], "application/json", {})),
        (400, f"picture.png: {no_picture}", (b"no picture", "image/png", {})),
        (403, "not 'evil.example'", ([1], "application/json", {"Host": "evil.example:80"})),
        (411, "no Content-Length", ([1], "application/json", {"Content-Length": "x"})),
        (413, "at most 4,096 are read", (b" " * 5000, "application/json", {})),
        (415, "Content-Type is text/plain", (b"1", "text/plain", {})),
    ):
        found, (told,) = ask(server, body, kind, **headers)
        assert found == code and error in told["error"], (error, told)
        assert told["remedy"] and '"file"' not in told["remedy"]
    assert ask(server, [0.0] * 16)[0] == 200  # it still answers


@pytest.mark.usefixtures("interrupted", "predictor")
def test_a_saved_net_stands_alone() -> None:
    """Without a snapshot beside it."""
    net = load("net.toml").net("train", backend="numpy")
    net.save("net.nacre")
    done = CliRunner().invoke(command, ["net.nacre", "--port", "0", "--backend", "numpy"])
    assert done.exit_code == 0, done.output
    assert "Missing argument" in str(CliRunner().invoke(command, ["net.toml", "--port", "0"]).exception)


def test_it_says_what_it_is(server: Server) -> None:
    """To somebody who opens the address in a browser."""
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request("GET", "/")
    assert json.loads(connection.getresponse().read())["net"] == "net"
    connection.close()
    assert Handler.timeout < 60


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let somebody type Ctrl-C as soon as a server listens."""

    def interrupt(_: Server) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "serve_forever", interrupt)


@pytest.mark.usefixtures("interrupted")
class TestServe(CommandTests):
    """Help, JSON, errors in sentences, and no traces elsewhere."""

    command = command
    name = "serve"
    wrong = (("--port", "70000"), ("--set", "layer.nobody.output_dim=2"))

    def arguments(self, folder: Path) -> list[str]:
        write_trained(1)
        return ["net.toml", "snapshots", "--port", "0", "--backend", "numpy"]


def test_everything_that_is_offered_can_be_used() -> None:
    """As `nacre check nacre-serve` says."""
    check_plugin("nacre-serve")


@pytest.mark.usefixtures("interrupted")
def test_the_command_ends_with_ctrl_c(predictor: Predictor) -> None:
    """Without a traceback."""
    done = CliRunner().invoke(command, ["net.toml", "snapshots", "--port", "0", "--backend", "numpy"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("net 'net' at http://127.0.0.1:")
    with Server(0, predictor, "net") as taken:
        done = CliRunner().invoke(command, ["net.toml", "snapshots", "--port", str(taken.server_port)])
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith(f"port {taken.server_port} cannot be used: ")
    assert nacre_serve.offer_commands() == {"serve": "nacre_serve.command:command"}
