"""SolverTests pass what keeps its promises in a training, and find what breaks one."""

import random
import threading
from typing import Annotated, Any

import numpy as np
import pytest

from nacre import (
    Algorithm,
    AlgorithmState,
    Callback,
    CallbackState,
    ContractError,
    Layer,
    LrPolicy,
    Method,
    MethodState,
    non_negative,
)
from nacre.testing import Example
from nacre.testing import SolverTests as SolverSuite
from run_suite import besides, failures, kit_tests, one_or_all

# What keeps its promises


class MeanState(MethodState):
    """mean = momentum · mean + gradient; w = w - rate · mean / updates^(1/4)."""

    def __init__(self, method, backend, spans):
        super().__init__(method, backend, spans)
        self.history("mean")
        self.count = 0

    def advance(self):
        self.count += 1

    def pairs(self):
        return zip(self.spans, self.histories["mean"], strict=True)

    def update(self):
        scalars = self.backend.scalars
        for span, mean in self.pairs():
            part = self.backend.scratch(mean.shape)
            mean *= scalars["momentum"]
            mean += span.gradient
            np.multiply(mean, scalars["rate"] * span.rate / self.count**0.25, out=part)
            span.value -= part

    def memory(self):
        return {"count": self.count}

    def remember(self, memory):
        self.count = int(memory["count"])


class Mean(Method):
    """A method with all that can be forgotten."""

    state: Any = MeanState

    def setup(self, backend, spans):
        return self.state(self, backend, spans)


class OfMethods(SolverSuite):
    component = Mean
    state = MeanState

    def make_component(self, example):
        return self.component(state=self.state) if self.state is not MeanState else self.component()

    def backends(self):
        return ["numpy"]

    def reference(self, method, value, gradients, rates, momenta):
        mean = 0.0
        for count, (gradient, rate, momentum) in enumerate(zip(gradients, rates, momenta, strict=True), 1):
            mean = momentum * mean + gradient
            value = value - rate * mean / count**0.25
        return value


class SlowState:
    """A rate that halves when the loss has risen."""

    def __init__(self, policy, training):
        self.policy, self.training = policy, training
        self.current = policy.base
        self.last = float("inf")
        training.listeners.append(self.on_event)

    def on_event(self, event, data):
        if event == "step":
            self.judge(self.training.loss)

    def judge(self, loss):
        if loss > self.last:
            self.current /= 2
        self.last = loss

    def rate(self, iteration):
        return self.current

    def memory(self):
        return {"rate": self.current, **({"last": self.last} if np.isfinite(self.last) else {})}

    def remember(self, memory):
        self.current, self.last = float(memory["rate"]), float(memory.get("last", np.inf))


class Slow(LrPolicy):
    """A policy with a memory."""

    base: Annotated[float, non_negative, "the rate"] = 0.1
    state: Any = SlowState

    def start(self, training):
        return self.state(self, training)


class OfPolicies(SolverSuite):
    component = Slow
    state = SlowState

    def make_component(self, example):
        return self.component(state=self.state) if self.state is not SlowState else self.component(**example.fields)

    def examples(self):
        yield Example({"base": 0.2})


class LossesState(CallbackState):
    """Keeps the mean loss, and a file of it."""

    def __init__(self, callback, training):
        super().__init__(callback, training)
        self.total, self.count = 0.0, 0
        self.file = open("losses.txt", "a")  # noqa: SIM115 (it stays open)

    def run(self):
        self.total, self.count = self.total + self.training.loss, self.count + 1
        self.file.write(f"{self.total / self.count}\n")

    def shutdown(self):
        self.file.close()

    def memory(self):
        return {"total": self.total, "count": self.count}

    def remember(self, memory):
        self.total, self.count = float(memory["total"]), int(memory["count"])


class Losses(Callback):
    """A callback with a memory."""

    every_n_iter: int = 2
    state: Any = LossesState

    def start(self, training):
        return self.state(self, training)


class OfCallbacks(SolverSuite):
    component = Losses
    state = LossesState

    def make_component(self, example):
        return self.component(state=self.state) if self.state is not LossesState else self.component()


