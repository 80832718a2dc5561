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
from nacre_layers.recurrent.network import Piece
from nacre_layers.recurrent.recurrence import Recurrence, first
from nacre_layers.recurrent.rnn import RNNRecurrence, RNNState

from .launch import LANES, TYPES, launch, memory, scalars, too_large

FUNCTIONS = {"Tanh": "Bent", "ReLU": "Cut"}
"""Those of RNN, and what recurrent.cu calls them."""


class OnDevice(Recurrence):
    """A recurrence whose weights are multiplied as they lie, and whose gates are computed by a kernel.

    In a net that computes in bf16 products are in TF32, which has more digits; all else, and what is kept, in float32.
    """

    def __init__(self, work: Any, layer: Any, shape: tuple[int, int, int], *, backward: bool, keep: bool) -> None:
        super().__init__(work, layer, shape, backward=backward, keep=keep)
        if work.backend.compute == "bf16":
            self.xp = work.backend.backend.in_tf32

    def forward(self, x: Array, weights: dict[str, Array], course: Course, begin: Sequence[Array | None]) -> None:
        self.begin(weights, course)
        flat = self.gates.reshape(-1, self.width)
        self.xp.matmul(x.reshape(-1, self.features), weights["weight_ih"].T, out=flat)
        self.take_steps(course, begin, weights["weight_hh"].T)

    def product_with(self, state: Array, w_h: Array, gates: Array) -> Array:
        """Return the products of all blocks with a state."""
        product = self.temporary(gates, "product")
        self.xp.matmul(state, w_h, out=product)
        return product

    @property
    def biases(self) -> tuple[Array | None, Array | None]:
        """Those of the input and of the state."""
        return self.weights.get("bias_ih"), self.weights.get("bias_hh")

    def launch(self, kernel: str, like: Array, *arrays: Any) -> None:
        """Enqueue a kernel for a step, with `like` of the shape (sequences, hidden)."""
        kind = TYPES[str(like.dtype)]
        rows, hidden = like.shape
        items = rows * hidden // (LANES[kind] if hidden % LANES[kind] == 0 else 1)
        name, _, function = kernel.partition(" ")
        expression = f"{name}<{kind}, {function}>" if function else f"{name}<{kind}>"
        launch(self.work.backend, "recurrent", expression, items, *arrays, rows, hidden)


class LSTMOnDevice(OnDevice, LSTMRecurrence):
    """One LSTM in one direction."""

    def step(self, t: int, gates: Array, w_h: Array, old: list[Array], new: list[Array]) -> None:
        (h, c), (h_new, c_new) = old, new
        product = self.product_with(h, w_h, gates)
        whole = h_new if self.wholes is None else first(self.wholes[t], h.shape[0])
        cells = c, c_new, first(self.tanh_c[t], h.shape[0])
        self.launch("lstm_forward", c, gates, product, *self.biases, self.weights.get("peephole"), *cells, whole)
        if self.wholes is not None:
            self.xp.matmul(whole, self.weights["weight_hr"].T, out=h_new)

    def step_back(
        self, t: int, dgates: Array, products: Array, old: list[Array], new: list[Array], states: list[Array]
    ) -> None:
        (_, c), (dh, dc) = old, states
        count, whole = c.shape[0], dh
        if self.wholes is not None:
            self.xp.copyto(first(self.projected()[t], count), dh)
            whole = self.temporary(c, "dwhole")
            self.xp.matmul(dh, self.weights["weight_hr"], out=whole)
        kept = first(self.gates[t], count), first(self.tanh_c[t], count)
        self.launch("lstm_backward", c, *kept, c, self.weights.get("peephole"), whole, dc, dgates)
        self.give_back(dgates, dh)


class GRUOnDevice(OnDevice, GRURecurrence):
    """One GRU in one direction, whose gate r multiplies the product with the state."""

    def step(self, t: int, gates: Array, w_h: Array, old: list[Array], new: list[Array]) -> None:
        (h,), (out,) = old, new
        product = self.product_with(h, w_h, gates)
        self.launch("gru_forward", h, gates, product, *self.biases, h, first(self.resets[t], h.shape[0]), out)

    def step_back(
        self, t: int, dgates: Array, products: Array, old: list[Array], new: list[Array], states: list[Array]
    ) -> None:
        (h,), (dh,) = old, states
        count, direct = h.shape[0], self.temporary(h, "part")
        kept = first(self.gates[t], count), first(self.resets[t], count)
        self.launch("gru_backward", h, *kept, h, dh, direct, dgates, products)
        self.xp.matmul(products, self.weights["weight_hh"], out=dh)
        self.xp.add(dh, direct, out=dh)


class RNNOnDevice(OnDevice, RNNRecurrence):
    """One RNN in one direction."""

    def step(self, t: int, gates: Array, w_h: Array, old: list[Array], new: list[Array]) -> None:
        product = self.product_with(old[0], w_h, gates)
        self.launch(f"rnn_forward {FUNCTIONS[self.layer.activation]}", new[0], gates, product, *self.biases, new[0])

    def step_back(
        self, t: int, dgates: Array, products: Array, old: list[Array], new: list[Array], states: list[Array]
    ) -> None:
        self.launch(f"rnn_backward {FUNCTIONS[self.layer.activation]}", new[0], new[0], states[0], dgates)
        self.xp.matmul(dgates, self.weights["weight_hh"], out=states[0])


class MaskedCourse(Course):
    """The course of sequences whose first steps are told by an array on the device, in every pass."""

    def __init__(self, work: Any, steps: int, images: int) -> None:
        super().__init__(work, steps, images)
        self.mask = work.empty((steps + 1, images, 1))
        self.mask[-1] = 1
        self.masks = [*(self.mask[t] for t in range(steps)), None]


class RecurrentKernel(RecurrentState, on_plain=True, capturable=True, dtypes=("float32", "float64")):
    """A recurrent state whose steps are captured, unless the sequences have lengths: the host has to know these."""

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
