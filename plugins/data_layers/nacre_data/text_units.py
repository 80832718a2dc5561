"""Texts as numbers: the codes of their characters or words, and the vocabulary of these."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path

import numpy as np

from nacre import DataError
from nacre.files import check_file, os_errors, unchanged

AT_A_TIME = 1 << 20
"""Characters or words that are looked at together."""
WORD = re.compile(r"\n|\S+")


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8, without a byte-order mark.

    Raises:
        DataError: it cannot be read, or is not UTF-8.
    """
    check_file(path, "a text")
    try:
        with os_errors(path, "cannot be read", DataError), unchanged(path):
            return path.read_bytes().decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}: line {line}: the byte {error.object[error.start]:#04x} at offset {error.start} is not UTF-8",
            "convert the file to UTF-8, for example with iconv -f LATIN1 -t UTF-8",
        ) from error


class Characters:
    """The characters of texts; the code of one is its code point, and -1 is that of what is no character."""

    what = "character"
    unknown = "\N{REPLACEMENT CHARACTER}"
    """The name that stands for all others."""

    def codes(self, text: str) -> np.ndarray:
        return np.frombuffer(text.encode("utf-32-le"), "<u4")

    def code(self, name: str) -> int:
        return ord(name) if len(name) == 1 else -1

    def name(self, code: int) -> str:
        return chr(code)

    def place(self, text: str, number: int) -> int:
        """Return where in a text the character with this number stands."""
        return number

    def vocabulary(self, counts: np.ndarray) -> list[str]:
        """Return the characters that occur, in the order of code points."""
        return [chr(code) for code in np.flatnonzero(counts).tolist()]


class Words:
    """The words of texts, which stand between white space; the end of a line is a word too.

    Codes are in the order in which they occur first; -1 is that of a word that does not occur.
    """

    what = "word"
    unknown = "<unk>"
    """The name that stands for all others."""

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self.known: dict[str, int] = {}
        self.names: list[str] = []

    def codes(self, text: str) -> np.ndarray:
        known = self.known
        found = array("i", (known.setdefault(word[0], len(known)) for word in WORD.finditer(text)))
        self.names = list(known)
        return np.frombuffer(found, "i") if found else np.empty(0, "i")

    def code(self, name: str) -> int:
        return self.known.get(name, -1)

    def name(self, code: int) -> str:
        return self.names[code]

    def place(self, text: str, number: int) -> int:
        """Return where in a text the word with this number begins."""
        return next(islice(WORD.finditer(text), number, None)).start()

    def vocabulary(self, counts: np.ndarray) -> list[str]:
        """Return the words that occur, the most frequent first, those of one frequency in the order of code points."""
        codes = sorted(np.flatnonzero(counts).tolist(), key=self.name)
        codes.sort(key=counts.tolist().__getitem__, reverse=True)
        return [self.names[code] for code in codes[: self.most]]


class Text:
    """A part of texts, which stand one after the other; it begins and ends at two numbers from 0 to 1.

    Raises:
        DataError: a file cannot be read, or there is not one target in the part.
    """

    def __init__(self, paths: Sequence[Path], units: Characters | Words, part: tuple[float, float]) -> None:
        self.paths = paths
        self.units = units
        self.texts = [read_text(path) for path in paths]
        codes = [units.codes(text) for text in self.texts]
        self.starts = [*accumulate(map(len, codes), initial=0)]
        whole = self.starts[-1]
        self.begin, end = (int(bound * whole) for bound in part)
        self.codes = np.concatenate(codes)[self.begin : end]
        if len(self.codes) < 2:
            of = f"part={list(part)} of the text's {whole} {units.what}s" if part != (0, 1) else "the text"
            raise DataError(
                f"{of} has {len(self.codes)} {units.what}s, but it needs at least 2: one is the target of the other",
                "check source and part",
            )

    def vocabulary(self) -> list[str]:
        return self.units.vocabulary(_counts(self.codes))

    def numbers(self, names: Sequence[str], unknown: str | None) -> np.ndarray:
        """Return the numbers in a vocabulary, in the smallest type that holds them.

        What is not in it has the number of the name `unknown`, if there is one.

        Raises:
            DataError: something is not in the vocabulary; names file and line.
        """
        nothing = len(names) if unknown is None else names.index(unknown)
        table = np.full(int(self.codes.max()) + 1, nothing, np.min_scalar_type(len(names)))
        for number, code in enumerate(map(self.units.code, names)):
            if 0 <= code < len(table):
                table[code] = number
        found = np.empty(len(self.codes), table.dtype)
        for first, part in _parts(self.codes):
            found[first:][: len(part)] = table[part]
        if unknown is None and (strange := np.flatnonzero(found == nothing)).size:
            name = self.units.name(int(self.codes[strange[0]]))
            raise DataError(
                f"{self._place(self.begin + int(strange[0]))}: the {self.units.what} {name!r} is not one of the "
                f"{len(names)} {self.units.what}s of the vocabulary",
                'correct the text, or let all unknown ones share a number: unknown = "own"',
            )
        return found

    def _place(self, number: int) -> str:
        """Return the file and the line of a character or word."""
        file = max(file for file, start in enumerate(self.starts[:-1]) if start <= number)
        text = self.texts[file]
        line = text.count("\n", 0, self.units.place(text, number - self.starts[file])) + 1
        return f"{self.paths[file]}: line {line}"


def _counts(codes: np.ndarray) -> np.ndarray:
    """Return how often each code occurs."""
    counts = np.zeros(int(codes.max()) + 1, np.int64)
    for _, part in _parts(codes):
        some = np.bincount(part)
        counts[: len(some)] += some
    return counts


def _parts(codes: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield parts of an array, each with the place where it begins."""
    for first in range(0, len(codes), AT_A_TIME):
        yield first, codes[first : first + AT_A_TIME]
