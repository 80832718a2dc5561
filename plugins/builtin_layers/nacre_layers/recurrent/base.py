"""The common code of RNN, GRU and LSTM: fields, bottoms and tops, parameters, and the state that is carried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from nacre import Array, ConfigError, Initializer, LayerState, Names, Parameter, at_least, positive

from ..fields import Biased, WeightFields
from ..initializers import Orthogonal, Pretrained
from .course import Course, whole_numbers_of
from .network import Network, Piece, States, Work
from .recurrence import Recurrence


class ByBlock(Initializer):
    """The values of `init` for each block of rows by itself, so that its fans are those of one gate."""

    init: Initializer
    blocks: int

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        block = (shape[0] // self.blocks, *shape[1:])
        draws: list[Any] = [_Draws(random, 16 * n) for n in range(self.blocks)]
        return np.concatenate([self.init.values(one, block) for one in draws])


class _Draws:
    """The random numbers of a parameter from another draw on."""

    def __init__(self, random: Any, start: int) -> None:
        self.random, self.start = random, start

    def generator(self, draw: int = 0) -> np.random.Generator:
        return self.random.generator(self.start + draw)


class RecurrentLayer(WeightFields, Biased, has_param=True, can_do_bp=True, connection="one_to_all"):
    """The fields of RNN, GRU and LSTM."""

    feature_axis = -1

    states: ClassVar[tuple[str, ...]] = ("hidden",)
    """The names of the states that go from step to step."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "units": "output_dim",
        "hidden_size": "output_dim",
        "num_layers": "n_layer",
        "bidirectional": "direction",
        "batch_first": "time_major",
        "stateful": "carry",
    }

    bottoms: Annotated[Names, at_least(1), "the sequences; then, if told, lengths or cont; then the first states"]
    tops: Annotated[Names, at_least(1), "the state of every step; then, if wanted, the last states"]
    output_dim: Annotated[int, positive, "size of the state, and of the top"]
    n_layer: Annotated[int, positive, "number of layers, one above the other"] = 1
    direction: Annotated[
        Literal["forward", "backward", "both"], "from the first step to the last, back, or both side by side"
    ] = "forward"
    sequences: Annotated[
        Literal["full", "lengths", "cont"],
        "all steps count; or the second bottom has their number; or it is 0 where a sequence begins, else 1",
    ] = "full"
    time_major: Annotated[bool, "whether sequences are (steps, images, features)"] = False
    carry: Annotated[bool, "begin each batch with the last states of the one before"] = False
    hidden_bias: Annotated[bool, "whether the products with the state have a bias of their own, as in PyTorch"] = True
    hidden_init: Annotated[Initializer, "first values of the weights of the state"] = Orthogonal()

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        count, told, states = len(self.bottoms), 1 + (self.sequences != "full"), len(self.states)
        if count not in (told, told + states):
            needed = "the sequences" + f", {self.sequences}" * (told - 1)
            yield f"bottoms={self.bottoms}, but they must be {needed}, and perhaps {states} for the first states"
        if len(self.tops) not in (1, 1 + states):
            yield f"tops={self.tops}, but there must be 1, or {1 + states} with the last states"
        if self.carry and count > told:
            yield "carry=True, but bottoms have the first states: leave one of the two out"
        if self.carry and self.direction != "forward":
            yield f"carry=True, but direction='{self.direction}' begins with the last step"

    @property
    def directions(self) -> tuple[bool, ...]:
        """For each direction whether it goes backward."""
        return {"forward": (False,), "backward": (True,), "both": (False, True)}[self.direction]

    def not_by_records(self) -> str:
        return "time_major=True counts steps along axis 0" if self.time_major else ""

    def multiplications(self, bottoms: Any, tops: Any, parameters: Any) -> int:
        return prod(bottoms[0][:2]) * sum(prod(shape) for name, shape in parameters.items() if "weight" in name)

    @property
    def size(self) -> int:
        """The size of the state that is the output."""
        return self.output_dim

    @property
    def width(self) -> int:
        """How many numbers of the output stand in the top, for each direction."""
        return self.size

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.output_dim,)

    def weight(self, name: str, shape: tuple[int, int], blocks: int = 1, init: Initializer | None = None) -> Parameter:
        """Declare a matrix of some blocks of rows."""
        made, init = Parameter.of(self, "weight", shape), init or self.weight_init
        made.name, made.blocks = name, blocks
        made.init = init if isinstance(init, Pretrained) else ByBlock(init=init, blocks=blocks)
        return made

    def vector(self, name: str, shape: tuple[int, ...], blocks: int = 1) -> Parameter:
        """Declare a parameter with the fields of the bias."""
        made = Parameter.of(self, "bias", shape)
        made.name, made.blocks = name, blocks
        return made

    def further_parameters(self, suffix: str) -> list[Parameter]:
        """Declare what one layer in one direction has besides both weights and biases."""
        return []


