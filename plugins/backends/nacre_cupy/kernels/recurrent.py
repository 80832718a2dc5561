"""RNN, GRU and LSTM: a product for the inputs of all steps, and in each step one for the state and one kernel.

See recurrent.cu.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nacre import Array, DataError
from nacre_layers.recurrent.base import RecurrentState
from nacre_layers.recurrent.course import Course, whole_numbers_of
from nacre_layers.recurrent.gru import GRURecurrence, GRUState
from nacre_layers.recurrent.lstm import LSTMRecurrence, LSTMState
from nacre_layers.recurrent.network import Piece, Work
from nacre_layers.recurrent.recurrence import Recurrence, first
from nacre_layers.recurrent.rnn import RNNRecurrence, RNNState

from .bias import BiasGradient
from .blobs import convert, swap
from .launch import TYPES, launch, memory, scalars, too_large
from .narrow import multiply_narrow

FUNCTIONS = {"Tanh": "Bent", "ReLU": "Cut"}
"""Those of RNN, and what recurrent.cu calls them."""
PAIR = 2
"""Neighbours that a thread works on, as in recurrent.cu."""
STEP_THREADS = 64
"""Threads of a block: a step has few numbers, which small blocks share out over more multiprocessors."""


def rounds(view: Any, layer: Any) -> bool:
    """Return whether the factors of a layer's products are rounded to bf16."""
    return view.compute == "bf16" and not getattr(layer, "peepholes", False)


class DeviceWork(Work):
    """The memory of a layer on a GPU."""

    def __init__(self, view: Any, layer: Any) -> None:
        super().__init__(view)
        if rounds(view, layer) and not layer.time_major:
            self.x_dtype = "uint16"

    def swap(self, given: Array, made: Array) -> None:
        swap(self.backend, given, made)


