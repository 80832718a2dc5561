"""NeuronTests: what every activation function has to do."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np

from ..errors import ContractError
from ..fields.types import Names
from ..protocols.backend import HostMemory
from ..protocols.components import Identity, Neuron
from ..protocols.layer import Layer
from ..protocols.state import LayerState
from ..protocols.view import View
from .bench import Bench
from .close import GRADIENT_TOLERANCES, KERNEL_TOLERANCES, TOLERANCES, assert_close
from .components import ComponentTests
from .gradients import numerical_gradient, worst_error
from .trial import NAME, Example, Trial, spread_values

FAR = np.array([-1e30, -800.0, 0.0, 800.0, 1e30])
"""Numbers at which careless formulas overflow, in float32 and float64."""


class ActivatedLayer(Layer, has_neuron=True, can_do_bp=True):
    """y = neuron(x)."""

    bottoms: Names
    tops: Names
    neuron: Annotated[Neuron, "activation function of the top"] = Identity()


class ActivatedState(LayerState, of=ActivatedLayer, reads=""):
    """The state of `ActivatedLayer`."""

    def __init__(self, layer: Any, backend: View, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]

    def forward(self, inputs: list[Any]) -> None:
        self.backend.xp.copyto(self.blobs[0], inputs[0])

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        if diffs[0] is not None:
            self.backend.xp.copyto(diffs[0], self.blobs_diff[0])


class NeuronTests(ComponentTests):
    """The tests of a neuron.

    An author gives the class, and what it computes:

        class TestHalf(NeuronTests):
            component = Half

            def reference(self, neuron, x):
                return x / 2

    Attributes:
        component: the class.
        dtypes: the types it works in.
        overflows: whether it becomes infinite for large numbers, as an exponential does.
    """

    BASE = Neuron
    overflows: ClassVar[bool] = False

    def reference(self, neuron: Any, x: np.ndarray) -> np.ndarray:
        """Return what the neuron makes of a float64 array, computed naively."""
        raise ContractError(f"{type(self).__name__} does not define reference()")

    def inputs(self) -> np.ndarray:
        """Return the numbers that it is tried with: between -4 and 4, away from kinks."""
        return 2 * spread_values((60,), 0)

    def test_forward(self, backend: str, dtype: str, example: Example) -> None:
        """Every number is what the reference says, in arrays of any shape."""
        neuron, bench = self.make_component(example), Bench(backend, dtype)
        x = self.inputs().reshape(-1).astype(dtype)
        expected = np.asarray(self.reference(neuron, x.astype(np.float64)))
        for shape in ((x.size,), (x.size, 1), (1, x.size, 1, 1), (0, 3)):
            count = int(np.prod(shape))
            found = _forward(bench, neuron, x[:count].reshape(shape))
            assert_close(found, expected[:count].reshape(shape), f"y of shape {shape}", TOLERANCES[dtype])

    def test_gradients(self, backend: str, dtype: str, example: Example) -> None:
        """The gradient is that of central differences; in other types than float64, that of float64."""
        neuron, x = self.make_component(example), self.inputs()
        dy = spread_values(x.shape, 1)
        fine = Bench(backend if dtype == "float64" else HostMemory.shared(), "float64")
        exact = _backward(fine, neuron, x, dy)
        if dtype != "float64":
            found = _backward(Bench(backend, dtype), neuron, x, dy)
            assert_close(found, exact, "dx", GRADIENT_TOLERANCES[dtype])
            return
        indices, slopes = numerical_gradient(lambda x: float((_forward(fine, neuron, x) * dy).sum()), x)
        error, place = worst_error(exact, indices, slopes)
        assert error <= GRADIENT_TOLERANCES[dtype], (
            f"dx at x={x.reshape(-1)[place]:.6g} is {exact.reshape(-1)[place]:.9g}, but central differences give "
            f"{slopes[indices == place][0]:.9g}"
        )

    def test_in_place(self, backend: str, dtype: str, example: Example) -> None:
        """`x` and `y` may be one array, and `dy` and `dx` too."""
        neuron, bench, x = self.make_component(example), Bench(backend, dtype), self.inputs()
        dy = spread_values(x.shape, 1)
        found, wanted = (_forward(bench, neuron, x, in_place=way) for way in (True, False))
        assert_close(found, wanted, "y, in place", 0.0)
        found, wanted = (_backward(bench, neuron, x, dy, in_place=way) for way in (True, False))
        assert_close(found, wanted, "dx, in place", 0.0)

    def test_needs_input(self, backend: str, example: Example) -> None:
        """`backward` reads `x` if, and only if, the class says needs_input."""
        neuron, bench, x = self.make_component(example), Bench(backend, self.dtypes[0]), self.inputs()
        dy = spread_values(x.shape, 1)
        wanted = _backward(bench, neuron, x, dy)
        if neuron.needs_input:
            found = _backward(bench, neuron, x, dy, seen=bench.spoiled(x.shape))
            same = np.array_equal(found, wanted, equal_nan=True)
            assert not same, "backward does not read x, which is kept for it: declare needs_input = False"
            return
        try:
            found = _backward(bench, neuron, x, dy, seen=None)
        except (TypeError, AttributeError) as error:
            raise AssertionError(f"backward reads x, which is None: declare needs_input = True ({error})") from error
        assert_close(found, wanted, "dx where x is None", 0.0)

    def test_inputs_are_left_alone(self, backend: str, dtype: str, example: Example) -> None:
        """`forward` does not change `x`, and `backward` none of `x`, `y` and `dy`, unless it is the array to write."""
        neuron, bench, host = self.make_component(example), Bench(backend, dtype), self.inputs()
        x, y, dy, dx = bench.put(host), bench.spoiled(host.shape), bench.put(spread_values(host.shape, 1)), None
        neuron.forward(bench.view, x, y)
        assert_close(bench.get(x), host.astype(dtype), "x after forward", 0.0)
        before = {"x": bench.get(x), "y": bench.get(y), "dy": bench.get(dy)}
        dx = bench.spoiled(host.shape)
        neuron.backward(bench.view, x, y, dy, dx)
        for (name, array), now in zip(before.items(), (x, y, dy), strict=True):
            assert_close(bench.get(now), array, f"{name} after backward", 0.0)

    def test_nan(self, backend: str, dtype: str, example: Example) -> None:
        """NaN stays NaN, and makes no other number one."""
        neuron, bench, x = self.make_component(example), Bench(backend, dtype), self.inputs()
        spoiled, place = x.copy(), x.size // 2
        spoiled.reshape(-1)[place] = np.nan
        found = np.isnan(_forward(bench, neuron, spoiled)).reshape(-1)
        assert found[place], "y is not NaN where x is"
        assert found.sum() == 1, "y is NaN where x is not"

    def test_large_numbers(self, dtype: str, example: Example) -> None:
        """Numbers up to 1e30 give no NaN and no warning, nor infinity unless the class of tests says `overflows`."""
        neuron, bench = self.make_component(example), Bench(HostMemory.shared(), dtype)
        with np.errstate(all="raise", under="ignore", over="ignore" if self.overflows else "raise"):
            try:
                found = {"y": _forward(bench, neuron, FAR), "dx": _backward(bench, neuron, FAR, np.ones(FAR.size))}
            except FloatingPointError as error:
                raise AssertionError(f"{error}, for x of {FAR.tolist()}") from error
        for what, array in found.items():
            wrong = np.isnan(array) if self.overflows else ~np.isfinite(array)
            assert not wrong.any(), f"{what} is {array[wrong][0]} for x={FAR[wrong][0]:g}"

    def test_two_arrays(self, backend: str, dtype: str, example: Example) -> None:
        """A neuron serves several layers at once: it keeps nothing of an array."""
        neuron, bench, x = self.make_component(example), Bench(backend, dtype), self.inputs()
        dy, other = spread_values(x.shape, 1), 2 * spread_values((x.size + 7,), 2)
        wanted = _backward(bench, neuron, x, dy)
        found = _backward(bench, neuron, x, dy, between=lambda: _forward(bench, neuron, other))
        assert_close(found, wanted, "dx after forward() of another layer", 0.0)

    def test_scratch(self, backend: str, dtype: str, example: Example) -> None:
        """What scratch memory holds from earlier calls makes no difference."""
        neuron, bench, x = self.make_component(example), Bench(backend, dtype), self.inputs()
        dy = spread_values(x.shape, 1)
        wanted = _forward(bench, neuron, x), _backward(bench, neuron, x, dy)
        bench.spoil_scratch()
        found = _forward(bench, neuron, x), _backward(bench, neuron, x, dy, between=bench.spoil_scratch)
        for what, one, other in zip(("y", "dx"), found, wanted, strict=True):
            assert_close(one, other, f"{what}, where scratch memory held other numbers", 0.0)

    def test_net(self, backend: str, dtype: str, example: Example) -> None:
        """In a net, in place and by the backend's kernel if it has one, it computes what it computes alone."""
        neuron, bench, x = self.make_component(example), Bench(backend, dtype), self.inputs().reshape(-1, 1)
        layer = ActivatedLayer(name=NAME, bottoms=["bottom0"], tops=["top0"], neuron=neuron)
        trial = Trial(lambda _: layer, Example(inputs=[x]), backend=backend, dtype=dtype, above=True)
        try:
            trial.forward()
            dy = trial.probe_weights()[0]
            tolerance = KERNEL_TOLERANCES[dtype]
            assert_close(trial.results()[0], _forward(bench, neuron, x), "y in a net", tolerance)
            found, wanted = trial.gradients()["input 0"], _backward(bench, neuron, x, dy)
            assert_close(found, wanted, "dx in a net", tolerance)
        finally:
            trial.shutdown()


def _forward(bench: Bench, neuron: Any, host: np.ndarray, *, in_place: bool = False) -> np.ndarray:
    x = bench.put(host)
    y = x if in_place else bench.spoiled(host.shape)
    neuron.forward(bench.view, x, y)
    return bench.get(y)


_X: Any = object()


def _backward(
    bench: Bench,
    neuron: Any,
    host: np.ndarray,
    above: np.ndarray,
    *,
    in_place: bool = False,
    seen: Any = _X,
    between: Any = None,
) -> np.ndarray:
    """Return the gradient; `seen` is what backward gets for x, `between` is called between forward and backward."""
    x, y, dy = bench.put(host), bench.spoiled(host.shape), bench.put(above)
    neuron.forward(bench.view, x, y)
    if between is not None:
        between()
    dx = dy if in_place else bench.spoiled(host.shape)
    neuron.backward(bench.view, x if seen is _X else seen, y, dy, dx)
    return bench.get(dx)
