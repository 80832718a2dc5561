"""LSTM and GRU beside PyTorch's, in turns: `python -m benchmarks.recurrent`; see README.md.

Each line is one layer at one size, or with --text the model of characters of examples/text around it: milliseconds of a
step of nacre and of the best of PyTorch's modes, the share of oneDNN's product of 1024 x 1024 matrices that nacre
reaches, how many times as long PyTorch takes (the median of the rounds, and their range; above 1 where nacre is
faster), and the goal.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .nets import read, save
from .sides import PAUSE, SECONDS, Side, Worker, machine
from .worker import sample_of

SIZES = [(50, 64, 128), (50, 64, 512), (100, 16, 256)]
"""(steps, batch, features): the state has as many numbers as a step of the input."""

TEXT, LETTERS = (50, 64, 256), 100
"""Size of the model of characters, whose goals are those of 100 x 16 x 256, and how many characters there are."""

BLOCKS = {"LSTM": 4, "GRU": 3, "RNN": 1}
GOALS = {
    ("onednn", "LSTM", "training"): (1.2, 1.05, 1.15),
    ("onednn", "LSTM", "inference"): (0.95, 0.95, 0.95),
    ("onednn", "LSTM", "training, bf16"): (1.2, 1.2, 1.2),
    ("onednn", "LSTM", "inference, bf16"): (0.85, 0.85, 0.85),
    ("onednn", "GRU", "training"): (1.8, 1.4, 1.8),
    ("onednn", "GRU", "inference"): (1.8, 1.8, 1.8),
    ("onednn", "GRU", "training, bf16"): (2.0, 1.3, 2.0),
    ("onednn", "GRU", "inference, bf16"): (1.5, 1.5, 1.5),
    ("numpy", "GRU", "training"): (1.3, 1.1, 1.3),
    ("numpy", "GRU", "inference"): (0.9, 0.9, 0.9),
    ("numpy", "LSTM", "training"): (0.5, 0.5, 0.5),
    ("numpy", "LSTM", "inference"): (0.38, 0.38, 0.38),
}


@dataclass(frozen=True)
class Case:
    """A layer at a size, and what is done with it."""

    cell: str
    size: tuple[int, int, int]
    predict: bool = False
    bf16: bool = False
    text: bool = False

    @property
    def inputs(self) -> int:
        """The numbers in each step of the input."""
        return LETTERS if self.text else self.size[2]

    @property
    def work(self) -> str:
        """What is done, as in GOALS."""
        return ("inference" if self.predict else "training") + ", bf16" * self.bf16

    @property
    def operations(self) -> int:
        """The operations of the products of a step."""
        steps, batch, features = self.size
        products = BLOCKS[self.cell] * features * (self.inputs + features) + self.text * features * LETTERS
        return 2 * steps * batch * products * (1 if self.predict else 3)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the parameters; those of the score are of the layer behind."""
        features = self.size[2]
        wide = BLOCKS[self.cell] * features
        biases = {f"bias_{part}_l0": (wide,) for part in ("ih", "hh")}
        score = {"score_weight": (LETTERS, features), "score_bias": (LETTERS,)} if self.text else {}
        return {"weight_ih_l0": (wide, self.inputs), "weight_hh_l0": (wide, features), **biases, **score}


