"""`nacre layers`: a list of all layers, and the page of a layer or of anything else that a net file can name."""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ..completion import component_names, kinds
from ..options import common, json_option

if TYPE_CHECKING:
    from ...discovery.offers import Offer


PLAIN = {"bool", "int", "float", "str", "None"}
"""Types of fields that need no explanation."""


@click.command()
@click.argument("name", required=False, shell_complete=component_names)
@click.option(
    "--all", "every", is_flag=True, help="List everything that a net file can name: neurons, solvers, callbacks, ..."
)
@click.option("--long", "described", is_flag=True, help="Show a sentence about each; this imports them all.")
@json_option
@common
def command(name: str | None, every: bool, described: bool, as_json: bool) -> None:
    """List the layers, or show the page of one.

    NAME is the name of a layer, or of any other component: SGD, Xavier, neuron/ReLU. `distribution:Name` always works.
    --all lists all components.
    """
    from ...discovery.registry import registry
    from ..screen import print_json, print_table

    here = registry()
    if name is not None:
        pages = [_describe(offer, page=True) for offer in _named(name)]
        if as_json:
            print_json(pages)
        else:
            click.echo("\n\n".join(_page(page) for page in pages))
        return
    offers = [offer for kind in (kinds() if every else ["layer"]) for offer in here.offers(kind)]
    if as_json:
        print_json([_describe(offer) for offer in offers])
    elif described:
        print_table(("kind", "name", "what it is"), [_sentence(offer) for offer in offers])
    elif every:
        rows = [(offer.kind.replace("_", " "), here.name_of(offer), str(offer.provenance)) for offer in offers]
        print_table(("kind", "name", "from"), rows)
    else:
        _print_groups(offers)


def _print_groups(offers: Sequence[Offer]) -> None:
    """Print the names of layers, those of one module or package together. Nothing is imported for that."""
    from ...discovery.registry import registry
    from ...text import fill, screen_width

    groups: dict[tuple[str, str], list[str]] = {}
    for offer in offers:
        package = offer.target.partition(":")[0].rpartition(".")[0] or offer.target.partition(":")[0]
        groups.setdefault((package, str(offer.provenance)), []).append(registry().name_of(offer))
    for number, ((package, whose), names) in enumerate(sorted(groups.items())):
        if number:
            click.echo()
        click.echo(f"{package} ({whose})")
        wrapped = textwrap.wrap(", ".join(names), screen_width() - 2, break_on_hyphens=False)
        click.echo("\n".join(f"  {line}" for line in wrapped))
    words = "`nacre layers NAME` shows the page of one, --long a sentence about each; --all lists all components"
    click.echo("\n" + fill(words, screen_width()))


def _sentence(offer: Offer) -> tuple[str, str, str]:
    """Return the kind and the name of a layer or component, and what it is."""
    from ...discovery.registry import registry

    found = _describe(offer)
    summary = f"cannot be opened: {found['problem']}" if found["problem"] else found["summary"]
    return offer.kind.replace("_", " "), registry().name_of(offer), summary or "(not documented)"


def _named(name: str) -> list[Offer]:
    """Return the offers that a name means: a layer, or components of any kind.

    Raises:
        RegistryError: no distribution offers it, or several do.
    """
    from ...discovery.registry import registry
    from ...errors import RegistryError, nearest

    here = registry()
    kind, slash, short = name.rpartition("/")
    if slash:
        return [here.find(kind.replace(" ", "_"), short)]
    fitting = [kind for kind in kinds() if here.offers(kind, name)]
    if fitting:
        if fitting[0] == "layer":
            return [here.find("layer", name, others=here.also_named("layer"))]
        return [here.find(kind, name) for kind in fitting]
    every = [offer for kind in kinds() for offer in here.offers(kind)]
    if classes := [offer for offer in every if offer.target.rpartition(":")[2] == name]:  # the name of a Python class
        return classes
    try:
        return [here.find("layer", name)]
    except RegistryError as error:
        message = f"there is no layer and no component '{name}'{nearest(name, (offer.name for offer in every))}"
        rest = "\n".join(error.remedy.split("\n")[1:])  # which plugins failed
        remedy = "`nacre layers --all` lists them"
        raise RegistryError(message, f"{remedy}\n{rest}" if rest else remedy) from error


def _describe(offer: Offer, *, page: bool = False) -> dict[str, Any]:
    """Return all facts about a layer or component, as data for JSON; a broken one has a `problem`."""
    from ...discovery import guard
    from ...discovery.guard import ForeignError, guarded
    from ...errors import NacreError
    from ...protocols.layer import TRAITS

    described: dict[str, Any] = {
        "name": offer.name,
        "kind": offer.kind,
        "distribution": offer.distribution,
        "version": offer.provenance.version,
        "module": offer.target.partition(":")[0],
        "summary": "",
        "traits": dict.fromkeys(TRAITS),
        "container": None,
        "fields": [],
        "problem": None,
    }
    try:
        described |= guarded(_of_class, offer, page)
    except ForeignError as failure:
        error = failure.error
        known = isinstance(error, NacreError)
        parts = (str(error.args[0]), error.remedy) if known else (guard.described(error),)
        described["problem"] = "; ".join(part for part in parts if part)
    return described


