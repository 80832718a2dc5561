"""Training in commands: the first line, the progress, the log, and the lines at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import NacreError
from ..fields.configured import inside
from ..fields.tables import table_of
from ..fields.types import Paths
from ..files.json import begin_line, event_line, is_log
from ..protocols.layer import overall
from ..protocols.state import SourceState
from ..text import counted
from .options import allowed_remote
from .screen import command_line, how_started, loss_text, seconds_text, statistic_text, units_of, warn
from .snapshots import load_snapshot, resumed
from .streams import work_matters_more

if TYPE_CHECKING:
    from ..config.netfile import NetFile
    from ..discovery.kernels import Choice
    from ..net.net import Net
    from ..protocols.communicator import Communicator, Group
    from ..protocols.layer import Layer
    from ..training.solver import Solver
    from ..training.training import Training


EXIT_CODES = {"SIGHUP": 129, "SIGINT": 130, "SIGTERM": 143}
REFRESH = 0.2  # seconds between two changes of the progress bar, which take a hundredth of it
LONG = 0.05  # share of the time that a training waits for its data: worth a word


@dataclass(frozen=True)
class Weights:
    """The snapshots with the first parameters of a training, and the names that differ in them.

    `fitted` is true if the training also takes what their sources had learned from their data.
    """

    paths: list[str]
    rename: dict[str, str]
    fitted: bool = False

    @classmethod
    def of(cls, paths: str | None, renames: Sequence[str], *, fitted: bool = False) -> Weights | None:
        """Return the snapshots of the options, or None: `paths` has commas between files, a rename is THERE=HERE."""
        from ..errors import ConfigError

        for one in renames:
            if "=" not in one:
                raise ConfigError(f"--rename {one}: there is no '='", "write --rename THERE=HERE")
        if renames and paths is None:
            raise ConfigError(
                "--rename is only for --weights, which is missing", "add --weights FILE, or leave --rename out"
            )
        if fitted and paths is None:
            raise ConfigError(
                "--fitted is only for --weights, which is missing", "add --weights FILE, or leave --fitted out"
            )
        pairs = (one.partition("=") for one in renames)
        if paths is None:
            return None
        files = [path.strip() for path in paths.split(",")]
        if not all(files):
            raise ConfigError(f"--weights {paths!r}: a name is missing", "write --weights FILE, or FILE,FILE")
        return cls(files, {there: here for there, _, here in pairs}, fitted)


def train(
    file: NetFile,
    backend: str | None = None,
    resume: str = "",
    log: Path | None = None,
    weights: Weights | None = None,
    *,
    reset_solver: bool = False,
    find_nan: bool = False,
    quiet: bool = False,
    verbose: bool = False,
    communicator: Communicator | None = None,
) -> Training:
    """Train the net of a net file, with progress on the screen unless `quiet`, and a JSON line per report in `log`.

    With `verbose` a line says how the net runs: its kernels and its copies between memories. With `find_nan` it runs
    step by step, and names the layer that writes the first number that is not finite.

    `resume` is "" to begin anew, a snapshot's file or folder, or "auto" for the newest snapshot in the folder of the
    callback that saves them; with `reset_solver` the solver begins anew. `weights` are only for a new training.

    The ranks of a `communicator` train together; the first one finds the snapshot and decides the plan, and it alone
    shows and logs.
    """
    from ..net.fitted import joined
    from ..net.summary import broken, not_enabled
    from ..snapshots.folder import meant
    from ..training.agreement import check_agreement

    solver = file.solver()
    first = communicator is None or communicator.rank == 0
    quiet = quiet or not first
    begun: dict[str, Any] = {}
    if communicator is not None and communicator.size > 1:
        framework = None if file.divides else solver.framework_of(communicator)
        named = "none: the net is divided" if framework is None else table_of(framework)
        check_agreement(communicator, {"framework": named})  # before its own first words, which differ
        if framework is not None:
            file = replace(file, layers=tuple(framework.layers(file.layers, communicator)))
            begun["group"] = framework.group(communicator)
    elif solver.framework is not None:
        warn(
            f"{type(solver.framework).__name__} is a framework for several ranks, but this is one process, which "
            "trains as without it; --workers N starts more"
        )
    snapshot = resumed(file, solver, resume) if first else None
    if communicator is not None:
        path = communicator.share(snapshot and snapshot.path)
        snapshot = snapshot or (load_snapshot(path, file) if path else None)
    if snapshot is not None:
        begun |= {"plan": snapshot.state.get("plan"), "initialise": False, "fitted": snapshot.fitted()}
    elif weights is not None and weights.fitted:
        begun |= {"fitted": joined(load_snapshot(path, file).fitted() for path in weights.paths)}
    screen = Screen(quiet=quiet)
    reports = [screen.report] if first else []
    with ExitStack() as stack:
        stack.enter_context(work_matters_more())
        if log is not None and first:
            reports.append(stack.enter_context(_logging(log)))
        group: Group | None = begun.get("group")
        if group is not None and group.communicator is not None and group.communicator is not communicator:
            stack.enter_context(group.communicator)
        net = stack.enter_context(_net(file, backend, communicator, begun))
        if find_nan:
            net.find_nan()
        if not quiet:
            click.echo(begin_text(net, solver))
            if verbose:
                click.echo(net.summary().first_line())
        if weights is not None and snapshot is None:
            paths = [meant(path, solver.snapshot_place()) for path in weights.paths]
            loaded = net.load(paths, strict=False, rename=weights.rename)
            if not quiet:
                click.echo(loaded)
        training = stack.enter_context(solver.start(net, reports))
        training.info["command"] = ["nacre", *sys.argv[1:], *how_started()]
        screen.training = training
        choices = _choices(training)
        if not quiet and (line := not_enabled(choices)):
            click.echo(line)
        for reason in broken(choices):
            warn(f"{reason}; other code computes it")
        if snapshot is not None:
            training.restore(snapshot, reset_solver=reset_solver)
            if not quiet:
                unused = ", so --weights is not used" if weights is not None else ""
                click.echo(f"continuing from iteration {snapshot.iteration}{unused}")
        with screen:
            training.run()
    return training


def _net(file: NetFile, backend: str | None, communicator: Communicator | None, begun: Mapping[str, Any]) -> Net:
    """Return the net to train; of several ranks the first one decides the plan, and the others wait and take it."""
    options: dict[str, Any] = {"backend": backend, **begun}
    if communicator is None:
        return file.net("train", **options)
    if communicator.rank == 0:
        net = file.net("train", **options, communicator=communicator)
        communicator.share(net.plan)
        return net
    options["plan"] = communicator.share(None)
    return file.net("train", **options, communicator=communicator)


def begin_text(net: Net, solver: Solver) -> str:
    """Return the first line of a training: what is trained, how long, on what, and where it is saved."""
    sizes = {slot.name: slot.storage.size for slot in net.slots if slot.trainable}
    still = {slot.name for slot in net.slots if slot.trainable and slot.frozen}
    if net.division is not None:  # of which this rank has a part
        sizes = net.division.sizes
        still = {name for name in sizes if any(name.startswith(f"{layer}/") for layer in net.frozen)}
    parameters, frozen = sum(sizes.values()), sum(sizes[name] for name in still)
    records = f" of {net.batch * solver.n_accumulate:,} records" if net.batch else ""
    epochs = f"{solver.max_epoch:,} epoch{'s' * (solver.max_epoch > 1)}" if solver.max_epoch else ""
    if isfinite(solver.n_iter):
        most = f" and {epochs}, whichever ends first" if epochs else ""
        turns = f"{solver.n_iter:,} iteration{'s' * (solver.n_iter > 1)}{records}{most}"
    else:
        turns = f"{epochs} in batches{records}"
    place = solver.snapshot_place()
    where = f" on {net.backend.name}" + (f", {net.ranks} ranks" if net.ranks > 1 else "")
    saved = f"snapshots go to {place[0]}" if place else "nothing is saved"
    kept = f" ({frozen:,} frozen)" if frozen else ""
    return f"training '{net.name}': {parameters:,} parameters{kept}, {turns}{where}; {saved}"


def _choices(training: Training) -> list[Choice]:
    """Return every choice of a kernel for a training."""
    components = [choice for _, choice in training.choices.values()]
    return [*(op.choice for op in training.net.ops), training.choice, *components]


def exit_code(training: Training) -> int:
    """Return the exit code of a training: 0, or that of the signal that stopped it."""
    return EXIT_CODES.get(training.stopped, 0)


def result(training: Training) -> dict[str, Any]:
    """Return the data of the last line of `train --json`."""
    return {
        "iterations": training.iteration,
        "seconds": training.seconds,
        "images_per_second": training.images_per_second,
        "data_share": training.data_share,
        "loss": training.loss if training.images else None,
        "statistics": training.statistics,
        "snapshot": training.snapshot_path or None,
        "stopped": training.stopped or None,
        **training.told(),
    }


@contextmanager
def _logging(path: Path) -> Generator[Any]:
    """Yield a report that writes JSON lines: event, `clock` (seconds since the training began), and the event's data.

    Single iterations are left out, because they would make the file very large.
    """
    from ..errors import ConfigError, NacreError
    from ..files.durable import hold, os_errors

    start = time.perf_counter()
    with os_errors(path, "cannot be written", NacreError):
        if path.is_file() and path.stat().st_size:
            with path.open("rb") as before:
                if not is_log(before):
                    message = f"{path}: it is no log of trainings, so nothing is added to it"
                    raise ConfigError(message, "use another file for --log")
        opened = path.open("ab", buffering=0)
    with opened as file:
        hold(file.fileno(), path)
        with os_errors(path, "cannot be written", NacreError):
            begin_line(file, path)
        broken = False

        def report(event: str, data: Mapping[str, Any]) -> None:
            nonlocal broken
            if event != "step" and not broken:
                try:
                    file.write(event_line(event, data, start).encode())
                except OSError as error:
                    broken = True
                    warn(f"{path}: cannot be written: {error.strerror}; nothing more is written to it")

        yield report


class Screen:
    """Shows a training: a progress bar on a terminal, and a line for each report."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.training: Training | None = None
        self._bar: Any = None
        self._task: Any = None
        self._shown = 0.0
        self._pass_end = (0, 0)  # the iteration and the passes that were complete when the last one ended
        self._layers: dict[str, Mapping[str, Layer]] = {}  # of the phases that reports were about

    def __enter__(self) -> Screen:
        if self.training is not None:
            self._pass_end = self.training.iteration, self.training.epochs
        if self.quiet or not getattr(sys.stdout, "isatty", bool)():  # None in a program without a console
            return self
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[progress]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[left]}"),
            transient=True,
            auto_refresh=False,  # a thread of rich's would draw it anew also where nothing has changed
        )
        limits = self.training.solver.limits() if self.training else {}
        self._task = self._bar.add_task("", total=limits.get("max_iter"), progress="", left="")
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            bar, self._bar = self._bar, None
            bar.stop()

    def report(self, event: str, data: Mapping[str, Any]) -> None:
        """Show one report of a training."""
        if event == "step":
            self._step(data["iteration"])
        elif event == "warning":
            self._say(f"warning: {data.get('message', '')}", error=True)
        elif not self.quiet:
            line = self.line(event, data)
            if line:
                self._say(line)

    def line(self, event: str, data: Mapping[str, Any]) -> str:
        """Return the line for a report, or "" if it needs none."""
        line = report_line(event, *self._shown_of(data))
        return f"{self._epoch_text(data['iteration'], data['epoch'])}{line}" if line else ""

    def _epoch_text(self, iteration: int, passes: int) -> str:
        """Return the epoch that is on, or has just ended, when so many passes are complete; "" if data have no end."""
        if self.training is None or self.training.endless:
            return ""
        most = self.training.solver.max_epoch
        number = passes if (iteration, passes) == self._pass_end else passes + 1
        return f"epoch {min(number, most)} of {most}, " if most else f"epoch {number}, "

    def _shown_of(self, data: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Mapping[str, str]]]:
        """Return the data of a report without the statistics of single classes, and the units of the others."""
        statistics = data.get("statistics")
        if not statistics or not self.training:
            return data, {}
        phase = data.get("phase", "train")
        if phase not in self._layers:
            self._layers[phase] = self.training.net.layers_in(phase)
        shown = overall(self._layers[phase], statistics)
        return {**data, "statistics": shown}, units_of(self._layers[phase], shown)

    def _step(self, iteration: int) -> None:
        training = self.training
        if training is None:
            return
        if training.epochs != self._pass_end[1]:
            self._pass_end = iteration, training.epochs
        if self._bar is None:
            return
        if time.perf_counter() - self._shown < REFRESH:
            return
        self._shown = time.perf_counter()
        total, where = self._total(), self._epoch_text(iteration, training.epochs)
        self._bar.update(
            self._task,
            description=f"{where}iteration {iteration}" + (f" of {total}" if total else ""),
            completed=iteration,
            total=total,
            progress=f"loss {training.loss:.4g} · {training.images_per_second:,.0f} records/s",
            left="left" if total else "",
            refresh=True,
        )

    def _total(self) -> int | None:
        """Return how many iterations there will be, or None as long as a pass over the data is of unknown length."""
        limits = self.training.solver.limits() if self.training else {}
        if "max_epoch" in limits:
            iteration, passes = self._pass_end
            limits["max_epoch"] = round(limits["max_epoch"] * iteration / passes) if passes else 0
        return min(filter(None, limits.values()), default=None)

    def _say(self, line: str, *, error: bool = False) -> None:
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            click.echo(line, err=error)


