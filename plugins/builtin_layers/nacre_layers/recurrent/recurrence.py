"""Recurrence: one recurrent layer in one direction, over all steps; what RNN, GRU and LSTM have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from nacre import Array

from .course import Course


def first(array: Array, count: int) -> Array:
    """Return the first rows of an array, or the array."""
    return array if array.shape[0] == count else array[:count]


class Series:
    """A state between the steps: number t is before step t, and the last one after all steps.

    Unless `keep`, all of them lie in one memory.
    """

    def __init__(self, backend: Any, steps: int, images: int, size: int, *, keep: bool) -> None:
        self.backend, self.size = backend, size
        self.base = backend.empty((steps + 1 if keep else 1, images, size))
        self.at = [self.base[t if keep else 0] for t in range(steps + 1)]
        self.blank = keep
        """Whether the sequences have only begun with 0 so far, and nothing else lies in its memory."""

    def begin(self, value: Array | None, course: Course, *, backward: bool) -> None:
        """Write the state that the sequences begin with; None is 0."""
        apart = course.ends is not None and self.base.shape[0] > 1
        if apart:
            self.base[...] = 0  # behind the lengths
        self.blank &= value is None
        if value is None:
            if not self.blank:
                (self.at[-1] if backward else self.at[0])[...] = 0
        elif apart and backward:
            self.base.reshape(-1, self.size)[course.ends] = value
        else:
            self.backend.xp.copyto(self.at[-1] if backward else self.at[0], value)

    def end(self, out: Array, course: Course, *, backward: bool) -> None:
        """Read the state that the sequences end with."""
        if course.ends is not None and self.base.shape[0] > 1 and not backward:
            self.backend.xp.take(self.base.reshape(-1, self.size), course.ends, axis=0, out=out, mode="clip")
        else:
            self.backend.xp.copyto(out, self.at[0] if backward else self.at[-1])


class Recurrence:
    """One layer in one direction; a subclass computes one step, forward and backward.

    Arrays are (steps, images, ...). `blocks` is the number of parts of `hidden` columns in the products with x and
    with the state. `weights` and `biases` are PyTorch's, by their names without the suffix (`weight_ih`). The states
    are `series`: the first is the output. With `keep` everything that `backward` needs is kept.
    """

    blocks: ClassVar[int]
    keeps_gates: ClassVar[bool] = True
    """Whether `backward` needs the gates."""

    def __init__(self, work: Any, layer: Any, shape: tuple[int, int, int], *, backward: bool, keep: bool) -> None:
        self.work, self.xp, self.layer = work, work.xp, layer
        self.steps, self.images, self.features = shape
        self.hidden, self.size = layer.output_dim, layer.size
        self.backward_in_time, self.keep = backward, keep
        self.width = self.blocks * self.hidden
        if keep and self.keeps_gates:
            self.gates = self.kept(self.width)
        self.series = [
            Series(work, self.steps, self.images, size, keep=keep or not number)
            for number, size in enumerate(layer.state_sizes)
        ]
        self.packed: dict[str, Array] = {}

    def kept(self, size: int) -> Array:
        """Return an array (steps, images, size) that lasts until `backward`."""
        return self.work.empty((self.steps, self.images, size))

    def kept_steps(self, size: int) -> list[Array]:
        """Return an array (images, size) for each step; one for all unless they are needed in `backward`."""
        if self.keep:
            return list(self.kept(size))
        return [self.work.empty((self.images, size))] * self.steps

    def columns(self, array: Array, start: int, stop: int | None = None) -> Array:
        """Return some of the blocks of columns of (images, blocks · hidden)."""
        return array[:, start * self.hidden : (start + 1 if stop is None else stop) * self.hidden]

    @property
    def output(self) -> Array:
        """The states after the steps, (steps, images, size)."""
        base = self.series[0].base
        return self.shown(base[:-1] if self.backward_in_time else base[1:])

    def shown(self, state: Array) -> Array:
        """Return the columns of the output that stand in the top: all, unless it is a part of a layer."""
        return state

    @property
    def order(self) -> range:
        """The steps in the order in which they are taken."""
        return range(self.steps - 1, -1, -1) if self.backward_in_time else range(self.steps)

    def around(self, step: int) -> tuple[int, int]:
        """Return the numbers of the states that a step reads and writes."""
        return (step + 1, step) if self.backward_in_time else (step, step + 1)

    def pack(self, name: str, shape: tuple[int, ...], dtype: str | None = None) -> Array:
        """Return an array of the recurrence's own for a weight in another form."""
        if name not in self.packed:
            self.packed[name] = self.work.empty(shape, dtype)
        return self.packed[name]

    # Forward

    def forward(self, x: Array, weights: dict[str, Array], course: Course, begin: Sequence[Array | None]) -> None:
        """Run through all steps."""
        self.begin(weights, course)
        xp, hidden = self.xp, self.hidden
        w_x = self.pack("ih", (self.features, self.width))
        w_h = self.pack("hh", (self.size, self.width))
        factors = self.factors()
        for packed, name in ((w_x, "weight_ih"), (w_h, "weight_hh")):
            for block in range(self.blocks):
                part = weights[name][block * hidden : (block + 1) * hidden]
                xp.multiply(part.T, factors[block], out=self.columns(packed, block))
        self.prepare()
        xp.matmul(x.reshape(-1, self.features), w_x, out=self.gates.reshape(-1, self.width))
        if self.layer.bias:
            xp.add(self.gates, self.bias(factors), out=self.gates)
        self.take_steps(course, begin, w_h)

    def begin(self, weights: dict[str, Array], course: Course) -> None:
        """Note what a pass forward works on, and get memory for the gates."""
        self.course, self.weights = course, weights
        if not (self.keep and self.keeps_gates):
            self.gates = self.work.scratch((self.steps, self.images, self.width), slot="gates")

    def take_steps(self, course: Course, begin: Sequence[Array | None], w_h: Array) -> None:
        """Take all steps, once the products of the inputs stand in the gates."""
        for series, value in zip(self.series, begin, strict=True):
            series.begin(value, course, backward=self.backward_in_time)
        for t in self.order:
            if count := course.rows[t]:
                before, after = self.around(t)
                old = [self.masked(series.at[before], before, count, place) for place, series in enumerate(self.series)]
                new = [first(series.at[after], count) for series in self.series]
                self.step(t, first(self.gates[t], count), w_h, old, new)

    def masked(self, state: Array, number: int, count: int, place: int) -> Array:
        """Return a state as the next step reads it: 0 for sequences that begin there."""
        state, mask = first(state, count), self.course.masks[number]
        if mask is None:
            return state
        out = self.work.scratch((count, state.shape[1]), slot=f"masked{place}")
        self.xp.multiply(state, mask, out=out)
        return out

    def factors(self) -> Sequence[float]:
        """Return the factor of each block of the weights: σ(x) is computed as tanh(x / 2) / 2 + 1 / 2."""
        raise NotImplementedError

    def input_bias(self) -> Sequence[int]:
        """Return the blocks whose hidden bias can be added at once, with that of the input."""
        return range(self.blocks)

    def bias(self, factors: Sequence[float]) -> Array:
        """Return the sum of both biases, times the factors of the blocks."""
        bias = self.pack("bias", (self.width,))
        self.xp.copyto(bias, self.weights["bias_ih"])
        for block in range(self.blocks):
            part = slice(block * self.hidden, (block + 1) * self.hidden)
            if self.layer.hidden_bias and block in self.input_bias():
                self.xp.add(bias[part], self.weights["bias_hh"][part], out=bias[part])
            self.xp.multiply(bias[part], factors[block], out=bias[part])
        return bias

    def prepare(self) -> None:
        """Make what a pass needs besides."""

    def step(self, t: int, gates: Array, w_h: Array, old: list[Array], new: list[Array]) -> None:
        """Compute the new state; `gates` hold the products with x, and get the values that `step_back` needs."""
        raise NotImplementedError

    def logistic(self, gates: Array) -> None:
        """Make σ(x) of x / 2, in place."""
        xp = self.xp
        xp.tanh(gates, out=gates)
        xp.multiply(gates, 0.5, out=gates)
        xp.add(gates, 0.5, out=gates)

    def temporary(self, like: Array, name: str) -> Array:
        """Return scratch memory of an array's shape, for one step."""
        return self.work.scratch((like.shape[0], like.shape[1]), slot=name)

    # Backward

    def backward(
        self,
        x: Array,
        dy: Array,
        end: Sequence[Array | None],
        begin: Sequence[Array | None],
        dx: Array | None,
        gradients: dict[str, Array | None],
    ) -> None:
        """Write the gradients: those of x into `dx`, of the first states into `begin`, and of the weights.

        `dy` is the gradient of the output, which may be None, and `end` that of the last states.
        """
        xp, course = self.xp, self.course
        dgates = self.of_gates("dgates")
        products = self.products(dgates)
        states = [
            self.work.scratch((self.images, series.size), slot=f"dstate{place}")
            for place, series in enumerate(self.series)
        ]
        for state, value in zip(states, end, strict=True):
            if value is None:
                state[...] = 0
            else:
                xp.copyto(state, value)
        for t in reversed(self.order):
            count = course.rows[t]
            dgates[t][count:] = 0
            products[t][count:] = 0
            if not count:
                continue
            before, after = self.around(t)
            ours = [first(state, count) for state in states]
            if dy is not None:
                self.add_top(self.shown(ours[0]), dy[t][:count])
            old = [self.masked(series.at[before], before, count, place) for place, series in enumerate(self.series)]
            new = [first(series.at[after], count) for series in self.series]
            self.step_back(t, dgates[t][:count], products[t][:count], old, new, ours)
            if (mask := course.masks[before]) is not None:
                for state in ours:
                    xp.multiply(state, mask, out=state)
        for state, out in zip(states, begin, strict=True):
            if out is not None:
                xp.copyto(out, state)
        self.weight_gradients(x, dgates, products, gradients)
        if dx is not None:
            self.product_back(dgates.reshape(-1, self.width), "weight_ih", dx.reshape(-1, self.features))

    def of_gates(self, name: str) -> Array:
        """Return scratch memory for gradients of the gates of all steps, (steps, images, width)."""
        return self.work.scratch((self.steps, self.images, self.width), slot=name)

    def add_top(self, dh: Array, dy: Array) -> None:
        """Add the gradient of the output to that of a state, before `step_back`."""
        self.xp.add(dh, dy, out=dh)

    def product_back(self, dgates: Array, weight: str, out: Array) -> None:
        """Write the gradient of what a weight was multiplied with."""
        self.xp.matmul(dgates, self.weights[weight], out=out)

    def products(self, dgates: Array) -> Array:
        """Return the array for the gradients of the products with the state: those of the products with x, or other."""
        return dgates

    def states_read(self) -> Array:
        """Return the states that the steps have read, (steps, images, size)."""
        base, mask = self.series[0].base, self.course.mask
        part = slice(1, None) if self.backward_in_time else slice(None, -1)
        if mask is None:
            return base[part]
        out = self.work.scratch((self.steps, self.images, self.size), slot="read")
        self.xp.multiply(base[part], mask[part], out=out)
        return out

    def weight_gradients(self, x: Array, dgates: Array, products: Array, gradients: dict[str, Array | None]) -> None:
        """Write the gradients of the weights and biases: one product for all steps."""
        flat, flat_products = dgates.reshape(-1, self.width), products.reshape(-1, self.width)
        self.product(flat, x.reshape(-1, self.features), gradients["weight_ih"])
        self.product(flat_products, self.states_read().reshape(-1, self.size), gradients["weight_hh"])
        of_input, of_state = gradients.get("bias_ih"), gradients.get("bias_hh")
        self.sum(flat, of_input)
        if of_input is not None and of_state is not None and products is dgates:
            self.xp.copyto(of_state, of_input)
        else:
            self.sum(flat_products, of_state)

    def product(self, dy: Array, x: Array, gradient: Array | None) -> None:
        """Write dyᵀ x."""
        if gradient is not None:
            self.xp.matmul(dy.T, x, out=gradient)

    def sum(self, dy: Array, gradient: Array | None) -> None:
        """Write the sums of the columns."""
        if gradient is not None:
            ones = self.pack("ones", (dy.shape[0],))
            ones[...] = 1
            self.xp.matmul(ones, dy, out=gradient)

    def step_back(
        self, t: int, dgates: Array, products: Array, old: list[Array], new: list[Array], states: list[Array]
    ) -> None:
        """Write the gradients of the gates, and replace those of the new states by those of the old ones."""
        raise NotImplementedError

    def slope(self, gate: Array, out: Array) -> None:
        """Write σ' into `out`, from σ."""
        self.xp.multiply(gate, gate, out=out)
        self.xp.subtract(gate, out, out=out)

    def tanh_slope(self, value: Array, out: Array) -> None:
        """Write tanh' into `out`, from tanh."""
        self.xp.multiply(value, value, out=out)
        self.xp.subtract(1.0, out, out=out)
