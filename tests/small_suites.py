"""A layer and a loss that keep their promises, with their suites, for the tests of the conformance kit."""

from typing import Annotated, Any

from nacre import (
    Layer,
    LayerState,
    Names,
    Parameter,
    as_many_as,
    at_least,
    exactly,
)
from nacre.testing.layers import LayerTests
from nacre.testing.trial import Example
from nacre_layers.initializers import Constant

# A layer that keeps its promises: y = weight · x, a weight for each feature, shared by all bottoms


class ScaledState(LayerState, reads="inputs"):
    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.parameters = [Parameter("weight", (inputs[0].shape[1],), init=Constant(value=1.0))]
        self.blobs = [backend.blob(one.shape) for one in inputs]

    def ready(self):
        self.part = self.backend.empty(self.parameters[0].shape)

    def forward(self, inputs):
        for x, y in zip(inputs, self.blobs, strict=True):
            self.backend.xp.multiply(x, self.parameters[0].blob, out=y)

    def backward(self, inputs, diffs):
        weight = self.parameters[0]
        if weight.gradient is not None:
            weight.gradient[...] = 0
            for x, dy in zip(inputs, self.blobs_diff, strict=True):
                weight.gradient += (x * dy).sum(axis=0)
        for dy, dx in zip(self.blobs_diff, diffs, strict=True):
            if dx is not None:
                self.backend.xp.multiply(dy, weight.blob, out=dx)


class ScaledLayer(Layer, has_param=True, can_do_bp=True):
    """Scale every feature."""

    bottoms: Annotated[Names, at_least(1)]
    tops: Annotated[Names, as_many_as("bottoms")]
    state: Any = ScaledState

    def setup(self, backend, inputs, diffs):
        return self.state(self, backend, inputs, diffs)


class Scaled(LayerTests):
    layer = ScaledLayer
    state = ScaledState

    def examples(self):
        yield Example({"state": self.state}, [(4, 3)])
        yield Example({"state": self.state}, [(4, 3), (2, 3)], label="two")

    def reference(self, layer, inputs, parameters):
        return [x * parameters["weight"] for x in inputs]


# A layer with two parameters: y = weight · x + shift


class ShiftedState(ScaledState):
    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.parameters.append(Parameter("shift", self.parameters[0].shape, init=Constant(value=0.5)))

    def forward(self, inputs):
        super().forward(inputs)
        for y in self.blobs:
            y += self.parameters[1].blob

    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        if self.parameters[1].gradient is not None:
            self.parameters[1].gradient[...] = sum(dy.sum(axis=0) for dy in self.blobs_diff)


class CarriesACount(ScaledState):
    """y = weight · x + how many batches there were before; this keeps its promises."""

    count = 0

    def forward(self, inputs):
        super().forward(inputs)
        for y in self.blobs:
            y += self.count

    def advance(self):
        self.count += 1

    def rewind(self):
        self.count = 0

    def memory(self):
        return {"count": self.count}

    def remember(self, memory):
        self.count = int(memory["count"])


class BothGradientsOrNone:
    """A mistake of a `ShiftedState`, or of its kernel: where the weight is frozen, nothing is written for the shift."""

    def backward(self, inputs, diffs):
        shift, gradient = self.parameters[1], self.parameters[1].gradient
        if self.parameters[0].gradient is None:
            shift.gradient = None
        super().backward(inputs, diffs)
        shift.gradient = gradient


class Shifted(Scaled):
    state = ShiftedState

    def reference(self, layer, inputs, parameters):
        return [x * parameters["weight"] + parameters["shift"] for x in inputs]


class WrongGradientOfWeight(ScaledState):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        self.parameters[0].gradient[0] *= 1.0001


# A loss and a statistic that keep theirs: the mean of all numbers


class MeanState(LayerState, reads=""):
    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.loss, self.sum, self.count, self.size = 0.0, 0.0, 0, inputs[0].shape[1]

    def forward(self, inputs):
        rows = inputs[0][: self.backend.rows]
        self.loss = rows.mean()
        self.sum, self.count = self.sum + float(rows.sum()), self.count + rows.size

    def backward(self, inputs, diffs):
        if diffs[0] is not None:
            diffs[0][...] = 0
            diffs[0][: self.backend.rows] = 1 / (self.backend.rows * self.size)

    def dump_statistics(self):
        return {"mean": self.sum / self.count if self.count else 0.0}

    def reset_statistics(self):
        self.sum, self.count = 0.0, 0


class MeanLayer(Layer, is_sink=True, has_loss=True, has_stats=True, can_do_bp=True):
    """The mean as a loss."""

    bottoms: Annotated[Names, exactly(1)]
    state: Any = MeanState

    def setup(self, backend, inputs, diffs):
        return self.state(self, backend, inputs, diffs)


class Mean(LayerTests):
    layer = MeanLayer
    state = MeanState

    def examples(self):
        yield Example({"state": self.state}, [(4, 3)])

    def reference(self, layer, inputs, parameters):
        return float(inputs[0].mean()), {"mean": float(inputs[0].mean())}
