"""Fields with their checks: the frozen configuration that layers and components are made of."""

from __future__ import annotations

import dataclasses
import inspect
import operator
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar, dataclass_transform

from .errors import ConfigError, ContractError, nearest

Given = TypeVar("Given", contravariant=True)
Read = TypeVar("Read", covariant=True)

NAME = re.compile(r"[A-Za-z0-9_.-]+\Z")

base_folder: ContextVar[Path | None] = ContextVar("base_folder", default=None)
"""The folder that relative paths in fields start from: a net file's while it is read, else the working folder."""


class Converted(Generic[Given, Read]):
    """A field type that is written in one form and read in another: `Pair` takes 3 and gives (3, 3).

    A subclass says what it `wants`, in words, and how to `convert`; `convert` raises ValueError where it cannot.
    """

    wants: ClassVar[str] = "another value"

    @staticmethod
    def convert(value: Any) -> Any:
        raise NotImplementedError

    if TYPE_CHECKING:

        def __get__(self, layer: object, owner: type | None = None) -> Read: ...
        def __set__(self, layer: object, value: Given) -> None: ...


def default(value: Any) -> Any:
    """Give a field of a `Converted` type its default, in a form that type checkers accept."""
    return value


def whole(value: Any) -> int:
    if isinstance(value, bool):
        raise ValueError
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError from None


def wholes(value: Any) -> tuple[int, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(whole(one) for one in value)
    return (whole(value),)


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


class Shape(Converted["int | Sequence[int]", "tuple[int, ...]"]):
    """The shape of one record, without the batch axis; () is a single number."""

    wants = "a list of whole numbers"

    @staticmethod
    def convert(value: Any) -> tuple[int, ...]:
        return wholes(value)


class Names(Converted["str | Sequence[str]", "tuple[str, ...]"]):
    """Names of blobs; a single one may stand without a list."""

    wants = "a name, or a list of names (letters, digits, '_', '-' and '.')"

    @staticmethod
    def convert(value: Any) -> tuple[str, ...]:
        names: tuple[Any, ...] = (value,) if isinstance(value, str) else tuple(value)
        if not all(isinstance(name, str) and NAME.match(name) for name in names):
            raise ValueError
        return names


class Texts(Converted["str | Sequence[str]", "tuple[str, ...]"]):
    """Texts, such as file names; a single one may stand without a list."""

    wants = "a text, or a list of texts"

    @staticmethod
    def convert(value: Any) -> tuple[str, ...]:
        import os

        texts: tuple[Any, ...] = (value,) if isinstance(value, str | os.PathLike) else tuple(value)
        if not all(isinstance(text, str | os.PathLike) for text in texts):
            raise ValueError
        return tuple(os.fspath(text) for text in texts)


class Paths(Texts):
    """Files or folders; relative ones start from the net file's folder, or in Python from the working folder."""

    wants = "a path, or a list of paths"

    @staticmethod
    def convert(value: Any) -> tuple[str, ...]:
        folder = base_folder.get()
        return tuple(text if folder is None else str(folder / text) for text in Texts.convert(value))


def spread(numbers: tuple[int, ...], count: int, where: str) -> tuple[int, ...]:
    """Repeat a single number for each of `count` directions; any other length must fit."""
    if len(numbers) == 1:
        return numbers * count
    if len(numbers) != count:
        raise ConfigError(f"{where}={numbers}, but there are {count} directions")
    return numbers


@dataclass(frozen=True)
class Check:
    """What a field's value must be: `complain(value, configured)` gives None, or the end of `..., but ...`."""

    complain: Callable[[Any, Any], str | None]
    schema: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])


def every(test: Callable[[Any], bool], words: str) -> Check:
    """Check every number of a field: `words` follow "must be"."""

    def complain(value: Any, _: Any) -> str | None:
        if isinstance(value, tuple):
            numbers = typing.cast("tuple[Any, ...]", value)
            return None if all(test(number) for number in numbers) else f"every number must be {words}"
        return None if value is None or test(value) else f"it must be {words}"

    return Check(complain)