def _of_class(offer: Offer, page: bool) -> dict[str, Any]:
    """Return the facts that need the class itself."""
    from ...discovery.registry import registry
    from ...fields.configured import Configured
    from ...fields.pages import own_doc
    from ...protocols.layer import TRAITS, is_container

    cls = registry().open_offer(offer)
    doc = inspect.cleandoc(own_doc(cls))
    found: dict[str, Any] = {"summary": " ".join(doc.partition("\n\n")[0].split())}
    if offer.kind == "layer":
        found["traits"] = {trait: bool(getattr(cls, trait)) for trait in TRAITS}
        found["container"] = is_container(cls)
    found["fields"] = describe_fields(cls) if issubclass(cls, Configured) else []
    return found | ({"doc": doc, "kernels": _kernels(offer, cls)} if page else {})


def describe_fields(cls: Any) -> list[dict[str, Any]]:
    """Return the fields of a layer or component: those without a default first, and inherited ones last."""
    from ...fields.pages import ordered_fields

    return [_describe_field(field) for field in ordered_fields(cls)]


def _describe_field(field: Any) -> dict[str, Any]:
    from ...fields.tables import plain

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
    """Return the names of the components that a field accepts."""
    from ...discovery.registry import registry
    from ...fields.component import Component

    kinds = [kind for kind, cls in Component.kinds.items() if cls in field.types]
    return [name for kind in kinds for name in registry().names(kind)]


def _kernels(offer: Offer, cls: type) -> list[dict[str, Any]]:
    """Return the kernel that would be chosen on each backend, if none declines."""
    from ...discovery.registry import registry
    from ...errors import RegistryError

    here = registry()
    found: list[dict[str, Any]] = []
    for backend in here.names("backend"):
        try:
            found.append(here.explain(cls, backend).as_dict())
        except RegistryError as error:
            found.append({"thing": offer.name, "backend": backend, "kernel": None, "why": str(error)})
    return found


def _page(page: dict[str, Any]) -> str:
    from ...discovery.registry import registry
    from ...text import align, fill, screen_width

    width = screen_width()
    whose = f"{page['distribution']} {page['version']}".rstrip()
    lines = [f"{page['name']}: {page['kind'].replace('_', ' ')} of {whose} ({page['module']})"]
    if page["problem"]:
        return "\n".join([*lines, "", f"cannot be opened: {page['problem']}"])
    lines += ["", fill(page["doc"] or "(not documented)", width)]
    traits = [trait for trait, value in page["traits"].items() if value]
    if page["kind"] == "layer":
        lines += ["", f"traits: {', '.join(traits) or 'none'}"]
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
        lines += ["", *align(("field", "type", "default", "what it is"), rows, width=width)]
    if registry().offers("layer_of", page["kind"]):
        lines += ["", f'as a layer: [[layer]] with type = "{page["name"]}", bottoms, tops and these fields']
    types = types_of(page["fields"])
    if types:
        longest = max(map(len, types))
        indent = " " * (longest + 4)
        lines += ["", "types:", *(fill(f"  {name:{longest}}  {words}", width, indent) for name, words in types.items())]
    kernels = [
        fill(f"  {one['backend']}: {one['kernel']} ({one['from']}), because {one['why']}", width, "    ")
        for one in page["kernels"]
        if one["kernel"]
    ]
    if kernels:
        lines += ["", "kernels, if none declines (elsewhere its own code runs):", *kernels]
    elif page["container"]:
        lines += ["", "kernels: those of the layers that it is made of"]
    elif page["kind"] == "layer":
        neurons = "; its neuron may have some: nacre layers neuron/NAME" if page["traits"]["has_neuron"] else ""
        lines += ["", f"kernels: none, its own code runs on every backend{neurons}"]
    return "\n".join(lines)


def written(value: Any) -> str:
    """Return a default as it is written in a net file."""
    from ...files.toml import toml_value

    return toml_value("none" if value is None else value)


def types_of(fields: list[dict[str, Any]]) -> dict[str, str]:
    """Return a description of each type that is not clear by itself."""
    found: dict[str, str] = {}
    for field in fields:
        if not set(field["type"].split(" | ")) <= PLAIN:
            choices = f" ({', '.join(field['choices'])})" if field["choices"] else ""
            found[field["type"]] = f"{field['wants']}{choices}"
    return found
