"""Trains a model of characters on the source code of Python's standard library, and lets it write some.

    python text.py [ITERATIONS]

The code is read where this Python has it: the modules and packages, without tests and tables of characters. Every
twentieth file is held out. What the net knows of these is printed in bits a character, the mean of -log2 of the
probabilities of all characters, beside a model that counts: of the character that follows two (a trigram model),
smoothed after Witten and Bell ("The zero-frequency problem", 1991). Without a number the training takes about four
minutes on two cores.
"""

from __future__ import annotations

import sys
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path

import numpy as np

from nacre.cli import read_trained
from nacre.config import load
from nacre_commands.sample import sample

NET = Path(__file__).resolve().parent / "text.toml"
LEFT_OUT = {"encodings", "idle_test", "lib2to3", "pydoc_data", "site-packages", "test", "tests"}


@dataclass
class Found:
    """Bits a character of the net and of the trigram model, the seconds of the training, and what the net wrote."""

    net: float
    trigram: float
    seconds: float
    text: str


def library() -> list[Path]:
    """Return the files of Python's standard library, in the order of their names."""
    root = Path(sysconfig.get_path("stdlib"))
    files = [path for path in root.rglob("*.py") if not LEFT_OUT & {*path.relative_to(root).parts}]
    return sorted(files)


def trigram(train: np.ndarray, text: np.ndarray, count: int) -> float:
    """Return the bits a character of a text; texts are numbers below `count`.

    With T(h) different characters behind the history h in training, and n(h) in all, p(c | h) = (n(h, c) + T(h) · p(c |
    shorter h)) / (n(h) + T(h)); before the first it is 1 / count.
    """
    known = np.full(len(text), 1 / count)
    for order in (1, 2, 3):
        grams, times = np.unique(codes(train, order, count), return_counts=True)
        table = np.zeros(count**order, np.int64)
        table[grams] = times
        by_history = table.reshape(-1, count)
        total, kinds = by_history.sum(1), np.count_nonzero(by_history, axis=1)
        wanted = codes(text, order, count)
        seen, total, kinds = table[wanted], total[wanted // count], kinds[wanted // count]
        rest = known[order - 1 :]
        rest[...] = np.where(kinds > 0, (seen + kinds * rest) / np.maximum(total + kinds, 1), rest)
    return float(-np.log2(known[1:]).mean())


def codes(text: np.ndarray, length: int, count: int) -> np.ndarray:
    """Return each run of so many characters as one number."""
    found = np.zeros(len(text) - length + 1, np.int64)
    for place in range(length):
        found = found * count + text[place : len(text) - length + 1 + place]
    return found


def numbers(paths: Sequence[Path], names: Sequence[str]) -> np.ndarray:
    """Return the characters of texts as numbers; the last one stands for those that have no name."""
    text = "".join(path.read_bytes().decode() for path in paths)
    table = np.full(sys.maxunicode + 1, len(names) - 1)
    table[[ord(name) for name in names[:-1]]] = range(len(names) - 1)
    return np.asarray(table[np.frombuffer(text.encode("utf-32-le"), "<u4")])


def run(iterations: int = 0, files: Sequence[Path] = (), length: int = 400) -> Found:
    """Train the net, for so many iterations or those of its file, and compare it with the trigram model."""
    files = files or library()
    held_out = [*files[10::20]]
    parts = {"train": [path for path in files if path not in held_out], "held-out": held_out}
    changes = [f"layer.{name}.source={dumps([*map(str, paths)])}" for name, paths in parts.items()]
    if iterations:
        changes += [f"solver.max_iter={iterations}", f"solver.lr_policy.policy.n_iter={iterations}"]
    file = load(NET, changes)
    with file.net() as net:
        begun = time.monotonic()
        names, snapshot = net.classes["data"], file.solver().solve(net).snapshot_path
        seconds = time.monotonic() - begun
        with net.derive("test") as test:
            test.forward_epoch()
            bits = test.statistics()["text"]["bits"]
    known, text = (numbers(paths, names) for paths in parts.values())
    trained = read_trained(file.path, tuple(changes), None, snapshot)
    return Found(bits, trigram(known, text, len(names)), seconds, sample(*trained, "def ", length, 0.8))


if __name__ == "__main__":
    found = run(int(sys.argv[1]) if sys.argv[1:] else 0)
    print(f"{found.seconds:.0f} seconds of training")
    print(f"bits a character of held-out files: net {found.net:.2f}, trigram {found.trigram:.2f}\n\n{found.text}")
