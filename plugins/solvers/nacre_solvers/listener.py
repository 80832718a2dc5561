"""Callbacks that act on the events of a training, and write them to files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nacre import Callback, CallbackState, NacreError, Training
from nacre.files import os_errors


def numbers(event: str, data: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a summary ("train/loss", "train/rate", "train/layer/statistic") or of a validation.

    The names of a validation begin with its phase ("validation/loss", "test/loss"); other events have no numbers.
    """
    if event not in ("summary", "validation"):
        return
    start = "train" if event == "summary" else data["phase"]
    for name in ("loss", "rate", "momentum", "images_per_second"):
        if name in data:
            yield f"{start}/{name}", data[name]
    for layer, statistics in data["statistics"].items():
        for name, value in statistics.items():
            yield f"{start}/{layer}/{name}", value


class Listener(Callback):
    """A callback that acts on what other callbacks report, so it is never due on its own."""

    def complaints(self) -> Iterator[str]:
        for name in ("every_n_iter", "every_n_epoch"):
            if getattr(self, name):
                yield f"{name}={getattr(self, name)}, but this callback acts when others report: set it there"


class ListenerState(CallbackState):
    """A callback that gets every event of its training, and writes to a file.

    It is an error if the file cannot be written when the training begins. Later it is only a warning, because the
    training itself is all right, and nothing more is written.
    """

    def __init__(self, callback: Any, training: Training) -> None:
        super().__init__(callback, training)
        self.path = callback.path
        self._broken = False
        training.listeners.append(self._listen)

    def on_event(self, event: str, data: Mapping[str, Any]) -> None:
        """Write what the file keeps of an event."""
        raise NotImplementedError

    def _listen(self, event: str, data: Mapping[str, Any]) -> None:
        self.attempt(lambda: self.on_event(event, data))

    def attempt(self, write: Callable[[], None]) -> None:
        """Write, until that has failed once."""
        if self._broken:
            return
        try:
            with os_errors(self.path, "cannot be written", NacreError):
                write()
        except NacreError as error:
            self._broken = True
            self.training.warn(f"{error.args[0]}; nothing more is written there")

    def run(self) -> None:
        """Do nothing at fixed times: this callback acts on events."""
