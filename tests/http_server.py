"""A server on this machine that answers as a test says."""

from __future__ import annotations

import hashlib
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


class Bucket(http.server.BaseHTTPRequestHandler):
    """Keeps what is put, and gives it back, as S3 does: `/bucket/key`. Nobody is asked who he is."""

    protocol_version = "HTTP/1.1"  # a client waits for "100 Continue"
    NOTHING = b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></ListBucketResult>'

    def do_PUT(self) -> None:
        self.files()[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.give(b"")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        found = self.NOTHING if "list-type=" in self.path else self.files().get(self.path)
        self.give(b"" if found is None else found, 404 if found is None else 200)

    def files(self) -> dict[str, bytes]:
        server: Any = self.server
        return server.files

    def give(self, data: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", f'"{hashlib.md5(data).hexdigest()}"')
        self.send_header("Last-Modified", "Mon, 05 Jan 2026 00:00:00 GMT")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass
