"""JSONLog: one JSON line for each event of a training."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from nacre import CallbackState, NacreError, OutputPath, PerNet, Training, default, open_to_append
from nacre.files import begin_line, event_line, is_log, os_errors

from .listener import Listener, ListenerState


class JSONLog(Listener):
    """Appends one JSON line for each event: start, summary, validation, snapshot, warning and end, but not for steps.

    A line has `event`, `clock` (seconds since the training was made), `iteration` and the event's data; numbers that
    are not finite are null. The same as `nacre train --log PATH`.

    Raises:
        NacreError: the file cannot be written, or another training writes to it.
        ConfigError: the path comes from a net file, but the file exists and is not such a log.
    """

    on_every_rank = False
    outputs = ("path",)

    path: Annotated[OutputPath, "the file; relative to the working folder; in net.toml net-training.jsonl"] = default(
        PerNet("training.jsonl", "{net}-training.jsonl")
    )

    def start(self, training: Training) -> CallbackState:
        return JSONLogState(self, training)


class JSONLogState(ListenerState):
    """`JSONLog` in one training: holds the file."""

    def __init__(self, callback: JSONLog, training: Training) -> None:
        self.file: BinaryIO | None = None
        super().__init__(callback, training)
        self.clock = time.perf_counter()
        self.file = open_to_append(self.path, is_log)
        with os_errors(Path(self.path), "cannot be written", NacreError):
            begin_line(self.file, self.path)

    def on_event(self, event: str, data: Mapping[str, Any]) -> None:
        if event != "step" and self.file is not None:
            self.file.write(event_line(event, data, self.clock).encode())
            self.file.flush()

    def shutdown(self) -> None:
        if self.file is not None:
            file, self.file = self.file, None
            self.attempt(file.close)
