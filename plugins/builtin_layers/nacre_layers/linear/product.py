"""The common code of inner products: the product of rows and a matrix, and its gradients."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from nacre import Array, ConfigError, LayerState, Parameter

from ..axes import check_whole

if TYPE_CHECKING:
    from .inner_product import InnerProductLayer


class ProductState(LayerState, reads="inputs"):
    """The common state of both layers."""

    axis = 1
    batch = 0

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        axes = [self._place(name, one.shape) for name, one in zip(layer.bottoms, inputs, strict=True)]
        self.features = prod(inputs[0].shape[axes[0] :])
        for name, one, axis in zip(layer.bottoms, inputs, axes, strict=True):
            if (features := prod(one.shape[axis:])) != self.features:
                raise ConfigError(
                    f"{layer.name}: bottom '{name}' has {features} features per image, "
                    f"but '{layer.bottoms[0]}' has {self.features}"
                )
        self.parameters = [self.declare_weight()]
        if layer.bias:
            self.parameters.append(Parameter.of(layer, "bias", (layer.output_dim,)))
        tops = [(*one.shape[:axis], layer.output_dim) for one, axis in zip(inputs, axes, strict=True)]
        self.blobs = [backend.blob(shape) for shape in tops]

    def _place(self, name: str, shape: tuple[int, ...]) -> int:
        """Return the first axis of the features of a bottom."""
        axis = self.axis if self.axis >= 0 else len(shape) + self.axis
        if axis < (self.axis != 0) or axis > max(1, len(shape) - 1):
            raise ConfigError(
                f"{self.layer.name}: axis={self.axis}, but bottom '{name}' of shape {tuple(shape)} has only the axes "
                f"1 to {len(shape) - 1} after the batch"
            )
        return axis

    def declare_weight(self) -> Parameter:
        """Return the parameter."""
        raise NotImplementedError

    def weight(self) -> Array:
        """Return the weight as (output_dim, features)."""
        return self.parameters[0].blob

    def multiply(self, dy: Array, x: Array, gradient: Array) -> None:
        """Write the gradient of the weight."""
        self.backend.xp.matmul(dy.T, x, out=gradient)

    def _rows(self, x: Array, dy: Array) -> tuple[Array, Array]:
        """Return a bottom and a top, or their gradients, as matrices."""
        return x.reshape(-1, self.features), dy.reshape(-1, self.layer.output_dim)

    def forward(self, inputs: list[Array]) -> None:
        if self.batch:
            check_whole(self.layer, self.backend, self.batch)
        xp, weight = self.backend.xp, self.weight()
        for bottom, top in zip(inputs, self.blobs, strict=True):
            x, y = self._rows(bottom, top)
            xp.matmul(x, weight.T, out=y)
            if self.layer.bias:
                xp.add(y, self.parameters[1].blob, out=y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp = self.backend.xp
        for number, (bottom, bottom_diff, top_diff) in enumerate(zip(inputs, diffs, self.blobs_diff, strict=True)):
            x, dy = self._rows(bottom, top_diff)
            self._gradient(0, number, lambda out, x=x, dy=dy: self.multiply(dy, x, out))
            if self.layer.bias:
                self._gradient(1, number, lambda out, dy=dy: xp.sum(dy, axis=0, out=out))
            if bottom_diff is not None:
                xp.matmul(dy, self.weight(), out=bottom_diff.reshape(-1, self.features))

    def _gradient(self, index: int, number: int, compute: Any) -> None:
        """Write the gradient from the first bottom, and add those from the others."""
        total = self.parameters[index].gradient
        if total is None:
            return
        if number == 0:
            compute(total)
            return
        part = self.backend.scratch(total.shape)
        compute(part)
        self.backend.xp.add(total, part, out=total)


def not_plain(layer: InnerProductLayer, inputs: list[Any]) -> str | None:
    """Return why a layer is not a product of (images, features) and (output_dim, features), or None."""
    if layer.transpose:
        return "serves only weights of (output_dim, features)"
    plain = layer.axis == 1 or (layer.axis < 0 and layer.axis + len(inputs[0].shape) == 1)
    return None if plain else "serves only tops of two axes: axis=1"
