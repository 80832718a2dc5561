"""Every error that nacre raises on purpose."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

LONGEST = 4000
"""Most characters in one line of an error; a longer line may come from a file, which can contain anything."""

MOST_BITS = 2000
"""Of a whole number that is written: Python refuses to make a text of much longer ones."""


_named: dict[str, str] = {}
"""Paths that nobody has written, and what stands for them in messages."""


class _Brief(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdict = self.maxarray = 20
        self.maxstring, self.maxother = 200, 400

    def repr_ndarray(self, x: Any, level: int) -> str:
        if x.size <= self.maxarray and x.ndim <= 1:
            return self.repr_instance(x, level)
        return f"<array {' x '.join(map(str, x.shape))} {x.dtype}>"

    def repr_int(self, x: int, level: int) -> str:
        bits = x.bit_length()
        return repr(x) if bits <= MOST_BITS else f"a whole number of {bits:,} bits, too many to be written"


_brief = _Brief()


def brief(value: object) -> str:
    """Return the `repr` of a value for an error, shortened: a file may contain anything."""
    return _brief.repr(value)


def name_in_messages(path: Path, name: str) -> None:
    """Let messages name a file as the person did: by its URL, and not by the path of its copy on this machine."""
    _named[str(path)] = name


def as_named(text: str) -> str:
    """Return a text with the names of files as the person wrote them."""
    for path, name in list(_named.items()):  # another thread, which fetches a file, may add to it
        text = text.replace(path, name)
    return text


def bounded(text: str) -> str:
    """Return a text with the middle of very long lines left out."""
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return "\n".join(line if len(line) <= LONGEST else f"{line[:half]} ... {line[-half:]}" for line in text.split("\n"))


class NacreError(Exception):
    """A mistake that the user can correct: one clear sentence, and a remedy.

    `remedy` says what to do; it is "" where the sentence already contains it. Programs get both with `--json`.
    """

    blamed = False
    """Whether it is a mistake in a plugin's code, so that the message names plugin and place."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(bounded(as_named(message)))
        self.remedy = bounded(as_named(remedy))

    def __str__(self) -> str:
        message = str(self.args[0])
        return f"{message}\n  {self.remedy}" if self.remedy else message

    def reworded(self, message: str) -> Self:
        """Return this error with another message; its remedy stays, and what a subclass knows besides."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made.args = (bounded(as_named(message)),)
        return made


class ConfigError(NacreError):
    """A layer, a component or a net file has an invalid value."""


class ContractError(NacreError):
    """A plugin's class or state breaks a rule of its protocol, such as what its class line declares."""


class TopologyError(NacreError):
    """The layers cannot be connected to a net. The message names layers and blobs."""


class RegistryError(NacreError):
    """A name cannot be resolved: no distribution offers it, or several do."""


class PluginError(NacreError):
    """An offer exists, but importing or using it failed."""


class BlobError(NacreError):
    """A blob was read that has no memory yet, or whose memory now holds something else."""


class DataError(NacreError):
    """A data source, an array or a label is invalid. The message names file, record and reason."""


class SnapshotError(NacreError):
    """A snapshot is damaged, locked, or belongs to another net."""


class NotFiniteError(NacreError):
    """A loss, a gradient or a parameter is not finite. The message names layer and blob."""


class RankError(NacreError):
    """Another rank of a training has failed, or the ranks do not fit together. The message names ranks."""


def put_full_name(error: NacreError, own: str, full: str) -> None:
    """Replace a layer's own name, as the subject of an error's message, by its full name in its containers."""
    name = rf"^{re.escape(own)}(?=: )|(?<=layer '){re.escape(own)}(?=')"
    error.args = (re.sub(name, full, str(error.args[0]), flags=re.MULTILINE), *error.args[1:])


def nearest(name: object, known: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the known name most similar to `name`, of any type, or "" if none is."""
    import difflib

    folded = {one.casefold(): one for one in known}  # relu is ReLU, however many letters are small
    near = difflib.get_close_matches(str(name).casefold(), list(folded), n=1, cutoff=0.6)
    return f" (did you mean '{folded[near[0]]}'?)" if near else ""


def where_it_is(path: Path) -> str:
    """Return a remedy for a file that is missing: a similar name in the folder, or the folder that was searched."""
    import difflib

    folder = path.absolute().parent
    try:
        beside = sorted(one.name for one in folder.iterdir())
    except OSError:
        return f"there is no folder {folder}"
    near = [name for name in difflib.get_close_matches(path.name, beside, n=1, cutoff=0.6) if name != path.name]
    return f"did you mean {path.with_name(near[0])}?" if near else f"nacre looked for it in {folder}"
