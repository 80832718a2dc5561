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
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar, cast, dataclass_transform

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
    """Give a whole number of any integer type; ValueError for anything else, true and false among it."""
    if isinstance(value, bool):
        raise ValueError
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError from None


def wholes(value: Any) -> tuple[int, ...]:
    """Give the whole numbers of a sequence, or a single one."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return tuple(whole(one) for one in cast("Sequence[Any]", value))
    return (whole(value),)


def _entries(value: Any, single: type | types.UnionType) -> tuple[Any, ...]:
    """Give the entries of a sequence, or a single one; a set or a table has no order, so it is refused."""
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
        names = _entries(value, str)
        if not all(isinstance(name, str) and NAME.match(name) for name in names):
            raise ValueError
        return names


class Texts(Converted["str | Sequence[str]", "tuple[str, ...]"]):
    """Texts, such as file names; a single one may stand without a list."""

    wants = "a text, or a list of texts"

    @staticmethod
    def convert(value: Any) -> tuple[str, ...]:
        import os

        texts = _entries(value, str | os.PathLike)
        if not all(isinstance(text, str | os.PathLike) for text in texts):
            raise ValueError
        return tuple(os.fspath(cast("str | os.PathLike[str]", text)) for text in texts)


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
            numbers = cast("tuple[Any, ...]", value)
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
    if isinstance(value, bool | str | bytes):
        raise ValueError
    try:
        return float(value)
    except (TypeError, OverflowError):
        raise ValueError from None


def _same(kind: type[Any]) -> Callable[[Any], Any]:
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
                except (ValueError, TypeError):
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
            wants = cast("type[Converted[Any, Any]]", hint).wants
            return hint.convert, wants, hint.__name__
        if issubclass(hint, Component):
            article = "an" if hint.nacre_kind[:1] in "aeiou" else "a"
            words = f"{article} {hint.nacre_kind}: an object, a name, or a table with 'type'"
            return _component_converter(hint), words, hint.__name__
        if hint is bool:
            return _same(bool), "true or false", "bool"
        if hint is int:
            return whole, "a whole number", "int"
        if hint is float:
            return _float, "a number", "float"
        if hint is str:
            return _same(str), "a text", "str"
        kind = cast("type[Any]", hint)
        return _same(kind), f"a {kind.__name__}", kind.__name__
    short = str(hint).replace("typing.", "")
    if isinstance(origin, type):  # a list[int] must be a list; its entries are the layer's own affair
        return _same(origin), f"a {origin.__name__}", short
    return (lambda value: value), "another value", short


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False, field_specifiers=(dataclasses.field,))
class Configured:
    """A frozen, keyword-only dataclass whose fields are converted and checked when it is made.

    Raises:
        ConfigError: a field is unknown, missing, of another type, or fails its check. All complaints in one message.
    """

    nacre_kind: ClassVar[str] = ""
    _locals: ClassVar[Mapping[str, Any]] = {}
    _hints: ClassVar[Mapping[str, Any] | None] = None
    _fields: ClassVar[tuple[Field, ...] | None] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._fields = cls._hints = None
        cls._locals = _names_around(cls)
        dataclass(frozen=True, kw_only=True, eq=False, repr=False, init=False)(cls)

    if not TYPE_CHECKING:

        def __init__(self, **given: Any) -> None:
            fields = type(self).fields()
            complaints = [
                f"unknown field '{name}'{nearest(name, [field.name for field in fields])}"
                for name in given
                if name not in {field.name for field in fields}
            ]
            remedy = ""
            for field in fields:
                if field.name not in given and field.required:
                    complaints.append(f"{field.name} is missing: {field.doc or field.wants}")
                    continue
                value = given.get(field.name, field.default)
                try:
                    object.__setattr__(self, field.name, field.convert(value))
                except ConfigError as error:  # of a component that the value describes
                    complaints.append(f"{field.name}: {error.args[0]}")
                    remedy = remedy or error.remedy
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
                called = self._called(given)
                raise ConfigError("\n".join(f"{called}: {complaint}" for complaint in complaints), remedy)

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
        entries = cast("Sequence[Any]", value)
        inner = ", ".join(_short(one) for one in entries)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(entries) == 1 else ''})"
    return repr(value)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Configured):
        return type(one) is type(other) and one.given() == other.given()
    return bool(type(one) is type(other) and one == other)


def _names_around(cls: type) -> Mapping[str, Any]:
    """Give the local names of the functions around a class statement, so that its annotations can name them."""
    parts = cls.__qualname__.split(".<locals>.")
    scopes = {".<locals>.".join(parts[:end]) for end in range(1, len(parts))}
    frame: types.FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    names: dict[str, Any] = {}
    while frame is not None and scopes:
        if frame.f_code.co_qualname in scopes and frame.f_globals.get("__name__") == cls.__module__:
            scopes.remove(frame.f_code.co_qualname)
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    return names


def _read_fields(cls: type[Configured]) -> Iterator[Field]:
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, Configured) and base is not Configured:
            hints.update(_own_hints(base))
    for field in dataclasses.fields(cast("Any", cls)):
        hint = hints[field.name]
        extras: tuple[Any, ...] = ()
        if typing.get_origin(hint) is Annotated:
            hint, *rest = typing.get_args(hint)
            extras = tuple(rest)
            for extra in extras:
                if not isinstance(extra, str | Check):
                    what = f"{cls.__qualname__}: the annotation of '{field.name}' holds {extra!r}"
                    raise ContractError(f"{what}, which is neither a text nor a Check")
        convert, wants, short = _reader(hint)
        yield Field(
            name=field.name,
            type=short,
            default=field.default if field.default_factory is dataclasses.MISSING else field.default_factory(),
            doc=" ".join(extra for extra in extras if isinstance(extra, str)),
            checks=tuple(extra for extra in extras if isinstance(extra, Check)),
            convert=convert,
            wants=wants,
        )


def _own_hints(base: type[Configured]) -> Mapping[str, Any]:
    """Read the annotations of the fields that stand in `base` itself, once.

    Raises:
        ContractError: an annotation cannot be read.
    """
    if base._hints is None:  # pyright: ignore[reportPrivateUsage]
        fields = {field.name for field in dataclasses.fields(cast("Any", base))}
        own = {name: hint for name, hint in inspect.get_annotations(base).items() if name in fields}
        module = vars(sys.modules[base.__module__])
        names = {**base._locals, base.__name__: base}  # pyright: ignore[reportPrivateUsage]
        holder = types.SimpleNamespace(__annotations__=own)
        try:
            base._hints = typing.get_type_hints(holder, module, names, include_extras=True)  # pyright: ignore[reportPrivateUsage]
        except Exception as error:
            raise ContractError(f"{base.__qualname__}: an annotation cannot be read: {error}") from error
        base._locals = {}  # pyright: ignore[reportPrivateUsage]  # or the function's arrays would live with the class
    return base._hints  # pyright: ignore[reportPrivateUsage]
