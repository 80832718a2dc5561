"""GRU: gated recurrent units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from nacre import Array

from .base import RecurrentLayer, RecurrentState
from .recurrence import Recurrence


class GRULayer(RecurrentLayer):
    """h_t = (1 - z) n + z h_{t-1}, with the gates r and z and the proposal n.

    r = σ(W_r x_t + R_r h_{t-1} + b_r) and z = σ(W_z x_t + R_z h_{t-1} + b_z). By default, as in SINGA, cuDNN and
    PyTorch, n = tanh(W_n x_t + b_n + r (R_n h_{t-1} + c_n)); with `reset_gate = "before"`, as in Cho et al., "Learning
    phrase representations using RNN encoder-decoder", 2014, n = tanh(W_n x_t + R_n (r h_{t-1}) + b_n). The blocks of
    the weights are those of r, z, n.

    The bottom is a batch of sequences, (images, steps, features), the top the states of every step, (images, steps,
    output_dim). What all recurrent layers have in common (several layers, both directions, first and last states,
    lengths, carried states, names of parameters) is in docs/recurrent.md.

    Example:
        [[layer]]
        type = "GRU"
        bottoms = ["x"]  # (8, 20, 16)
        tops = ["h"]  # (8, 20, 32)
        output_dim = 32
    """

    reset_gate: Annotated[Literal["after", "before"], "whether r multiplies the product R_n h, or h before it"] = (
        "after"
    )


class GRURecurrence(Recurrence):
    """One GRU in one direction. `gates` keep r, z and n."""

    blocks = 3

    def __init__(self, work: Any, layer: Any, shape: tuple[int, int, int], *, backward: bool, keep: bool) -> None:
        super().__init__(work, layer, shape, backward=backward, keep=keep)
        self.after = layer.reset_gate == "after"
        # the product that r multiplies, or what it makes of the state
        self.reset = self.kept(self.hidden) if keep else None
        self.resets = self.kept_steps(self.hidden) if self.reset is None else list(self.reset)

    def factors(self) -> Sequence[float]:
        return [0.5, 0.5, 1.0]

    def input_bias(self) -> Sequence[int]:
        return range(2) if self.after else range(3)

    def step(self, t: int, gates: Array, w_h: Array, old: list[Array], new: list[Array]) -> None:
        xp, (h,), (out,) = self.xp, old, new
        reset = self.resets[t][: h.shape[0]]
        r, z, n = (self.columns(gates, block) for block in range(3))
        both = self.columns(gates, 0, 2)
        if self.after:
            product = self.temporary(gates, "product")
            xp.matmul(h, w_h, out=product)
            xp.add(both, self.columns(product, 0, 2), out=both)
            self.logistic(both)
            product = self.columns(product, 2)
            if self.layer.bias and self.layer.hidden_bias:
                xp.add(product, self.weights["bias_hh"][2 * self.hidden :], out=reset)
            else:
                xp.copyto(reset, product)
            xp.multiply(r, reset, out=product)
        else:
            product = self.temporary(both, "product")
            xp.matmul(h, self.columns(w_h, 0, 2), out=product)
            xp.add(both, product, out=both)
            self.logistic(both)
            xp.multiply(r, h, out=reset)
            product = self.columns(product, 0)
            xp.matmul(reset, self.columns(w_h, 2), out=product)
        xp.add(n, product, out=n)
        xp.tanh(n, out=n)
        difference = product
        xp.subtract(h, n, out=difference)
        xp.multiply(difference, z, out=difference)
        xp.add(n, difference, out=out)

    def products(self, dgates: Array) -> Array:
        return self.of_gates("dproducts") if self.after else dgates

    def step_back(
        self, t: int, dgates: Array, products: Array, old: list[Array], new: list[Array], states: list[Array]
    ) -> None:
        xp, (h,), (dh,) = self.xp, old, states
        reset, weight = self.resets[t][: h.shape[0]], self.weights["weight_hh"]
        gates = self.gates[t][: h.shape[0]]
        r, z, n = (self.columns(gates, block) for block in range(3))
        dr, dz, dn = (self.columns(dgates, block) for block in range(3))
        part = self.temporary(h, "part")
        xp.subtract(h, n, out=part)
        xp.multiply(part, dh, out=part)
        self.slope(self.columns(gates, 0, 2), self.columns(dgates, 0, 2))
        xp.multiply(dz, part, out=dz)
        self.tanh_slope(n, dn)
        xp.multiply(dh, z, out=part)  # what goes to the old state directly
        xp.subtract(dh, part, out=dh)
        xp.multiply(dn, dh, out=dn)
        if self.after:
            xp.multiply(dn, r, out=self.columns(products, 2))
            xp.multiply(dr, dn, out=dr)
            xp.multiply(dr, reset, out=dr)
            xp.copyto(self.columns(products, 0, 2), self.columns(dgates, 0, 2))
            xp.matmul(products, weight, out=dh)
        else:
            dreset = self.temporary(h, "dreset")
            xp.matmul(dn, weight[2 * self.hidden :], out=dreset)
            xp.multiply(dr, dreset, out=dr)
            xp.multiply(dr, h, out=dr)
            xp.multiply(dreset, r, out=dreset)
            xp.add(part, dreset, out=part)
            xp.matmul(self.columns(dgates, 0, 2), weight[: 2 * self.hidden], out=dh)
        xp.add(dh, part, out=dh)

    def weight_gradients(self, x: Array, dgates: Array, products: Array, gradients: dict[str, Array | None]) -> None:
        if self.after:
            super().weight_gradients(x, dgates, products, gradients)
            return
        weight = gradients["weight_hh"]
        super().weight_gradients(x, dgates, products, {**gradients, "weight_hh": None})
        if weight is not None:
            flat, both = dgates.reshape(-1, self.width), 2 * self.hidden
            self.product(flat[:, :both], self.states_read().reshape(-1, self.size), weight[:both])
            assert self.reset is not None
            self.course.clear(self.reset)
            self.product(flat[:, both:], self.reset.reshape(-1, self.hidden), weight[both:])


class GRUState(RecurrentState, of=GRULayer, reads="inputs"):
    """`GRULayer` on any backend."""

    kind = GRURecurrence
