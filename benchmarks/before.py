"""Training steps of this checkout beside those of another one, in turns: `python -m benchmarks.before ../nacre-0.1`.

Each line is a net: milliseconds of a step before and now, and how many times as long it took before: the median of the
rounds, and their range, above 1 where it is faster now. The other checkout needs its C helper compiled, as
`pip install --editable` does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .nets import NETS, describe
from .sides import PAUSE, SECONDS, machine

HERE = Path(__file__).resolve().parents[1]


class Checkout:
    """A checkout's net at work in a process of its own; to be used in a `with` statement."""

    def __init__(self, root: Path, net: str, folder: Path, arguments: argparse.Namespace) -> None:
        own = folder / root.name
        own.mkdir()
        roots = [root, root / "core", *sorted((root / "plugins").iterdir())]
        environ = os.environ | {name: str(arguments.threads) for name in ("NACRE_NUM_THREADS", "OMP_NUM_THREADS")}
        environ |= {"PYTHONPATH": os.pathsep.join(map(str, roots)), "NACRE_CACHE": str(own), "GOMP_SPINCOUNT": "4000"}
        command = [sys.executable, "-m", "benchmarks.worker", f"nacre {arguments.backend}", net, str(folder)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([*command, "--threads", str(arguments.threads)], cwd=root, env=environ, **pipes)
        self.ask(f"check {own / 'check'}")

    def ask(self, command: str) -> Any:
        """Return the answer to a command."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def __enter__(self) -> Checkout:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()


def main() -> None:
    """Print a line for each net."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("other", type=Path, help="the folder of the other checkout")
    parser.add_argument("--net", choices=NETS, action="append", help="only this one; may be given several times")
    parser.add_argument("--backend", default="onednn")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    print(machine(arguments.threads))
    print(f"\n| net on {arguments.backend} | before, ms | now, ms | before / now |\n|---|---|---|---|")
    for net in arguments.net or NETS:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            describe(net, Path(folder))
            roots = (arguments.other.resolve(), HERE)
            sides = [stack.enter_context(Checkout(root, net, Path(folder), arguments)) for root in roots]
            times: list[tuple[float, float]] = []
            for turn in range(arguments.rounds):
                seconds = [0.0, 0.0]
                for which in (0, 1) if turn % 2 else (1, 0):
                    time.sleep(PAUSE)
                    seconds[which] = float(sides[which].ask(f"sample {SECONDS}"))
                times.append((seconds[0], seconds[1]))
            before, now = (1000 * statistics.median(each) for each in zip(*times, strict=True))
            ratios = [one / other for one, other in times]
            span = f"{statistics.median(ratios):.3f} ({min(ratios):.2f} to {max(ratios):.2f})"
            print(f"| {net} | {before:.2f} | {now:.2f} | {span} |", flush=True)


if __name__ == "__main__":
    main()