def declare(layer: RecurrentLayer, blocks: int, features: int) -> list[dict[str, Parameter]]:
    """Declare the parameters: for each layer and direction, by their names in PyTorch without the suffix."""
    made: list[dict[str, Parameter]] = []
    for number in range(layer.n_layer):
        for backward in layer.directions:
            suffix = f"_l{number}" + "_reverse" * backward
            wide, width = blocks * layer.output_dim, features if not number else layer.size * len(layer.directions)
            parameters = [
                layer.weight(f"weight_ih{suffix}", (wide, width), blocks),
                layer.weight(f"weight_hh{suffix}", (wide, layer.size), blocks, layer.hidden_init),
            ]
            if layer.bias:
                parameters.append(layer.vector(f"bias_ih{suffix}", (wide,), blocks))
                if layer.hidden_bias:
                    parameters.append(layer.vector(f"bias_hh{suffix}", (wide,), blocks))
            parameters += layer.further_parameters(suffix)
            made.append({one.name.removesuffix(suffix): one for one in parameters})
    return made


class RecurrentState(LayerState, reads="inputs"):
    """RNN, GRU or LSTM on any backend; a subclass says what one recurrence is."""

    kind: ClassVar[type[Recurrence]]

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        shape = tuple(inputs[0].shape)
        if len(shape) != 3:
            axes = "(steps, images, features)" if layer.time_major else "(images, steps, features)"
            raise ConfigError(f"{layer.name}: bottom '{layer.bottoms[0]}' has the shape {shape}, but must be {axes}")
        self.steps, self.images = shape[:2] if layer.time_major else (shape[1], shape[0])
        self.features, several = shape[2], layer.n_layer * len(layer.directions)
        self.named = declare(layer, self.kind.blocks, self.features)
        self.parameters = [one for parameters in self.named for one in parameters.values()]
        self.full = [(self.images, several, size) for size in layer.state_sizes]
        shapes = [one if several > 1 else one[::2] for one in self.full]
        self._check_bottoms(inputs, shapes)
        width = layer.width * len(layer.directions)
        self.blobs = [backend.blob((*shape[:2], width)), *map(backend.blob, shapes[: len(layer.tops) - 1])]

    def _check_bottoms(self, inputs: list[Any], states: list[tuple[int, ...]]) -> None:
        layer, told = self.layer, self.layer.sequences != "full"
        wanted = [tuple(inputs[0].shape[:2])] if layer.sequences == "cont" else [(self.images,), (self.images, 1)]
        needed = [wanted] * told + [[one] for one in states[: len(inputs) - 1 - told]]
        for name, one, shapes in zip(layer.bottoms[1:], inputs[1:], needed, strict=True):
            if tuple(one.shape) not in shapes:
                raise ConfigError(
                    f"{layer.name}: bottom '{name}' has the shape {tuple(one.shape)}, but must be "
                    f"{' or '.join(map(str, shapes))} beside '{layer.bottoms[0]}' of shape {tuple(inputs[0].shape)}"
                )

    def ready(self) -> None:
        self.pieces = self.make_pieces()
        if self.layer.carry:
            self.carried, self.next = ([self.backend.empty(one) for one in self.full] for _ in range(2))

    def make_pieces(self) -> list[Piece]:
        """Return the pieces of the batch; a kernel may have several, which it works on side by side."""
        return [self.make_piece(Work(self.backend), slice(None), self.images)]

    def make_piece(self, work: Any, part: slice, images: int) -> Piece:
        """Return a piece of the batch: these of its sequences."""
        keep = self.phase == "train"  # then the gates are kept for backward
        network = Network(work, self.layer, self.kind, (self.steps, images, self.features), keep=keep)
        return Piece(part, Course(work, self.steps, images), network)

    def for_each_piece(self, run: Callable[[int, Piece], None]) -> None:
        """Call a function for every piece."""
        for number, piece in enumerate(self.pieces):
            run(number, piece)

    @staticmethod
    def plain(array: Any) -> Array:
        """Return the array of an entry of `inputs`, `diffs`, `blobs` or `blobs_diff`, or None."""
        return array

    @property
    def told(self) -> int:
        """The place of the first states among the bottoms."""
        return 1 + (self.layer.sequences != "full")

    def _states(self, arrays: list[Any], start: int) -> States:
        """Return the states among bottoms, tops or their gradients as (images, layers · directions, size)."""
        given = [self.plain(one) for one in arrays[start:]] or [None] * len(self.full)
        return [None if one is None else one.reshape(shape) for one, shape in zip(given, self.full, strict=True)]

    def _read_second(self, inputs: list[Any]) -> np.ndarray | None:
        """Return the lengths (images,), or the numbers of cont (images, steps), from the second bottom; or None."""
        layer = self.layer
        if layer.sequences == "full":
            return None
        real = None if layer.time_major else self.backend.rows
        most = self.steps if layer.sequences == "lengths" else 1
        numbers = whole_numbers_of(layer, self.backend, layer.bottoms[1], self.plain(inputs[1]), real, most)
        if layer.sequences == "lengths":
            return numbers.reshape(-1)
        return numbers.T if layer.time_major else numbers

    def forward(self, inputs: list[Any]) -> None:
        tops, second = self._states(self.blobs, 1), self._read_second(inputs)
        begin, end = (self.carried, self.next) if self.layer.carry else (self._states(inputs, self.told), tops)
        weights = [{name: one.blob for name, one in parameters.items()} for parameters in self.named]
        x, y = self.plain(inputs[0]), self.plain(self.blobs[0])

        def run(number: int, piece: Piece) -> None:
            piece.read(second, self.layer.sequences)
            piece.forward(x, y, weights, begin, end)

        self.for_each_piece(run)
        for state, top in zip(end, tops, strict=True):
            if self.layer.carry and top is not None:
                self.backend.xp.copyto(top, state)

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        dbegin, dend = self._states(diffs, self.told), self._states(self.blobs_diff, 1)
        x, dy, dx = self.plain(inputs[0]), self.plain(self.blobs_diff[0]), self.plain(diffs[0])

        def run(number: int, piece: Piece) -> None:
            piece.backward(x, dy, dend, dbegin, dx, self.gradients(number))

        self.for_each_piece(run)
        for diff in map(self.plain, diffs[1 : self.told]):
            if diff is not None:
                diff[...] = 0

    def gradients(self, number: int) -> list[dict[str, Array | None]]:
        """Return the arrays for the gradients of the parameters that a piece computes."""
        return [{name: one.gradient for name, one in parameters.items()} for parameters in self.named]

    # The state that is carried from batch to batch

    def advance(self) -> None:
        if self.layer.carry:
            for state, following in zip(self.carried, self.next, strict=True):
                self.backend.xp.copyto(state, following)

    def rewind(self) -> None:
        if self.layer.carry:
            for state in self.carried:
                state[...] = 0

    def memory(self) -> Mapping[str, Any]:
        if not self.layer.carry:
            return {}
        return {name: self.backend.to_host(one) for name, one in zip(self.layer.states, self.carried, strict=True)}

    def remember(self, memory: Mapping[str, Any]) -> str | None:
        if not self.layer.carry:
            return None
        for name, state in zip(self.layer.states, self.carried, strict=True):
            value = np.asarray(memory[name])
            if value.shape != tuple(state.shape):
                self.rewind()
                return (
                    f"{self.layer.name}: the carried state of the snapshot has the shape {value.shape}, but here it is "
                    f"{tuple(state.shape)}, so it begins with 0"
                )
            self.backend.from_host(value.astype(self.backend.dtype), state)
        return None