def report_line(event: str, data: Mapping[str, Any], units: Mapping[str, Mapping[str, str]]) -> str:
    """Return the line for a report, or "" if it needs none."""
    start = f"iteration {data['iteration']}: "
    values = data.get("statistics", {})
    layers = [statistic_text(name, some, units.get(name, {})) for name, some in values.items()]
    if event == "summary":
        parts = [loss_text(data["loss"], values)] if "loss" in data else []
        parts += [f"rate {data['rate']:.3g}"] if "rate" in data else []
        parts += [f"{data['images_per_second']:,.0f} records/s"] if data.get("images_per_second") else []
        return start + "; ".join([", ".join(parts), *layers])
    if event == "validation":
        parts = [loss_text(data["loss"], values)] if "loss" in data else []
        return f"{start}{data.get('phase', 'validation')}: {'; '.join([*parts, *layers])}"
    if event == "snapshot":
        return f"{start}saved {data.get('path', '')}" + (", the best so far" if data.get("best") else "")
    return ""


def end_line(training: Training) -> str:
    """Return how a training ended, after how many iterations, and how fast it was."""
    speed = f", {training.images_per_second:,.0f} records/s" if training.images else ""
    if training.data_share >= LONG:
        speed += f", waited for data for {100 * training.data_share:.0f} % of the time"
    word = f"stopped by {training.stopped}" if training.stopped else "done"
    return f"{word} after {counted(training.iteration, 'iteration')}: {seconds_text(training.seconds)}{speed}"


