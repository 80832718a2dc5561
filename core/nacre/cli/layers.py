"""`nacre layers`: what layers there are, and the page of one of them, or of anything else that a net file can name."""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING, Any

import click

from .options import common, json_option

if TYPE_CHECKING:
    from ..registry import Offer

NO_PARTS = ("kernel", "backend", "command", "store", "layer_of")
PLAIN = {"bool", "int", "float", "str", "None"}
"""Types of fields that need no word of explanation."""


@click.command()
@click.argument("name", required=False)
@json_option
@common
def command(name: str | None, as_json: bool) -> None:
    """List the layers, or show the page of one.

    NAME is that of a layer, or of any component: SGD, Xavier, neuron/ReLU. `distribution:Name` always works.
    """
    from ..registry import registry
    from .screen import print_json, print_table

    here = registry()
    if name is not None:
        pages = [_describe(offer, page=True) for offer in _named(name)]
        if as_json:
            print_json(pages)
        else:
            click.echo("\n\n".join(_page(page) for page in pages))
    elif as_json:
        print_json([_describe(offer) for offer in here.offers("layer")])
    else:
        print_table(("layer", "from"), [(offer.name, str(offer.provenance)) for offer in here.offers("layer")])


def _named(name: str) -> list[Offer]:
    """Find what a name means: a layer, or a component of any kind."""
    from ..registry import registry

    here = registry()
    kind, slash, short = name.rpartition("/")
    if slash:
        return [here.find(kind, short)]
    kinds = [kind for kind in here.kinds() if kind not in NO_PARTS and here.offers(kind, name)]
    if here.offers("layer", name) or not kinds:
        return [here.find("layer", name)]
    return [here.find(kind, name) for kind in kinds]


def _describe(offer: Offer, *, page: bool = False) -> dict[str, Any]:
    """Give what there is to know of a layer or component, as JSON-able data; a broken one has a `problem`."""
    from ..errors import NacreError
    from ..layer import TRAITS
    from ..registry import registry

    described: dict[str, Any] = {
        "name": offer.name,
        "kind": offer.kind,
        "distribution": offer.distribution,
        "version": offer.provenance.version,
        "module": offer.target.partition(":")[0],
        "summary": "",
        "traits": dict.fromkeys(TRAITS),
        "fields": [],
        "problem": None,
    }
    try:
        cls = registry().open_offer(offer)
        doc = inspect.cleandoc(cls.__doc__ or "")
        doc = "" if doc.startswith(f"{cls.__name__}(") else doc  # what dataclasses write where nobody wrote anything
        described["summary"] = " ".join(doc.partition("\n\n")[0].split())
        if offer.kind == "layer":
            described["traits"] = {trait: bool(getattr(cls, trait)) for trait in TRAITS}
        described["fields"] = describe_fields(cls)
        if page:
            described["doc"] = doc
            described["kernels"] = _kernels(offer, cls)
    except NacreError as error:
        described["problem"] = "; ".join(part for part in (str(error.args[0]), error.remedy) if part)
    except Exception as error:  # of a plugin
        described["problem"] = f"{type(error).__name__}: {error}"
    return described


def describe_fields(cls: Any) -> list[dict[str, Any]]:
    """Give the fields of a layer or component: those without a default first, and what it inherits behind its own."""
    heirs = {name: depth for depth, base in [*enumerate(cls.__mro__)][::-1] for name in inspect.get_annotations(base)}
    return [
        _describe_field(field)
        for field in sorted(cls.fields(), key=lambda field: (not field.required, heirs[field.name]))
    ]


def _describe_field(field: Any) -> dict[str, Any]:
    from ..tables import plain

    required = field.default is dataclasses.MISSING
    return {
        "name": field.name,
        "type": field.type,
        "default": None if required else plain(field.convert(field.default)),
        "doc": field.doc,
        "required": required,
        "help": field.help,
        "wants": field.wants,
        "choices": _choices(field),
    }


def _choices(field: Any) -> list[str]:
    """Give the names of the components that a field takes."""
    from ..component import Component
    from ..registry import registry

    types = field.type.split(" | ")
    kinds = [kind for kind, cls in Component.kinds.items() if cls.__name__ in types]
    return [name for kind in kinds for name in registry().names(kind)]


def _kernels(offer: Offer, cls: type) -> list[dict[str, Any]]:
    """Give the kernel that would be chosen on each backend, if none declines."""
    from ..errors import RegistryError
    from ..registry import registry

    here = registry()
    found: list[dict[str, Any]] = []
    for backend in here.names("backend"):
        try:
            found.append(here.explain(cls, backend).as_dict())
        except RegistryError as error:
            found.append({"thing": offer.name, "backend": backend, "kernel": None, "why": str(error)})
    return found


def _page(page: dict[str, Any]) -> str:
    from ..show import align

    whose = f"{page['distribution']} {page['version']}".rstrip()
    lines = [f"{page['name']}: {page['kind'].replace('_', ' ')} of {whose} ({page['module']})"]
    if page["problem"]:
        return "\n".join([*lines, "", f"cannot be opened: {page['problem']}"])
    lines += ["", page["doc"] or "(not documented)"]
    traits = [trait for trait, value in page["traits"].items() if value]
    if traits:
        lines += ["", f"traits: {', '.join(traits)}"]
    if page["fields"]:
        rows = [
            (
                field["name"],
                field["type"],
                "required" if field["required"] else written(field["default"]),
                field["help"],
            )
            for field in page["fields"]
        ]
        lines += ["", *align(("field", "type", "default", "what it is"), rows)]
    types = types_of(page["fields"])
    if types:
        width = max(map(len, types))
        lines += ["", "types:", *(f"  {name:{width}}  {words}" for name, words in types.items())]
    kernels = [
        f"  {one['backend']}: {one['kernel']} ({one['from']}), because {one['why']}"
        for one in page["kernels"]
        if one["kernel"]
    ]
    if kernels:
        lines += ["", "kernels, if none declines (elsewhere its own code runs):", *kernels]
    return "\n".join(lines)


def written(value: Any) -> str:
    """Give a default as a net file says it."""
    from ..toml import toml_value

    return toml_value("none" if value is None else value)


def types_of(fields: list[dict[str, Any]]) -> dict[str, str]:
    """Say what may be written, for the types that do not say it themselves."""
    told: dict[str, str] = {}
    for field in fields:
        if not set(field["type"].split(" | ")) <= PLAIN:
            choices = f" ({', '.join(field['choices'])})" if field["choices"] else ""
            told[field["type"]] = f"{field['wants']}{choices}"
    return told
