"""LSTM: long short-term memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from nacre import Array, Parameter, non_negative, part_of, positive

from ..cutting import cut_field, uncut
from .base import RecurrentLayer, RecurrentState
from .recurrence import Recurrence


class LSTMLayer(RecurrentLayer):
    """c_t = f c_{t-1} + i g and h_t = o tanh(c_t), with the gates i, f and o and the proposal g.

    i, f, o = σ(W x_t + R h_{t-1} + b) and g = tanh(W_g x_t + R_g h_{t-1} + b_g), each with weights of its own; their
    blocks of the weights are i, f, g, o, as in PyTorch. With `peepholes`, p_i c_{t-1}, p_f c_{t-1} and p_o c_t are
    added inside of σ: `peephole` is (3, output_dim), in the order i, f, o. With `projection` the state is h_t = W_hr (o
    tanh(c_t)), and has so many numbers. Hochreiter and Schmidhuber, "Long short-term memory", 1997; Gers, Schraudolph
    and Schmidhuber, "Learning precise timing with LSTM recurrent networks", 2002.

    The bottom is a batch of sequences, (images, steps, features), the top the states h of every step, (images, steps,
    output_dim). What all recurrent layers have in common (several layers, both directions, first and last states,
    lengths, carried states, names of parameters) is in docs/recurrent.md.

    Example:
        [[layer]]
        type = "LSTM"
        bottoms = ["x"]  # (8, 20, 16)
        tops = ["h"]  # (8, 20, 32)
        output_dim = 32
    """

    states = ("hidden", "cell")

    peepholes: Annotated[bool, "whether the gates see the cells too"] = False
    projection: Annotated[int, non_negative, "size of the state h if it is a projection; 0: there is none"] = 0

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if self.projection >= self.output_dim:
            yield f"projection={self.projection}, but it must be below output_dim={self.output_dim}"

    @property
    def size(self) -> int:
        return self.projection or self.output_dim

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return self.size, self.output_dim

    def further_parameters(self, suffix: str) -> list[Parameter]:
        made = [self.weight(f"weight_hr{suffix}", (self.size, self.output_dim))] if self.projection else []
        if self.peepholes:
            made.append(self.vector(f"peephole{suffix}", (3, self.output_dim)))
        return made

    def partition(self, part: int, parts: int) -> LSTMLayer:
        plain = ("n_layer", "direction", "sequences", "carry", "projection")
        for name in plain:
            if name in self.given():
                raise uncut(self, f"{name}={getattr(self, name)!r}")
        if len(self.bottoms) + len(self.tops) > 2:
            raise uncut(self, "first and last states are bottoms and tops")
        values = {
            field.name: getattr(cut_field(self, "output_dim", part, parts), field.name) for field in self.fields()
        }
        return LSTMPartLayer(**values, whole_dim=self.output_dim, start=part_of(self.output_dim, part, parts)[0])


class LSTMPartLayer(LSTMLayer):
    """The numbers from `start` on of an LSTM of `whole_dim` numbers; the others are on other ranks.

    Every step needs the state h of all ranks, and so does its gradient: they are exchanged in each.
    """

    whole_dim: Annotated[int, positive, "output_dim of the whole layer"]
    start: Annotated[int, non_negative, "the first of its numbers here"]

    @property
    def size(self) -> int:
        return self.whole_dim

    @property
    def width(self) -> int:
        return self.output_dim


class LSTMRecurrence(Recurrence):
    """One LSTM in one direction. `gates` keep i, f, g and o."""

    blocks = 4

    def __init__(self, work: Any, layer: Any, shape: tuple[int, int, int], *, backward: bool, keep: bool) -> None:
        super().__init__(work, layer, shape, backward=backward, keep=keep)
        self.tanh_c = self.kept_steps(self.hidden)
        self.whole = self.kept(self.hidden) if layer.projection and keep else None  # o tanh(c), before the projection
        self.wholes = None
        if layer.projection:
            self.wholes = self.kept_steps(self.hidden) if self.whole is None else list(self.whole)

    def factors(self) -> Sequence[float]:
        return [0.5, 0.5, 1.0, 0.5]

    def prepare(self) -> None:
        scale, shift = self.pack("scale", (self.width,)), self.pack("shift", (self.width,))
        scale[...] = shift[...] = 0.5
        part = slice(2 * self.hidden, 3 * self.hidden)
        scale[part], shift[part] = 1, 0
        if self.layer.peepholes:
            self.xp.multiply(self.weights["peephole"], 0.5, out=self.pack("peephole", (3, self.hidden)))

    def step(self, t: int, gates: Array, w_h: Array, old: list[Array], new: list[Array]) -> None:
        xp, (h, c), (h_new, c_new) = self.xp, old, new
        tanh_c = self.tanh_c[t][: h.shape[0]]
        product = self.temporary(gates, "product")
        xp.matmul(h, w_h, out=product)
        xp.add(gates, product, out=gates)
        i, f, g, o = (self.columns(gates, block) for block in range(4))
        part = self.columns(product, 0)
        if self.layer.peepholes:
            for place, gate in enumerate((i, f)):
                xp.multiply(c, self.packed["peephole"][place], out=part)
                xp.add(gate, part, out=gate)
            self.activate(self.columns(gates, 0, 3), 3)
        else:
            self.activate(gates, 4)
        xp.multiply(i, g, out=part)
        xp.multiply(f, c, out=c_new)
        xp.add(c_new, part, out=c_new)
        if self.layer.peepholes:
            xp.multiply(c_new, self.packed["peephole"][2], out=part)
            xp.add(o, part, out=o)
            self.logistic(o)
        xp.tanh(c_new, out=tanh_c)
        if self.wholes is None:
            xp.multiply(o, tanh_c, out=h_new)
        else:
            whole = self.wholes[t][: h.shape[0]]
            xp.multiply(o, tanh_c, out=whole)
            xp.matmul(whole, self.weights["weight_hr"].T, out=h_new)

    def activate(self, gates: Array, blocks: int) -> None:
        """Apply the functions of the first blocks, in one pass."""
        xp, width = self.xp, blocks * self.hidden
        xp.tanh(gates, out=gates)
        xp.multiply(gates, self.packed["scale"][:width], out=gates)
        xp.add(gates, self.packed["shift"][:width], out=gates)

    def step_back(
        self, t: int, dgates: Array, products: Array, old: list[Array], new: list[Array], states: list[Array]
    ) -> None:
        xp, (_, c), (dh, dc) = self.xp, old, states
        count = c.shape[0]
        gates, tanh_c = self.gates[t][:count], self.tanh_c[t][:count]
        i, f, g, o = (self.columns(gates, block) for block in range(4))
        di, df, dg, do = (self.columns(dgates, block) for block in range(4))
        part = self.temporary(c, "part")
        whole = dh
        if self.wholes is not None:
            projected = self.projected()[t][:count]
            xp.copyto(projected, dh)
            whole = self.temporary(c, "dwhole")
            xp.matmul(dh, self.weights["weight_hr"], out=whole)
        self.slope(gates, dgates)
        self.tanh_slope(g, dg)
        xp.multiply(whole, tanh_c, out=part)
        xp.multiply(do, part, out=do)
        self.tanh_slope(tanh_c, part)
        xp.multiply(part, o, out=part)
        xp.multiply(part, whole, out=part)
        xp.add(dc, part, out=dc)
        if self.layer.peepholes:
            xp.multiply(do, self.weights["peephole"][2], out=part)
            xp.add(dc, part, out=dc)
        for gate, other in ((di, g), (df, c), (dg, i)):
            xp.multiply(gate, other, out=gate)
            xp.multiply(gate, dc, out=gate)
        xp.multiply(dc, f, out=dc)
        if self.layer.peepholes:
            for place, gate in enumerate((di, df)):
                xp.multiply(gate, self.weights["peephole"][place], out=part)
                xp.add(dc, part, out=dc)
        self.give_back(dgates, dh)

    def give_back(self, dgates: Array, dh: Array) -> None:
        """Write the gradient of the state before the step."""
        self.product_back(dgates, "weight_hh", dh)

    def projected(self) -> Array:
        """Return the memory for the gradients of the projections."""
        return self.work.scratch((self.steps, self.images, self.size), slot="projected")

    def weight_gradients(self, x: Array, dgates: Array, products: Array, gradients: dict[str, Array | None]) -> None:
        super().weight_gradients(x, dgates, products, gradients)
        if (gradient := gradients.get("weight_hr")) is not None:
            assert self.whole is not None
            projected = self.projected()
            self.course.clear(projected)
            self.course.clear(self.whole)
            self.product(projected.reshape(-1, self.size), self.whole.reshape(-1, self.hidden), gradient)
        if (gradient := gradients.get("peephole")) is not None:
            cells = self.series[1].base
            read, written = (cells[1:], cells[:-1]) if self.backward_in_time else (cells[:-1], cells[1:])
            if (mask := self.course.mask) is not None:
                read = self.masked_cells(read, mask)
            for place, (block, cell) in enumerate(((0, read), (1, read), (3, written))):
                part = self.work.scratch(cell.shape, slot="cells")
                self.xp.multiply(dgates[:, :, block * self.hidden : (block + 1) * self.hidden], cell, out=part)
                self.sum(part.reshape(-1, self.hidden), gradient[place])

    def masked_cells(self, read: Array, mask: Array) -> Array:
        """Return the cells that the steps have read."""
        out = self.work.scratch(read.shape, slot="masked cells")
        self.xp.multiply(read, mask[1:] if self.backward_in_time else mask[:-1], out=out)
        return out


class LSTMState(RecurrentState, of=LSTMLayer, reads="inputs"):
    """`LSTMLayer` on any backend."""

    kind = LSTMRecurrence


class LSTMPartRecurrence(LSTMRecurrence):
    """A part of the numbers of an LSTM, on one of several ranks."""

    def shown(self, state: Array) -> Array:
        return state[..., self.layer.start : self.layer.start + self.hidden]

    def step(self, t: int, gates: Array, w_h: Array, old: list[Array], new: list[Array]) -> None:
        own = self.temporary(new[1], "own")
        super().step(t, gates, w_h, old, [own, new[1]])
        new[0][...] = 0
        self.xp.copyto(self.shown(new[0]), own)
        self.add_up(new[0])

    def step_back(
        self, t: int, dgates: Array, products: Array, old: list[Array], new: list[Array], states: list[Array]
    ) -> None:
        own = self.temporary(states[1], "down")
        self.xp.copyto(own, self.shown(states[0]))
        super().step_back(t, dgates, products, old, new, [own, states[1]])
        super().give_back(dgates, states[0])
        self.add_up(states[0])

    def give_back(self, dgates: Array, dh: Array) -> None:
        """Do nothing: the gradient is not only that of this rank's columns."""

    def add_up(self, state: Array) -> None:
        """Replace what this rank has of a state by the sum of all ranks'."""
        view = self.work.backend
        if view.backend.on_host:
            view.between.allreduce(state)
        else:
            host = view.to_host(state)
            view.between.allreduce(host)
            view.from_host(host, state)


class LSTMPartState(RecurrentState, of=LSTMPartLayer, reads="inputs"):
    """`LSTMPartLayer` on any backend."""

    kind = LSTMPartRecurrence
