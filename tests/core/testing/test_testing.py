"""The conformance kit passes a layer that keeps its promises, and finds every one that is broken."""

import subprocess
import sys
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import strategies as st

from nacre import (
    ConfigError,
    ContractError,
    InputLayer,
    Layer,
    LayerState,
    Names,
    Net,
    Parameter,
    PluginError,
    as_many_as,
    at_least,
    exactly,
    registry,
)
from nacre.testing.close import assert_close, assert_near
from nacre.testing.gradients import check_net_gradients, numerical_gradient, worst_error
from nacre.testing.kernels import KernelTests
from nacre.testing.layers import LayerTests
from nacre.testing.trial import Example, Trial, backends, with_kernel, without_kernels
from nacre_data import MemoryDataLayer, MemoryOutputLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.initializers import Constant
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from run_suite import failures, kit_tests

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


@pytest.mark.parametrize("suite", [Scaled, Mean])
def test_a_layer_that_keeps_its_promises_passes(suite):
    assert failures(suite) == {}


# Layers that break one promise each

BROKEN = {}


def broken(base, check, words="", **options):
    """Note a state that must be found out by this check, in these words, and by three others at most."""

    def note(state):
        BROKEN[state.__name__] = (base, state, f"test_{check}", words, options)
        return state

    return note


@broken(Scaled, "forward", "phase train")
class WrongForward(ScaledState):
    def forward(self, inputs):
        super().forward(inputs)
        self.blobs[0][0, 0] *= 1.001


@broken(Scaled, "forward", "phase validation")
class WrongInValidation(ScaledState):
    def forward(self, inputs):
        super().forward(inputs)
        if self.phase == "validation":
            self.blobs[0][...] = 0


@broken(Scaled, "gradients", "gradient of input 0")
class WrongGradientOfInput(ScaledState):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        if diffs[0] is not None:
            diffs[0][-1, -1] *= 1.0001


@broken(Scaled, "gradients", "gradient of weight")
class WrongGradientOfWeight(ScaledState):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        self.parameters[0].gradient[0] *= 1.0001


@broken(Scaled, "gradients", "gradient of weight")
class ForgetsTheSecondBottom(ScaledState):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        self.parameters[0].gradient[...] = (inputs[0] * self.blobs_diff[0]).sum(axis=0)


@broken(Scaled, "gradients_are_written", "backward adds to the gradient of input 0")
class AddsToGradientOfInput(ScaledState):
    def backward(self, inputs, diffs):
        before = [None if dx is None else dx.copy() for dx in diffs]
        super().backward(inputs, diffs)
        for dx, old in zip(diffs, before, strict=True):
            if dx is not None:
                dx += old


@broken(Scaled, "gradients_are_written", "backward adds to the gradient of weight")
class AddsToGradientOfWeight(ScaledState):
    def backward(self, inputs, diffs):
        before = self.parameters[0].gradient.copy()
        super().backward(inputs, diffs)
        self.parameters[0].gradient += before


@broken(Scaled, "unwanted_gradients", "NoneType")
class WantsAllGradients(ScaledState):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        for dx in diffs:
            dx += 0


@broken(Scaled, "reads", "where inputs are overwritten before backward: it reads them")
class ReadsMoreThanItSays(ScaledState, reads=""):
    pass


@broken(Scaled, "inputs_are_left_alone", r"forward writes into its input 0 \('bottom0'\)")
class ChangesItsInput(ScaledState):
    def forward(self, inputs):
        super().forward(inputs)
        inputs[0][0, 0] = 7


@broken(Scaled, "inputs_are_left_alone", r"backward writes into blobs_diff\[0\]")
class ChangesTheGradientOfItsTop(ScaledState):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        self.blobs_diff[0][...] *= 2


@broken(Scaled, "forward_twice", "a second pass over the same inputs gives others")
class AddsToItsTop(ScaledState):
    def forward(self, inputs):
        before = self.blobs[0].copy()
        super().forward(inputs)
        self.blobs[0][...] += before


@broken(Scaled, "shapes", "but the reference gives")
class AnotherShape(ScaledState):
    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.blobs[0] = backend.blob((1, *inputs[0].shape))


@broken(Scaled, "plans_without_memory", "setup makes an array: do it in ready")
class AllocatesInSetup(ScaledState):
    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        backend.empty((3,))


@broken(Scaled, "without_gradients", "NoneType")
class NeedsAGradient(ScaledState):
    def ready(self):
        super().ready()
        assert self.blobs_diff[0].shape


@broken(Scaled, "memory_is_shared", "in a net that shares memory")
class DependsOnItsMemory(ScaledState, reads=""):
    """Right only where its input is still there."""

    def forward(self, inputs):
        super().forward(inputs)
        self.kept = inputs[0]

    def backward(self, inputs, diffs):
        super().backward([self.kept * 1, *inputs[1:]], diffs)


@broken(Scaled, "phase_of_an_algorithm", "in phase positive")
class FixesItsPhaseTooEarly(ScaledState):
    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.trains = self.phase == "train"

    def forward(self, inputs):
        super().forward(inputs)
        if self.trains and self.phase != "train":
            self.blobs[0][...] = 0


