"""Writes core/nacre/calls/shelf.pyi, what editors know of `L`, from nacre's own layers: python docs/make_stub.py."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import nacre
from nacre.fields.configured import Field
from nacre.fields.pages import ordered_fields, own_doc

STUB = Path(nacre.__file__).parent / "calls" / "shelf.pyi"
HEAD = '''"""L: the layers of all plugins by their names. Made by docs/make_stub.py."""
# pyright: reportIncompatibleMethodOverride=false
# mypy: disable-error-code="override"

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, overload

{imports}

class Shelf:
    """The layers by their names in net files: `L.Convolution` is `nacre_layers.ConvolutionLayer`."""

    def __getitem__(self, name: str) -> Callable[..., Any]: ...
    def __getattr__(self, name: str) -> Callable[..., Any]: ...
    def __dir__(self) -> list[str]: ...
'''
FEW = 4
"""Bottoms that are written one by one."""
PLAIN = {bool: "bool", int: "int", float: "float", str: "str", type(None): "None", os.PathLike: "PathLike[str]"}
CONTAINERS = {Sequence: "Sequence", Mapping: "Mapping", list: "list", dict: "dict", tuple: "tuple"}


class Stub:
    """The text, and what it imports."""

    def __init__(self) -> None:
        self.imports = {"from nacre.calls.handles import Call, Top", "from nacre.fields.component import Written"}
        here = nacre.registry()
        offers = [offer for offer in here.offers("layer") if offer.distribution == "nacre"]
        parts = [self._layer(offer.name, here.open_offer(offer)) for offer in offers]
        for wrapper in here.offers("layer_of"):
            layer: Any = here.open_offer(wrapper)
            found = [offer for offer in here.offers(wrapper.name) if offer.distribution == "nacre"]
            parts += [self._wrapped(offer.name, here.open_offer(offer), layer, wrapper.name) for offer in found]
        head = HEAD.format(imports="\n".join(sorted(self.imports)))
        self.text = "\n".join([head, *parts, "L: Shelf", ""])

    def _layer(self, name: str, cls: Any) -> str:
        """Return the class of a layer, whose bottoms and tops may be left out."""
        lines = [f"class {name}({self._imported(cls)}):", *_documented(cls)]
        lines.append(f"    def __init__(self, {self._parameters(ordered_fields(cls), cls)}) -> None: ...")
        lines += [f"    {line}" for line in _calls(cls)]
        return textwrap.indent("\n".join(lines), "    ")

    def _wrapped(self, name: str, cls: Any, layer: Any, field: str) -> str:
        """Return the function that makes a layer with a component."""
        own = [one for one in ordered_fields(layer) if one.name != field]
        names = {one.name for one in own}
        fields = [*(one for one in ordered_fields(cls) if one.name not in names), *own]
        kind = layer.__name__.removesuffix("Layer")
        lines = [f"def {name}(self, {self._parameters(fields, layer)}) -> Shelf.{kind}:", *_documented(cls), "    ..."]
        return textwrap.indent("\n".join(lines), "    ")

    def _parameters(self, fields: Sequence[Field], cls: Any) -> str:
        ordered = sorted(fields, key=lambda field: cls.default_of(field) is not inspect.Parameter.empty)
        made = [
            f"{field.name}: {self._type(field.hint)}"
            + ("" if cls.default_of(field) is inspect.Parameter.empty else " = ...")
            for field in ordered
        ]
        return ", ".join(["*", *made])

    def _type(self, hint: Any) -> str:
        """Return the type of what may be given for a field."""
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if hint in PLAIN or origin in PLAIN:
            return PLAIN[hint if hint in PLAIN else origin]
        if origin in (typing.Union, types.UnionType):
            parts = [part for argument in arguments for part in self._type(argument).split(" | ")]
            return "Any" if "Any" in parts else " | ".join(dict.fromkeys(parts))
        if origin is typing.Literal:
            return f"Literal[{', '.join(map(repr, arguments))}]"
        if origin in CONTAINERS:
            inner = ["..." if argument is ... else self._type(argument) for argument in arguments]
            return f"{CONTAINERS[origin]}[{', '.join(inner)}]"
        if isinstance(hint, type) and issubclass(hint, nacre.Component):
            numbers = ["float"] if nacre.registry().offers("number_of", hint.nacre_kind) else []
            return " | ".join([self._imported(hint), "Written", *numbers])
        if isinstance(hint, type) and issubclass(hint, nacre.Converted):
            return self._type(_given(hint))
        if isinstance(hint, type) and issubclass(hint, nacre.Layer):
            return self._imported(hint)
        return "Any"

    def _imported(self, cls: type) -> str:
        self.imports.add(f"from {cls.__module__} import {cls.__name__}")
        return cls.__name__


def _given(cls: Any) -> Any:
    """Return what a type of fields that converts its values is given."""
    for base in cls.__mro__:
        for generic in types.get_original_bases(base) if hasattr(types, "get_original_bases") else _bases(base):
            if typing.get_origin(generic) is nacre.Converted:
                given = typing.get_args(generic)[0]
                text = given.__forward_arg__ if isinstance(given, typing.ForwardRef) else given
                holder = types.SimpleNamespace(__annotations__={"given": text})
                return typing.get_type_hints(holder, vars(sys.modules[base.__module__]))["given"]
    return Any


def _bases(cls: Any) -> tuple[Any, ...]:
    return vars(cls).get("__orig_bases__", ())


def _documented(cls: Any) -> list[str]:
    """Return the first sentence of a class, and its fields."""
    summary = inspect.cleandoc(own_doc(cls)).partition("\n\n")[0]
    fields = "\n".join(f"    {field.name}: {field.help}{_default(cls, field)}" for field in ordered_fields(cls))
    doc = f"{summary}\n\nFields:\n{fields}\n" if fields else summary
    return textwrap.indent(f'"""{doc}"""', "    ").split("\n")


def _default(cls: Any, field: Field) -> str:
    default = cls.default_of(field)
    plain = default in (inspect.Parameter.empty, "", ()) or "by default" in field.help
    return "" if plain else f"; by default {default!r}"


def _calls(cls: Any) -> Iterator[str]:
    """Yield what a call of a layer takes and returns."""
    fields = {field.name: field for field in cls.fields()}
    if cls.is_source:
        yield "def __call__(self, *, tops: int | None = None) -> Any: ..."
        return
    counts = {(check.least, check.most) for check in fields["bottoms"].checks}
    least, most = next(((least, most) for least, most in counts if most is not None and most <= FEW), (0, None))
    exact = least if least == most else None
    below = "*bottoms: Top"
    if most is not None:
        below = "".join(f"bottom{n}: Top{' = ...' * (n >= least)}, " for n in range(most)) + "/" * (most > 0)
    if cls.is_sink:
        yield f"def __call__(self, {below}) -> Call: ..."
        return
    checks = () if cls.is_inplace else fields["tops"].checks
    if any(check.least == check.most == 1 for check in checks) or (cls.is_inplace and exact == 1):
        yield f"def __call__(self{', ' * bool(below)}{below}) -> Top: ..."
    elif cls.is_inplace or any(check.like == "bottoms" for check in checks):
        yield from ["@overload", "def __call__(self, bottom: Top, /) -> Top: ...", "@overload"]
        yield "def __call__(self, bottom: Top, other: Top, /, *more: Top) -> tuple[Top, ...]: ..."
        yield from ["@overload", "def __call__(self, *bottoms: Top, tops: int) -> tuple[Top, ...]: ..."]
    else:
        several = f"{below}, {'*, ' * (most is not None)}tops: int"
        yield from ["@overload", f"def __call__(self, {below}) -> Top: ..."]
        yield from ["@overload", f"def __call__(self, {several}) -> tuple[Top, ...]: ..."]


def text() -> str:
    """Return the stub as ruff formats it."""
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(STUB), "-"]
    return subprocess.run(command, input=Stub().text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    STUB.write_text(text(), encoding="utf-8")
