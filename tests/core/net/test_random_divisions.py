"""Random nets with random partitions, and the nets of the examples: ranks learn together what the whole net learns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, reject, settings
from hypothesis import strategies as st

from divided_nets import BATCH, check_equal, divisible
from forging import trials
from many_ranks import small
from nacre import Layer, TopologyError
from nacre.config import load
from nacre_data import MemoryDataLayer
from nacre_layers import (
    AccuracyLayer,
    ActivationLayer,
    BatchNormLayer,
    ConcatLayer,
    ConvolutionLayer,
    DropoutLayer,
    ElementWiseLayer,
    FlattenLayer,
    GlobalPoolingLayer,
    GRULayer,
    InnerProductLayer,
    LayerNormLayer,
    LRNLayer,
    LSTMLayer,
    PoolingLayer,
    PReLULayer,
    SliceLayer,
    SoftmaxLossLayer,
)

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = (  # without batch norm, which is another one by records, and small enough
    *("cifar/full", "cifar/quick", "digits/dropout_mlp", "digits/lenet", "lenet/lenet", "mlp/mlp", "text/gru"),
    *("text/lstm", "vae/vae"),
)
WAYS: dict[str, Callable[[int, Layer], int]] = {
    "by records": lambda number, layer: 0,
    "by features": lambda number, layer: 1,
    "mixed": lambda number, layer: (1, 0, -1)[number % 3],
    "data for convolutions, features for inner products": lambda number, layer: int("Convolution" not in str(layer)),
}
Shape = tuple[int, ...]
NEURONS = st.sampled_from(["Identity", "ReLU", "Tanh", "Sigmoid"])


class Plan:
    """A net in the making: its layers, and the blobs that need a reader, with the shapes of their records.

    `read` has those that some layer reads, which another may read too.
    """

    def __init__(self, draw: Any, parts: int, default: int) -> None:
        self.draw, self.parts, self.default = draw, parts, default
        self.layers: list[Layer] = []
        self.ends: dict[str, Shape] = {}
        self.read: set[str] = set()

    def __repr__(self) -> str:
        """Return what is divided in which way, in a line for each layer."""
        told = [f"{self.parts} ranks, partition_dim={self.default}"]
        for one in self.layers:
            given = one.given()
            given.pop("data", None)
            told.append(f"{type(one).__name__}({', '.join(f'{key}={value!r}' for key, value in given.items())})")
        return "\n".join(told)

    def where(self) -> dict[str, Any]:
        """Return how the next layer is divided: as the net says, by records, by features, or whole on a rank."""
        way = self.draw(st.sampled_from(["default", "records", "features", "features", "whole"]))
        if way == "whole":
            return {"partition_dim": -1, "location": self.draw(st.integers(0, self.parts - 1))}
        return {"default": {}, "records": {"partition_dim": 0}, "features": {"partition_dim": 1}}[way]

    def add(self, cls: Any, bottoms: list[str], shapes: list[Shape], **fields: Any) -> list[str]:
        """Add a layer that reads blobs; return its tops."""
        name = f"{cls.__name__.removesuffix('Layer').lower()}{len(self.layers)}"
        tops = [f"{name}.{number}" for number in range(len(shapes))]
        self.layers.append(cls(name=name, bottoms=bottoms, tops=tops, **self.where(), **fields))
        self.read.update(bottoms)
        for one in bottoms:
            if self.draw(st.integers(0, 4)):  # else another layer reads it, too
                self.ends.pop(one, None)
        self.ends.update(zip(tops, shapes, strict=True))
        return tops

    def grow(self) -> None:
        """Add one or two layers behind some blob."""
        blob = self.draw(st.sampled_from(sorted(self.ends)))
        shape = self.ends[blob]
        same = [other for other, one in sorted(self.ends.items()) if one == shape and other != blob]
        kinds = [self.activate, self.normalise, self.weigh, self.product, self.branch]
        kinds += [] if blob in self.read else [self.drop]
        kinds += [self.cut] if shape[0] > 1 else []
        if len(shape) == 3:
            kinds += [self.convolve, self.convolve, self.pool, self.respond, self.flatten, self.pool_all]
        kinds += [self.remember, self.remember] if len(shape) == 2 else []
        kinds += [self.share] if len(shape) == 1 and blob not in self.read else []
        kinds += [self.combine] if same else []
        kind = self.draw(st.sampled_from(kinds))
        if kind == self.combine:
            self.combine(blob, shape, self.draw(st.sampled_from(same)))
        else:
            kind(blob, shape)

    def activate(self, blob: str, shape: Shape) -> None:
        self.add(ActivationLayer, [blob], [shape], neuron=self.draw(NEURONS))

    def drop(self, blob: str, shape: Shape) -> None:
        """Add a dropout in place."""
        self.layers.append(DropoutLayer(name=f"drop{len(self.layers)}", bottoms=[blob], ratio=0.3, **self.where()))

    def normalise(self, blob: str, shape: Shape) -> None:
        cls, fields = self.draw(
            st.sampled_from([(BatchNormLayer, {"sync": True}), (LayerNormLayer, {}), (BatchNormLayer, {"sync": True})])
        )
        self.add(cls, [blob], [shape], **fields)

    def weigh(self, blob: str, shape: Shape) -> None:
        self.add(PReLULayer, [blob], [shape])

    def product(self, blob: str, shape: Shape) -> None:
        count = self.draw(st.integers(1, 9))
        self.add(InnerProductLayer, [blob], [(count,)], output_dim=count, neuron=self.draw(NEURONS))

    def convolve(self, blob: str, shape: Shape) -> None:
        groups = 2 if shape[0] % 2 == 0 and self.draw(st.integers(0, 3)) == 0 else 1
        kernel = self.draw(st.integers(1, min(3, *shape[1:])))
        pad = self.draw(st.integers(0, kernel - 1))
        count = groups * self.draw(st.integers(1, 4))
        size = [length + 2 * pad - kernel + 1 for length in shape[1:]]
        fields = {"kernel": kernel, "pad": pad, "n_filter": count, "n_group": groups, "neuron": self.draw(NEURONS)}
        self.add(ConvolutionLayer, [blob], [(count, *size)], **fields)

    def pool(self, blob: str, shape: Shape) -> None:
        kernel = self.draw(st.integers(1, min(2, *shape[1:])))
        size = [length - kernel + 1 for length in shape[1:]]
        way = self.draw(st.sampled_from(["Max", "Mean", "Stochastic"]))
        self.add(PoolingLayer, [blob], [(shape[0], *size)], kernel=kernel, stride=1, pooling=way)

    def pool_all(self, blob: str, shape: Shape) -> None:
        self.add(GlobalPoolingLayer, [blob], [(shape[0], 1, 1)])

    def respond(self, blob: str, shape: Shape) -> None:
        self.add(LRNLayer, [blob], [shape])

    def flatten(self, blob: str, shape: Shape) -> None:
        self.add(FlattenLayer, [blob], [(int(np.prod(shape)),)])

    def remember(self, blob: str, shape: Shape) -> None:
        """Read a sequence of (steps, numbers)."""
        cls, count = self.draw(st.sampled_from([LSTMLayer, LSTMLayer, GRULayer])), self.draw(st.integers(1, 5))
        self.add(cls, [blob], [(shape[0], count)], output_dim=count)

    def share(self, blob: str, shape: Shape) -> None:
        """Add two products with the same parameters, one behind the other."""
        where, fields = self.where(), {"output_dim": shape[0], "neuron": "Tanh", "param_key": f"key{len(self.layers)}"}
        for _ in range(2):
            name = f"shared{len(self.layers)}"
            self.layers.append(InnerProductLayer(name=name, bottoms=[blob], tops=[name], **fields, **where))
            self.ends.pop(blob)
            self.read.add(blob)
            self.ends[name], blob = shape, name

    def cut(self, blob: str, shape: Shape) -> None:
        point = self.draw(st.integers(1, shape[0] - 1))
        self.add(SliceLayer, [blob], [(one, *shape[1:]) for one in (point, shape[0] - point)], points=[point])

    def branch(self, blob: str, shape: Shape) -> None:
        """Read a blob twice, and join what comes of it along the features."""
        tops = [self.add(ActivationLayer, [blob], [shape], neuron="Tanh")[0] for _ in range(2)]
        self.add(ConcatLayer, tops, [(2 * shape[0], *shape[1:])])

    def combine(self, blob: str, shape: Shape, other: str) -> None:
        way = self.draw(st.sampled_from(["Add", "Multiply"]))
        self.add(ElementWiseLayer, [blob, other], [shape], operation=way)

    def finish(self) -> None:
        """Give each end a loss; the first one is also measured, in one place, so the net is not just by records."""
        for number, blob in enumerate(sorted(self.ends)):
            where, name = self.where(), f"score{number}"
            self.layers.append(InnerProductLayer(name=name, bottoms=[blob], tops=[name], output_dim=5, **self.where()))
            self.layers.append(SoftmaxLossLayer(name=f"loss{number}", bottoms=[name, "label"], **where))
        measures = AccuracyLayer(name="accuracy", bottoms=["score0", "label"], **self.where())
        if all((self.default if one.partition_dim is None else one.partition_dim) == 0 for one in self.layers):
            measures = replace(measures, partition_dim=-1)
        self.layers.append(measures)


@st.composite
def plans(draw: Any) -> Plan:
    """Draw a number of ranks, how layers are divided by default, and the layers."""
    plan = Plan(draw, draw(st.integers(2, 4)), draw(st.sampled_from([-1, 0, 1])))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    shape = draw(st.sampled_from([(3, 5, 5), (2, 4, 3), (7,), (4,), (4, 3)]))
    data = [random.normal(size=(3 * BATCH, *shape)), random.integers(0, 5, 3 * BATCH)]
    where = draw(st.sampled_from([{"partition_dim": -1}, {"partition_dim": 0}]))
    plan.layers.append(MemoryDataLayer(name="input", tops=["data", "label"], data=data, batch_size=BATCH, **where))
    plan.ends["data"] = shape
    for _ in range(draw(st.integers(1, 6))):
        plan.grow()
    plan.finish()
    return plan


@pytest.mark.long
@settings(max_examples=trials(100, 1000))
@given(plan=plans())
def test_any_net_divided_in_any_way_learns_what_the_whole_net_learns(plan: Plan) -> None:
    try:
        plan.layers = divisible(plan.layers, plan.parts, plan.default)
    except TopologyError:
        reject()  # a rank would have no layer
    note(f"divided: {plan}")
    check_equal(lambda: plan.layers, plan.parts, steps=3, options={"partition_dim": plan.default})


@pytest.mark.long
@pytest.mark.parametrize(("name", "way"), [*product(EXAMPLES, WAYS), ("digits/resnet20", "by features")])
def test_examples_divided_among_four_ranks_learn_what_the_whole_net_learns(name: str, way: str) -> None:
    file = load(ROOT / "examples" / f"{name}.toml")
    layers = [small(one) for one in file.layers if "train" not in one.exclude]
    layers = [
        replace(one, partition_dim=-1 if one.is_source or one.has_loss else WAYS[way](number, one))
        for number, one in enumerate(layers)
    ]
    layers = divisible(layers, 4, 0)
    nets = check_equal(lambda: layers, 4, algorithm=file.algorithm or "BP", lr_policy=0.01)
    assert all(net.division is not None for net in nets)
