"""The process that reads records for another one: `python -m nacre_data.reader`, started by `processes`.

It gets a line of JSON for each request, answers with one, and puts records into memory that both share. It ends when
nobody can ask it any more, whatever ended the other process.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from operator import attrgetter
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

import nacre
from nacre import DataError, NacreError, Reader, open_records, registry

from .picture_reader import open_pictures
from .records import check_shape
from .shared_rows import BESIDES, DRAWS, NUMBERS, SharedRows

OPENERS: dict[str, Callable[..., Reader]] = {"records": open_records, "pictures": open_pictures}
"""What a job may name; its options are those of the function."""


def main() -> None:
    """Serve requests until there can be no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process decides
    faulthandler.enable(2)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a plugin prints is no answer
    requests = SimpleQueue[bytes]()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()

    def send(answer: dict[str, Any]) -> None:
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()

    served = Served(SharedRows(int(sys.argv[1])), send)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        while True:
            try:
                answer = served.answer(json.loads(requests.get()))
            except Exception as error:
                answer = {"error": _told(error)}
            send({**answer, "warnings": [str(warning.message) for warning in warned]})
            warned.clear()


def _listen(requests: SimpleQueue[bytes]) -> None:
    """Pass requests on; end the process when the other one has ended, also if a record is being waited for."""
    for line in sys.stdin.buffer:
        requests.put(line)
    os._exit(0)


def _told(error: Exception) -> dict[str, str]:
    """Return an error as the other process raises it again."""
    if isinstance(error, OSError):
        error = DataError(str(error)).with_traceback(error.__traceback__)
    known = [kind.__name__ for kind in type(error).__mro__ if getattr(nacre, kind.__name__, None) is kind]
    message, remedy = (
        (str(error.args[0]), error.remedy)
        if isinstance(error, NacreError)
        else (f"{type(error).__name__}: {error}".removesuffix(": "), "")
    )
    trace = "".join(traceback.format_exception(error))
    return {"kind": known[0] if known else "", "message": message, "remedy": remedy, "trace": trace}


class Served:
    """The reader of a job, and the answers to requests for its records."""

    reader: Any

    def __init__(self, shared: SharedRows, send: Callable[[dict[str, Any]], None]) -> None:
        self.shared = shared
        self.send = send
        self.records: Iterator[tuple[int, Mapping[str, Any]]] = iter(())
        self.failed: Exception | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one request."""
        if "open" in request:
            return self._open(**request)
        if "key" in request:
            return {"key": self.reader.key(request["key"])}
        return self._read(**request) if "read" in request else self._rows(**request)

    def _open(
        self,
        open: str,
        options: dict[str, Any],
        pins: dict[str, str],
        plugins: list[str],
        registered: list[tuple[str, str, str]],
    ) -> dict[str, Any]:
        for file in plugins:
            registry().load_file(file)
        for kind, name, place in registered:
            module, _, attribute = place.partition(":")
            registry().register(attrgetter(attribute)(import_module(module)), name, kind)
        registry().pins = pins
        options["paths"] = [Path(path) for path in options["paths"]]
        options["shapes"] = {name: tuple(shape) for name, shape in options["shapes"].items()}
        self.reader = OPENERS[open](**options)
        fields = {
            name: [field.shape, field.dtype, field.classes, field.codec, field.columns, field.places]
            for name, field in self.reader.fields.items()
        }
        reader = self.reader
        return {"fields": fields, "count": reader.count, "named": reader.named, "file_starts": reader.file_starts}

    def _read(self, read: int, names: list[str], draws: bool) -> dict[str, Any]:
        """Read the records whose numbers are in the memory."""
        arrays = self.shared.arrays(self._laid_out(names, draws), read)
        numbers = arrays.pop(NUMBERS).copy()
        drawn = [arrays.pop(DRAWS).copy()] if draws else []
        self.send({"at": self.reader.key(int(numbers[0]))})  # should this process end now
        self.reader.read(numbers, arrays, *drawn)
        return {}

    def _laid_out(self, names: list[str], draws: bool) -> dict[str, Any]:
        besides = BESIDES if draws else {NUMBERS: BESIDES[NUMBERS]}
        return {**besides, **{name: self.reader.fields[name] for name in names}}

    def _rows(self, rows: int, names: list[str], start: int | None) -> dict[str, Any]:
        """Put the next records into the memory, from number `start` on if it is given; an error comes after them."""
        if self.failed is not None:
            raise self.failed
        if start is not None:
            self.records = enumerate(self.reader.rows(start), start)
        arrays = self.shared.arrays({name: self.reader.fields[name] for name in names}, rows)
        count = 0
        try:
            for number, record in islice(self.records, rows):
                for name, array in arrays.items():
                    check_shape(self.reader, number, name, np.shape(record[name]), array.shape[1:])
                    array[count] = record[name]
                count += 1
        except Exception as error:
            if not count:
                raise
            self.failed = error
        return {"count": count, "more": count == rows or self.failed is not None}


if __name__ == "__main__":
    main()
