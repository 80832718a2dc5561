"""TorchState: a module at work on the net's own memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from nacre import Array, ConfigError, ContractError, Initializer, LayerState, Parameter, View, registry

from .layer import KIND, TorchLayer

_first: WeakKeyDictionary[torch.nn.Module, dict[str, Array]] = WeakKeyDictionary()
"""The values that modules had before a net had them."""


class FirstValues(Initializer):
    """The value that a tensor of a module has when a net first sees it."""

    module: Any
    tensor: str

    def values(self, random: Any, shape: tuple[int, ...]) -> Array:
        """Return it; a module that was made from a table is made again, with random numbers of the net's."""
        if isinstance(self.module, Mapping):
            with drawing(random):
                return copies(make(self.module))[self.tensor]
        return _first[self.module][self.tensor]


class TorchState(LayerState, reads="inputs", host_only=True):
    """A module in one net, and its parameters and buffers in the net's memory.

    Nets with parameters of their own may have one module: its own tensors then lie in the net that was made last.
    """

    def __init__(self, layer: TorchLayer, backend: View, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.random = backend.random(layer.name)
        self.module = layer.module
        if isinstance(layer.module, Mapping):
            with drawing(self.random):
                self.module = make(layer.module, layer.name)
        if self.module not in _first:
            _first[self.module] = copies(self.module)
        self.learned = {
            name: Parameter(
                name,
                tuple(tensor.shape),
                init=FirstValues(module=layer.module, tensor=name),
                trainable=tensor.requires_grad,
            )
            for name, tensor in shared(self.module)
        }
        self.parameters = list(self.learned.values())
        shapes = self._shapes(inputs)
        if len(shapes) < len(layer.tops):
            raise ConfigError(
                f"{layer.name}: tops={list(layer.tops)}, but the module {type(self.module).__name__} returns "
                f"{len(shapes)} tensors for these bottoms",
                f"name {len(shapes)} tops, or fewer",
            )
        self.blobs = [backend.blob(shape) for shape in shapes[: len(layer.tops)]]
        self.wanted = [diff is not None for diff in diffs]
        self.outputs: list[Any] = []

    def _shapes(self, inputs: list[Any]) -> list[tuple[int, ...]]:
        """Return the shapes of what the module returns, without computing it: on the device "meta"."""
        kind = getattr(torch, self.backend.dtype)
        tensors = {
            name: torch.empty(
                tensor.shape, dtype=kind if tensor.dtype.is_floating_point else tensor.dtype, device="meta"
            )
            for name, tensor in [*self.module.named_parameters(), *self.module.named_buffers()]
        }
        bottoms = [torch.empty(one.shape, dtype=getattr(torch, one.dtype), device="meta") for one in inputs]
        trains = self.module.training
        try:
            with torch.no_grad():
                found = torch.func.functional_call(self.module.eval(), tensors, tuple(bottoms))
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            shapes = ", ".join(f"{one.shape} {one.dtype}" for one in inputs)
            who = f"{self.layer.name}: the module {type(self.module).__name__}"
            raise ConfigError(f"{who} cannot be used on bottoms of the shapes {shapes}: {error}") from error
        finally:
            self.module.train(trains)
        return [tuple(one.shape) for one in flat(found)]

    def ready(self) -> None:
        """Let torch see the net's memory: in tensors of this state's own, and in those of the module."""
        self.tensors = {name: torch.from_numpy(parameter.blob) for name, parameter in self.learned.items()}
        for name, tensor in shared(self.module):
            tensor.grad, tensor.data = None, self.tensors[name].detach()

    def forward(self, inputs: list[Array]) -> None:
        """Run the module, and copy what it returns."""
        self.outputs = []  # or the memory of two passes would be needed
        # a layer that is frozen has frozen buffers too, such as a running mean
        self._set_mode(self.phase == "train" and not any(one.frozen for one in self.parameters if not one.trainable))
        for name, parameter in self.learned.items():
            self.tensors[name].requires_grad_(parameter.gradient is not None)
        self.leaves = [torch.from_numpy(x).requires_grad_(want) for x, want in zip(inputs, self.wanted, strict=True)]
        learns = any(self.wanted) or any(one.gradient is not None for one in self.parameters)
        used = dict(self.tensors)
        with torch.set_grad_enabled(learns), drawing(self.random):
            found = torch.func.functional_call(self.module, used, tuple(self.leaves))
        for name, tensor in used.items():
            if tensor is not self.tensors[name]:  # the module has another tensor in place of a buffer
                self.tensors[name].copy_(tensor.detach())
        self.outputs = flat(found)[: len(self.blobs)]
        for top, y, tensor in zip(self.layer.tops, self.blobs, self.outputs, strict=True):
            if tuple(tensor.shape) != tuple(y.shape):
                raise ContractError(
                    f"{self.layer.name}: the module {type(self.module).__name__} returned {tuple(tensor.shape)} for "
                    f"'{top}', but {tuple(y.shape)} when the net was made",
                    "let the shapes follow from those of the bottoms",
                )
            np.copyto(y, tensor.detach().numpy())
        if any(leaf._version for leaf in self.leaves):
            raise ContractError(
                f"{self.layer.name}: the module {type(self.module).__name__} changes its input in place",
                "make it without inplace=True",
            )

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Let autograd compute the gradients, and copy them."""
        pairs: list[tuple[Any, Array]] = list(zip(self.leaves, diffs, strict=True))
        pairs += [(self.tensors[name], parameter.gradient) for name, parameter in self.learned.items()]
        pairs = [(tensor, gradient) for tensor, gradient in pairs if gradient is not None]
        above = [
            (y, torch.from_numpy(dy).to(y.dtype))
            for y, dy in zip(self.outputs, self.blobs_diff, strict=True)
            if dy is not None and y.requires_grad
        ]
        found: Sequence[Any] = [None] * len(pairs)
        if above and pairs:
            found = torch.autograd.grad(
                [y for y, _ in above],
                [tensor for tensor, _ in pairs],
                [dy for _, dy in above],
                retain_graph=True,
                allow_unused=True,
            )
        for (_, gradient), computed in zip(pairs, found, strict=True):
            np.copyto(gradient, 0 if computed is None else computed.numpy())

    def shutdown(self) -> None:
        """Release what autograd keeps."""
        self.outputs = []

    def memory(self) -> Mapping[str, Any]:
        """Return the buffers that are no floating numbers, such as counts of batches."""
        return {name: tensor.numpy().copy() for name, tensor in self._counts()}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Restore them."""
        for name, tensor in self._counts():
            tensor.copy_(torch.as_tensor(memory[name]))

    def _counts(self) -> Iterator[tuple[str, Any]]:
        return ((name, one) for name, one in self.module.named_buffers() if not one.dtype.is_floating_point)

    def _set_mode(self, trains: bool) -> None:
        if self.module.training != trains:
            self.module.train(trains)


def make(table: Mapping[str, Any], layer: str = "") -> torch.nn.Module:
    """Return the module that a table describes. Raises ConfigError if its class does not take the arguments."""
    arguments = {key: value for key, value in table.items() if key != "type"}
    cls = registry().open(KIND, table["type"])
    try:
        module = cls(**arguments)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"{layer}: module {table['type']}: {error}", "give the arguments of its class") from error
    if not isinstance(module, torch.nn.Module):
        raise ConfigError(f"{layer}: module {table['type']}: {cls.__name__} is no torch.nn.Module")
    return module


def shared(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield the tensors that lie in the net's memory, by name: parameters, and buffers of floating numbers."""
    yield from module.named_parameters()
    yield from ((name, one) for name, one in module.named_buffers() if one.dtype.is_floating_point)


def copies(module: torch.nn.Module) -> dict[str, Array]:
    """Return copies of the shared tensors."""
    return {name: tensor.detach().double().numpy().copy() for name, tensor in shared(module)}


def flat(found: Any) -> list[Any]:
    """Return the tensors in what a module returns, those inside of tuples and tables too."""
    if isinstance(found, torch.Tensor):
        return [found] if found.dtype.is_floating_point else []
    if isinstance(found, Mapping):
        found = list(found.values())
    return [tensor for one in found for tensor in flat(one)] if isinstance(found, list | tuple) else []


@contextmanager
def drawing(random: Any) -> Iterator[None]:
    """Let torch's generator begin at a number of the net's, and put it back."""
    generator = torch.default_generator
    before = generator.get_state()
    generator.manual_seed(int(random.generator().integers(2**63)))
    try:
        yield
    finally:
        generator.set_state(before)
