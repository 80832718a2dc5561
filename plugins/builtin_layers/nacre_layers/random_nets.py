"""Random nets, with which a backend is tested as a whole: kernels beside each other, and what is computed in one.

`RandomNet(7).check("onednn")` makes the net that follows from the number 7, and compares it on a backend with the
layers' own code. A package that has layers of its own adds them to `RandomNet.kinds`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from nacre import HostMemory, Layer, NacreError, Net, registry

Shape = tuple[int, ...]

NEURONS = ("ELU", "Hardswish", "LReLU", "Mish", "SELU", "STanh", "Sigmoid", "Softplus", "Tanh")
COMMON = ("Activation", "BatchNorm", "Convolution", "Convolution", "ElementWise", "Pooling", "Residual")
OPERATIONS = ("Maximum", "Mean", "Multiply", "Subtract")
MOST = 60_000
"""Numbers of a blob."""
SAMPLES = 3
"""Runs in float32 that show how far roundings reach: in one of them they may cancel by chance."""


class Plain(HostMemory):
    """NumPy arrays without kernels: every layer runs through its own code."""

    name = "plain"
    lineage = ("plain",)


def _filters(net: RandomNet, shape: Shape) -> dict[str, Any]:
    groups = net.one_of(1, 1, 1, 2, shape[1])
    filters = max(groups, net.one_of(1, 3, 8, 16, 16, 20, 32, shape[1], shape[1]) // groups * groups)
    kernel = net.up_to(1, 3)
    sizes = {"kernel": kernel, "stride": net.one_of(1, 1, 1, 2), "pad": net.one_of(0, kernel // 2)}
    sizes |= {"dilation": net.one_of(1, 1, 1, 2), "n_filter": filters, "n_group": groups}
    return {**sizes, "bias": net.chance(0.6), "neuron": net.neuron()}


def _pooling(net: RandomNet, shape: Shape) -> dict[str, Any]:
    kernel = net.up_to(1, 3)
    sizes = {"kernel": kernel, "stride": net.up_to(1, 2), "pad": net.one_of(0, kernel // 2)}
    return {**sizes, "pooling": net.one_of("Max", "Mean"), "neuron": net.neuron()}


def _element_wise(net: RandomNet, shape: Shape) -> dict[str, Any]:
    kind = "Add" if net.chance(0.6) else net.one_of(*OPERATIONS)
    others = 1 if kind == "Subtract" else net.one_of(1, 1, 1, 2)
    coefficients = [net.one_of(-1.0, 0.5, 2.0) for _ in range(others + 1)] if net.chance(0.3) else []
    operation = {"type": kind, "coefficients": coefficients} if kind == "Add" else {"type": kind}
    return {"others": others, "operation": operation, "neuron": net.neuron()}


def _norm(net: RandomNet, shape: Shape) -> dict[str, Any]:
    return {"scale": net.chance(0.7), "bias": net.chance(0.7), "neuron": net.neuron()}


def _inner_product(net: RandomNet, shape: Shape) -> dict[str, Any]:
    sizes = {"output_dim": net.one_of(1, 5, 16, 33), "axis": net.one_of(1, -1) if len(shape) > 2 else 1}
    return {**sizes, "bias": net.chance(0.7), "neuron": net.neuron()}


def _block(net: RandomNet, shape: Shape) -> list[dict[str, Any]]:
    """Return layers whose top has the shape of the bottom."""
    channels = shape[1]
    images = {"type": "Convolution", "n_filter": channels, "kernel": 3, "pad": 1}
    filters = images if len(shape) > 2 else {"type": "InnerProduct", "output_dim": channels}
    layers = [{**filters, "neuron": net.neuron()}, *([{"type": "BatchNorm"}] if net.chance(0.7) else [])]
    return layers * net.up_to(1, 2)


KINDS: dict[str, Callable[[RandomNet, Shape], dict[str, Any]]] = {
    "Convolution": _filters,
    "Deconvolution": _filters,
    "BatchNorm": _norm,
    "Pooling": _pooling,
    "ElementWise": _element_wise,
    "InnerProduct": _inner_product,
    "GlobalPooling": lambda net, shape: {"pooling": net.one_of("Max", "Mean")},
    "AdaptivePooling": lambda net, shape: {"size": net.up_to(1, 3), "neuron": net.neuron()},
    "Activation": lambda net, shape: {"neuron": net.one_of("ReLU", *NEURONS)},
    "Dropout": lambda net, shape: {"ratio": 0.3, "writes": False},
    "LayerNorm": _norm,
    "RMSNorm": lambda net, shape: {"neuron": net.neuron()},
    "GroupNorm": lambda net, shape: {"n_group": net.one_of(1, 2, shape[1]), "neuron": net.neuron()},
    "LRN": lambda net, shape: {},
    "Concat": lambda net, shape: {"others": net.up_to(1, 2), "apart": 1},
    "Stack": lambda net, shape: {"others": 1, "axis": net.one_of(1, -1)},
    "Softmax": lambda net, shape: {"axis": net.one_of(1, -1)},
    "MatMul": lambda net, shape: {"others": 1, "transpose_b": True},
    "Transpose": lambda net, shape: {"axes": (1 + net.random.permutation(len(shape) - 1)).tolist()},
    "Flatten": lambda net, shape: {},
    "PReLU": lambda net, shape: {"shared": net.chance(0.3)},
    "GLU": lambda net, shape: {},
    "Scale": lambda net, shape: {"bias": net.chance(0.5), "neuron": net.neuron()},
    "Power": lambda net, shape: {"scale": 0.5, "shift": 1.0, "power": 2.0},
    "Pad": lambda net, shape: {"pad": 1},
    "Resize": lambda net, shape: {"factor": 2.0, "mode": net.one_of("nearest", "bilinear")},
    "Reduction": lambda net, shape: {"operation": "mean", "axis": net.one_of(1, 2)},
    "Tile": lambda net, shape: {"tiles": 2},
    "Residual": lambda net, shape: {"layer": _block(net, shape), "neuron": net.neuron()},
    "Repeat": lambda net, shape: {"times": 2, "layer": _block(net, shape), "shared": net.chance(0.3)},
    "LSTM": lambda net, shape: {"output_dim": net.one_of(4, 16)},
    "GRU": lambda net, shape: {"output_dim": net.one_of(4, 16)},
}


class RandomNet:
    """A net of 3 to 10 layers that were drawn one after the other.

    Layers read any blobs that fit, most often one that no layer has read yet. What nobody reads at the end goes into
    inner products, whose sum is the `output`, and the loss. One of four nets keeps a blob.

    Args:
        number: what the net follows from. Another version of nacre may draw another net.

    Attributes:
        drawn: the types of the layers, and their fields.
        phase: train, test or predict.
        keep: the names of blobs that the net keeps.
        kinds: the types of layers, and what is drawn for a bottom of a shape, (records, ...): their fields; how many
            `others` bottoms there are, of its shape but for the axis `apart`; and whether the layer `writes` a top of
            its own.
    """

    kinds: ClassVar = KINDS

    def __init__(self, number: int) -> None:
        self.number, self.random = number, np.random.default_rng(number)
        self.batch_size = self.one_of(1, 2, 3, 4, 17)
        channels = self.one_of(1, 3, 8, 16, 16, 17, 32, 48)
        image = (channels, self.up_to(4, 10), self.up_to(4, 10))
        tokens, film = (self.up_to(2, 9), channels), (channels, 4, self.up_to(3, 5), 3)
        shape = self.one_of(image, image, image, tokens, tokens[::-1], film, (channels,))
        data = {"name": "data", "tops": "data", "shape": shape, "batch_size": self.batch_size}
        self.drawn: list[tuple[str, dict[str, Any]]] = [("Input", data)]
        self.shapes: dict[str, Shape] = {"data": (self.batch_size, *shape)}
        self.unread: list[str] = []
        wanted = self.up_to(3, 10)
        for _ in range(6 * wanted):
            if len(self.drawn) <= wanted:
                self._draw()
        self._end()
        self.phase = self.one_of("train", "train", "predict", "test")
        if self.phase == "predict":
            del self.drawn[-2:]
        self.keep = [self.one_of(*self.shapes)] if self.chance(0.25) else []

    def layers(self) -> list[Layer]:
        """Make the layers, with parameters of their own."""
        return [registry().open("layer", kind)(**fields) for kind, fields in self.drawn]

    # Random things

    def one_of(self, *things: Any) -> Any:
        return things[int(self.random.integers(len(things)))]

    def up_to(self, least: int, most: int) -> int:
        return int(self.random.integers(least, most + 1))

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def neuron(self) -> str:
        return self.one_of("Identity", "Identity", "ReLU", self.one_of(*NEURONS))

    # Layers

    def _draw(self) -> None:
        """Add a layer, if it fits."""
        likely = {"BatchNorm": "ElementWise", "Convolution": "BatchNorm"}.get(self.drawn[-1][0], "")
        kind = likely if likely and self.chance(0.3) else self.one_of(self.one_of(*COMMON), self.one_of(*self.kinds))
        bottom = self.unread[-1] if self.unread and self.chance(0.6) else self.one_of(*self.shapes)
        fields = self.kinds[kind](self, self.shapes[bottom])
        bottoms = [bottom, *(self.one_of(*self._like(bottom, fields)) for _ in range(fields.pop("others", 0)))]
        tops = {"tops": f"top{len(self.drawn)}"} if fields.pop("writes", True) else {}
        self._add(kind, bottoms=bottoms, **tops, **fields)

    def _like(self, bottom: str, fields: dict[str, Any]) -> Sequence[str]:
        """Return the blobs that can be joined to one: those of its shape, apart from an axis."""
        axis = fields.pop("apart", None)

        def rest(shape: Shape) -> tuple[int, ...]:
            return shape if axis is None else (*shape[:axis], 0, *shape[axis + 1 :])

        found = [name for name, shape in self.shapes.items() if rest(shape) == rest(self.shapes[bottom])]
        return [name for name in found if name != bottom] or found

    def _add(self, kind: str, **fields: Any) -> str:
        """Add a layer, if it fits; return its top."""
        self.drawn.append((kind, {"name": f"layer{len(self.drawn)}", **fields}))
        layers = self.layers()
        try:
            net = Net("net", layers, backend=Plain(), allocate=False, insert_splits=True)
        except NacreError:
            self.drawn.pop()
            return ""
        top = fields.get("tops", fields["bottoms"][0])
        shape = tuple(net.memory.final[top].shape)
        net.shutdown()
        if len(shape) < 2 or prod(shape) > MOST:
            self.drawn.pop()
            return ""
        self.shapes[top] = shape
        self.unread = [one for one in self.unread if one not in fields["bottoms"] or one == top]
        self.unread += [] if top in self.unread else [top]
        return top

    def _end(self) -> None:
        ends = self.unread or ["data"]
        scores = [self._add("InnerProduct", bottoms=[one], tops=f"{one}_scores", output_dim=3) for one in ends]
        self.output = self._add("ElementWise", bottoms=scores, tops="scores") if len(scores) > 1 else scores[0]
        self.drawn.append(("Input", {"name": "label", "tops": "label", "batch_size": self.batch_size}))
        self.drawn.append(("SoftmaxLoss", {"name": "loss", "bottoms": [self.output, "label"]}))

    # Results

    def check(self, backend: Any, **options: Any) -> None:
        """Raise AssertionError if a backend, or one of this name, gives other results than the layers' own code.

        That runs in float64. Results may be off by 0.002 of their norm, or by 30 times what that code is in float32,
        also on numbers that were moved by half a digit: some gradients are small sums of large numbers. Compared are
        two passes: the loss, or in phase predict the output, gradients, running statistics and what is kept. `options`
        are those of the net, such as `compute`.
        """
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            exact = self.results(Plain(), dtype="float64")
            usual = [self.results(Plain(), moved=number, dtype="float32") for number in range(SAMPLES)]
            found = self.results(backend, **options)
        gradients = [np.linalg.norm(one) for name, one in exact.items() if name.startswith("gradient")]
        for name, one in exact.items():
            norm = max(np.linalg.norm(one), 1e-3 * max(gradients) if name.startswith("gradient") else 1e-6)
            rounded = [np.linalg.norm(sample[name] - one) for sample in usual]
            limit = max(2e-3, 30 * max(rounded) / norm)
            error = np.linalg.norm(found[name] - one) / norm
            if np.isfinite(rounded).all() and not error <= limit:  # nor may it be NaN
                layers = "\n".join(f"  {kind} {fields}" for kind, fields in self.drawn)
                raise AssertionError(
                    f"net {self.number}, in phase {self.phase}: {name} is off by {error:.2g} of its norm, allowed "
                    f"{limit:.2g}; its layers:\n{layers}"
                )

    def results(self, backend: Any, moved: int = 0, **options: Any) -> dict[str, Any]:
        """Return what two passes give: the output or the loss, gradients, statistics, and what is kept.

        With a number `moved`, data and parameters are off by 6e-8 of each number, at random.
        """
        made = {"backend": backend, "phase": self.phase, "keep": self.keep, "insert_splits": True, "seed": 3, **options}
        found: dict[str, Any] = {}
        other = np.random.default_rng(moved)

        def near(values: Any) -> Any:
            return values * (1 + 6e-8 * other.normal(size=np.shape(values))) if moved else values

        with Net("net", self.layers(), **made) as net:
            self._fill(net, near)
            random = np.random.default_rng(self.number)
            for step in range(2):
                net.write("data", near(random.normal(size=self.shapes["data"])))
                if self.phase != "predict":
                    net.write("label", random.integers(0, 3, self.batch_size))
                net.forward()
                if self.phase == "train":
                    net.backward()
                found |= {f"{name}, pass {step}": np.array(value, float) for name, value in self._read(net)}
        return found

    def _read(self, net: Net) -> list[tuple[str, Any]]:
        blobs = [*self.keep, *([self.output] if self.phase == "predict" else [])]
        found: list[tuple[str, Any]] = [(name, net.blob(name)) for name in blobs]
        if self.phase != "predict":
            found.append(("loss", net.loss()))
        for name, one in net.parameters.items():
            if self.phase == "train" and one.gradient is not None:
                found.append((f"gradient of {name}", one.gradient))
            if name.endswith(("mean", "variance")):
                found.append((name, one.value))
        return found

    def _fill(self, net: Net, near: Callable[[Any], Any]) -> None:
        """Give parameters numbers, or some near them, with which blobs neither grow nor vanish."""
        random = np.random.default_rng(self.number)
        for name, one in sorted(net.parameters.items()):
            summed = prod(one.shape[1:]) if len(one.shape) > 1 else 1
            values = random.normal(0.1 if summed == 1 else 0, summed**-0.5, one.shape)
            one.value = near(np.abs(values) + 0.3 if name.endswith("variance") else values)
