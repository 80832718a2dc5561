"""The errors of methods, policies and callbacks, as a person reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import Net, Solver
from nacre_data import MemoryDataLayer
from nacre_layers import AccuracyLayer, InnerProductLayer, SoftmaxLossLayer
from nacre_solvers import (
    SGD,
    DecayOnValidation,
    EarlyStopping,
    JSONLog,
    LearningCurve,
    MultiStep,
    Staged,
    StatisticsStore,
    Step,
    ValidationPerformance,
)
from provoked import Message, check_message


def layers(**fields: Any) -> list[Any]:
    return [
        MemoryDataLayer(name="train", data=[np.eye(4), np.arange(4) % 3], batch_size=2, **fields),
        InnerProductLayer(bottoms="data", tops="ip1", output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["ip1", "label"]),
        AccuracyLayer(name="accuracy", bottoms=["ip1", "label"], exclude="train"),
    ]


def solve(*callbacks: Any, exclude: str = "test", **fields: Any) -> Any:
    with Net("small", layers(exclude=exclude)) as net:
        return Solver(SGD(), callbacks=callbacks, max_iter=2, **fields).solve(net)


def refused() -> Any:
    Path("statistics.json").write_text("{}")
    return solve(StatisticsStore(if_exists="refuse"))


def foreign() -> Any:
    Path("statistics.json").write_text("[1]")
    return solve(StatisticsStore())


VALIDATED = ValidationPerformance(every_n_iter=1)

MESSAGES: list[Message] = [
    (
        lambda: Step(base=-1, gamma=0.1, stepsize=3),
        "Step: base=-1.0, but it must be 0 or more",
    ),
    (
        lambda: MultiStep(base=1, gamma=0.1, steps=[]),
        "MultiStep: steps=[], but it must be a list of iterations",
    ),
    (
        lambda: Staged(stages=[(0, 0.1)]),
        (
            "Staged: stages=[(0, 0.1)], but it must be a list of pairs: number of iterations (above 0), and a "
            "policy or a rate"
        ),
    ),
    (
        lambda: EarlyStopping(statistic="accuracy"),
        ("EarlyStopping: statistic='accuracy', but it must be LAYER/STATISTIC, such as 'accuracy/accuracy', or 'loss'"),
    ),
    (
        lambda: solve(VALIDATED, EarlyStopping(statistic="accuracy/records")),
        (
            "EarlyStopping: statistic='accuracy/records' needs higher_better, because layer 'accuracy' does not say "
            "which values are better\n"
            "  it says so of accuracy, error; or set higher_better to true if a higher value is better, as for an "
            "accuracy, else to false"
        ),
    ),
    (
        lambda: DecayOnValidation(base=0.1, statistic="loss", higher_better=True),
        "DecayOnValidation: statistic='loss' needs higher_better=False, because a lower loss is better",
    ),
    (
        lambda: solve(EarlyStopping()),
        (
            "EarlyStopping: phase='validation', but no callback validates in this phase\n"
            "  add ValidationPerformance(every_n_iter=...) to the callbacks"
        ),
    ),
    (
        lambda: solve(VALIDATED, EarlyStopping(statistic="acuracy/accuracy", higher_better=True)),
        (
            "EarlyStopping: statistic='acuracy/accuracy', but no layer 'acuracy' has statistics in phase "
            "'validation' (did you mean 'accuracy'?)"
        ),
    ),
    (
        lambda: solve(ValidationPerformance(best="accuracy/acc", higher_better=True)),
        ("ValidationPerformance: best='accuracy/acc', but layer 'accuracy' has the statistics accuracy, records"),
    ),
    (
        lambda: solve(ValidationPerformance(), exclude="validation"),
        (
            "ValidationPerformance: there is no net in phase 'validation': layer 'ip1' reads blob 'data' of layer "
            "'train', absent in phase 'validation'\n"
            "  add a source that does not exclude 'validation', or use another phase"
        ),
    ),
    (
        lambda: JSONLog(every_n_iter=3),
        "JSONLog: every_n_iter=3, but this callback acts when others report: set it there",
    ),
    (
        lambda: LearningCurve(path="curve.xyz"),
        (
            "LearningCurve: path='curve.xyz', but its ending must be one of .png, .svg, .pdf, .jpg, .jpeg, "
            ".webp, .tif, .tiff, .eps, .ps"
        ),
    ),
    (
        refused,
        ("StatisticsStore: statistics.json exists already\n  use another path, or if_exists='merge' or 'overwrite'"),
    ),
    (
        foreign,
        (
            "statistics.json does not hold the statistics of a training: its JSON has another form\n"
            "  use another path, or if_exists='overwrite'"
        ),
    ),
    (
        lambda: solve(StatisticsStore(path="runs/statistics.json")),
        (
            "runs/statistics.json: cannot be written: No such file or directory\n"
            "  check the folder and its permissions, or use another one"
        ),
    ),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message[1].partition("\n")[0][:60])
def test_the_text_of_an_error(message: Message, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_message(message, tmp_path, monkeypatch)
