"""CharText and WordText: the characters or words of texts, in parallel streams, with those that follow as targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import numpy as np

from nacre import (
    Converted,
    DataError,
    Layer,
    Names,
    Paths,
    SnapshotError,
    SourceState,
    Texts,
    at_least,
    count_in,
    default,
    every,
    local_file,
    positive,
)

from .files import named
from .fitting import CLASSES
from .text_units import Characters, Text, Words

UNITS = "units"
"""The key of what a text consists of: "character" or "word"."""
UNKNOWN = "unknown"
"""The key of the name that stands for all that training did not have, if there is one."""
of_64_bits = every(lambda number: -(2**63) <= number < 2**63, "a whole number of 64 bits, as targets are")


class Part(Converted[Sequence[float], tuple[float, float]]):
    """Where a part of a text begins and ends: two numbers from 0 to 1, the smaller one first."""

    wants = "two numbers from 0 to 1, the smaller one first, such as [0.0, 0.9]"

    @staticmethod
    def convert(value: Any) -> tuple[float, float]:
        begin, end = map(float, value)
        if not 0 <= begin < end <= 1:
            raise ValueError
        return begin, end


class TextSource(Layer, is_source=True):
    """The fields of a source over texts; a subclass says what the units of a text are."""

    tops: Annotated[Names, at_least(1), "names of the blobs: the numbers, the targets, and where streams go on"] = (
        default(("data", "label"))
    )
    source: Annotated[Paths, at_least(1), "texts in UTF-8, one after the other; relative to the net file"]
    batch_size: Annotated[int, positive, "number of streams, which are the images of a batch"]
    steps: Annotated[int, positive, "steps of each stream in a batch"] = 50
    part: Annotated[Part, "part of the text that is fed, from 0 to 1: [0.0, 0.9] for training, [0.9, 1.0]"] = default(
        (0.0, 1.0)
    )
    vocabulary: Annotated[Texts, "names of the numbers, in their order; by default those of the training's text"] = (
        default(())
    )
    unknown: Annotated[
        Literal["error", "own"], 'what training did not have: "error", or "own" for a number of its own'
    ] = "error"
    ignore_label: Annotated[int, of_64_bits, "the target where the text has ended, in other phases than training"] = -1

    def units(self) -> Characters | Words:
        """Return what turns a text into codes."""
        raise NotImplementedError

    def reading_from(self, paths: Sequence[str]) -> Layer:
        return replace(super().reading_from(paths), part=(0.0, 1.0))

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if len(self.tops) > 3:
            yield f"tops={list(self.tops)}, but there are at most three: numbers, targets, and where streams go on"
        if twice := [name for name, count in Counter(self.vocabulary).items() if count > 1]:
            yield f"vocabulary has {twice[0]!r} twice"

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> TextState:
        return TextState(self, backend)


class CharTextLayer(TextSource, is_source=True):
    """Feed the characters of texts in parallel streams, with the character that follows each as its target.

    data[i, t] = text[s + t] and label[i, t] = text[s + t + 1], where stream i is at s; the next batch goes on at s +
    steps.

    Tops are (batch_size, steps): the numbers of the characters and of their targets, int64, and if there is a third
    top, 0 where a stream begins anew, else 1, in the net's type (Caffe's `cont`). In phase `train`, stream i begins at
    i · length / batch_size, and goes on at the beginning of the text when it has reached the end. In other phases a
    pass feeds every target exactly once: each stream has a part of the text, and targets behind its end are
    `ignore_label`, so give losses and statistics the same. The vocabulary are the characters of the training's text, in
    the order of code points; it is kept in snapshots, and other sources of these tops use it (`net.fitted`,
    `net.classes`). With unknown="own" it has the character U+FFFD too, which stands for all others. After SINGA's
    `CharRNNInput` and `RNNLabel`. Raises DataError if a file is not UTF-8.

    Example:
        [[layer]]
        type = "CharText"
        source = "text.txt"
        tops = ["data", "label"]  # (8, 20), (8, 20)
        batch_size = 8
        steps = 20
    """

    def units(self) -> Characters:
        return Characters()


class WordTextLayer(TextSource, is_source=True):
    """Feed the words of texts in parallel streams, with the word that follows each as its target.

    data[i, t] = word[s + t] and label[i, t] = word[s + t + 1], where stream i is at s; the next batch goes on at s +
    steps.

    Words are what stands between white space, and the end of a line is a word too. Tops are (batch_size, steps), as
    those of `CharText`. The vocabulary are the words of the training's text, the most frequent first, those of one
    frequency in the order of code points; so `ClassSoftmaxLoss` can take words of neighbouring numbers as a class. With
    `most` only so many words have a number of their own, and with unknown="own" all others are the word "<unk>".

    Example:
        [[layer]]
        type = "WordText"
        source = "text.txt"
        tops = ["data", "label"]  # (8, 20), (8, 20)
        batch_size = 8
        steps = 20
        most = 5
        unknown = "own"
    """

    most: Annotated[int | None, positive, "number of words in the vocabulary, the most frequent ones"] = None

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if self.most is not None and self.unknown != "own":
            yield f'most={self.most} leaves words without a number of their own, so unknown must be "own"'

    def units(self) -> Words:
        return Words(self.most)


class TextState(SourceState, host_only=True):
    """A source over texts, on any backend.

    A text of n + 1 units has n targets. In phase `train` the streams lie on a circle of n places, and a pass is so many
    steps that all streams together have read each of them. In other phases the text is cut into windows of `steps`; a
    stream has consecutive ones, the first streams one more if the number is uneven. So rows that count come first, and
    only the last window of the text may have targets that do not count.

    `position` is how many steps the streams have made: in phase `train` since they began, else in this pass. With
    several ranks, each has its part of the streams of all.

    Raises:
        DataError: the text cannot be read, has unknown characters or words, or is shorter than a batch.
    """

    def __init__(self, layer: TextSource, backend: Any) -> None:
        super().__init__(layer, backend, [], [])
        shape = layer.batch_size, layer.steps
        self.blobs = [backend.blob(shape, kind) for _, kind in zip(layer.tops, ("int64", "int64", None), strict=False)]
        self.trains = backend.phase == "train"
        self.first, self.streams = backend.joined(layer.batch_size)
        self.position = 0
        self.units = layer.units()
        self.read: Text | None = None  # until it is numbers
        self.text: np.ndarray | None = None
        known = self._known()
        if known is None and self.trains:
            self.read = self._read()
            known = self.read.vocabulary()
        if known is not None:
            own = {UNKNOWN: self.units.unknown} if layer.unknown == "own" else {}
            names = list(dict.fromkeys([*known, *own.values()]))
            self.fitted = {top: {CLASSES: names, UNITS: self.units.what, **own} for top in layer.tops[:2]}

    def _known(self) -> Sequence[str] | None:
        """Return the vocabulary of the training, or that of the layer, if there is one."""
        found = (self.backend.fitted.get(top, {}).get(CLASSES) for top in self.layer.tops[:2])
        return next((names for names in (*found, self.layer.vocabulary) if names), None)

    def _read(self) -> Text:
        with named(self.layer.name):
            return Text([*map(local_file, self.layer.source)], self.units, self.layer.part)

    def ready(self) -> None:
        if self.text is not None:
            return
        layer = self.layer
        text, self.read = self.read or self._read(), None
        if not self.fitted:
            raise DataError(
                f"{layer.name}: the vocabulary is that of the training's text, of which nothing is known in "
                f"phase '{self.phase}'",
                "derive this net from the training net (net.derive), or give it fitted=snapshot.fitted()",
            )
        known = self.fitted[layer.tops[0]]
        with named(layer.name):
            self.text = text.numbers(known[CLASSES], known.get(UNKNOWN))
        self.targets = len(self.text) - 1
        self.steps_of_pass = -(-len(self.text) // self.streams)
        batch = self.streams * layer.steps
        if self.trains and batch > self.targets:
            ranks = f" on each of {self.backend.ranks} ranks" if self.backend.ranks > 1 else ""
            raise DataError(
                f"{layer.name}: batch_size={layer.batch_size}{ranks} and steps={layer.steps} need "
                f"{batch + 1} {text.units.what}s, but the text has only {len(self.text)}",
                "set batch_size or steps to less, or give a longer text",
            )

    def forward(self, inputs: list[Any]) -> None:
        places, real, begins = self._train() if self.trains else self._once()
        assert self.text is not None
        for blob, shift in zip(self.blobs, (0, 1), strict=False):
            blob[...] = self.text[np.minimum(places + shift, self.targets)]
            blob[~real] = self.layer.ignore_label if shift else 0
        if len(self.blobs) > 2:
            self.blobs[2][...] = ~begins

    def _train(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return where the streams read now, that all of it counts, and where they begin anew; and go on."""
        layer, length = self.layer, self.targets + 1
        starts = np.array([(self.first + row) * length // self.streams for row in range(layer.batch_size)])
        places = (starts[:, None] + self.position + np.arange(layer.steps)) % self.targets
        begins = places == 0
        if not self.position:
            begins[:, 0] = True
        before, self.position = self.position, self.position + layer.steps
        self.epoch += self.position // self.steps_of_pass - before // self.steps_of_pass
        self.rows = layer.batch_size
        return places, np.ones(places.shape, bool), begins

    def _once(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return where the streams read now, which of it counts, and where they begin anew; and go on."""
        layer, size = self.layer, self.layer.batch_size
        windows = -(-self.targets // layer.steps)
        each, more = divmod(windows, self.streams)
        batch = self.position // layer.steps
        streams = self.first + np.arange(size)
        starts = (streams * each + np.minimum(streams, more) + batch) * layer.steps
        places = starts[:, None] + np.arange(layer.steps)
        counting = streams < (self.streams if batch < each else more)
        real = counting[:, None] & (places < self.targets)
        begins = np.zeros(places.shape, bool)
        begins[:, 0] = not batch
        self.rows = int(counting.sum())
        self.position += layer.steps
        if (batch + 1) * self.streams >= windows:
            self.epoch, self.position = self.epoch + 1, 0
        return places, real, begins

    def rewind(self) -> None:
        """Begin the streams anew with the next batch; `epoch` stays as it is."""
        self.position = 0

    def memory(self) -> dict[str, int]:
        return {"position": self.position, "epoch": self.epoch, "targets": self.targets, "streams": self.streams}

    def remember(self, memory: Mapping[str, Any]) -> str | None:
        """Go on after the batch after which `memory` was made; other numbers of streams begin anew.

        Raises:
            SnapshotError: the text now has another length.
        """
        if not memory:
            return None
        if int(memory["targets"]) != self.targets:
            raise SnapshotError(
                f"{self.layer.name}: the snapshot was made with {int(memory['targets']) + 1} characters or words, but "
                f"now there are {self.targets + 1}",
                "continue with the same text, or start a new training from the snapshot's parameters",
            )
        self.position, self.epoch = count_in(memory, "position"), count_in(memory, "epoch")
        if (before := int(memory["streams"])) == self.streams:
            return None
        self.position = 0
        return f"{self.layer.name}: the snapshot has {before} streams, now there are {self.streams}: they begin anew"
