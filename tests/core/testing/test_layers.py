"""LayerTests passes a layer that keeps its promises, and finds every one that is broken."""

import subprocess
import sys
from typing import Annotated, Any

import numpy as np
import pytest

from nacre import (
    ConfigError,
    ContractError,
    Layer,
    LayerState,
    Names,
    Parameter,
    PluginError,
    as_many_as,
    exactly,
)
from nacre.testing.layers import LayerTests
from nacre.testing.trial import Example, layer_of
from nacre_layers.initializers import Constant
from run_suite import besides, failures, kit_tests, one_or_all
from small_suites import (
    BothGradientsOrNone,
    CarriesACount,
    Mean,
    MeanLayer,
    MeanState,
    Scaled,
    ScaledLayer,
    ScaledState,
    Shifted,
    ShiftedState,
    WrongGradientOfWeight,
)


@pytest.mark.parametrize("suite", [Scaled, Shifted, Mean])
def test_a_layer_that_keeps_its_promises_passes(suite):
    assert failures(suite) == {}


def test_an_example_has_as_many_tops_as_the_layer_can_have():
    for words, inputs, tops in (
        (Names, 2, ("top0", "top1")),
        (Annotated[Names, exactly(1)], 2, ("top0",)),
        (Annotated[Names, exactly(3)], 2, ("top0", "top1", "top2")),
        (Annotated[Names, as_many_as("bottoms")], 3, ("top0", "top1", "top2")),
    ):
        cls = type(
            "SomeLayer", (Layer,), {"__annotations__": {"bottoms": Names, "tops": words}, "__module__": __name__}
        )
        assert layer_of(cls, Example({}, [(4, 3)] * inputs)).tops == tops


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


@broken(Scaled, "forward", "top 'top0' .with other parameters, in the same net")
class KeepsItsFirstWeight(ScaledState):
    kept = None

    def forward(self, inputs):
        if self.kept is None:
            self.kept = self.parameters[0].blob.copy()
        for x, y in zip(inputs, self.blobs, strict=True):
            self.backend.xp.multiply(x, self.kept, out=y)


class CountingState(ScaledState):
    """It counts its batches in a buffer; this keeps its promises."""

    phases = ("train",)

    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.parameters.append(Parameter("count", (1,), init=Constant(), trainable=False))

    def forward(self, inputs):
        super().forward(inputs)
        if self.phase in self.phases:
            self.parameters[1].blob[0] += 1


def test_a_layer_that_changes_its_buffer_in_training_passes():
    assert failures(type("S", (Scaled,), {"state": CountingState}), dtypes=["float64"]) == {}


@broken(Scaled, "forward", "forward changes 'count' in phase validation; only in phase train")
class CountsInValidation(CountingState):
    phases = ("train", "validation")


@broken(Scaled, "gradients", "gradient of input 0")
class WrongGradientOfInput(ScaledState):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        if diffs[0] is not None:
            diffs[0][-1, -1] *= 1.0001


broken(Scaled, "gradients", "gradient of weight")(WrongGradientOfWeight)


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


@broken(Scaled, "gradients_are_written", "gradient of weight where backward runs again after one forward")
class UsesUpWhatItKept(ScaledState, reads=""):
    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.intermediates = [backend.blob(one.shape) for one in inputs]

    def forward(self, inputs):
        super().forward(inputs)
        for x, kept in zip(inputs, self.intermediates, strict=True):
            kept[...] = x

    def backward(self, inputs, diffs):
        super().backward(self.intermediates, diffs)
        for dy, kept in zip(self.blobs_diff, self.intermediates, strict=True):
            kept *= dy


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


@broken(Scaled, "batch_of_one", "gradient of weight of shape")
class WrongGradientOfOneRecord(ScaledState):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        if len(inputs[0]) == 1:
            self.parameters[0].gradient *= 1.001


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


@broken(Scaled, "memory", r"top 'top0' after rewind\(\), beside that of the first batch")
class NeverBeginsAnew(CarriesACount):
    def rewind(self):
        pass


def test_a_layer_that_carries_something_passes():
    assert failures(type("Carries", (Scaled,), {"state": CarriesACount})) == {}


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


