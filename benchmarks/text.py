"""What the text of `nacre train` costs on a terminal: python -m benchmarks.text. LeNet, one thread.

The time in what shows reports is divided by the time of the rest; other threads, if there are any, count as text. Both
are CPU time of the same process, which a pseudo-terminal makes believe that somebody looks on: 3 % at most.
"""

from __future__ import annotations

import json
import os
import pty
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nacre.cli.options import read_net
from nacre.cli.training import Screen, train

NET = Path(__file__).parents[1] / "examples" / "digits" / "lenet.toml"


class Timed(Screen):
    """Adds up the time that its reports take, and notes the times between its beginning and its end."""

    def __enter__(self) -> Screen:
        self.reports = 0.0
        self.begun = time.process_time(), time.thread_time()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        begin = time.thread_time()
        super().__exit__()
        self.reports += time.thread_time() - begin
        whole, mine = time.process_time() - self.begun[0], time.thread_time() - self.begun[1]
        text = self.reports + whole - mine
        Path(sys.argv[2]).write_text(json.dumps({"text": text, "rest": whole - text}))

    def report(self, event: str, data: Mapping[str, Any]) -> None:
        begin = time.thread_time()
        super().report(event, data)
        self.reports += time.thread_time() - begin


def main(rounds: int = 5) -> None:
    """Print what the text of some trainings cost, and the median."""
    costs: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            found = Path(folder) / "found.json"
            pty.spawn(
                [sys.executable, "-m", "benchmarks.text", str(NET), str(found)],
                lambda fd: os.read(fd, 1 << 16) and b"\r",
            )
            one = json.loads(found.read_text())
            costs.append(one["text"] / one["rest"])
            print(f"text {one['text']:.3f} s, the rest {one['rest']:.3f} s: {100 * costs[-1]:.2f} %")
    print(f"the text of nacre train costs {100 * statistics.median(costs):.2f} %")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        os.environ["OMP_NUM_THREADS"] = "1"
        main()
    else:
        import nacre.cli.training as module

        module.Screen = Timed
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            train(read_net(Path(sys.argv[1]), ("solver.max_iter=1500",), None))
