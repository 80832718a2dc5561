"""BridgeSrc: where a blob leaves for another rank."""

from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, Check, Communicator, ConfigError, LayerState, Names, default, exactly, non_negative

from ..cutting import OnNumbers

TAG = 11
"""The tag of what crosses bridges, among the messages between two ranks."""

one_or_none = Check(lambda names, _: None if len(names) < 2 else "there can be one", "at most 1", most=1)
"""A validator for the end of a bridge that may be on another rank."""


class BridgeLayer(OnNumbers, can_do_bp=True):
    """The common fields of both ends of a bridge."""

    peer: Annotated[int | None, non_negative, "the rank of the other end; by default both are here"] = None
    gradient: Annotated[bool, "whether the gradient comes back from another rank"] = True

    @property
    def crosses_ranks(self) -> bool:
        return self.peer is not None and self.gradient


class BridgeSrcLayer(BridgeLayer, can_do_bp=True):
    """Send the bottom to a `BridgeDst` on another rank: y = x there, and its gradient comes back.

    A net that is divided among ranks gets bridges where they are needed. Written in a net file, a BridgeSrc at one
    `location` and a BridgeDst at another that reads its top say where data cross; in one process both do nothing. After
    Apache SINGA's `kBridgeSrc`.

    Example:
        [[layer]]
        type = "BridgeSrc"
        bottoms = ["ip1"]  # (8, 500)
        tops = ["ip1_sent"]  # (8, 500)
    """

    bottoms: Annotated[Names, exactly(1), "the blob to send"]
    tops: Annotated[Names, one_or_none, "its name on the way; none if the other end is on another rank"] = default(())

    def bottoms_without_gradient(self) -> tuple[str, ...]:
        return () if self.gradient or self.peer is None else tuple(self.bottoms)


class BridgeState(LayerState, reads="", host_only=True):
    """The state of both ends: what is sent is copied, so that the blob's memory is free while it is on its way."""

    sent: Any = None

    def sends(self, shape: tuple[int, ...], dtype: str) -> None:
        """Make the memory for what is sent."""
        self.staging = self.backend.empty(shape, dtype)

    def send(self, array: Array) -> None:
        """Begin to send an array, after the one before has gone."""
        if self.sent is not None:
            self.sent.wait()
        self.backend.xp.copyto(self.staging, array)
        self.sent = self._between().isend(self.staging, self.layer.peer, TAG)

    def receive(self, array: Array) -> None:
        """Wait for an array."""
        self._between().recv(array, self.layer.peer, TAG)

    def _between(self) -> Communicator:
        """Return what connects the ends, if there is such an end."""
        between, peer = self.backend.between, self.layer.peer
        ranks = 1 if between is None else between.size
        if between is None or peer >= ranks:
            message = f"{self.layer.name}: peer={peer} is no other rank: the net has {ranks} in all"
            raise ConfigError(message, "leave peer out: a net that is divided among ranks gets its bridges by location")
        return between


class BridgeSrcState(BridgeState, of=BridgeSrcLayer, reads="", host_only=True):
    """`BridgeSrcLayer` on any backend."""

    def __init__(self, layer: BridgeSrcLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.shape, self.dtype = inputs[0].shape, inputs[0].dtype
        self.blobs = [backend.alias(inputs[0]) for _ in layer.tops]

    def ready(self) -> None:
        if self.layer.peer is not None:
            self.sends(self.shape, self.dtype)

    def forward(self, inputs: list[Array]) -> None:
        if self.layer.peer is not None:
            self.send(inputs[0])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        if self.layer.crosses_ranks and diffs[0] is not None:
            self.receive(diffs[0])
