"""CropLike: cut a blob to the size of another one."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import ConfigError, Layer, Names, Shape, default, exactly, non_negative, non_zero, spread

from ..axes import axis_of
from .crop import CropState


class CropLikeLayer(Layer, can_do_bp=True):
    """Cut the first bottom to the lengths of the second one, along `axis` and all axes after it.

    y = x[:, :, offset : offset + rows, offset : offset + columns] for images and `axis` 2; `offset` is one number for
    all these axes, or one for each. Only the shape of the second bottom is used. Raises ConfigError if the first is too
    small. After Caffe's `Crop`.

    Example:
        [[layer]]
        type = "CropLike"
        bottoms = ["upsampled", "data"]  # (8, 21, 40, 40), (8, 3, 32, 32)
        tops = ["score"]  # (8, 21, 32, 32)
        offset = 4
    """

    bottoms: Annotated[Names, exactly(2), "the blob to cut, and the blob with the lengths"]
    tops: Annotated[Names, exactly(1), "the part"]
    axis: Annotated[int, non_zero, "first of the axes to cut"] = 2
    offset: Annotated[Shape, non_negative, "begin of the part along these axes"] = default(0)

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> CropState:
        shape, like = inputs[0].shape, inputs[1].shape
        axis = axis_of(self, shape)
        if len(like) != len(shape):
            raise ConfigError(
                f"{self.name}: bottom '{self.bottoms[1]}' of shape {like} must have as many axes as "
                f"'{self.bottoms[0]}' of shape {shape}"
            )
        offsets = spread(self.offset, len(shape) - axis, f"{self.name}: offset")
        for index, offset in enumerate(offsets, axis):
            if offset + like[index] > shape[index]:
                raise ConfigError(
                    f"{self.name}: a part of shape {like} at offset={self.offset} does not fit into "
                    f"'{self.bottoms[0]}' of shape {shape}, along axis {index}"
                )
        parts = (slice(offset, offset + like[index]) for index, offset in enumerate(offsets, axis))
        return CropState(self, backend, inputs, diffs, [(*(slice(None),) * axis, *parts)])
