"""The base class of layers and components: frozen fields, read from annotations and checked."""

from __future__ import annotations

import dataclasses
import inspect
import operator
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, cast, dataclass_transform

from ..errors import ConfigError, ContractError, brief, nearest
from ..text import with_article
from .checks import Check, one_of
from .pages import Doc, SignatureOf, no_doc, ordered_fields
from .types import Paths, Reading, number, whole


@dataclass(frozen=True)
class Field:
    """One field of a layer or a component, as `nacre layers NAME` shows it.

    `type` is its annotation as text, for people; `types` are the classes in the annotation, for code, and `hint` is the
    annotation itself.
    """

    name: str
    type: str
    types: tuple[type, ...]
    default: Any
    doc: str
    checks: tuple[Check, ...]
    convert: Callable[[Any], Any]
    wants: str
    hint: Any = Any

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING

    def takes(self, cls: type) -> bool:
        """Return whether the annotation contains this class or one derived from it."""
        return any(issubclass(one, cls) for one in self.types)

    @property
    def help(self) -> str:
        """Return what the field is, and what it must be."""
        demands = ", ".join(check.words for check in self.checks if check.words)
        return f"{self.doc} ({demands})" if demands else self.doc


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


Reader = tuple[Callable[[Any], Any], str, str]
"""A converter, words for the values it accepts, and the short name of the type."""

_PLAIN: dict[type, Reader] = {
    bool: (_same(bool), "true or false", "bool"),
    int: (whole, "a whole number", "int"),
    float: (number, "a number", "float"),
    str: (_same(str), "a string", "str"),
    type(None): (_same(type(None)), "none", "None"),
}


def _reader(hint: Any) -> Reader:
    """Return the reader of an annotation."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        absent = type(None) in arguments and str not in arguments
        return _either([_reader(argument) for argument in arguments], absent=absent)
    if hint is Any:
        return (lambda value: value), "another value", "Any"
    if origin is typing.Literal:
        words = f"one of {', '.join(map(repr, arguments))}"
        texts = all(isinstance(one, str) for one in arguments)  # whose choices stand behind the field's help
        return _among(arguments), words, "str" if texts else " | ".join(map(repr, arguments))
    if hint is None or isinstance(hint, type):
        return _class_reader(type(None) if hint is None else hint)
    short = str(hint).replace("typing.", "")
    if isinstance(origin, type):  # a list[int] must be a list; the layer checks its entries
        return _same(origin), with_article(origin.__name__), short
    return (lambda value: value), "another value", short


def _types(hint: Any) -> tuple[type, ...]:
    """Return the classes in an annotation; for `list[int]` it is the list."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return tuple(one for argument in typing.get_args(hint) for one in _types(argument))
    found = type(None) if hint is None else origin or hint
    return (found,) if isinstance(found, type) else ()


def _class_reader(cls: type[Any]) -> Reader:
    if issubclass(cls, Reading):
        return cls.convert, cls.wants, cls.__name__
    return _PLAIN.get(cls) or (_same(cls), with_article(cls.__name__), cls.__name__)


