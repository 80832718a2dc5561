"""Argmax: the indices of the largest numbers."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, ConfigError, Layer, LayerState, Names, as_many_as, at_least, non_zero, positive

from ..axes import axis_of, split_shape


class ArgmaxLayer(Layer):
    """The indices of the `top_k` largest numbers along `axis`, counted from 0, the largest first; or their `values`.

    y[n, k] = c, where x[n, c] is the largest number of row n after k larger ones; with `values` y[n, k] = x[n, c].

    One top for each bottom, of its shape except `axis`, whose length becomes `top_k`: whole numbers (int64), or with
    `values` numbers of the bottom's type. Of equal numbers the first wins. There is no gradient. After Mocha.jl's
    `ArgmaxLayer` and Caffe's `ArgMax`, whose `out_max_val` is `values`, and which takes the last of equal ones.

    Example:
        [[layer]]
        type = "Argmax"
        bottoms = ["prob"]  # (8, 10)
        tops = ["class"]  # (8, 1)
    """

    bottoms: Annotated[Names, at_least(1), "the blobs to search"]
    tops: Annotated[Names, as_many_as("bottoms"), "the indices, or the values"]
    axis: Annotated[int, non_zero, "axis along which to compare numbers"] = 1
    top_k: Annotated[int, positive, "number of largest ones"] = 1
    values: Annotated[bool, "return the numbers instead of their indices"] = False


class ArgmaxState(LayerState, of=ArgmaxLayer, reads=""):
    """`ArgmaxLayer` on any backend; bottoms are read as (before the axis, axis, behind it)."""

    def __init__(self, layer: ArgmaxLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.shapes: list[tuple[int, int, int]] = []
        for one in inputs:
            axis = axis_of(layer, one.shape)
            if layer.top_k > one.shape[axis]:
                raise ConfigError(
                    f"{layer.name}: top_k={layer.top_k}, but axis {axis} has the length {one.shape[axis]}"
                )
            self.shapes.append(split_shape(one.shape, axis))
            shape = (*one.shape[:axis], layer.top_k, *one.shape[axis + 1 :])
            self.blobs.append(backend.blob(shape, one.dtype if layer.values else "int64"))

    @property
    def capturable(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] (it is read only)
        """Whether a device may record it: what sorts may wait."""
        return self.layer.top_k == 1

    def forward(self, inputs: list[Array]) -> None:
        xp = self.backend.xp
        for x, y, shape in zip(inputs, self.blobs, self.shapes, strict=True):
            before, length, behind = shape
            x, y = x.reshape(shape), y.reshape(before, self.layer.top_k, behind)
            if self.layer.top_k > 1:
                # sorted from the back, so that of equal numbers the first comes last, and a NaN behind all others
                rising = xp.argsort(x[:, ::-1], axis=1, kind="stable")[:, -self.layer.top_k :]
                indices = length - 1 - rising[:, ::-1]
                xp.copyto(y, xp.take_along_axis(x, indices, axis=1) if self.layer.values else indices)
            elif self.layer.values:
                xp.max(x, axis=1, keepdims=True, out=y)
            else:
                xp.argmax(x, axis=1, out=y[:, 0])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Do nothing: an index has no gradient."""