positive = every(lambda number: number > 0, "above 0")
non_negative = every(lambda number: number >= 0, "0 or more")
non_zero = every(lambda number: number != 0, "different from 0")
fraction = every(lambda number: 0 <= number < 1, "0 or more, and below 1")
finite = every(lambda number: abs(number) < float("inf"), "finite")


def at_least(count: int) -> Check:
    """Demand `count` names or more."""
    return Check(lambda value, _: None if len(value) >= count else f"at least {count} must be given")


def exactly(count: int) -> Check:
    """Demand `count` names."""
    return Check(lambda value, _: None if len(value) == count else f"exactly {count} must be given")


def as_many_as(other: str) -> Check:
    """Demand as many names as another field has."""

    def complain(value: Any, configured: Any) -> str | None:
        count = len(getattr(configured, other))
        return None if len(value) == count else f"there must be as many as {other}, {count}"

    return Check(complain)


def one_of(*choices: Any) -> Check:
    """Demand one of a few values."""

    def complain(value: Any, _: Any) -> str | None:
        return None if value in choices else f"it must be one of {', '.join(map(repr, choices))}"

    return Check(complain)


@dataclass(frozen=True)
class Field:
    """One field of a layer or a component, as `nacre layers NAME` shows it."""

    name: str
    type: str
    default: Any
    doc: str
    checks: tuple[Check, ...]
    convert: Callable[[Any], Any]
    wants: str

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING


def _component_converter(kind: Any) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        from .component import make_component

        return make_component(kind, value)

    return convert


def _float(value: Any) -> float:
    if isinstance(value, bool | str):
        raise ValueError
    try:
        return float(value)
    except TypeError:
        raise ValueError from None


def _same(kind: type) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if not isinstance(value, kind):
            raise ValueError
        return value

    return convert


