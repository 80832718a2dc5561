"""Writes docs/reference.md from nacre's own layers and components: python docs/make_reference.py."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nacre
from nacre.cli.commands.layers import describe_fields, types_of, written
from nacre.protocols.layer import TRAITS

HEAD = """# Reference

All layers and components of nacre, with their fields, made by `docs/make_reference.py` from the code;
`nacre layers NAME` shows the same for any installed layer. Fields without a default are required. In examples the
shapes of blobs follow their names; axis 0 is the batch. If a field does not fit the shapes of the bottoms, making the
net raises a ConfigError with the layer's name. A neuron is a layer too: its name and its fields, with bottoms and tops,
make an `Activation` layer with it.
"""
KINDS = {
    "layer": "Layers",
    "neuron": "Neurons",
    "pooling": "Pooling functions",
    "elementwise": "Functions of several blobs, element by element",
    "connection": "Connections between the steps of an Unroll",
    "initializer": "Initialisers",
    "regularizer": "Regularisers",
    "constraint": "Constraints",
    "transformer": "Transformers",
    "solver": "Solvers",
    "lr_policy": "Learning-rate policies",
    "momentum_policy": "Momentum policies",
    "algorithm": "Algorithms",
    "callback": "Callbacks",
    "store": "Stores of records",
    "codec": "Codecs",
    "snapshot_store": "Stores of snapshots",
    "drawing": "Drawings",
}


def text() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *(part for kind in KINDS for part in _kind(kind)), *_types()])


def _kind(kind: str) -> Iterator[str]:
    offers = [offer for offer in nacre.registry().offers(kind) if offer.distribution == "nacre"]
    if not offers:
        return
    yield f"## {KINDS[kind]}\n"
    names: dict[type, list[str]] = {}
    for offer in offers:
        names.setdefault(nacre.registry().open_offer(offer), []).append(offer.name)
    for cls, called in names.items():
        if cls.__name__ in called:
            yield from (f"### {name}\n\nAnother name of `{cls.__name__}`.\n" for name in called if name != cls.__name__)
            called = [cls.__name__]
        yield f"### {', '.join(called)}\n"
        yield f"{_cleaned(cls)}\n"
        traits = [f"`{trait}`" for trait in TRAITS if getattr(cls, trait, False)]
        if kind == "layer":
            yield f"Traits: {', '.join(traits) or 'none'}\n"
        rows = [_row(field) for field in _fields(cls)]
        if rows:
            yield "\n".join(["| field | type | default | meaning |", "|---|---|---|---|", *rows, ""])


def _fields(cls: type) -> list[dict[str, Any]]:
    return describe_fields(cls) if hasattr(cls, "fields") else []


def _types() -> Iterator[str]:
    yield "## Types of fields\n"
    offers = [offer for kind in KINDS for offer in nacre.registry().offers(kind) if offer.distribution == "nacre"]
    wanted = types_of([field for offer in offers for field in _fields(nacre.registry().open_offer(offer))])
    rows = [f"| {name.replace(' | ', ' or ')} | {words} |" for name, words in sorted(wanted.items())]
    yield "\n".join(["| type | allowed values |", "|---|---|", *rows, ""])


def _cleaned(cls: type) -> str:
    """Return the docstring as Markdown."""
    doc, _, example = inspect.cleandoc(vars(cls).get("__doc__") or "").partition("\nExample:\n")
    doc = re.sub(r"^(Args|Raises):\n", r"\1:\n\n", re.sub(r"^    (\S)", r"* \1", doc, flags=re.M), flags=re.M)
    code = textwrap.dedent(example).strip()
    language = "toml" if code.startswith("[[") else "python"
    return f"{doc}\n```{language}\n{code}\n```" if code else doc


def _row(field: dict[str, Any]) -> str:
    default = "" if field["required"] else f"`{written(field['default'])}`"
    return f"| `{field['name']}` | {field['type'].replace(' | ', ' or ')} | {default} | {field['help']} |"


if __name__ == "__main__":
    Path(__file__).with_name("reference.md").write_text(text(), encoding="utf-8")
