"""A net behind HTTP: each request has a thread, and one other thread computes them, several at a time.

Only programs on this machine can ask, and no page of a browser, which cannot send these types of content elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Full, Queue
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any
from urllib.parse import unquote

from nacre import ConfigError, DataError, NacreError
from nacre.cli import Predictor
from nacre.files import finite

PICTURES = {f"image/{name}": f".{name}" for name in ("bmp", "gif", "jpeg", "png", "tiff", "webp")}
WAITING = 64  # requests; further ones are told to come again
SECONDS = 30.0  # that a request may take to arrive, or to be computed
Asked = tuple[Callable[[], Any], Future[dict[str, Any]]]  # what reads a record, and what is told of it


class Batcher:
    """Computes in one thread, for which the net is made, what many threads ask: all that waits, up to a batch."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor
        self.waiting: Queue[Asked | None] = Queue(WAITING)
        self.thread = Thread(target=self._work, daemon=True)
        self.thread.start()

    def ask(self, read: Callable[[], Any]) -> dict[str, Any]:
        """Return the answer to a record, which `read` returns. Raises Full or TimeoutError if there is no time."""
        self.waiting.put_nowait((read, answer := Future[dict[str, Any]]()))
        return answer.result(SECONDS)

    def _work(self) -> None:
        while (first := self.waiting.get()) is not None:
            asked: list[Asked | None] = [first]
            with suppress(Empty):
                while len(asked) < self.predictor.batch_size and asked[-1] is not None:
                    asked.append(self.waiting.get_nowait())
            self._answer([one for one in asked if one is not None])
            if asked[-1] is None:
                return

    def _answer(self, asked: list[Asked]) -> None:
        read: list[tuple[Any, Future[dict[str, Any]]]] = []
        for record, future in asked:
            try:
                read.append((record(), future))
            except Exception as error:  # of this request alone
                future.set_exception(error)
        try:
            answers = self.predictor.answer([record for record, _ in read]) if read else []
        except Exception as error:  # a bug, after which the next ones are answered
            answers = [{"key": "", "error": f"{error!r}", "remedy": "report it"}] * len(read)
        for (_, future), answer in zip(read, answers, strict=True):
            future.set_result(answer)


class Server(ThreadingHTTPServer):
    """Listens on 127.0.0.1; `limit` is the most bytes of a request."""

    daemon_threads, limit = True, 16 << 20

    def __init__(self, port: int, predictor: Predictor, name: str) -> None:
        predictor.takes_paths = False  # a stranger may not have files of this machine read
        self.batcher, self.name = Batcher(predictor), name
        try:
            super().__init__(("127.0.0.1", port), Handler)
        except OSError as error:
            raise ConfigError(f"port {port} cannot be used: {error.strerror}", "--port 0 takes a free one") from error

    def server_close(self) -> None:  # also if the port is taken
        super().server_close()
        self.batcher.waiting.put(None)
        self.batcher.thread.join()


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server  # pyright: ignore[reportIncompatibleVariableOverride] - it is always this one
    timeout = SECONDS

    def do_GET(self) -> None:
        self._send(200, {"net": self.server.name, "ask": "POST a picture, or a record in JSON"})

    def do_POST(self) -> None:
        length, kind = self.headers.get("Content-Length", ""), self.headers.get_content_type()
        host = self.headers.get("Host", "").rpartition(":")[0]
        if host not in ("127.0.0.1", "localhost"):
            self._send(403, f"this server is 127.0.0.1, not '{host}'", "ask it by this address, on this machine")
        elif not length.isdecimal():
            self._send(411, "the request has no Content-Length", "send the number of its bytes")
        elif int(length) > self.server.limit:
            self._send(413, f"of {int(length):,} bytes at most {self.server.limit:,} are read", "send one record")
        elif kind not in ("application/json", *PICTURES):
            told = f"Content-Type is {kind}, but must be one of: application/json, {', '.join(PICTURES)}"
            self._send(415, told, 'say what it is: curl --data-binary @cat.jpg -H "Content-Type: image/jpeg" URL')
        else:
            self._answer(kind, self.rfile.read(int(length)), unquote(self.path.lstrip("/")))

    def _answer(self, kind: str, body: bytes, name: str) -> None:
        picture = partial(self._picture, body, PICTURES.get(kind, ""), name)
        try:
            answer = self.server.batcher.ask(picture if kind in PICTURES else partial(self._json, body))
        except NacreError as error:
            self._send(400, str(error.args[0]), error.remedy)
        except (Full, TimeoutError):
            self._send(503, "too many requests are waiting", "ask again later")
        else:
            self._send(400 if "error" in answer else 200, [{"record": 0, **answer, "key": answer["key"] or name}])

    def _json(self, body: bytes) -> Any:
        try:
            record = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise DataError(f"the request is not JSON: {error}", "send JSON, or a picture with its type") from error
        return self.server.batcher.predictor.read(record)

    def _picture(self, body: bytes, ending: str, name: str) -> Any:
        with TemporaryDirectory(prefix="nacre-serve-") as folder:
            (path := Path(folder, f"picture{ending}")).write_bytes(body)
            try:
                return self.server.batcher.predictor.read_file(path, name or path.name)
            except NacreError as error:
                raise DataError(str(error.args[0]).replace(f"{folder}/", ""), error.remedy) from error

    def _send(self, code: int, data: Any, remedy: str = "") -> None:
        data = [{"error": data, "remedy": remedy}] if isinstance(data, str) else data
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(finite(data), ensure_ascii=False).encode() + b"\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing for each request."""
