"""TrainingSummary: reports loss, rates and statistics at intervals."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Callback, CallbackState, Training, non_negative


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
        self.total, self.count = 0.0, 0

    def take(self) -> float:
        training = self.training
        total, count = training.loss_total - self.total, training.loss_count - self.count
        self.total, self.count = training.loss_total, training.loss_count
        return total / count if count else training.loss