@broken(Scaled, "batch_of_one", "AssertionError")
class NeedsTwoRecords(ScaledState):
    def forward(self, inputs):
        super().forward(inputs)
        assert len(inputs[0]) > 1


@broken(Scaled, "shutdown", "shutdown raised RuntimeError: closed already")
class ShutsDownOnce(ScaledState):
    closed = False

    def shutdown(self):
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True


@broken(Scaled, "memory", r"memory\['count'\] is not remembered")
class Forgets(ScaledState):
    count = 0

    def forward(self, inputs):
        super().forward(inputs)
        self.count += 1

    def memory(self):
        return {"count": self.count}


@broken(Scaled, "memory", r"memory\['layer'\] is")
class RemembersAnObject(ScaledState):
    def memory(self):
        return {"layer": self.layer}


@broken(Scaled, "random_numbers", "seed 3, step 1 against seed 3, step 0: other numbers")
class IsRandomAndDoesNotSay(ScaledState):
    def forward(self, inputs):
        super().forward(inputs)
        self.blobs[0][...] += self.backend.random("x").generator().random()


@broken(Scaled, "random_numbers", "the same numbers, though the class declares is_random", is_random=True)
class SaysItIsRandom(ScaledState):
    pass


@broken(Scaled, "random_numbers", "seed 3, step 0 against seed 3, step 0: other numbers", is_random=True)
class AnotherNumberAtEveryCall(ScaledState):
    generator = np.random.default_rng()

    def forward(self, inputs):
        super().forward(inputs)
        self.blobs[0][...] += self.generator.random()


@broken(Mean, "rows", "only 3 of 4 rows are real: count those below backend.rows")
class CountsAllRows(MeanState):
    def forward(self, inputs):
        super().forward(inputs)
        self.loss = inputs[0].mean()


@broken(Mean, "rows", "in rows that do not count, which must be 0")
class GradientOfAllRows(MeanState):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        if diffs[0] is not None:
            diffs[0][...] = 1 / (self.backend.rows * self.size)


@broken(Mean, "rows", r"statistic 'mean' \(only 3 of 4 rows are real")
class StatisticsOfAllRows(MeanState):
    def forward(self, inputs):
        super().forward(inputs)
        self.sum, self.count = float(inputs[0].sum()), inputs[0].size


@broken(Mean, "forward", "statistics")
class AnotherStatistic(MeanState):
    def dump_statistics(self):
        return {"average": super().dump_statistics()["mean"]}


@broken(Mean, "traits", "has_stats, but dump_statistics gives nothing")
class NoStatistics(MeanState):
    def dump_statistics(self):
        return {}


@broken(Scaled, "scratch", "where backend.scratch was overwritten between calls: keep nothing in it")
class KeepsItsMaskInScratch(ScaledState):
    def forward(self, inputs):
        super().forward(inputs)
        self.backend.scratch(inputs[0].shape)[...] = 1

    def backward(self, inputs, diffs):
        mask = self.backend.scratch(inputs[0].shape).copy()
        super().backward(inputs, diffs)
        if diffs[0] is not None:
            diffs[0][...] *= mask


@broken(Scaled, "scratch", "top 'top0' where backend.scratch was overwritten")
class ReadsOldScratch(ScaledState):
    def forward(self, inputs):
        super().forward(inputs)
        self.blobs[0][...] += 0 * self.backend.scratch((1,))


@broken(Scaled, "moved_memory", "take addresses and views in ready")
class TakesItsViewsOnce(ScaledState):
    flat = None

    def ready(self):
        super().ready()
        if self.flat is None:
            self.flat = [one.reshape(-1) for one in self.blobs]

    def forward(self, inputs):
        for x, y in zip(inputs, self.flat, strict=True):
            y[...] = (x * self.parameters[0].blob).reshape(-1)


@broken(Scaled, "moved_memory", "gradient of input 0, after the net's memory has moved")
class KeepsItsDiffs(ScaledState):
    kept = None

    def backward(self, inputs, diffs):
        self.kept = self.kept or (inputs, diffs)
        super().backward(inputs, self.kept[1] if len(diffs) == 1 else diffs)


@broken(Scaled, "two_instances", "beside another layer of the class: keep what belongs to a state in `self`")
class KeepsItsInputInTheClass(ScaledState, reads=""):
    def forward(self, inputs):
        super().forward(inputs)
        type(self).kept = [one.copy() for one in inputs]

    def backward(self, inputs, diffs):
        super().backward(self.kept, diffs)


BY_NAME = {}


@broken(Scaled, "two_instances", "gradient of weight, beside another layer of the class")
class KeepsItsInputByName(ScaledState, reads=""):
    def forward(self, inputs):
        super().forward(inputs)
        BY_NAME[self.layer.name] = [one.copy() for one in inputs]

    def backward(self, inputs, diffs):
        super().backward(BY_NAME[self.layer.name], diffs)


@broken(Scaled, "frozen_parameters", "where weight is frozen: its gradient is None, and then: .*NoneType")
class WantsItsWeightToLearn(ScaledState):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        self.parameters[0].gradient[...] += 0


@broken(Scaled, "frozen_parameters", "gradient of weight, after parameters were frozen")
class ForgetsThatItIsFrozen(ScaledState):
    frozen = False

    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        self.frozen |= self.parameters[0].gradient is None
        if self.frozen and self.parameters[0].gradient is not None:
            self.parameters[0].gradient[...] = 0


