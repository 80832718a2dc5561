"""RandomMask: random elements become 0, and the others do not change."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from nacre import Names, at_least, fraction

from ..cutting import OnNumbers
from .dropout import DropoutState


class RandomMaskLayer(OnNumbers, can_do_bp=True, is_inplace=True):
    """In phase `train` each element of every bottom becomes 0 with probability `ratio`; the others do not change.

    y = x · [u ≥ ratio], with a uniform u for each element; in all other phases y = x.

    The bottoms, of any shapes, are changed in place, each with a mask of its own; a blob that is also needed without
    the mask is split first. The noise of a denoising auto-encoder. After Mocha.jl's `RandomMaskLayer`.

    Example:
        [[layer]]
        type = "RandomMask"
        bottoms = ["noisy"]  # (8, 784)
        ratio = 0.3
    """

    auto_scale: ClassVar[bool] = False
    bottoms: Annotated[Names, at_least(1), "the blobs, changed in place"]
    ratio: Annotated[float, fraction, "probability to become 0"] = 0.5

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> DropoutState:
        return DropoutState(self, backend, inputs, diffs)
