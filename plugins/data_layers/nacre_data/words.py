"""Words: texts as the numbers of their words, for nets that read whole texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from nacre import Blocks, ConfigError, DataError, Transformer, positive

from .records import ONE_NUMBER
from .tables import Naming, Numbers

NOTHING, UNKNOWN = "", "<unk>"
"""The names of what stands behind the last word of a text, and of all words that are not in the vocabulary."""
WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")


class Words(Naming):
    """Makes numbers of texts: those of their words in a vocabulary, which is learned from the training data.

    It is for a top of texts, such as a column of a table; a record becomes (length) whole numbers, int64, for an
    `Embedding`, whose `input_dim` may be the name of the top. Words are letters, digits and low lines that follow each
    other, also with an apostrophe between them; every other sign but a blank is a word by itself. A text of fewer words
    is filled up with 0 at its end, and the words after `length` are left out.

    The vocabulary are 0, which is no word, then the words of the training data, the most frequent first, those of one
    frequency in the order of code points, and last "<unk>", which stands for all others. With `most`, all words but the
    most frequent ones are "<unk>" in training too, so that the net learns what it means. Words comes before all other
    transformers of its top. Raises DataError if the top has no texts.
    """

    by_record = True

    length: Annotated[int, positive, "number of words of a record"]
    most: Annotated[int | None, positive, "number of words in the vocabulary, the most frequent ones"] = None
    lower: Annotated[bool, "write all words in lower case"] = True

    def shape_of(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if shape not in ONE_NUMBER:
            raise ConfigError(f"Words: records must hold one text, but they have the shape {shape}")
        return (self.length,)

    def words(self, text: str) -> list[str]:
        """Return the words of a text."""
        return WORD.findall(text.lower() if self.lower else text)

    def fit(self, blocks: Blocks) -> Mapping[str, Any]:
        texts = self.named(blocks)
        times = np.zeros(len(texts), np.int64)
        for block in blocks:
            np.add.at(times, Numbers.whole(block, len(times)).reshape(-1), 1)
        counts = Counter[str]()
        for text, count in zip(texts, times.tolist(), strict=True):
            for word in self.words(text) if count else ():
                counts[word] += count
        known = sorted(counts, key=lambda word: (-counts[word], word))[: self.most]
        return {"classes": [NOTHING, *known, UNKNOWN], "unknown": UNKNOWN}

    def with_fitted(self, fitted: Mapping[str, Any], classes: Sequence[str] = ()) -> Transformer:
        known = {name: number for number, name in enumerate(fitted["classes"])}
        table = np.zeros((len(classes), self.length), np.min_scalar_type(len(known)))
        for row, text in zip(table, classes, strict=True):
            words = self.words(text)[: self.length]
            row[: len(words)] = [known.get(word, known[UNKNOWN]) for word in words]
        return super().with_fitted({"table": table})

    def transform(self, batch: np.ndarray, random: Any, phase: str) -> None:
        self.transform_into(batch.copy(), batch, random, phase)

    def transform_into(self, given: np.ndarray, out: np.ndarray, random: Any, phase: str) -> None:
        table: np.ndarray = vars(self)["fitted"]["table"]
        if not len(table):
            raise DataError("Words: these records are numbers, but texts are needed", "give texts")
        out[...] = table[Numbers.whole(given, len(table)).reshape(-1)]