@broken(Scaled, "elementwise", "where the axes of blobs lie in reverse order")
class IsNotElementwise(ScaledState, elementwise=True):
    """Each feature has a weight of its own."""


@broken(Mean, "elementwise", "with a row less, where the axes of blobs lie in reverse order")
class CountsRowsElementwise(MeanState, elementwise=True):
    """Rows are no longer in front."""


@broken(Scaled, "growth", "in 1000 steps .* bytes more are in use: what is kept of each step")
class KeepsEveryTop(ScaledState):
    def forward(self, inputs):
        super().forward(inputs)
        self.kept = [*getattr(self, "kept", ()), float(self.blobs[0][0, 0])]


@broken(Scaled, "growth", r"after 10 steps \d+ arrays of shape \(3,\) are made: make what is needed once, in ready")
class AllocatesInEachStep(ScaledState):
    def forward(self, inputs):
        super().forward(inputs)
        self.part = self.backend.empty((3,))


@broken(Scaled, "global_state", "the state of the global random numbers has changed")
class DrawsFromNumpy(ScaledState):
    def forward(self, inputs):
        super().forward(inputs)
        np.random.rand()  # noqa: NPY002


@broken(Scaled, "global_state", "depends on the global random numbers")
class SeedsByNumpy(ScaledState):
    def ready(self):
        super().ready()
        self.noise = float(np.random.get_state()[1][5] % 7)  # noqa: NPY002

    def forward(self, inputs):
        super().forward(inputs)
        self.blobs[0][...] += self.noise


@broken(Scaled, "global_state", "NumPy behaves otherwise in the whole process, after np.seterr")
class SilencesNumpy(ScaledState):
    def ready(self):
        super().ready()
        np.seterr(divide="ignore")


@broken(Scaled, "inputs_are_left_alone", "forward changes the parameter 'weight', which only the solver may")
class ChangesItsWeight(ScaledState):
    def forward(self, inputs):
        super().forward(inputs)
        self.parameters[0].blob[0] += 1e-9


@broken(Scaled, "forward_twice", "forward reads what its tops held before, or leaves a part unwritten")
class LeavesAPartUnwritten(ScaledState):
    def forward(self, inputs):
        self.first = getattr(self, "first", True)
        if self.first:
            super().forward(inputs)
        self.first = False


@broken(Scaled, "gradients_are_written", "leaves 1 of 12 numbers of the gradient of input 0 unwritten")
class LeavesAGradientUnwritten(ScaledState):
    def backward(self, inputs, diffs):
        for dy, dx in zip(self.blobs_diff, diffs, strict=True):
            if dx is not None:
                dx.reshape(-1)[1:] = (dy * self.parameters[0].blob).reshape(-1)[1:]
        super().backward(inputs, [None] * len(diffs))


# Parts of layers that are cut along their features


class CutLayer(ScaledLayer):
    """Every feature by itself: its part of the weight is cut as its bottoms are."""

    def partition(self, part, parts):
        return self


class Cut(Scaled):
    layer = CutLayer


class CentredState(ScaledState):
    """y = weight · x - the mean of x: it needs all features."""

    def forward(self, inputs):
        super().forward(inputs)
        for x, y in zip(inputs, self.blobs, strict=True):
            y -= x.mean(axis=1, keepdims=True)

    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        for dy, dx in zip(self.blobs_diff, diffs, strict=True):
            if dx is not None:
                dx -= dy.mean(axis=1, keepdims=True)


class Centred(Cut):
    def reference(self, layer, inputs, parameters):
        return [x * parameters["weight"] - x.mean(axis=1, keepdims=True) for x in inputs]


class CutWithAllLayer(CutLayer, connection="one_to_all"):
    """Every part gets all features."""


@broken(Centred, "partition", "part 0 of 2: top 'top0'")
class NeedsAllFeaturesAndDoesNotSay(CentredState):
    pass


@broken(Centred, "partition", r"it makes top 'top0' of shape \(4, 3\)", layer=CutWithAllLayer)
class MakesAllFeaturesInEachPart(CentredState):
    pass


@broken(Cut, "partition", "parameter weight, first values: those of a part must be the whole's")
class InitialisesByThePart(ScaledState):
    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.parameters[0].init = Constant(value=1.0 / inputs[0].shape[1])


@broken(Cut, "partition", r"which is no part of the whole's \(3,\)")
class HasAWeightOfAnotherShape(ScaledState):
    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.features = inputs[0].shape[1]
        if self.features == 1:
            self.parameters = [Parameter("weight", (5,), init=Constant(value=1.0))]


class MaskedState(ScaledState, reads="inputs"):
    """y = weight · x · [u ≥ 1 / 2] with a random u."""

    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.random, self.boxes = backend.random(layer.name), [one.box for one in inputs]
        self.intermediates = [backend.blob(one.shape) for one in inputs]

    def box(self, draw):
        box = self.boxes[draw]
        return {} if box is None else {"whole": box.whole, "start": box.start}

    def forward(self, inputs):
        super().forward(inputs)
        for draw, (y, mask) in enumerate(zip(self.blobs, self.intermediates, strict=True)):
            mask[...] = 1
            if self.phase == "train":
                self.random.uniform(mask, draw, **self.box(draw))
                mask[...] = mask >= 0.5
            y *= mask

    def backward(self, inputs, diffs):
        weight = self.parameters[0]
        masked = [dy * mask for dy, mask in zip(self.blobs_diff, self.intermediates, strict=True)]
        if weight.gradient is not None:
            weight.gradient[...] = sum((x * dy).sum(axis=0) for x, dy in zip(inputs, masked, strict=True))
        for dy, dx in zip(masked, diffs, strict=True):
            if dx is not None:
                self.backend.xp.multiply(dy, weight.blob, out=dx)


