"""`make bench`: nacre beside PyTorch, whole training steps in turns, and the peak of memory; see README.md."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import summary
from .nets import NETS, describe
from .sides import PAUSE, SECONDS, Checked, Side, Worker, compare, installed, machine
from .summary import MEMORY, Case, Row

MODES = ["eager", "channels last"]
COMPILED = ["compile", "compile, channels last"]
NEEDS = {"onnxruntime": ("onnxruntime", "onnxscript"), "JAX": ("jax",)}
"""The modules of peers other than PyTorch."""


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--net", choices=NETS, action="append", help="only this one; may be given several times")
    parser.add_argument("--large", action="store_true", help="all nets, not only the small ones")
    parser.add_argument(
        "--all",
        action="store_true",
        help="all that has a floor: all nets, training in float32 and bf16, inference of batches and of one record, on "
        "two threads and on one; --net, --predict, --bf16, --batch and --threads leave only a part of it",
    )
    parser.add_argument("--backend", action="append", help="only this one of nacre's; may be given several times")
    parser.add_argument("--compile", action="store_true", help="PyTorch's compiled modes too")
    parser.add_argument("--peer", help="only the peers with this text in their names")
    parser.add_argument("--bf16", action="store_true", help="compute in bf16, PyTorch by autocast")
    parser.add_argument("--predict", action="store_true", help="inference instead of training; onnxruntime too")
    parser.add_argument("--load", action="store_true", help="also with a Python thread that computes beside")
    parser.add_argument("--batch", type=int, default=0, help="records in a batch, instead of each net's own number")
    parser.add_argument("--threads", type=int, help="2 by default")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, help="a file of the results; the same command goes on where it ended")
    arguments = parser.parse_args(words)
    wanted = cases(arguments)
    told = machine(*sorted({case.threads for case in wanted}))
    results = Results(arguments, told)
    print(told)
    rows: list[Row] = []
    unmeasured = len(wanted)
    with suppress(KeyboardInterrupt):  # what there is by then is summed up all the same
        for case in wanted:
            rows += results.of(case) or results.put(case, measured(case, arguments))
            unmeasured -= 1
    print("\n" + "\n".join(summary.table(rows)), flush=True)
    if wrong := summary.verdict(rows, unmeasured):
        raise SystemExit(wrong)


def cases(arguments: argparse.Namespace) -> list[Case]:
    """Return what is to be measured: an option that is given holds for all of it, and `--all` varies the others."""
    every, large = arguments.all, arguments.all or arguments.large
    nets = arguments.net or [name for name, net in NETS.items() if net.small or (large and not net.on_gpus)]
    works = [(arguments.predict, arguments.bf16)]
    if every and not (arguments.predict or arguments.bf16):
        works = [(False, False), (False, True), (True, False)]
    return [
        Case(net, predict, bf16, threads, batch)
        for net in nets
        for predict, bf16 in works
        for batch in ([0, 1] if every and predict and not arguments.batch else [arguments.batch])
        for threads in ([arguments.threads] if arguments.threads else [2, 1] if every else [2])
    ]


class Results:
    """The lines of the summary in the file of `--out`, those apart that could not be measured: they are tried again.

    It refuses the file of another machine, of other versions or of other options.
    """

    def __init__(self, arguments: argparse.Namespace, told: str) -> None:
        self.file: Path | None = arguments.out
        options = {name: value for name, value in vars(arguments).items() if name != "out"}
        self.kept: dict[str, Any] = {"machine": told.rpartition("; ")[0], "options": options, "rows": {}}
        if self.file and self.file.exists():
            kept = json.loads(self.file.read_text(encoding="utf-8"))
            for told in ("machine", "options"):
                if kept[told] != self.kept[told]:
                    raise SystemExit(f"{self.file} has the {told} {kept[told]}, and this is {self.kept[told]}")
            self.kept = kept

    def of(self, case: Case) -> list[Row]:
        """Return what an earlier run has of a case, or nothing."""
        return [Row(**row) for row in self.kept["rows"].get(str(case), ())]

    def put(self, case: Case, rows: list[Row]) -> list[Row]:
        """Keep the lines of a case, and return them."""
        from nacre.files import atomic_write

        if self.file and not any(row.problem for row in rows):
            self.kept["rows"][str(case)] = [asdict(row) for row in rows]
            atomic_write(self.file, json.dumps(self.kept, indent=1).encode())
        return rows


def measured(case: Case, arguments: argparse.Namespace) -> list[Row]:
    """Print a table; return its lines of the summary. Whatever goes wrong, a run of hours goes on with the next."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            table = Table(case, Path(folder), arguments)
            print("\n" + "\n".join(table.lines()), flush=True)
            return list(table.rows())
    except (Exception, SystemExit) as error:
        told = str(error) if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
        print(f"\n{case.net}, {case.what}: {told}", flush=True)
        lines = told.splitlines()
        problem = " ".join(dict.fromkeys((lines[0], lines[-1])))  # which of a log is the error
        return [Row(case.net, case.what, floor=case.floor, problem=problem)]


