"""Numerical gradients by central differences in float64, to check every `backward`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ConfigError
from ..protocols.layer import is_output

if TYPE_CHECKING:
    from ..net.net import Net


ENTRIES = 200
EPSILON = 1e-5


def numerical_gradient(
    function: Callable[[np.ndarray], float],
    array: np.ndarray,
    *,
    entries: int = ENTRIES,
    epsilon: float = EPSILON,
    seed: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Differentiate `function` with respect to the numbers of a float64 array, by central differences.

    Args:
        function: takes an array of the shape of `array`, gives a number.
        array: the point at which to differentiate; it is not changed.
        entries: how many numbers are used: all of a smaller array, else random ones.
        epsilon: half the step, for numbers up to 1; for larger ones relative to the number.
        seed: of the random choice.

    Returns:
        The flat indices of these numbers, and the slopes there.
    """
    indices = np.arange(array.size)
    if array.size > entries:
        indices = np.sort(np.random.default_rng(seed).choice(array.size, entries, replace=False))
    slopes = np.empty(len(indices))
    moved = np.array(array, np.float64).reshape(-1)
    for number, index in enumerate(indices):
        value = moved[index]
        step = epsilon * max(1.0, abs(value))
        moved[index] = value + step
        high, above = function(moved.reshape(array.shape)), moved[index]
        moved[index] = value - step
        low, below = function(moved.reshape(array.shape)), moved[index]
        slopes[number] = (high - low) / (above - below)
        moved[index] = value
    return indices, slopes


def worst_error(gradient: np.ndarray, indices: np.ndarray, slopes: np.ndarray, loss: float = 1.0) -> tuple[float, int]:
    """Return the largest relative error of a gradient against numerical slopes, and the flat index where it is.

    Errors are relative to the larger of both numbers, and at least to a thousandth of the array's largest slope and to
    1e-4 times the loss: below that, central differences in float64 have no digits left.
    """
    if not indices.size:
        return 0.0, 0
    computed = np.asarray(gradient, np.float64).reshape(-1)[indices]
    floor = max(1e-3 * float(np.abs(slopes).max()), 1e-4 * max(1.0, abs(loss)))
    size = np.maximum(np.maximum(np.abs(computed), np.abs(slopes)), floor)
    errors = np.abs(computed - slopes) / size
    errors = np.where(np.isfinite(errors), errors, np.inf)
    worst = int(np.argmax(errors))
    return float(errors[worst]), int(indices[worst])


def check_net_gradients(
    net: Net, *, entries: int = ENTRIES, epsilon: float = EPSILON, begun: Callable[[str], object] | None = None
) -> list[tuple[str, float]]:
    """Compare the gradients of a whole net with numerical ones, on the next batch of its sources.

    Blobs of `Input` layers that were not written hold random numbers. The step does not change, so masks stay the same.
    Parameters and buffers are restored afterwards; statistics have counted every pass.

    Args:
        net: of type float64, in phase train.
        entries: how many numbers of each parameter are changed.
        epsilon: by how much.
        begun: called with the name of each parameter before its check.

    Returns:
        (name of the parameter, worst relative error), in the net's order. Errors below 1e-6 are
        negligible, except at the kinks of a net (two equal numbers in a maximum, a ReLU at 0).

    Raises:
        ConfigError: the net is not of type float64, or an algorithm gives it gradients that are not those of its loss.
        TopologyError: back-propagation cannot go through the net.
    """
    if net.dtype != "float64":
        raise ConfigError(
            f"net '{net.name}' is of type {net.dtype}, which is too coarse for central differences",
            "make the net with dtype='float64'",
        )
    if own := next((one.layer for one in net.wiring.nodes if one.layer.can_do_bp and one.layer.needs_algorithm), None):
        raise ConfigError(
            f"net '{net.name}' is trained by {own.needs_algorithm}, which does not follow the gradient of the loss",
            "only gradients by back-propagation can be compared with numerical ones",
        )
    random = np.random.default_rng(0)
    for name in net.unwritten():  # zeros would hide wrong gradients; a number a record is a label, and stays 0
        shape = net.memory.final[name].shape
        if len(shape) > 1:
            net.write(name, random.normal(size=shape))
    net.feed()
    outputs = {node.name for node in net.wiring.nodes if is_output(node.layer)}  # thousands of passes are no result
    forward: Callable[[], None] = net.compile([step for step in net.steps("forward") if step.name not in outputs])
    buffers = {name: handle.value for name, handle in net.parameters.items() if not handle.parameter.trainable}
    forward()
    net.backward()
    loss = net.loss()
    gradients = {name: handle.gradient for name, handle in net.parameters.items()}
    errors: list[tuple[str, float]] = []
    for name, gradient in gradients.items():
        if gradient is None:
            continue
        if begun is not None:
            begun(name)
        handle = net.parameters[name]
        value = handle.value

        def objective(moved: Any, handle: Any = handle) -> float:
            handle.value = moved
            forward()
            return net.loss()

        indices, slopes = numerical_gradient(objective, value, entries=entries, epsilon=epsilon)
        handle.value = value
        errors.append((name, worst_error(gradient, indices, slopes, loss)[0]))
    for name, value in buffers.items():
        net.parameters[name].value = value
    return errors
