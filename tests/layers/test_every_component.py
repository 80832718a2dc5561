"""Every initialiser, regulariser, constraint, pooling function and connection of nacre's own passes the kit."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Any

import numpy as np
import pytest

import nacre_layers as own
from nacre import registry
from nacre.testing import ComponentTests as ComponentSuite
from nacre.testing import ConstraintTests as ConstraintSuite
from nacre.testing import Example
from nacre.testing import InitializerTests as InitializerSuite
from nacre.testing import RegularizerTests as RegularizerSuite
from nacre_layers.containers.connections import Customised, FirstToLast, OneToAll, OneToOne
from nacre_layers.elementwise.element_wise import Add, Average, Divide, Maximum, Multiply, Subtract
from nacre_layers.pooling.functions import Max, Mean, Stochastic


class TestConstant(InitializerSuite):
    component = own.Constant
    is_random = False
    wrong = ({"value": float("inf")},)


class TestUniform(InitializerSuite):
    component = own.Uniform
    wrong = ({"low": 1.0, "high": 0.0},)

    def spread(self, initializer: Any, shape: tuple[int, ...]) -> tuple[float, float]:
        return 0.0, 0.1 / sqrt(12)


class TestGaussian(InitializerSuite):
    component = own.Gaussian
    wrong = ({"std": -1.0},)

    def examples(self) -> Iterable[Example]:
        yield Example({"mean": 2.0, "std": 0.5})

    def spread(self, initializer: Any, shape: tuple[int, ...]) -> tuple[float, float]:
        return initializer.mean, initializer.std


class TestXavier(InitializerSuite):
    component = own.Xavier

    def spread(self, initializer: Any, shape: tuple[int, ...]) -> tuple[float, float]:
        return 0.0, sqrt(2 / sum(shape))


class TestXavierFanIn(InitializerSuite):
    component = own.XavierFanIn

    def spread(self, initializer: Any, shape: tuple[int, ...]) -> tuple[float, float]:
        return 0.0, sqrt(1 / shape[1])


class TestHe(InitializerSuite):
    component = own.He

    def spread(self, initializer: Any, shape: tuple[int, ...]) -> tuple[float, float]:
        return 0.0, sqrt(2 / shape[1])


class TestGaussianSqrtFanIn(InitializerSuite):
    component = own.GaussianSqrtFanIn
    axes = 2


class TestUniformSqrtFanIn(InitializerSuite):
    component = own.UniformSqrtFanIn
    axes = 2


class TestUniformSqrtFanInOut(InitializerSuite):
    component = own.UniformSqrtFanInOut
    axes = 2


class TestOrthogonal(InitializerSuite):
    component = own.Orthogonal
    axes = 2


class TestBilinear(InitializerSuite):
    component = own.Bilinear
    is_random = False
    axes = 3


class TestPositiveUnitball(InitializerSuite):
    component = own.PositiveUnitball

    def shapes(self) -> Iterable[tuple[int, ...]]:
        return (5,), (4, 3), (6, 2, 3, 3)


class TestL2(RegularizerSuite):
    component = own.L2
    wrong = ({"coef": -1.0},)

    def penalty(self, regularizer: Any, value: np.ndarray) -> float:
        return float((value**2).sum() / 2)


class TestL1(RegularizerSuite):
    component = own.L1

    def penalty(self, regularizer: Any, value: np.ndarray) -> float:
        return float(np.abs(value).sum())


class TestL2Norm(ConstraintSuite):
    component = own.L2Norm
    wrong = ({"threshold": 0.0}, {"threshold": 1.0, "axis": -1})

    def examples(self) -> Iterable[Example]:
        yield Example({"threshold": 1.0})
        yield Example({"threshold": 0.5, "axis": 1})

    def reference(self, constraint: Any, value: np.ndarray) -> np.ndarray:
        axis = constraint.axis
        rows = value.reshape(1, -1) if value.ndim == 1 else np.moveaxis(value, axis, 0)
        flat = rows.reshape(len(rows), -1)
        short = flat * np.minimum(1, constraint.threshold / np.sqrt((flat**2).sum(axis=1)))[:, None]
        back = short.reshape(rows.shape)
        return back.reshape(value.shape) if value.ndim == 1 else np.moveaxis(back, 0, axis)


class OfFields(ComponentSuite):
    """What these compute is tested with the layers that they work in."""


for _cls in (Max, Mean, Stochastic, Add, Average, Multiply, Maximum, Subtract, Divide):
    globals()[f"Test{_cls.__name__}"] = type(
        f"Test{_cls.__name__}", (OfFields,), {"component": _cls, "__module__": __name__}
    )


class OfConnections(ComponentSuite):
    def examples(self) -> Iterable[Example]:
        yield Example({"name": "before", "blob": "h"})


class TestOneToOne(OfConnections):
    component = OneToOne


class TestOneToAll(OfConnections):
    component = OneToAll


class TestFirstToLast(OfConnections):
    component = FirstToLast


class TestCustomised(OfConnections):
    component = Customised
    wrong = ({"name": "before", "blob": "h", "sources": [[0, 1]]},)

    def examples(self) -> Iterable[Example]:
        yield Example({"name": "before", "blob": "h", "sources": [0, 1, [1, 2]]})


@pytest.mark.parametrize("kind", ["initializer", "regularizer", "constraint", "pooling", "elementwise", "connection"])
def test_no_component_is_forgotten(kind: str) -> None:
    here = registry()
    offered = {here.open_offer(one) for one in here.offers(kind) if one.distribution == "nacre"}
    tested = {getattr(one, "component", None) for one in globals().values() if isinstance(one, type)}
    needs_a_file = {own.Pretrained}
    assert offered - tested - needs_a_file == set()
