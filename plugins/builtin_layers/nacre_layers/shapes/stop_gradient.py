"""StopGradient: passes a blob on, but no gradient back."""

from __future__ import annotations

from typing import Annotated

from nacre import Names, as_many_as, at_least

from ..cutting import OnNumbers
from .passthrough import AliasState


class StopGradientLayer(OnNumbers):
    """y = x, and no gradient goes back: layers after it learn, and layers before it learn nothing from them.

    One top for each bottom, without a copy. A blob may go to this layer and to others without a `Split`. Layers before
    it must learn from another loss, be frozen, or have no parameters. After Caffe's `propagate_down: false`; PyTorch's
    `detach`.

    Example:
        [[layer]]
        type = "StopGradient"
        bottoms = ["conv5"]  # (8, 256, 6, 6)
        tops = ["features"]  # (8, 256, 6, 6)
    """

    bottoms: Annotated[Names, at_least(1), "the blobs to pass on"]
    tops: Annotated[Names, as_many_as("bottoms"), "the same blobs"]


class StopGradientState(AliasState, of=StopGradientLayer, reads="", elementwise=True, capturable=True):
    """`StopGradientLayer` on any backend."""
