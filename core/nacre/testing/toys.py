"""Small things for trainings in the conformance kit: a source, a layer, a loss, a method, policies and a recorder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from ..fields.checks import positive
from ..fields.types import Names, default
from ..protocols.components import Initializer
from ..protocols.layer import Layer
from ..protocols.parameter import Parameter
from ..protocols.state import LayerState, SourceState
from ..random import Random
from ..snapshots.snapshot import Snapshot
from ..training.callback import Callback, CallbackState
from ..training.method import Method, MethodState
from ..training.policies import LrPolicy, MomentumPolicy
from ..training.spans import Span
from ..training.training import Training
from .outside import saved

COUNT, WIDE = 10, 3
"""Records of the toy source, and numbers in each."""


class Normal(Initializer):
    """Numbers of the normal distribution."""

    def values(self, random: Random, shape: tuple[int, ...]) -> np.ndarray:
        return random.generator().standard_normal(shape)


class Begun(Initializer):
    """Numbers of the normal distribution that are the same in every layer."""

    number: int

    def values(self, random: Random, shape: tuple[int, ...]) -> np.ndarray:
        return np.random.default_rng(self.number).standard_normal(shape)


class NumbersLayer(Layer, is_source=True):
    """Ten records of three numbers and their targets, in another order in each pass of a training."""

    tops: Annotated[Names, ""] = default(("numbers", "target"))
    size: Annotated[int, positive] = 4


class NumbersState(SourceState, of=NumbersLayer, host_only=True):
    """The state of `NumbersLayer`. `fed` counts its batches."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob((layer.size, WIDE)), backend.blob((layer.size, 1))]
        random = np.random.default_rng(0)
        self.numbers_of = random.normal(size=(COUNT, WIDE))
        self.targets_of = self.numbers_of @ random.normal(size=(WIDE, 1)) + random.normal(size=(COUNT, 1)) / 4
        self.position = self.fed = 0
        self.random = backend.random(layer.name, lambda: self.epoch)

    def forward(self, inputs: list[Any]) -> None:
        trains, size = self.phase == "train", self.layer.size
        order = self.random.generator().permutation(COUNT) if trains else np.arange(COUNT)
        chosen = order[self.position : self.position + size].tolist()
        self.rows, self.position = len(chosen), self.position + size
        if self.position >= COUNT:  # what a batch lacks is the pass's first records
            self.rows = size if trains else self.rows
            self.position, self.epoch = 0, self.epoch + 1
        chosen += order[: size - len(chosen)].tolist()
        self.blobs[0][...], self.blobs[1][...] = self.numbers_of[chosen], self.targets_of[chosen]
        self.fed += 1

    def rewind(self) -> None:
        self.position = 0

    def memory(self) -> Mapping[str, Any]:
        return {"position": self.position, "epoch": self.epoch}

    def remember(self, memory: Mapping[str, Any]) -> None:
        self.position, self.epoch = int(memory["position"]), int(memory["epoch"])


class LineLayer(Layer, has_param=True, can_do_bp=True):
    """y = x · weight + bias, with a buffer that counts its batches."""

    bottoms: Annotated[Names, ""] = default(("numbers",))
    tops: Annotated[Names, ""] = default(("line",))


class LineState(LayerState, of=LineLayer, reads="inputs"):
    """The state of `LineLayer`."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.parameters = [
            Parameter("weight", (inputs[0].shape[1], 1), init=Normal()),
            Parameter("bias", (1,), init=Normal(), lr=2.0),
            Parameter("seen", (1,), init=Normal(), trainable=False),
        ]
        self.blobs = [backend.blob((inputs[0].shape[0], 1))]

    def forward(self, inputs: list[Any]) -> None:
        xp, (weight, bias, seen) = self.backend.xp, self.parameters
        xp.matmul(inputs[0], weight.blob, out=self.blobs[0])
        xp.add(self.blobs[0], bias.blob, out=self.blobs[0])
        if self.phase == "train":
            xp.add(seen.blob, 1, out=seen.blob)

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        xp, (weight, bias, _), dy = self.backend.xp, self.parameters, self.blobs_diff[0]
        if weight.gradient is not None:
            xp.matmul(inputs[0].T, dy, out=weight.gradient)
        if bias.gradient is not None:
            xp.sum(dy, axis=0, out=bias.gradient)
        if diffs[0] is not None:
            xp.matmul(dy, weight.blob.T, out=diffs[0])


class MeanSquareLayer(Layer, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = mean of (y - target)² / 2 over the rows that count."""

    bottoms: Annotated[Names, ""] = default(("line", "target"))


