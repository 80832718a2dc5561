"""The hooks of a plugin: functions that say what it offers.

An entry point of the group `nacre.plugins` names a light module; its functions marked `@hookimpl` are these hooks. All
are optional and take no arguments. Their results are read once, when the registry is first asked for something:

    from nacre import hookimpl

    nacre_api = "1"


    @hookimpl
    def offer_layers():
        return {"Swirl": "nacre_swirl.swirl:SwirlLayer"}

A name is letters, digits and `_.-`, starts with a letter, and is unique within its kind. An offer is the string
`"package.module:Attribute"`, which imports nothing; in scripts and tests it may be the class itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import click

hookspec = pluggy.HookspecMarker("nacre")


hookimpl = pluggy.HookimplMarker("nacre")


@hookspec
def offer_layers() -> Mapping[str, str | type]:
    """Offer layers: name -> subclass of `Layer`."""
    raise NotImplementedError


@hookspec
def offer_kernels() -> Mapping[tuple[str, str], str | type]:
    """Offer kernels: (layer or component, backend) -> a faster state, or a faster component, on that backend.

    A layer is `"Pooling"` or `"distribution:Pooling"`, a component `"neuron/GELU"` or `"neuron/distribution:GELU"`. A
    short name means the offering distribution's own thing of that name, else nacre's, else the only one installed. A
    kernel serves exactly the class that this name opens to, never a subclass.
    """
    raise NotImplementedError


@hookspec
def offer_backends() -> Mapping[str, str | type]:
    """Offer backends: name -> class with the `Backend` protocol. Kernels find the backend by this name."""
    raise NotImplementedError


@hookspec
def offer_components() -> Mapping[str, Mapping[str, str | type]]:
    """Offer everything else: kind -> name -> class, as `{"neuron": {"GELU": "nacre_gelu:GELU"}}`.

    A kind is lower-case letters and `_`; a new one needs no change in the core.
    """
    raise NotImplementedError


@hookspec
def offer_commands() -> Mapping[str, str | click.Command]:
    """Offer commands of the command line: name -> a click command."""
    raise NotImplementedError


@hookspec
def offer_names_elsewhere() -> Mapping[str, str]:
    """Offer the names that other libraries have for this plugin's offers, as `{"layer/InnerProduct": "Linear Dense"}`.

    Whoever writes one of them, in small or capital letters, is told the name that is offered here.
    """
    raise NotImplementedError
