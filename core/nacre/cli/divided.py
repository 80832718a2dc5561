"""Nets on several ranks, for `graph` and `explain`: how they are divided, and what ranks do in a framework; planned."""

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
    from ..protocols.communicator import Communicator
    from ..protocols.layer import Phase
    from ..training.framework import Framework


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


def framework_of(file: NetFile) -> Framework | None:
    """Return how several ranks would train a net; None if it is divided among them."""
    from ..fields.component import need_default_of

    if file.divides:
        return None
    found = file.solver().framework if file.has_solver else None
    return found or need_default_of("framework")()


def explain_framework(file: NetFile, framework: Framework, ranks: int, backend: str | None) -> dict[str, Any]:
    """Return what each rank does in a framework, as data for JSON; bytes are those of one iteration.

    Raises:
        ConfigError: it cannot be of so many ranks, or does not say what they do.
    """
    from ..engine.ops import item_size
    from ..errors import ConfigError
    from ..fields.tables import type_name

    kind = type_name(type(framework.meant))
    with file.net("train", backend=backend, allocate=False, fallback="warn") as net:
        parameters = {slot.name: slot.storage.size for slot in net.slots if slot.trainable and not slot.frozen}
        item = item_size(net.dtype)
    if not (roles := framework.roles(parameters, ranks)):
        message = f"the framework {kind} does not say what its ranks do"
        raise ConfigError(message, "its author should define Framework.roles")
    return {
        "net": file.name,
        "phase": "train",
        "framework": kind,
        "parameters": sum(parameters.values()),
        "ranks": [
            {
                "rank": rank,
                "role": role.name,
                "reads": _reads(file, framework, rank, ranks) if role.trains else [],
                "updates": list(role.updates),
                "updated": sum(parameters[name] for name in role.updates),
                "sends": [{"what": what, "bytes": count * item} for what, count in role.sends.items() if count],
            }
            for rank, role in enumerate(roles)
        ],
    }


def _reads(file: NetFile, framework: Framework, rank: int, ranks: int) -> list[dict[str, Any]]:
    """Return how many records of each batch a rank reads, of each source of the training."""
    found: list[dict[str, Any]] = []
    for layer in framework.layers(file.layers, planned(rank, ranks)):
        size = getattr(layer, "batch_size", None)
        if layer.is_source and "train" not in layer.exclude and (layer.batch_part or isinstance(size, int)):
            part = layer.batch_part
            own, whole = (size, size) if part is None else (part.stop - part.start, part.length)
            found.append({"source": layer.name, "records": own, "batch_size": whole})
    return found


def planned(rank: int, ranks: int) -> Communicator:
    """Return the communicator of a rank that is only planned: it knows its number, and how many there are."""
    from ..protocols.communicator import Communicator

    made = Communicator()
    made.rank, made.size = rank, ranks
    return made


def print_framework(explained: dict[str, Any]) -> None:
    """Print what `explain_framework` has returned."""
    from ..text import listed, size

    click.echo(f"{explained['framework']} on {len(explained['ranks'])} ranks, {explained['parameters']:,} parameters")
    for one in explained["ranks"]:
        click.echo(f"rank {one['rank']}: {one['role']}")
        for read in one["reads"]:
            click.echo(
                f"  reads {read['records']} of the {read['batch_size']} records of each batch of {read['source']}"
            )
        if one["updates"]:
            every = one["updated"] == explained["parameters"]
            named = "all parameters" if every else f"{listed(one['updates'])}: {one['updated']:,} parameters"
            click.echo(f"  updates {named}")
        for sent in one["sends"]:
            click.echo(f"  sends {sent['what']}: {size(sent['bytes'])} in an iteration")


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