class TwiceState(AlgorithmState):
    """Runs every batch, and counts them."""

    def __init__(self, algorithm, net):
        super().__init__(algorithm, net)
        self.count = 0

    def train_one_batch(self):
        net = self.net
        return [*net.steps("feed"), *net.steps("forward"), *net.steps("backward")]


class Twice(Algorithm):
    """Back-propagation by a state."""

    state: Any = TwiceState

    def start(self, net):
        return self.state(self, net)


class OfAlgorithms(SolverSuite):
    component = Twice
    state = TwiceState

    def make_component(self, example):
        return self.component(state=self.state) if self.state is not TwiceState else self.component()


@pytest.mark.parametrize("suite", [OfMethods, OfPolicies, OfCallbacks, OfAlgorithms])
def test_what_keeps_its_promises_passes(suite):
    assert failures(suite) == {}


# What breaks one promise each

BROKEN = {}


def broken(suite, check, words):
    """Note a state that must be found out by this check, in these words."""

    def note(state):
        BROKEN[state.__name__] = (suite, state, f"test_{check}", words)
        return state

    return note


@broken(OfMethods, "method_update", "'pull/w0' after 5 updates: 1 of 1 numbers differ")
class ForgetsTheMomentum(MeanState):
    def update(self):
        for mean in self.histories["mean"]:
            mean *= 0.99
        super().update()


@broken(OfMethods, "method_joined", "of 1 numbers, beside others in a span: 1 of 1 numbers differ")
class GoesByTheWholeSpan(MeanState):
    """What is meant for each parameter is computed for all that lie beside each other."""

    def update(self):
        for span in self.spans:
            span.gradient /= np.sqrt((span.gradient**2).sum()) + 1
        super().update()


@broken(OfMethods, "method_padding", "a span is .* between two parameters")
class DecaysTowardsOne(MeanState):
    def update(self):
        super().update()
        for span in self.spans:
            span.value += 1e-12


@broken(OfMethods, "method_histories", r"history 'mean' has arrays of \[\(\(\d+,\), 'float32'\)\]")
class KeepsFloat32(MeanState):
    def __init__(self, method, backend, spans):
        super().__init__(method, backend, spans)
        self.histories["mean"] = [backend.empty(span.value.shape, "float32") for span in spans]


@broken(OfMethods, "method_paces", "a parameter whose rate is 2")
class ForgetsThePace(MeanState):
    def update(self):
        for span in self.spans:
            span.rate = 1.0
        super().update()


@broken(OfMethods, "method_frozen", "a frozen parameter has changed")
class ReachesBeyondItsSpan(MeanState):
    def update(self):
        super().update()
        for span in self.spans:
            piece = span.pieces[0]
            arena = piece.storage.placed.arena
            arena *= 1 + 1e-9 * (len(self.spans) > 1)


@broken(OfMethods, "method_gradients", "changes the gradient of 'pull/w4'")
class ClearsGradients(MeanState):
    def update(self):
        super().update()
        for span in self.spans:
            span.gradient[...] = 0


@broken(OfMethods, "method_scalars", "another momentum makes no difference: declare has_momentum = False")
class HasNoMomentum(MeanState):
    def update(self):
        momentum, self.backend.scalars["momentum"] = self.backend.scalars["momentum"], 0.5
        super().update()
        self.backend.scalars["momentum"] = momentum


@broken(OfMethods, "method_scalars", "with the learning rate 0 'pull/w0' changes")
class DecaysWithoutARate(MeanState):
    def update(self):
        super().update()
        for span in self.spans:
            span.value *= 0.999


@broken(OfMethods, "resume", "^resumed after 1 iterations: after 2 of them parameter 'line/weight' has other numbers")
class ForgetsItsCount(MeanState):
    def memory(self):
        return {}


@broken(OfMethods, "resume", "^resumed after 1 iterations: after 2 of them parameter 'line/weight' has other numbers")
class KeepsItsHistoryToItself(MeanState):
    def __init__(self, method, backend, spans):
        super().__init__(method, backend, spans)
        self.own = self.histories.pop("mean")

    def pairs(self):
        return zip(self.spans, self.own, strict=True)


