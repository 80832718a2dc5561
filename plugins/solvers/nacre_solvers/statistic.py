"""Monitoring one statistic of the validations, for the best snapshot, early stopping and falling rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from nacre import Check, ConfigError, Training, nearest


def _complain(name: str, _: Any) -> str | None:
    if name in ("", "loss") or all(name.partition("/")):
        return None
    return "it must be LAYER/STATISTIC, such as 'accuracy/accuracy', or 'loss'"


STATISTIC = Check(_complain)
Judged = Literal["validation", "test"]
"""Phases that are validated."""
HIGHER = "whether a higher value is better; needed for statistics other than a loss"


def direction_complaints(field: str, name: str, higher_better: bool | None) -> Iterator[str]:
    """Yield a message if `higher_better` is missing for a statistic, or true for a loss."""
    loss = name.rpartition("/")[2] == "loss"
    if loss and higher_better:
        yield f"{field}={name!r} needs higher_better=False, because a lower loss is better"
    if name and not loss and higher_better is None:
        yield f"{field}={name!r} needs higher_better: True if a higher value is better, as for an accuracy, else False"


def read_statistic(
    asked: str, name: str, loss: float, statistics: Mapping[str, Mapping[str, float]], phase: str
) -> float:
    """Return the loss, or the statistic "layer/name"; `asked` begins the error.

    Raises:
        ConfigError: there is no such layer or no such statistic.
    """
    layer, _, key = name.rpartition("/")
    if not layer:
        return loss
    check_statistic(asked, name, statistics, phase)
    return statistics[layer][key]


def check_statistic(asked: str, name: str, statistics: Mapping[str, Mapping[str, Any]], phase: str) -> None:
    """Raise a ConfigError if there is no such layer, or if it has no statistic of this name."""
    check_layer(asked, name, statistics, phase)
    layer, _, key = name.rpartition("/")
    if layer and key not in statistics[layer]:
        raise ConfigError(
            f"{asked}='{name}', but layer '{layer}' has the statistics {', '.join(statistics[layer])}"
            f"{nearest(key, statistics[layer])}"
        )


def check_layer(asked: str, name: str, statistics: Mapping[str, Any], phase: str) -> None:
    """Raise a ConfigError if the layer of "layer/name" has no statistics."""
    layer = name.rpartition("/")[0]
    if layer and layer not in statistics:
        raise ConfigError(
            f"{asked}='{name}', but no layer '{layer}' has statistics in phase '{phase}'{nearest(layer, statistics)}"
        )


class Judge:
    """Follows one statistic of the validations of a training, except the one that runs only because it ends.

    Raises:
        ConfigError: no callback of the training validates in this phase, or no layer has such statistics; when the
            training begins, if the layer has no statistic of this name.
    """

    def __init__(self, thing: Any, training: Training, judged: Any) -> None:
        self.asked, self.phase = f"{type(thing).__name__}: statistic", thing.phase
        self.statistic, self.judged, self.training = thing.statistic, judged, training
        if not any(one.validates and getattr(one, "phase", "") == thing.phase for one in training.solver.callbacks):
            raise ConfigError(
                f"{type(thing).__name__}: phase='{thing.phase}', but no callback validates in this phase",
                "add ValidationPerformance(every_n_iter=...) to the callbacks",
            )
        there = training.net.layers_in(thing.phase)
        several = sum(one.has_loss for one in there.values()) > 1
        known = {name: None for name, one in there.items() if one.has_stats or (one.has_loss and several)}
        check_layer(self.asked, thing.statistic, known, thing.phase)
        training.listeners.append(self.on_event)

    def on_event(self, event: str, data: Mapping[str, Any]) -> None:
        if event == "start" and self.phase in self.training.judged:
            check_statistic(self.asked, self.statistic, self.training.judged[self.phase], self.phase)
        if event == "validation" and data["phase"] == self.phase and not data.get("final"):
            self.judged(read_statistic(self.asked, self.statistic, data["loss"], data["statistics"], self.phase))
