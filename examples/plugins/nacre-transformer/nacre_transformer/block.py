"""TransformerBlock: attention, then two layers for each position, each added to what it read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from nacre import Layer, Names, Neuron, at_least, default, exactly, fraction, non_negative, positive

from .attention import AttentionLayer


class TransformerBlockLayer(Layer):
    """h = x + attention(norm(x)); y = h + down(f(up(norm(h)))).

    Bottoms are (images, positions, features), and with `masked` a mask; see `Attention`. `ratio` is that of a Dropout
    behind each of both parts. The layers are `norm1`, `attention`, `norm2`, `up` and `down`. With `norm` "LayerNorm" it
    is PyTorch's `TransformerEncoderLayer` with norm_first=True. Xiong et al., "On layer normalization in the
    transformer architecture", 2020.

    Example:
        [[layer]]
        type = "TransformerBlock"
        bottoms = ["x"]  # (8, 20, 64)
        tops = ["y"]  # (8, 20, 64)
        features = 64
        heads = 4
        hidden = 256
        causal = true
    """

    bottoms: Annotated[Names, at_least(1), "the sequences, and with `masked` a mask"]
    tops: Annotated[Names, exactly(1), "of the same shape"]
    features: Annotated[int, positive, "of a position"]
    heads: Annotated[int, positive, "number of heads"]
    hidden: Annotated[int, positive, "numbers between both layers of a position"]
    causal: Annotated[bool, "no position looks at later ones"] = False
    masked: Annotated[bool, "the last bottom is a mask"] = False
    rotary: Annotated[bool, "turn queries and keys by their positions"] = False
    carry: Annotated[int, non_negative, "positions of earlier batches that are looked at in phase predict"] = 0
    neuron: Annotated[Neuron, "activation function of the hidden layer"] = default("GELU")
    norm: Annotated[Literal["LayerNorm", "RMSNorm"], "how the parts' inputs are normalised"] = "LayerNorm"
    ratio: Annotated[float, fraction, "probability of a number to be dropped behind each part"] = 0.0

    def expand(self) -> Sequence[Layer]:
        """Return the layers."""
        from nacre_layers import DropoutLayer, ElementWiseLayer, InnerProductLayer, LayerNormLayer, RMSNormLayer

        norm: Any = {"LayerNorm": LayerNormLayer, "RMSNorm": RMSNormLayer}[self.norm]
        x, *mask = self.bottoms
        names = ("features", "heads", "causal", "masked", "rotary", "carry")
        options: Any = {name: getattr(self, name) for name in names}
        own = ("normal1", "seen", "h", "normal2", "hidden", "thought")
        normal1, seen, h, normal2, hidden, thought = self.inner_names(*own)
        up: Any = {"output_dim": self.hidden, "neuron": self.neuron}
        layers: list[Layer] = [
            norm(name="norm1", bottoms=x, tops=normal1, axis=-1),
            AttentionLayer(name="attention", bottoms=[normal1, *mask], tops=seen, **options),
            ElementWiseLayer(name="add1", bottoms=[x, seen], tops=h, operation="Add"),
            norm(name="norm2", bottoms=h, tops=normal2, axis=-1),
            InnerProductLayer(name="up", bottoms=normal2, tops=hidden, axis=-1, **up),
            InnerProductLayer(name="down", bottoms=hidden, tops=thought, axis=-1, output_dim=self.features),
            ElementWiseLayer(name="add2", bottoms=[h, thought], tops=self.tops, operation="Add"),
        ]
        if self.ratio:
            layers.insert(2, DropoutLayer(name="dropout1", bottoms=seen, ratio=self.ratio))
            layers.insert(-1, DropoutLayer(name="dropout2", bottoms=thought, ratio=self.ratio))
        return layers
