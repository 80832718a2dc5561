"""Writes docs/pictures/*.svg, what pages and the README show: python docs/make_pictures.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import nacre
from nacre import Net, Solver
from nacre.config import load
from nacre_layers import ActivationLayer

DOCS = Path(__file__).parent
LENET = DOCS.parent / "examples/digits/lenet.toml"
WIDTH, HEIGHT, COLUMNS = 150, 130, 4
"""Of one function's panel, in pixels, and how many stand side by side."""
POLICIES: dict[str, dict[str, Any]] = {
    "Cosine": {"n_iter": 100},
    "Exp": {"gamma": 0.97},
    "Fixed": {},
    "Inv": {"gamma": 0.1, "power": 0.75},
    "Linear": {"n_iter": 100},
    "MultiStep": {"gamma": 0.5, "steps": [30, 70]},
    "Poly": {"power": 2.0, "n_iter": 100},
    "Sigmoid": {"gamma": -0.1, "stepsize": 50},
    "Step": {"gamma": 0.5, "stepsize": 25},
}


@dataclass(frozen=True)
class Frame:
    """The part of a plane that a panel shows."""

    left: float
    right: float
    low: float
    high: float

    def points(self, places: Iterable[tuple[float, float]]) -> str:
        """Return points of a panel, with so few digits that the last bits of a function change nothing."""
        spans = self.right - self.left, self.high - self.low
        found = ((x - self.left, self.high - y) for x, y in places if self.low <= y <= self.high)
        scaled = ((10 + x / spans[0] * (WIDTH - 20), 24 + y / spans[1] * (HEIGHT - 34)) for x, y in found)
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in scaled)

    def axes(self) -> list[list[tuple[float, float]]]:
        """Return the axes as lines."""
        return [[(self.left, 0.0), (self.right, 0.0)], [(0.0, self.low), (0.0, self.high)]]


def pictures() -> dict[str, str]:
    """Return the text of every picture, by its name."""
    with load(LENET).net("train", backend="numpy", allocate=False) as net:
        digits = nacre.registry().open("drawing", "svg")().draw(net.summary())
    return {"digits.svg": digits, "neurons.svg": neurons(), "policies.svg": policies()}


def neurons() -> str:
    """Return the curves of nacre's neurons, each with its default fields."""
    frame, x = Frame(-4, 4, -2, 3), np.linspace(-4, 4, 161)[np.newaxis]
    offers = [offer for offer in nacre.registry().offers("neuron") if offer.distribution == "nacre"]
    made = {offer.name: nacre.registry().open_offer(offer)() for offer in offers}
    layers = {name: ActivationLayer(bottoms="x", tops="y", neuron=neuron) for name, neuron in made.items()}
    curves = {name: layer.at_work("numpy", x, dtype="float64").forward(x) for name, layer in layers.items()}
    return _drawn(frame, {name: zip(x[0], y[0], strict=True) for name, y in curves.items()})


def policies() -> str:
    """Return the learning rates of 100 iterations by nacre's policies that need no validation."""
    x, y = nacre.L.MemoryData(data=[np.zeros((1, 1)), np.zeros((1, 1))], tops=["x", "y"], batch_size=1)()
    net, curves = Net("one", [nacre.L.SquareLoss()(nacre.L.InnerProduct(output_dim=1)(x), y)], backend="numpy"), {}
    for name, fields in POLICIES.items():
        policy = nacre.registry().open("lr_policy", name)(base=1.0, **fields)
        with Solver("SGD", lr_policy=policy, callbacks=[]).start(net) as training:
            curves[name] = [(float(step), training.rate.rate(step)) for step in range(101)]
    return _drawn(Frame(0, 100, 0, 1.1), curves)


def _drawn(frame: Frame, curves: Mapping[str, Iterable[tuple[float, float]]]) -> str:
    width, height = WIDTH * COLUMNS, HEIGHT * -(-len(curves) // COLUMNS)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">'
    panels = (line for number, curve in enumerate(curves.items()) for line in _panel(frame, number, *curve))
    return "\n".join([head, *panels, "</svg>", ""])


def _panel(frame: Frame, number: int, name: str, curve: Iterable[tuple[float, float]]) -> Iterator[str]:
    left, top = number % COLUMNS * WIDTH, number // COLUMNS * HEIGHT
    yield f'<g transform="translate({left} {top})" fill="none">'
    yield f'<text x="{WIDTH / 2}" y="16" fill="#777777" font-size="13" text-anchor="middle">{name}</text>'
    for axis in frame.axes():
        yield f'<polyline points="{frame.points(axis)}" stroke="#bbbbbb"/>'
    yield f'<polyline points="{frame.points(curve)}" stroke="#3b6ea5" stroke-width="2"/>'
    yield "</g>"


if __name__ == "__main__":
    (DOCS / "pictures").mkdir(exist_ok=True)
    for name, text in pictures().items():
        (DOCS / "pictures" / name).write_text(text, encoding="utf-8")
