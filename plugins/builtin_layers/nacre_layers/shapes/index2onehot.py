"""Index2Onehot: class numbers as vectors with a single 1."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, ClassCount, ConfigError, Layer, LayerState, Names, as_many_as, at_least, non_zero, positive

from ..axes import axis_of
from ..losses.classes import Classes


class Index2OnehotLayer(Layer):
    """y[n, c] = 1 where c is the class number x[n], and 0 elsewhere; classes are counted from 0.

    Bottoms are labels of any type, with `axis` of length 1, or (N,) for (N, 1); tops have `n_class` along `axis`, and
    are of the net's type. Rows that are not real are all 0. Raises DataError if a label is not a class. There is no
    gradient. After Mocha.jl's `Index2OnehotLayer`.

    Example:
        [[layer]]
        type = "Index2Onehot"
        bottoms = ["label"]  # (8,)
        tops = ["onehot"]  # (8, 10)
        n_class = 10
    """

    bottoms: Annotated[Names, at_least(1), "the class numbers"]
    tops: Annotated[Names, as_many_as("bottoms"), "the vectors"]
    axis: Annotated[int, non_zero, "axis of the classes"] = 1
    n_class: Annotated[ClassCount, positive, "number of classes, or the blob of classes"]


class Index2OnehotState(LayerState, of=Index2OnehotLayer, reads=""):
    """`Index2OnehotLayer` on any backend; tops are read as (before the axis, classes, after it)."""

    def __init__(self, layer: Index2OnehotLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.classes: list[Classes] = []
        for name, one in zip(layer.bottoms, inputs, strict=True):
            labels = (*one.shape, 1) if len(one.shape) == 1 else one.shape
            axis = axis_of(layer, labels)
            if labels[axis] != 1:
                raise ConfigError(
                    f"{layer.name}: bottom '{name}' of shape {one.shape} must have the length 1 along axis {axis}"
                )
            shape = (*labels[:axis], layer.n_class, *labels[axis + 1 :])
            self.classes.append(Classes(layer, backend, shape, labels))
            self.blobs.append(backend.blob(shape))

    def ready(self) -> None:
        self.numbers = self.backend.empty((1, self.layer.n_class, 1), "int64")
        self.numbers[0, :, 0] = self.backend.xp.arange(self.layer.n_class)

    def forward(self, inputs: list[Array]) -> None:
        for x, y, classes in zip(inputs, self.blobs, self.classes, strict=True):
            behind = classes.shape[2]
            y = y.reshape(classes.shape)
            label = classes.labels(x, classes.count).reshape(-1, 1, behind)
            self.backend.xp.equal(label, self.numbers, out=y[: label.shape[0]])
            y[label.shape[0] :] = 0

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Do nothing: a class number has no gradient."""
