"""Field types that convert their values: `Pair` takes 3 and gives (3, 3)."""

from __future__ import annotations

import operator
import os
import re
import types
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast
from urllib.parse import urljoin, urlsplit

from ..errors import MOST_BITS, ConfigError
from ..files.remote import is_url

Given = TypeVar("Given", contravariant=True)


Read = TypeVar("Read", covariant=True)

NAME = re.compile(r"[A-Za-z0-9_.-]+\Z")

base_folder: ContextVar[Path | None] = ContextVar("base_folder", default=None)
"""The folder of relative paths in fields: the net file's while it is read; None for the working folder."""


@dataclass(frozen=True)
class Permission:
    """What a net file may do besides reading files, and writing new ones in the working folder.

    `folders` and `overwrite` are real paths: where it may write, and files that it may replace. `hosts` are those from
    which it may fetch.
    """

    folders: tuple[str, ...] = ()
    overwrite: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


permission: ContextVar[Permission | None] = ContextVar("permission", default=None)
"""What the net file that is being read may write; None if the fields do not come from a net file."""


class Said(str):
    """A string that the user gave on the command line, instead of the one in the net file."""


class Place(str):
    """A path to write to; `permission` is that of the net file it comes from, None if it comes from the user."""

    permission: Permission | None = None

    def renamed(self, path: str | os.PathLike[str]) -> Place:
        """Return another path with the same permission."""
        return place(os.fspath(path), self.permission)


def place(path: str, permission: Permission | None) -> Place:
    """Return a path to write to."""
    made = Place(path)
    made.permission = permission
    return made


class URL(str):
    """A URL to read from; `permission` is as in a `Place`."""

    permission: Permission | None = None

    def beside(self, path: str) -> URL:
        """Return the URL of a file whose path is relative to this one, with the same permission."""
        url = URL(urljoin(self, path))
        url.permission = self.permission
        return url


class Reading:
    """A class that reads the values of fields annotated with it.

    A subclass defines `wants`, words for the values that it accepts, and `convert`, which raises ValueError for others.
    """

    wants: ClassVar[str] = "another value"
    convert: ClassVar[Callable[[Any], Any]]


class Converted(Reading, Generic[Given, Read]):
    """A field type that converts its values: `Pair` takes 3 and gives (3, 3)."""

    @staticmethod
    def convert(value: Any) -> Any:
        raise NotImplementedError

    if TYPE_CHECKING:

        def __get__(self, layer: object, owner: type | None = None) -> Read: ...
        def __set__(self, layer: object, value: Given) -> None: ...


def default(value: Any) -> Any:
    """Return the default for a field of a `Converted` type, in a form that type checkers accept."""
    return value


def whole(value: Any) -> int:
    """Return a whole number of any integer type as an int.

    Raises:
        ValueError: it is anything else, also true or false, or has more digits than a file could have.
    """
    if isinstance(value, bool):
        raise ValueError
    try:
        found = operator.index(value)
    except TypeError:
        raise ValueError from None
    if found.bit_length() > MOST_BITS:
        raise ValueError
    return found


def number(value: Any) -> float:
    """Return a number of any type as a float.

    Raises:
        ValueError: it is anything else, also true, false or a text, or a whole number that no float can hold.
    """
    if isinstance(value, bool | str | bytes):
        raise ValueError
    try:
        return float(value)
    except (TypeError, OverflowError):
        raise ValueError from None


def amount(value: Any) -> float:
    """Return a finite number, 0 or more, as a float; ValueError for anything else."""
    if not is_number(value) or not 0 <= (found := number(value)) < inf:
        raise ValueError
    return found


def is_number(value: Any) -> bool:
    """Return whether a value is a number by its type; true and false are none."""
    return not isinstance(value, bool) and isinstance(value, Real)


