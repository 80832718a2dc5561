"""The same net in JAX, for nets of inner products: for other nets JAX is the slower peer (see README.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from .nets import read


class Training:
    """Trains the batch again and again, by SGD with momentum, in one compiled step that takes over its memory."""

    def __init__(self, folder: Path, rate: float, momentum: float, *, compared: bool) -> None:
        told = json.loads((folder / "net.json").read_text(encoding="utf-8"))
        for layer in told["layers"]:
            if layer["type"] != "InnerProduct":
                raise NotImplementedError(f"layer '{layer['name']}' of type {layer['type']} has no twin")
        self.relus = [layer["neuron"] == "ReLU" for layer in told["layers"]]
        self.names = [f"{layer['name']}/{part}" for layer in told["layers"] for part in ("weight", "bias")]
        if compared:
            self.parameters = [jnp.array(read(folder, name)) for name in self.names]
            self.data, self.label = (jnp.array(read(folder, name)) for name in ("data", "label"))
        else:
            self.parameters = [jnp.full(told["parameters"][name], 0.01) for name in self.names]
            shape = told["blobs"]["data"]
            self.data, self.label = jnp.ones(shape), jnp.zeros(shape[0], int)
        self.velocity = [jnp.zeros_like(one) for one in self.parameters]
        self.gradient = jax.jit(jax.value_and_grad(self._loss))
        self.update = jax.jit(partial(self._update, rate, momentum), donate_argnums=(0, 1))

    def _loss(self, parameters: list[Any], data: Any, label: Any) -> Any:
        x = data
        for relu, weight, bias in zip(self.relus, parameters[::2], parameters[1::2], strict=True):
            x = x @ weight.T + bias
            x = jnp.maximum(x, 0) if relu else x
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x), label[:, None], 1))

    def _update(self, rate: float, momentum: float, parameters: Any, velocity: Any, data: Any, label: Any) -> Any:
        loss, gradients = jax.value_and_grad(self._loss)(parameters, data, label)
        velocity = [momentum * v - rate * one for v, one in zip(velocity, gradients, strict=True)]
        return loss, [one + v for one, v in zip(parameters, velocity, strict=True)], velocity

    def gradients(self) -> Iterator[tuple[str, Any]]:
        """Compute the gradients of the first batch; give them by nacre's names."""
        yield from zip(self.names, self.gradient(self.parameters, self.data, self.label)[1], strict=True)

    def with_dropout(self) -> None:
        """Go on: there is no dropout in these nets."""

    def step(self) -> float:
        """Train one batch; give its loss."""
        given = self.parameters, self.velocity, self.data, self.label
        loss, self.parameters, self.velocity = self.update(*given)
        return float(loss)
