"""RNN, GRU and LSTM: products over all steps by oneDNN, and the steps themselves by the helper, see recurrent.c."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from nacre import Array, Own, number_of_threads
from nacre_layers.recurrent.base import RecurrentState
from nacre_layers.recurrent.course import whole_numbers_of
from nacre_layers.recurrent.gru import GRUState
from nacre_layers.recurrent.lstm import LSTMState
from nacre_layers.recurrent.rnn import RNNState

from ..dnnl.primitives import Buffer, Call, Desc, HelperCall, pass_over, plain, reorder, too_large
from ..helper.native import CONSTANTS, LANES, helper, lanes, most_instructions
from ..helper.product import DEPTH, TOGETHER
from ..record import recorder, rounded_up
from .base import MISSING, Layouts, OnednnKernel
from .loss import LABELS
from .products import BOTTOM, GEMM, PACKED, PRODUCT, TOP, Products, in_pairs, own_ways

BY_UNITS, BY_IMAGES = "by units", "by images"
"""Ways of the steps: a thread has some units of the state, or some sequences."""


class RecurrentKernel(OnednnKernel, reads="inputs"):
    """Layers and directions one after the other; each has one product with x, all steps, and one product a gradient."""

    of: ClassVar[type[RecurrentState]]

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        native = helper()
        if native is None:
            return MISSING
        if native.nacre_use(most_instructions()) == CONSTANTS["ANY"]:
            return "needs a processor with AVX2"
        if getattr(layer, "reset_gate", "after") != "after":
            return "serves reset_gate='after'"
        if getattr(layer, "peepholes", False) or getattr(layer, "projection", 0):
            return "serves neither peepholes nor projections"
        if inputs[0].dtype != "float32" or len(inputs[0].shape) != 3:
            return "serves sequences of float32"
        if layer.sequences != "full" and inputs[1].dtype not in LABELS:
            return f"serves {layer.sequences} of {', '.join(LABELS)}, not {inputs[1].dtype}"
        if layer.sequences == "lengths" and inputs[1].dtype == "float32" and len(inputs[1].shape) > 1:
            return "serves lengths of float32 with one axis"  # others would be bf16 in some nets, and lose digits
        one, other, features = inputs[0].shape
        wide = cls.of.kind.blocks * layer.output_dim
        return too_large((one * other, max(features, wide)), (wide, max(features, layer.output_dim)))

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.plain = self.of(layer, backend, inputs, diffs)  # checks the shapes, and has what is carried
        self.parameters, self.blobs = self.plain.parameters, self.plain.blobs
        self.images, self.steps, self.hidden = self.plain.images, self.plain.steps, layer.output_dim
        self.rows, self.directions = self.images * self.steps, len(layer.directions)
        self.blocks, self.width = self.of.kind.blocks, self.of.kind.blocks * self.hidden
        self.train, self.dtype = self.phase == "train", backend.compute
        self.cell = CONSTANTS[f"CELL_{self.cell_name}"]
        self.units = rounded_up(self.hidden, CONSTANTS["RECURRENT_UNITS"])

    @property
    def cell_name(self) -> str:
        """The name of the cell in operations.h."""
        return self.of.kind.__name__.removesuffix("Recurrence").upper()

    # Buffers

    def ready(self) -> None:
        if self.layer.carry:
            empty, full = self.backend.empty, self.plain.full
            self.plain.carried, self.plain.next = ([empty(one) for one in full] for _ in range(2))
        super().ready()

    def buffers(self) -> dict[str, Array]:
        found = super().buffers()
        told, names = self.plain.told, self.layer.states
        carry = self.layer.carry
        for place, name in enumerate(names):
            begin, end, dbegin, dend = (
                _memory(blobs, start + place)
                for blobs, start in ((self.inputs, told), (self.blobs, 1), (self.diffs, told), (self.blobs_diff, 1))
            )
            found |= {f"begin {name}": begin, f"end {name}": end, f"dbegin {name}": dbegin, f"dend {name}": dend}
            if carry:
                found |= {f"begin {name}": self.plain.carried[place], f"next {name}": self.plain.next[place]}
        if told == 2:
            found["dsecond"] = _memory(self.diffs, 1)
        return {name: array for name, array in found.items() if array is not None}

    def _kept(self, name: str, index: int | str = "") -> str:
        """Return the name of a buffer that the gradient reads, or of scratch memory where there is none."""
        return f"{name if self.train else name.lower()} {index}".strip()

    def _matrix(self, columns: int, dtype: str = "") -> Desc:
        return plain(self.rows, columns, dtype=dtype or self.dtype)

    def _bottom(self, index: int) -> Buffer:
        """Return the bottom of a layer, as a matrix (rows, features)."""
        layer = index // self.directions
        if layer:
            return self._top(layer - 1)
        name = self._kept("Cleared x") if self._clears else self._kept("Narrow x") if self._narrows else "x"
        return name, self._matrix(self.plain.features)

    def _top(self, layer: int) -> Buffer:
        last = layer == self.layer.n_layer - 1
        return "y" if last else self._kept("Top", layer), self._matrix(self.directions * self.hidden)

    def _gradient_of_top(self, layer: int) -> str:
        if layer == self.layer.n_layer - 1:
            return "dy" if self.blobs_diff[0] is not None else ""
        return f"dtop {layer}"

    @property
    def _clears(self) -> bool:
        return self.layer.sequences == "lengths"

    @property
    def _narrows(self) -> bool:
        return self.inputs[0].dtype != self.dtype

    # Stages

    def passes(self) -> Mapping[str, tuple[str, ...]]:
        order = range(len(self.plain.named))
        forward = [f"{what} {index}" for index in order for what in ("inputs", "steps")]
        kinds = ("back", "weights", "hidden weights", "data")
        backward = [f"{kind} {index}" for index in reversed(order) for kind in kinds]
        return {"forward": ("copy", *forward, "last"), "backward": (*backward, "copy back")}

    def stages(self) -> list[str]:
        passes = self.passes()
        trained = self.train and any(one is not None for one in self.blobs_diff)
        both = [*passes["forward"], *(passes["backward"] if trained else ())]
        return [stage for stage in both if self._needed(stage)]

    def _needed(self, stage: str) -> bool:
        what, _, index = stage.rpartition(" ")
        if what in ("weights", "hidden weights"):
            return self._learns(int(index), "weight_ih" if what == "weights" else "weight_hh")
        if what == "data":
            return int(index) >= self.directions or self.diffs[0] is not None
        return True

    def ways_of(self, stage: str, layouts: Layouts) -> tuple[str, ...]:
        what = stage.rpartition(" ")[0]
        if what in ("steps", "back"):
            return (BY_UNITS, BY_IMAGES)
        ours = own_ways(self.dtype)
        if what in ("weights", "hidden weights"):
            return (*in_pairs(self.dtype), PACKED, GEMM, PRODUCT, TOP, BOTTOM, *ours)
        return (PACKED, GEMM, PRODUCT, *ours) if what in ("inputs", "data") else ("",)

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        what, _, index = stage.rpartition(" ")
        made: dict[str, Callable[[int, str], list[Call]]] = {
            "inputs": self._inputs, "steps": self._steps, "back": self._back, "weights": self._weights,
            "hidden weights": self._hidden_weights, "data": self._data,
        }  # fmt: skip
        if what in made:
            return made[what](int(index), way)
        return {"copy": self._copy, "last": self._last, "copy back": self._copy_back}[stage]()

    def _copy(self) -> list[Call]:
        """Return the calls that copy bottoms which are of another type, or have something behind their sequences."""
        calls: list[Call] = []
        for name in self._converted():
            calls += self._convert(f"begin {name}", "float32", self._kept(f"Begin {name}"), self.dtype)
        x, features = self.inputs[0], self.plain.features
        source, target = "x", self._bottom(0)[0]
        if self._narrows:
            source = self._kept("Narrow x")
            calls += reorder("x", self._matrix(features, x.dtype), source, self._matrix(features))
        if self._clears:
            size = self._matrix(features).bytes
            buffers = {"x": (source, size), "y": (target, size), "marks": ("Marks", self.rows)}
            calls.append(HelperCall(buffers, "recurrent_clear", {"rows": self.rows, "bytes": size // self.rows}))
        return calls

    def _converted(self) -> list[str]:
        """Return the names of the first states that are float32, but not the steps."""
        given = self.inputs[self.plain.told :]
        if self.dtype == "float32" or not (given or self.layer.carry):
            return []
        return [
            name for place, name in enumerate(self.layer.states) if self.layer.carry or given[place].dtype == "float32"
        ]

    def _convert(self, source: str, before: str, target: str, after: str) -> list[Call]:
        """Return the calls that copy states into another type."""
        shape = (self.images, len(self.plain.named) * self.hidden)
        return reorder(source, plain(*shape, dtype=before), target, plain(*shape, dtype=after))

    def _last(self) -> list[Call]:
        """Return the calls that copy the states that are carried, into the next ones and into the tops."""
        if not self.layer.carry:
            return []
        calls: list[Call] = []
        for place, name in enumerate(self.layer.states):
            if self.dtype != "float32":
                calls += self._convert(f"last {name}", self.dtype, f"next {name}", "float32")
            if len(self.blobs) > 1:
                calls += self._convert(f"next {name}", "float32", f"end {name}", self.blobs[1 + place].dtype)
        return calls

    def _inputs(self, index: int, way: str) -> list[Call]:
        suffix, named = self._suffix(index), self.plain.named[index]
        calls, bias = list[Call](), f"bias_ih{suffix}" if "bias_ih" in named else ""
        if "bias_hh" in named:
            both = 2 * self.hidden if self.blocks == 3 else self.width
            total, size = "Bias" if self.keeps else "bias", 4 * self.width
            buffers = {"x": (bias, size), "h": (f"bias_hh{suffix}", size), "sum": (f"{total} {index}", size)}
            numbers = {"size": self.width, "both": both}
            calls, bias = [HelperCall(buffers, "recurrent_bias", numbers, once=self.keeps)], f"{total} {index}"
        return [*calls, *self._products(index, backward=False).forward(way, f"weight_ih{suffix}", bias)]

    def _products(self, index: int, *, backward: bool) -> Products:
        gates = (
            ("gates", self._matrix(self.width))
            if backward
            else (self._of_inputs(index), self._matrix(self.width, "float32"))
        )
        return Products(self._bottom(index), gates, self.dtype, self.packed, keeps=self.keeps)

    def _of_inputs(self, index: int) -> str:
        """Return the buffer of the products with x: where the gates will be, if they are of the same type."""
        return f"Gates {index}" if self.train and self.blocks > 1 and self.dtype == "float32" else "gates"

    def _suffix(self, index: int) -> str:
        return self.plain.named[index]["weight_ih"].name.removeprefix("weight_ih")

    def _steps(self, index: int, way: str) -> list[Call]:
        suffix, layer, lstm = self._suffix(index), index // self.directions, self.blocks == 4
        size, rows = 2 if self.dtype == "bf16" else 4, self.rows * self.hidden
        laying, laid = self._laid(index, back=False)
        bias = f"bias_hh{suffix}" if self.blocks == 3 and "bias_hh" in self.plain.named[index] else ""
        top, desc = self._top(layer)
        buffers = {
            "inputs": (self._of_inputs(index), 4 * self.rows * self.width),
            "w": laid,
            "bias": (bias, 4 * self.width),
            "marks": self._marks(),
            "y": (top, desc.bytes),
            **self._state_buffers({"": "hidden", "cell_": "cell"}, ("begin", "end")),
            "scratch": self._scratch(),
            "tiles": self._tiles(self.units),
        }
        if self.train:
            gates = {"gates": (f"Gates {index}", size * self.rows * self.width)} if self.blocks > 1 else {}
            buffers |= {"before": (f"Before {index}", size * rows), **gates}
            buffers |= {"reset": (f"Reset {index}", size * rows)} if self.blocks == 3 else {}
            cells = {"cells": (f"Cells {index}", 4 * rows), "curves": (f"Curves {index}", size * rows)}
            buffers |= cells if lstm else {}
        numbers = {**self._numbers(index, way), "room": self._room(self.units), "keep": self.train}
        return [*laying, HelperCall(buffers, "recurrent", numbers, number_of_threads())]

    def _laid(self, index: int, *, back: bool) -> tuple[list[Call], tuple[str, int]]:
        """Return the calls that lay out the weights of the state, and their buffer."""
        name, weight = f"weight_hh{self._suffix(index)}", 4 * self.width * self.hidden
        laid = f"{'Laid' if self.keeps else 'laid'} {name}"
        room = 4 * self.blocks * self.units * (self.hidden + 1)
        numbers = {"hidden": self.hidden, "blocks": self.blocks, "back": back, "narrow": self.dtype == "bf16"}
        buffers = {"w": (name, weight), "packed": (laid, room)}
        return [HelperCall(buffers, "recurrent_weights", numbers, once=self.keeps)], (laid, room)

    def _marks(self) -> tuple[str, int]:
        return ("Marks" if self.layer.sequences != "full" else "", self.rows)

    def _scratch(self) -> tuple[str, int]:
        threads = number_of_threads()
        sums = 8 * threads * (self.blocks + 1) * self.hidden
        return "scratch", 4 * self.units * (3 * self.images + 1 + threads) + sums

    def _tiles(self, length: int) -> tuple[str, int]:
        """Return the memory for rows that are multiplied, of so many numbers, and for their products."""
        return "tiles", 4 * number_of_threads() * self._room(length)

    def _room(self, length: int) -> int:
        """Return how many numbers of it a thread has."""
        products = self.blocks * TOGETHER * LANES * 2 * lanes()
        return TOGETHER * (length * lanes() + LANES) + max(products, CONSTANTS["RECURRENT_PRODUCTS"])

    def _state_buffers(self, names: Mapping[str, str], kinds: tuple[str, ...]) -> dict[str, tuple[str, int]]:
        """Return the buffers of first and last states, or of their gradients, as far as they are there."""
        there = {
            "begin": self.layer.carry or len(self.inputs) > self.plain.told,
            "end": self.layer.carry or len(self.blobs) > 1,
            "dend": len(self.blobs_diff) > 1,
            "dbegin": len(self.diffs) > self.plain.told,
        }
        found: dict[str, tuple[str, int]] = {}
        for prefix, name in names.items():
            if name not in self.layer.states:
                continue
            place = self.layer.states.index(name)
            for kind in kinds:
                size = 4 * self.images * len(self.plain.named) * self.hidden
                present = there[kind]
                if kind == "dend":
                    present = present and self.blobs_diff[1 + place] is not None
                if kind == "dbegin":
                    present = present and self.diffs[self.plain.told + place] is not None
                found[f"{prefix}{kind}"] = (self._state(kind, name) if present else "", size)
        return found

    def _state(self, kind: str, name: str) -> str:
        """Return the buffer of a state, or of its gradient, as the steps read or write it."""
        if kind == "end" and self.layer.carry:
            return f"next {name}" if self.dtype == "float32" else f"last {name}"
        if name in self._converted() and kind in ("begin", "dbegin"):
            return self._kept(f"Begin {name}") if kind == "begin" else f"narrow dbegin {name}"
        return f"{kind} {name}"

    def _numbers(self, index: int, way: str) -> dict[str, float]:
        direction = index % self.directions
        return {
            "cell": self.cell, "blocks": self.blocks, "steps": self.steps, "images": self.images,
            "hidden": self.hidden, **self._strides(), "y_width": self.directions * self.hidden,
            "y_at": direction * self.hidden, "state_width": len(self.plain.named) * self.hidden,
            "state_at": index * self.hidden, "backward": self.layer.directions[direction],
            "by_images": way == BY_IMAGES, "narrow": self.dtype == "bf16",
        }  # fmt: skip

    def _strides(self) -> dict[str, int]:
        major = self.layer.time_major
        return {"image_rows": 1 if major else self.steps, "step_rows": self.images if major else 1}

    # Backward

    def _back(self, index: int, way: str) -> list[Call]:
        layer, size = index // self.directions, 2 if self.dtype == "bf16" else 4
        laying, laid = self._laid(index, back=True)
        rows, wide = self.rows * self.hidden, self.rows * self.width
        top, desc = self._top(layer)
        buffers = {
            "gates": (f"Gates {index}" if self.blocks > 1 else "", size * wide),
            "before": (f"Before {index}", size * rows),
            "w": laid,
            "marks": self._marks(),
            "y": (top, desc.bytes),
            "dy": (self._gradient_of_top(layer), desc.bytes),
            "dgates": ("gates", size * wide),
            **self._state_buffers({"": "hidden", "cell_": "cell"}, ("dend", "dbegin")),
            "scratch": self._scratch(),
            "tiles": self._tiles(DEPTH),
        }
        suffix = self._suffix(index)
        for operand, name in (("dbias", "bias_ih"), ("dbias_state", "bias_hh")):
            buffers[operand] = (f"d{name}{suffix}" if self._learns(index, name) else "", 4 * self.width)
        if self.blocks == 3:
            buffers |= {"reset": (f"Reset {index}", size * rows), "dproducts": ("dproducts", size * wide)}
        if self.blocks == 4:
            begin = self._state_buffers({"cell_": "cell"}, ("begin", "end"))["cell_begin"]
            buffers |= {
                "cells": (f"Cells {index}", 4 * rows),
                "curves": (f"Curves {index}", size * rows),
                "cell_begin": begin,
            }
        numbers = {**self._numbers(index, way), "room": self._room(DEPTH)}
        return [*laying, HelperCall(buffers, "recurrent_gradient", numbers, number_of_threads())]

    def _weights(self, index: int, way: str) -> list[Call]:
        return self._products(index, backward=True).weights(way, f"dweight_ih{self._suffix(index)}")

    def _hidden_weights(self, index: int, way: str) -> list[Call]:
        products = ("dproducts" if self.blocks == 3 else "gates", self._matrix(self.width))
        before = (f"Before {index}", self._matrix(self.hidden))
        return Products(before, products, self.dtype, self.packed, keeps=False).weights(
            way, f"dweight_hh{self._suffix(index)}"
        )

    def _learns(self, index: int, name: str) -> bool:
        one = self.plain.named[index].get(name)
        return one is not None and one.gradient is not None

    def _data(self, index: int, way: str) -> list[Call]:
        layer, direction = divmod(index, self.directions)
        target = f"dtop {layer - 1}" if layer else "narrow dx" if self._narrows else "dx"
        result = target if direction == self.directions - 1 else "other dx"
        calls = self._products(index, backward=True).data(way, f"weight_ih{self._suffix(index)}", result)
        if self.directions == 2 and not direction:
            x = self._bottom(index)[1]
            calls.append(pass_over("add", {"one": target, "other": result, "y": target}, x, relu=False))
        return calls

    def _copy_back(self) -> list[Call]:
        calls: list[Call] = []
        if self._narrows and self.diffs[0] is not None:
            features = self.plain.features
            calls = reorder("narrow dx", self._matrix(features), "dx", self._matrix(features, self.inputs[0].dtype))
        for name in self._converted():
            if self._state_buffers({"": name}, ("dbegin",))["dbegin"][0]:
                calls += self._convert(f"narrow dbegin {name}", self.dtype, f"dbegin {name}", "float32")
        if self.plain.told == 2 and self.diffs[1] is not None:
            second = plain(*self.diffs[1].shape, dtype=self.diffs[1].dtype)
            calls += reorder("Zeros", second, "dsecond", second)
        return calls

    # What the net calls

    def forward(self, inputs: list[Own]) -> None:
        if self.layer.sequences != "full":
            self._mark(inputs[1].memory)
        super().forward(inputs)

    def _mark(self, given: Array) -> None:
        """Record the operation that reads lengths or cont."""
        layer, scalars, record = self.layer, self.backend.scalars, recorder(self.backend).record
        most = self.steps if layer.sequences == "lengths" else 1
        narrow = self.inputs[1].dtype == "bf16"

        def refuse() -> None:
            real = None if layer.time_major else self.backend.rows
            values = given.reshape(self.inputs[1].shape)
            if narrow:
                values = (values.astype(np.uint32) << 16).view(np.float32)
            whole_numbers_of(layer, self.backend, layer.bottoms[1], values, real, most)

        numbers = {
            "given_type": CONSTANTS["LABEL_BF16"] if narrow else LABELS[self.inputs[1].dtype],
            "lengths": layer.sequences == "lengths",
            "rows": -1 if layer.time_major else scalars.place("rows"), "steps": self.steps, "images": self.images,
            **self._strides(),
        }  # fmt: skip
        arrays = {"given": given, "scalars": record.read(scalars), "marks": self.own["Marks"]}
        record.add("recurrent_marks", arrays, numbers, refuse)

    # The state that is carried

    def advance(self) -> None:
        self.plain.advance()

    def rewind(self) -> None:
        self.plain.rewind()

    def memory(self) -> Mapping[str, Any]:
        return self.plain.memory()

    def remember(self, memory: Mapping[str, Any]) -> str | None:
        return self.plain.remember(memory)


def _memory(blobs: list[Any], place: int) -> Array | None:
    return blobs[place].memory if place < len(blobs) and blobs[place] is not None else None


class RNNKernel(RecurrentKernel, reads="inputs blobs"):
    """`RNNLayer` of onednn."""

    of = RNNState

    @property
    def cell_name(self) -> str:
        return self.layer.activation.upper()


class GRUKernel(RecurrentKernel):
    """`GRULayer` of onednn."""

    of = GRUState


class LSTMKernel(RecurrentKernel):
    """`LSTMLayer` of onednn."""

    of = LSTMState
