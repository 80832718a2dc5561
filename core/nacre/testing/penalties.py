"""RegularizerTests and ConstraintTests: what everything that acts on parameters beside the method has to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import ConfigError, ContractError
from ..protocols.backend import HostMemory
from ..protocols.components import Constraint, Regularizer
from .bench import Bench
from .close import GRADIENT_TOLERANCES, KERNEL_TOLERANCES, TOLERANCES, assert_close
from .components import ComponentTests
from .gradients import numerical_gradient, worst_error
from .outside import refusal
from .trial import Example, offered_kernels, spread_values

COEFFICIENT = 0.3


class OfParameters(ComponentTests):
    """What the tests of regularisers and constraints have in common."""

    def shapes(self) -> Iterable[tuple[int, ...]]:
        """Return the shapes of parameters that are tried."""
        return ((33,), (5, 6), (4, 3, 2, 2), (1, 1))

    def result(self, bench: Bench, worker: Any, value: np.ndarray, *, compiled: bool = False) -> np.ndarray:
        """Return what a component, or with `compiled` a kernel, makes of a parameter's value or gradient."""
        raise NotImplementedError

    def test_zeros(self, backend: str, dtype: str, example: Example) -> None:
        """A parameter of zeros gives finite numbers."""
        made, bench = self.make_component(example), Bench(backend, dtype)
        for shape in self._shapes(made):
            found = self.result(bench, made, np.zeros(shape))
            assert np.isfinite(found).all(), f"shape {shape}: a number is not finite"

    def test_two_parameters(self, backend: str, dtype: str, example: Example) -> None:
        """A component serves several parameters in turn: it keeps nothing of any."""
        made, bench = self.make_component(example), Bench(backend, dtype)
        values = [spread_values(shape, seed) for seed, shape in enumerate(self._shapes(made))]
        wanted = [self.result(bench, self.make_component(example), value) for value in values]
        for value, alone in zip(values, wanted, strict=True):
            assert_close(self.result(bench, made, value), alone, f"shape {value.shape}, after others", 0.0)

    def test_scratch(self, backend: str, dtype: str, example: Example) -> None:
        """What scratch memory holds from earlier calls makes no difference."""
        made, bench = self.make_component(example), Bench(backend, dtype)
        for shape in self._shapes(made):
            value = spread_values(shape, 0)
            wanted = self.result(bench, made, value)
            bench.spoil_scratch()
            what = f"shape {shape}, where scratch memory held other numbers"
            assert_close(self.result(bench, made, value), wanted, what, 0.0)

    def test_kernels(self, backend: str, dtype: str, example: Example) -> None:
        """Every kernel that is offered for it on a backend gives what it gives itself."""
        made = self.make_component(example)
        offered: list[tuple[Any, str]] = [*offered_kernels(self.component, self.component.nacre_kind, backend)]
        for kernel, owner in offered:
            bench: Any = Bench(owner, dtype)
            for shape in self._shapes(made):
                value = spread_values(shape, 0)
                named = kernel.dtypes and dtype not in kernel.dtypes
                if named or kernel.supports(made, [bench.put(value)]):
                    continue
                found = self.result(bench, kernel(made, bench.view), value, compiled=True)
                wanted = self.result(bench, made, value)
                assert_close(found, wanted, f"{kernel.__qualname__}: shape {shape}", KERNEL_TOLERANCES[dtype])

    def _shapes(self, made: Any) -> list[tuple[int, ...]]:
        return list(self.shapes())


