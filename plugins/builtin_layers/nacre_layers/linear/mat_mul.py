"""MatMul: the product of the matrices in two blobs."""

from __future__ import annotations

from math import prod
from typing import Annotated, Any

from nacre import Array, ConfigError, Layer, LayerState, Names, exactly


class MatMulLayer(Layer, can_do_bp=True):
    """y = a b, the products of matrices: one for each record, and for each index of the axes before the last two.

    y[n, ..., i, j] = Σ_k a[n, ..., i, k] b[n, ..., k, j]. The bottoms a and b are (records, ..., rows, columns), with
    the same axes before the last two; both have a gradient. With `transpose_a` or `transpose_b` the matrices of a
    bottom are transposed first, so that the scores of attention, a row for each query, are those of queries and keys
    with `transpose_b`. As PyTorch's `matmul` of blobs of three or more axes; a product with a learned matrix is an
    InnerProduct.

    Example:
        [[layer]]
        type = "MatMul"
        bottoms = ["queries", "keys"]  # (8, 4, 10, 16), (8, 4, 12, 16)
        tops = ["scores"]  # (8, 4, 10, 12)
        transpose_b = true
    """

    bottoms: Annotated[Names, exactly(2), "the matrices a, and the matrices b"]
    tops: Annotated[Names, exactly(1), "the products"]
    transpose_a: Annotated[bool, "transpose the matrices of the first bottom"] = False
    transpose_b: Annotated[bool, "transpose the matrices of the second bottom"] = False

    def multiplications(self, bottoms: Any, tops: Any, parameters: Any) -> int:
        return prod(tops[0]) * bottoms[0][-2 if self.transpose_a else -1]


class MatMulState(LayerState, of=MatMulLayer, reads="inputs", capturable=True):
    """`MatMulLayer` on any backend."""

    def __init__(self, layer: MatMulLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        shapes = [tuple(one.shape) for one in inputs]
        for name, shape in zip(layer.bottoms, shapes, strict=True):
            if len(shape) < 3:
                raise ConfigError(
                    f"{layer.name}: bottom '{name}' of shape {shape} must be (records, ..., rows, columns)",
                    "to multiply by a learned matrix use InnerProduct; to insert an axis of length 1 use Reshape",
                )
        (rows, inner), (other, columns) = (
            shape[:-3:-1] if transposed else shape[-2:]
            for shape, transposed in zip(shapes, (layer.transpose_a, layer.transpose_b), strict=True)
        )
        if shapes[0][:-2] != shapes[1][:-2] or inner != other:
            turned = [name for name in ("transpose_a", "transpose_b") if getattr(layer, name)]
            with_them = f" with {' and '.join(turned)}" if turned else ""
            raise ConfigError(
                f"{layer.name}: bottom '{layer.bottoms[1]}' of shape {shapes[1]} does not fit "
                f"'{layer.bottoms[0]}' of shape {shapes[0]}{with_them}: the axes before the last two must be equal, "
                f"and matrices of {rows} x {inner} and {other} x {columns} need inner sizes that agree",
                "use transpose_a or transpose_b, or add a Transpose or Reshape before it",
            )
        self.blobs = [backend.blob((*shapes[0][:-2], rows, columns))]

    def forward(self, inputs: list[Array]) -> None:
        a, b = self._matrices(inputs)
        self.backend.xp.matmul(a, b, out=self.blobs[0])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        dy, (a, b), (da, db) = self.blobs_diff[0], self._matrices(inputs), self._matrices(diffs)
        if da is not None:
            self.backend.xp.matmul(dy, _transposed(b), out=da)
        if db is not None:
            self.backend.xp.matmul(_transposed(a), dy, out=db)

    def _matrices(self, arrays: list[Any]) -> list[Any]:
        """Return the arrays that belong to a and b, transposed where the layer says so."""
        transposed = (self.layer.transpose_a, self.layer.transpose_b)
        return [
            _transposed(one) if turned and one is not None else one
            for one, turned in zip(arrays, transposed, strict=True)
        ]


def _transposed(array: Array) -> Array:
    """Return an array with its last two axes in reverse order."""
    count = array.ndim
    return array.transpose((*range(count - 2), count - 1, count - 2))