class CountedState(ScaledState):
    """y = weight · x, beside a statistic: this keeps its promises."""

    sum, count = 0.0, 0

    def forward(self, inputs):
        super().forward(inputs)
        rows = inputs[0][: self.backend.rows]
        self.sum, self.count = self.sum + float(rows.sum()), self.count + rows.size

    dump_statistics = MeanState.dump_statistics
    reset_statistics = MeanState.reset_statistics


class CountedLayer(ScaledLayer, has_stats=True):
    """It passes gradients on, and counts."""


class Counted(Scaled):
    layer = CountedLayer
    state = CountedState

    def reference(self, layer, inputs, parameters):
        return super().reference(layer, inputs, parameters), {"mean": float(inputs[0].mean())}


def test_a_layer_with_statistics_and_a_gradient_passes():
    assert failures(Counted) == {}


@broken(Counted, "rows", r"statistic 'mean' \(only 3 of 4 rows are real")
class CountsAllRowsBesides(CountedState):
    def forward(self, inputs):
        super().forward(inputs)
        self.sum, self.count = float(inputs[0].sum()), inputs[0].size


@broken(Counted, "rows", "gradient of input 0 in rows that do not count, which must be 0")
class AddsToRowsThatDoNotCount(CountedState):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        if diffs[0] is not None:
            diffs[0][self.backend.rows :] += 1


@broken(Mean, "forward", "statistics")
class AnotherStatistic(MeanState):
    def dump_statistics(self):
        return {"average": super().dump_statistics()["mean"]}


class SaysMeanLayer(MeanLayer, statistics={"mean": ("lower", "")}):
    """It says what it counts."""


@broken(Mean, "traits", "dump_statistics gives average, but the class line declares mean", layer=SaysMeanLayer)
class CountsWhatItDoesNotSay(MeanState):
    def dump_statistics(self):
        return {"average": super().dump_statistics()["mean"]}


@pytest.mark.parametrize(("part", "words"), [(0, "has statistics"), (1, "has a loss")])
def test_a_reference_gives_all_that_the_layer_promises(part, words):
    class HalfAReference(Mean):
        def reference(self, layer, inputs, parameters):
            return super().reference(layer, inputs, parameters)[part]

    others = besides(HalfAReference, "test_forward", False)
    found = failures(HalfAReference, dtypes=["float64"], without=others)["test_forward"]
    assert isinstance(found, ContractError)
    assert f"HalfAReference: the layer {words}" in str(found)


@broken(Mean, "traits", "has_stats, but dump_statistics gives nothing")
class NoStatistics(MeanState):
    def dump_statistics(self):
        return {}


@broken(Mean, "joined", "after collected and join they are")
class ForgetsHowMuchWasCounted(MeanState):
    def collected(self):
        return {"sum": self.sum, "count": self.count}

    def join(self, other):
        self.sum += float(other["sum"])


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


@broken(Shifted, "frozen_parameters", "gradient of shift, where weight is frozen: its gradient is None: .*nan")
class WritesBothGradientsOrNone(BothGradientsOrNone, ShiftedState):
    """Its mistake."""


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


@broken(Scaled, "growth", "in 100 steps .* bytes more are in use: what is kept of each step")
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
    changed = False

    def forward(self, inputs):
        if not self.changed:  # before the first top, so that a second pass gives the same
            self.parameters[0].blob[0] += 1e-9
        self.changed = True
        super().forward(inputs)


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


@broken(Scaled, "whole_numbers", "top 0 of inputs in uint8, beside that of the same numbers as floats: off by")
class AddsInTheTypeOfItsBottom(ScaledState):
    def forward(self, inputs):
        halves = [(x + x) / 2 for x in inputs]  # for large numbers of uint8 that is not x
        super().forward(halves)


@broken(Scaled, "whole_numbers", "top 0 of inputs in int8, beside that of the same numbers as floats: off by")
class AddsOnlyInt8InItsType(ScaledState):
    def forward(self, inputs):
        super().forward([(x + x) / 2 if x.dtype == np.int8 else x for x in inputs])


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


@one_or_all
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_found_by_its_check(name, every, monkeypatch):
    monkeypatch.setattr("nacre.testing.states.MANY", 100)
    base, state, check, words, options = BROKEN[name]
    suite = type(name, (base,), {"state": state, **options})
    settings = np.geterr()
    try:
        found = failures(suite, dtypes=["float64"], without=besides(suite, check, every, ["test_growth"]))
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
