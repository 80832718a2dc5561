"""`nacre explain`: the code that runs each layer, why it was chosen, and the copies that it needs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..options import net_argument, net_options, phase_option, ranks_option, read_net

if TYPE_CHECKING:
    from ...config.netfile import NetFile
    from ...discovery.kernels import Choice
    from ...net.net import Net
    from ...protocols.layer import Phase
    from ...training.solver import Solver
    from ...training.spans import Span


@click.command()
@net_argument
@phase_option
@ranks_option
@net_options
def command(
    net: Path,
    phase: Phase,
    ranks: int | None,
    backend: str | None,
    seed: int | None,
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show which code runs each layer, where it comes from, and why.

    For each layer: the kernel or the layer's own code, the kernels that were not chosen and why. At the end: the layers
    without a kernel, those first that cost the most for it, every copy between memories that the net needs, and what of
    an iteration the backend records and replays, if it does. With --ranks: what each of so many ranks does in the
    framework of the net file, what it updates, and what it sends in an iteration. Of a net that is divided among ranks:
    how it is divided, what each rank has, and how many bytes go over each bridge between two ranks.
    """
    from ...text import listed
    from ..divided import explain_framework, explain_ranks, framework_of, print_framework, print_ranks
    from ..inputs import fed
    from ..screen import print_json

    file = fed(read_net(net, sets, seed), phase)
    if ranks is not None:
        framework = framework_of(file) if phase == "train" else None
        if framework is None:
            divided = explain_ranks(file, phase, ranks, backend)
            print_json(divided) if as_json else print_ranks(divided)
        else:
            roles = explain_framework(file, framework, ranks, backend)
            print_json(roles) if as_json else print_framework(roles)
        return
    with file.net(phase, backend=backend, allocate=False, fallback="warn") as made:
        explained, first_line = explain(file, made), made.summary().first_line()
    if as_json:
        print_json(explained)
        return
    click.echo(first_line)
    solver = [explained["solver"]] if explained["solver"] else []
    for entry in [*explained["layers"], *explained["components"], *solver]:
        _print_entry(entry)
    if explained["without_kernel"]:
        click.echo("\nwithout a kernel, the most costly first, by an estimate (`nacre time` measures):")
    for one in explained["without_kernel"]:
        products = f", {one['multiplications']:,} multiplications" if one["multiplications"] else ""
        click.echo(f"  {one['name']}: {one['numbers']:,} numbers read and written{products}")
    click.echo("\ncopies between memories:" if explained["copies"] else "\nno copies between memories")
    for copy in explained["copies"]:
        click.echo(f"  {copy['blob']}: from {copy['from']} to {copy['to']}")
    if explained["pieces"]:
        click.echo(f"\nan iteration on {explained['backend']}, piece by piece:")
    for piece in explained["pieces"]:
        click.echo(f"  {'recorded and replayed' if piece['recorded'] else 'called'}: {listed(piece['steps'])}")


def explain(file: NetFile, net: Net) -> dict[str, Any]:
    """Return every choice that was made for a net, as data for JSON."""
    from ...discovery.registry import registry
    from ...engine.ops import space_text
    from ...fields.tables import type_name
    from ...training.penalties import choose_penalties

    def entry(name: str, thing: object, choice: Any) -> dict[str, Any]:
        kind = type(thing)
        owner = registry().owner(kind)
        return {
            "name": name,
            "type": type_name(kind),
            "distribution": owner.distribution if owner else None,
            "version": owner.version if owner else None,
            **choice.as_dict(),
        }

    layers: list[dict[str, Any]] = []
    for joined in net.ops:
        for op in joined.members:
            whole = [one.name for one in joined.members if one is not op]
            layers.append({**entry(op.name, op.neuron or op.layer, op.choice), "together_with": whole})
    inner = [(name, one) for name, one in net.working().items() if name.partition(".")[0] not in ("layer", "neuron")]
    solver: dict[str, Any] | None = None
    components = [entry(name, component, choice) for name, (component, choice) in inner]
    update: list[tuple[str, Choice]] = []
    made = file.solver() if file.has_solver else None
    if made is not None:
        choice = net.target.choose_kernel(made.method, _spans(net))
        solver = entry("solver", made.method, choice)
        slots = [slot for slot in net.slots if slot.trainable and not slot.frozen]
        chosen = choose_penalties(net, slots, made.regu_coef, decoupled=made.method.decoupled)
        components += [entry(name, component, choice) for name, (component, choice) in chosen.items()]
        some = [(name, one) for name, (_, one) in chosen.items()]
        update = [*(one for one in some if one[0].startswith("regularizer")), (type(made.method).__name__, choice)]
        update += [one for one in some if one[0].startswith("constraint")]
    return {
        "net": net.name,
        "phase": net.phase,
        "backend": net.backend.name,
        "layers": layers,
        "components": components,  # of layers; regularisers and constraints
        "solver": solver,
        "without_kernel": without_kernel(net),
        "copies": [
            {"blob": blob, "from": space_text(start), "to": space_text(end)} for blob, start, end in net.schedule.copies
        ],
        "pieces": _pieces(net, made, update) if net.backend.captures else [],
    }


