"""nacre's own solvers: methods, policies, callbacks and algorithms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .algorithms import BP as BP
    from .learning_curve import LearningCurve as LearningCurve
    from .lr_policies import Fixed as Fixed
    from .lr_policies import Inv as Inv
    from .lr_policies import Step as Step
    from .sgd import SGD as SGD
    from .snapshot import Snapshot as Snapshot
    from .summary import TrainingSummary as TrainingSummary
    from .validation import ValidationPerformance as ValidationPerformance

nacre_api = "1"

METHODS = {"SGD": "nacre_solvers.sgd:SGD"}
LR_POLICIES = {
    "Fixed": "nacre_solvers.lr_policies:Fixed",
    "Inv": "nacre_solvers.lr_policies:Inv",
    "Step": "nacre_solvers.lr_policies:Step",
}
MOMENTUM_POLICIES = {"Fixed": "nacre_solvers.momentum_policies:FixedMomentum"}
ALGORITHMS = {"BP": "nacre_solvers.algorithms:BP"}
CALLBACKS = {
    "LearningCurve": "nacre_solvers.learning_curve:LearningCurve",
    "Snapshot": "nacre_solvers.snapshot:Snapshot",
    "TrainingSummary": "nacre_solvers.summary:TrainingSummary",
    "ValidationPerformance": "nacre_solvers.validation:ValidationPerformance",
}


@hookimpl
def offer_components() -> dict[str, dict[str, str]]:
    return {
        "solver": METHODS,
        "lr_policy": LR_POLICIES,
        "momentum_policy": MOMENTUM_POLICIES,
        "algorithm": ALGORITHMS,
        "callback": CALLBACKS,
    }


__getattr__ = lazy(__name__, METHODS, LR_POLICIES, MOMENTUM_POLICIES, ALGORITHMS, CALLBACKS)
