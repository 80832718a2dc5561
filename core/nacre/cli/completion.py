"""What the shell completes: names of layers and components, backends, drawings, and the keys of --set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from ..discovery.offers import ABOUT_OTHERS
from ..errors import NacreError

NO_PARTS = ("kernel", "command", *ABOUT_OTHERS)
"""Kinds of offers that no net file names."""


def kinds() -> list[str]:
    """Return the kinds of things that a net file can name, layers first."""
    from ..discovery.registry import registry

    return ["layer", *(kind for kind in registry().kinds() if kind not in ("layer", *NO_PARTS))]


def component_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of the layers and components that begin so; nothing is imported for them."""
    from ..discovery.registry import registry

    here = registry()
    found = {here.name_of(offer): kind.replace("_", " ") for kind in reversed(kinds()) for offer in here.offers(kind)}
    return [CompletionItem(name, help=kind) for name, kind in sorted(found.items()) if name.startswith(incomplete)]


def offered(kind: str) -> Any:
    """Return a completer for the names of a kind, such as "backend"."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
        from ..discovery.registry import registry

        return [name for name in registry().names(kind) if name.startswith(incomplete)]

    return complete


def snapshots(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return `best` and `latest` where a snapshot is named, and what is in the working folder; else files."""
    from ..snapshots.folder import WORDS
    from ..snapshots.snapshot import SAVED

    words = [word for word in WORDS if word.startswith(incomplete)]
    net = ctx.params.get("net")
    if not words or (net is not None and str(net).endswith(SAVED)):
        return [CompletionItem(incomplete, type="file")]
    beside = (
        path.name for path in Path().iterdir() if not path.name.startswith(".")
    )  # bash lists no files beside words
    return [CompletionItem(name) for name in (*words, *sorted(name for name in beside if name.startswith(incomplete)))]


def settings(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the keys of the net file on the command line that begin so: "layer.conv1.n_filter="."""
    words = [ctx.params.get("net"), *ctx.args]  # click leaves the words before an option without a value in `args`
    net = next((Path(word) for word in words if word and str(word).endswith(".toml")), None)
    return sorted({key for key in _keys(net, incomplete) if key.startswith(incomplete)})


def _keys(net: Path | None, incomplete: str) -> Iterator[str]:
    from ..config.overrides import entries
    from ..discovery.registry import registry
    from ..files.toml import read_toml
    from ..net.options import FILE_OPTIONS
    from ..training.solver import Solver

    yield from (f"{name}=" for name in FILE_OPTIONS)
    if net is None:
        return
    table: dict[str, Any] = {}
    with suppress(NacreError):  # a file that cannot be read has no keys to complete
        table = read_toml(net)
    named = [
        (f"{kind}.{name}.", kind, entry)
        for kind in ("layer", "callback")
        for name, entry in entries(table.get(kind), kind)
    ]
    if "solver" in table:
        yield from (f"solver.{field.name}=" for field in Solver.fields() if field.name not in ("method", "callbacks"))
        named.append(("solver.", "solver", table["solver"]))
    for start, kind, entry in named:
        if start.startswith(incomplete) or incomplete.startswith(start):
            with suppress(NacreError):  # nor has a layer of an unknown type
                cls: Any = registry().open(kind, str(entry.get("type")))
                yield from (f"{start}{field.name}=" for field in cls.fields())
