"""nacre's own solvers: methods, policies, callbacks and algorithms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .adam import Adam as Adam
    from .adam import AdaMax as AdaMax
    from .adam import AdamW as AdamW
    from .adaptive import AdaDelta as AdaDelta
    from .adaptive import AdaGrad as AdaGrad
    from .adaptive import RMSProp as RMSProp
    from .algorithms import BP as BP
    from .algorithms import BPTT as BPTT
    from .by_epoch import ByEpoch as ByEpoch
    from .by_epoch import MomentumByEpoch as MomentumByEpoch
    from .decay import DecayOnValidation as DecayOnValidation
    from .early_stopping import EarlyStopping as EarlyStopping
    from .finite_check import FiniteCheck as FiniteCheck
    from .gpipe import GPipe as GPipe
    from .json_log import JSONLog as JSONLog
    from .learning_curve import LearningCurve as LearningCurve
    from .lr_policies import Cosine as Cosine
    from .lr_policies import Exp as Exp
    from .lr_policies import Fixed as Fixed
    from .lr_policies import Inv as Inv
    from .lr_policies import Linear as Linear
    from .lr_policies import MultiStep as MultiStep
    from .lr_policies import Poly as Poly
    from .lr_policies import Sigmoid as Sigmoid
    from .lr_policies import Staged as Staged
    from .lr_policies import Step as Step
    from .lr_policies import WarmUp as WarmUp
    from .momentum_policies import FixedMomentum as FixedMomentum
    from .momentum_policies import LinearMomentum as LinearMomentum
    from .momentum_policies import StagedMomentum as StagedMomentum
    from .momentum_policies import StepMomentum as StepMomentum
    from .progress import Progress as Progress
    from .sgd import SGD as SGD
    from .sgd import Nesterov as Nesterov
    from .snapshot import Snapshot as Snapshot
    from .statistics_store import StatisticsStore as StatisticsStore
    from .summary import TrainingSummary as TrainingSummary
    from .tensorboard import TensorBoard as TensorBoard
    from .validation import ValidationPerformance as ValidationPerformance

nacre_api = "1"

METHODS = {
    "AdaDelta": "nacre_solvers.adaptive:AdaDelta",
    "AdaGrad": "nacre_solvers.adaptive:AdaGrad",
    "AdaMax": "nacre_solvers.adam:AdaMax",
    "Adam": "nacre_solvers.adam:Adam",
    "AdamW": "nacre_solvers.adam:AdamW",
    "Nesterov": "nacre_solvers.sgd:Nesterov",
    "RMSProp": "nacre_solvers.adaptive:RMSProp",
    "SGD": "nacre_solvers.sgd:SGD",
}
LR_POLICIES = {
    "ByEpoch": "nacre_solvers.by_epoch:ByEpoch",
    "Cosine": "nacre_solvers.lr_policies:Cosine",
    "DecayOnValidation": "nacre_solvers.decay:DecayOnValidation",
    "Exp": "nacre_solvers.lr_policies:Exp",
    "Fixed": "nacre_solvers.lr_policies:Fixed",
    "Inv": "nacre_solvers.lr_policies:Inv",
    "Linear": "nacre_solvers.lr_policies:Linear",
    "MultiStep": "nacre_solvers.lr_policies:MultiStep",
    "Poly": "nacre_solvers.lr_policies:Poly",
    "Sigmoid": "nacre_solvers.lr_policies:Sigmoid",
    "Staged": "nacre_solvers.lr_policies:Staged",
    "Step": "nacre_solvers.lr_policies:Step",
    "WarmUp": "nacre_solvers.lr_policies:WarmUp",
}
MOMENTUM_POLICIES = {
    "ByEpoch": "nacre_solvers.by_epoch:MomentumByEpoch",
    "Fixed": "nacre_solvers.momentum_policies:FixedMomentum",
    "Linear": "nacre_solvers.momentum_policies:LinearMomentum",
    "Staged": "nacre_solvers.momentum_policies:StagedMomentum",
    "Step": "nacre_solvers.momentum_policies:StepMomentum",
}
ALGORITHMS = {
    "BP": "nacre_solvers.algorithms:BP",
    "BPTT": "nacre_solvers.algorithms:BPTT",
    "GPipe": "nacre_solvers.gpipe:GPipe",
}
CALLBACKS = {
    "EarlyStopping": "nacre_solvers.early_stopping:EarlyStopping",
    "FiniteCheck": "nacre_solvers.finite_check:FiniteCheck",
    "JSONLog": "nacre_solvers.json_log:JSONLog",
    "LearningCurve": "nacre_solvers.learning_curve:LearningCurve",
    "Progress": "nacre_solvers.progress:Progress",
    "Snapshot": "nacre_solvers.snapshot:Snapshot",
    "StatisticsStore": "nacre_solvers.statistics_store:StatisticsStore",
    "TensorBoard": "nacre_solvers.tensorboard:TensorBoard",
    "TrainingSummary": "nacre_solvers.summary:TrainingSummary",
    "ValidationPerformance": "nacre_solvers.validation:ValidationPerformance",
}
TASKS = {
    "early_stopping": CALLBACKS["EarlyStopping"],
    "progress": CALLBACKS["Progress"],
    "summary": CALLBACKS["TrainingSummary"],
    "validation": CALLBACKS["ValidationPerformance"],
}
"""What trainings from Python (`solve`, `fit`) use."""


@hookimpl
def offer_commands() -> dict[str, str]:
    return {"plot": "nacre_solvers.plot:command"}


@hookimpl
def offer_components() -> dict[str, dict[str, str]]:
    return {
        "solver": METHODS,
        "lr_policy": LR_POLICIES,
        "momentum_policy": MOMENTUM_POLICIES,
        "algorithm": ALGORITHMS,
        "callback": CALLBACKS,
        "number_of": {"lr_policy": LR_POLICIES["Fixed"], "momentum_policy": MOMENTUM_POLICIES["Fixed"]},
        "default_of": {"algorithm": ALGORITHMS["BP"], **TASKS},
    }


__getattr__ = lazy(__name__, METHODS, LR_POLICIES, MOMENTUM_POLICIES, ALGORITHMS, CALLBACKS)
