"""FiniteCheck: looks for numbers that are not finite in everything that a training keeps."""

from __future__ import annotations

from typing import Annotated

from nacre import Callback, CallbackState, Training, non_negative


class FiniteCheck(Callback):
    """Stops the training if a parameter, a buffer, a gradient or a history is not finite; the error names it.

    The solver's `check_finite` already checks every loss, gradient, parameter and buffer, and no snapshot with such a
    number is saved. This callback also checks the method's histories between snapshots, where a square that overflows
    would stop a parameter for ever; and it can replace `check_finite` if fetching a number in every iteration is too
    slow.

    Raises:
        NotFiniteError: names the parameter and its layer.
    """

    every_n_iter: Annotated[int, non_negative, "iterations from one check to the next; 0 for never"] = 100

    def start(self, training: Training) -> CallbackState:
        return FiniteCheckState(self, training)


class FiniteCheckState(CallbackState):
    """`FiniteCheck` in one training."""

    def run(self) -> None:
        training = self.training
        if where := training.first_bad_number():
            raise training.not_finite(f"after {training.iteration} iterations: a number is not finite", where)
