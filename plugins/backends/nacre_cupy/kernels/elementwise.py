"""Activation functions, ElementWise with one behind it, and penalties, in any layout: see elementwise.cu."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from nacre import Array, ComponentKernel, Identity, LayerState, Neuron, Own
from nacre_layers.elementwise import element_wise as operations
from nacre_layers.elementwise.element_wise import ElementWiseLayer, ElementWiseState
from nacre_layers.neurons import (
    ELU,
    GELU,
    SELU,
    SELU_ALPHA,
    SELU_SCALE,
    Exponential,
    Hardswish,
    LReLU,
    Mish,
    ReLU,
    Sigmoid,
    SiLU,
    Softplus,
    STanh,
    Tanh,
    is_relu,
)

from .chain import Link, LinkedKernel
from .launch import LANES, TYPES, CudaKernel, launch, not_floating

NEURONS: dict[type, Callable[[Any], tuple[float, ...]]] = {
    ELU: lambda neuron: (neuron.alpha,),
    Exponential: lambda neuron: (),
    GELU: lambda neuron: (),
    Hardswish: lambda neuron: (),
    LReLU: lambda neuron: (neuron.slope,),
    Mish: lambda neuron: (),
    ReLU: lambda neuron: (neuron.epsilon,),
    SELU: lambda neuron: (SELU_SCALE, SELU_SCALE * SELU_ALPHA),
    STanh: lambda neuron: (neuron.outer, neuron.inner),
    Sigmoid: lambda neuron: (),
    SiLU: lambda neuron: (neuron.beta,),
    Softplus: lambda neuron: (neuron.beta,),
    Tanh: lambda neuron: (),
}
"""What a neuron's functions in functions.cuh are told of its fields, up to two numbers."""


def named(neuron: Neuron, dtype: str) -> tuple[str, float, float]:
    """Return the name of a neuron in functions.cuh, and two numbers for it."""
    name, numbers = type(neuron).__name__, [*NEURONS[type(neuron)](neuron)]
    if isinstance(neuron, GELU) and neuron.approximate == "tanh":
        name = "TanhGELU"
    if isinstance(neuron, SiLU):
        numbers.append(neuron.far("float64" if dtype == "float64" else "float32"))
    first, second, *_ = (*numbers, 0.0, 0.0)
    return name, float(first), float(second)


def link_of(neuron: Neuron, dtype: str) -> Link:
    """Return a neuron as a link of a chain."""
    name, *numbers = named(neuron, dtype)
    way, reads = ("ByBottom", "x") if neuron.needs_input else ("ByTop", "y")
    return Link(f"{way}<{name}>", numbers, reads)


