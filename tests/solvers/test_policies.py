"""Policies against numbers from their ancestors."""

from typing import Any

import pytest

from nacre import ConfigError, Solver
from nacre_solvers import Fixed, Inv, Step


def test_golden_rates() -> None:
    assert Inv(base=0.01, gamma=1e-4, power=0.75).rate(1000) == pytest.approx(0.00931012, abs=5e-9)
    assert Inv(base=0.1, gamma=1e-4, power=0.75).rate(100) == pytest.approx(0.099256503, abs=5e-10)
    assert Step(base=0.1, gamma=0.998, stepsize=600).rate(1500) == pytest.approx(0.0996004, abs=1e-12)
    assert Step(base=0.1, gamma=0.5, stepsize=40).rate(100) == pytest.approx(0.025, abs=1e-15)
    assert Fixed(base=0.1).rate(10**6) == 0.1


def test_iteration_0_has_the_base_rate_and_a_step_comes_at_its_size() -> None:
    step = Step(base=0.1, gamma=0.5, stepsize=40)
    assert [step.rate(iteration) for iteration in (0, 39, 40, 79, 80)] == [0.1, 0.1, 0.05, 0.05, 0.025]
    assert Inv(base=0.1, gamma=1.0, power=1.0).rate(0) == 0.1


def test_a_number_is_fixed_and_a_name_is_looked_up() -> None:
    made = Solver("SGD", lr_policy={"type": "Inv", "base": 1, "gamma": 1, "power": 1}, momentum_policy=0.5)
    assert isinstance(made.lr_policy, Inv)
    assert made.momentum_policy.momentum(7) == 0.5


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (Step, {"base": 0.1, "gamma": 0.5, "stepsize": 0}, "stepsize=0, but it must be above 0"),
        (Step, {"base": 0.1, "gamma": -1, "stepsize": 3}, "gamma=-1"),
        (Inv, {"base": 0.1, "gamma": 1, "power": float("inf")}, "power=inf, but it must be finite"),
        (Inv, {"base": 0.1, "gamma": 1}, "power"),
        (Fixed, {"base": "fast"}, "base='fast', but it must be a number"),
    ],
)
def test_bad_fields(kind: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kind(**fields)