class Masked(Cut):
    is_random = True
    state = MaskedState

    def reference(self, layer, inputs, parameters):
        masks = [np.ones(x.shape) for x in inputs]
        if self.phase == "train":
            masks = [self.random.generator(draw).random(x.shape) >= 0.5 for draw, x in enumerate(inputs)]
        return [x * parameters["weight"] * mask for x, mask in zip(inputs, masks, strict=True)]


@broken(Masked, "partition", "part 0 of 2: top 'top0'")
class DrawsForItsPartAlone(MaskedState):
    def box(self, draw):
        return {}


def test_layers_that_are_cut_as_they_say_pass():
    assert failures(Cut) == {}
    assert failures(Masked, dtypes=["float64"]) == {}
    assert "test_partition" in kit_tests(Cut)
    assert "test_partition" not in kit_tests(Scaled)


def test_parts_without_an_example_are_found():
    class NeverCutLayer(ScaledLayer):
        def partition(self, part, parts):
            raise ConfigError("not today")

    class NeverCut(Scaled):
        layer = NeverCutLayer

    assert "no example can be cut: not today" in str(failures(NeverCut)["test_examples"])


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_found_by_its_check(name):
    base, state, check, words, options = BROKEN[name]
    suite = type(name, (base,), {"state": state, **options})
    settings = np.geterr()
    try:
        found = failures(suite, dtypes=["float64"], without={"test_growth"} - {check})
    finally:
        np.seterr(**settings)
    assert check in found, f"{name} is not found by {check}, but by {found}"
    with pytest.raises((AssertionError, PluginError), match=words):
        raise found[check]
    assert len(found) <= 4, f"{name} is found by {sorted(found)}"


class NoParameterLayer(ScaledLayer):
    """It says has_param, and has none."""


class NoParameterState(LayerState, of=NoParameterLayer):
    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.alias(one) for one in inputs]

    def forward(self, inputs):
        pass

    def backward(self, inputs, diffs):
        pass


def test_traits_without_an_example_are_found():
    class NoParameter(Scaled):
        layer = NoParameterLayer

    assert "no example has a parameter" in str(failures(NoParameter)["test_examples"])

    class NoGradient(Mean):
        def examples(self):
            yield Example({}, [(4, 3)], wanted=())

    assert "no example has a gradient to check" in str(failures(NoGradient)["test_examples"])


# Containers


class PairLayer(Layer):
    """Two scalings, one after the other."""

    bottoms: Annotated[Names, exactly(1)]
    tops: Annotated[Names, exactly(1)]
    way: str = "good"
    layer: Any = None

    KEPT = ScaledLayer(name="a", bottoms="bottom0", tops="a")

    def expand(self):
        first = ScaledLayer(name="a", bottoms=self.bottoms, tops="a")
        if self.way == "one for all":
            first = self.KEPT
        if self.way == "a field that is no field of layers":
            first = self.layer or ScaledLayer(name="other", bottoms=self.bottoms, tops="a")
        return [first, ScaledLayer(name="b", bottoms="a", tops=self.tops)]


class Pair(LayerTests):
    layer = PairLayer
    way = "good"

    def examples(self):
        yield Example({"way": self.way, **self.more()}, [(4, 3)])

    def more(self):
        return {}

    def reference(self, layer, inputs, parameters):
        return [inputs[0] * parameters["a/weight"] * parameters["b/weight"]]


class OneForAll(Pair):
    """Copies of the container have one layer together."""

    way = "one for all"


class NoFieldOfLayers(Pair):
    """What is written of the container does not make its layers again."""

    way = "a field that is no field of layers"

    def more(self):
        return {"layer": ScaledLayer(name="a", bottoms="bottom0", tops="a")}


BROKEN_CONTAINERS = {OneForAll: "test_container_is_expanded_once", NoFieldOfLayers: "test_container_survives_a_file"}


def test_a_container_that_keeps_its_promises_passes():
    assert failures(Pair) == {}
    assert not {"test_reads", "test_kernels"} & kit_tests(Pair)
    assert not {"test_container_survives_a_file"} & kit_tests(Scaled)


@pytest.mark.parametrize("suite", BROKEN_CONTAINERS)
def test_broken_promises_of_containers_are_found(suite):
    assert BROKEN_CONTAINERS[suite] in failures(suite)


def test_gradients_of_containers_are_checked():
    class Wrong(Pair):
        def reference(self, layer, inputs, parameters):
            return [inputs[0] * parameters["a/weight"]]

    assert "test_forward" in failures(Wrong)


