"""`python -m benchmarks.start`: what `nacre layers` costs, beside the libraries that it cannot do without.

Each sample is the CPU time of a fresh process; the sides take turns, and all find their modules compiled, as pip leaves
them. The ratio is that of the medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile

SIDES = {
    "import pluggy, importlib_metadata": ["-c", "import pluggy, importlib_metadata"],
    "nacre layers": ["-c", "from nacre.cli import main; main()", "layers"],
    "nacre --version": ["-c", "from nacre.cli import main; main()", "--version"],
    "import nacre": ["-c", "import nacre"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as compiled:
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        variables["PYTHONPYCACHEPREFIX"] = compiled
        samples: dict[str, list[float]] = {name: [] for name in SIDES}
        for number in range(rounds + 1):
            for name, arguments in SIDES.items():
                seconds = cpu_seconds([sys.executable, *arguments], variables)
                samples[name] += [seconds] if number else []  # the first compiles
    medians = {name: statistics.median(found) for name, found in samples.items()}
    first, *_ = medians.values()
    print(f"CPU time of {rounds} fresh processes, Python {sys.version.split()[0]}")
    for name, median in medians.items():
        print(f"{name:<34}{1000 * median:6.0f} ms{median / first:7.2f} x")


def cpu_seconds(command: list[str], variables: dict[str, str]) -> float:
    """Run a command whose output nobody reads; return the seconds that it kept a processor busy."""
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    process = os.posix_spawn(command[0], command, variables, file_actions=silent)
    _, status, used = os.wait4(process, 0)
    if status:
        raise SystemExit(f"{command} ended with {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
