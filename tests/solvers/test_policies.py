"""Policies against numbers from their ancestors, and against PyTorch's."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nacre
from forging import trials
from nacre import ConfigError, LrPolicy, MomentumPolicy, NacreError, Solver, make_component, table_of
from nacre.training.policies import LrState
from nacre_solvers import (
    SGD,
    ByEpoch,
    Cosine,
    DecayOnValidation,
    Exp,
    Fixed,
    FixedMomentum,
    Inv,
    Linear,
    LinearMomentum,
    MomentumByEpoch,
    MultiStep,
    Poly,
    Sigmoid,
    Staged,
    StagedMomentum,
    Step,
    StepMomentum,
    ValidationPerformance,
    WarmUp,
)
from toy_training import pulled_net, toy_net


def started(policy: LrPolicy) -> LrState:
    """Return a policy at work, where no validation has anything to do with it."""
    with Solver(SGD(), lr_policy=policy).start(pulled_net()) as training:
        return training.rate


def rates(policy: LrPolicy, *iterations: int) -> list[float]:
    state = started(policy)
    return [state.rate(iteration) for iteration in iterations]


def test_golden_rates() -> None:
    """Of Mocha.jl, then of SINGA, at step 100 from 0.1."""
    assert rates(Inv(base=0.01, gamma=1e-4, power=0.75), 1000) == pytest.approx([0.00931012], abs=5e-9)
    assert rates(Step(base=0.1, gamma=0.998, stepsize=600), 1500) == pytest.approx([0.0996004], abs=1e-12)
    assert rates(Fixed(base=0.1), 10**6) == [0.1]
    assert rates(Linear(base=0.1, final=0, n_iter=200), 100) == pytest.approx([0.05], abs=1e-15)
    assert rates(Exp(base=0.1, gamma=2 ** (-1 / 50)), 100) == pytest.approx([0.025], abs=1e-15)
    assert rates(Inv(base=0.1, gamma=1 / 0.05, power=1), 100) == pytest.approx([4.9975e-05], abs=5e-10)
    assert rates(Inv(base=0.1, gamma=1e-4, power=0.75), 100) == pytest.approx([0.099256503], abs=5e-10)
    assert rates(Step(base=0.1, gamma=0.5, stepsize=40), 100) == pytest.approx([0.025], abs=1e-15)


def test_golden_rates_of_caffe() -> None:
    """By its formulas: exp, multistep, poly, sigmoid."""
    assert rates(Exp(base=0.1, gamma=0.99), 0, 1, 10) == pytest.approx([0.1, 0.099, 0.1 * 0.99**10])
    steps = MultiStep(base=0.1, gamma=0.1, steps=[5, 8])
    assert rates(steps, 0, 4, 5, 7, 8, 99) == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001])
    assert rates(Poly(base=0.1, power=2, n_iter=10), 0, 5, 10, 11) == pytest.approx([0.1, 0.025, 0, 0])
    sigmoid = Sigmoid(base=0.1, gamma=-0.5, stepsize=20)
    assert rates(sigmoid, 18, 20, 30) == pytest.approx([0.1 / (1 + np.exp(-1)), 0.05, 0.1 / (1 + np.exp(5))])
    assert rates(sigmoid, 0, 10**6) == pytest.approx([0.1, 0], abs=1e-5)


def test_poly_of_power_0_is_the_base_throughout() -> None:
    """Also at the end, where Caffe raises 0 to the power 0."""
    assert rates(Poly(base=0.1, power=0, n_iter=10), 0, 5, 10, 11) == [0.1] * 4


@pytest.mark.parametrize("steps", [[0], [0, 3], [5, 5, 5], [5, 5, 6, 20], [9, 4, 4, 0], [0, 0, 0], [7], [3, 1, 30]])
def test_multistep_takes_its_steps_as_caffe_does(steps: list[int]) -> None:
    """At most one in an iteration, in the order of the list: by Caffe's own lines, iteration after iteration."""
    current, expected = 0, []
    for iteration in range(40):
        if current < len(steps) and iteration >= steps[current]:
            current += 1
        expected.append(0.1 * 0.5**current)
    policy = MultiStep(base=0.1, gamma=0.5, steps=steps)
    assert rates(policy, *range(40)) == pytest.approx(expected)
    assert rates(policy, 39, 6, 0) == pytest.approx([expected[39], expected[6], expected[0]])  # taken up anywhere


