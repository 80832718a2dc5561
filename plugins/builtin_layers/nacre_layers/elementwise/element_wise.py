"""ElementWise: combine several blobs of one shape, element by element."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from nacre import (
    Array,
    Check,
    Component,
    ConfigError,
    Identity,
    LayerState,
    Names,
    Neuron,
    View,
    Written,
    at_least,
    default,
    exactly,
)

from ..cutting import OnNumbers
from ..fields import NumberLists

flat = Check(lambda value, _: None if all(isinstance(one, float) for one in value) else "its entries must be numbers")


class ElementWiseFunction(Component, kind="elementwise"):
    """A function of several arrays of one shape, element by element.

    `takes_two` is for a function of exactly two arrays; `reads` is what `backward` reads, of "inputs" and "blobs".
    """

    if TYPE_CHECKING:

        def __set__(self, thing: object, value: ElementWiseFunction | Written) -> None: ...

    takes_two: ClassVar[bool] = False
    reads: ClassVar[str] = "inputs"

    def complaint(self, count: int) -> str | None:
        """Return None, or the reason why it cannot take `count` arrays."""
        return f"it takes two bottoms, not {count}" if self.takes_two and count != 2 else None

    def forward(self, backend: View, inputs: Sequence[Array], y: Array) -> None:
        """Write the function of `inputs` into y."""
        raise NotImplementedError

    def backward(
        self, backend: View, inputs: Sequence[Array], y: Array, dy: Array, diffs: Sequence[Array | None]
    ) -> None:
        """Write the gradient of every input into its entry of `diffs`, unless that is None."""
        raise NotImplementedError


class Add(ElementWiseFunction):
    """y = Σ coefficient · x: the sum, or with `coefficients` a weighted one."""

    reads = ""
    coefficients: Annotated[NumberLists, flat, "one for each bottom; by default all are 1"] = default(())

    def complaint(self, count: int) -> str | None:
        given = len(self.coefficients)
        return f"it has {given} coefficients for {count} bottoms" if given not in (0, count) else None

    def forward(self, backend: View, inputs: Sequence[Array], y: Array) -> None:
        xp = backend.xp
        if not self.coefficients:
            _sum(backend, inputs, y)
            return
        part = backend.scratch(y.shape, str(y.dtype))
        xp.multiply(inputs[0], self.coefficients[0], out=y)
        for x, coefficient in zip(inputs[1:], self.coefficients[1:], strict=True):
            xp.multiply(x, coefficient, out=part)
            xp.add(y, part, out=y)

    def backward(
        self, backend: View, inputs: Sequence[Array], y: Array, dy: Array, diffs: Sequence[Array | None]
    ) -> None:
        for index, dx in enumerate(diffs):
            if dx is not None and self.coefficients:
                backend.xp.multiply(dy, self.coefficients[index], out=dx)
            elif dx is not None:
                backend.xp.copyto(dx, dy)


def _sum(backend: View, inputs: Sequence[Array], y: Array) -> None:
    backend.xp.add(inputs[0], inputs[1], out=y)
    for x in inputs[2:]:
        backend.xp.add(y, x, out=y)


class Average(ElementWiseFunction):
    """y = Σ x / n, the mean of n bottoms. Its name is "Mean"; in Python the pooling function is called so."""

    reads = ""

    def forward(self, backend: View, inputs: Sequence[Array], y: Array) -> None:
        _sum(backend, inputs, y)
        backend.xp.multiply(y, 1 / len(inputs), out=y)

    def backward(
        self, backend: View, inputs: Sequence[Array], y: Array, dy: Array, diffs: Sequence[Array | None]
    ) -> None:
        for dx in diffs:
            if dx is not None:
                backend.xp.multiply(dy, 1 / len(inputs), out=dx)


class Multiply(ElementWiseFunction):
    """y = Π x. The gradient multiplies the other bottoms, so zeros are no problem (Caffe's stable_prod_grad)."""

    def forward(self, backend: View, inputs: Sequence[Array], y: Array) -> None:
        backend.xp.multiply(inputs[0], inputs[1], out=y)
        for x in inputs[2:]:
            backend.xp.multiply(y, x, out=y)

    def backward(
        self, backend: View, inputs: Sequence[Array], y: Array, dy: Array, diffs: Sequence[Array | None]
    ) -> None:
        for index, dx in enumerate(diffs):
            if dx is None:
                continue
            product = dy
            for x in [*inputs[:index], *inputs[index + 1 :]]:
                backend.xp.multiply(product, x, out=dx)
                product = dx


class Maximum(ElementWiseFunction):
    """y = max x; of equal bottoms the first gets the gradient. A NaN is the maximum."""

    reads = "inputs blobs"

    def forward(self, backend: View, inputs: Sequence[Array], y: Array) -> None:
        backend.xp.maximum(inputs[0], inputs[1], out=y)
        for x in inputs[2:]:
            backend.xp.maximum(y, x, out=y)

    def backward(
        self, backend: View, inputs: Sequence[Array], y: Array, dy: Array, diffs: Sequence[Array | None]
    ) -> None:
        xp = backend.xp
        wins, free = (backend.scratch(y.shape, "bool", slot=slot) for slot in (0, 1))
        free[...] = True
        for x, dx in zip(inputs, diffs, strict=True):
            xp.equal(x, y, out=wins)
            xp.logical_and(wins, free, out=wins)
            xp.logical_xor(free, wins, out=free)
            if dx is not None:
                xp.multiply(dy, wins, out=dx)


class Subtract(ElementWiseFunction):
    """y = a - b."""

    takes_two = True
    reads = ""

    def forward(self, backend: View, inputs: Sequence[Array], y: Array) -> None:
        backend.xp.subtract(*inputs, out=y)

    def backward(
        self, backend: View, inputs: Sequence[Array], y: Array, dy: Array, diffs: Sequence[Array | None]
    ) -> None:
        da, db = diffs
        if da is not None:
            backend.xp.copyto(da, dy)
        if db is not None:
            backend.xp.negative(dy, out=db)


class Divide(ElementWiseFunction):
    """y = a / b."""

    takes_two = True
    reads = "inputs blobs"

    def forward(self, backend: View, inputs: Sequence[Array], y: Array) -> None:
        backend.xp.divide(*inputs, out=y)

    def backward(
        self, backend: View, inputs: Sequence[Array], y: Array, dy: Array, diffs: Sequence[Array | None]
    ) -> None:
        xp, b, (da, db) = backend.xp, inputs[1], diffs
        if da is not None:
            xp.divide(dy, b, out=da)
        if db is not None:
            xp.multiply(dy, y, out=db)
            xp.divide(db, b, out=db)
            xp.negative(db, out=db)


class ElementWiseLayer(OnNumbers, has_neuron=True, can_do_bp=True):
    """Combine two or more bottoms of one shape, element by element: by default their sum, else another `operation`.

    y = x₁ + x₂ + ... with Add, Σ a_i x_i with its `coefficients`; x₁ x₂ ..., max(x₁, x₂, ...), (x₁ + x₂ + ...) / count,
    x₁ - x₂ and x₁ / x₂ with Multiply, Maximum, Mean, Subtract and Divide. The last two take two bottoms, the others two
    or more. After Mocha.jl's `ElementWiseLayer` and Caffe's `Eltwise`.

    Example:
        [[layer]]
        type = "ElementWise"
        bottoms = ["shortcut", "conv2"]  # (8, 20, 12, 12), (8, 20, 12, 12)
        tops = ["block1"]  # (8, 20, 12, 12)
        neuron = "ReLU"
    """

    shown = ("operation",)

    bottoms: Annotated[Names, at_least(2), "the operands, in order"]
    tops: Annotated[Names, exactly(1), "the result"]
    operation: Annotated[ElementWiseFunction, "the function of the bottoms"] = Add()
    neuron: Annotated[Neuron, "activation function of the top"] = Identity()

    def complaints(self) -> Iterator[str]:
        """Check that the operation takes this number of bottoms."""
        yield from super().complaints()
        if complaint := self.operation.complaint(len(self.bottoms)):
            yield f"operation={self.operation!r}, but {complaint}"


class ElementWiseState(LayerState, of=ElementWiseLayer, elementwise=True, capturable=True):
    """`ElementWiseLayer` on any backend."""

    def __init__(self, layer: ElementWiseLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        first = inputs[0].shape
        for name, one in zip(layer.bottoms, inputs, strict=True):
            if one.shape != first:
                raise ConfigError(
                    f"{layer.name}: bottom '{name}' of shape {one.shape} does not fit "
                    f"'{layer.bottoms[0]}' of shape {first}",
                    "the layers Scale and Bias take a second bottom of fewer axes",
                )
        self.reads = layer.operation.reads
        self.blobs = [backend.blob(first)]

    def forward(self, inputs: list[Array]) -> None:
        self.layer.operation.forward(self.backend, inputs, self.blobs[0])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        self.layer.operation.backward(self.backend, inputs, self.blobs[0], self.blobs_diff[0], diffs)
