"""FiniteCheck: looks for numbers that are not finite, in all that a training keeps."""

from __future__ import annotations

from typing import Annotated

from nacre import Callback, CallbackState, Training, non_negative


class FiniteCheck(Callback):
    """Stops the training where a parameter, a buffer, a gradient or a history is not finite; the error names it.

    The solver's own `check_finite` sees every loss, gradient, parameter and buffer at once, and no snapshot is saved
    that holds such a number. This one also sees the method's histories between snapshots, where a square that overflows
    would stop a parameter for ever; and it may take the place of the first where fetching a number in every iteration
    costs too much.

    Raises:
        NotFiniteError: names the parameter and its layer.
    """

    every_n_iter: Annotated[int, non_negative, "look every so many iterations; 0 never"] = 100

    def start(self, training: Training) -> CallbackState:
        return FiniteCheckState(self, training)


class FiniteCheckState(CallbackState):
    """`FiniteCheck` in one training."""

    def run(self) -> None:
        training = self.training
        if where := training.first_bad_number():
            raise training.not_finite(f"after {training.iteration} iterations: a number is not finite", where)
