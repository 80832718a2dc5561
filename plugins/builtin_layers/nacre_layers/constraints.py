"""Constraints: limits for the values of a parameter after an update."""

from __future__ import annotations

from typing import Annotated

from nacre import Array, ConfigError, Constraint, View, finite, non_negative, positive


class L2Norm(Constraint):
    """Limits the L2 norm of the weights of each output to `threshold`: a longer vector is shortened.

    A vector holds the weights of one output, a slice of axis 0 (for a transposed weight, of `axis` 1); a parameter with
    one axis, such as a bias, is one vector. After Mocha.jl's `L2Cons`.
    """

    threshold: Annotated[float, positive, finite, "the largest norm"]
    axis: Annotated[int, non_negative, "the axis that counts the outputs"] = 0

    def check(self, shape: tuple[int, ...]) -> None:
        if self.axis >= len(shape) > 1:
            raise ConfigError(
                f"L2Norm: axis={self.axis}, but a parameter of shape {shape} has the axes 0 to {len(shape) - 1}"
            )

    def divides(self, shape: tuple[int, ...], axis: int) -> bool:
        return len(shape) > 1 and axis == self.axis

    def constrain(self, backend: View, value: Array) -> None:
        xp, kind = backend.xp, str(value.dtype)
        others = tuple(axis for axis in range(value.ndim) if axis != self.axis or value.ndim == 1)
        shape = [1 if axis in others else length for axis, length in enumerate(value.shape)]
        squares, factor = backend.scratch(value.shape, kind), backend.scratch(shape, kind, slot=1)
        xp.multiply(value, value, out=squares)
        xp.sum(squares, axis=others, keepdims=True, out=factor)
        xp.sqrt(factor, out=factor)
        xp.maximum(factor, self.threshold, out=factor)
        xp.divide(self.threshold, factor, out=factor)  # exactly 1 where nothing is too long
        xp.multiply(value, factor, out=value)