def test_every_check_of_layers_finds_something():
    found = set(BROKEN_CONTAINERS.values()) | {check for _, _, check, _, _ in BROKEN.values()}
    elsewhere = {"test_examples", "test_kernels", "test_random_shapes"}  # each has a test of its own here
    assert set(LayerTests.names_of_tests()) - elsewhere == found


def test_errors_say_where_and_how_much():
    state = BROKEN["WrongGradientOfInput"][1]
    error = str(failures(type("Suite", (Scaled,), {"state": state}))["test_gradients"])
    assert "gradient of input 0 of shape (4, 3): worst at (3, 2), where backward gives" in error
    assert "relative error 0.0001" in error


# Kernels


class GoodKernel(ScaledState, dtypes=("float32", "float64")):
    """The same as the state, on the backend's own blobs."""

    def forward(self, inputs):
        weight = self.parameters[0].blob
        for x, y in zip(inputs, self.blobs, strict=True):
            np.multiply(x.memory, weight, out=y.memory)

    def backward(self, inputs, diffs):
        weight = self.parameters[0]
        pairs = zip(inputs, self.blobs_diff, strict=True)
        if weight.gradient is not None:
            weight.gradient[...] = sum((x.memory * dy.memory).sum(0) for x, dy in pairs)
        for dy, dx in zip(self.blobs_diff, diffs, strict=True):
            if dx is not None:
                np.multiply(dy.memory, weight.blob, out=dx.memory)


class BadKernel(GoodKernel):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        if self.parameters[0].gradient is not None:
            self.parameters[0].gradient *= 1.001


class SloppyKernel(GoodKernel):
    """Right to 1e-7: good enough for float32 only."""

    def forward(self, inputs):
        super().forward(inputs)
        self.blobs[0].memory[...] *= 1 + 1e-7


class ForwardOnlyInTrainKernel(GoodKernel):
    def forward(self, inputs):
        if self.phase == "train":
            super().forward(inputs)


class FewKernel(GoodKernel, dtypes=("float32",)):
    @classmethod
    def supports(cls, layer, inputs):
        return None if len(inputs) == 1 else "takes one bottom only"


class ProudKernel(GoodKernel):
    @classmethod
    def supports(cls, layer, inputs):
        return "not today"


class Kernel(KernelTests):
    layer = ScaledLayer
    kernel = GoodKernel
    backend_name = "numpy"

    def examples(self):
        yield Example({}, [(4, 3)])
        yield Example({}, [(4, 3), (2, 3)], label="two")


def kernel_suite(kernel, **more):
    return type(kernel.__name__, (Kernel,), {"kernel": kernel, **more})


def test_a_good_kernel_passes():
    recorded = []
    assert failures(Kernel, recorded) == {}
    assert ("served", 4) in recorded and ("declined", []) in recorded


def test_a_kernel_is_tested_on_the_backends_for_which_it_is_offered(new_registry):
    here = new_registry()
    silent = kernel_suite(GoodKernel, backend_name="")
    with pytest.raises(ContractError, match="GoodKernel does not say whose kernel GoodKernel is, which nobody offers"):
        silent().backends()
    for backend in ("numpy", "metal"):
        here.register_kernel(GoodKernel, "Scaled", backend, "acme")
    assert silent().backends() == ["metal", "numpy"]


BAD_KERNELS = {
    BadKernel: ("against_state", "BadKernel: gradient of weight: off by 0.001 of its norm"),
    SloppyKernel: ("against_state", "SloppyKernel: top 'top0': off by"),
    ForwardOnlyInTrainKernel: ("against_state", "ForwardOnlyInTrainKernel, phase validation: top 'top0'"),
}


def bad(check, words):
    """Note a kernel that must be found out by this check, in these words, and by three others at most."""

    def note(kernel):
        BAD_KERNELS[kernel] = (check, words)
        return kernel

    return note


@bad("inputs_are_left_alone", r"forward writes into its input 0 \('bottom0'\)")
class WritesIntoItsInputKernel(GoodKernel):
    def forward(self, inputs):
        super().forward(inputs)
        inputs[0].memory[0, 0] += 0.5


@bad("inputs_are_left_alone", r"backward writes into its input 0 \('bottom0'\)")
class UsesItsInputAsScratchKernel(GoodKernel):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        inputs[0].memory[...] = 0


@bad("gradients_are_written", "backward adds to the gradient of weight: write it")
class AddsKernel(GoodKernel):
    def backward(self, inputs, diffs):
        weight = self.parameters[0]
        before = None if weight.gradient is None else weight.gradient.copy()
        super().backward(inputs, diffs)
        if before is not None:
            weight.gradient += before


@bad("reads", "where inputs are overwritten before backward: it reads them")
class ReadsInputsKernel(GoodKernel, reads=""):
    """It needs its inputs to compute the gradient of the weight."""


@bad("moved_memory", "take addresses and views in ready")
class KeepsItsAddressesKernel(GoodKernel):
    known = None

    def forward(self, inputs):
        self.known = self.known or [(x.memory, y.memory) for x, y in zip(inputs, self.blobs, strict=True)]
        for x, y in self.known:
            np.multiply(x, self.parameters[0].blob, out=y)


