"""The steps of an iteration between the gradients of a batch and the new parameters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..protocols.array import Array
from ..protocols.backend import Step
from ..protocols.view import View
from .spans import Span


def iteration_steps(
    batch: Sequence[Step], update: Sequence[Step], view: View, spans: Sequence[Span], count: int
) -> list[list[Step]]:
    """Return the lists of steps of an iteration of `count` batches: for the first, for each in between, for the last.

    The last one updates, too; of one batch there is only that. Of several batches each adds its gradients to a sum,
    whose mean is what the update sees.
    """
    if count == 1:
        return [[*batch, *update]]
    work = Accumulator(view, spans, count)
    first, more, last = (Step("accumulate", "gradients", call) for call in (work.keep, work.add, work.mean))
    return [[*batch, first], *([[*batch, more]] if count > 2 else []), [*batch, last, *update]]


class Accumulator:
    """Adds up the gradients of several batches; after the last one, the mean replaces its gradients."""

    def __init__(self, view: View, spans: Sequence[Span], count: int) -> None:
        self.xp = view.xp
        self.share = 1 / count
        self.pairs = [(view.empty(span.gradient.shape), span.gradient) for span in spans]

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


def clip_steps(view: View, spans: Sequence[Span], value: float, norm: float) -> list[Step]:
    """Return the steps that clip the gradients: first every number, then the norm of all together; 0 clips nothing."""
    gradients = [span.gradient for span in spans]
    limits = [(clip_value, value), (clip_norm, norm)]
    return [Step("clip", "gradients", partial(clip, view, gradients, limit)) for clip, limit in limits if limit]


def clip_value(view: View, gradients: Sequence[Array], limit: float) -> None:
    """Clip every number of the gradients to -limit .. limit; one that is not finite becomes NaN."""
    xp = view.xp
    for gradient in gradients:
        bad = view.scratch(gradient.shape)
        xp.multiply(gradient, 0, out=bad)  # an infinity must not pass for the limit: who checks would never see it
        xp.minimum(gradient, limit, out=gradient)
        xp.maximum(gradient, -limit, out=gradient)
        xp.add(gradient, bad, out=gradient)


def clip_norm(view: View, gradients: Sequence[Array], limit: float) -> None:
    """Shrink all gradients by limit / norm where the L2 norm of all their numbers is above `limit`, as Caffe does.

    Others keep every bit. So do those whose norm is not finite: who looks for such a number finds it where it is.
    """
    xp = view.xp
    if gradients:
        norm = xp.sqrt(sum(xp.multiply(xp.dot(one, one), 1, dtype="float64") for one in gradients))
        factor = xp.where(xp.isfinite(norm), limit / xp.fmax(norm, limit), 1.0)
        for gradient in gradients:
            xp.multiply(gradient, factor, out=gradient, dtype=gradient.dtype)
