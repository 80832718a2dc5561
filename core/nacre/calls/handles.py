"""Call and Top: what a layer gives when it is called. They are values, which nets are made of."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import TopologyError
from ..protocols.layer import Layer, layer_type

_order = itertools.count()


class HandleError(TopologyError, TypeError, AttributeError):
    """A handle was used as if it were an array; `hasattr` and operators see the error that they expect."""


class Handle:
    """What a layer gives when it is called: it stands for blobs that exist when a net is made."""

    __slots__ = ()

    if not TYPE_CHECKING:  # editors mark what a handle has not

        def __getattr__(self, name: str) -> NoReturn:
            if name in ("shape", "ndim", "size", "dtype"):
                remedy = "make the net: print(net) shows all shapes, net.blob(name) returns an array"
                raise HandleError(f"{self!r} has no {name}, because nothing is computed before there is a net", remedy)
            raise HandleError(f"{self!r} has no attribute '{name}'", "pass it to a layer, or to Net")

        def __iter__(self) -> NoReturn:
            raise HandleError(f"{self!r} is one handle, not several", "for several tops say how many: layer(x, tops=2)")

        def __getitem__(self, index: object) -> NoReturn:
            raise HandleError(f"{self!r} has no entries to choose from", "use a layer that cuts, such as L.Slice")

        def __len__(self) -> NoReturn:
            raise HandleError(f"{self!r} has no length", "for several tops say how many: layer(x, tops=2)")

        def __bool__(self) -> bool:
            return True

        def __array__(self, *_: object, **__: object) -> NoReturn:
            raise HandleError(f"{self!r} holds no numbers", "make the net, and read the blob: net.blob(name)")

        __float__ = __int__ = __index__ = __array__

        def __call__(self, *_: object, **__: object) -> NoReturn:
            raise HandleError(f"{self!r} is not called", "call a layer with it: layer(x)")


def _no_operator(sign: str) -> Any:
    def refuse(self: Handle, *_: object) -> NoReturn:
        raise HandleError(
            f"{self!r} has no operator {sign}", "use a layer, such as L.ElementWise(operation='Add')(a, b)"
        )

    return refuse


for _sign, _names in {
    "+": "add radd pos", "-": "sub rsub neg", "*": "mul rmul", "/": "truediv rtruediv", "@": "matmul rmatmul",
    "**": "pow rpow", "<": "lt", ">": "gt", "<=": "le", ">=": "ge",
}.items():  # fmt: skip
    for _name in _names.split():
        setattr(Handle, f"__{_name}__", _no_operator(_sign))
Handle.__array_ufunc__ = None  # pyright: ignore[reportAttributeAccessIssue]  # or NumPy's + would take a handle for a number


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Call(Handle):
    """One use of a layer in a net; it is the handle of a layer without tops.

    `count` is how many tops it has, `names` are their names if the layer itself gives them, as sources do. `order` is
    the order of all calls.
    """

    layer: Layer
    bottoms: tuple[Top, ...]
    count: int
    names: tuple[str, ...] = ()
    order: int = field(default_factory=lambda: next(_order))

    def tops(self) -> tuple[Top, ...]:
        """Return the handles of its tops."""
        names = self.names or ("",) * self.count
        return tuple(Top((self,), index, name) for index, name in enumerate(names))

    def __repr__(self) -> str:
        return f"<call of {layer_type(type(self.layer))}>"


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Top(Handle):
    """A blob that a layer gives when it is called: other layers read it, and none of them changes it.

    `calls` write it: one, or one for each of several phases. `index` is its place among their tops, `given` the name
    that it has already, as the tops of sources do.
    """

    calls: tuple[Call, ...]
    index: int
    given: str = ""

    def __repr__(self) -> str:
        if self.given:
            return f"<top '{self.given}' of {layer_type(type(self.calls[0].layer))}>"
        number = f"{self.index} " if self.calls[0].count > 1 else ""
        return f"<top {number}of {layer_type(type(self.calls[0].layer))}>"


def called(layer: Layer) -> str:
    """Return what an error calls a layer that may have no name yet."""
    return layer.given_name or layer_type(type(layer))


def reached(handles: Iterable[Handle]) -> list[Call]:
    """Return the calls that these handles need, in the order in which they were made."""
    found: set[Call] = set()
    todo = [call for one in handles for call in _calls(one)]
    while todo:
        if (call := todo.pop()) not in found:
            found.add(call)
            todo += [below for bottom in call.bottoms for below in bottom.calls]
    return sorted(found, key=lambda call: call.order)


def _calls(handle: Handle) -> tuple[Call, ...]:
    return handle.calls if isinstance(handle, Top) else (handle,) if isinstance(handle, Call) else ()