def _pieces(net: Net, solver: Solver | None, update: Sequence[tuple[str, Choice]]) -> list[dict[str, Any]]:
    """Return the pieces of an iteration in order: steps in a row that are recorded, or that are not.

    `update` are the kernels of what comes behind the gradients, by name. Each batch of an iteration has its own pieces.
    """
    from ...protocols.backend import Step
    from ...training.gradients import clip_steps, iteration_steps

    def made(name: str, choice: Choice) -> Step:
        own = net.backend if getattr(choice.kernel, "capturable", False) else None
        return Step("", name, lambda: None, own)

    passes = ["feed", "forward", *(["backward"] if net.trains else [])]
    lists = [[step for name in passes for step in net.steps(name)]]
    if net.trains and solver is not None:
        view, spans = net.view(), _spans(net)
        clip = clip_steps(view, spans, solver.clip_value, solver.clip_norm, None)
        behind = [*clip, *(made(name, choice) for name, choice in update)]
        lists = iteration_steps(lists[0], behind, view, spans, solver.n_accumulate, view.blob)
    return [
        {"recorded": recorded, "steps": [f"{step.kind} {step.name}".strip() for step in some]}
        for steps in lists
        for recorded, some in itertools.groupby(steps, key=lambda step: step.capturable)
    ]


def without_kernel(net: Net) -> list[dict[str, Any]]:
    """Return the layers and neurons that run through their own code, the most costly first.

    The cost is estimated: the numbers that they read and write forward, and a sixteenth of their multiplications, which
    libraries do fast. Sources are left out, and layers whose tops are their bottoms under another shape.
    """
    products = {layer.name: layer.multiplications or 0 for layer in net.summary().layers}
    found: list[dict[str, Any]] = []
    for op in net.ops:
        if op.kernel or op.is_source or len(op.aliases) == len(op.outputs) > 0:
            continue
        numbers = sum(prod(value.shape) for value in (*op.inputs, *op.outputs))
        count = 0 if op.neuron else products.get(op.name, 0)
        found.append({"name": op.name, "numbers": numbers, "multiplications": count})
    return sorted(found, key=lambda one: -(one["numbers"] + one["multiplications"] // 16))


def _spans(net: Net) -> list[Span]:
    """Return the spans that a training would update: shapes, types and rates, without memory."""
    from ...protocols.blob import Blob
    from ...training.spans import Piece, Span

    spans: list[Span] = []
    for slot in net.slots:
        if slot.trainable and not slot.frozen:
            size, dtype = slot.storage.size, slot.storage.dtype
            value, gradient = Blob((size,), dtype), Blob((size,), dtype)
            spans.append(Span(value, gradient, slot.parameters[0].lr, [Piece(slot.name, 0, slot.storage)]))
    return spans


def _print_entry(entry: dict[str, Any]) -> None:
    whose = f" of {entry['distribution']} {entry['version']}".rstrip() if entry["distribution"] else ""
    chosen = f"{entry['kernel']} ({entry['from']})" if entry["kernel"] else "its own code"
    click.echo(f"\n{entry['name']}: {entry['type']}{whose}\n  {chosen}, because {entry['why']}")
    if entry.get("together_with"):
        click.echo(f"  one kernel computes it together with {', '.join(entry['together_with'])}")
    for word in ("lost", "declined", "not_enabled"):
        for other in entry[word]:
            click.echo(f"  {word.replace('_', ' ')}: {other['kernel']} ({other['from']}): {other['reason']}")
