"""The pictures of files, unpacked by several threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np

from nacre import Codec, DataError, Field, Reader, ReaderWrapper, make_component, open_records

from .codecs.picture import Picture

WAITING = 4  # pictures for each thread that are read from the disk, and wait to be unpacked


def open_pictures(
    paths: Sequence[Path],
    fields: Sequence[str],
    *,
    store: Any,
    codec: Any,
    shapes: Mapping[str, tuple[int, ...]],
    threads: int,
    channels: int,
    mirror: bool,
    skips: bool,
) -> Reader:
    """Open files whose field `fields[0]` holds pictures, as `PictureReader` unpacks them.

    `shapes` has that of the pictures, unless it is that of the first, or with `skips` of the first that can be read.
    The other arguments are those of `open_records` and `PictureReader`.

    Raises:
        DataError: a file cannot be read, or holds no pictures.
    """
    reader = open_records(paths, fields, store=store, codec=None)
    try:
        where = str(paths[0]) if len(paths) == 1 else ""
        codec = make_component(Codec, codec) if not isinstance(codec, Codec) else codec
        return PictureReader(reader, where, fields[0], codec, shapes.get(fields[0]), threads, channels, mirror, skips)
    except BaseException:
        reader.close()
        raise


class PictureReader(ReaderWrapper):
    """The records of a reader, of which the field `name` holds pictures.

    The other arguments: `where` begins the errors, `channels` are those that the pictures get, `mirror` lets `read`
    turn them left to right, and `skips` lets those that cannot be read have no say in the shape.
    """

    def __init__(
        self,
        reader: Reader,
        where: str,
        name: str,
        codec: Picture,
        shape: tuple[int, ...] | None,
        threads: int,
        channels: int,
        mirror: bool,
        skips: bool,
    ) -> None:
        super().__init__(reader)
        self.where = where
        self.name = name
        self.codec = codec
        self.channels = channels
        self.mirror = mirror
        self.threads = threads
        if reader.count is None:
            raise DataError("the pictures have no numbers: they are read one after the other", "use the layer Data")
        if not reader.count:
            raise DataError("there are no pictures in the data")
        others = [field for other, field in reader.fields.items() if other != name]
        if reader.fields[name].codec != "Picture" or any(field.codec or field.shape is None for field in others):
            raise DataError(f"'{name}' must hold pictures, and other tops numbers", "use the layer Data")
        shape = shape or self._first_shape(reader.count if skips else 1)
        field = Field(shape, reader.fields[name].dtype, reader.fields[name].classes)
        self.fields: Mapping[str, Field] = {**reader.fields, name: field}
        self.pool = ThreadPoolExecutor(threads, "nacre unpacks pictures")

    def _first_shape(self, tries: int) -> tuple[int, ...]:
        """Return the shape of the first picture that can be read; after so many tries raise the error of the first."""
        first: DataError | None = None
        for number in range(tries):
            try:
                data = self._bytes(number)
                with self.naming(number, self.where):
                    return self.codec.pixels(data, self.channels).shape
            except DataError as error:
                first = first or error
        assert first is not None
        raise first

    def read(self, numbers: np.ndarray, out: Mapping[str, Any], draws: np.ndarray | None = None) -> None:
        """Write records into `out`, as every reader does.

        `draws` are three numbers from [0, 1) for each picture: where the window is that is cut out, from top to bottom
        and from left to right, and whether the picture is mirrored. Without them the window is in the middle.
        """
        others = {name: rows for name, rows in out.items() if name != self.name}
        if others:
            self.reader.read(numbers, others)
        if self.name not in out:
            return
        waiting: deque[tuple[int, Future[None]]] = deque()
        places = draws.tolist() if draws is not None else [None] * len(numbers)
        try:
            for number, place, row in zip(numbers.tolist(), places, out[self.name], strict=True):
                waiting.append((number, self.pool.submit(self._unpack, self._bytes(number), place, row)))
                if len(waiting) > WAITING * self.threads:
                    self._finish(*waiting.popleft())
            while waiting:
                self._finish(*waiting.popleft())
        finally:
            wait([future for _, future in waiting])  # after an error too: the array is used again

    def _finish(self, number: int, unpacked: Future[None]) -> None:
        with self.naming(number, self.where):
            unpacked.result()

    def _bytes(self, number: int) -> bytes:
        place: list[bytes] = [b""]
        self.reader.read(np.array([number]), {self.name: place})
        return place[0]

    def _unpack(self, data: bytes, draws: Sequence[float] | None, out: np.ndarray) -> None:
        """Write a picture into its place; runs in a thread."""
        if draws is None:
            pixels = self.codec.pixels(data, len(out))
        else:
            down, right, side = draws
            pixels = self.codec.pixels(data, len(out), None, (down, right), mirror=self.mirror and side < 0.5)
        if pixels.shape != out.shape:
            message = f"it has the shape {pixels.shape}, but the batch {out.shape}"
            raise DataError(message, "give new_height and new_width, or crop_size")
        out[...] = pixels

    def close(self) -> None:
        self.pool.shutdown()
        super().close()