def main() -> None:
    """Print the lines of all cases, or do what a worker does."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cell", choices=BLOCKS, action="append", help="only this layer; may be given several times")
    parser.add_argument("--size", type=int, action="append", choices=range(len(SIZES)), help="only that of SIZES")
    parser.add_argument("--backend", action="append", help="only this one of nacre's; may be given several times")
    parser.add_argument("--text", action="store_true", help="the training of the model of characters instead")
    parser.add_argument("--predict", action="store_true", help="inference instead of training")
    parser.add_argument("--bf16", action="store_true", help="compute in bf16, PyTorch by autocast")
    parser.add_argument("--compile", action="store_true", help="PyTorch's compiled mode too")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cpu", action="store_true", help="count the processes' time, on one thread")
    parser.add_argument("--worker", nargs=2, metavar=("SIDE", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.threads = 1 if arguments.cpu else arguments.threads
    sizes = [TEXT] if arguments.text else [SIZES[size] for size in arguments.size or range(len(SIZES))]
    cases = [
        Case(cell, size, predict=arguments.predict, bf16=arguments.bf16, text=arguments.text)
        for cell in arguments.cell or ["LSTM", "GRU"]
        for size in sizes
    ]
    if arguments.worker:
        work(arguments.worker[0], Path(arguments.worker[1]), cases[0], arguments.threads)
        return
    print(machine(arguments.threads))
    heads = ["layer", "nacre", "ms", "of the peak", "PyTorch", "its ms", "nacre to it", "goal"]
    print(f"\n| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    backends = arguments.backend or (["onednn"] if arguments.bf16 else ["onednn", "numpy"])
    modes = ["eager", *(["compile"] if arguments.compile else [])]
    peers = [Side(f"PyTorch {mode}", malloc) for mode in modes for malloc in (False, True)]
    for case in cases:
        for line in lines(case, [Side(f"nacre {one}") for one in backends], peers, arguments):
            print(line, flush=True)


def lines(case: Case, ours: list[Side], peers: list[Side], arguments: argparse.Namespace) -> Iterator[str]:
    """Yield a line for each side of nacre."""
    times: dict[Side, list[float]] = {side: [] for side in (*ours, *peers)}
    peaks: list[float] = []
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        describe(case, folder)
        workers = {side: stack.enter_context(started(side, case, folder, arguments.threads)) for side in times}
        for worker in workers.values():
            worker.ask("check")
        compare(case, folder, list(times))
        for turn in range(arguments.rounds):
            for side, worker in list(workers.items())[:: 1 if turn % 2 else -1]:
                time.sleep(PAUSE)
                times[side].append(worker.ask(f"{'cpu' if arguments.cpu else 'sample'} {SECONDS}"))
            peaks.append(workers[ours[0]].ask("peak"))
    best = min(peers, key=lambda side: statistics.median(times[side]))
    for side in ours:
        took, theirs = statistics.median(times[side]), statistics.median(times[best])
        ratios = [other / one for one, other in zip(times[side], times[best], strict=True)]
        span = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        share = f"{case.operations / took / statistics.median(peaks):.0%}"
        goal = GOALS.get((side.name.split()[1], case.cell, case.work), (0.0,) * len(SIZES))
        goal = goal[-1 if case.text else SIZES.index(case.size)]
        size = ("text, " if case.text else "") + " x ".join(map(str, case.size))
        cells = [f"{case.cell} {size}, {case.work}", side.name.split()[1], f"{1e3 * took:.2f}", share]
        yield f"| {' | '.join([*cells, str(best).removeprefix('PyTorch '), f'{1e3 * theirs:.2f}', span, str(goal)])} |"


def describe(case: Case, folder: Path) -> None:
    """Write the sequences and the first parameters of a case into a folder."""
    random, (steps, batch, features) = np.random.default_rng(0), case.size
    save(folder, "x", random.normal(size=(batch, steps, features)).astype(np.float32))
    save(folder, "letters", random.integers(0, LETTERS, (2, batch, steps)))
    for name, shape in case.shapes.items():
        save(folder, name, random.uniform(-(features**-0.5), features**-0.5, shape).astype(np.float32))


def compare(case: Case, folder: Path, sides: list[Side]) -> None:
    """Raise SystemExit unless all sides have computed the same."""
    first, *others = sides
    wanted = ("y",) if case.predict else ("y", *(() if case.text else ("x",)), *case.shapes)
    for name in wanted:
        expected = read(folder / str(first), name)
        for side in others:
            error = np.linalg.norm(read(folder / str(side), name) - expected) / np.linalg.norm(expected)
            if not error <= (5e-2 if case.bf16 else 1e-4):
                raise SystemExit(f"{case}: {name} of {first} and {side} differ by {error:.1e} of their norm")


def started(side: Side, case: Case, folder: Path, threads: int) -> Worker:
    """Return a side at work on a case."""
    (folder / str(side)).mkdir()
    which = ["--worker", str(side), str(folder), "--cell", case.cell]
    which += ["--text"] if case.text else ["--size", str(SIZES.index(case.size))]
    which += [f"--{flag}" for flag in ("predict", "bf16") if getattr(case, flag)]
    return Worker(side, folder, threads, "benchmarks.recurrent", *which)


def work(name: str, folder: Path, case: Case, threads: int) -> None:
    """Answer commands: "check" saves what the first batch gives, "sample SECONDS" and "peak" measure."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    who, _, how = name.removesuffix(", malloc").partition(" ")
    if who == "nacre":
        side: Any = (OurText if case.text else Ours)(folder, case, how)
    else:
        side = (TheirText if case.text else Theirs)(folder, case, threads, compiled=how == "compile")
    for line in sys.stdin:
        command, _, value = line.strip().partition(" ")
        answer = None
        if command == "check":
            for found, array in side.first():
                save(folder / name, found, array)
            side.step()
        else:
            begin, counted = time.perf_counter(), time.process_time()
            answer = peak() if command == "peak" else sample_of(side.step, float(value))
            if command == "cpu":
                answer *= (time.process_time() - counted) / (time.perf_counter() - begin)
        print(json.dumps(answer), file=answers, flush=True)


