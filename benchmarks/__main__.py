"""`make bench`: nacre beside PyTorch, whole training steps in turns, and the peak of memory; see README.md."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .nets import NETS, describe, read

MODES = ["eager", "channels last"]
COMPILED = ["compile", "compile, channels last"]
# glibc keeps freed memory, which spares PyTorch the page faults of new memory at each step.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "268435456",
}
SECONDS = 0.4  # of each sample
PAUSE = 0.1  # before each: threads of the side before it that still spin fall asleep


@dataclass(frozen=True)
class Side:
    """One of those that are compared: what a worker is to make, and in which environment."""

    name: str
    malloc: bool = False

    @property
    def ours(self) -> bool:
        return self.name.startswith("nacre")

    def __str__(self) -> str:
        return f"{self.name}, malloc" if self.malloc else self.name


class Worker:
    """A side at work in a process of its own; to be used in a `with` statement.

    Its log lies in `folder`, and what it makes for the next one, such as plans, in `kept`, or there too.
    """

    def __init__(self, side: Side, folder: Path, threads: int, *arguments: str, kept: Path | None = None) -> None:
        self.side = side
        self.log = folder / f"{side}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *arguments, "--threads", str(threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=_environment(side, kept or folder, threads),
            )

    def ask(self, command: str = "") -> Any:
        """Return a command, and the answer to it."""
        assert self.process.stdin and self.process.stdout
        if command and self.process.poll() is None:
            self.process.stdin.write(f"{command}\n")
            self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.side} ended by itself:\n{self.log.read_text()[-2000:]}")
        return json.loads(answer)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()


def _environment(side: Side, folder: Path, threads: int) -> dict[str, str]:
    told = {name: str(threads) for name in ("NACRE_NUM_THREADS", "OMP_NUM_THREADS")}
    # What nacre sets for itself, for all: it changes nothing on a quiet machine; on a busy one every parallel region
    # would else cost a time slice.
    told["GOMP_SPINCOUNT"] = "4000"
    return {**os.environ, **told, **caches(folder), **(MALLOC if side.malloc else {})}


def caches(folder: Path) -> dict[str, str]:
    """Return the variables that let plans and compiled code lie in a folder, where later workers find them."""
    return {"NACRE_CACHE": str(folder / "plans"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}


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
        others = ["onnxruntime"] if _installed("onnxruntime", "onnxscript") and not arguments.bf16 else []
    else:
        plain = all(layer["type"] == "InnerProduct" for layer in told["layers"])
        others = ["JAX"] if plain and _installed("jax") and not arguments.bf16 else []
    found += map(Side, others)
    kept = [side for side in found if (arguments.peer or "") in str(side)]
    if not kept:
        named = ", ".join(map(str, found))
        raise SystemExit(
            f"no peer here has {arguments.peer!r} in its name: {named}; README.md says what to install for others"
        )
    return kept


def _installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) for module in modules)


@dataclass(frozen=True)
class Checked:
    """What a side gave for the first batch: arrays by these names in a folder, and the losses of three steps."""

    side: Side
    folder: Path
    names: Sequence[str]
    losses: Sequence[float]


def compare(net: str, one: Checked, other: Checked, *, wide: bool) -> None:
    """Raise SystemExit unless two sides have computed the same; `wide` limits are those of bf16."""
    import numpy as np

    limits, both = NETS[net], f"of {one.side} and {other.side}"
    if differing := set(one.names) ^ set(other.names):
        raise SystemExit(f"{net}: {both} only one has {', '.join(sorted(differing))}")
    for step, losses in enumerate(zip(one.losses, other.losses, strict=True)):
        error = abs(losses[0] - losses[1]) / abs(losses[1])
        later = limits.losses_apart if step else 1e-5
        if not error <= (limits.losses_apart_in_bf16 if wide else later):  # nor may it be NaN
            raise SystemExit(f"{net}: in step {step + 1} the losses {both} are {losses}")
    limit = limits.apart_in_bf16 if wide else limits.apart
    for name in one.names if limit is not None else ():
        expected = read(other.folder, name)
        error = np.linalg.norm(read(one.folder, name) - expected) / np.linalg.norm(expected)
        if not error <= limit:
            raise SystemExit(f"{net}: {name} {both} differ by {error:.1e} of their norm")
    for path in other.folder.iterdir():  # of a large net, hundreds of megabytes
        path.unlink()


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


def machine(threads: int) -> str:
    """Describe the machine and the versions."""
    import nacre
    from nacre.snapshots.environment import environment

    told = environment()
    core = os.environ.get("OPENBLAS_CORETYPE")
    held = f" (OPENBLAS_CORETYPE={core} holds NumPy's products to that processor's instructions)" if core else ""
    names = ("torch", "jax", "onnxruntime")
    others = "".join(f", {name} {_version(name)}" for name in names if _installed(name))
    return (
        f"nacre {nacre.__version__}, NumPy {told['numpy']}{held}{others}, Python {sys.version.split()[0]}; "
        f"{told.get('processor', 'unknown processor')}, {threads} threads; {time.strftime('%Y-%m-%d')}"
    )


def _version(distribution: str) -> str:
    from importlib import metadata

    return metadata.version(distribution)


if __name__ == "__main__":
    main()