def _among(choices: tuple[Any, ...]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if value not in choices:
            raise ValueError
        return value

    return convert


def _reader(hint: Any) -> tuple[Callable[[Any], Any], str, str]:
    """Give (converter, the words for what is wanted, the type's short name) of an annotation."""
    from .component import Component

    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        readers = [_reader(argument) for argument in arguments]

        def either(value: Any) -> Any:
            for convert, _, _ in readers:
                try:
                    return convert(value)
                except ValueError:
                    continue
            raise ValueError

        return either, " or ".join(words for _, words, _ in readers), " | ".join(short for _, _, short in readers)
    if hint is Any:
        return (lambda value: value), "another value", "Any"
    if origin is typing.Literal:
        words = f"one of {', '.join(map(repr, arguments))}"
        return _among(arguments), words, " | ".join(map(repr, arguments))
    if hint is None or hint is type(None):
        return _same(type(None)), "none", "None"
    if isinstance(hint, type):
        if issubclass(hint, Converted):
            wants = typing.cast("type[Converted[Any, Any]]", hint).wants
            return hint.convert, wants, hint.__name__
        if issubclass(hint, Component):
            words = f"a {hint.nacre_kind}: an object, a name, or a table with 'type'"
            return _component_converter(hint), words, hint.__name__
        if hint is bool:
            return _same(bool), "true or false", "bool"
        if hint is int:
            return whole, "a whole number", "int"
        if hint is float:
            return _float, "a number", "float"
        return _same(hint), f"a {hint.__name__}", hint.__name__
    return (lambda value: value), "another value", str(getattr(hint, "__name__", hint)).replace("typing.", "")


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False, field_specifiers=(dataclasses.field,))
class Configured:
    """A frozen, keyword-only dataclass whose fields are converted and checked when it is made.

    Raises:
        ConfigError: a field is unknown, missing, of another type, or fails its check. All complaints in one message.
    """

    nacre_kind: ClassVar[str] = ""
    _locals: ClassVar[Mapping[str, Any]] = {}
    _fields: ClassVar[tuple[Field, ...] | None] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._fields = None
        cls._locals = _names_around()
        dataclass(frozen=True, kw_only=True, eq=False, repr=False, init=False)(cls)

    if not TYPE_CHECKING:

        def __init__(self, **given: Any) -> None:
            fields = type(self).fields()
            complaints = [
                f"unknown field '{name}'{nearest(name, [field.name for field in fields])}"
                for name in given
                if name not in {field.name for field in fields}
            ]
            for field in fields:
                if field.name not in given and field.required:
                    complaints.append(f"{field.name} is missing: {field.doc or field.wants}")
                    continue
                value = given.get(field.name, field.default)
                try:
                    object.__setattr__(self, field.name, field.convert(value))
                except ConfigError as error:  # of a component within
                    complaints.append(f"{field.name}: {error}")
                except (ValueError, TypeError):
                    complaints.append(f"{field.name}={value!r}, but it must be {field.wants}")
            if not complaints:
                self._complete()
                for field in fields:
                    value = getattr(self, field.name)
                    for check in field.checks:
                        if complaint := check.complain(value, self):
                            complaints.append(f"{field.name}={value!r}, but {complaint}")
            if not complaints:
                complaints.extend(self.complaints())
            if complaints:
                raise ConfigError("\n".join(f"{self._called(given)}: {complaint}" for complaint in complaints))

    def _complete(self) -> None:
        """Fill in fields whose default depends on others."""

    def _called(self, given: Mapping[str, Any]) -> str:
        """Say what this is called in an error."""
        return type(self).__name__

    def complaints(self) -> Iterator[str]:
        """Give what is wrong with the fields taken together; a subclass may."""
        yield from ()

    @classmethod
    def fields(cls) -> tuple[Field, ...]:
        """Read the annotations: one `Field` each, in order, the inherited ones first."""
        if cls._fields is None:
            cls._fields = tuple(_read_fields(cls))
        return cls._fields

    def given(self) -> dict[str, Any]:
        """Give the fields that differ from their defaults."""
        values = {field.name: (getattr(self, field.name), field) for field in type(self).fields()}
        return {
            name: value
            for name, (value, field) in values.items()
            if field.required or not _equal(value, field.convert(field.default))
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={_short(value)}' for name, value in self.given().items())})"


def _short(value: Any) -> str:
    """Give a value's text; of an array only shape and type."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"<array {' x '.join(map(str, value.shape))} {value.dtype}>"
    if isinstance(value, list | tuple):
        inner = ", ".join(_short(one) for one in typing.cast("Sequence[Any]", value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(inner) and len(value) == 1 else ''})"
    return repr(value)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Configured):
        return type(one) is type(other) and one.given() == other.given()
    return bool(type(one) is type(other) and one == other)


def _names_around() -> Mapping[str, Any]:
    """Give the local names of the functions around the class statement, so that its annotations can name them."""
    frame: types.FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_code.co_name == "__init_subclass__":
        frame = frame.f_back
    names: dict[str, Any] = {}
    while frame is not None and frame.f_locals is not frame.f_globals:
        names = {**frame.f_locals, **names}
        frame = frame.f_back
    return names


def _read_fields(cls: type[Configured]) -> Iterator[Field]:
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if not issubclass(base, Configured) or "__annotations__" not in vars(base):
            continue
        names = {**base._locals, base.__name__: base}  # pyright: ignore[reportPrivateUsage]
        try:
            hints.update(_own_hints(base, names))
        except Exception as error:
            raise ContractError(f"{base.__qualname__}: an annotation cannot be read: {error}") from error
    for field in dataclasses.fields(typing.cast("Any", cls)):
        hint = hints[field.name]
        extras: tuple[Any, ...] = ()
        if typing.get_origin(hint) is Annotated:
            hint, *rest = typing.get_args(hint)
            extras = tuple(rest)
        convert, wants, short = _reader(hint)
        yield Field(
            name=field.name,
            type=short,
            default=field.default,
            doc=" ".join(extra for extra in extras if isinstance(extra, str)),
            checks=tuple(extra for extra in extras if isinstance(extra, Check)),
            convert=convert,
            wants=wants,
        )


def _own_hints(base: type, names: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluate the annotations that stand in `base` itself."""
    namespace = vars(sys.modules[base.__module__])
    own = inspect.get_annotations(base)
    hints: dict[str, Any] = {}
    for name, hint in own.items():
        if isinstance(hint, str):
            if hint.startswith(("ClassVar", "typing.ClassVar")):
                continue
            hint = eval(hint, dict(namespace), dict(names))
        hints[name] = hint
    return hints
