"""StopGradient: a blob from which no gradient comes back."""

from __future__ import annotations

from typing import Annotated

from nacre import Layer, Names, as_many_as, at_least

from .passthrough import AliasState


class StopGradientLayer(Layer):
    """y = x, and no gradient comes back: what is above learns, and teaches nothing to what is below.

    One top for each bottom, without a copy. A blob may go to this layer beside others without a `Split`. What is below
    must learn from another loss, be frozen, or have no parameters. After Caffe's `propagate_down: false`; PyTorch's
    `detach`.

    Example:
        [[layer]]
        type = "StopGradient"
        bottoms = ["conv5"]  # (8, 256, 6, 6)
        tops = ["features"]  # (8, 256, 6, 6)
    """

    bottoms: Annotated[Names, at_least(1), "what is passed on"]
    tops: Annotated[Names, as_many_as("bottoms"), "the same blobs"]


class StopGradientState(AliasState, of=StopGradientLayer, reads="", elementwise=True):
    """`StopGradientLayer` on any backend."""
