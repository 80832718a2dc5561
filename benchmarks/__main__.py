"""`make bench`: nacre beside PyTorch, whole training steps in turns, and the peak of memory; see README.md."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from .nets import NETS, describe
from .sides import PAUSE, SECONDS, Checked, Side, Worker, compare, installed, machine

MODES = ["eager", "channels last"]
COMPILED = ["compile", "compile, channels last"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--net", choices=NETS, action="append", help="only this one; may be given several times")
    parser.add_argument("--all", action="store_true", help="all nets, not only the small ones")
    parser.add_argument("--backend", action="append", help="only this one of nacre's; may be given several times")
    parser.add_argument("--compile", action="store_true", help="PyTorch's compiled modes too")
    parser.add_argument("--peer", help="only the peers with this text in their names")
    parser.add_argument("--bf16", action="store_true", help="compute in bf16, PyTorch by autocast")
    parser.add_argument("--predict", action="store_true", help="inference instead of training; onnxruntime too")
    parser.add_argument("--load", action="store_true", help="also with a Python thread that computes beside")
    parser.add_argument("--batch", type=int, default=0, help="records in a batch, instead of each net's own number")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    print(machine(arguments.threads))
    for name in arguments.net or _chosen(all_nets=arguments.all):
        with tempfile.TemporaryDirectory() as folder:
            print("\n" + "\n".join(Table(name, Path(folder), arguments).lines()), flush=True)


def _chosen(*, all_nets: bool) -> list[str]:
    return [name for name, net in NETS.items() if net.small or (all_nets and not net.on_gpus)]


def ours(name: str, arguments: argparse.Namespace) -> list[Side]:
    """Return nacre's sides: all that can be used here, but on large nets, and in bf16, only the fast one."""
    from nacre import registry

    wanted = arguments.backend or (["onednn", "numpy"] if NETS[name].small and not arguments.bf16 else ["onednn"])
    usable = [one for one in wanted if not registry().open("backend", one).unusable()]
    if not usable:
        raise SystemExit(f"no backend of {', '.join(wanted)} can be used here; say --backend numpy")
    return [Side(f"nacre {one}") for one in usable]


def peers(folder: Path, arguments: argparse.Namespace) -> list[Side]:
    """Return what nacre is compared with: each mode of PyTorch as it comes and with freed memory kept, and others."""
    told = json.loads((folder / "net.json").read_text(encoding="utf-8"))
    modes = [*MODES, *(COMPILED if arguments.compile else [])]
    if arguments.compile and arguments.predict:
        modes += [f"frozen {mode}" for mode in COMPILED]
    if len(told["blobs"]["data"]) < 4:
        modes = [mode for mode in modes if "channels last" not in mode]
    found = [Side(f"PyTorch {mode}", malloc) for mode in modes for malloc in (False, True)]
    if arguments.predict:
        others = ["onnxruntime"] if installed("onnxruntime", "onnxscript") and not arguments.bf16 else []
    else:
        plain = all(layer["type"] == "InnerProduct" for layer in told["layers"])
        others = ["JAX"] if plain and installed("jax") and not arguments.bf16 else []
    found += map(Side, others)
    kept = [side for side in found if (arguments.peer or "") in str(side)]
    if not kept:
        named = ", ".join(map(str, found))
        raise SystemExit(
            f"no peer here has {arguments.peer!r} in its name: {named}; README.md says what to install for others"
        )
    return kept


class Table:
    """The figures of one net: nacre's sides against every peer, one peer after the other."""

    def __init__(self, name: str, folder: Path, arguments: argparse.Namespace) -> None:
        self.name, self.folder, self.arguments = name, folder, arguments
        self.batch = describe(name, folder, arguments.batch)
        self.ours = ours(name, arguments)
        self.peers = peers(folder, arguments)
        self.loads = [False, True] if arguments.load else [False]
        self.times: dict[Side, list[float]] = {}
        self.starts: dict[Side, float] = {}
        self.ratios: dict[tuple[Side, Side, bool], list[float]] = {}

    def lines(self) -> Iterator[str]:
        """Measure; give a row for each side."""
        with ExitStack() as stack:
            workers = [stack.enter_context(self._worker(side)) for side in self.ours]
            first = self._checked(workers[0])
            for worker in workers[1:]:
                compare(self.name, first, self._checked(worker), wide=self.arguments.bf16)
            for side in self.peers:
                with self._worker(side) as peer:
                    compare(self.name, first, self._checked(peer), wide=self.arguments.bf16)
                    for turn in range(self.arguments.rounds):
                        self._round([*workers, peer][:: 1 if turn % 2 else -1])
        peaks = {} if self.arguments.predict else {side: self._peak(side) for side in self._measured_for_memory()}
        yield from self._table(peaks)

    def _worker(self, side: Side, *flags: str) -> Worker:
        which = [side.name, self.name, str(self.folder), "--batch", str(self.arguments.batch), *flags]
        which += [f"--{flag}" for flag in ("bf16", "predict") if getattr(self.arguments, flag)]
        return Worker(side, self.folder, self.arguments.threads, "benchmarks.worker", *which)

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

    def _measured_for_memory(self) -> list[Side]:
        return [*self.ours, *(side for side in self.peers if not side.malloc)]

    def _peak(self, side: Side) -> float:
        with self._worker(side, "--peak") as worker:
            return float(worker.ask())

    # Telling

    def _table(self, peaks: dict[Side, float]) -> Iterator[str]:
        columns = [(side, load) for side in self.ours for load in self.loads]
        heads = [f"{side} to it{', a thread beside' if load else ''}" for side, load in columns]
        yield f"| {self.name} | images/s | starts in, s | peak memory, MB | {' | '.join(heads)} |"
        yield "|---" * (4 + len(columns)) + "|"
        least = min((peak for side, peak in peaks.items() if not side.ours), default=0.0)
        for side in (*self.ours, *self.peers):
            memory = f"{peaks[side]:.0f}" if side in peaks else ""
            if side.ours and memory and least:
                memory += f" ({peaks[side] / least:.2f})"
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
