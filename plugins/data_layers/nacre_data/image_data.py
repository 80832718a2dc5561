"""ImageData: pictures from folders and lists, scaled, cut and mirrored while a net computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from nacre import Maybe, Paths, Store, Transformer, at_least, default, local_file
from nacre.random import RecordRandom

from .codecs.picture import Background, CropSize, NewHeight, NewWidth, Picture, ShortSide, misfits
from .files import named
from .picture_reader import open_pictures
from .reading import ReadingLayer, SourceReader, Threads, read_with
from .records import ArrayRecords, Records, column_of
from .source import Ahead, Passes, RecordSourceState
from .stores.pictures import Pictures, RootFolder
from .transformers import PerChannel, Scale, SubMean


class ImageDataLayer(ReadingLayer, is_source=True):
    """Feed pictures and their classes: from a folder with a sub-folder for each class, or from a list.

    y[n] = (picture[order[position + n]] - mean) * scale, where position grows by batch_size with every batch.

    Pictures are (channels, rows, columns) of numbers from 0 to 255, red first. They are scaled to `new_height` and
    `new_width`, or to `short_side`; then `crop_size` is cut out. Without any of these fields, all must have the size of
    the first (with `on_error = "skip"`, of the first that can be read). In phase `train` the window is anywhere, and
    with `mirror` half of the pictures are turned left to right: a function of the seed, the layer's name, the pass, and
    the number of the picture, whatever the batches and the threads. In the other phases the window is in the middle.
    What is read is told at the store `Pictures`, and how pictures are converted at the codec `Picture`. Labels become
    int64 blobs. After Caffe's `ImageData`. Needs Pillow: pip install "nacre[images]". Raises DataError if pictures
    cannot be read or have another size.

    Example:
        [[layer]]
        type = "ImageData"
        source = "train"  # a folder, with train/cat/1.jpg, train/dog/2.jpg and so on
        tops = ["data", "label"]  # (8, 3, 6, 6), (8,)
        batch_size = 8
        shuffle = true
        short_side = 8
        crop_size = 6
        mirror = true
        mean = [123, 117, 104]
    """

    source: Annotated[Paths, at_least(1), "folders, pictures, or .txt lists of pictures; relative to the net file"]
    root_folder: RootFolder = default(())
    store: Annotated[Maybe[Store], "another format of files that hold pictures"] = default(None)
    is_color: Annotated[bool, "three channels; false: one, grey"] = True
    new_height: NewHeight = 0
    new_width: NewWidth = 0
    short_side: ShortSide = 0
    crop_size: CropSize = default((0, 0))
    mirror: Annotated[bool, "in phase train, turn half of the pictures left to right"] = False
    mean: Annotated[PerChannel, "numbers to subtract: one for all channels, or one for each"] = default((0.0,))
    scale: Annotated[PerChannel, "factors, after the mean is subtracted: one for all channels, or one for each"] = (
        default((1.0,))
    )
    background: Background = default(())
    threads: Threads = 2
    ahead: Ahead = 2

    elsewhere: ClassVar[Mapping[str, str]] = {
        "directory": "source", "folder": "source", "root": "source", "path": "source",
        "image_size": "crop_size", "target_size": "crop_size", "resize": "short_side",
        "shape": "new_height",
    }  # fmt: skip

    def reading(self) -> dict[str, Any]:
        """Return the store, and the codec that makes records of pictures as they are outside phase `train`."""
        codec = Picture(
            new_height=self.new_height,
            new_width=self.new_width,
            short_side=self.short_side,
            crop_size=self.crop_size,
            background=self.background,
        )
        return {"store": self.store or Pictures(root_folder=self.root_folder), "codec": codec}

    @property
    def conversion(self) -> tuple[tuple[str, Transformer], ...]:
        top, own = self.tops[0], list[tuple[str, Transformer]]()
        if any(self.mean):
            own.append((top, SubMean(mean=self.mean)))
        if set(self.scale) != {1}:
            own.append((top, Scale(scale=self.scale)))
        return (*own, *self.transformers)

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        yield from misfits(self)
        channels = 3 if self.is_color else 1
        for name, numbers in (("mean", self.mean), ("scale", self.scale)):
            if len(numbers) not in (1, channels):
                yield f"{name}={numbers}, but the pictures have {channels} channel{'s' if channels > 1 else ''}"
        if fitted := [one for top, one in self.transformers if top == self.tops[0] and one.needs_fit]:
            kind = type(fitted[0]).__name__
            yield f"transformers: {kind} has to be fitted, but pictures change from pass to pass: use mean and scale"
        if self.store is not None and self.root_folder:
            yield f"root_folder={self.root_folder}, but store names another format: only Pictures has lists"

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> RecordSourceState:
        """Open the files; only the first picture is read yet, if it has to tell the size.

        Raises:
            DataError: a file cannot be read, or there are fewer pictures than in a batch.
        """
        channels = 3 if self.is_color else 1
        size = self.crop_size if self.crop_size[0] else (self.new_height, self.new_width)
        options: dict[str, Any] = {
            "fields": (*self.tops, *self.columns(backend.phase)),
            "shapes": {self.tops[0]: (channels, *size)} if size[0] else {},
            "channels": channels,
            "mirror": self.mirror,
            "skips": self.on_error == "skip",
            **self.reading(),
        }
        with named(self.name):
            options["paths"] = [local_file(path) for path in self.source]
            reader = read_with(self, "pictures", open_pictures, options)
        try:
            records = PictureRecords(self, backend, reader)
            state = RecordSourceState(self, backend, records)
        except BaseException:
            reader.close()
            raise
        records.passes = state.passes
        return state


class PictureRecords(Records):
    """The pictures of a reader and what is drawn for each; the first top has them, the others have numbers."""

    passes: Passes

    def __init__(self, layer: ImageDataLayer, backend: Any, reader: SourceReader) -> None:
        self.layer = layer
        self.reader = reader
        self.count = reader.count or 0
        self.varies = backend.phase == "train" and (layer.mirror or layer.crop_size[0] > 0)
        self.top, *self.others = layer.tops
        self.random = RecordRandom(backend.seed, f"{layer.name}/{self.top}", lambda: 0)
        fields = [reader.fields[top] for top in layer.tops]
        self.shapes = [field.shape or () for field in fields]
        self.dtypes = [np.dtype(field.dtype) for field in fields]
        self.classes = {top: field.classes for top, field in zip(layer.tops, fields, strict=True) if field.classes}

    def read(self, records: np.ndarray, arrays: Sequence[np.ndarray]) -> None:
        self._read(self.layer.tops, records, arrays, self._draws(records) if self.varies else None)

    def read_top(self, top: int, records: np.ndarray, array: np.ndarray) -> None:
        self._read([self.layer.tops[top]], records, [array])

    def _read(
        self, tops: Sequence[str], records: np.ndarray, arrays: Sequence[np.ndarray], draws: np.ndarray | None = None
    ) -> None:
        """Read pictures into their places, and numbers so that they are checked on the way."""
        places = dict(zip(tops, arrays, strict=True))
        fields = {top: self.reader.fields[top] for top in tops if top != self.top}
        given = {top: np.empty((len(records), *(field.shape or ())), field.dtype) for top, field in fields.items()}
        with named(self.layer.name):
            self.reader.read(records, {**places, **given}, draws)
            if given:
                checked = ArrayRecords(self.layer.name, list(given), list(given.values()))
                checked.read(np.arange(len(records)), [places[top] for top in given])

    def _draws(self, records: np.ndarray) -> np.ndarray:
        """Return three numbers from [0, 1) for each picture: where the window is, and whether to mirror."""
        self.random.at(records, self.passes.epochs)
        return self.random.each(3)

    def replace_by(self, numbers: np.ndarray) -> None:
        self.reader.among = np.sort(numbers)

    def column(self, name: str) -> np.ndarray:
        return column_of(self.reader, self.layer.name, name)

    def key(self, number: int) -> str:
        return self.reader.key(number)

    def left_out(self, records: np.ndarray) -> list[str]:
        return self.reader.left_out(records)

    def interrupt(self) -> None:
        self.reader.interrupt()

    def close(self) -> None:
        self.reader.close()