@work_matters_more()
def print_end(
    file: NetFile,
    training: Training,
    backend: str | None = None,
    seed: int | None = None,
    sets: Sequence[str] = (),
    writes: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Print how a training ended, and commands that may come next, with the options that they need."""
    click.echo(end_line(training))
    for what, found in training.told().items():
        click.echo(f"{what}: {', '.join(f'{key}: {value:,}' for key, value in found.items())}")
    if training.info.get("curve"):
        click.echo(f"learning curve: {training.info['curve']}")
    path = training.snapshot_path
    if not path:
        click.echo("nothing was saved: the net file has no callback that saves snapshots")
        return
    click.echo(f"snapshot: {path}")
    same = ["--backend", backend] if backend else []
    same += [word for host in allowed_remote() for word in ("--allow-remote", host)]
    if exit_code(training):
        same += [] if seed is None else ["--seed", str(seed)]
        same += [word for change in sets for word in ("--set", change)]
        for option, paths in (writes or {}).items():
            same += [word for path in paths for word in (f"--{option.replace('_', '-')}", path)]
        started, ranks = how_started(), training.net.ranks
        where = f", on {ranks} ranks" if ranks > 1 and not started else ""  # by mpiexec or another program
        click.echo(f"next{where}: {command_line('train', str(file.path), '--resume', 'auto', *started, *same)}")
        return
    same += [word for change in sets if not change.startswith(("solver.", "callback.")) for word in ("--set", change)]
    lines: list[str] = []
    if (phase := _tested_in(file, training.net)) is not None:
        lines.append(command_line("test", str(file.path), path, *(["--phase", phase] * (phase != "test")), *same))
    if some := _some_input(file, phase):
        lines.append(command_line("predict", str(file.path), path, some, *same))
    for number, line in enumerate(lines):
        click.echo(f"{'      ' if number else 'next: '}{line}")


def _tested_in(file: NetFile, trained: Net) -> str | None:
    """Return the phase in which a net can be tested: the first of `test` and `validation` with data that have an end.

    It is known of the sources of the training alone whether theirs have none.
    """
    states = [(op.node.outermost.name, op.state) for op in trained.ops]
    endless = {name for name, state in states if isinstance(state, SourceState) and state.endless}
    sources = [layer for layer in file.layers if layer.is_source and layer.name not in endless]
    return next((phase for phase in ("test", "validation") if any(phase not in one.exclude for one in sources)), None)


def _some_input(file: NetFile, phase: str | None) -> str:
    """Return a file with records for `predict`: the first of the source of a test; "" if no store reads it."""
    sources = [layer for layer in file.layers if layer.is_source]
    sources.sort(key=lambda layer: phase in layer.exclude)
    parts = [part for layer in sources for part in inside(layer)]  # a source may be made of sources
    fields = [(part, field.name) for part in parts for field in type(part).fields() if field.takes(Paths)]
    first = next((path for part, name in fields for path in getattr(part, name) or ()), "")
    if not first:
        return "INPUT"
    from ..net.records import store_of

    try:
        store_of(Path(first), pins=file.pins)
    except NacreError:  # such as for a text, which is not made of records
        return ""
    return str(Path(first).relative_to(Path.cwd())) if Path(first).is_relative_to(Path.cwd()) else first
