"""RNN, GRU and LSTM with the sequences of a batch shared out over threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from nacre import Array, HostFunctions
from nacre_layers.recurrent.base import RecurrentState
from nacre_layers.recurrent.gru import GRUState
from nacre_layers.recurrent.lstm import LSTMState
from nacre_layers.recurrent.network import Piece, Work
from nacre_layers.recurrent.rnn import RNNState

from .kernels import pool_of

ALONE = 1 << 21
"""Operations of a step below which threads would wait for the interpreter more than they compute."""
FUNCTIONS = SimpleNamespace(**{**vars(np), "take": HostFunctions().take})
"""NumPy's own functions, which cost least: no piece computes with whole numbers, but for taking them from a bottom."""


class OwnWork(Work):
    """The memory of one piece: as `Work`, but no other piece shares its scratch memory."""

    def __init__(self, backend: Any) -> None:
        self.xp, self.dtype = FUNCTIONS, backend.dtype
        self.empty, self.from_host = backend.empty, backend.from_host
        self._scratch: dict[str, Array] = {}

    def scratch(self, shape: Sequence[int], slot: str, dtype: None = None) -> Array:
        found = self._scratch.get(slot)
        if found is None or found.size < prod(shape):
            found = self._scratch[slot] = self.empty((prod(shape),))
        return found[: prod(shape)].reshape(shape)


class SharedState(RecurrentState):
    """A recurrent state whose pieces run on the threads of the pool, each through all steps without waiting.

    Each piece has gradients of its own, which are added up.
    """

    @classmethod
    def supports(cls, layer: Any, inputs: list[Any]) -> str | None:
        if layer.time_major:
            return "serves sequences with the images first"
        return None if inputs[0].shape[0] > 1 else "shares out sequences, but there is only one"

    @staticmethod
    def plain(array: Any) -> Array:
        return None if array is None else array.memory

    def make_pieces(self) -> list[Piece]:
        step = 2 * self.images * max(prod(one["weight_hh"].shape) for one in self.named)
        ranges = ((0, self.images),) if step < ALONE else pool_of(self.backend).pieces(self.images)
        self.shares: list[list[dict[str, Array]]] = []  # of the gradients of the parameters, but for the first piece
        if self.phase == "train":
            shapes = [{name: one.shape for name, one in parameters.items()} for parameters in self.named]
            self.shares = [
                [{name: self.backend.empty(shape) for name, shape in one.items()} for one in shapes] for _ in ranges[1:]
            ]
        return [self.make_piece(OwnWork(self.backend), slice(*one), one[1] - one[0]) for one in ranges]

    def for_each_piece(self, run: Callable[[int, Piece], None]) -> None:
        def some(start: int, stop: int, worker: int) -> None:
            for number in range(start, stop):
                run(number, self.pieces[number])

        pool_of(self.backend).parallel(some, len(self.pieces))

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        super().backward(inputs, diffs)
        for share in self.shares:
            for total, part in zip(self.gradients(0), share, strict=True):
                for name, gradient in total.items():
                    if gradient is not None:
                        self.backend.xp.add(gradient, part[name], out=gradient)

    def gradients(self, number: int) -> list[dict[str, Array | None]]:
        totals = super().gradients(number)
        if not number:
            return totals
        shares = zip(totals, self.shares[number - 1], strict=True)
        return [{name: None if one is None else share[name] for name, one in total.items()} for total, share in shares]


class RNNKernel(SharedState, RNNState, on_plain=True):
    """`RNNLayer` on the pool's threads."""


class GRUKernel(SharedState, GRUState, on_plain=True):
    """`GRULayer` on the pool's threads."""


class LSTMKernel(SharedState, LSTMState, on_plain=True):
    """`LSTMLayer` on the pool's threads."""
