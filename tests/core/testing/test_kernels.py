"""KernelTests passes a kernel that computes what the layer's own code does, and finds one that does not."""

from typing import Annotated

import numpy as np
import pytest
from hypothesis import strategies as st

from nacre import (
    ContractError,
    Identity,
    InputLayer,
    Net,
    Neuron,
    registry,
)
from nacre.testing.kernels import KernelTests
from nacre.testing.trial import Example, Trial, layer_of, with_kernel, without_kernels
from nacre_layers.initializers import Constant
from nacre_layers.neurons import ReLU
from run_suite import besides, failures, kit_tests, one_or_all
from small_suites import BothGradientsOrNone, CarriesACount, Scaled, ScaledLayer, ScaledState, ShiftedState

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


class SumsInAnotherOrderKernel(GoodKernel):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        self.parameters[0].gradient[...] = np.cumsum(inputs[0].memory * self.blobs_diff[0].memory, 0)[-1]


class LeavesOneOutKernel(GoodKernel):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        self.parameters[0].gradient[...] -= inputs[0].memory[7] * self.blobs_diff[0].memory[7]


@pytest.mark.parametrize("kernel", [SumsInAnotherOrderKernel, LeavesOneOutKernel])
def test_roundings_of_terms_that_cancel_are_no_mistake(kernel):
    x = np.random.default_rng(0).uniform(-1, 1, (3001, 1)).astype(np.float32)
    example = Example({"state": ScaledState}, [x])
    trial = Trial(lambda one: layer_of(ScaledLayer, one), example, backend="numpy", dtype="float32")
    (dy,) = trial.probe_weights()
    trial.shutdown()
    x[-1] += (0.02 - (x * dy).sum(dtype=float)) / dy[-1]  # so much is left
    suite = kernel_suite(kernel, examples=lambda _: [Example({"state": ScaledState}, [x])])
    found = failures(suite, dtypes=["float32"], without=besides(suite, "test_against_state", False))
    assert bool(found) == (kernel is LeavesOneOutKernel), found


class ShiftedKernel(GoodKernel):
    """The same as `ShiftedState`."""

    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.parameters = ShiftedState(layer, backend, inputs, diffs).parameters

    def forward(self, inputs):
        super().forward(inputs)
        for y in self.blobs:
            y.memory[...] += self.parameters[1].blob

    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        if self.parameters[1].gradient is not None:
            self.parameters[1].gradient[...] = sum(dy.memory.sum(0) for dy in self.blobs_diff)


class WritesBothGradientsOrNoneKernel(BothGradientsOrNone, ShiftedKernel):
    """Its mistake."""


@pytest.mark.parametrize("kernel", [ShiftedKernel, WritesBothGradientsOrNoneKernel])
def test_a_kernel_is_compared_where_one_of_its_parameters_is_frozen(kernel):
    suite = kernel_suite(kernel, examples=lambda _: [Example({"state": ShiftedState}, [(4, 3)])])
    found = failures(suite)
    if kernel is ShiftedKernel:
        assert found == {}
    else:
        assert set(found) == {"test_against_state", "test_frozen_parameters"}
        told = "WritesBothGradientsOrNoneKernel, tested/weight frozen: gradient of shift"
        assert told in str(found["test_against_state"])


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


IMAGES = [(2, 3, 5, 4)]
"""On numpy these have another layout in the backend's own blobs."""
EXAMPLES = {}


class ImagesKernel(GoodKernel):
    """The same for images, whose channels are last in the backend's own blobs."""

    def backward(self, inputs, diffs):
        weight, axes = self.parameters[0], (0, 1, 2)
        if weight.gradient is not None:
            weight.gradient[...] = (inputs[0].memory * self.blobs_diff[0].memory).sum(axes)
        if diffs[0] is not None:
            np.multiply(self.blobs_diff[0].memory, weight.blob, out=diffs[0].memory)


class ImagesState(ScaledState):
    """y = weight · x, a weight for each channel."""

    def forward(self, inputs):
        self.blobs[0][...] = inputs[0] * self.parameters[0].blob[:, None, None]

    def backward(self, inputs, diffs):
        weight, dy = self.parameters[0], self.blobs_diff[0]
        if weight.gradient is not None:
            weight.gradient[...] = (inputs[0] * dy).sum((0, 2, 3))
        if diffs[0] is not None:
            diffs[0][...] = dy * weight.blob[:, None, None]