def wholes(value: Any) -> tuple[int, ...]:
    """Return the whole numbers of a sequence, or a single one, as a tuple; ValueError for anything else."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return tuple(whole(one) for one in cast("Sequence[Any]", value))
    return (whole(value),)


def _entries(value: Any, single: type | types.UnionType) -> tuple[Any, ...]:
    """Return the entries of a sequence, or a single one, as a tuple; a set or a table has no order: ValueError."""
    if isinstance(value, single):
        return (value,)
    if not isinstance(value, Sequence):
        raise ValueError
    return tuple(cast("Sequence[Any]", value))


class Pair(Converted["int | Sequence[int]", "tuple[int, int]"]):
    """(rows, columns); one number means the same in both directions."""

    wants = "a whole number, or two: (rows, columns)"

    @staticmethod
    def convert(value: Any) -> tuple[int, int]:
        numbers = wholes(value)
        if len(numbers) == 1:
            numbers *= 2
        if len(numbers) != 2:
            raise ValueError
        return numbers


class Sizes(Converted["int | Sequence[int]", "tuple[int, ...]"]):
    """One whole number for each direction; a single one means the same in every direction (`spread` does that)."""

    wants = "a whole number, or one for each direction"

    @staticmethod
    def convert(value: Any) -> tuple[int, ...]:
        numbers = wholes(value)
        if not numbers:
            raise ValueError
        return numbers


class ClassCount(Converted["int | str", int]):
    """A number of classes, or the name of a source's blob, which stands for the number of its classes.

    A state sees the number: the net looks it up before it sets up the layer.
    """

    wants = "a whole number, or the name of a blob whose classes are counted"

    @staticmethod
    def convert(value: Any) -> int | str:
        if isinstance(value, str):
            if not NAME.match(value) or value.isdecimal():  # a number in quotes
                raise ValueError
            return value
        return whole(value)


class Shape(Converted["int | Sequence[int]", "tuple[int, ...]"]):
    """The shape of one record, without the batch axis; () is a single number."""

    wants = "a list of whole numbers"

    @staticmethod
    def convert(value: Any) -> tuple[int, ...]:
        return wholes(value)


class Names(Converted["str | Sequence[str]", "tuple[str, ...]"]):
    """Names of blobs; a single one needs no list."""

    wants = "a name, or a list of names (letters, digits, '_', '-' and '.')"

    @staticmethod
    def convert(value: Any) -> tuple[str, ...]:
        names = _entries(value, str)
        if not all(isinstance(name, str) and NAME.match(name) for name in names):
            raise ValueError
        return names


class Texts(Converted["str | Sequence[str]", "tuple[str, ...]"]):
    """Strings, such as file names; a single one needs no list."""

    wants = "a string, or a list of strings"

    @staticmethod
    def convert(value: Any) -> tuple[str, ...]:
        texts = _entries(value, str | os.PathLike)
        if not all(isinstance(text, str | os.PathLike) for text in texts):
            raise ValueError
        return tuple(os.fspath(cast("str | os.PathLike[str]", text)) for text in texts)


def is_path(text: str) -> bool:
    """Return whether this can be the name of a file."""
    try:
        return bool(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:  # half a character, which JSON and TOML can write
        return False


class Paths(Texts):
    """Files or folders; relative ones start from the net file's folder, or in Python from the working folder.

    Whoever reads one passes it through `local_file`, which fetches the file of a URL.
    """

    wants = "a path, or a list of paths"

    @staticmethod
    def convert(value: Any) -> tuple[str, ...]:
        folder, texts = base_folder.get(), Texts.convert(value)
        if not all(map(is_path, texts)):
            raise ValueError
        return tuple(_url(text) if is_url(text) else text if folder is None else str(folder / text) for text in texts)


def _url(text: str) -> URL:
    if isinstance(text, URL):
        return text
    url = URL(text)
    url.permission = None if isinstance(text, Said) else permission.get()
    return url


class OutputPath(Converted["str | os.PathLike[str]", Place]):
    """A file or folder to write to, relative to the working folder, even in a net file, which may come from anybody.

    A path in a net file may lead out of the working folder only if the user allows it: see `outputs.py`.
    """

    wants = "a path"

    @staticmethod
    def convert(value: Any) -> Place:
        if isinstance(value, str) and is_url(value):
            raise ValueError
        return _place_of(value)


class OutputFile(OutputPath):
    """A file or folder to write to, as `OutputPath`, or a URL.

    A URL in a net file must be on a host that the user allows: see `outputs.py`.
    """

    wants = "a path or a URL"

    @staticmethod
    def convert(value: Any) -> Place:
        return _place_of(value)


net_file: ContextVar[str] = ContextVar("net_file", default="")
"""The name of the net file whose components are made, without its ending; "" if they are made in Python."""


class PerNet(str):
    """A default path, which in a net file has the file's name in it, so that trainings of two nets do not mix.

    `PerNet("snapshots", "snapshots/{net}")` is "snapshots" in Python, and "snapshots/pets" in pets.toml.
    """

    in_file: str

    def __new__(cls, plain: str, in_file: str) -> PerNet:
        made = super().__new__(cls, plain)
        made.in_file = in_file
        return made

    def path(self) -> str:
        """Return the path for the net file that is being read, if one is."""
        return self.in_file.replace("{net}", net_file.get()) if net_file.get() else str(self)


def _place_of(value: Any) -> Place:
    if not isinstance(value, str | os.PathLike) or not is_path(os.fspath(cast("str | os.PathLike[str]", value))):
        raise ValueError
    if isinstance(value, Place):
        return value
    if isinstance(value, PerNet):
        value = value.path()
    path = os.fspath(cast("str | os.PathLike[str]", value))
    return place(path, None if isinstance(value, Said) else permission.get())


def change_paths(value: Any, change: Callable[[str], str]) -> Any:
    """Return the value of a field of paths, a list or a single one, with each path changed; None stays None."""
    if isinstance(value, list | tuple):
        return [change_paths(one, change) for one in cast("Sequence[Any]", value)]
    return change(value) if isinstance(value, str) else value


def file_names(paths: Any) -> Any:
    """Return the value of a field of paths with the names of the files alone, without folders and hosts."""
    return change_paths(paths, lambda path: Path(urlsplit(path).path if is_url(path) else path).name or path)


def spread(numbers: tuple[int, ...], count: int, where: str) -> tuple[int, ...]:
    """Return `count` numbers, one for each direction: a single one is repeated; else there must be `count` of them."""
    if len(numbers) == 1:
        return numbers * count
    if len(numbers) != count:
        raise ConfigError(f"{where}={numbers}, but there are {count} directions")
    return numbers