@bad("scratch", "gradient of weight, where backend.scratch was overwritten between calls")
class KeepsItsInputInScratchKernel(GoodKernel):
    def forward(self, inputs):
        super().forward(inputs)
        for slot, x in enumerate(inputs):
            self.backend.scratch(x.shape, slot=slot)[...] = x.memory

    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        if self.parameters[0].gradient is not None:
            kept = [self.backend.scratch(x.shape, slot=slot) for slot, x in enumerate(inputs)]
            pairs = zip(kept, self.blobs_diff, strict=True)
            self.parameters[0].gradient[...] = sum((x * dy.memory).sum(0) for x, dy in pairs)


@bad("two_instances", "beside another layer of the class: keep what belongs to a state in `self`")
class KeepsItInTheClassKernel(GoodKernel):
    def forward(self, inputs):
        super().forward(inputs)
        type(self).kept = [x.memory.copy() for x in inputs]

    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        if self.parameters[0].gradient is not None:
            pairs = zip(self.kept, self.blobs_diff, strict=True)
            self.parameters[0].gradient[...] = sum((x * dy.memory).sum(0) for x, dy in pairs)


@bad("frozen_parameters", "where weight is frozen: its gradient is None, and then: .*NoneType")
class NeverFrozenKernel(GoodKernel):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        self.parameters[0].gradient[...] *= 1


@bad("phases", "NotInPredictKernel, phase predict: top 'top0'")
class NotInPredictKernel(GoodKernel):
    def forward(self, inputs):
        if self.phase != "predict":
            super().forward(inputs)


@bad("phases", "OnlyInKnownPhasesKernel, phase positive: top 'top0'")
class OnlyInKnownPhasesKernel(GoodKernel):
    def forward(self, inputs):
        if self.phase in ("train", "validation", "test", "predict"):
            super().forward(inputs)


@bad("growth", "bytes more are in use: what is kept of each step")
class KeepsEveryTopKernel(GoodKernel):
    def forward(self, inputs):
        super().forward(inputs)
        self.kept = [*getattr(self, "kept", ()), self.blobs[0].memory.copy()]


@bad("global_state", "the state of the global random numbers has changed")
class DrawsFromNumpyKernel(GoodKernel):
    def forward(self, inputs):
        super().forward(inputs)
        np.random.rand()  # noqa: NPY002


@pytest.mark.parametrize("kernel", BAD_KERNELS, ids=lambda kernel: kernel.__name__)
def test_a_bad_kernel_is_found(kernel):
    check, words = BAD_KERNELS[kernel]
    found = failures(kernel_suite(kernel), dtypes=["float64"], without={"test_growth"} - {f"test_{check}"})
    assert f"test_{check}" in found, f"{kernel.__name__} is not found by {check}, but by {found}"
    with pytest.raises(AssertionError, match=words):
        raise found[f"test_{check}"]
    assert len(found) <= 4, f"{kernel.__name__} is found by {sorted(found)}"


def test_a_comparison_begins_with_the_fault_behind_it():
    found = failures(kernel_suite(WritesIntoItsInputKernel), dtypes=["float64"])["test_against_state"]
    assert str(found).startswith("forward writes into its input 0 ('bottom0'), which other layers read: ")
    assert "(check 'inputs_are_left_alone')\nIt shows as: WritesIntoItsInputKernel: gradient of weight: off by" in str(
        found
    )


# A gradient that is zero


class CentredState(LayerState, reads=""):
    """y = x + bias, less the mean of each feature: the gradient of the bias is zero, but for roundings."""

    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.parameters = [Parameter("bias", (inputs[0].shape[1],), init=Constant(value=1.0))]
        self.blobs = [backend.blob(inputs[0].shape)]

    def forward(self, inputs):
        y = inputs[0] + self.parameters[0].blob
        self.blobs[0][...] = y - y.mean(axis=0)

    def backward(self, inputs, diffs):
        dy = self.blobs_diff[0]
        centred = dy - dy.mean(axis=0)
        if self.parameters[0].gradient is not None:
            self.parameters[0].gradient[...] = centred.sum(axis=0)
        if diffs[0] is not None:
            diffs[0][...] = centred


def test_a_gradient_that_is_zero_is_no_alarm():
    class Centred(Scaled):
        def examples(self):
            yield Example({"state": CentredState}, [(7, 3)])

        def reference(self, layer, inputs, parameters):
            y = inputs[0] + parameters["bias"]
            return [y - y.mean(axis=0)]

    assert failures(Centred) == {}


def test_what_a_kernel_declines_is_counted(capsys):
    recorded = []
    assert failures(kernel_suite(FewKernel), recorded) == {}
    assert ("served", 1) in recorded
    declined = dict(recorded)["declined"]
    assert len(declined) == 3
    assert declined[0] == "float64, example 0: computes in float32, not float64"
    assert "float32, example two: takes one bottom only" in capsys.readouterr().out


def test_a_kernel_that_declines_everything_fails():
    found = failures(kernel_suite(ProudKernel))
    assert "the kernel declines every example" in str(found["test_serves"])
    assert "not today" in str(found["test_serves"])