def _either(readers: Sequence[Reader], *, absent: bool) -> Reader:
    """Return the reader of a union: it uses the first of `readers` that accepts a value.

    With `absent` the string "none" means None, which a net file cannot write in another way.
    """

    def convert(value: Any) -> Any:
        if absent and isinstance(value, str) and value == "none":
            return None
        for read, _, _ in readers:
            try:
                return read(value)
            except (ValueError, TypeError, OverflowError):
                continue
        raise ValueError

    return convert, " or ".join(words for _, words, _ in readers), " | ".join(short for _, _, short in readers)


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False, field_specifiers=(dataclasses.field,))
class Configured:
    """A frozen, keyword-only dataclass whose fields are converted and checked when it is made.

    Raises:
        ConfigError: a field is unknown, missing, of a wrong type, or not valid. One message contains all mistakes.
    """

    nacre_kind: ClassVar[str] = ""
    unnamed: ClassVar[tuple[str, ...]] = ()
    """The fields that may be given without their names, in this order."""
    elsewhere: ClassVar[Mapping[str, str]] = {}
    """Names that other libraries have for fields: {theirs: ours}."""
    besides: ClassVar[str] = ""
    """Where people find what they look for among the fields in vain: the end of a remedy about fields."""
    nacre_version: ClassVar[int] = 1
    """The `version` on the class line: it grows when the class computes something else, and kernels name it."""
    nacre_renamed: ClassVar[Mapping[str, str]] = {}
    """The `renamed` on the class line: earlier names of fields and parameters, {old: new}."""

    __signature__: ClassVar[SignatureOf] = SignatureOf()
    _locals: ClassVar[Mapping[str, Any]] = {}
    _hints: ClassVar[Mapping[str, Any] | None] = None
    _fields: ClassVar[tuple[Field, ...] | None] = None

    def __init_subclass__(cls, *, version: int | None = None, renamed: Mapping[str, str] | None = None) -> None:
        super().__init_subclass__()
        cls._fields = cls._hints = None
        cls._locals = _names_around(cls)
        cls.__doc__ = cls.__doc__ or no_doc(cls)  # dataclass would read all annotations to write one
        dataclass(frozen=True, kw_only=True, eq=False, repr=False, init=False)(cls)
        cls.__doc__ = Doc(vars(cls)["__doc__"])
        cls.__setattr__ = _refuse_to_set
        cls.__delattr__ = _refuse_to_delete
        if version is not None:
            cls.nacre_version = version
        if renamed is not None:
            if not isinstance(renamed, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ContractError(f"{cls.__name__} declares renamed={brief(renamed)}, but it must be {{old: new}}")
            cls.nacre_renamed = {**cls.nacre_renamed, **renamed}
            fields = {field.name for field in dataclasses.fields(cast("Any", cls))}
            if used := [old for old in renamed if old in fields]:
                raise ContractError(f"{cls.__name__} declares renamed={{'{used[0]}': ...}}, but still has this field")

    if not TYPE_CHECKING:

        def __init__(self, *values: Any, **given: Any) -> None:
            given = type(self).newly_named({**type(self).with_names(values, given), **given})
            fields = type(self).fields()
            left_out = type(self)._left_out(given)
            names = [field.name for field in fields]
            unknown = [name for name in given if name not in names]
            meant = type(self).elsewhere
            complaints = [f"unknown field '{name}'{nearest(meant.get(name, name), names)}" for name in unknown[:10]]
            complaints += [f"and {len(unknown) - 10:,} more unknown fields"] if len(unknown) > 10 else []
            remedy = type(self)._known_fields(names, f" of {type(self).__name__}") if unknown else ""
            for field in fields:
                if field.name in left_out:
                    object.__setattr__(self, field.name, left_out[field.name])
                    continue
                if field.name not in given and field.required:
                    complaints.append(f"{field.name} is missing: {field.doc or field.wants}")
                    continue
                value = given.get(field.name, field.default)
                try:
                    object.__setattr__(self, field.name, field.convert(value))
                except ConfigError as error:  # of a component that the value describes
                    complaints += [f"{field.name}: {line}" for line in str(error.args[0]).split("\n")]
                    remedy = remedy or error.remedy
                except (ValueError, TypeError, OverflowError):
                    complaints.append(f"{field.name}={brief(value)}, but it must be {field.wants}")
                    remedy = remedy or _object_of(value)
            if not complaints:
                if not left_out:
                    self._complete()
                for field in fields:
                    if field.name in left_out:
                        continue
                    value = getattr(self, field.name)
                    for check in field.checks:
                        if complaint := check.complain(value, self):
                            complaints.append(f"{field.name}={brief(value)}, but {complaint}")
            if not complaints and not left_out:
                complaints.extend(_complaints_of(self))
            if complaints:
                called = self._called(given)
                raise ConfigError("\n".join(f"{called}: {complaint}" for complaint in complaints), remedy)

    @classmethod
    def with_names(cls, values: tuple[Any, ...], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that were given without names, with these."""
        if not values:
            return {}
        twice = [name for name, _ in zip(cls.unnamed, values, strict=False) if name in given]
        if len(values) > len(cls.unnamed) or twice:
            fields = ordered_fields(cls)
            names = [field.name for field in fields]
            needed = next((field.name for field in fields if cls.default_of(field) is inspect.Parameter.empty), "")
            write = f"{needed or names[0]}=..., ..." if names else ""
            alone = (
                f"only {' and '.join(cls.unnamed)} may be given without a name" if cls.unnamed else "fields are named"
            )
            raise ConfigError(
                f"{cls.__name__}: {twice[0]} is given twice"
                if twice
                else f"{cls.__name__}: {', '.join(map(brief, values))} given without a name, but {alone}",
                cls._how_to_name(f"write {cls.__name__}({write}); {cls._known_fields(names)}"),
            )
        return dict(zip(cls.unnamed, values, strict=False))

    @classmethod
    def _known_fields(cls, names: Sequence[str], whose: str = "") -> str:
        """Return the part of a remedy that lists the fields."""
        known = f"the fields{whose} are {', '.join(names)}" if names else f"{cls.__name__} has no fields"
        return f"{known}; {cls.besides}" if cls.besides else known

    @classmethod
    def newly_named(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return values of fields with the names that the fields have now.

        Raises:
            ConfigError: a field is given by an old name and by its new one.
        """
        if not cls.nacre_renamed:
            return dict(given)
        names = {field.name for field in cls.fields()}
        renamed = {old: new for old, new in cls.nacre_renamed.items() if old in given and new in names}
        for old, new in renamed.items():
            if new in given:
                raise ConfigError(
                    f"{cls.__name__}: '{old}' and '{new}' are given, but are one field", f"remove '{old}'"
                )
        return {renamed.get(name, name): value for name, value in given.items()}

    @classmethod
    def _how_to_name(cls, remedy: str) -> str:
        """Return the remedy for values without names."""
        return remedy

    @classmethod
    def default_of(cls, field: Field) -> Any:
        """Return the default of a field as a signature has it."""
        return inspect.Parameter.empty if field.required else field.default

    @classmethod
    def _left_out(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return values for required fields that may be missing; an object without them is checked as a whole later."""
        return {}

    def _complete(self) -> None:
        """Fill in fields whose default depends on others."""

    def _called(self, given: Mapping[str, Any]) -> str:
        """Return the name of this object in an error."""
        return type(self).__name__

    def complaints(self) -> Iterator[str]:
        """Yield a message for each mistake in the fields as a whole; for subclasses."""
        yield from ()

    @classmethod
    def fields(cls) -> tuple[Field, ...]:
        """Return the fields in order, the inherited ones first, as read from the annotations."""
        if cls._fields is None:
            cls._fields = tuple(_read_fields(cls)) if dataclasses.is_dataclass(cls) else ()
        return cls._fields

    def given(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults."""
        values = {field.name: (getattr(self, field.name), field) for field in type(self).fields()}
        return {
            name: value
            for name, (value, field) in values.items()
            if field.required or not _equal(value, field.convert(field.default))
        }

    def implied(self, inner: Any) -> Collection[str]:
        """Return the fields of an object in one of this object's fields that a file need not have, as they follow."""
        return ()

    def standalone(self) -> Self:
        """Return what stands for this object in a net that is saved: an equal one that reads no file.

        By default the same, with what stands for the objects in its fields. A class with a field that names a file puts
        what it reads there into another field.

        Raises:
            ConfigError: a field names a file.
        """
        changed: dict[str, Any] = {}
        for field in type(self).fields():
            value = getattr(self, field.name)
            new = self.without_files(field.name, value) if field.takes(Paths) and value else _standalone(value)
            changed |= {} if new is value else {field.name: new}
        return dataclasses.replace(cast("Any", self), **changed) if changed else self

    def without_files(self, field: str, paths: Any) -> Any:
        """Return what stands in a net that is saved for files that a field names.

        Raises:
            ConfigError: it would need them.
        """
        raise ConfigError(
            f"{self._called(self.given())}: {field}={brief(paths)} is a file, but a saved net has no files beside it",
            "give what is in the file as a field, if there is one; a class of your own defines `standalone`",
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={_short(value)}' for name, value in self.given().items())})"


def inside(value: Any) -> Iterator[Configured]:
    """Yield a layer or component, and all components in its fields, at any depth."""
    if isinstance(value, str | int | float):  # most are, and the other questions take longer
        return
    if isinstance(value, Configured):
        yield value
        for field in type(value).fields():
            yield from inside(getattr(value, field.name))
    elif isinstance(value, list | tuple):
        for entry in cast("Sequence[Any]", value):
            yield from inside(entry)
    elif isinstance(value, Mapping):
        for entry in cast("Mapping[Any, Any]", value).values():
            yield from inside(entry)


def _standalone(value: Any) -> Any:
    """Return a field's value with what stands for each object in it; the value itself if nothing changes."""
    if isinstance(value, Configured):
        return value.standalone()
    if isinstance(value, list | tuple):
        entries = list(cast("Sequence[Any]", value))
        made = [_standalone(one) for one in entries]
        changed = not all(map(operator.is_, made, entries))
        return (tuple(made) if isinstance(value, tuple) else made) if changed else cast("Any", value)
    if isinstance(value, Mapping):
        table = {key: _standalone(one) for key, one in cast("Mapping[Any, Any]", value).items()}
        changed = any(table[key] is not one for key, one in cast("Mapping[Any, Any]", value).items())
        return table if changed else cast("Any", value)
    return value


class FrozenFieldError(ConfigError, dataclasses.FrozenInstanceError):
    """A field of a layer or a component was set after it was made."""


def _refuse_to_set(thing: Any, name: str, value: object) -> None:
    raise FrozenFieldError(
        f"{type(thing).__name__}: {name} cannot be set, because layers and components do not change",
        f"make another: dataclasses.replace({thing.nacre_kind or 'thing'}, {name}=...)",
    )


def _refuse_to_delete(thing: Any, name: str) -> None:
    raise FrozenFieldError(
        f"{type(thing).__name__}: {name} cannot be deleted, because layers and components do not change",
        f"make another without it: {type(thing).__name__}(...)",
    )


def _object_of(value: Any) -> str:
    """Return the remedy for a class where an object is wanted, or for a list of classes; else ""."""
    if isinstance(value, list | tuple):
        entries = cast("Sequence[Any]", value)
        return "give objects of the classes, with () behind them" if any(map(_object_of, entries)) else ""
    is_class = isinstance(value, type) and issubclass(value, Configured)
    return f"give an object of the class: {value.__name__}()" if is_class else ""


def _short(value: Any) -> str:
    """Return the text of a value; for an array only shape and type."""
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
    """Return the local names of the functions around a class statement, for its annotations."""
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
                    what = f"{cls.__qualname__}: the annotation of '{field.name}' holds {brief(extra)}"
                    raise ContractError(f"{what}, which is neither a string nor a Check")
        if typing.get_origin(hint) is typing.Literal:
            extras = (one_of(*typing.get_args(hint)), *extras)
        convert, wants, short = _reader(hint)
        yield Field(
            name=field.name,
            type=short,
            types=_types(hint),
            default=field.default if field.default_factory is dataclasses.MISSING else field.default_factory(),
            doc=" ".join(extra for extra in extras if isinstance(extra, str)),
            checks=tuple(extra for extra in extras if isinstance(extra, Check)),
            convert=convert,
            wants=wants,
            hint=hint,
        )


def _own_hints(base: type[Configured]) -> Mapping[str, Any]:
    """Return the annotations of the fields that `base` itself declares; read once.

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
        base._locals = {}  # pyright: ignore[reportPrivateUsage]  # else the class would keep the function's arrays alive
    return base._hints  # pyright: ignore[reportPrivateUsage]


def _complaints_of(thing: Configured) -> list[str]:
    """Return what an object says about its fields; what else a plugin's class raises names the plugin."""
    try:
        answer: Any = thing.complaints()
        given: list[Any] = list(cast("Iterable[Any]", answer)) if isinstance(answer, Iterable) else [answer]
    except BaseException as error:
        from ..discovery.blame import blamed

        if (found := blamed(error, thing)) is not None:
            raise found from error
        raise
    if isinstance(answer, str) or not all(isinstance(one, str) for one in given):
        from ..discovery.blame import wrong

        returned = answer if answer is None or isinstance(answer, str) else given
        raise wrong(thing, f"complaints returned {brief(returned)}, but it must yield sentences")
    return given
