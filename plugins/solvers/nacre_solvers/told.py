"""What a training tells on its way, as named numbers, and files that it is written to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nacre import Callback, CallbackState, NacreError, Training
from nacre.files import told


def numbers(event: str, data: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a summary ("train/loss", "train/rate", "train/layer/statistic") or of a validation.

    Those of a validation are called "validation/loss" or "test/loss", by its phase; other events have none.
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
    """A callback that goes by what others report, so that it is never due by itself."""

    def complaints(self) -> Iterator[str]:
        for name in ("every_n_iter", "every_n_epoch"):
            if getattr(self, name):
                yield f"{name}={getattr(self, name)}, but it goes by what other callbacks report: say it there"


class ListenerState(CallbackState):
    """A callback that hears every event of its training, and writes of it to a file.

    That the file cannot be written when the training begins is an error; later it is a warning, since the training
    goes well, and nothing more is written.
    """

    def __init__(self, callback: Any, training: Training) -> None:
        super().__init__(callback, training)
        self.path = callback.path
        self._broken = False
        training.listeners.append(self._listen)

    def hear(self, event: str, data: Mapping[str, Any]) -> None:
        """Write what is to be written of an event."""
        raise NotImplementedError

    def _listen(self, event: str, data: Mapping[str, Any]) -> None:
        self.attempt(lambda: self.hear(event, data))

    def attempt(self, write: Callable[[], None]) -> None:
        """Write, as long as that can be done."""
        if self._broken:
            return
        try:
            with told(self.path, "cannot be written", NacreError):
                write()
        except NacreError as error:
            self._broken = True
            self.training.warn(f"{error.args[0]}; nothing more is written there")

    def run(self) -> None:
        """Nothing is done at fixed times: events tell."""
