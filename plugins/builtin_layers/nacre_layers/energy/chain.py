"""The steps of a Gibbs chain, which stand for the two layers of a restricted Boltzmann machine in a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from nacre import Array, Layer, LayerState, Names, Node, Parameter, default

from .rbm_hidden import RBMHiddenLayer, hidden_parameters
from .rbm_visible import STATISTICS, RBMVisibleLayer


class ChainStep(Layer):
    """A step that a layer of the circle becomes; its state is made for that layer."""

    bottoms: Names
    tops: Names = default(())

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> LayerState:
        state, layer, role = vars(self)["_made"]
        made: LayerState = state(layer, backend, inputs, diffs, **role)
        vars(self)["_state_of"] = made
        return made


class VisibleStep(ChainStep, has_param=True):
    """Visible units, given hidden ones."""


class ReconstructionStep(ChainStep, has_param=True, has_loss=True, statistics=STATISTICS):
    """Visible units given the hidden ones of the data, compared with the data."""


class ContrastStep(ChainStep, has_param=True, can_do_bp=True):
    """The difference between the data and the end of the chain, which has the gradients of all parameters."""

    needs_algorithm = "CD"


def step(kind: type[ChainStep], state: type[LayerState], node: Node, **role: Any) -> Node:
    """Return a node that runs as a step, whose state is made for the node's user's layer with a role in the chain."""
    bottoms, tops = ([name.replace("/", ".") for name in names] for names in (node.bottoms, node.tops))
    made = kind(name=node.user.name, bottoms=bottoms, tops=tops)
    vars(made)["_made"] = (state, node.layer, role)
    return replace(node, layer=made)


class DataState(LayerState, reads=""):
    """The data, as the visible units of their images."""

    def __init__(self, layer: RBMVisibleLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        images, *features = inputs[0].shape
        self.blobs = [backend.alias(inputs[0], (images, prod(features)))]

    def forward(self, inputs: list[Array]) -> None:
        """Do nothing: the top is the bottom."""

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Do nothing: no gradient goes to the data."""


class ChainState(LayerState, reads=""):
    """Where persistent chains go on: with the visible units of the batch before; the first time with the data."""

    def __init__(self, layer: RBMVisibleLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]
        self.begun = False

    def ready(self) -> None:
        self.carried, self.next = (self.backend.empty(self.blobs[0].shape) for _ in range(2))

    def forward(self, inputs: list[Array]) -> None:
        self.backend.xp.copyto(self.blobs[0], self.carried if self.begun else inputs[0])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Do nothing: no gradient goes to the chains."""

    def advance(self) -> None:
        self.begun = True
        self.backend.xp.copyto(self.carried, self.next)

    def rewind(self) -> None:
        self.begun = False

    def memory(self) -> Mapping[str, Any]:
        return {"begun": self.begun, "chains": self.backend.to_host(self.carried)}

    def remember(self, memory: Mapping[str, Any]) -> str | None:
        self.begun, value = bool(memory["begun"]), np.asarray(memory["chains"])
        if value.shape != tuple(self.carried.shape):
            self.begun = False
            return (
                f"{self.layer.name}: the persistent chains of the snapshot have the shape {value.shape}, but here it "
                f"is {tuple(self.carried.shape)}, so they begin with the data"
            )
        self.backend.from_host(value.astype(self.backend.dtype), self.carried)
        return None


class ContrastState(LayerState, reads="inputs"):
    """Writes the gradients of `CD`; `chains` is the step with which persistent chains go on.

    Bottoms are the visible and hidden units of the data, then those of the end of the chain.
    """

    def __init__(
        self,
        layer: RBMHiddenLayer,
        backend: Any,
        inputs: list[Any],
        diffs: list[Any],
        *,
        visible: Node,
        chains: Layer | None,
    ) -> None:
        super().__init__(layer, backend, inputs, diffs)
        size = inputs[0].shape[1]
        self.parameters = hidden_parameters(layer, size)
        self.biases = [(3, bias) for bias in self.parameters[1:]]  # each with the index of the bottom it belongs to
        assert isinstance(visible.layer, RBMVisibleLayer)
        if visible.layer.bias:
            self.biases.append((2, Parameter("visible_bias", (size,), tied=f"{visible.owner}/bias")))
            self.parameters.append(self.biases[-1][1])
        self.chains: ChainState | None = chains and vars(chains)["_state_of"]

    def forward(self, inputs: list[Array]) -> None:
        if self.chains is not None:
            self.backend.xp.copyto(self.chains.next, inputs[2])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Write the mean of v hᵀ, and of v and h, at the end of the chain, less that of the data.

        Of several ranks, each writes its part of the mean over the rows of all.
        """
        xp, rows = self.backend.xp, min(self.backend.rows, inputs[0].shape[0])
        v0, h0, v, h = (one[:rows] for one in inputs)
        if (total := self.parameters[0].gradient) is not None:
            part = self.backend.scratch(tuple(total.shape))
            xp.matmul(h.T, v, out=total)
            xp.matmul(h0.T, v0, out=part)
            self._finish(total, part, rows)
        for index, bias in self.biases:
            if (total := bias.gradient) is not None:
                part = self.backend.scratch(tuple(total.shape))
                xp.sum(inputs[index][:rows], axis=0, out=total)
                xp.sum(inputs[index - 2][:rows], axis=0, out=part)
                self._finish(total, part, rows)

    def _finish(self, total: Array, part: Array, rows: int) -> None:
        self.backend.xp.subtract(total, part, out=total)
        self.backend.xp.multiply(total, 1 / max(self.backend.together(rows), 1), out=total)