def test_golden_momenta() -> None:
    """Of Mocha.jl."""
    linear = LinearMomentum(base=0.5, gamma=0.0008, stepsize=600, max=0.9)
    assert [linear.momentum(iteration) for iteration in (0, 1500, 10**6)] == pytest.approx([0.5, 0.5016, 0.9])
    step = StepMomentum(base=0.5, gamma=1.5, stepsize=10, max=0.9)
    assert [step.momentum(iteration) for iteration in (0, 9, 10, 20)] == pytest.approx([0.5, 0.5, 0.75, 0.9])
    assert FixedMomentum(base=0.9).momentum(3) == 0.9


def test_a_power_that_no_float_can_hold_is_the_largest_momentum() -> None:
    assert StepMomentum(base=0.5, gamma=1.2, stepsize=1, max=0.9).momentum(10**6) == 0.9
    assert StepMomentum(base=0.0, gamma=1.2, stepsize=1, max=0.9).momentum(10**6) == 0


def test_iteration_0_has_the_base_rate_and_a_step_comes_at_its_size() -> None:
    step = Step(base=0.1, gamma=0.5, stepsize=40)
    assert rates(step, 0, 39, 40, 79, 80) == [0.1, 0.1, 0.05, 0.05, 0.025]
    assert rates(Inv(base=0.1, gamma=1.0, power=1.0), 0) == [0.1]


