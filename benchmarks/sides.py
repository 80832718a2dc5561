"""Those that are compared, each in a process of its own, and whether they have computed the same."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .nets import NETS, read

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


def installed(*modules: str) -> bool:
    """Return whether all these modules can be imported."""
    return all(importlib.util.find_spec(module) for module in modules)


def machine(*threads: int) -> str:
    """Describe the machine, the versions, and the numbers of threads."""
    import nacre
    from nacre.snapshots.environment import environment

    told = environment()
    core = os.environ.get("OPENBLAS_CORETYPE")
    held = f" (OPENBLAS_CORETYPE={core} holds NumPy's products to that processor's instructions)" if core else ""
    numbers = " and ".join(map(str, threads))
    names = ("torch", "jax", "onnxruntime")
    others = "".join(f", {name} {_version(name)}" for name in names if installed(name))
    return (
        f"nacre {nacre.__version__}, NumPy {told['numpy']}{held}{others}, Python {sys.version.split()[0]}; "
        f"{told.get('processor', 'unknown processor')}, {numbers} threads; {time.strftime('%Y-%m-%d')}"
    )


def _version(distribution: str) -> str:
    from importlib import metadata

    return metadata.version(distribution)
