"""RNN: the simple recurrent layer, h_t = tanh(W x_t + R h_{t-1} + b)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from nacre import Array

from .base import RecurrentLayer, RecurrentState
from .recurrence import Recurrence


class RNNLayer(RecurrentLayer):
    """h_t = tanh(W x_t + R h_{t-1} + b), or with `activation = "ReLU"` max(W x_t + R h_{t-1} + b, 0).

    The bottom is a batch of sequences, (images, steps, features), the top the states of every step, (images, steps,
    output_dim). What all recurrent layers have in common (several layers, both directions, first and last states,
    lengths, carried states, names of parameters) is in docs/recurrent.md.

    Example:
        [[layer]]
        type = "RNN"
        bottoms = ["x"]  # (8, 20, 16)
        tops = ["h"]  # (8, 20, 32)
        output_dim = 32
    """

    activation: Annotated[Literal["Tanh", "ReLU"], "the function: Tanh or ReLU"] = "Tanh"


class RNNRecurrence(Recurrence):
    """One RNN in one direction."""

    blocks = 1
    keeps_gates = False

    def factors(self) -> Sequence[float]:
        return [1.0]

    def step(self, t: int, gates: Array, w_h: Array, old: list[Array], new: list[Array]) -> None:
        xp = self.xp
        xp.matmul(old[0], w_h, out=new[0])
        xp.add(new[0], gates, out=new[0])
        if self.layer.activation == "Tanh":
            xp.tanh(new[0], out=new[0])
        else:
            xp.maximum(new[0], 0, out=new[0])

    def step_back(
        self, t: int, dgates: Array, products: Array, old: list[Array], new: list[Array], states: list[Array]
    ) -> None:
        xp, (dh,), (h,) = self.xp, states, new
        if self.layer.activation == "Tanh":
            self.tanh_slope(h, dgates)
        else:
            xp.greater(h, 0, out=dgates)
        xp.multiply(dgates, dh, out=dgates)
        xp.matmul(dgates, self.weights["weight_hh"], out=dh)


class RNNState(RecurrentState, of=RNNLayer, reads="inputs"):
    """`RNNLayer` on any backend."""

    kind = RNNRecurrence
