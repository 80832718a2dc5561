"""What is to be seen on a GPU, in one run: `python -m benchmarks.gpu`; see README.md.

The parts come in the order of their worth. Each is a process of its own, and writes a file of JSON after each of its
pieces, so that a run that is cut short has lost only the piece that it was at: the same command goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from .nets import ROOT
from .sides import caches

NETS = {
    "LeNet, 64": ("LeNet-64", 64),
    "LeNet, 512": ("LeNet-64", 512),
    "CIFAR full, 512": ("CIFAR full-100", 512),
    "AlexNet, 512": ("AlexNet-16", 512),
    "VGG-16, 128": ("VGG-16-8", 128),
    "ResNet-50, 256": ("ResNet-50-8", 256),
    "LSTM, 64": ("LSTM-64", 64),
}
"""Nets that are timed: those of benchmarks.nets, and records in a batch."""
OTHERS = {
    "ResNet-18, 256": ("ResNet-18-32", 256),
    "MobileNetV2, 256": ("MobileNetV2-32", 256),
    "U-Net, 64": ("U-Net-8", 64),
    "MLP-mixer, 512": ("MLP-mixer-64", 512),
    "Embedding, 512": ("Embedding-64", 512),
    "M5, 256": ("M5-32", 256),
    "DCGAN generator, 128": ("DCGAN generator-32", 128),
    "DCGAN discriminator, 128": ("DCGAN discriminator-32", 128),
    "Conv3d, 64": ("Conv3d-8", 64),
}
"""More of them, for which there is no goal: they show what is slow."""
CHECKED = {"LeNet-64": 0, "CIFAR full-100": 0, "ResNet-20-128": 0, "LSTM-64": 0} | {
    net: 4 for net, _ in OTHERS.values()
}
"""Nets whose gradients and graphs are checked, and records in a batch, 0 for those of the net's file."""
LEARNED = {"LeNet-64": (0.003, 6), "CIFAR full-100": (0.01, 1), "LSTM-64": (0.01, 1)}
"""Nets whose losses are compared: at which rate, and with how many trainings of the numpy backend's."""
TIMED = ("tf32", "bf16")
WAYS = ("forward", "data", "weight")
UNCOMPILED = ["eager", "graph"]
GOALS = {"best": 1.0, "LeNet, 64 to eager": 5.0}

Pieces = Iterator[tuple[str, Callable[[], dict[str, Any]]]]


@dataclass(frozen=True)
class Settings:
    """On which backend, and how much: `small` is enough to see that a part runs, also on a machine without a GPU.

    Plans and compiled code are `kept` in a folder, so that they are made once in a run, and not again in the next one.
    """

    backend: str = "cupy"
    device: str = "cuda"
    small: bool = False
    kept: Path | None = None

    @property
    def checked(self) -> dict[str, int]:
        return {"LeNet-64": self.batch} if self.small else CHECKED

    @property
    def batch(self) -> int:
        return 4 if self.small else 0


# The parts


def versions(settings: Settings) -> Pieces:
    """What it runs on; the description of the device is what cuDNN takes in its place where there is none."""
    yield "nacre", partial(_packages, settings)
    yield "device", partial(_device, settings)
    yield "cuDNN's description of the device", _description


def _packages(settings: Settings) -> dict[str, Any]:
    from importlib import metadata

    from nacre import open_backend

    wanted = ("nacre", "numpy", "torch", "triton", "cupy", "nvidia-c", "nvidia-n")
    named = ((one.metadata["Name"] or "", one.version) for one in metadata.distributions())
    found = {name: version for name, version in named if name.startswith(wanted)}
    environment: dict[str, Any] = open_backend(settings.backend).environment()
    return {"ok": True, "packages": dict(sorted(found.items())), "environment": environment, "python": sys.version}


def _device(settings: Settings) -> dict[str, Any]:
    if settings.device == "cpu":
        return {"ok": True, "nvidia-smi": ""}
    try:
        done = subprocess.run(["nvidia-smi"], capture_output=True, text=True)
    except OSError as error:  # containers may lack it, where all else works
        return {"ok": True, "nvidia-smi": f"cannot be run: {error}"}
    return {"ok": done.returncode == 0, "nvidia-smi": done.stdout}


