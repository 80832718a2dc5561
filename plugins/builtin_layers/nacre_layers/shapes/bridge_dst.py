"""BridgeDst: where a blob arrives from another rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from nacre import Array, Names, Shape, default, exactly, positive

from .bridge_src import BridgeLayer, BridgeState, one_or_none


class BridgeDstLayer(BridgeLayer, can_do_bp=True):
    """Receive what a `BridgeSrc` sends: y = x, and the gradient goes back.

    If the other end is on another rank (`peer`) there is no bottom, and the top has the given shape and type. After
    Apache SINGA's `kBridgeDst`.

    Example:
        [[layer]]
        type = "BridgeDst"
        bottoms = ["ip1_sent"]  # (8, 500)
        tops = ["ip1_here"]  # (8, 500)
    """

    bottoms: Annotated[Names, one_or_none, "what was sent; none if the other end is on another rank"] = default(())
    tops: Annotated[Names, exactly(1), "its name here"]
    shape: Annotated[Shape, positive, "shape of the top, with the batch, if there is no bottom"] = default(())
    dtype: Annotated[str, "type of the top, if there is no bottom; by default the net's floating type"] = ""

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if (self.peer is None) != bool(self.bottoms):
            yield f"bottoms={self.bottoms} and peer={self.peer}, but one of the two must be given"

    def tops_without_gradient(self) -> tuple[str, ...]:
        return () if self.gradient or self.peer is None else tuple(self.tops)


class BridgeDstState(BridgeState, of=BridgeDstLayer, reads="", host_only=True):
    """`BridgeDstLayer` on any backend."""

    def __init__(self, layer: BridgeDstLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.alias(one) for one in inputs] or [backend.blob(layer.shape, layer.dtype or None)]
        self.shape, self.dtype = self.blobs[0].shape, self.blobs[0].dtype

    def ready(self) -> None:
        if self.layer.crosses_ranks and self.blobs_diff[0] is not None:
            self.sends(self.shape, self.dtype)

    def forward(self, inputs: list[Array]) -> None:
        if self.layer.peer is not None:
            self.receive(self.blobs[0])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        if self.layer.crosses_ranks:
            self.send(self.blobs_diff[0])