def test_random_shapes():
    def strategy(self):
        return st.builds(lambda rows, size: Example({}, [(rows, size)]), st.integers(1, 5), st.integers(1, 5))

    assert "test_random_shapes" not in kit_tests(Kernel) | kit_tests(Scaled)
    assert failures(kernel_suite(GoodKernel, strategy=strategy)) == {}
    assert "test_random_shapes" in failures(kernel_suite(BadKernel, strategy=strategy))
    assert failures(type("S", (Scaled,), {"strategy": strategy})) == {}

    def wide(self):
        return st.builds(lambda size: Example({"state": WideIsWrong}, [(2, size)]), st.integers(1, 9))

    class WideIsWrong(ScaledState):
        def backward(self, inputs, diffs):
            super().backward(inputs, diffs)
            self.parameters[0].gradient[5:] = 0

    assert set(failures(type("S", (Scaled,), {"strategy": wide}))) == {"test_random_shapes"}


def test_offered_kernels_are_compared_with_the_state(new_registry):
    backend = registry().open("backend", "numpy")
    own = new_registry(discover=False)
    own.register(backend, "numpy")
    own.register(ScaledLayer, "Scaled")
    own.register(Constant)
    own.register_kernel(GoodKernel, "Scaled", "numpy")
    recorded = []
    assert failures(Scaled, recorded) == {}
    assert set(recorded) == {("GoodKernel@numpy", "checked")}
    own.register_kernel(BadKernel, "Scaled", "numpy")
    found = failures(Scaled)
    assert set(found) == {"test_kernels"}
    assert "BadKernel" in str(found["test_kernels"])


def test_which_kernel_serves():
    layers = [
        InputLayer(tops=["x"], shape=3, batch_size=2),
        ScaledLayer(name="s", bottoms=["x"], tops=["y"]),
    ]

    def runs():
        return type(Net("n", layers, backend="numpy").node_ops["s"].state)

    assert runs() is ScaledState
    with with_kernel(ScaledLayer, GoodKernel, "numpy"):
        assert runs() is GoodKernel
        with without_kernels(ScaledLayer):
            assert runs() is ScaledState
        with without_kernels():
            assert runs() is ScaledState
        with with_kernel(ScaledLayer, ProudKernel, "numpy"):
            assert runs() is ScaledState
        assert runs() is GoodKernel
    assert runs() is ScaledState
    assert "choose" not in vars(registry())


# What an author may say


def test_a_suite_must_be_complete():
    class Nothing(LayerTests):
        layer = ScaledLayer

    with pytest.raises(ContractError, match=r"Nothing does not define examples\(\)"):
        list(Nothing().examples())

    class NoReference(LayerTests):
        layer = ScaledLayer
        examples = Scaled.examples
        state = ScaledState

    assert "NoReference does not define reference()" in str(failures(NoReference)["test_forward"])


def test_importing_the_kit_is_light():
    code = "import sys, nacre.testing; print(*{'pytest', 'numpy', 'hypothesis'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""
    code = "import sys; from nacre.testing import check_net_gradients; print('pytest' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


# Comparing


def test_assert_close():
    assert_close([1.0, np.nan, np.inf, -np.inf], [1.0, np.nan, np.inf, -np.inf])
    assert_close(np.float32(1 + 1e-6), 1.0)
    assert_close(np.zeros((0, 2)), np.zeros((0, 2)))
    for actual, expected, message in [
        (
            [1.0, 2.0, 3.5],
            [1.0, 2.0, 3.0],
            r"numbers: 1 of 3 .*most at \(2,\): 3.5 instead of 3, off by 0.5, allowed 6e-12",
        ),
        ([1.0, np.nan], [1.0, 2.0], r"most at \(1,\): nan instead of 2"),
        ([np.inf], [-np.inf], "inf instead of -inf"),
        ([1.0], [np.nan], "1 instead of nan"),
        ([[1.0]], [1.0], r"numbers: the shape is \(1, 1\) instead of \(1,\)"),
        ([1e-9], [0.0], "1 of 1 numbers differ"),
    ]:
        with pytest.raises(AssertionError, match=message):
            assert_close(actual, expected, "numbers")
    assert_close([1.5], [1.0], tolerance=0.25)
    with pytest.raises(AssertionError):
        assert_close([1], [2])  # whole numbers must be equal


def test_assert_near():
    expected = np.array([1.0, 1e-12, 0])
    assert_near(np.add(expected, [0, 1e-11, 0]), expected)
    with pytest.raises(AssertionError, match=r"off by 1e-09 of its norm, allowed 1e-10; most at \(2,\)"):
        assert_near(np.add(expected, [0, 0, 1e-9]), expected)
    with pytest.raises(AssertionError, match=r"off by inf .* most at \(1,\): nan"):
        assert_near([1.0, np.nan], [1.0, 2.0])
    with pytest.raises(AssertionError, match="the shape is"):
        assert_near([1.0], [1.0, 2.0])


# Numerical gradients


def test_numerical_gradient():
    x = np.array([[0.5, -1.0], [2.0, 300.0]])
    kept = x.copy()
    places, slopes = numerical_gradient(lambda y: float(np.sum(y**3)), x)
    assert places.tolist() == [0, 1, 2, 3]
    assert_close(slopes, 3 * x.reshape(-1) ** 2, tolerance=1e-8)
    assert np.array_equal(x, kept)


