"""ValidationPerformance: how good the net is on data that it is not trained on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from nacre import Callback, CallbackState, ConfigError, InputLayer, Net, TopologyError, Training, one_of
from nacre.errors import nearest
from nacre.solver import Score


class ValidationPerformance(Callback):
    """Runs the net over all records of another phase's sources, once: every so many iterations, and at the end.

    The layers are those of the training net that are there in `phase`, with the same parameters; the training's own
    sources stay where they are. The mean loss and the statistics go to `training.history` and
    `training.statistics`; the event is "validation". After Mocha.jl's `ValidationPerformance`.
    """

    phase: Annotated[str, one_of("validation", "test"), "phase whose layers are run"] = "validation"
    best: Annotated[str, "what marks the best snapshot: layer/statistic, or loss; nothing unless given"] = ""
    higher_better: Annotated[bool, "whether more of it is better"] = True

    def complaints(self) -> Iterator[str]:
        if self.best and self.best != "loss" and not all(self.best.partition("/")):
            yield f"best={self.best!r}, but it must be like 'accuracy/accuracy', a layer and its statistic, or 'loss'"
        if self.best == "loss" and self.higher_better:
            yield "best='loss' needs higher_better=False: the lower the loss, the better"

    def start(self, training: Training) -> CallbackState:
        return ValidationState(self, training)


class ValidationState(CallbackState):
    """`ValidationPerformance` in one training: holds the net of the other phase.

    Raises:
        ConfigError: there is no net in this phase, or `best` names no layer with statistics.
    """

    def __init__(self, callback: ValidationPerformance, training: Training) -> None:
        super().__init__(callback, training)
        self.net = _make_net(training.net, callback.phase)
        layer = callback.best.rpartition("/")[0]
        if layer and layer not in (known := self.net.statistics()):
            self.net.shutdown()
            raise ConfigError(
                f"ValidationPerformance: best='{callback.best}', but no layer '{layer}' has statistics in phase "
                f"'{callback.phase}'{nearest(layer, known)}"
            )
        self.history = training.history.setdefault(callback.phase, [])

    def run(self) -> None:
        training, phase = self.training, self.callback.phase
        self.net.reset_statistics()
        loss = self.net.forward_epoch()
        statistics = self.net.statistics()
        training.statistics[phase] = statistics
        self.history.append((training.iteration, loss, statistics))
        if self.callback.best:
            score = self._score(loss, statistics)
            training.score = Score(training.iteration, score, self.callback.higher_better)
        training.report("validation", phase=phase, loss=loss, statistics=statistics)

    def _score(self, loss: float, statistics: Mapping[str, Mapping[str, float]]) -> float:
        layer, _, name = self.callback.best.rpartition("/")
        if not layer:
            return loss
        if name not in statistics[layer]:
            raise ConfigError(
                f"ValidationPerformance: best='{self.callback.best}', but layer '{layer}' has the statistics "
                f"{', '.join(statistics[layer])}{nearest(name, statistics[layer])}"
            )
        return statistics[layer][name]

    def finish(self) -> None:
        """Validate the last iteration too; not after a signal: then the snapshot must be saved without delay."""
        training = self.training
        if not training.interrupted and [entry[0] for entry in self.history[-1:]] != [training.iteration]:
            self.run()

    def shutdown(self) -> None:
        self.net.shutdown()

    def memory(self) -> Mapping[str, Any]:
        return {"history": json.dumps(self.history)}

    def remember(self, memory: Mapping[str, Any]) -> None:
        entries = json.loads(memory["history"])
        self.history[:] = [(int(iteration), float(loss), statistics) for iteration, loss, statistics in entries]
        if self.history:
            self.training.statistics[self.callback.phase] = self.history[-1][2]


def _make_net(net: Net, phase: str) -> Net:
    remedy = f"give it a source that does not exclude '{phase}', or take another phase"
    sources = [layer for layer in net.layers if layer.is_source and phase not in layer.exclude]
    if all(isinstance(source, InputLayer) for source in sources):
        raise ConfigError(f"ValidationPerformance: no source with an end is there in phase '{phase}'", remedy)
    try:
        made = Net(
            f"{net.name} ({phase})",
            net.layers,
            backend=net.backend,
            phase=phase,
            seed=net.seed,
            dtype=net.dtype,
            deterministic=net.deterministic,
            share=net,
            pins=net.pins,
        )
    except TopologyError as error:
        raise ConfigError(
            f"ValidationPerformance: there is no net in phase '{phase}': {error.args[0]}", remedy
        ) from error
    return made