class Ours:
    """One layer of nacre; to be trained, its top is added up, and the gradient of the bottom is wanted too."""

    def __init__(self, folder: Path, case: Case, backend: str) -> None:
        from nacre import InputLayer, Net, Solver, registry
        from nacre_layers import SumLossLayer

        steps, batch, features = case.size
        layers = [
            InputLayer(name="in", tops="x", shape=(steps, features), batch_size=batch),
            registry().open("layer", case.cell)(name="it", bottoms="x", tops="y", output_dim=features),
        ]
        options: dict[str, Any] = {"backend": backend, "compute": "bf16" if case.bf16 else None}
        if case.predict:
            self.net = Net("predicting", layers, phase="predict", **options)
        else:
            layers.append(SumLossLayer(name="loss", bottoms="y"))
            self.net = Net("training", layers, input_gradients=["x"], keep=["y"], **options)
        self.names = {name: f"it/{name}" for name in case.shapes}
        for name, ours in self.names.items():
            self.net.parameters[ours].value = read(folder, name)
        self.net.write("x", read(folder, "x"))
        self.step: Callable[[], Any] = self.net.forward
        if not case.predict:
            self.training = Solver("SGD", lr_policy=1e-6, momentum_policy=0.9).start(self.net)
            self.step = self.training.step

    def first(self) -> Iterator[tuple[str, Any]]:
        """Yield what the first batch gives, by name."""
        self.net.forward()
        yield "y", self.net.blob("y")
        if self.net.phase == "train":
            self.net.backward()
            yield "x", self.net.gradient("x")
            for name, ours in self.names.items():
                yield name, self.net.parameters[ours].gradient


class OurText(Ours):
    """The model of characters as examples/text has it, but for the states, which are not carried on."""

    def __init__(self, folder: Path, case: Case, backend: str) -> None:
        from nacre import InputLayer, Net, Solver, registry
        from nacre_layers import InnerProductLayer, OneHotLayer, SoftmaxLossLayer

        steps, batch, features = case.size
        layers = [
            InputLayer(name="in", tops=("x", "label"), shape=(steps,), batch_size=batch, dtype="int64"),
            OneHotLayer(name="onehot", bottoms="x", tops="onehot", n_class=LETTERS),
            registry().open("layer", case.cell)(name="it", bottoms="onehot", tops="hidden", output_dim=features),
            InnerProductLayer(name="score", bottoms="hidden", tops="y", output_dim=LETTERS, axis=-1),
            SoftmaxLossLayer(name="loss", bottoms=("y", "label"), axis=-1),
        ]
        compute = "bf16" if case.bf16 else None
        self.net = Net("text", layers, backend=backend, compute=compute, keep=["y"])
        self.names = {name: f"it/{name}" if "l0" in name else name.replace("_", "/") for name in case.shapes}
        for name, ours in self.names.items():
            self.net.parameters[ours].value = read(folder, name)
        for blob, letters in zip(("x", "label"), read(folder, "letters"), strict=True):
            self.net.write(blob, letters)
        self.training = Solver("Adam", lr_policy=1e-6, clip_norm=1.0).start(self.net)
        self.step = self.training.step

    def first(self) -> Iterator[tuple[str, Any]]:
        """Yield what the first batch gives, by name."""
        self.net.forward()
        yield "y", self.net.blob("y")
        self.net.backward()
        for name, ours in self.names.items():
            yield name, self.net.parameters[ours].gradient