def ours(case: Case, arguments: argparse.Namespace) -> list[Side]:
    """Return nacre's sides: all that can be used here, but on large nets, in bf16 and with `--all` the fast one."""
    from nacre import registry

    fast = arguments.all or case.bf16 or not NETS[case.net].small
    wanted = arguments.backend or (["onednn"] if fast else ["onednn", "numpy"])
    usable = [one for one in wanted if not registry().open("backend", one).unusable()]
    if not usable:
        raise SystemExit(f"no backend of {', '.join(wanted)} can be used here; say --backend numpy")
    return [Side(f"nacre {one}") for one in usable]


def peers(case: Case, folder: Path, arguments: argparse.Namespace) -> tuple[list[Side], list[Side]]:
    """Return what nacre is compared with, and what of it is not installed.

    It is compared with each mode of PyTorch as it comes and with freed memory kept, and with others. Compiled modes are
    all measured with `--compile`; with `--all` those that count for floors, which in inference have frozen weights.
    """
    told = json.loads((folder / "net.json").read_text(encoding="utf-8"))
    counts = arguments.all and not case.predict and case.counts("PyTorch compile")
    modes = [*MODES, *(COMPILED if arguments.compile or counts else [])]
    if case.predict and (arguments.compile or arguments.all):
        modes += [f"frozen {mode}" for mode in COMPILED]
    if len(told["blobs"]["data"]) < 4:
        modes = [mode for mode in modes if "channels last" not in mode]
    found = [Side(f"PyTorch {mode}", malloc) for mode in modes for malloc in (False, True)]
    if case.predict:
        others = ["onnxruntime"]
    else:
        others = ["JAX"] if all(layer["type"] == "InnerProduct" for layer in told["layers"]) else []
    found += [] if case.bf16 else map(Side, others)
    kept = [side for side in found if (arguments.peer or "") in str(side)]
    missing = [side for side in kept if not installed(*NEEDS.get(side.name, ("torch",)))]
    if missing == kept:
        named = ", ".join(map(str, found))
        raise SystemExit(f"no peer is installed that --peer admits, of {named}; README.md says what to install")
    return [side for side in kept if side not in missing], missing


