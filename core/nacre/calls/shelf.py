"""L: the layers of all plugins by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..discovery.registry import registry
from ..errors import ConfigError, RegistryError
from ..protocols.making import layer_maker


class Shelf:
    """The layers by their names in net files: `L.Convolution` is `nacre_layers.ConvolutionLayer`.

    `L["nacre-swirl:Swirl"]` is that of another distribution. A neuron's name is an `Activation` layer with it.
    """

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return layer_maker({"type": name})[1]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except RegistryError as error:
            if registry().offers("layer", name):
                raise NoLayerError(str(error.args[0]), error.remedy) from None
            _, *rest = error.remedy.split("\n")  # which plugins failed
            remedy = registry().how_to_get("layer", name) or (
                "dir(L) has all names; docs/from-pytorch.md and docs/how-to/from-keras.md those of other libraries"
            )
            unknown = f"no layer '{name}'{registry().suggested(name, _kinds(), dir(self))}"
            raise NoLayerError(unknown, "\n".join([remedy, *rest])) from None

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise ConfigError("L is not called: its attributes are the layers", "write L.Convolution(n_filter=20)(x)")

    def __repr__(self) -> str:
        return f"<L, the {len(dir(self))} layers of all plugins by their names: L.InnerProduct(output_dim=10)>"

    def __dir__(self) -> list[str]:
        return sorted({name for kind in _kinds() for name in registry().names(kind) if name.isidentifier()})


def _kinds() -> tuple[str, ...]:
    """Return the kinds whose names make layers."""
    return ("layer", *registry().also_named("layer"))


class NoLayerError(RegistryError, AttributeError):
    """No plugin offers a layer of this name; `hasattr` sees the error that it expects."""


L = Shelf()