class MeanSquareState(LayerState, of=MeanSquareLayer, reads="inputs"):
    """The state of `MeanSquareLayer`."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.loss: Any = 0.0

    def forward(self, inputs: list[Any]) -> None:
        rows = self.backend.rows
        off = inputs[0][:rows] - inputs[1][:rows]
        self.loss = self.backend.xp.sum(off * off, dtype="float64") / 2 / rows

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        if diffs[0] is not None:
            rows = self.backend.rows
            diffs[0][...] = 0
            diffs[0][:rows] = (inputs[0][:rows] - inputs[1][:rows]) / rows


def toy_layers() -> list[Layer]:
    """Return a net that can be trained and validated."""
    return [NumbersLayer(name="numbers"), LineLayer(name="line"), MeanSquareLayer(name="loss")]


# Parameters with given gradients

SIZES = (1, 7, 16, 33, 70)
"""How many numbers the parameters of `PulledLayer` have: of one, of lanes, and between them."""
TURNS = 5
"""Iterations after which the gradients begin again."""


def pulling(number: int, turn: int, size: int) -> np.ndarray:
    """Return the gradient of parameter `number` in an iteration: large and small numbers, and some zeros."""
    random = np.random.default_rng([number, turn % TURNS])
    gradient = random.normal(size=size) * 10.0 ** random.integers(-2, 2, size)
    gradient[random.random(size) < 0.1] = 0
    return gradient


class PulledLayer(Layer, is_sink=True, has_loss=True, has_param=True, can_do_bp=True):
    """Parameters with given gradients: `numbers` are indices of `SIZES`; others are sizes themselves."""

    bottoms: Annotated[Names, ""] = default(("numbers", "target"))
    parts: Annotated[Any, "indices of SIZES, or larger sizes"] = (0, 1, 2, 3, 4)
    pace: Annotated[float, "the rate of its parameters"] = 1.0


class PulledState(LayerState, of=PulledLayer, reads=""):
    """The state of `PulledLayer`."""

    loss: Any = 0.0

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        sizes: list[int] = [SIZES[part] if part < len(SIZES) else part for part in layer.parts]
        self.parameters = [
            Parameter(f"w{part}", (size,), init=Begun(number=part), lr=layer.pace)
            for part, size in zip(layer.parts, sizes, strict=True)
        ]

    def ready(self) -> None:
        self.pulls = [
            [self.backend.constant(pulling(part, turn, one.size)) for turn in range(TURNS)]
            for part, one in zip(self.layer.parts, self.parameters, strict=True)
        ]

    def forward(self, inputs: list[Any]) -> None:
        """Do nothing."""

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        for parameter, pulls in zip(self.parameters, self.pulls, strict=True):
            if parameter.gradient is not None:
                self.backend.xp.copyto(parameter.gradient, pulls[self.backend.step % TURNS])
        for dx in diffs:
            if dx is not None:
                dx[...] = 0


# What trains


class Descent(Method):
    """v = momentum · v - rate · gradient; w = w + v."""

    def setup(self, backend: Any, spans: Sequence[Span]) -> MethodState:
        return DescentState(self, backend, spans)


class DescentState(MethodState):
    """The state of `Descent`."""

    def __init__(self, method: Any, backend: Any, spans: Sequence[Span]) -> None:
        super().__init__(method, backend, spans)
        self.history("velocity")

    def update(self) -> None:
        scalars = self.backend.scalars
        for span, velocity in zip(self.spans, self.histories["velocity"], strict=True):
            velocity *= scalars["momentum"]
            velocity -= scalars["rate"] * span.rate * span.gradient
            span.value += velocity


class Rates(LrPolicy):
    """Given learning rates, again and again."""

    each: Annotated[Any, "the rates"] = (0.05, 0.02, 0.03)

    def rate(self, iteration: int) -> float:
        return self.each[iteration % len(self.each)]


class Momenta(MomentumPolicy):
    """Given momenta, again and again."""

    each: Annotated[Any, "the momenta"] = (0.5, 0.9)

    def momentum(self, iteration: int) -> float:
        return self.each[iteration % len(self.each)]


# What looks on

REPORTED = 1e-9
"""How much a number that a callback remembers may differ after a restart."""


class Note:
    """A training after an iteration and its callbacks: where it is, and what it goes on from."""

    def __init__(self, training: Training) -> None:
        self.iteration = training.iteration
        scalars = training.net.scalars
        self.numbers = {name: float(scalars[name]) for name in ("rate", "momentum")} | {"loss": float(training.loss)}
        self.parameters = {name: handle.value for name, handle in training.net.parameters.items()}
        self.snapshot = as_saved(training.snapshot())

    def differs(self, other: Note, own: str) -> str:
        """Return what is not as in the other note, bit for bit; "" if all is. `own` is the tested member's name.

        What a callback remembers may be made of sums, which begin anew with a training: its numbers are compared to
        nine digits.
        """
        off = REPORTED if own.startswith("callback.") else 0.0
        if self.iteration != other.iteration:
            return f"the iteration is {self.iteration} instead of {other.iteration}"
        for name, number in self.numbers.items():
            if number != other.numbers[name]:
                return f"the {name} is {number:.9g} instead of {other.numbers[name]:.9g}"
        for name, value in self.parameters.items():
            if value.tobytes() != other.parameters[name].tobytes():
                return f"parameter '{name}' has other numbers"
        mine, others = (one.memory_of(own) for one in (self, other))
        for key in sorted({*mine, *others}):
            if not _alike(mine.get(key), others.get(key), off):
                return f"memory['{key}'] is {mine.get(key)!r:.40} instead of {others.get(key)!r:.40}"
        return ""

    def memory_of(self, member: str) -> dict[str, Any]:
        """Return the memory of a member of the training, as it lies in the snapshot."""
        start = f"memory/{member}/"
        arrays = {key[len(start) :]: one for key, one in self.snapshot.arrays.items() if key.startswith(start)}
        return {**self.snapshot.state["memory"].get(member, {}), **arrays}


def _alike(one: Any, other: Any, off: float) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    if not off or one.dtype.kind != "f" or other.dtype.kind != "f" or one.shape != other.shape:
        return np.array_equal(one, other)
    return np.allclose(one, other, rtol=off, atol=0, equal_nan=True)


def as_saved(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot as it comes back from a file."""
    arrays = {name: np.array(array) for name, array in snapshot.arrays.items()}
    return Snapshot(snapshot.iteration, arrays, json.loads(json.dumps(snapshot.state)))


class Recorder(Callback):
    """Takes a note after every iteration, behind all other callbacks."""

    runs_last = True

    every_n_iter: Annotated[int, "iterations between two notes"] = 1

    def start(self, training: Training) -> CallbackState:
        return RecorderState(self, training)


class RecorderState(CallbackState):
    """`Recorder` in one training: its `notes`, and a copy of the working folder beside each, if `copies` says where."""

    def __init__(self, callback: Any, training: Training) -> None:
        super().__init__(callback, training)
        self.notes: list[Note] = []
        self.memories: list[tuple[Mapping[str, Any], dict[str, Any]]] = []
        self.copies: Path | None = None
        self.watched: Any = None

    def run(self) -> None:
        if self.watched is not None:
            memory = self.watched.memory()
            self.memories.append((memory, saved(memory)))
        self.notes.append(Note(self.training))
        if self.copies is not None:
            shutil.copytree(Path.cwd(), self.copies / str(len(self.notes)))
