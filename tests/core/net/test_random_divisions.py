"""Random nets with random partitions: what the ranks compute and learn together is what the whole net does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, reject, settings
from hypothesis import strategies as st

from divided_nets import BATCH, check_equal, nets_of
from forging import trials
from nacre import ConfigError, Layer, TopologyError
from nacre.testing.crew import crew
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
    InnerProductLayer,
    LayerNormLayer,
    LRNLayer,
    PoolingLayer,
    PReLULayer,
    SliceLayer,
    SoftmaxLossLayer,
)

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
    shape = draw(st.sampled_from([(3, 5, 5), (2, 4, 3), (7,), (4,)]))
    data = [random.normal(size=(3 * BATCH, *shape)), random.integers(0, 5, 3 * BATCH)]
    where = draw(st.sampled_from([{"partition_dim": -1}, {"partition_dim": 0}]))
    plan.layers.append(MemoryDataLayer(name="input", tops=["data", "label"], data=data, batch_size=BATCH, **where))
    plan.ends["data"] = shape
    for _ in range(draw(st.integers(1, 6))):
        plan.grow()
    plan.finish()
    return plan


def refused(plan: Plan) -> list[str]:
    """Return the names of the layers that cannot be divided as they say, of which the error tells; [] if there is none.

    Raises:
        TopologyError: a rank would have no layer.
    """
    try:
        nets_of(lambda: plan.layers, crew(plan.parts), partition_dim=plan.default, allocate=False)
    except ConfigError as error:
        return [line.partition(":")[0] for line in str(error.args[0]).splitlines()]
    return []


def make_divisible(plan: Plan) -> None:
    """Make those layers whole that cannot be divided."""
    while told := refused(plan):
        named = [one for one in plan.layers if one.name in told and one.partition_dim != -1]
        assert named, f"the error names no layer that is divided: {told}"
        plan.layers = [replace(one, partition_dim=-1) if one in named else one for one in plan.layers]


@pytest.mark.long
@settings(max_examples=trials(100, 1000))
@given(plan=plans())
def test_any_net_divided_in_any_way_learns_what_the_whole_net_learns(plan: Plan) -> None:
    try:
        make_divisible(plan)
    except TopologyError:
        reject()
    note(f"divided: {plan}")
    check_equal(lambda: plan.layers, plan.parts, steps=3, options={"partition_dim": plan.default})
