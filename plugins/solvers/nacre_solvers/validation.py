"""ValidationPerformance: runs the net on data that it is not trained on, and reports loss and statistics."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import nan
from typing import Annotated, Any, Literal

from nacre import Callback, CallbackState, ConfigError, NacreError, Net, Score, SourceState, TopologyError, Training

from .statistic import (
    HIGHER,
    STATISTIC,
    Judged,
    check_statistic,
    direction_complaints,
    higher_is_better,
    read_statistic,
)

ASKED = "ValidationPerformance: best"


class ValidationPerformance(Callback):
    """Runs the net once over all records of another phase's sources: at intervals, and at the end.

    The layers are those of the training net that are not excluded from `phase`, with the same parameters; the
    training's own sources do not move. The mean loss and the statistics (with each loss, if there are several) go to
    `training.history` and `training.statistics`; the event is "validation", which all `training.listeners` get:
    `EarlyStopping`, `DecayOnValidation`, logs. After Mocha.jl's `ValidationPerformance`.
    """

    validates = True

    phase: Annotated[Judged, "phase whose layers are run"] = "validation"
    best: Annotated[str, STATISTIC, "decides on the best snapshot: layer/statistic, or loss; by default none"] = ""
    higher_better: Annotated[bool | None, HIGHER] = None

    def complaints(self) -> Iterator[str]:
        yield from direction_complaints("best", self.best, self.higher_better)

    def start(self, training: Training) -> CallbackState:
        return ValidationState(self, training)


class ValidationState(CallbackState):
    """`ValidationPerformance` in one training: holds the net of the other phase.

    Raises:
        ConfigError: there is no net in this phase, or `best` names a statistic that it does not report.
        DataError: blobs of the net come from `Input` layers, which cannot be written here.
    """

    def __init__(self, callback: ValidationPerformance, training: Training) -> None:
        super().__init__(callback, training)
        self.net = _make_net(training.net, callback.phase)
        try:
            self.net.refuse_unwritten()
            names = self.net.statistic_names()
            training.judged[callback.phase] = {layer: dict.fromkeys(some, nan) for layer, some in names.items()}
            check_statistic(ASKED, callback.best, training.judged[callback.phase], callback.phase)
            if callback.best:
                layers = training.net.layers_in(callback.phase)
                self.higher_better = higher_is_better(ASKED, callback.best, callback.higher_better, layers)
        except NacreError:
            self.net.shutdown()
            raise
        self.warned: set[str] = set()

    def run(self) -> None:
        self.validate()

    def validate(self, **data: bool) -> None:
        """Run the net over its records once; `data` is added to the report."""
        training, phase = self.training, self.callback.phase
        self.net.reset_statistics()
        loss = self.net.forward_epoch(self._warn)
        statistics = self.net.statistics()
        training.statistics[phase] = statistics
        if self.callback.best:
            score = read_statistic(ASKED, self.callback.best, loss, statistics, phase)
            training.score = Score(training.iteration, score, self.higher_better)
        training.report("validation", phase=phase, loss=loss, statistics=statistics, **data)

    def _warn(self, message: str) -> None:
        """Warn about the data, but only once per training: they stay the same."""
        if message not in self.warned:
            self.warned.add(message)
            self.training.warn(f"{self.callback.phase}: {message}")

    def finish(self) -> None:
        """Validate after the last iteration too, but not after a signal: then the snapshot must be saved at once."""
        training = self.training
        last = training.curves.last(self.callback.phase)
        if not training.interrupted and (last is None or last.iteration != training.iteration):
            self.validate(final=True)

    def shutdown(self) -> None:
        self.net.shutdown()

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take over the history of an earlier version's snapshot, which had it here."""
        for iteration, loss, statistics in json.loads(memory["history"]):
            self.training.curves.add(self.callback.phase, int(iteration), 0, float(loss), statistics)


def _make_net(net: Net, phase: Literal["validation", "test"]) -> Net:
    remedy = f"add a source that does not exclude '{phase}', or use another phase"
    try:
        made = net.derive(phase)
    except TopologyError as error:
        there = any(layer.is_source and phase not in layer.exclude for layer in net.layers)
        reason, remedy = _other_records(net, phase) if there else ("", remedy)
        raise ConfigError(
            f"ValidationPerformance: there is no net in phase '{phase}': {reason or error.args[0]}",
            remedy or error.remedy,
        ) from error
    sources = [op.state for op in made.ops if isinstance(op.state, SourceState)]
    if all(source.endless for source in sources) and (sources or made.division is None):  # else another rank has them
        made.shutdown()
        raise ConfigError(f"ValidationPerformance: all sources in phase '{phase}' are endless", remedy)
    return made


def _other_records(net: Net, phase: Literal["validation", "test"]) -> tuple[str, str]:
    """Return a message on a source whose records have another shape than in training, and a remedy; "" if none."""
    sources = [layer for layer in net.layers if layer.is_source and phase not in layer.exclude]
    with net.derive(phase, sources, allocate=False) as alone:
        for op in alone.ops:
            for value in op.outputs:
                trained = next((one for one in net.ops if one.is_source and value.name in one.layer.tops), None)
                shape = next((one.shape for one in trained.outputs if one.name == value.name), ()) if trained else ()
                if trained and shape[1:] != value.shape[1:]:
                    message = f"records of '{value.name}' have the shape {shape[1:]} from layer '{trained.name}'"
                    message += f", but {value.shape[1:]} from layer '{op.name}'"
                    return message, "use records of the same shape in both sources"
    return "", ""