@broken(OfMethods, "method_failed_batch", "'pull/w0' has other numbers after a batch that failed")
class CountsWhatFailed(MeanState):
    def remember(self, memory):
        self.count = max(self.count, int(memory["count"]))


@broken(OfMethods, "method_not_finite", "HidesNaN: with NaN in a value the training goes on")
class HidesNaN(MeanState):
    def product(self):
        return 0.0


@broken(OfMethods, "method_memory_in_use", "a step allocates .* bytes for a parameter of 160,000")
class AllocatesInEachStep(MeanState):
    def update(self):
        for span in self.spans:
            span.gradient[...] = span.gradient * 1.0
        super().update()


@broken(OfMethods, "method_memory_in_use", "30 steps more, and .* bytes more are in use")
class KeepsEveryMean(MeanState):
    def update(self):
        super().update()
        self.kept = [*getattr(self, "kept", []), str(self.histories["mean"][0][:9].tolist()) * 9]


@broken(OfMethods, "two_trainings", "rate, momentum or parameters are others beside a second training")
class CountsForAll(MeanState):
    counted = 0

    def advance(self):
        type(self).counted = self.count = self.counted + 1

    def remember(self, memory):
        type(self).counted = self.count = int(memory["count"])

    def __init__(self, method, backend, spans):
        super().__init__(method, backend, spans)
        type(self).counted = 0


@broken(OfMethods, "global_state", "the state of the global random numbers has changed")
class AddsNoise(MeanState):
    def update(self):
        random.random()
        super().update()


@broken(OfPolicies, "policy_values", "iteration 0: -0.1, but it must be 0 or more")
class Climbs(SlowState):
    def rate(self, iteration):
        return -self.current


@broken(OfPolicies, "policy_is_pure", "iteration 0: .* instead of 0.1, which was said before")
class CountsQuestions(SlowState):
    def rate(self, iteration):
        before, self.current = self.current, self.current * 0.9
        return before


@broken(OfPolicies, "resume", "^resumed after .*the rate is 0.1 instead of 0.05")
class ForgetsItsRate(SlowState):
    def memory(self):
        return {}

    def judge(self, loss):
        self.current = 0.05 if self.training.iteration > 1 else 0.1


@broken(OfPolicies, "memory", r"memory\['last'\] is inf, but numbers must be finite")
class RemembersInfinity(SlowState):
    def memory(self):
        return {"rate": self.current, "last": float("inf")}


@broken(OfCallbacks, "resume", r"after 3 of them memory\['count'\] is 0 instead of 1")
class ForgetsItsLosses(LossesState):
    def remember(self, memory):
        pass


@broken(OfCallbacks, "memory", r"the memory has other keys after remember\(\)")
class KeepsTheBestWhenItGoesBack(LossesState):
    best = None

    def run(self):
        super().run()
        self.best = min(self.training.loss, self.best or self.training.loss)

    def memory(self):
        return {**super().memory(), **({} if self.best is None else {"best": self.best})}

    def remember(self, memory):
        super().remember(memory)
        self.best = memory.get("best", self.best)


@broken(OfCallbacks, "callback_leaves_the_training_alone", "parameter 'line/weight' has other numbers, because of")
class RoundsParameters(LossesState):
    def run(self):
        super().run()
        handle = self.training.net.parameters["line/weight"]
        handle.value = handle.value.round(3)


@broken(OfCallbacks, "callback_leaves_the_training_alone", "without the callback: if it is to end trainings")
class EndsTrainings(LossesState):
    def run(self):
        super().run()
        self.training.stop("enough")


@broken(OfCallbacks, "callback_life", "after a training that never begins, and shutdown, 1 more files are open")
class ClosesWhenItFinishes(LossesState):
    def finish(self):
        self.file.close()

    def shutdown(self):
        OPEN.append(self.file)


OPEN: list[Any] = []


