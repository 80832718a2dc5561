"""Positions: a learned vector for every position of a sequence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from nacre import Array, ConfigError, DataError, Initializer, Layer, LayerState, Names, Parameter, exactly, positive
from nacre_layers import Gaussian


class PositionsLayer(Layer, has_param=True, can_do_bp=True):
    """y[n, t] = x[n, t] + weight[t], for a bottom (images, positions, features).

    `weight` is (most, features), so that one net can be used for sequences of several lengths. With `carry`, in phase
    predict, positions are counted on from batch to batch, until `net.rewind()`; raises DataError behind the last one.

    Example:
        [[layer]]
        type = "Positions"
        bottoms = ["words"]  # (8, 20, 64)
        tops = ["x"]  # (8, 20, 64)
        most = 128
    """

    bottoms: Annotated[Names, exactly(1), "the sequences"]
    tops: Annotated[Names, exactly(1), "the sequences, of which each number knows its place"]
    most: Annotated[int, positive, "how many positions there may be"]
    carry: Annotated[bool, "count positions on from batch to batch in phase predict"] = False
    param_key: Annotated[str, "layers with the same key share their parameters"] = ""
    weight_init: Annotated[Initializer, "first values of the weight"] = Gaussian(std=0.02)


class PositionsState(LayerState, of=PositionsLayer, reads=""):
    """`PositionsLayer` on any backend."""

    def __init__(self, layer: PositionsLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        shape = tuple(inputs[0].shape)
        if len(shape) != 3 or shape[1] > layer.most:
            raise ConfigError(
                f"{layer.name}: bottom '{layer.bottoms[0]}' has the shape {shape}, but must be (images, positions, "
                f"features) with at most {layer.most} positions"
            )
        self.weight = Parameter("weight", (layer.most, shape[2]), init=layer.weight_init)
        self.parameters = [self.weight]
        self.blobs = [backend.blob(shape)]
        self.length, self.count = shape[1], 0

    @property
    def _carries(self) -> bool:
        return self.layer.carry and self.phase == "predict"

    def forward(self, inputs: list[Array]) -> None:
        """Add."""
        end = self.count + self.length
        if end > self.layer.most:
            raise DataError(
                f"{self.layer.name}: most={self.layer.most}, but this is position {end}",
                "begin anew (net.rewind()), or use rotary positions, which have no end",
            )
        self.backend.xp.add(inputs[0], self.weight.blob[self.count : end], out=self.blobs[0])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Sum over the images."""
        xp, dy = self.backend.xp, self.blobs_diff[0]
        if (gradient := self.weight.gradient) is not None:
            gradient[self.length :] = 0
            xp.sum(dy, axis=0, out=gradient[: self.length])
        if diffs[0] is not None:
            xp.copyto(diffs[0], dy)

    def advance(self) -> None:
        """Count on."""
        if self._carries:
            self.count += self.length

    def rewind(self) -> None:
        """Begin at the first position."""
        self.count = 0

    def memory(self) -> Mapping[str, Any]:
        """Return how many positions there were."""
        return {"count": self.count} if self._carries else {}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Go on behind them."""
        if self._carries:
            self.count = int(memory["count"])
