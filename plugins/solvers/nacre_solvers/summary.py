"""TrainingSummary: reports loss, rates and statistics at intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from nacre import Callback, CallbackState, Training, count_in, non_negative


class TrainingSummary(Callback):
    """Reports loss, learning rate, momentum, images a second and statistics: every so many iterations, and at the end.

    Loss (a mean) and statistics (of the layers of the training net, and each loss if there are several) are those of
    the iterations since the last report. With `check_finite=False`, which does not fetch losses, the loss is that of
    the last iteration. The event is "summary".
    """

    summarises = True

    every_n_iter: Annotated[int, non_negative, "iterations from one report to the next; 0 for never"] = 100

    def start(self, training: Training) -> CallbackState:
        return TrainingSummaryState(self, training)


class TrainingSummaryState(CallbackState):
    """`TrainingSummary` in one training."""

    def __init__(self, callback: TrainingSummary, training: Training) -> None:
        super().__init__(callback, training)
        self.mean_loss = MeanLoss(training)
        self.images, self.seconds = 0, 0.0

    def begin(self) -> None:
        self.mean_loss.begin()

    def memory(self) -> dict[str, float]:
        return self.mean_loss.memory()

    def remember(self, memory: Mapping[str, Any]) -> None:
        self.mean_loss.remember(memory)

    def run(self) -> None:
        training = self.training
        images, seconds = training.images - self.images, training.step_seconds - self.seconds
        self.images, self.seconds = training.images, training.step_seconds
        training.report(
            "summary",
            loss=self.mean_loss.take(),
            rate=training.net.scalars["rate"],
            momentum=training.net.scalars["momentum"],
            images_per_second=images / seconds if seconds else 0.0,
            statistics=training.take_statistics(),
        )

    def finish(self) -> None:
        if self.training.images > self.images:
            self.run()


class MeanLoss:
    """The mean of the training loss over the iterations since the last call of `take`."""

    def __init__(self, training: Any) -> None:
        self.training = training
        self.total, self.count, self.restored = 0.0, 0, False

    def begin(self) -> None:
        """Leave out the losses before a training is resumed, unless they are remembered."""
        if not self.restored:
            self.total, self.count = self.training.loss_total, self.training.loss_count

    def take(self) -> float:
        training = self.training
        total, count = training.loss_total - self.total, training.loss_count - self.count
        self.total, self.count = training.loss_total, training.loss_count
        return total / count if count else training.loss

    def memory(self) -> dict[str, float]:
        """Return what was added up until the last call of `take`."""
        return {"total": self.total, "count": self.count}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Restore what `memory` returned; that of an earlier version has nothing."""
        if "total" in memory:
            self.total, self.count, self.restored = float(memory["total"]), count_in(memory, "count"), True
