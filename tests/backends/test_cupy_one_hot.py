"""The cupy backend's OneHot: on the processor, against the layer's own state, and in captured nets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cupy_standin
from cuda_bench import KernelSide, OwnSide
from cuda_on_host import ShimBackend, missing
from nacre import DataError, HostMemory, L, Net, Own, Solver
from nacre_cupy.kernels.launch import NUMBERS
from nacre_cupy.kernels.one_hot import OneHotKernel
from nacre_layers import OneHotLayer

if reason := missing():
    pytest.skip(reason, allow_module_level=True)


def compare(numbers: np.ndarray, classes: int, dtype: str, rows: int | None = None, shift: int = 0) -> None:
    layer = OneHotLayer(name="hot", bottoms=["x"], tops=["y"], n_class=classes)
    fast = KernelSide(ShimBackend(False, shift), dtype, "train", 7, rows, 3)
    own = OwnSide(HostMemory.shared(), dtype, "train", 7, rows, 3)
    own.run(layer, [numbers], (), lambda shapes: [])
    fast.run(layer, OneHotKernel, [numbers], (), lambda shapes: [])
    fast.backend.check_guards()
    np.testing.assert_array_equal(fast.tops[0], own.tops[0])


@pytest.mark.parametrize("dtype", ["float32", "float64", "bf16"])
@pytest.mark.parametrize("classes", [1, 3, 8, 24, 100])
@pytest.mark.parametrize("shape", [(1,), (7,), (5, 3), (33, 9)])
def test_vectors(shape: tuple[int, ...], classes: int, dtype: str) -> None:
    numbers = np.random.default_rng(0).integers(0, classes, shape)
    compare(numbers, classes, dtype)
    for rows in (0, 1):
        compare(numbers, classes, dtype, rows, shift=1)


@pytest.mark.parametrize("kind", [one for one in NUMBERS if one != "bf16"])
def test_types_of_numbers(kind: str) -> None:
    numbers = np.random.default_rng(0).integers(0, 100, (9, 12)).astype(kind)
    compare(numbers, 100, "float64" if kind == "float64" else "float32")


@pytest.mark.parametrize(
    ("value", "kind"),
    [(-1, "int64"), (4, "uint8"), (2**40, "int64"), (2**64 - 1, "uint64"), (1.5, "float32"), (np.nan, "float64")],
)
def test_wrong_numbers_are_told_as_by_the_layer_itself(value: float, kind: str) -> None:
    numbers = np.random.default_rng(0).integers(0, 4, (8, 3)).astype(kind)
    numbers[5, 1] = value
    layer = OneHotLayer(name="hot", bottoms=["x"], tops=["y"], n_class=4)
    dtype = "float64" if kind == "float64" else "float32"
    how = dtype, "train", 7, None, 3
    own, fast = OwnSide(HostMemory.shared(), *how), KernelSide(ShimBackend(False), *how)
    sides: list[tuple[Any, list[type]]] = [(own, []), (fast, [OneHotKernel])]
    told: list[str] = []
    for side, more in sides:
        with pytest.raises(DataError, match=r"hot: number \S+ of record 5 .* from 0 to 3\n.*n_class") as error:
            side.run(layer, *more, [numbers], (), lambda shapes: [])
        told.append(str(error.value))
    assert told[0] == told[1]
    compare(numbers, 4, dtype, rows=5)  # the record does not count


def test_declines() -> None:
    layer = OneHotLayer(name="hot", bottoms=["x"], tops=["y"], n_class=2**16)
    assert OneHotKernel.supports(layer, [Own((3, 4), "int64")]) is None
    assert "not bool" in str(OneHotKernel.supports(layer, [Own((3, 4), "bool")]))
    assert "fewer" in str(OneHotKernel.supports(layer, [Own((2**15, 1), "int64")]))


@pytest.mark.parametrize("options", [{}, {"dtype": "float64"}, {"compute": "bf16"}], ids=repr)
@pytest.mark.parametrize("kind", ["int32", "float32"])
def test_a_training_is_captured_and_that_of_numpy(kind: str, options: dict[str, str]) -> None:
    def losses(backend: Any, **options: Any) -> list[float]:
        random = np.random.default_rng(3)
        data = [random.integers(0, 24, (13, 4)).astype(kind), random.normal(size=(13, 6))]
        x, t = L.MemoryData(data=data, tops=["x", "t"], batch_size=5, name="data")()
        hot = L.OneHot(n_class=24, name="hot")(x)
        made = [L.SquareLoss(name="loss")(L.InnerProduct(output_dim=6, name="ip")(hot), t)]
        with Net("hot", made, backend=backend, **options) as net:
            with Solver("SGD", lr_policy=0.05, check_finite=False).start(net) as training:
                found = cupy_standin.losses_of(training, 12, None if backend == "numpy" else backend)
            if backend != "numpy":
                recorded = [{(step.kind, step.name) for step in one.steps} for one in backend.recordings if one.graph]
                assert any({("forward", "hot"), ("update", "SGD")} < one for one in recorded)
        return found

    with cupy_standin.installed():
        found = losses(cupy_standin.watched()(), **options)
    wanted = losses("numpy", dtype=options.get("dtype", "float32"))
    np.testing.assert_allclose(found, wanted, rtol=2e-2 if "compute" in options else 1e-4)
