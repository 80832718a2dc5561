"""A server on this machine that answers as a test says."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable
from typing import Any


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as the server's `answers` say, by path: bytes, or a function of this handler."""

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        server: Any = self.server
        server.asked.append((self.command, self.path))
        found = server.answers.get(self.path)
        if found is None:
            self.send_error(404, "Not Found")
        elif isinstance(found, bytes):
            self.give(found)
        else:
            found(self)

    def give(self, data: bytes, tag: str = '"1"', sent: bytes | None = None, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", tag)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data if sent is None else sent)

    def log_message(self, *_: object) -> None:
        pass


class Server:
    """A server at work; `asked` are the requests so far."""

    def __init__(self) -> None:
        self.http: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.answers, self.http.asked = {}, []
        self.host = f"127.0.0.1:{self.http.server_port}"
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def asked(self) -> list[tuple[str, str]]:
        return self.http.asked

    def at(self, path: str, answer: bytes | Callable[[Handler], None]) -> str:
        """Give this answer at a path, and return its URL."""
        self.http.answers[path] = answer
        return f"http://{self.host}{path}"

    def stop(self) -> None:
        if self.stopping.is_set():
            return
        self.stopping.set()
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()