def _description() -> dict[str, Any]:
    import cudnn  # pyright: ignore[reportMissingImports]

    made: Any = cudnn
    return {"ok": True, "serialized": list(made.create_device_properties(0).serialize())}


def limits(settings: Settings) -> Pieces:
    """What the device itself does at best."""
    from . import gpu_checks, gpu_speed

    backend = gpu_checks.fresh(settings.backend)
    size, side, nodes = (1 << 12, 32, 5) if settings.small else (4 << 30, 8192, 1000)
    yield "copies", lambda: {"ok": True, **gpu_speed.copies(backend, size)}
    yield "products float32", lambda: {"ok": True, **gpu_speed.products(settings.backend, side, tf32=False)}
    yield "products tf32", lambda: {"ok": True, **gpu_speed.products(settings.backend, side, tf32=True)}
    yield "products bf16", lambda: {"ok": True, **gpu_speed.products_in_bf16(side, settings.device)}
    yield "graphs", lambda: {"ok": True, **gpu_speed.graphs(backend, nodes)}


def _fine(run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    return {"ok": True, **run()}


def kernels(settings: Settings) -> Pieces:
    """The tests of the backend and of its kernels, on the GPU itself; then the bytes a second of each."""
    from . import gpu_checks, gpu_kernels

    yield from _tests(settings, tests_of_the_backend())
    yield from _tests(settings, ["tests/backends/test_every_backend.py", "-k", "Cupy"])
    yield from _tests(settings, ["tests/layers/test_on_cupy.py", "-k", "replayed"])
    if (backend := gpu_checks.fresh(settings.backend)).captures:
        for dtype in ("float32", "bf16"):
            for name, timed in gpu_kernels.pieces(backend, dtype, 1 if settings.small else 10, small=settings.small):
                yield f"{name}, {dtype}", partial(_fine, timed)


def layers(settings: Settings) -> Pieces:
    """The suites of every kernel and layer, numerical gradients in float64 too, and what else runs on each backend."""
    yield from _tests(settings, ["tests/backends/test_cupy_kernels.py", "-m", "long"])
    for folder in FOLDERS[-1:] if settings.small else FOLDERS:
        yield from _tests(settings, [folder, "-k", settings.backend])


FOLDERS = ("tests/layers", "tests/solvers", "tests/data", "tests/core")
"""Those where a test may have one for each backend."""


def tests_of_the_backend() -> list[str]:
    """Return the files with tests that run on a GPU, or on the stand-in for CuPy where there is none."""
    folder = ROOT / "tests" / "backends"
    return [str(file.relative_to(ROOT)) for file in sorted(folder.glob("test_cupy*.py")) if file.stem not in HOST_ONLY]


HOST_ONLY = ("test_cupy_compiles",)
"""Tests for which a GPU makes no difference."""


def _tests(settings: Settings, words: list[str]) -> Pieces:
    """Yield some tests, shared out over processes where pytest-xdist is there; each has a context on the device."""
    from .gpu_checks import command

    # pytest-benchmark, where it is installed, warns beside xdist, and warnings are errors here
    without = ["-p", "no:cacheprovider", "-p", "no:benchmark"]
    given = ["pytest", "-v", "--tb=short", *without, "--no-header", *words]
    given += ["--collect-only"] if settings.small else []
    count = min((os.cpu_count() or 1) // 2, MOST_PROCESSES)
    if find_spec("xdist") and count > 1 and not settings.small:
        given += ["-n", str(count), "--dist", "worksteal"]
    how = "0" if settings.small else os.environ.get("NACRE_TEST_GPU", "1")
    yield " ".join(words), lambda: command(*given, limit=550, env={"NACRE_TEST_GPU": how})


MOST_PROCESSES = 9
"""In which tests run at once: each takes about half a gigabyte of the device."""


def libraries(settings: Settings) -> Pieces:
    """CuDNN's prepared plans, its first ones for each convolution, its BatchNorm beside ours; cuBLASLt's epilogue."""
    from . import gpu_checks, gpu_libraries

    backend = gpu_checks.fresh(settings.backend)
    calls = 1 if settings.small else 10
    for name in ("LeNet, 64",) if settings.small else ("ResNet-50, 256", "AlexNet, 512"):
        net, batch = NETS[name]
        convolutions = gpu_libraries.convolutions(net, settings.batch or batch)
        for precision, way in product(("float32", *TIMED), WAYS):
            prepared = partial(gpu_libraries.described, backend, convolutions[-1], way, precision)
            yield f"prepared, {name}, {way}, {precision}", prepared
        for one in convolutions[: 1 if settings.small else None]:
            for precision in TIMED:
                timed = partial(gpu_libraries.plans, backend, one, precision, calls)
                yield f"{gpu_libraries.text(one)}, {precision}", partial(_fine, timed)
    net, batch = NETS["ResNet-50, 256"]
    shapes = [(4, 8, 5, 5)] if settings.small else gpu_libraries.normalisations(net, batch)
    for shape in shapes:
        for precision in TIMED:
            timed = partial(gpu_libraries.batch_norm, backend, shape, precision, calls)
            yield f"BatchNorm {'x'.join(map(str, shape))}, {precision}", partial(_fine, timed)
    rows = 4 if settings.small else 512
    for name, (inputs, outputs) in gpu_libraries.LINEAR.items():
        sizes = (8, 8) if settings.small else (inputs, outputs)
        yield name, partial(_fine, partial(gpu_libraries.linear, backend, rows, *sizes))
        peer = partial(gpu_libraries.linear_of_torch, rows, *sizes, settings.device, tf32=backend.products.tf32)
        yield f"{name}, PyTorch", partial(_fine, peer)


def graphs(settings: Settings) -> Pieces:
    """Steps that are replayed give the bits of steps that are called, and take no memory; two runs give the same.

    And batches go up while the device computes; NCCL's sums can be captured.
    """
    from . import gpu_checks, gpu_speed

    steps = 4 if settings.small else 12
    if gpu_checks.fresh(settings.backend).captures:
        yield "NCCL", partial(gpu_checks.reduced_by_nccl, settings.backend)
        size, side = (1 << 12, 32) if settings.small else (1 << 28, 8192)
        yield "uploads", partial(gpu_speed.uploads, gpu_checks.fresh(settings.backend), size, side)
    for name, batch in settings.checked.items():
        yield f"replayed, {name}", partial(gpu_checks.replay, settings.backend, name, steps, batch)
    for name, batch in settings.checked.items():
        yield f"twice, {name}", partial(gpu_checks.twice, settings.backend, name, steps, batch)
    for name, batch in {}.items() if settings.small else settings.checked.items():
        yield f"twice, {name}, bf16", partial(gpu_checks.twice, settings.backend, name, steps, batch, "bf16")


def gradients(settings: Settings) -> Pieces:
    """Gradients beside the numpy backend's, and numerical ones; and that a NaN is not lost."""
    from . import gpu_checks

    for compute in (None,) if settings.small else (None, "bf16"):
        yield f"NaN, {compute or 'float32'}", partial(gpu_checks.not_numbers, settings.backend, compute)
    for name, batch in settings.checked.items():
        yield name, partial(gpu_checks.gradients, settings.backend, name, batch)
    for name in () if settings.small else ("LeNet-64", "CIFAR full-100"):
        yield f"{name}, numerical", partial(gpu_checks.numerical, settings.backend, name, 300)


def curves(settings: Settings) -> Pieces:
    """Losses of 200 steps beside the numpy backend's."""
    from . import gpu_checks

    steps = 6 if settings.small else 200
    for name, (rate, others) in list(LEARNED.items())[: 1 if settings.small else None]:
        how = {"rate": rate, "others": others}
        yield name, partial(gpu_checks.curve, settings.backend, name, steps, settings.batch, **how)
    for name, (rate, _) in () if settings.small else LEARNED.items():
        yield f"{name}, bf16", partial(gpu_checks.curve, settings.backend, name, steps, compute="bf16", rate=rate)


def speed(settings: Settings) -> Pieces:
    """Training steps beside PyTorch's, eager and as a CUDA graph."""
    yield from _speed(settings, NETS, UNCOMPILED)


def compiled(settings: Settings) -> Pieces:
    """Training steps beside PyTorch's compiled ones, which take minutes to begin."""
    yield from _speed(settings, NETS, ["compile"])


def others(settings: Settings) -> Pieces:
    """As `speed`, of nets for which there is no goal."""
    yield from _speed(settings, OTHERS, UNCOMPILED)


def _speed(settings: Settings, timed: dict[str, tuple[str, int]], modes: list[str]) -> Pieces:
    from . import gpu_speed

    how: dict[str, Any] = {"backend": settings.backend, "device": settings.device, "rounds": 5, "kept": settings.kept}
    if settings.small:
        how |= {"rounds": 1, "seconds": 0.01}
    if settings.device == "cpu":
        modes = [mode for mode in modes if mode != "graph"]  # of which there is none
    for name, (net, batch) in list(timed.items())[: 1 if settings.small else None]:
        for precision in ("float32",) if settings.small else TIMED:
            batch = settings.batch or batch
            yield f"{name}, {precision}", partial(gpu_speed.throughput, net, batch, precision, modes, **how)


PARTS = {
    part.__name__: part
    for part in (versions, limits, kernels, libraries, graphs, gradients, curves, speed, others, layers, compiled)
}
"""By their names, in the order in which they run: whether it is right comes before how fast it is.

The suites of layers find what the others do not only in layers that no net here has; PyTorch's compiled nets take the
longest to begin.
"""


# Running them


class Results:
    """What a part has found, in a file of JSON."""

    def __init__(self, folder: Path, part: str) -> None:
        self.file = folder / f"{part}.json"
        self.pieces: dict[str, dict[str, Any]] = {}
        if self.file.exists():
            self.pieces = json.loads(self.file.read_text("utf-8"))["pieces"]

    def put(self, piece: str, result: dict[str, Any]) -> None:
        """Write the result of a piece."""
        from nacre.files import atomic_write

        self.pieces[piece] = result
        text = json.dumps({"part": self.file.stem, "pieces": self.pieces}, indent=1)
        atomic_write(self.file, text.encode())


def run_part(name: str, settings: Settings, folder: Path, *, again: bool = False) -> None:
    """Run the pieces of a part that have no result, or with `again` those too whose result is not good.

    Those at which an earlier run was cut short come last.
    """
    results = Results(folder, name)
    for piece, run in sorted(PARTS[name](settings), key=lambda one: one[0] in results.pieces):
        known = results.pieces.get(piece)
        if known is not None and (known["ok"] or not again) and known.get("seconds") is not None:
            continue
        results.put(piece, {"ok": False, "error": "it was cut short, or its process ended"})
        begin = time.perf_counter()
        try:
            found = run()
        except (Exception, SystemExit) as error:
            found = {"ok": False, "error": str(error), "traceback": traceback.format_exc()}
        found = {**found, "seconds": round(time.perf_counter() - begin, 3)}
        results.put(piece, found)
        print(f"{name}: {piece}: {'ok' if found['ok'] else 'FAILED'} ({found['seconds']:.1f} s)", flush=True)


def rows(folder: Path) -> Iterator[list[str]]:
    """Yield the rows of the table, of whatever has been measured in a folder."""
    from_limits = Results(folder, "limits").pieces
    for name in (*NETS, *OTHERS):
        for precision in TIMED:
            parts = ("speed", "compiled", "others")
            found = [Results(folder, part).pieces.get(f"{name}, {precision}", {}) for part in parts]
            yield [name, precision, *_cells(name, [one for one in found if one.get("ok")], from_limits)]


def _cells(name: str, found: list[dict[str, Any]], limits: dict[str, Any]) -> list[str]:
    speeds: dict[str, float] = {}
    peaks: dict[str, float] = {}
    ratios: dict[str, float] = {}
    for one in reversed(found):  # nacre's own figure is that beside the modes that are timed first
        speeds |= one["records a second"]
        peaks |= one["peaks"]
        ratios |= one["ratios"]
    own = next((side for side in speeds if side.startswith("nacre")), "")
    cells = [f"{speeds[own]:,.0f}" if own else ""]
    cells += [f"{speeds[side]:,.0f}" if side in speeds else "" for side in SIDES]
    cells.append(f"{min(ratios.values()):.2f}" if ratios else "")
    cells.append(share(found[0], speeds[own], limits) if found else "")
    theirs = [peaks[side] for side in SIDES if peaks.get(side)]
    cells.append(f"{peaks[own]:,.0f} / {min(theirs):,.0f}" if own and peaks.get(own) and theirs else "")
    return cells


SIDES = ("PyTorch eager", "PyTorch graph", "PyTorch compile")
HEADS = [
    *("net, batch", "type", "nacre, records/s", "eager", "CUDA graph", "compile"),
    *("nacre to the best", "of the roofline", "memory, MB: nacre / least of PyTorch"),
]


def share(found: dict[str, Any], speed: float, limits: dict[str, Any]) -> str:
    """Return which share of what the device itself does a net reaches, or "" if that was not measured."""
    products, copies = (limits.get(one, {}) for one in (f"products {found['precision']}", "copies"))
    if not (products.get("ok") and copies.get("ok")):
        return ""
    work = found["work"]
    least = max(work["operations"] / products["operations"], work["bytes"] / copies["device"])
    return f"{least * speed / found['batch']:.0%}"


def table(folder: Path) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"| {' | '.join(HEADS)} |"
    yield "|---" * len(HEADS) + "|"
    for row in rows(folder):
        yield f"| {' | '.join(row)} |"


def failed(folder: Path) -> list[str]:
    """Return the pieces whose results are not good, and goals that were missed."""
    found: list[str] = []
    for part in PARTS:
        for piece, result in Results(folder, part).pieces.items():
            if not result["ok"]:
                found.append(f"{part}: {piece}: {result.get('error') or result.get('lines') or 'see its file'}")
            for side, ratio in result.get("ratios", {}).items() if part != "others" else ():
                goal = GOALS["best"]
                if piece.startswith("LeNet, 64,") and side == "PyTorch eager":
                    goal = GOALS["LeNet, 64 to eager"]
                if ratio < goal:
                    found.append(f"{part}: {piece}: {ratio:.2f} times as fast as {side}; the goal is {goal}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part; may be given several times")
    parser.add_argument("--out", type=Path, default=Path("gpu-results"), help="folder of the results")
    parser.add_argument("--seconds", type=float, default=570.0, help="when no further part is begun, and one is ended")
    parser.add_argument("--again", action="store_true", help="run pieces again whose results are not good")
    parser.add_argument("--table", action="store_true", help="only print what the folder has")
    parser.add_argument("--backend", default="cupy", help="of nacre")
    parser.add_argument("--device", default="cuda", help="of PyTorch")
    parser.add_argument("--small", action="store_true", help="only to see that it runs")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.here:
        kept = arguments.out / "kept"
        os.environ |= caches(kept)
        settings = Settings(arguments.backend, arguments.device, arguments.small, kept)
        run_part(arguments.here, settings, arguments.out, again=arguments.again)
        return 0
    end = time.perf_counter() + arguments.seconds
    unfinished: list[str] = []
    for part in [] if arguments.table else arguments.part or PARTS:
        words = [sys.executable, "-m", "benchmarks.gpu", "--here", part, "--out", str(arguments.out.absolute())]
        words += ["--backend", arguments.backend, "--device", arguments.device]
        words += [f"--{flag}" for flag in ("again", "small") if getattr(arguments, flag)]
        left = end - time.perf_counter()
        if left <= 0:
            unfinished.append(f"{part}: not begun within {arguments.seconds:.0f} s; the same command goes on")
            continue
        if ended := _ended(words, left):
            unfinished.append(f"{part}: {ended}")
    print("\n".join(["", *table(arguments.out), ""]))
    absent = [part for part in PARTS if not (arguments.out / f"{part}.json").exists()]
    wrong = [*failed(arguments.out), *unfinished]
    print("\n".join([*wrong, *(f"{part}: not run" for part in absent)]) or "all of it ran, and nothing failed")
    return 1 if wrong else 0


def _ended(words: list[str], seconds: float) -> str:
    """Run a command; return how it ended if that was not well. What it has started ends with it."""
    process = subprocess.Popen(words, cwd=ROOT, start_new_session=True)
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return "cut short; the same command goes on"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return f"its process ended with {code}" if code else ""


if __name__ == "__main__":
    sys.exit(main())
