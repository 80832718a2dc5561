"""Nets as they are divided among ranks, for `graph` and `explain`: planned, rank by rank, in this process."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..config.netfile import NetFile
    from ..graph.partition import Bridge
    from ..net.net import Net
    from ..net.summary import NetSummary
    from ..protocols.layer import Phase


@contextmanager
def nets_of_ranks(file: NetFile, phase: Phase, ranks: int, backend: str | None) -> Generator[list[Net]]:
    """Plan the net of each rank, and shut them down in the end.

    Raises:
        NacreError: as `Net`.
    """
    options: dict[str, Any] = {"backend": backend, "allocate": False, "fallback": "warn", "ranks": ranks}
    with ExitStack() as stack:
        yield [stack.enter_context(file.net(phase, rank=rank, **options)) for rank in range(ranks)]


def summary_of_ranks(file: NetFile, phase: Phase, ranks: int, backend: str | None) -> NetSummary:
    """Return one summary of a net as it is divided among ranks.

    Raises:
        NacreError: as `Net`.
    """
    from ..net.summary import of_ranks

    with nets_of_ranks(file, phase, ranks, backend) as nets:
        division = nets[0].division
        return of_ranks([net.summary() for net in nets], division.bridges if division else ())


def explain_ranks(file: NetFile, phase: Phase, ranks: int, backend: str | None) -> dict[str, Any]:
    """Return how a net is divided among ranks, as data for JSON; bytes are those of one iteration."""
    from ..engine.ops import item_size

    with nets_of_ranks(file, phase, ranks, backend) as nets:
        first = nets[0]
        bridges = [_bridge(one, trains=first.trains) for one in (first.division.bridges if first.division else ())]
        summed = sum(
            slot.storage.size for slot in first.slots if slot.trainable and slot.everywhere and not slot.frozen
        )
        return {
            "net": first.name,
            "phase": phase,
            "ranks": [_rank(rank, net, bridges) for rank, net in enumerate(nets)],
            "bridges": bridges,
            "added_up": summed * item_size(first.dtype) if first.trains else 0,
        }


def _bridge(one: Bridge, *, trains: bool) -> dict[str, Any]:
    from ..engine.ops import item_size

    count = prod(one.shape) * item_size(one.dtype)
    return {
        "blob": one.blob,
        "from": one.start,
        "to": one.end,
        "shape": list(one.shape),
        "dtype": one.dtype,
        "forward": count,
        "backward": count if one.gradient and trains else 0,
    }


def _rank(rank: int, net: Net, bridges: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the layers of a rank, and the bytes that it sends and receives over bridges."""
    from ..net.division import how_divided

    summary = net.summary()
    own = [
        {"name": node.name, "divided": how_divided(node), "parameters": layer.parameters}
        for node, layer in zip(net.wiring.nodes, summary.layers, strict=True)
        if node.part is None or not node.part.inserted
    ]
    crossing = [one for one in bridges if rank in (one["from"], one["to"])]
    moved = sum(one["forward"] + one["backward"] for one in crossing)
    return {"rank": rank, "layers": own, "parameters": summary.parameters, "moved": moved}


def print_ranks(explained: dict[str, Any]) -> None:
    """Print what `explain_ranks` has returned."""
    from ..text import align, size

    for one in explained["ranks"]:
        click.echo(f"rank {one['rank']}: {one['parameters']:,} parameters, {size(one['moved'])} over its bridges")
        for layer in one["layers"]:
            count = f", {layer['parameters']:,} parameters" if layer["parameters"] else ""
            click.echo(f"  {layer['name']}: {layer['divided']}{count}")
    rows = [
        (
            one["blob"],
            f"{one['from']} -> {one['to']}",
            f"{'x'.join(map(str, one['shape']))} {one['dtype']}",
            f"{one['forward']:,}",
            f"{one['backward']:,}" if one["backward"] else "",
        )
        for one in explained["bridges"]
    ]
    click.echo("\nbridges, with bytes in an iteration:" if rows else "\nno bridges")
    if rows:
        click.echo("\n".join(f"  {line}" for line in align(("blob", "ranks", "", "forward", "back"), rows, (3, 4))))
    total = sum(one["forward"] + one["backward"] for one in explained["bridges"])
    click.echo(f"in an iteration {size(total)} go over all bridges", nl=False)
    summed = explained["added_up"]
    click.echo(f", and gradients of {size(summed)} are added up over all ranks" if summed else "")
