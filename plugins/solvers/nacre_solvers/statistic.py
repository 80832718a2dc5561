"""Monitoring one statistic of the validations, for the best snapshot, early stopping and falling rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from nacre import CallbackState, Check, ConfigError, Layer, Training, about_statistic, nearest


def _complain(name: str, _: Any) -> str | None:
    if name in ("", "loss") or all(name.partition("/")):
        return None
    return "it must be LAYER/STATISTIC, such as 'accuracy/accuracy', or 'loss'"


STATISTIC = Check(_complain)
Judged = Literal["validation", "test"]
"""Phases that are validated."""
HIGHER = "whether a higher value is better; by default what the layer says of its statistic"


def direction_complaints(field: str, name: str, higher_better: bool | None) -> Iterator[str]:
    """Yield a message if `higher_better` is true for a loss."""
    if name.rpartition("/")[2] == "loss" and higher_better:
        yield f"{field}={name!r} needs higher_better=False, because a lower loss is better"


def higher_is_better(asked: str, name: str, given: bool | None, layers: Mapping[str, Layer]) -> bool:
    """Return whether a higher value of "layer/name" is better, as `given`, or else as the layer says.

    Raises:
        ConfigError: it does not say.
    """
    layer, _, key = name.rpartition("/")
    better = "lower" if key == "loss" else about_statistic(layers[layer], key)[0]
    if given is None and not better:
        known = [one for one, (direction, _) in layers[layer].statistics.items() if direction and "{" not in one]
        said = f"it says so of {', '.join(known)}; or " if known else ""
        raise ConfigError(
            f"{asked}='{name}' needs higher_better, because layer '{layer}' does not say which values are better"
            f"{nearest(key, known)}",
            f"{said}set higher_better to true if a higher value is better, as for an accuracy, else to false",
        )
    return better == "higher" if given is None else given


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
        ConfigError: no callback of the training validates in this phase, no layer has such statistics, or it is not
            known whether a higher value is better; when the training begins, if the layer has no such statistic, or
            validations come only at the end.
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
        self.higher_better = higher_is_better(self.asked, thing.statistic, thing.higher_better, there)
        training.listeners.append(self.on_event)

    def on_event(self, event: str, data: Mapping[str, Any]) -> None:
        if event == "start" and self.phase in self.training.judged:
            check_statistic(self.asked, self.statistic, self.training.judged[self.phase], self.phase)
            self._refuse_never()
        if event == "validation" and data["phase"] == self.phase and not data.get("final"):
            self.judged(self.value(data))

    def _refuse_never(self) -> None:
        """Raise a ConfigError if no validation of this phase comes before the end: this would wait for ever."""
        states = [one for one in self.training.callbacks if one.callback.validates]
        mine = [one for one in states if getattr(one.callback, "phase", "") == self.phase]
        timed = [one for one in mine if one.callback.every_n_iter or one.callback.every_n_epoch]
        if mine and not timed and all(type(one).due is CallbackState.due for one in mine):
            name = type(mine[0].callback).__name__
            raise ConfigError(
                f"{self.asked.partition(':')[0]}: phase='{self.phase}', but {name} validates only at the end",
                f"say how often: {name}(every_n_epoch=1)",
            )

    def value(self, data: Mapping[str, Any]) -> float:
        """Return the statistic in the data of a validation."""
        return read_statistic(self.asked, self.statistic, data["loss"], data["statistics"], self.phase)
