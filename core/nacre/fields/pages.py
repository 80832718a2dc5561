"""What editors and `help` show of a configured class: its signature, and its docstring with all fields."""

from __future__ import annotations

import inspect
from typing import Any


class TypeText(str):
    """The type of a field as the annotation of a parameter, which is shown without quotes."""

    __repr__ = str.__str__


class SignatureOf:
    """The `__signature__` of a configured class: a parameter for each field. It is made when it is asked for."""

    def __get__(self, thing: object, cls: Any) -> inspect.Signature:
        if thing is not None:  # the signature of an object is that of its calls
            raise AttributeError("__signature__")
        parameters = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD
                if field.name in cls.unnamed
                else inspect.Parameter.KEYWORD_ONLY,
                default=cls.default_of(field),
                annotation=TypeText(field.type),
            )
            for field in sorted(ordered_fields(cls), key=lambda field: field.name not in cls.unnamed)
        ]
        return inspect.Signature(parameters)


class Doc(str):
    """A class's own docstring; asked of the class, it is followed by the fields: type, default and meaning."""

    def __get__(self, thing: object, cls: Any) -> str:
        own = inspect.cleandoc(own_doc(cls))
        fields = "\n".join(f"    {_head(cls, field)}\n        {field.help}" for field in ordered_fields(cls))
        return "\n\n".join(filter(None, [own, fields and f"Fields:\n{fields}"]))


def own_doc(cls: type) -> str:
    """Return the docstring that the author of a class has written, or ""."""
    doc = str(vars(cls).get("__doc__") or "")
    return "" if doc == no_doc(cls) else doc


def no_doc(cls: type) -> str:
    """Return the docstring of a class whose author has written none."""
    return f"{cls.__name__}()"


def ordered_fields(cls: Any) -> list[Any]:
    """Return the fields as people read them: those without a default first, and inherited ones last."""
    heirs = {name: depth for depth, base in [*enumerate(cls.__mro__)][::-1] for name in inspect.get_annotations(base)}
    return sorted(cls.fields(), key=lambda field: (not field.required, heirs[field.name]))


def _head(cls: Any, field: Any) -> str:
    default = cls.default_of(field)
    return f"{field.name}: {field.type}" + ("" if default is inspect.Parameter.empty else f" = {default!r}")