def test_a_good_kernel_of_images_passes():
    suite = kernel_suite(ImagesKernel, examples=lambda _: [Example({"state": ImagesState}, IMAGES)])
    assert failures(suite) == {}


def bad(check, words, inputs=None):
    """Note a kernel that must be found out by this check, in these words, and by three others at most."""

    def note(kernel):
        BAD_KERNELS[kernel] = (check, words)
        if inputs is not None:
            EXAMPLES[kernel] = [Example({"state": ImagesState}, inputs)]
        return kernel

    return note


@bad("against_state", "OnlyWholeBatchesKernel, with a row less: top 'top0'")
class OnlyWholeBatchesKernel(GoodKernel):
    def forward(self, inputs):
        if self.backend.rows == len(inputs[0].memory):
            super().forward(inputs)


@bad("against_state", "KeepsItsFirstInputKernel, with a row less: gradient of weight")
class KeepsItsFirstInputKernel(GoodKernel):
    kept = None

    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        if self.parameters[0].gradient is not None:
            self.kept = self.kept or [x.memory.copy() for x in inputs]
            pairs = zip(self.kept, self.blobs_diff, strict=True)
            self.parameters[0].gradient[...] = sum((x * dy.memory).sum(0) for x, dy in pairs)


@bad("against_state", "KeepsItsFirstWeightKernel, in step 3 with other parameters: top 'top0'")
class KeepsItsFirstWeightKernel(GoodKernel):
    kept = None

    def forward(self, inputs):
        if self.kept is None:
            self.kept = self.parameters[0].blob.copy()
        for x, y in zip(inputs, self.blobs, strict=True):
            np.multiply(x.memory, self.kept, out=y.memory)


@bad("against_state", "OnlyInTheFirstStepKernel, in step 3 with other parameters: top 'top0'")
class OnlyInTheFirstStepKernel(GoodKernel):
    def forward(self, inputs):
        super().forward(inputs)
        if self.backend.step:
            self.blobs[0].memory[...] = 0


@bad("against_state", "SetsUpForPredictKernel, batch of one, phase predict: top 'top0'")
class SetsUpForPredictKernel(GoodKernel):
    def __init__(self, layer, backend, inputs, diffs):
        super().__init__(layer, backend, inputs, diffs)
        self.predicts = self.phase == "predict"

    def forward(self, inputs):
        super().forward(inputs)
        if self.predicts:
            self.blobs[0].memory[...] = 0


class CarriesKernel(GoodKernel):
    """The same as `CarriesACount`."""

    count = 0
    advance, rewind, memory = CarriesACount.advance, CarriesACount.rewind, CarriesACount.memory
    remember = CarriesACount.remember

    def forward(self, inputs):
        super().forward(inputs)
        for y in self.blobs:
            y.memory[...] += self.count


class NeverAdvancesKernel(CarriesKernel):
    def advance(self):
        pass


class NeverRewindsKernel(CarriesKernel):
    def rewind(self):
        pass


class NeverRemembersKernel(CarriesKernel):
    def remember(self, memory):
        pass


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (CarriesKernel, ""),
        (NeverAdvancesKernel, "in the batch after advance()"),
        (NeverRewindsKernel, "after rewind()"),
        (NeverRemembersKernel, "after remember() of what the layer's own state has in memory()"),
    ],
)
def test_what_goes_from_batch_to_batch_is_compared(kernel, words):
    suite = kernel_suite(kernel, examples=lambda _: [Example({"state": CarriesACount}, [(4, 3)])])
    found = failures(suite, dtypes=["float64"], without=besides(suite, "test_against_state", False))
    assert bool(found) == bool(words)
    assert words in str(found.get("test_against_state", ""))


@bad("against_state", "NeverOneRecordKernel, batch of one: top 'top0'")
class NeverOneRecordKernel(GoodKernel):
    def forward(self, inputs):
        super().forward(inputs)
        if len(inputs[0].memory) == 1:
            self.blobs[0].memory[...] = 0


@bad("against_state", "AllOrNoneKernel, only input 0 wanted: gradient of input 0")
class AllOrNoneKernel(GoodKernel):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs if None not in diffs else [None] * len(diffs))


@bad("against_state", "LearnsBesidesKernel, no input wanted: gradient of weight")
class LearnsBesidesKernel(GoodKernel):
    def backward(self, inputs, diffs):
        if any(dx is not None for dx in diffs):
            super().backward(inputs, diffs)


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