class OnDevice(Recurrence):
    """A recurrence whose weights are multiplied as they lie, and whose gates are computed by a kernel.

    In a net that computes in bf16 the factors of products are rounded to it, unless there are peepholes: then they are
    rounded to TF32. All else, and what is kept, is in float32. States and gradients of gates are rounded by the kernels
    that compute them.
    """

    dy: Array = None
    """The gradient of the output in a step, which the kernel adds to that of the state."""

    def __init__(self, work: Any, layer: Any, shape: tuple[int, int, int], *, backward: bool, keep: bool) -> None:
        super().__init__(work, layer, shape, backward=backward, keep=keep)
        self.narrow = rounds(work.backend, layer)
        if work.backend.compute == "bf16":
            self.xp = work.backend.backend.in_tf32
        self.narrow_states = work.empty((self.steps + 1, self.images, self.size), "uint16") if self.narrow else None
        self.factors_of: dict[str, Array] = {}
        self.sums: dict[int, BiasGradient] = {}

    # Products, and what they multiply

    def multiply(self, a: Array, b: Array, out: Array) -> None:
        """Write the product of two factors."""
        if self.narrow:
            multiply_narrow(self.work.backend, a, b, out)
        else:
            self.xp.matmul(a, b, out=out)

    def factor(self, array: Array, name: str) -> Array:
        """Return an array as products read it: in bf16 a copy, until the name is used again."""
        if not self.narrow or str(array.dtype) == "uint16":
            return array
        made = self.work.scratch(array.shape, f"narrow {name}", "uint16")
        convert(self.work.backend, array, made)
        return made

    def begin(self, weights: dict[str, Array], course: Course) -> None:
        super().begin(weights, course)
        for name, weight in weights.items():
            if name.startswith("weight"):
                self.factors_of[name] = weight
                if self.narrow:
                    self.factors_of[name] = self.pack(name, weight.shape, "uint16")
                    convert(self.work.backend, weight, self.factors_of[name])

    def forward(self, x: Array, weights: dict[str, Array], course: Course, begin: Sequence[Array | None]) -> None:
        self.begin(weights, course)
        flat = self.gates.reshape(-1, self.width)
        self.multiply(self.factor(x.reshape(-1, self.features), "x"), self.factors_of["weight_ih"].T, flat)
        self.take_steps(course, begin, self.factors_of["weight_hh"].T)

    def product_with(self, t: int, state: Array, w_h: Array, gates: Array) -> Array:
        """Return the products of all blocks with the state before a step."""
        product = self.temporary(gates, "product")
        if self.narrow_states is not None:
            before = self.around(t)[0]
            wide, state = state, first(self.narrow_states[before], state.shape[0])
            begins = t == self.order[0] and not self.series[0].blank
            if begins or self.course.masks[before] is not None or not self.rounds_by_kernel:
                convert(self.work.backend, wide, state)
        self.multiply(state, w_h, product)
        return product

    @property
    def rounds_by_kernel(self) -> bool:
        """Whether what kernels round is complete: with lengths there are rows that they do not compute."""
        return self.course.ends is None

    def narrow_state(self, t: int, like: Array) -> Array | None:
        """Return where the kernel writes the state after a step in bf16, if it does."""
        return None if self.narrow_states is None else first(self.narrow_states[self.around(t)[1]], like.shape[0])

    @property
    def biases(self) -> tuple[Array | None, Array | None]:
        """Those of the input and of the state."""
        return self.weights.get("bias_ih"), self.weights.get("bias_hh")

    # Backward

    def of_gates(self, name: str) -> Array:
        return self.work.scratch((self.steps, self.images, self.width), name, "uint16" if self.narrow else None)

    def add_top(self, dh: Array, dy: Array) -> None:
        self.dy = dy

    def ends_of(self, *gradients: Array) -> tuple[Any, ...]:
        """Return gradients of the gates as a kernel takes them: in the type of the net, and then in bf16."""
        none = [None] * len(gradients)
        return (*none, *gradients) if self.narrow else (*gradients, *none)

    def take_top(self) -> tuple[Any, int]:
        """Return the gradient of the output in this step, once, and how far it is from row to row."""
        dy, self.dy = self.dy, None
        return (None, 0) if dy is None else (dy, dy.strides[0] // dy.itemsize)

    def product_back(self, dgates: Array, weight: str, out: Array) -> None:
        self.multiply(self.factor(dgates, "dgates"), self.factors_of[weight], out)

    def states_read(self) -> Array:
        if self.narrow_states is None or not self.rounds_by_kernel:
            return super().states_read()
        return self.narrow_states[1:] if self.backward_in_time else self.narrow_states[:-1]

    def product(self, dy: Array, x: Array, gradient: Array | None) -> None:
        if gradient is not None:
            self.multiply(self.factor(dy, "dy").T, self.factor(x, "x"), gradient)

    def sum(self, dy: Array, gradient: Array | None) -> None:
        if gradient is not None:
            rows, columns = dy.shape
            if columns not in self.sums:
                self.sums[columns] = BiasGradient(self.work.backend, rows, columns)
            self.sums[columns].enqueue(dy, gradient)

    def launch(self, kernel: str, like: Array, *arrays: Any) -> None:
        """Enqueue a kernel for a step, with `like` of the shape (sequences, hidden)."""
        kind = TYPES[str(like.dtype)]
        rows, hidden = like.shape
        items = rows * hidden // (PAIR if hidden % PAIR == 0 else 1)
        name, _, function = kernel.partition(" ")
        expression = f"{name}<{kind}, {function}>" if function else f"{name}<{kind}>"
        launch(self.work.backend, "recurrent", expression, items, *arrays, rows, hidden, threads=STEP_THREADS)


class LSTMOnDevice(OnDevice, LSTMRecurrence):
    """One LSTM in one direction."""

    def step(self, t: int, gates: Array, w_h: Array, old: list[Array], new: list[Array]) -> None:
        (h, c), (h_new, c_new) = old, new
        product = self.product_with(t, h, w_h, gates)
        whole, narrow = h_new, self.narrow_state(t, h)
        if self.wholes is not None:
            whole, narrow = first(self.wholes[t], h.shape[0]), None
        summands = gates, product, *self.biases, self.weights.get("peephole")
        cells = c, c_new, first(self.tanh_c[t], h.shape[0])
        self.launch("lstm_forward", c, *summands, *cells, whole, narrow)
        if self.wholes is not None:
            self.multiply(self.factor(whole, "whole"), self.factors_of["weight_hr"].T, h_new)
            if (narrow := self.narrow_state(t, h)) is not None:
                convert(self.work.backend, h_new, narrow)

    def add_top(self, dh: Array, dy: Array) -> None:
        if self.wholes is None:
            super().add_top(dh, dy)
        else:  # the kernel sees a product with the sum
            self.xp.add(dh, dy, out=dh)

    def step_back(
        self, t: int, dgates: Array, products: Array, old: list[Array], new: list[Array], states: list[Array]
    ) -> None:
        (_, c), (dh, dc) = old, states
        count, whole = c.shape[0], dh
        if self.wholes is not None:
            self.xp.copyto(first(self.projected()[t], count), dh)
            whole = self.temporary(c, "dwhole")
            self.product_back(dh, "weight_hr", whole)
        kept = first(self.gates[t], count), first(self.tanh_c[t], count)
        peephole, ends = self.weights.get("peephole"), self.ends_of(dgates)
        self.launch("lstm_backward", c, *kept, c, peephole, whole, *self.take_top(), dc, *ends)
        self.give_back(dgates, dh)


class GRUOnDevice(OnDevice, GRURecurrence):
    """One GRU in one direction, whose gate r multiplies the product with the state."""

    def step(self, t: int, gates: Array, w_h: Array, old: list[Array], new: list[Array]) -> None:
        (h,), (out,) = old, new
        product = self.product_with(t, h, w_h, gates)
        ends = first(self.resets[t], h.shape[0]), out, self.narrow_state(t, h)
        self.launch("gru_forward", h, gates, product, *self.biases, h, *ends)

    def step_back(
        self, t: int, dgates: Array, products: Array, old: list[Array], new: list[Array], states: list[Array]
    ) -> None:
        (h,), (dh,) = old, states
        count, direct = h.shape[0], self.temporary(h, "part")
        kept = first(self.gates[t], count), first(self.resets[t], count)
        self.launch("gru_backward", h, *kept, h, dh, *self.take_top(), direct, *self.ends_of(dgates, products))
        self.product_back(products, "weight_hh", dh)
        self.xp.add(dh, direct, out=dh)


class RNNOnDevice(OnDevice, RNNRecurrence):
    """One RNN in one direction."""

    def step(self, t: int, gates: Array, w_h: Array, old: list[Array], new: list[Array]) -> None:
        product, name = self.product_with(t, old[0], w_h, gates), FUNCTIONS[self.layer.activation]
        ends = new[0], self.narrow_state(t, new[0])
        self.launch(f"rnn_forward {name}", new[0], gates, product, *self.biases, *ends)

    def step_back(
        self, t: int, dgates: Array, products: Array, old: list[Array], new: list[Array], states: list[Array]
    ) -> None:
        name, ends = FUNCTIONS[self.layer.activation], self.ends_of(dgates)
        self.launch(f"rnn_backward {name}", new[0], new[0], states[0], *self.take_top(), *ends)
        self.product_back(dgates, "weight_hh", states[0])


class MaskedCourse(Course):
    """The course of sequences whose first steps are told by an array on the device, in every pass."""

    def __init__(self, work: Any, steps: int, images: int) -> None:
        super().__init__(work, steps, images)
        self.mask = work.empty((steps + 1, images, 1))
        self.mask[-1] = 1
        self.masks = [*(self.mask[t] for t in range(steps)), None]


class RecurrentKernel(RecurrentState, on_plain=True, capturable=True, dtypes=("float32", "float64")):
    """A recurrent state whose steps are captured, unless the sequences have lengths: the host has to know these.

    In a net that computes in bf16 bottom and top are of bf16, if there are no others.
    """

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        if len(inputs[0].shape) != 3 or "float" not in inputs[0].dtype:
            return "serves sequences of a floating type"
        if getattr(layer, "reset_gate", "after") != "after":
            return "serves reset_gate='after'"
        one, other, features = inputs[0].shape
        wide = cls.kind.blocks * layer.output_dim
        return too_large([(one, other, max(features, wide))])

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.capturable = layer.sequences != "lengths"
        self.in_bf16 = len(layer.bottoms) == len(layer.tops) == 1 and not layer.time_major
        self.on_plain = not (self.in_bf16 and backend.compute == "bf16")

    @staticmethod
    def plain(array: Any) -> Array:
        return memory(array)

    def ready(self) -> None:
        super().ready()
        if self.layer.sequences == "cont":
            empty, constant = self.backend.empty, self.backend.constant
            self.known = scalars(self.backend)
            self.goes_on, self.fits = (empty((self.steps, self.images), "bool") for _ in range(2))
            self.numbers, self.counts = constant(np.arange(self.images), "float64"), empty((self.images,), "bool")

    def make_pieces(self) -> list[Piece]:
        return [self.make_piece(DeviceWork(self.backend, self.layer), slice(None), self.images)]

    def make_piece(self, work: Any, part: slice, images: int) -> Piece:
        made = super().make_piece(work, part, images)
        if self.layer.sequences != "cont":
            return made
        return Piece(part, MaskedCourse(work, self.steps, images), made.network)

    def _read_second(self, inputs: list[Any]) -> np.ndarray | None:
        """Write on the device where sequences begin, if that is told; return lengths."""
        if self.layer.sequences != "cont":
            return super()._read_second(inputs)
        xp, given = self.backend.xp, self.plain(inputs[1])
        cont = given if self.layer.time_major else given.T
        xp.equal(cont, 0, out=self.goes_on)
        xp.equal(cont, 1, out=self.fits)
        xp.logical_or(self.fits, self.goes_on, out=self.fits)
        xp.logical_not(self.goes_on, out=self.goes_on)
        if not self.layer.time_major:  # rows that are not real begin anew in every step
            xp.less(self.numbers, self.known[self.backend.scalars.place("rows")], out=self.counts)
            xp.logical_and(self.goes_on, self.counts, out=self.goes_on)
            xp.logical_not(self.counts, out=self.counts)
            xp.logical_or(self.fits, self.counts, out=self.fits)
        self.backend.require(self.layer.name, self.fits, lambda: self._wrong(given))
        (piece,) = self.pieces
        xp.copyto(piece.course.mask[:-1, :, 0], self.goes_on)
        return None

    def _wrong(self, given: Array) -> Exception:
        """Return the error of the first number that does not say whether a sequence begins."""
        rows = None if self.layer.time_major else self.backend.rows
        try:
            whole_numbers_of(self.layer, self.backend, self.layer.bottoms[1], given, rows, 1)
        except DataError as error:
            return error
        raise AssertionError(f"{self.layer.name}: every number of cont is right now")


class RNNKernel(RecurrentKernel, RNNState):
    """`RNNLayer` on a GPU."""

    kind = RNNOnDevice


class GRUKernel(RecurrentKernel, GRUState):
    """`GRULayer` on a GPU."""

    kind = GRUOnDevice


class LSTMKernel(RecurrentKernel, LSTMState):
    """`LSTMLayer` on a GPU."""

    kind = LSTMOnDevice
