"""A net that leads through all that a state of `xp` code can ask of a backend: layers of one kind each."""

from __future__ import annotations

from typing import Annotated, Any

from ..fields.types import Names, default
from ..protocols.array import Array
from ..protocols.components import Constraint, Neuron, Regularizer
from ..protocols.layer import Layer
from ..protocols.parameter import Parameter
from ..protocols.state import LayerState
from ..protocols.view import View
from .toys import LineLayer, LineState, MeanSquareLayer, Normal, NumbersLayer


class Bent(Neuron):
    """f(x) = x for x > 0, else x / 4."""

    def forward(self, backend: View, x: Array, y: Array) -> None:
        part = backend.scratch(y.shape, str(y.dtype))
        backend.xp.multiply(x, 0.25, out=part)
        backend.xp.maximum(x, part, out=y)

    def backward(self, backend: View, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        xp, below = backend.xp, backend.scratch(y.shape, "bool", slot=1)
        part = backend.scratch(y.shape, str(y.dtype))
        xp.less_equal(y, 0, out=below)
        xp.multiply(dy, 0.25, out=part)
        xp.copyto(dx, dy)
        xp.copyto(dx, part, where=below)


class Pulled(Regularizer):
    """Adds coefficient · W."""

    def add_gradient(self, backend: View, value: Array, gradient: Array, coefficient: float) -> None:
        part = backend.scratch(value.shape, str(value.dtype))
        backend.xp.multiply(value, coefficient, out=part)
        backend.xp.add(gradient, part, out=gradient)


class Boxed(Constraint):
    """Keeps every number between -1 and 1."""

    def constrain(self, backend: View, value: Array) -> None:
        backend.xp.clip(value, -1, 1, out=value)


class OneOne(Layer, can_do_bp=True):
    """A layer with one bottom and one top."""

    bottoms: Annotated[Names, ""]
    tops: Annotated[Names, ""]


class MapsLayer(OneOne):
    """y[n, i, r, c] = x[n, i] · (1 + r + c): pictures of (3, 2, 2)."""


class MapsState(LayerState, of=MapsLayer, reads=""):
    """The state of `MapsLayer`."""

    def __init__(self, layer: Any, backend: View, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob((*inputs[0].shape, 2, 2))]

    def forward(self, inputs: list[Any]) -> None:
        for row in range(2):
            for column in range(2):
                self.backend.xp.multiply(inputs[0], 1 + row + column, out=self.blobs[0][:, :, row, column])

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        if diffs[0] is None:
            return
        xp, dx = self.backend.xp, diffs[0]
        part = self.backend.scratch(dx.shape)
        dx[...] = 0
        for row in range(2):
            for column in range(2):
                xp.multiply(self.blobs_diff[0][:, :, row, column], 1 + row + column, out=part)
                xp.add(dx, part, out=dx)


class MaskLayer(Layer, can_do_bp=True, is_inplace=True):
    """x · [u ≥ 0.4] · 2 in phase train, else x · 2: in place, with uniform u for each number."""

    bottoms: Annotated[Names, ""]


class MaskState(LayerState, of=MaskLayer, reads=""):
    """The state of `MaskLayer`."""

    def __init__(self, layer: Any, backend: View, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.random = backend.random(layer.name)
        self.blobs = [backend.blob(inputs[0].shape)]

    def _masked(self, x: Array, y: Array) -> None:
        xp, view = self.backend.xp, self.backend
        xp.multiply(x, 2.0, out=y)
        if self.phase == "train":
            drawn, gone = view.scratch(y.shape, "float32"), view.scratch(y.shape, "bool", slot=1)
            self.random.uniform(drawn)
            xp.less(drawn, 0.4, out=gone)
            xp.copyto(y, 0, where=gone)

    def forward(self, inputs: list[Any]) -> None:
        self._masked(inputs[0], self.blobs[0])

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        if diffs[0] is not None:
            self._masked(self.blobs_diff[0], diffs[0])


class FlatLayer(OneOne):
    """The same numbers as rows: an alias."""


class FlatState(LayerState, of=FlatLayer, reads=""):
    """The state of `FlatLayer`."""

    def __init__(self, layer: Any, backend: View, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        count, *rest = inputs[0].shape
        self.blobs = [backend.alias(inputs[0], (count, rest[0] * rest[1] * rest[2]))]

    def forward(self, inputs: list[Any]) -> None:
        """Do nothing: the top is the bottom."""

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        """Do nothing: the gradients are one array."""


class SignsLayer(Layer):
    """How many numbers of each row are above 0: whole numbers, and whether the row has any: truth values."""

    bottoms: Annotated[Names, ""]
    tops: Annotated[Names, ""]


class SignsState(LayerState, of=SignsLayer, reads=""):
    """The state of `SignsLayer`."""

    def __init__(self, layer: Any, backend: View, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        count = inputs[0].shape[0]
        self.blobs = [backend.blob((count,), "int64"), backend.blob((count,), "bool")]

    def forward(self, inputs: list[Any]) -> None:
        xp, above = self.backend.xp, self.backend.scratch(inputs[0].shape, "bool")
        xp.greater(inputs[0], 0, out=above)
        xp.sum(above, axis=1, out=self.blobs[0])
        xp.greater(self.blobs[0], 0, out=self.blobs[1])

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        """Do nothing: whole numbers have no gradient."""


class CountLayer(Layer, is_sink=True, has_stats=True):
    """The mean of whole numbers over the rows that count, since the last reset."""

    bottoms: Annotated[Names, ""]


class CountState(LayerState, of=CountLayer, reads=""):
    """The state of `CountLayer`."""

    def __init__(self, layer: Any, backend: View, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.reset_statistics()

    def forward(self, inputs: list[Any]) -> None:
        rows = self.backend.rows
        self.total = self.total + self.backend.xp.sum(inputs[0][:rows])
        self.rows += rows

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        """Do nothing: statistics have no gradient."""

    def dump_statistics(self) -> dict[str, float]:
        return {"mean": int(self.total) / max(1, self.rows)}

    def reset_statistics(self) -> None:
        self.total: Any = 0
        self.rows = 0


class HeldLineLayer(LineLayer, has_neuron=True):
    """A `LineLayer` with a neuron, and a regulariser and a constraint on its weight."""

    neuron: Annotated[Neuron, ""] = Bent()


class HeldLineState(LineState, of=HeldLineLayer):
    """The state of `HeldLineLayer`."""

    def __init__(self, layer: Any, backend: View, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        shape = self.parameters[0].shape
        self.parameters[0] = Parameter("weight", shape, init=Normal(), regu=Pulled(), cons=Boxed())


class TwiceLayer(Layer, can_do_bp=True):
    """Two tops that are the bottom, the second one negative."""

    bottoms: Annotated[Names, ""]
    tops: Annotated[Names, ""] = default(())


class TwiceState(LayerState, of=TwiceLayer, reads=""):
    """The state of `TwiceLayer`."""

    def __init__(self, layer: Any, backend: View, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape) for _ in range(2)]

    def forward(self, inputs: list[Any]) -> None:
        self.backend.xp.copyto(self.blobs[0], inputs[0])
        self.backend.xp.negative(inputs[0], out=self.blobs[1])

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        if diffs[0] is not None:
            self.backend.xp.subtract(*self.blobs_diff, out=diffs[0])


def tour() -> list[Layer]:
    """Return a net with a source, parameters, pictures, two tops, an alias, masks, whole numbers and statistics."""
    return [
        NumbersLayer(name="numbers"),
        MapsLayer(name="maps", bottoms="numbers", tops="maps"),
        MaskLayer(name="mask", bottoms="maps"),
        TwiceLayer(name="twice", bottoms="maps", tops=["one", "other"]),
        FlatLayer(name="flat", bottoms="one", tops="flat"),
        FlatLayer(name="flat2", bottoms="other", tops="flat2"),
        SignsLayer(name="signs", bottoms="numbers", tops=["count", "any"]),
        CountLayer(name="counted", bottoms="count"),
        HeldLineLayer(name="held", bottoms="flat", tops="held"),
        MeanSquareLayer(name="loss", bottoms=["held", "target"]),
        HeldLineLayer(name="held2", bottoms="flat2", tops="held2"),
        MeanSquareLayer(name="loss2", bottoms=["held2", "target"]),
    ]