@bad("inputs_are_left_alone", r"backward writes into its input 0 \('bottom0'\)", inputs=IMAGES)
class WritesIntoItsOwnInputKernel(ImagesKernel):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        inputs[0].memory[...] = 0


@bad("inputs_are_left_alone", r"forward writes into its input 0 \('bottom0'\)", inputs=IMAGES)
class ClipsItsOwnInputKernel(ImagesKernel):
    def forward(self, inputs):
        super().forward(inputs)
        np.clip(inputs[0].memory, -1, 1, out=inputs[0].memory)


@bad("inputs_are_left_alone", r"backward writes into blobs_diff\[0\], the gradient of top 'top0'", inputs=IMAGES)
class WritesIntoItsOwnGradientKernel(ImagesKernel):
    def backward(self, inputs, diffs):
        super().backward(inputs, diffs)
        self.blobs_diff[0].memory[...] = 0


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


@bad("against_state", "NotInPredictKernel, batch of one, phase predict: top 'top0'")
class NotInPredictKernel(GoodKernel):
    def forward(self, inputs):
        if self.phase != "predict":
            super().forward(inputs)


@bad("phases", "OnlyInKnownPhasesKernel, phase positive: top 'top0'")
class OnlyInKnownPhasesKernel(GoodKernel):
    def forward(self, inputs):
        if self.phase in ("train", "validation", "test", "predict"):
            super().forward(inputs)


@bad("growth", "in 100 steps .* bytes more are in use: what is kept of each step")
class KeepsEveryTopKernel(GoodKernel):
    def forward(self, inputs):
        super().forward(inputs)
        self.kept = [*getattr(self, "kept", ()), self.blobs[0].memory.copy()]


@bad("global_state", "the state of the global random numbers has changed")
class DrawsFromNumpyKernel(GoodKernel):
    def forward(self, inputs):
        super().forward(inputs)
        np.random.rand()  # noqa: NPY002


@one_or_all
@pytest.mark.parametrize("kernel", BAD_KERNELS, ids=lambda kernel: kernel.__name__)
def test_a_bad_kernel_is_found(kernel, every, monkeypatch):
    monkeypatch.setattr("nacre.testing.states.MANY", 100)
    more = {"examples": lambda _: EXAMPLES[kernel]} if kernel in EXAMPLES else {}
    suite, (check, words) = kernel_suite(kernel, **more), BAD_KERNELS[kernel]
    test = f"test_{check}"
    found = failures(suite, dtypes=["float64"], without=besides(suite, test, every, ["test_growth"]))
    assert test in found, f"{kernel.__name__} is not found by {check}, but by {found}"
    with pytest.raises(AssertionError, match=words):
        raise found[test]
    assert len(found) <= 4, f"{kernel.__name__} is found by {sorted(found)}"


def test_a_comparison_begins_with_the_fault_behind_it():
    suite, check = kernel_suite(WritesIntoItsInputKernel), "test_against_state"
    found = failures(suite, dtypes=["float64"], without=besides(suite, check, False))[check]
    assert str(found).startswith("forward writes into its input 0 ('bottom0'), which other layers read: ")
    assert "(check 'inputs_are_left_alone')\nIt shows as: WritesIntoItsInputKernel: gradient of weight: off by" in str(
        found
    )


class NeuronScaledLayer(ScaledLayer, has_neuron=True):
    neuron: Annotated[Neuron, ""] = Identity()


class RectifiesKernel(GoodKernel, fuses=("ReLU",), reads="inputs blobs"):
    """It applies ReLU itself, and keeps its promises."""

    rectifies = True

    def forward(self, inputs):
        super().forward(inputs)
        if isinstance(self.layer.neuron, ReLU) and self.rectifies:
            for y in self.blobs:
                np.maximum(y.memory, 0, out=y.memory)

    def backward(self, inputs, diffs):
        if isinstance(self.layer.neuron, ReLU):
            for y, dy in zip(self.blobs, self.blobs_diff, strict=True):
                dy.memory[y.memory <= 0] = 0
        super().backward(inputs, diffs)


class ForgetsItsNeuronKernel(RectifiesKernel):
    rectifies = False