def test_of_a_large_array_some_entries_are_taken():
    x = np.arange(1000.0)
    places, slopes = numerical_gradient(lambda y: float(np.sum(y * x)), x, entries=50)
    assert len(set(places.tolist())) == 50 and places.max() > 500
    assert_close(slopes, x[places], tolerance=1e-6)
    again, _ = numerical_gradient(lambda y: 0.0, x, entries=50)
    other, _ = numerical_gradient(lambda y: 0.0, x, entries=50, seed=1)
    assert np.array_equal(places, again) and not np.array_equal(places, other)


def test_worst_error():
    places, slopes = np.array([0, 2]), np.array([1.0, 2.0])
    assert worst_error(np.array([1.0, 99.0, 2.0]), places, slopes) == (0.0, 0)
    error, place = worst_error(np.array([1.0, 99.0, 2.5]), places, slopes)
    assert (round(error, 9), place) == (0.2, 2)
    assert worst_error(np.array([np.nan, 0, 2.0]), places, slopes) == (np.inf, 0)
    assert worst_error(np.zeros(0), np.zeros(0, int), np.zeros(0)) == (0.0, 0)
    assert worst_error(np.array([1e-12]), np.array([0]), np.zeros(1))[0] < 1e-6  # rounding, where there is no slope


def whole_net(state=ScaledState, dtype="float64"):
    layers = [
        InputLayer(name="in", tops=["x"], shape=4, batch_size=3),
        InputLayer(name="labels", tops=["label"], batch_size=3, dtype="int64"),
        InnerProductLayer(bottoms=["x"], tops=["a"], output_dim=5, neuron="Tanh"),
        DropoutLayer(name="drop", bottoms=["a"]),
        ScaledLayer(bottoms=["a"], tops=["b"], state=state),
        InnerProductLayer(bottoms=["b"], tops=["c"], output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["c", "label"]),
    ]
    net = Net("whole", layers, backend="numpy", dtype=dtype)
    net.write("x", np.random.default_rng(0).standard_normal((3, 4)))
    net.write("label", [0, 2, 1])
    return net


def test_check_net_gradients():
    net = whole_net()
    before = {name: handle.value for name, handle in net.parameters.items()}
    errors = check_net_gradients(net)
    assert [name for name, _ in errors] == ["a/weight", "a/bias", "b/weight", "c/weight", "c/bias"]
    assert max(error for _, error in errors) < 1e-6
    for name, value in before.items():
        assert np.array_equal(net.parameters[name].value, value), name
    few = dict(check_net_gradients(net, entries=2, epsilon=1e-4))
    assert list(few) == list(before)


def test_check_net_gradients_finds_a_wrong_layer():
    errors = dict(check_net_gradients(whole_net(WrongGradientOfWeight)))
    assert errors["b/weight"] > 5e-5
    assert max(error for name, error in errors.items() if name != "b/weight") < 1e-6


def test_check_net_gradients_wants_float64():
    with pytest.raises(ConfigError, match="net 'whole' is of type float32, which is too coarse"):
        check_net_gradients(whole_net(dtype="float32"))


def test_check_net_gradients_leaves_out_what_writes():
    image, label = np.random.default_rng(0).standard_normal((3, 4)), np.array([0, 2, 1])
    written = MemoryOutputLayer(name="written", bottoms=["c"])
    layers = [
        MemoryDataLayer(name="in", tops=["x", "label"], data=[image, label], batch_size=3),
        InnerProductLayer(bottoms=["x"], tops=["c"], output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["c", "label"]),
        written,
    ]
    net = Net("writes", layers, backend="numpy", dtype="float64")
    assert len(check_net_gradients(net, entries=2)) == 2
    assert net.node_ops["written"].state.outputs == [[]]


# Trials


def test_backends():
    assert "numpy" in backends()


def test_examples():
    example = Example({}, [(3, 4), np.arange(3), [[0.5], [1.5], [2.5]]])
    arrays = example.arrays()
    assert [one.shape for one in arrays] == [(3, 4), (3,), (3, 1)]
    assert len(np.unique(arrays[0])) == 12 and 0 not in arrays[0] and np.abs(arrays[0]).max() <= 2
    assert example.differentiable() == (0, 2)
    assert [one.shape for one in example.cut(2).arrays()] == [(2, 4), (2,), (2, 1)]
    assert np.array_equal(example.cut(2).arrays()[0], arrays[0][:2])


def test_a_trial_runs_what_nets_run():
    trial = Trial(Scaled().make, Example({}, [(4, 3)]), backend="numpy", dtype="float64")
    loss = trial.forward()
    gradients = trial.gradients()
    assert set(gradients) == {"input 0", "weight"}
    assert loss == pytest.approx(float((trial.arrays[0] * gradients["input 0"]).sum()))
    assert_close(trial.results()[0], trial.arrays[0])
    trial.shutdown()


def test_the_check_of_a_net_does_not_believe_zeros():
    layers = [
        InputLayer(name="in", tops="data", shape=3, batch_size=2),
        InputLayer(name="labels", tops="label", batch_size=2),
        InnerProductLayer(name="ip", bottoms="data", tops="ip", output_dim=2),
        SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
    ]
    net = Net("net", layers, backend="numpy", dtype="float64")
    assert net.unwritten() == ["data", "label"]
    assert max(error for _, error in check_net_gradients(net)) < 1e-6
    assert net.unwritten() == ["label"]
    assert np.any(net.parameters["ip/weight"].gradient != 0)