@pytest.mark.parametrize(
    ("policy", "name", "options"),
    [
        (Step(base=0.1, gamma=0.3, stepsize=7), "StepLR", {"step_size": 7, "gamma": 0.3}),
        (MultiStep(base=0.1, gamma=0.3, steps=[3, 20]), "MultiStepLR", {"milestones": [3, 20], "gamma": 0.3}),
        (Exp(base=0.1, gamma=0.93), "ExponentialLR", {"gamma": 0.93}),
        (Poly(base=0.1, power=1.7, n_iter=30), "PolynomialLR", {"total_iters": 30, "power": 1.7}),
        (
            Linear(base=0.1, final=0.02, n_iter=30),
            "LinearLR",
            {"start_factor": 1, "end_factor": 0.2, "total_iters": 30},
        ),
        (WarmUp(policy=0.1, n_iter=9, first=0.25), "LinearLR", {"start_factor": 0.25, "total_iters": 9}),
        (Cosine(base=0.1, final=0.01, n_iter=40), "CosineAnnealingLR", {"T_max": 40, "eta_min": 0.01}),
    ],
)
def test_as_torch_does(policy: LrPolicy, name: str, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    scheduler = getattr(torch.optim.lr_scheduler, name)(optimizer, **options)
    theirs = []
    for _ in range(40):
        theirs.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    assert rates(policy, *range(40)) == pytest.approx(theirs, rel=1e-10, abs=1e-15)


def test_stages_follow_one_another_and_see_the_whole_trainings_iteration() -> None:
    step = Step(base=1.0, gamma=0.5, stepsize=4)
    staged = Staged(stages=[(3, 0.1), (5, step), (1, {"type": "Fixed", "base": 0.3})])
    assert rates(staged, *range(10)) == [0.1, 0.1, 0.1, 1.0, 0.5, 0.5, 0.5, 0.5, 0.3, 0.3]
    assert rates(staged, 9, 0, 4) == [0.3, 0.1, 0.5]  # in any order: a training may be taken up anywhere


def test_singas_table_of_rates_knows_step_0_and_skips_as_far_as_it_must() -> None:
    """In SINGA's kFixedStep step 0 had the rate 0, and a training taken up needed several calls to find its rate."""
    staged = Staged(stages=[(10, 0.1), (10, 0.01), (10, 0.001), (1, 0.0001)])
    assert rates(staged, 0, 9, 10, 29, 30, 10**6) == [0.1, 0.1, 0.01, 0.001, 0.0001, 0.0001]
    assert rates(staged, 29) == [0.001]


def test_staged_momentum_works_with_sgd() -> None:
    """In Mocha.jl no solver could use it."""
    staged = StagedMomentum(stages=[(2, 0.5), (2, LinearMomentum(base=0.1, gamma=0.1, stepsize=1, max=0.9)), (1, 0.95)])
    seen = []
    with Solver(SGD(), momentum_policy=staged).start(pulled_net()) as training:
        for _ in range(6):
            training.step()
            seen.append(training.net.scalars["momentum"])
    assert seen == pytest.approx([0.5, 0.5, 0.3, 0.4, 0.95, 0.95])


numbers = st.floats(0, 1)
counts = st.integers(1, 50)
single = st.one_of(
    st.builds(Fixed, base=numbers),
    st.builds(Step, base=numbers, gamma=numbers, stepsize=counts),
    st.builds(Exp, base=numbers, gamma=numbers),
    st.builds(Inv, base=numbers, gamma=numbers, power=numbers),
    st.builds(Poly, base=numbers, power=st.floats(0, 3), n_iter=counts),
    st.builds(Linear, base=numbers, final=numbers, n_iter=counts),
    st.builds(Cosine, base=numbers, final=numbers, n_iter=counts),
    st.builds(Sigmoid, base=numbers, gamma=st.floats(-1e3, 1e3), stepsize=counts),
    st.builds(MultiStep, base=numbers, gamma=numbers, steps=st.lists(st.integers(0, 50), min_size=1)),
)


@settings(max_examples=trials(60, 200), derandomize=True)
@given(policy=single, iteration=st.integers(0, 10**7), first=st.floats(0, 0.99), n_iter=counts)
def test_rates_stay_between_0_and_1_for_ever(policy: LrPolicy, iteration: int, first: float, n_iter: int) -> None:
    rate = policy.rate(iteration)
    assert 0 <= rate <= 1
    warm = WarmUp(policy=policy, n_iter=n_iter, first=first).start(None)  # type: ignore[arg-type] - it asks for nothing
    if iteration >= n_iter:
        assert warm.rate(iteration) == rate
    else:
        assert rate * first <= warm.rate(iteration) <= rate * (1 + 1e-15)


def test_a_number_is_fixed_and_a_name_is_looked_up() -> None:
    made = Solver("SGD", lr_policy={"type": "Inv", "base": 1, "gamma": 1, "power": 1}, momentum_policy=0.5)
    assert isinstance(made.lr_policy, Inv)
    assert made.momentum_policy.momentum(7) == 0.5
    table = {"type": "WarmUp", "n_iter": 5, "policy": {"type": "Staged", "stages": [[5, 0.1], [1, "Inv"]]}}
    with pytest.raises(ConfigError, match="lr_policy: WarmUp: policy: Staged: stages: Inv: base is missing"):
        Solver("SGD", lr_policy=table)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (Step, {"base": 0.1, "gamma": 0.5, "stepsize": 0}, "stepsize=0, but it must be above 0"),
        (Step, {"base": 0.1, "gamma": -1, "stepsize": 3}, "gamma=-1"),
        (Inv, {"base": 0.1, "gamma": 1, "power": float("inf")}, "power=inf, but it must be finite"),
        (Inv, {"base": 0.1, "gamma": 1}, "power"),
        (Fixed, {"base": "fast"}, "base='fast', but it must be a number"),
        (MultiStep, {"base": 1, "gamma": 1, "steps": []}, r"steps=\[\], but it must be a list of iterations"),
        (MultiStep, {"base": 1, "gamma": 1, "steps": [-1]}, r"steps=\(-1,\), but every number must be 0 or more"),
        (Poly, {"base": 1, "power": 1, "n_iter": 0}, "n_iter=0"),
        (Sigmoid, {"base": 1, "gamma": float("nan"), "stepsize": 1}, "gamma=nan, but it must be finite"),
        (Staged, {"stages": []}, r"stages=\[\]"),
        (Staged, {"stages": [(0, 0.1)]}, "it must be a list of pairs"),
        (Staged, {"stages": [0.1]}, "it must be a list of pairs"),
        (Staged, {"stages": [(3, -0.1)]}, "stages: Fixed: base=-0.1"),
        (WarmUp, {"policy": 0.1, "n_iter": 3, "first": 1}, "first=1.0, but it must be 0 or more, and below 1"),
        (LinearMomentum, {"base": 0.5, "gamma": 0.1, "stepsize": 3, "max": 1}, "max=1.0, but it must be 0 or more"),
        (StagedMomentum, {"stages": [(3, 1.1)]}, "stages: FixedMomentum: base=1.1"),
    ],
)
def test_bad_fields(kind: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kind(**fields)


def test_every_policy_is_tested_here() -> None:
    offers = [offer for kind in ("lr_policy", "momentum_policy") for offer in nacre.registry().offers(kind)]
    mine = {offer.target.rpartition(":")[2] for offer in offers if offer.distribution == "nacre"}
    assert mine == {name for name in mine if name in globals()}


def test_what_inner_policies_remember_is_kept_apart() -> None:
    other = DecayOnValidation(base=0.2, statistic="accuracy/accuracy", higher_better=True)
    staged = WarmUp(policy=Staged(stages=[(3, DecayOnValidation(base=0.1)), (1, other)]), n_iter=2)
    callbacks = [ValidationPerformance(every_n_iter=1)]
    with Solver(SGD(), lr_policy=staged, callbacks=callbacks).start(toy_net()) as training:
        memory = training.rate.memory()
        assert memory == {"0.0.rate": 0.1, "0.0.since": 0, "0.1.rate": 0.2, "0.1.since": 0}
        training.rate.remember({**memory, "0.1.rate": 0.05})
        assert training.rate.rate(1) == pytest.approx(0.1 * 0.55)
        assert training.rate.rate(3) == 0.05


@pytest.mark.parametrize("policy", [Inv(base=1, gamma=1, power=-1e9), Exp(base=1, gamma=1e300)])
def test_a_rate_that_no_float_can_hold_ends_in_a_sentence(policy: LrPolicy) -> None:
    solver = Solver(SGD(), lr_policy=policy, max_iter=3, check_finite=False)
    message = r"iteration [12]: the learning rate .* cannot be computed"
    with toy_net() as net, pytest.raises(NacreError, match=message):
        solver.solve(net)


def test_policies_by_epochs_count_passes_over_the_data() -> None:
    policy = ByEpoch(policy=Step(base=0.1, gamma=0.5, stepsize=2))
    rates: list[float] = []
    net = toy_net()
    momentum = MomentumByEpoch(policy=LinearMomentum(base=0.5, gamma=0.1, stepsize=1, max=0.9))
    assert table_of(make_component(MomentumPolicy, table_of(momentum))) == table_of(momentum)
    with Solver(SGD(), max_epoch=5, lr_policy=policy, momentum_policy=momentum).start(net) as training:
        momenta: list[float] = []
        for _ in range(25):
            rates.append(training.lr)
            training.step()
            momenta.append(round(net.scalars["momentum"], 3))
    assert [rates[at] for at in (0, 9, 10, 18, 19)] == [0.1, 0.1, 0.05, 0.05, 0.025]
    assert [momenta[at] for at in (0, 5, 10, 15, 20)] == [0.5, 0.6, 0.7, 0.8, 0.9]