@pytest.mark.parametrize("kernel", [RectifiesKernel, ForgetsItsNeuronKernel])
def test_neurons_that_a_kernel_names_are_tried(kernel):
    suite = kernel_suite(kernel, layer=NeuronScaledLayer)
    assert "fused_neurons" in suite.required()
    assert "fused_neurons" not in Kernel.required()
    found = failures(suite, dtypes=["float64"], without=besides(suite, "test_fused_neurons", False))
    assert bool(found) == (kernel is ForgetsItsNeuronKernel)
    if found:
        assert "ForgetsItsNeuronKernel: top 'top0'" in str(found["test_fused_neurons"])


def test_what_a_kernel_declines_is_counted(capsys):
    recorded = []
    assert failures(kernel_suite(FewKernel), recorded) == {}
    assert ("served", 1) in recorded
    declined = dict(recorded)["declined"]
    assert len(declined) == 3
    assert declined[0] == "float64, example 0: computes in float32, not float64"
    assert "float32, example two: takes one bottom only" in capsys.readouterr().out


def test_a_kernel_that_declines_everything_fails():
    suite = kernel_suite(ProudKernel)
    found = failures(suite, without=besides(suite, "test_serves", False))
    assert "the kernel declines every example" in str(found["test_serves"])
    assert "not today" in str(found["test_serves"])


def test_random_shapes():
    def strategy(self):
        return st.builds(lambda rows, size: Example({}, [(rows, size)]), st.integers(1, 5), st.integers(1, 5))

    assert "test_random_shapes" not in kit_tests(Kernel) | kit_tests(Scaled)

    def found(suite):
        without = besides(suite, "test_random_shapes", False)
        return set(failures(suite, dtypes=["float64"], without=without))

    assert found(kernel_suite(GoodKernel, strategy=strategy)) == set()
    assert found(kernel_suite(BadKernel, strategy=strategy)) == {"test_random_shapes"}
    assert found(type("S", (Scaled,), {"strategy": strategy})) == set()

    def wide(self):
        return st.builds(lambda size: Example({"state": WideIsWrong}, [(2, size)]), st.integers(1, 9))

    class WideIsWrong(ScaledState):
        def backward(self, inputs, diffs):
            super().backward(inputs, diffs)
            self.parameters[0].gradient[5:] = 0

    suite = type("S", (Scaled,), {"strategy": wide})
    assert found(suite) == set(failures(suite, dtypes=["float64"], without=["test_growth"])) == {"test_random_shapes"}


def test_offered_kernels_are_compared_with_the_state(new_registry):
    backend = registry().open("backend", "numpy")
    own = new_registry(discover=False)
    own.register(backend, "numpy")
    own.register(ScaledLayer, "Scaled")
    own.register(Constant)
    own.register_kernel(GoodKernel, "Scaled", "numpy")
    recorded, others = [], besides(Scaled, "test_kernels", False)
    assert failures(Scaled, recorded, without=others) == {}
    assert set(recorded) == {("GoodKernel@numpy", "checked")}
    own.register_kernel(BadKernel, "Scaled", "numpy")
    found = failures(Scaled, without=others)
    assert set(found) == {"test_kernels"}
    assert "BadKernel" in str(found["test_kernels"])


class AddsInItsBottomsTypeKernel(GoodKernel):
    def forward(self, inputs):
        for x, y in zip(inputs, self.blobs, strict=True):
            y.memory[...] = (
                (x.memory + x.memory) / 2 * self.parameters[0].blob
            )  # for large numbers of uint8 that is not x


class TakesFloatsOnlyKernel(AddsInItsBottomsTypeKernel):
    @classmethod
    def supports(cls, layer, inputs):
        return None if all(x.dtype.startswith("float") for x in inputs) else "takes floats only"


def test_kernels_are_given_whole_numbers(new_registry):
    backend = registry().open("backend", "numpy")
    own = new_registry(discover=False)
    own.register(backend, "numpy")
    own.register(ScaledLayer, "Scaled")
    own.register(Constant)
    others = besides(Scaled, "test_whole_numbers", False)
    own.register_kernel(TakesFloatsOnlyKernel, "Scaled", "numpy")
    assert failures(Scaled, without=others) == {}
    own.register_kernel(AddsInItsBottomsTypeKernel, "Scaled", "numpy")
    error = str(failures(Scaled, without=others)["test_whole_numbers"])
    assert "top 0 of inputs in uint8 by AddsInItsBottomsTypeKernel, beside that of the same numbers as floats" in error


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
