"""Transpose: the axes of a blob in another order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from nacre import Array, ConfigError, Layer, LayerState, Names, Shape, as_many_as, at_least, default, non_zero


class TransposeLayer(Layer, can_do_bp=True):
    """Put the axes after the batch into the order of `axes`; by default into the reverse order.

    Axis i of the top is axis `axes[i - 1]` of the bottom: y[n, i, j, k] = x[n, k, i, j] for axes = [2, 3, 1], which
    makes (images, rows, columns, channels) of (images, channels, rows, columns). Axes are counted from 1, the first
    after the batch, or from the end: -1 is the last. One top for each bottom, of its type. As NumPy's `transpose` and
    PyTorch's `permute`, except that the batch stays where it is.

    Example:
        [[layer]]
        type = "Transpose"
        bottoms = ["images"]  # (8, 3, 32, 24)
        tops = ["pixels"]  # (8, 32, 24, 3)
        axes = [2, 3, 1]
    """

    shown = ("axes",)

    bottoms: Annotated[Names, at_least(1), "the blobs"]
    tops: Annotated[Names, as_many_as("bottoms"), "the blobs with their axes in another order"]
    axes: Annotated[Shape, non_zero, "the axes of the bottom in their new order, all but the batch axis"] = default(())

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if len(set(self.axes)) < len(self.axes):
            yield f"axes={self.axes}, but each axis must be named once"


class TransposeState(LayerState, of=TransposeLayer, reads="", capturable=True):
    """`TransposeLayer` on any backend."""

    def __init__(self, layer: TransposeLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.orders = [order_of(layer, one.shape) for one in inputs]
        for one, order in zip(inputs, self.orders, strict=True):
            self.blobs.append(backend.blob([one.shape[axis] for axis in order], one.dtype))

    def forward(self, inputs: list[Array]) -> None:
        for x, y, order in zip(inputs, self.blobs, self.orders, strict=True):
            self.backend.xp.copyto(y, x.transpose(order))

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        for dy, dx, order in zip(self.blobs_diff, diffs, self.orders, strict=True):
            if dx is not None:
                self.backend.xp.copyto(dx.transpose(order), dy)


def order_of(layer: TransposeLayer, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes of a bottom in their new order, with the batch axis, counted from the front."""
    count = len(shape)
    order = tuple(axis + count if axis < 0 else axis for axis in layer.axes) or tuple(range(1, count))[::-1]
    if sorted(order) != list(range(1, count)):
        raise ConfigError(
            f"{layer.name}: axes={layer.axes}, but a bottom of shape {shape} has the axes 1 to {count - 1}",
            "name each of them once; the batch axis stays where it is",
        )
    return (0, *order)
