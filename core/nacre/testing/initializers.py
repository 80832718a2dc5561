"""InitializerTests: what everything that gives parameters their first values has to do."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Annotated, Any, ClassVar

import numpy as np

from ..errors import ConfigError, ContractError
from ..fields.types import Names, default
from ..net.net import Net
from ..protocols.components import Initializer
from ..protocols.layer import Layer
from ..protocols.parameter import Parameter
from ..protocols.state import LayerState
from ..random import Random
from .close import assert_close
from .components import ComponentTests
from .outside import global_state, refusal
from .suite import When, defines, only
from .toys import NumbersLayer
from .trial import NAME, Example

SHAPES = ((5,), (4, 3), (1, 1), (6, 2, 3, 3))
LARGE = (200, 400)
"""The shape whose mean and standard deviation are looked at."""


class HoldingLayer(Layer, is_sink=True, has_param=True):
    """A layer with a parameter, which does nothing."""

    bottoms: Annotated[Names, ""] = default(("numbers", "target"))
    shape: Annotated[Any, "of the parameter"] = (3, 2)
    init: Annotated[Initializer, "what gives the first values"]


class HoldingState(LayerState, of=HoldingLayer):
    """The state of `HoldingLayer`."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.parameters = [Parameter("weight", layer.shape, init=layer.init)]

    def forward(self, inputs: list[Any]) -> None:
        """Do nothing."""

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        """Do nothing."""


class InitializerTests(ComponentTests):
    """The tests of an initialiser.

    An author gives the class, and if possible what is known of its numbers:

        class TestTriangle(InitializerTests):
            component = Triangle

            def spread(self, initializer, shape):  # optional
                return 0.0, initializer.height / 6**0.5

    Attributes:
        component: the class.
        is_random: whether it draws its numbers; else they are the same whatever the seed.
        axes: how many axes a parameter must have at least; one of fewer has to be refused.
    """

    BASE = Initializer
    is_random: ClassVar[bool] = True
    axes: ClassVar[int] = 1

    def spread(self, initializer: Any, shape: tuple[int, ...]) -> tuple[float, float]:
        """Return mean and standard deviation of the numbers; by default they are not looked at."""
        raise ContractError(f"{type(self).__name__} does not define spread()")

    def shapes(self) -> Iterable[tuple[int, ...]]:
        """Return the shapes of parameters that are tried; by default of 1, 2 and 4 axes."""
        return SHAPES

    def test_values(self, example: Example) -> None:
        """`values` gives finite float64 numbers of the shape, in an array that is not given twice."""
        made = self.make_component(example)
        for shape in self._shapes():
            given = _values(made, shape)
            values: np.ndarray = np.asarray(given)
            kind = type(given).__name__
            assert values is given, f"shape {shape}: values() gives a {kind} instead of a NumPy array"
            assert values.shape == shape, f"shape {shape}: the array has the shape {values.shape}"
            assert values.dtype == np.float64, f"shape {shape}: the array is of type {values.dtype}, not float64"
            assert np.isfinite(values).all(), f"shape {shape}: a number is not finite"
            again = np.shares_memory(values, _values(made, shape))
            assert not again, f"shape {shape}: two parameters would get one array"

    def test_seed_and_name(self, example: Example) -> None:
        """The numbers are a function of the seed, the parameter's name and the shape, and of nothing else."""
        made, shape = self.make_component(example), self._shapes()[-1]
        first = _values(made, shape)
        for other in self._shapes():
            _values(made, other)
        for where, values in (
            ("drawn after other shapes", _values(made, shape)),
            ("of an equal component", _values(self.make_component(example), shape)),
        ):
            assert np.array_equal(values, first), f"{where} the numbers are others"
        for what, values in (
            ("seed", _values(made, shape, seed=1)),
            ("name", _values(made, shape, name="other/weight")),
        ):
            same = np.array_equal(values, first)
            if self.is_random:
                assert not same, f"another {what} gives the same numbers: say is_random = False if none are drawn"
            else:
                assert same, f"another {what} gives other numbers, but is_random is False"

    def test_global_state(self, example: Example) -> None:
        """It neither reads nor changes the random numbers of `numpy.random` and `random`, nor NumPy's settings."""
        found: list[np.ndarray] = []
        for seed in (1, 2):
            with global_state(seed):
                found.append(_values(self.make_component(example), self._shapes()[-1]))
        same = np.array_equal(found[0], found[1])
        assert same, "the numbers depend on the global random numbers: draw from the Random that values() gets"

    @only(defines("spread"))
    def test_spread(self, example: Example) -> None:
        """Many numbers have the mean and the standard deviation that `spread` gives."""
        made = self.make_component(example)
        mean, deviation = self.spread(made, LARGE)
        values = _values(made, LARGE)
        found, allowed = float(values.mean()), 5 * deviation / sqrt(values.size) + 1e-12
        assert abs(found - mean) <= allowed, f"the mean is {found:.6g} instead of {mean:.6g}"
        found = float(values.std())
        assert abs(found - deviation) <= 0.02 * deviation, f"the deviation is {found:.6g} instead of {deviation:.6g}"

    @only(When("with `axes` above 1", lambda suite: suite.axes > 1))
    def test_few_axes(self, example: Example) -> None:
        """A shape of too few axes is refused by a ConfigError that names the shape."""
        made, shape = self.make_component(example), (4,) * (self.axes - 1)
        told = refusal(ConfigError, lambda: _values(made, shape))
        assert told, f"a parameter of shape {shape} is accepted, but axes is {self.axes}"
        assert str(shape) in told, f"the error does not name the shape {shape}: {told}"

    def test_net(self, backend: str, dtype: str, example: Example) -> None:
        """A parameter of a net begins with these numbers, on every backend and in every type."""
        made = self.make_component(example)
        for shape in self._shapes():
            layer = HoldingLayer(name=NAME, shape=shape, init=made)
            with Net("test", [NumbersLayer(name="numbers"), layer], backend=backend, dtype=dtype) as net:  # pyright: ignore[reportArgumentType]
                found = net.parameters[f"{NAME}/weight"].value
            wanted = _values(made, shape, name=f"{NAME}/weight").astype(dtype)
            assert_close(found, wanted, f"the parameter of shape {shape}", 0.0)

    def _shapes(self) -> list[tuple[int, ...]]:
        return [shape for shape in self.shapes() if len(shape) >= self.axes]


def _values(made: Any, shape: tuple[int, ...], *, seed: int = 0, name: str = "tested/weight") -> Any:
    return made.values(Random(seed, name, lambda: 0), shape)
