"""`python -m benchmarks.start`: what `nacre layers` costs, beside the libraries that it cannot do without.

Each sample is the CPU time of a fresh process; the sides take turns, and all find their modules compiled, as pip leaves
them. The ratio is that of the medians. The last side lists 200 layers more, of 10 packages among 60 others.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

SIDES = {
    "import pluggy, importlib_metadata": ["-c", "import pluggy, importlib_metadata"],
    "nacre layers": ["-c", "from nacre.cli import main; main()", "layers"],
    "nacre --version": ["-c", "from nacre.cli import main; main()", "--version"],
    "import nacre": ["-c", "import nacre"],
}
MANY = "nacre layers, 200 more"
"""The side with other packages; its arguments are those of `nacre layers`."""
LIGHT = """from nacre import hookimpl

nacre_api = "1"


@hookimpl
def offer_layers():
    return {{f"Layer{{number}}of{0}": f"acme{0}.layers:Layer{{number}}" for number in range(20)}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as compiled:
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        variables["PYTHONPYCACHEPREFIX"] = compiled
        site = Path(compiled) / "site"
        write_packages(site, plugins=10, others=60)
        paths = os.pathsep.join([str(site), *filter(None, [variables.get("PYTHONPATH")])])
        samples: dict[str, list[float]] = {name: [] for name in (*SIDES, MANY)}
        for number in range(rounds + 1):
            for name in samples:
                arguments = SIDES["nacre layers" if name == MANY else name]
                own = {**variables, "PYTHONPATH": paths} if name == MANY else variables
                seconds = cpu_seconds([sys.executable, *arguments], own)
                samples[name] += [seconds] if number else []  # the first compiles
    medians = {name: statistics.median(found) for name, found in samples.items()}
    first, *_ = medians.values()
    print(f"CPU time of {rounds} fresh processes, Python {sys.version.split()[0]}")
    for name, median in medians.items():
        print(f"{name:<34}{1000 * median:6.0f} ms{median / first:7.2f} x")


def write_packages(site: Path, plugins: int, others: int) -> None:
    """Write packages as pip leaves them: with plugins of 20 layers each, and others, half of which have scripts."""
    for number in range(plugins + others):
        info = site / f"acme{number}-1.0.dist-info"
        info.mkdir(parents=True)
        description = "a line of a description that nobody reads here\n" * 200
        head = f"Metadata-Version: 2.1\nName: acme{number}\nVersion: 1.0\n\n"
        (info / "METADATA").write_text(head + description, encoding="utf-8")
        (site / f"acme{number}").mkdir()
        light = number < plugins
        (site / f"acme{number}" / "__init__.py").write_text(LIGHT.format(number) if light else "", encoding="utf-8")
        group = "nacre.plugins" if light else "console_scripts"
        if light or number % 2:
            (info / "entry_points.txt").write_text(f"[{group}]\nacme{number} = acme{number}\n", encoding="utf-8")


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