@broken(OfCallbacks, "callback_life", "a thread is still there")
class LeavesAThread(LossesState):
    def begin(self):
        self.end = threading.Event()
        threading.Thread(target=self.end.wait, daemon=True).start()

    def __del__(self):
        if hasattr(self, "end"):
            self.end.set()


@broken(OfCallbacks, "callback_is_due", r"every_n_iter=2, but it ran after the iterations \[1, 3, 5\]")
class CountsFromZero(LossesState):
    def due(self, epochs):
        return (self.training.iteration - 1) % 2 == 0


@broken(OfCallbacks, "global_state", "the state of the global random numbers has changed")
class DrawsARecord(LossesState):
    def run(self):
        super().run()
        random.random()


@broken(OfAlgorithms, "algorithm_batches", r"after 1 iterations the sources have fed \[2\] batches")
class FeedsTwice(TwiceState):
    def train_one_batch(self):
        return [*self.net.steps("feed"), *super().train_one_batch()]


@broken(OfAlgorithms, "algorithm_gradients", "the gradient of 'line/weight' is not written by the batch")
class ForgetsBackward(TwiceState):
    def train_one_batch(self):
        return [*self.net.steps("feed"), *self.net.steps("forward")]


@one_or_all
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_found_by_its_check(name, every, monkeypatch):
    suite, state, check, words = BROKEN[name]
    monkeypatch.setattr("nacre.testing.outside.LATE", 0.05)

    class Suite(suite):
        pass

    Suite.state = state
    found = failures(
        Suite, dtypes=["float64"], without=besides(Suite, check, every, ["test_method_memory_in_use", "test_file"])
    )
    for file in OPEN:
        file.close()
    assert check in found, f"{name} is not found by {check}, but by {found}"
    with pytest.raises(AssertionError, match=words):
        raise found[check]
    assert len(found) <= 4, f"{name} is found by {sorted(found)}"


def test_what_a_net_file_cannot_hold_is_found():
    class OfObjects(SolverSuite):
        component = Slow

        def make_component(self, example):
            return Slow(state=type("Other", (SlowState,), {}))

    found = failures(OfObjects, without=kit_tests(OfObjects) - {"test_file"})
    with pytest.raises(AssertionError, match="state is of type type, but read from a file of type str"):
        raise found["test_file"]


class MeanKernel(MeanState):
    """A kernel that gives the same."""


class ForgetfulKernel(MeanState):
    """A kernel without the method's memory."""

    def memory(self):
        return {}


class OtherKernel(MeanState):
    """A kernel whose history has another name."""

    def __init__(self, method, backend, spans):
        super().__init__(method, backend, spans)
        self.histories = {"velocity": self.histories["mean"]}

    def pairs(self):
        return zip(self.spans, self.histories["velocity"], strict=True)


class WrongKernel(MeanState):
    """A kernel that computes something else."""

    def advance(self):
        self.count += 2


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (MeanKernel, ""),
        (ForgetfulKernel, "ForgetfulKernel of tested declares memory 0: none, but the method itself declares 'count'"),
        (OtherKernel, "OtherKernel of tested declares history 0: 'velocity'"),
        (WrongKernel, "WrongKernel: 'pull/w0': off by"),
    ],
)
def test_kernels_are_compared_with_the_method(kernel, words, new_registry):
    here = new_registry()
    here.register(Mean, "Mean", "solver")
    here.register(kernel, "solver/Mean@numpy", "kernel")
    only = kit_tests(OfMethods) - {"test_method_kernels"}
    found = failures(OfMethods, without=only)
    if not words:
        assert found == {}
        return
    with pytest.raises((AssertionError, ContractError), match=words):
        raise found["test_method_kernels"]


def test_a_suite_of_something_else_is_told():
    with pytest.raises(ContractError, match="component=Layer, but it must be a method, a policy, a callback or"):

        class OfLayers(SolverSuite):
            component = Layer


def test_checks_of_other_kinds_do_not_exist():
    assert OfPolicies.test_method_update is None
    assert OfPolicies.test_callback_life is None
    assert OfMethods.test_policy_values is None
    assert OfCallbacks.test_two_trainings is None