class Theirs:
    """The same in PyTorch."""

    def __init__(self, folder: Path, case: Case, threads: int, *, compiled: bool) -> None:
        import torch

        torch.set_num_threads(threads)
        self.torch, self.bf16 = torch, case.bf16
        features = case.size[2]
        self.module = getattr(torch.nn, case.cell)(case.inputs, features, batch_first=True)
        self._read(folder, self.module)
        self.x = torch.from_numpy(read(folder, "x")).requires_grad_(not case.predict)
        self.call: Any = torch.compile(self.module) if compiled else self.module
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=1e-6, momentum=0.9, fused=True)
        self.step: Callable[[], Any] = self._predict if case.predict else self._train

    def _read(self, folder: Path, module: Any, begin: str = "") -> None:
        with self.torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(self.torch.from_numpy(read(folder, begin + name)))

    def _forward(self) -> Any:
        with self.torch.autocast("cpu", self.torch.bfloat16, enabled=self.bf16):
            return self.call(self.x)[0]

    def _predict(self) -> Any:
        with self.torch.inference_mode():
            return self._forward()

    def _backward(self) -> Any:
        self.optimizer.zero_grad()
        self.x.grad = None
        y = self._forward()
        loss = y.sum()
        loss.backward()
        return y, loss

    def _train(self) -> None:
        _, loss = self._backward()
        self.optimizer.step()
        float(loss.detach())

    def first(self) -> Iterator[tuple[str, Any]]:
        """Yield what the first batch gives, by name."""
        if not self.x.requires_grad:
            yield "y", self._predict().float().numpy()
            return
        y, _ = self._backward()
        yield "y", y.detach().float().numpy()
        yield "x", self.x.grad.numpy()  # pyright: ignore[reportOptionalMemberAccess]
        for name, parameter in self.module.named_parameters():
            yield name, parameter.grad.numpy()


class TheirText(Theirs):
    """The model of characters in PyTorch."""

    def __init__(self, folder: Path, case: Case, threads: int, *, compiled: bool) -> None:
        super().__init__(folder, case, threads, compiled=compiled)
        torch = self.torch
        self.score = torch.nn.Linear(case.size[2], LETTERS)
        self._read(folder, self.score, "score_")
        self.x, self.label = map(torch.from_numpy, read(folder, "letters"))
        self.parameters = [*self.module.parameters(), *self.score.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=1e-6, fused=True)

    def _backward(self) -> Any:
        torch = self.torch
        self.optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            y = self.score(self.call(torch.nn.functional.one_hot(self.x, LETTERS).float())[0])
        loss = torch.nn.functional.cross_entropy(y.flatten(0, 1).float(), self.label.flatten())
        loss.backward()
        return y, loss

    def _train(self) -> None:
        _, loss = self._backward()
        self.torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        float(loss.detach())

    def first(self) -> Iterator[tuple[str, Any]]:
        """Yield what the first batch gives, by name."""
        y, _ = self._backward()
        yield "y", y.detach().float().numpy()
        for begin, module in (("", self.module), ("score_", self.score)):
            for name, parameter in module.named_parameters():
                yield begin + name, parameter.grad.numpy()


def peak() -> float:
    """Return the operations a second of oneDNN's product of 1024 x 1024 matrices of float32."""
    from nacre_onednn.dnnl import arguments as arg
    from nacre_onednn.dnnl.library import library
    from nacre_onednn.dnnl.primitives import Primitive, attributes, call, plain

    from .batch_norm import prepare, sample

    square = plain(1024, 1024)
    primitive = Primitive("matmul", library().engine, square, square, None, square, attributes())
    product = call(primitive, {arg.SRC: ("a", square), arg.WEIGHT: ("b", square), arg.DST: ("c", square)})
    threads = int(os.environ["OMP_NUM_THREADS"])
    library().set_threads(threads)
    run = prepare([product], {}, threads)
    run()
    begin, counted = time.perf_counter(), time.process_time()
    seconds = sample(run)
    if threads == 1:  # of the processor's time, which others may share
        seconds *= (time.process_time() - counted) / (time.perf_counter() - begin)
    return 2 * 1024**3 / seconds


if __name__ == "__main__":
    main()