class RegularizerTests(OfParameters):
    """The tests of a regulariser.

    An author gives the class, and the penalty whose gradient it adds:

        class TestL2(RegularizerTests):
            component = L2

            def penalty(self, regularizer, value):
                return (value**2).sum() / 2
    """

    BASE = Regularizer

    def penalty(self, regularizer: Any, value: np.ndarray) -> float:
        """Return the penalty on a flat float64 array, for the coefficient 1."""
        raise ContractError(f"{type(self).__name__} does not define penalty()")

    def result(self, bench: Bench, worker: Any, value: np.ndarray, *, compiled: bool = False) -> np.ndarray:
        return self.added(bench, worker, value, COEFFICIENT, compiled=compiled)

    def added(
        self,
        bench: Bench,
        worker: Any,
        value: np.ndarray,
        coefficient: float,
        before: np.ndarray | None = None,
        *,
        compiled: bool = False,
    ) -> np.ndarray:
        """Return the gradient after `add_gradient`; it was zero `before` it unless given."""
        flat = value.reshape(-1)
        here, gradient = bench.put(flat), bench.put(0 * flat if before is None else before)

        def call() -> Any:
            return worker.add_gradient(bench.view, here, gradient, coefficient)

        bench.run(call, worker) if compiled else call()
        return bench.get(gradient)

    def test_gradient(self, backend: str, dtype: str, example: Example) -> None:
        """It adds the coefficient times the gradient of the penalty."""
        made = self.make_component(example)
        for shape in self.shapes():
            value = spread_values(shape, 0).reshape(-1)
            found = self.added(Bench(backend, dtype), made, value, COEFFICIENT)
            indices, slopes = numerical_gradient(lambda value: COEFFICIENT * self.penalty(made, value), value)
            error, place = worst_error(found, indices, slopes)
            assert error <= GRADIENT_TOLERANCES[dtype], (
                f"shape {shape}: at {value[place]:.6g} it adds {found[place]:.9g}, but the penalty's slope, times the "
                f"coefficient, is {slopes[indices == place][0]:.9g}"
            )

    def test_is_added(self, backend: str, dtype: str, example: Example) -> None:
        """It adds to the gradient that is there."""
        made, bench = self.make_component(example), Bench(backend, dtype)
        value, before = spread_values((33,), 0), spread_values((33,), 1)
        part = self.added(bench, made, value, COEFFICIENT)
        found = self.added(bench, made, value, COEFFICIENT, before)
        assert_close(found, before.astype(dtype) + part, "the gradient, to which it is added", TOLERANCES[dtype])

    def test_coefficient(self, backend: str, dtype: str, example: Example) -> None:
        """Twice the coefficient adds twice as much, and the coefficient 0 nothing."""
        made, bench, value = self.make_component(example), Bench(backend, dtype), spread_values((33,), 0)
        once, twice, nothing = (self.added(bench, made, value, coefficient) for coefficient in (0.25, 0.5, 0.0))
        assert_close(twice, 2 * once, "what is added for twice the coefficient", TOLERANCES[dtype])
        assert_close(nothing, 0 * once, "what is added for the coefficient 0", 0.0)

    def test_value_is_left_alone(self, backend: str, dtype: str, example: Example) -> None:
        """It does not change the parameter's value."""
        made, bench = self.make_component(example), Bench(backend, dtype)
        host = spread_values((33,), 0)
        value = bench.put(host)
        made.add_gradient(bench.view, value, bench.put(0 * host), COEFFICIENT)
        assert_close(bench.get(value), host.astype(dtype), "the value after add_gradient", 0.0)


class ConstraintTests(OfParameters):
    """The tests of a constraint.

    An author gives the class, and where it moves a parameter:

        class TestNotNegative(ConstraintTests):
            component = NotNegative

            def reference(self, constraint, value):
                return np.maximum(value, 0)

    Shapes that its `check` refuses are left out; at least one must be left.
    """

    BASE = Constraint

    def reference(self, constraint: Any, value: np.ndarray) -> np.ndarray:
        """Return where a parameter is moved to, a float64 array of its shape, computed naively."""
        raise ContractError(f"{type(self).__name__} does not define reference()")

    def result(self, bench: Bench, worker: Any, value: np.ndarray, *, compiled: bool = False) -> np.ndarray:
        array = bench.put(value)

        def call() -> Any:
            return worker.constrain(bench.view, array)

        bench.run(call, worker) if compiled else call()
        return bench.get(array)

    def test_values(self, backend: str, dtype: str, example: Example) -> None:
        """Every number is what the reference says."""
        made, bench = self.make_component(example), Bench(backend, dtype)
        for shape in self._shapes(made):
            value = spread_values(shape, 0).astype(dtype)
            wanted = np.asarray(self.reference(made, value.astype(np.float64)))
            assert_close(self.result(bench, made, value), wanted, f"shape {shape}", TOLERANCES[dtype])

    def test_again(self, backend: str, dtype: str, example: Example) -> None:
        """What is where it may be stays there: to constrain twice is to constrain once."""
        made, bench = self.make_component(example), Bench(backend, dtype)
        for shape in self._shapes(made):
            once = self.result(bench, made, spread_values(shape, 0))
            assert_close(self.result(bench, made, once), once, f"shape {shape}, the second time", TOLERANCES[dtype])

    def test_check(self, example: Example) -> None:
        """`check` refuses shapes by a ConfigError that names the shape, and all others can be constrained."""
        made, bench = self.make_component(example), Bench(HostMemory.shared(), "float64")
        accepted = self._shapes(made)
        assert accepted, f"check() refuses all of {list(self.shapes())}: give shapes() that it accepts"
        for shape in self.shapes():
            if shape in accepted:
                self.result(bench, made, spread_values(shape, 0))
            else:
                told = refusal(ConfigError, lambda shape=shape: made.check(shape))
                assert str(shape) in told, f"the error of check() does not name the shape {shape}: {told}"

    def _shapes(self, made: Any) -> list[tuple[int, ...]]:
        return [shape for shape in self.shapes() if not refusal(ConfigError, lambda shape=shape: made.check(shape))]
