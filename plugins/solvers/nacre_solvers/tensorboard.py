"""TensorBoard: writes the numbers of a training into event files for TensorBoard, without TensorFlow."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import count
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from nacre import CallbackState, NacreError, OutputPath, PerNet, Training, default, output_place
from nacre.files import os_errors

from .listener import Listener, ListenerState, numbers

EVENTS = "events.out.tfevents."
"""How the names of event files begin."""


class TensorBoard(Listener):
    """Writes the numbers of summaries and validations for TensorBoard: `tensorboard --logdir runs`.

    They come from the callbacks `TrainingSummary` and `ValidationPerformance`, as train/loss, train/rate,
    validation/loss, validation/layer/statistic and so on. Every training is a run of its own: in the folder, or
    where another training has written there, in its sub-folder 2, 3 and so on. If it is resumed from a snapshot, it
    goes on in the last one, and TensorBoard ignores the older values after that iteration.

    Raises:
        NacreError: the folder cannot be written.
    """

    on_every_rank = False
    outputs = ("path",)

    path: Annotated[
        OutputPath, "folder of the run; relative to the working folder; in net.toml by default runs/net"
    ] = default(PerNet("runs", "runs/{net}"))

    def start(self, training: Training) -> CallbackState:
        return TensorBoardState(self, training)


class TensorBoardState(ListenerState):
    """`TensorBoard` in one training: holds the event file."""

    file: EventFile | None = None

    def begin(self) -> None:
        folder = _run_folder(output_place(self.path), resumed=self.training.resumed_from is not None)
        with os_errors(Path(self.path), "cannot be written", NacreError):
            self.file = EventFile(folder)
            if self.training.resumed_from is not None:
                self.file.restart(self.training.resumed_from)

    def on_event(self, event: str, data: Mapping[str, Any]) -> None:
        if self.file is not None and (found := list(numbers(event, data))):
            self.file.scalars(data["iteration"], found)

    def shutdown(self) -> None:
        if self.file is not None:
            file, self.file = self.file, None
            self.attempt(file.close)


def _run_folder(folder: Path, *, resumed: bool) -> Path:
    """Return a folder without the events of other trainings, or the last one with events if a training is resumed."""
    last = place = folder
    for number in count(2):
        if not any(place.glob(f"{EVENTS}*")):
            break
        last, place = place, folder / str(number)
    return last if resumed else place


class EventFile:
    """An event file of TensorBoard: TFRecord records, each with one `Event` message."""

    def __init__(self, folder: str | Path) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        start = f"{EVENTS}{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
        self._file = next(file for number in count() if (file := _new(Path(folder) / f"{start}.{number}")))
        self._event(0, _bytes(3, b"brain.Event:2"))

    def scalars(self, step: int, values: Iterable[tuple[str, float]]) -> None:
        """Write numbers with their names."""
        summary = b"".join(
            _bytes(
                1, _bytes(1, name.encode("utf-8", "backslashreplace")) + _key(2, 5) + struct.pack("<f", _float32(value))
            )
            for name, value in values
        )
        self._event(step, _bytes(5, summary))

    def restart(self, step: int) -> None:
        """Mark the values of later steps in other files as void."""
        self._event(step + 1, _bytes(7, _key(1, 0) + _varint(1)))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _event(self, step: int, what: bytes) -> None:
        message = _key(1, 1) + struct.pack("<d", time.time()) + _key(2, 0) + _varint(step) + what
        length = struct.pack("<Q", len(message))
        self._file.write(length + _checksum(length) + message + _checksum(message))
        self._file.flush()


def _new(path: Path) -> BinaryIO | None:
    try:
        return path.open("xb")
    except FileExistsError:
        return None


# Protocol buffers: https://protobuf.dev/programming-guides/encoding/


def _key(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])


def _bytes(field: int, data: bytes) -> bytes:
    return _key(field, 2) + _varint(len(data)) + data


def _float32(value: float) -> float:
    """Return a number as float32; an infinity if it is too large."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


# TFRecord's checksum: CRC-32C, rotated and shifted


@cache
def _table() -> list[int]:
    table = list(range(256))
    for _ in range(8):
        table = [one >> 1 ^ (0x82F63B78 if one & 1 else 0) for one in table]
    return table


def crc32c(data: bytes) -> int:
    """Compute the CRC-32 with Castagnoli's polynomial."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _checksum(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