class NeuronKernel(LinkedKernel, reads="blobs"):
    """Every neuron of nacre's; in place where the net says so."""

    in_bf16 = True

    @classmethod
    def supports(cls, layer: Neuron, inputs: list[Any]) -> str | None:
        return not_floating(inputs) or (None if type(layer) in NEURONS else f"does not know {type(layer).__name__}")

    def __init__(self, layer: Neuron, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]
        if layer.needs_input:
            self.reads = "inputs"

    def links(self, index: int) -> list[Link]:
        return [link_of(self.layer, self.backend.dtype)]

    def forward(self, inputs: list[Own]) -> None:
        self._enqueue("activate", inputs[0].memory, self.blobs[0].memory)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        if diffs[0] is not None:
            known = inputs[0] if self.layer.needs_input else self.blobs[0]
            self._enqueue("activate_backward", known.memory, self.blobs_diff[0].memory, diffs[0].memory)

    def _enqueue(self, kernel: str, *arrays: Any) -> None:
        dtype, size = self.blobs[0].dtype, self.blobs[0].size
        kind = TYPES[dtype]
        name, *numbers = named(self.layer, dtype)
        self.launch("elementwise", f"{kernel}<{kind}, {name}>", -(-size // LANES[kind]), *arrays, size, *numbers)


OPERATIONS = {
    operations.Add: "Add",
    operations.Average: "Mean",
    operations.Divide: "Divide",
    operations.Maximum: "Maximum",
    operations.Multiply: "Multiply",
    operations.Subtract: "Add",
}
"""Names of the operations in elementwise.cu."""
READS_TOP = ("Divide", "Maximum")
"""Those whose gradient reads their result, so that no neuron may change it."""


class ElementWiseKernel(LinkedKernel):
    """All operations of ElementWise; applies ReLU itself, unless its own gradient needs what was before it."""

    in_bf16 = True

    @classmethod
    def supports(cls, layer: ElementWiseLayer, inputs: list[Any]) -> str | None:
        known = type(layer.operation) in OPERATIONS
        return super().supports(layer, inputs) if known else f"does not know {layer.operation!r}"

    def __init__(self, layer: ElementWiseLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = ElementWiseState(layer, backend, inputs, diffs).blobs  # which checks the shapes
        self.operation = OPERATIONS[type(layer.operation)]
        self.neuron = layer.neuron if self.fuses_neuron(layer.neuron) else Identity()
        self.reads = layer.operation.reads or ("" if isinstance(self.neuron, Identity) else "blobs")
        if self.reads == "inputs" and not isinstance(self.neuron, Identity):
            self.reads = "inputs blobs"

    def fuses_neuron(self, neuron: Neuron) -> bool:
        return is_relu(neuron) and self.operation not in READS_TOP

    def joined_with(self, below: LayerState, index: int) -> Callable[[list[Any], list[Any]], LayerState] | None:
        plain = type(self.layer.operation) is operations.Add and not self.layer.operation.coefficients
        behind = plain and len(self.inputs) == 2 and isinstance(below, CudaKernel) and below.sum_behind(self.neuron)
        return behind or super().joined_with(below, index)

    def links(self, index: int) -> list[Link] | None:
        count = len(self.inputs)
        if count > 2 and index and self.operation == "Maximum":
            return None  # of equal ones the first bottom gets the gradient
        known, factors = "x" if self.layer.operation.reads else "", self._factors(count)
        if count == 2:
            own = [Link(f"Two<{self.operation}, {str(index == 1).lower()}>", factors, known, others=1)]
        else:  # one bottom after the other, each joined to what there is
            name = "Add" if self.operation == "Mean" else self.operation
            parts = [factors[index], *[1.0] * (count - 2)]
            others = [factor for number, factor in enumerate(factors) if number != index]
            pairs = zip(parts, others, strict=True)
            own = [Link(f"Two<{name}, false>", pair, known, others=1) for pair in pairs]
        return own if isinstance(self.neuron, Identity) else [*own, link_of(self.neuron, self.backend.dtype)]

    def _factors(self, count: int) -> list[float]:
        operation = self.layer.operation
        if isinstance(operation, operations.Add) and operation.coefficients:
            return list(operation.coefficients)
        if isinstance(operation, operations.Average):
            return [1 / count] * count
        return [1.0, -1.0] if isinstance(operation, operations.Subtract) else [1.0] * count

    def ready(self) -> None:
        constant, inputs = self.backend.constant, [one.memory.data.ptr for one in self.inputs]
        diffs = [0 if one is None else one.memory.data.ptr for one in self.diffs]
        self.factors = constant(np.array(self._factors(len(inputs))), "float64")
        self.sources, self.targets = (constant(np.array(one, np.int64), "int64") for one in (inputs, diffs))

    def forward(self, inputs: list[Own]) -> None:
        self._enqueue("combine", self.blobs[0].memory)

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        dy = self.blobs_diff[0].memory
        y = self.blobs[0].memory if "blobs" in self.reads else dy  # which is there, and not looked at
        self._enqueue("combine_backward", y, dy, self.targets)

    def _enqueue(self, kernel: str, *arrays: Any) -> None:
        dtype, size = self.blobs[0].dtype, self.blobs[0].size
        kind = TYPES[dtype]
        name = "ReLU" if is_relu(self.neuron) else "Identity"
        expression = f"{kernel}<{kind}, {self.operation}, {name}>"
        first = (self.sources, self.factors, len(self.inputs))
        self.launch("elementwise", expression, -(-size // LANES[kind]), *first, *arrays, size, 0.0, 0.0)


class PenaltyKernel(ComponentKernel):
    """A regularizer in one pass over memory."""

    dtypes = ("float32", "float64")
    capturable = True
    name: ClassVar[str]
    """That of the penalty in elementwise.cu."""

    def add_gradient(self, backend: Any, value: Array, gradient: Array, coefficient: float) -> None:
        kind = TYPES[str(value.dtype)]
        arguments = (value, gradient, value.size, float(coefficient))
        launch(backend, "elementwise", f"penalise<{kind}, {self.name}>", -(-value.size // LANES[kind]), *arguments)


class L1Kernel(PenaltyKernel):
    """Adds the sign of a parameter, times a coefficient, to its gradient."""

    name = "L1"


class L2Kernel(PenaltyKernel):
    """Adds a multiple of a parameter to its gradient."""

    name = "L2"
