"""`nacre time`: the time that each layer takes."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from nacre.cli import net_argument, net_options, phase_option, read_net

if TYPE_CHECKING:
    from nacre import Net, Phase
    from nacre.config import NetFile


WARM_UP = 3


@click.command()
@net_argument
@phase_option
@click.option(
    "--runs", type=click.IntRange(1), default=20, show_default=True, help="Number of runs; the median is shown."
)
@net_options
def command(
    net: Path,
    phase: Phase,
    runs: int,
    backend: str | None,
    seed: int | None,
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Time each layer, forward and backward, and the whole step.

    Layers are timed one by one. The whole step is one call, as in training, and may take less time than their sum.
    Layers that only write files, such as HDF5Output, are left out. Below stand the layers that run through their own
    code, for lack of a kernel, the slowest first, with their share of all layers' time.
    """
    from nacre.cli import fed, print_json, print_table

    file = fed(read_net(net, sets, seed).without_outputs(), phase)
    with file.net(phase, backend=backend) as made:
        timed = time_net(file, made, runs)
    if as_json:
        print_json(timed)
        return

    def cell(milliseconds: float | None) -> str:
        return "" if milliseconds is None else f"{milliseconds:.3f}"

    rows = [(row["name"], row["type"], cell(row["forward_ms"]), cell(row["backward_ms"])) for row in timed["layers"]]
    rows.append(("sum", "", cell(timed["forward_ms"]), cell(timed["backward_ms"])))
    print_table(("layer", "type", "forward ms", "backward ms"), rows, right=(2, 3))
    total = timed["forward_ms"] + (timed["backward_ms"] or 0.0)
    slow = [f"{name} {ms:.3f} ms ({ms / total:.0%})" for name, ms in timed["without_kernel"].items()]
    if slow:
        click.echo(f"\nwithout a kernel, the slowest first: {', '.join(slow)}")
    click.echo(f"\n{timed['passes']} in one call: {timed['step_ms']:.3f} ms")
    if timed["iteration_ms"] is not None:
        click.echo(
            f"a whole iteration of {timed['solver']}: {timed['iteration_ms']:.3f} ms, "
            f"{timed['images_per_second']:,.0f} records/s"
        )


def time_net(file: NetFile, net: Net, runs: int) -> dict[str, Any]:
    """Return the times of a net's layers, of its compiled passes, and of one solver iteration without callbacks."""
    from nacre import type_name

    passes = [("forward", [*net.steps("feed"), *net.steps("forward")])]
    if net.trains:
        passes.append(("backward", net.steps("backward")))
    calls = [(kind, _layer_of(step.name, net), net.compile([step])) for kind, steps in passes for step in steps]
    taken: list[list[float]] = [[] for _ in calls]
    for run in range(WARM_UP + runs):
        for number, (_, _, call) in enumerate(calls):
            net.backend.wait()
            begin = perf_counter()
            call()
            net.backend.wait()
            if run >= WARM_UP:
                taken[number].append((perf_counter() - begin) * 1000)
    layers: list[dict[str, Any]] = []
    kernels = {layer.name: layer.kernel for layer in net.summary().layers if layer.role != "source"}
    for node in net.wiring.nodes:
        row: dict[str, Any] = {"name": node.name, "type": type_name(type(node.user)), "kernel": kernels.get(node.name)}
        for kind in ("forward", "backward"):
            mine = [
                statistics.median(times)
                for (when, name, _), times in zip(calls, taken, strict=True)
                if (when, name) == (kind, node.name)
            ]
            row[f"{kind}_ms"] = sum(mine) if mine else None
        layers.append(row)
    own = {
        row["name"]: (row["forward_ms"] or 0.0) + (row["backward_ms"] or 0.0)
        for row in layers
        if row["name"] in kernels and row["kernel"] is None
    }
    timed: dict[str, Any] = {
        "net": net.name,
        "phase": net.phase,
        "backend": net.backend.name,
        "runs": runs,
        "layers": layers,
        "without_kernel": {name: ms for name, ms in sorted(own.items(), key=lambda one: -one[1]) if ms > 0},
        "forward_ms": sum(row["forward_ms"] or 0.0 for row in layers),
        "backward_ms": sum(row["backward_ms"] or 0.0 for row in layers) if net.trains else None,
        "passes": " and ".join(kind for kind, _ in passes),
        "step_ms": _median(net, net.compile([step for _, steps in passes for step in steps]), runs),
        "solver": None,
        "iteration_ms": None,
        "images_per_second": None,
    }
    if file.has_solver and net.trains:
        solver = dataclasses.replace(file.solver(), callbacks=())  # pyright: ignore[reportArgumentType]
        with solver.start(net) as training:
            timed["iteration_ms"] = _median(net, training.step, runs)
            timed["solver"] = type_name(type(solver.method))
            timed["images_per_second"] = training.images / training.iteration * 1000 / timed["iteration_ms"]
    return timed


def _layer_of(step: str, net: Net) -> str:
    """Return the layer of a step that has the name of a layer, of its neuron or of its parameter."""
    while step not in net.node_ops and "/" in step:
        step = step.rpartition("/")[0]
    return step


def _median(net: Net, call: Callable[[], None], runs: int) -> float:
    """Return the median milliseconds of a call."""
    taken: list[float] = []
    for run in range(WARM_UP + runs):
        net.backend.wait()
        begin = perf_counter()
        call()
        net.backend.wait()
        if run >= WARM_UP:
            taken.append((perf_counter() - begin) * 1000)
    return statistics.median(taken)
