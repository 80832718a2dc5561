"""The steps of an iteration between the gradients of a batch and the new parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from ..protocols.array import Array
from ..protocols.backend import Backend, Step
from ..protocols.view import View
from .spans import Span

if TYPE_CHECKING:
    from ..engine.parameters import Slot
    from ..net.net import Net

Norm = Callable[[Sequence[Array]], Array]
"""Computes the L2 norm of all numbers of flat arrays."""


def iteration_steps(
    batch: Sequence[Step],
    update: Sequence[Step],
    view: View,
    spans: Sequence[Span],
    count: int,
    empty: Callable[[Sequence[int]], Array] | None = None,
) -> list[list[Step]]:
    """Return the lists of steps of an iteration of `count` batches: for the first, for each in between, for the last.

    The last one updates, too; of one batch there is only that. Of several batches each adds its gradients to a sum,
    whose mean is what the update sees. `empty` makes the arrays for it; by default it is the view's.
    """
    if count == 1:
        return [[*batch, *update]]
    work, own = Accumulator(view.xp, spans, count, empty or view.empty), recorder(view)
    first, more, last = (Step("accumulate", "gradients", call, own) for call in (work.keep, work.add, work.mean))
    return [[*batch, first], *([[*batch, more]] if count > 2 else []), [*batch, last, *update]]


def recorder(view: View) -> Backend | None:
    """Return the backend that may record a step over plain arrays, or None if it records none."""
    return view.backend if view.backend.captures else None


class Accumulator:
    """Adds up the gradients of several batches; after the last one, the mean replaces its gradients."""

    capturable = True

    def __init__(self, xp: Any, spans: Sequence[Span], count: int, empty: Callable[[Sequence[int]], Array]) -> None:
        self.xp = xp
        self.share = 1 / count
        self.pairs = [(empty(span.gradient.shape), span.gradient) for span in spans]

    def keep(self) -> None:
        for total, gradient in self.pairs:
            self.xp.copyto(total, gradient)

    def add(self) -> None:
        for total, gradient in self.pairs:
            self.xp.add(total, gradient, out=total)

    def mean(self) -> None:
        for total, gradient in self.pairs:
            self.xp.add(total, gradient, out=gradient)
            self.xp.multiply(gradient, self.share, out=gradient)


def clip_steps(
    view: View,
    spans: Sequence[Span],
    value: float,
    norm: float,
    norm_of_all: Norm | None,
) -> list[Step]:
    """Return the steps that clip the gradients: first every number, then the norm of all; 0 and infinity clip nothing.

    `norm_of_all` returns this norm, of the gradients of all ranks, for which the host has to wait; without it the norm
    is that of the rank's own.
    """
    gradients, own = [span.gradient for span in spans], recorder(view)
    found, alone = (partial(norm_of, view.xp), own) if norm_of_all is None else (norm_of_all, None)
    limits = [(clip_value, value, own), (partial(clip_norm, found), norm, alone)]
    return [
        Step("clip", "gradients", partial(clip, view, gradients, limit), by)
        for clip, limit, by in limits
        if 0 < limit < inf
    ]


def clip_value(view: View, gradients: Sequence[Array], limit: float) -> None:
    """Clip every number of the gradients to -limit .. limit; one that is not finite becomes NaN."""
    xp = view.xp
    for gradient in gradients:
        bad = view.scratch(gradient.shape)
        xp.multiply(gradient, 0, out=bad)  # an infinity must not pass for the limit: who checks would never see it
        xp.minimum(gradient, limit, out=gradient)
        xp.maximum(gradient, -limit, out=gradient)
        xp.add(gradient, bad, out=gradient)


def norm_of(xp: Any, gradients: Sequence[Array]) -> Array:
    """Return the L2 norm of all numbers of flat arrays."""
    return xp.sqrt(sum(xp.multiply(xp.dot(one, one), 1, dtype="float64") for one in gradients))


def norm_of_ranks(net: Net, slots: Sequence[Slot]) -> Norm | None:
    """Return what computes the norm of the gradients of all ranks, or None if each has all gradients."""
    xp, communicator = net.view().xp, net.communicator

    def over_ranks(gradients: Sequence[Array]) -> Array:
        import numpy as np

        flat = [(slot.everywhere, slot.gradient.reshape(-1)) for slot in slots if slot.gradient is not None]
        own, same = ([gradient for shared, gradient in flat if shared is which] for which in (False, True))
        square = np.array([float(norm_of(xp, own)) ** 2])
        assert communicator is not None
        communicator.allreduce(square, ordered=True)
        return xp.sqrt(float(square[0]) + norm_of(xp, same) ** 2)

    return over_ranks if net.division is not None and communicator is not None else None


def clip_norm(norm: Norm, view: View, gradients: Sequence[Array], limit: float) -> None:
    """Shrink all gradients by limit / norm where the L2 norm of all their numbers is above `limit`, as Caffe does.

    Others keep every bit. So do those whose norm is not finite: who looks for such a number finds it where it is.
    """
    xp = view.xp
    found = norm(gradients)
    factor = xp.where(xp.isfinite(found), limit / xp.fmax(found, limit), 1.0)
    for gradient in gradients:
        xp.multiply(gradient, factor, out=gradient, dtype=gradient.dtype)
