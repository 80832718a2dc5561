"""Every method, policy, callback and algorithm of nacre's own passes the conformance kit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import nacre
import nacre_solvers as own
from nacre.testing import Example
from nacre.testing import SolverTests as SolverSuite
from nacre_layers import CD, RBMHiddenLayer, RBMVisibleLayer
from one_number import one_number

# Methods


class OfMethods(SolverSuite):
    def reference(self, method: Any, value: Any, gradients: Any, rates: Any, momenta: Any) -> np.ndarray:
        columns = zip(value, np.transpose(gradients).tolist(), strict=True)
        return np.array([one_number(method, column, rates, momenta, begin) for begin, column in columns])


class TestSGD(OfMethods):
    component = own.SGD


class TestNesterov(OfMethods):
    component = own.Nesterov


class TestAdaDelta(OfMethods):
    component = own.AdaDelta


class TestAdaGrad(OfMethods):
    component = own.AdaGrad

    def examples(self) -> Iterable[Example]:
        yield Example()
        yield Example({"epsilon_place": "inside"}, label="inside")


class TestAdam(OfMethods):
    component = own.Adam

    def examples(self) -> Iterable[Example]:
        yield Example()
        yield Example({"epsilon_place": "uncorrected", "beta1": 0.5}, label="uncorrected")


class TestAdamW(OfMethods):
    component = own.AdamW


class TestAdaMax(OfMethods):
    component = own.AdaMax


class TestRMSProp(OfMethods):
    component = own.RMSProp

    def examples(self) -> Iterable[Example]:
        yield Example()
        yield Example({"centered": True, "rho": 0.9, "epsilon": 1e-3}, label="centered")


# Policies


class TestFixed(SolverSuite):
    component = own.Fixed

    def examples(self) -> Iterable[Example]:
        yield Example({"base": 0.1})


class TestStep(SolverSuite):
    component = own.Step

    def examples(self) -> Iterable[Example]:
        yield Example({"base": 0.1, "gamma": 0.5, "stepsize": 2})


class TestMultiStep(SolverSuite):
    component = own.MultiStep

    def examples(self) -> Iterable[Example]:
        yield Example({"base": 0.1, "gamma": 0.5, "steps": [1, 3, 3]})


class TestExp(SolverSuite):
    component = own.Exp

    def examples(self) -> Iterable[Example]:
        yield Example({"base": 0.1, "gamma": 0.9})


class TestInv(SolverSuite):
    component = own.Inv

    def examples(self) -> Iterable[Example]:
        yield Example({"base": 0.1, "gamma": 0.5, "power": 0.75})


class TestPoly(SolverSuite):
    component = own.Poly

    def examples(self) -> Iterable[Example]:
        yield Example({"base": 0.1, "power": 1.5, "n_iter": 5})


class TestLinear(SolverSuite):
    component = own.Linear

    def examples(self) -> Iterable[Example]:
        yield Example({"base": 0.1, "final": 0.01, "n_iter": 4})


class TestCosine(SolverSuite):
    component = own.Cosine

    def examples(self) -> Iterable[Example]:
        yield Example({"base": 0.1, "final": 0.01, "n_iter": 4})


class TestSigmoid(SolverSuite):
    component = own.Sigmoid

    def examples(self) -> Iterable[Example]:
        yield Example({"base": 0.1, "gamma": -0.5, "stepsize": 3})


class TestStaged(SolverSuite):
    component = own.Staged

    def examples(self) -> Iterable[Example]:
        yield Example({"stages": [(2, 0.1), (2, {"type": "Step", "base": 0.1, "gamma": 0.5, "stepsize": 3}), (1, 0.2)]})


class TestWarmUp(SolverSuite):
    component = own.WarmUp

    def examples(self) -> Iterable[Example]:
        yield Example({"policy": 0.1, "n_iter": 3, "first": 0.25})


class TestByEpoch(SolverSuite):
    component = own.ByEpoch

    def examples(self) -> Iterable[Example]:
        yield Example({"policy": {"type": "Step", "base": 0.1, "gamma": 0.5, "stepsize": 1}})


class OfValidations(SolverSuite):
    """What goes by validations."""

    def callbacks(self, example: Example) -> Sequence[nacre.Callback]:
        return [own.ValidationPerformance(every_n_iter=1)]


class TestDecayOnValidation(OfValidations):
    component = own.DecayOnValidation

    def examples(self) -> Iterable[Example]:
        yield Example({"base": 0.9})
        yield Example({"base": 0.9, "go_back": True}, label="going back")


class TestFixedMomentum(SolverSuite):
    component = own.FixedMomentum

    def examples(self) -> Iterable[Example]:
        yield Example({"base": 0.9})


class TestLinearMomentum(SolverSuite):
    component = own.LinearMomentum

    def examples(self) -> Iterable[Example]:
        yield Example({"base": 0.5, "gamma": 0.1, "stepsize": 1, "max": 0.9})


class TestStagedMomentum(SolverSuite):
    component = own.StagedMomentum

    def examples(self) -> Iterable[Example]:
        yield Example({"stages": [(2, 0.5), (1, 0.9)]})


class TestStepMomentum(SolverSuite):
    component = own.StepMomentum

    def examples(self) -> Iterable[Example]:
        yield Example({"base": 0.5, "gamma": 1.2, "stepsize": 2, "max": 0.9})


class TestMomentumByEpoch(SolverSuite):
    component = own.MomentumByEpoch

    def examples(self) -> Iterable[Example]:
        yield Example({"policy": {"type": "Step", "base": 0.5, "gamma": 1.2, "stepsize": 1, "max": 0.9}})


# Callbacks


class TestEarlyStopping(OfValidations):
    component = own.EarlyStopping
    changes_training = True

    def examples(self) -> Iterable[Example]:
        yield Example({"patience": 2})
        yield Example({"patience": 2, "min_delta": 0.2, "restore": True}, label="restore")


class TestFiniteCheck(SolverSuite):
    component = own.FiniteCheck

    def examples(self) -> Iterable[Example]:
        yield Example({"every_n_iter": 2})


class OfReports(SolverSuite):
    """What listens to summaries and validations."""

    def callbacks(self, example: Example) -> Sequence[nacre.Callback]:
        return [own.TrainingSummary(every_n_iter=2), own.ValidationPerformance(every_n_iter=3)]


class TestJSONLog(OfReports):
    component = own.JSONLog


class TestLearningCurve(OfReports):
    component = own.LearningCurve

    def examples(self) -> Iterable[Example]:
        yield Example({"path": "curve.svg"})

    def callbacks(self, example: Example) -> Sequence[nacre.Callback]:
        return [own.TrainingSummary(every_n_iter=1), own.ValidationPerformance(every_n_iter=3)]


class TestProgress(OfReports):
    component = own.Progress


class TestSnapshot(OfReports):
    component = own.Snapshot

    def examples(self) -> Iterable[Example]:
        yield Example({"every_n_iter": 2, "folder": "snapshots"})


class TestStatisticsStore(OfReports):
    component = own.StatisticsStore


class TestTensorBoard(OfReports):
    component = own.TensorBoard


class TestTrainingSummary(SolverSuite):
    component = own.TrainingSummary

    def examples(self) -> Iterable[Example]:
        yield Example({"every_n_iter": 2})


class TestValidationPerformance(SolverSuite):
    component = own.ValidationPerformance

    def examples(self) -> Iterable[Example]:
        yield Example({"every_n_iter": 2})


# Algorithms


class TestBP(SolverSuite):
    component = own.BP


class TestBPTT(SolverSuite):
    component = own.BPTT


class TestGPipe(SolverSuite):
    component = own.GPipe

    def examples(self) -> Iterable[Example]:
        yield Example({"micro_batches": 2})


class TestCD(SolverSuite):
    component = CD

    def examples(self) -> Iterable[Example]:
        yield Example()
        yield Example({"persistent": True, "k": 2}, label="persistent")

    def layers(self, example: Example) -> list[nacre.Layer]:
        visible = RBMVisibleLayer(name="vis", bottoms=["numbers", "h"], tops="v", units="gaussian")
        return [super().layers(example)[0], visible, RBMHiddenLayer(name="hid", bottoms="v", tops="h", output_dim=3)]


KINDS = ("solver", "lr_policy", "momentum_policy", "callback", "algorithm")


def test_every_one_is_tested_here() -> None:
    here = nacre.registry()
    offers = [offer for kind in KINDS for offer in here.offers(kind) if offer.distribution == "nacre"]
    suites = [suite for suite in globals().values() if isinstance(suite, type) and hasattr(suite, "component")]
    assert {here.open(offer.kind, offer.name) for offer in offers} == {suite.component for suite in suites}