class Table:
    """The figures of one net: nacre's sides against every peer, one peer after the other."""

    def __init__(self, case: Case, folder: Path, arguments: argparse.Namespace) -> None:
        self.case, self.folder, self.arguments = case, folder, arguments
        self.batch = describe(case.net, folder, case.batch)
        self.ours = ours(case, arguments)
        self.peers, self.missing = peers(case, folder, arguments)
        self.loads = [False, True] if arguments.load else [False]
        self.times: dict[Side, list[float]] = {}
        self.starts: dict[Side, float] = {}
        self.ratios: dict[tuple[Side, Side, bool], list[float]] = {}
        self.peaks: dict[Side, float] = {}  # in MB

    def lines(self) -> Iterator[str]:
        """Measure; give a row for each side."""
        with ExitStack() as stack:
            workers = [stack.enter_context(self._worker(side)) for side in self.ours]
            first = self._checked(workers[0])
            for worker in workers[1:]:
                compare(self.case.net, first, self._checked(worker), wide=self.case.bf16)
            for side in self.peers:
                with self._worker(side) as peer:
                    compare(self.case.net, first, self._checked(peer), wide=self.case.bf16)
                    for turn in range(self.arguments.rounds):
                        self._round([*workers, peer][:: 1 if turn % 2 else -1])
        # With `--all`, once for each net and type.
        if not self.case.predict and (self.case.threads > 1 or not self.arguments.all):
            self.peaks = {side: self._peak(side) for side in (*self.ours, *self.peers) if not side.malloc}
        yield from self._table()

    def rows(self) -> Iterator[Row]:
        """Yield what the summary tells of it: the speed of each of nacre's sides, and its memory."""
        counted = [side for side in self.peers if self.case.counts(side.name)]
        missing = [side.name for side in self.missing if self.case.counts(side.name)]
        for side in self.ours:
            what, floor = self.case.what, self.case.floor if counted else None
            if side.name != "nacre onednn":
                what, floor = f"{what}, {side}", None
            ratios = {peer: self.ratios[peer, side, False] for peer in counted or self.peers}
            best = min(ratios, key=lambda peer: statistics.median(ratios[peer]))
            yield Row(self.case.net, what, ratios[best], str(best), floor, missing=missing)
            if held := [peer for peer in ratios if peer in self.peaks]:
                least = min(held, key=lambda peer: self.peaks[peer])
                ratio = self.peaks[side] / self.peaks[least]
                limit = None if floor is None else MEMORY
                yield Row(self.case.net, f"memory of {what}", [ratio], str(least), limit, True, missing)

    def _worker(self, side: Side, *flags: str) -> Worker:
        which = [side.name, self.case.net, str(self.folder), "--batch", str(self.case.batch), *flags]
        which += [f"--{flag}" for flag in ("bf16", "predict") if getattr(self.case, flag)]
        return Worker(side, self.folder, self.case.threads, "benchmarks.worker", *which)

    # Checking that all compute the same

    def _checked(self, worker: Worker) -> Checked:
        folder = self.folder / f"check {worker.side}"
        answer = worker.ask(f"check {folder}")
        self.starts[worker.side] = answer["seconds"]
        return Checked(worker.side, folder, answer["names"], answer["losses"])

    # Measuring

    def _round(self, workers: Sequence[Worker]) -> None:
        for load in self.loads:
            seconds: dict[Side, float] = {}
            for one in workers:
                time.sleep(PAUSE)
                seconds[one.side] = float(one.ask(f"{'loaded' if load else 'sample'} {SECONDS}"))
            for side, taken in seconds.items():
                if not load:
                    self.times.setdefault(side, []).append(taken)
            peer = next(side for side in seconds if not side.ours)
            for side in self.ours:
                self.ratios.setdefault((peer, side, load), []).append(seconds[peer] / seconds[side])

    def _peak(self, side: Side) -> float:
        with self._worker(side, "--peak") as worker:
            return float(worker.ask())

    # Telling

    def _table(self) -> Iterator[str]:
        columns = [(side, load) for side in self.ours for load in self.loads]
        heads = [f"{side} to it{', a thread beside' if load else ''}" for side, load in columns]
        yield f"| {self.case.net}, {self.case.what} | images/s | starts in, s | peak memory, MB | {' | '.join(heads)} |"
        yield "|---" * (4 + len(columns)) + "|"
        least = min((peak for side, peak in self.peaks.items() if not side.ours), default=0.0)
        for side in (*self.ours, *self.peers):
            memory = f"{self.peaks[side]:.0f}" if side in self.peaks else ""
            if side.ours and memory and least:
                memory += f" ({self.peaks[side] / least:.2f})"
            speed = self.batch / statistics.median(self.times[side])
            cells = [f"{speed:,.0f}" if speed >= 100 else f"{speed:.1f}", f"{self.starts[side]:.1f}", memory]
            cells += ["" if side.ours else self._ratio(side, *column) for column in columns]
            yield f"| {side} | {' | '.join(cells)} |"

    def _ratio(self, peer: Side, side: Side, load: bool) -> str:
        """Write a ratio, in bold if no other peer has a smaller one."""
        middle = {one: statistics.median(self.ratios[one, side, load]) for one in self.peers}
        mark = "**" if middle[peer] == min(middle.values()) else ""
        ratios = self.ratios[peer, side, load]
        return f"{mark}{middle[peer]:.2f}{mark} ({min(ratios):.2f} to {max(ratios):.2f})"


if __name__ == "__main__":
    main()
