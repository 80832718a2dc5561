"""Attention: every position of a sequence looks at others, with several heads."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Annotated, Any

import numpy as np

from nacre import (
    Array,
    ConfigError,
    Constraint,
    Initializer,
    Layer,
    LayerState,
    Maybe,
    Names,
    Parameter,
    Regularizer,
    at_least,
    default,
    exactly,
    non_negative,
    positive,
)

from .rotary import Rotation


class AttentionLayer(Layer, has_param=True, can_do_bp=True):
    """y = out(softmax(q kᵀ / √d) v), for each of `heads` heads of d = features / heads numbers.

    Bottoms are (images, positions, features). The first has the queries; keys and values are those of the first too,
    or of the second, or of the second and the third. With `masked` there is one bottom more: a mask (images, positions
    of the keys), or (images, positions, positions of the keys), whose zeros are not looked at. With `causal` position i
    looks at those up to i alone. A position that may look at nothing gets 0 from its heads. `rotary` turns queries and
    keys by angles that grow with their positions.

    `weight` is (3 · features, features): the matrices of queries, keys and values, and `out_weight` (features,
    features); `bias` and `out_bias` are (3 · features) and (features), as in PyTorch's `MultiheadAttention`. Vaswani et
    al., "Attention is all you need", 2017; Su et al., "RoFormer", 2021.

    Example:
        [[layer]]
        type = "Attention"
        bottoms = ["x"]  # (8, 20, 64)
        tops = ["y"]  # (8, 20, 64)
        heads = 4
        causal = true
    """

    shown = ("heads", "causal")

    bottoms: Annotated[Names, at_least(1), "queries, keys and values; one blob stands for those that are left out"]
    tops: Annotated[Names, exactly(1), "what the positions see"]
    heads: Annotated[int, positive, "number of heads"]
    causal: Annotated[bool, "no position looks at later ones"] = False
    masked: Annotated[bool, "the last bottom is a mask"] = False
    rotary: Annotated[bool, "turn queries and keys by their positions"] = False
    bias: Annotated[bool, "whether there are biases"] = True
    param_key: Annotated[str, "layers with the same key share their parameters"] = ""
    weight_init: Annotated[Initializer, "first values of the weights"] = default("Xavier")
    weight_regu: Annotated[Maybe[Regularizer], "regulariser of the weights"] = default(None)
    weight_cons: Annotated[Maybe[Constraint], "constraint of the weights"] = default(None)
    weight_lr: Annotated[float, non_negative, "multiplies the learning rate of the weights"] = 1.0
    bias_init: Annotated[Initializer, "first values of the biases"] = default("Constant")

    def complaints(self) -> Iterator[str]:
        """Check the number of bottoms."""
        yield from super().complaints()
        if not 1 <= len(self.bottoms) - self.masked <= 3:
            most = "4 at most, of which the last is the mask" if self.masked else "3 at most"
            yield f"bottoms={list(self.bottoms)}, but there must be {2 if self.masked else 1} or more, {most}"

    def multiplications(self, bottoms: Any, tops: Any, parameters: Any) -> int:
        """Return those of the four products with weights, and of the two with each other."""
        shapes = sources(self, list(bottoms))
        (images, rows, size), keys = shapes[0], shapes[1][1]
        return int(images * size * (2 * rows * size + 2 * keys * size + 2 * rows * keys))


class AttentionState(LayerState, of=AttentionLayer, reads="inputs"):
    """`AttentionLayer` on any backend; what the heads look at is kept for backward."""

    def __init__(self, layer: AttentionLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.shapes = sources(layer, [tuple(one.shape) for one in inputs])
        images, rows, size = self.shapes[0]
        self.look = (images, layer.heads, rows, self.shapes[1][1])
        if layer.masked:
            check_mask(layer, tuple(inputs[-1].shape), self.look)
        weight = {what: getattr(layer, f"weight_{what}") for what in ("init", "regu", "cons", "lr")}
        self.weight = Parameter("weight", (3 * size, size), **weight)
        self.out_weight = Parameter("out_weight", (size, size), **weight)
        self.biases = [Parameter("bias", (3 * size,), init=layer.bias_init)] if layer.bias else []
        self.biases += [Parameter("out_bias", (size,), init=layer.bias_init)] if layer.bias else []
        self.parameters = [self.weight, self.out_weight, *self.biases]
        self.blobs = [backend.blob((images, rows, size))]
        self.scale = 1 / sqrt(size // layer.heads)

    def ready(self) -> None:
        """Make room for queries, keys and values, and for what is looked at."""
        backend, (images, heads, rows, keys) = self.backend, self.look
        size = self.shapes[0][2]
        self.parts = [backend.empty(shape) for shape in self.shapes]
        self.dparts = [backend.empty(shape) for shape in self.shapes]
        self.seen = backend.empty(self.look)
        self.context = backend.empty((images, rows, size))
        self.later = backend.constant(np.where(np.arange(rows)[:, None] < np.arange(keys), -np.inf, 0.0))
        self.rotation = Rotation(backend, max(rows, keys), size // heads) if self.layer.rotary else None

    def forward(self, inputs: list[Array]) -> None:
        """Compute queries, keys and values, what each query looks at, and the top."""
        xp, size = self.backend.xp, self.shapes[0][2]
        for number, (x, part) in enumerate(zip(self._sources(inputs), self.parts, strict=True)):
            place = slice(number * size, (number + 1) * size)
            xp.matmul(x.reshape(-1, size), self.weight.blob[place].T, out=part.reshape(-1, size))
            if self.biases:
                xp.add(part, self.biases[0].blob[place], out=part)
            if self.rotation is not None and number < 2:
                self.rotation.turn(self._heads(part))
        q, k, v = (self._heads(part) for part in self.parts)
        xp.multiply(q, self.scale, out=q)
        xp.matmul(q, k.swapaxes(2, 3), out=self.seen)
        self._softmax(inputs)
        xp.matmul(self.seen, v, out=self._heads(self.context))
        y = self.blobs[0].reshape(-1, size)
        xp.matmul(self.context.reshape(-1, size), self.out_weight.blob.T, out=y)
        if self.biases:
            xp.add(y, self.biases[1].blob, out=y)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Go the same way back."""
        xp, size = self.backend.xp, self.shapes[0][2]
        dy = self.blobs_diff[0].reshape(-1, size)
        self._product(self.out_weight.gradient, dy, self.context)
        if self.biases and self.biases[1].gradient is not None:
            xp.sum(dy, axis=0, out=self.biases[1].gradient)
        dcontext = self.backend.scratch(self.context.shape)
        xp.matmul(dy, self.out_weight.blob, out=dcontext.reshape(-1, size))
        self._look_backward(self._heads(dcontext))
        written: set[int] = set()
        bottoms = source_numbers(len(self.layer.bottoms) - self.layer.masked)
        for number, (bottom, dpart) in enumerate(zip(bottoms, self.dparts, strict=True)):
            place = slice(number * size, (number + 1) * size)
            if self.weight.gradient is not None:
                self._product(self.weight.gradient[place], dpart, inputs[bottom])
            if self.biases and self.biases[0].gradient is not None:
                xp.sum(dpart, axis=(0, 1), out=self.biases[0].gradient[place])
            if (dx := diffs[bottom]) is None:
                continue
            part = self.backend.scratch(dx.shape, slot=1) if bottom in written else dx
            xp.matmul(dpart.reshape(-1, size), self.weight.blob[place], out=part.reshape(-1, size))
            if bottom in written:
                xp.add(dx, part, out=dx)
            written.add(bottom)

    def _softmax(self, inputs: list[Array]) -> None:
        """Make weights of the scores in `seen`: those of a query add up to 1, or to 0 if it may look at nothing."""
        xp, seen = self.backend.xp, self.seen
        if self.layer.causal:
            xp.add(seen, self.later, out=seen)
        if self.layer.masked:
            mask = inputs[-1]
            shut = mask[:, None, :, :] if mask.ndim == 3 else mask[:, None, None, :]
            xp.copyto(seen, -np.inf, where=shut == 0)
        most = xp.maximum(xp.max(seen, axis=3, keepdims=True), np.finfo(str(seen.dtype)).min)
        xp.subtract(seen, most, out=seen)
        xp.exp(seen, out=seen)
        total = xp.sum(seen, axis=3, keepdims=True)
        xp.divide(seen, xp.maximum(total, np.finfo(str(seen.dtype)).tiny), out=seen)

    def _look_backward(self, dcontext: Array) -> None:
        """Write the gradients of queries, keys and values, as they were before they were turned."""
        xp, (q, k, v) = self.backend.xp, (self._heads(part) for part in self.parts)
        dq, dk, dv = (self._heads(part) for part in self.dparts)
        xp.matmul(self.seen.swapaxes(2, 3), dcontext, out=dv)
        dseen = self.backend.scratch(self.look, slot=2)
        xp.matmul(dcontext, v.swapaxes(2, 3), out=dseen)
        product = self.backend.scratch(self.look, slot=3)
        xp.multiply(dseen, self.seen, out=product)
        xp.subtract(dseen, xp.sum(product, axis=3, keepdims=True), out=dseen)
        xp.multiply(dseen, self.seen, out=dseen)
        xp.matmul(dseen, k, out=dq)
        xp.multiply(dq, self.scale, out=dq)
        xp.matmul(dseen.swapaxes(2, 3), q, out=dk)
        if self.rotation is not None:
            self.rotation.turn(dq, back=True)
            self.rotation.turn(dk, back=True)

    def _product(self, gradient: Array | None, dy: Array, x: Array) -> None:
        """Write the gradient of a weight."""
        if gradient is not None:
            size = self.shapes[0][2]
            self.backend.xp.matmul(dy.reshape(-1, size).T, x.reshape(-1, size), out=gradient)

    def _heads(self, part: Array) -> Array:
        """Read (images, positions, features) as (images, heads, positions, features of a head)."""
        images, rows, size = part.shape
        return part.reshape(images, rows, self.layer.heads, size // self.layer.heads).swapaxes(1, 2)

    def _sources(self, inputs: list[Array]) -> list[Array]:
        return [inputs[one] for one in source_numbers(len(inputs) - self.layer.masked)]


def source_numbers(count: int) -> list[int]:
    """Return which of so many bottoms have the queries, the keys and the values."""
    return [0, min(1, count - 1), count - 1]


def sources(layer: AttentionLayer, shapes: list[Any]) -> list[Any]:
    """Return the shapes of what queries, keys and values are made of.

    Raises:
        ConfigError: they do not fit each other, or the heads.
    """
    chosen = [shapes[one] for one in source_numbers(len(shapes) - layer.masked)]
    for name, shape in zip(layer.bottoms, shapes[: len(shapes) - layer.masked], strict=False):
        if len(shape) != 3 or shape[2] != chosen[0][2] or shape[0] != chosen[0][0]:
            raise ConfigError(
                f"{layer.name}: bottom '{name}' has the shape {shape}, but must be (images, positions, features) with "
                f"images and features as '{layer.bottoms[0]}' of shape {chosen[0]} has them"
            )
    if chosen[1][1] != chosen[2][1]:
        raise ConfigError(f"{layer.name}: there are {chosen[1][1]} keys, but {chosen[2][1]} values")
    if chosen[0][2] % layer.heads:
        raise ConfigError(f"{layer.name}: heads={layer.heads}, but {chosen[0][2]} features cannot be divided by it")
    if layer.rotary and chosen[0][2] // layer.heads % 2:
        raise ConfigError(
            f"{layer.name}: rotary=True, but a head has {chosen[0][2] // layer.heads} features, not pairs"
        )
    return chosen


def check_mask(layer: AttentionLayer, shape: tuple[int, ...], look: tuple[int, ...]) -> None:
    """Raise ConfigError if a mask does not fit."""
    images, _, rows, keys = look
    if shape not in ((images, keys), (images, rows, keys)):
        raise ConfigError(
            f"{layer.name}: the mask '{layer.bottoms[-1]}' has the shape {shape}, but must have {(images, keys)} or "
            f"{(images, rows, keys)}"
        )
