"""Attention: every position of a sequence looks at others, with several heads; a container."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from nacre import (
    Constraint,
    Initializer,
    Layer,
    Maybe,
    Names,
    Regularizer,
    at_least,
    default,
    exactly,
    non_negative,
    positive,
)

from .dot_product import DotProductAttentionLayer


class AttentionLayer(Layer):
    """y = out(softmax(q kᵀ / √d) v), for each of `heads` heads of d = features / heads numbers.

    Bottoms are (images, positions, features). The first has the queries; keys and values are those of the first too,
    or of the second, or of the second and the third. With `masked` there is one bottom more. See `DotProductAttention`
    for the mask, and for `causal`, `rotary` and `carry`.

    The layers are an InnerProduct for each bottom, then `look`, a DotProductAttention, and `out`, an InnerProduct. The
    first are `qkv` for one bottom, `q` and `kv` for two, `q`, `k` and `v` for three; the weight of `qkv` is the
    `in_proj_weight` of PyTorch's `MultiheadAttention`. Vaswani et al., "Attention is all you need", 2017.

    Example:
        [[layer]]
        type = "Attention"
        bottoms = ["x"]  # (8, 20, 64)
        tops = ["y"]  # (8, 20, 64)
        features = 64
        heads = 4
        causal = true
    """

    bottoms: Annotated[Names, at_least(1), "queries, keys and values; one blob stands for those that are left out"]
    tops: Annotated[Names, exactly(1), "what the positions see"]
    features: Annotated[int, positive, "of a position"]
    heads: Annotated[int, positive, "number of heads"]
    causal: Annotated[bool, "no position looks at later ones"] = False
    masked: Annotated[bool, "the last bottom is a mask"] = False
    rotary: Annotated[bool, "turn queries and keys by their positions"] = False
    carry: Annotated[int, non_negative, "positions of earlier batches that are looked at in phase predict"] = 0
    bias: Annotated[bool, "whether there are biases"] = True
    weight_init: Annotated[Initializer, "first values of the weights"] = default("Xavier")
    weight_regu: Annotated[Maybe[Regularizer], "regulariser of the weights"] = default(None)
    weight_cons: Annotated[Maybe[Constraint], "constraint of the weights"] = default(None)
    weight_lr: Annotated[float, non_negative, "multiplies the learning rate of the weights"] = 1.0
    bias_init: Annotated[Initializer, "first values of the biases"] = default("Constant")

    def complaints(self) -> Iterator[str]:
        """Check the number of bottoms, and that heads divide the features."""
        yield from super().complaints()
        if not 1 <= len(self.bottoms) - self.masked <= 3:
            most = "4 at most, of which the last is the mask" if self.masked else "3 at most"
            yield f"bottoms={list(self.bottoms)}, but there must be {2 if self.masked else 1} or more, {most}"
        if self.features % self.heads:
            yield f"heads={self.heads}, but features={self.features} cannot be divided by it"

    def expand(self) -> Sequence[Layer]:
        """Return the layers."""
        count = len(self.bottoms) - self.masked
        sources, mask = self.bottoms[:count], self.bottoms[count:]
        names = {1: ["qkv"], 2: ["q", "kv"], 3: ["q", "k", "v"]}[count]
        *parts, mean = self.inner_names(*names, "mean")
        made = [
            self._product(name, source, part, len(name) * self.features)
            for name, source, part in zip(names, sources, parts, strict=True)
        ]
        shared: Any = {name: getattr(self, name) for name in ("heads", "causal", "masked", "rotary", "carry")}
        look = DotProductAttentionLayer(name="look", bottoms=[*parts, *mask], tops=mean, **shared)
        return [*made, look, self._product("out", mean, self.tops[0], self.features)]

    def _product(self, name: str, bottom: str, top: str, outputs: int) -> Layer:
        from nacre_layers import InnerProductLayer

        fields: Any = {
            name: getattr(self, name) for name in ("bias", "weight_init", "weight_regu", "weight_cons", "weight_lr")
        }
        fields["bias_init"] = self.bias_init
        return InnerProductLayer(name=name, bottoms=bottom, tops=top, output_dim=outputs, axis=-1, **fields)
