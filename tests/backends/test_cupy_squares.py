"""Convolutions of squares of pixels on the cupy backend: their copies number by number, and the layer on NumPy."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

import cupy_standin
import nacre
from cuda_on_host import ShimBackend, from_bits, missing, to_bits
from nacre import L, Net
from nacre_cupy.convolutions import Convolution
from nacre_cupy.kernels.squares import Squares

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

ONES = [
    Convolution(2, 3, (9, 8), 5, (5, 4), (2, 3), (1, 2), (1, 2), (1, 1), 1),
    Convolution(3, 1, (7, 7), 2, (3, 3), (2, 2), (0, 0), (0, 0), (1, 1), 1),
    Convolution(1, 7, (12, 11), 9, (11, 7), (4, 2), (3, 0), (2, 0), (1, 1), 1),
]


@pytest.mark.parametrize("dtype", ["float32", "bf16"])
@pytest.mark.parametrize("one", ONES)
def test_a_convolution_of_squares_gives_the_same(one: Convolution, dtype: str) -> None:
    backend: Any = ShimBackend()
    kind = "uint16" if dtype == "bf16" else "float32"
    squares = Squares(backend, one, "bf16" if dtype == "bf16" else "float")
    random, squared = np.random.default_rng(0), squares.squared
    x = random.integers(-8, 8, (one.images, *one.size, one.channels)).astype(np.float32)
    w = random.integers(-8, 8, one.w).astype(np.float32)

    def there(array: np.ndarray, narrow: bool = True) -> Any:
        made = backend.empty(array.shape, kind if narrow else "float32")
        made[...] = to_bits(array) if narrow and dtype == "bf16" else array
        return made

    def here(array: Any) -> np.ndarray:
        found = np.asarray(array)
        return from_bits(found) if found.dtype == np.uint16 else found

    images = backend.empty((squared.images, *squared.size, squared.channels), kind)
    filters = backend.empty((squared.filters, *squared.kernel, squared.channels), kind)
    squares.images(there(x), images)
    squares.filters(there(w, narrow=False), filters)
    padded = np.pad(x, ((0, 0), *zip(one.pad, one.tail, strict=True), (0, 0)))
    assert squared.y == one.y and squared.channels % (8 if dtype == "bf16" else 4) == 0
    wanted = convolved(padded, w.transpose(0, 2, 3, 1), one.stride, one.y)
    np.testing.assert_array_equal(convolved(here(images), here(filters), (1, 1), one.y), wanted)
    gradient = backend.empty(one.w, "float32")
    squares.gradient(filters, gradient)
    np.testing.assert_array_equal(here(gradient), w)
    backend.check_guards()


def convolved(x: Any, w: Any, stride: Any, shape: Any) -> np.ndarray:
    """Return a convolution, (images, rows, columns, filters), with the channels last."""
    made = np.zeros((shape[0], *shape[2:], shape[1]))
    for i in range(shape[2]):
        for j in range(shape[3]):
            top, left = i * stride[0], j * stride[1]
            window = x[:, top : top + w.shape[1], left : left + w.shape[2]]
            made[:, i, j] = np.tensordot(window, w, ((1, 2, 3), (1, 2, 3)))
    return made


# The layer


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    monkeypatch.setenv("CUPY_TF32", "1")
    monkeypatch.setenv("NACRE_CACHE", "")
    with cupy_standin.installed():
        yield cupy_standin.watched()()


def computed(
    here: Any, *, wanted: bool = False, refrozen: bool = False, **options: Any
) -> tuple[Any, list[np.ndarray]]:
    x, label = nacre.Input((3, 17, 16), name="x", batch_size=4), nacre.Input((), name="label", batch_size=4)
    maps = L.Convolution(n_filter=6, kernel=(7, 5), stride=(3, 2), pad=(2, 1), name="conv")(x)
    layers = [L.SoftmaxLoss()(L.InnerProduct(output_dim=3, name="ip")(maps), label)]
    with Net(
        "maps", layers, backend=here, seed=1, input_gradients=["x"] if wanted else [], keep="all", **options
    ) as net:
        for turn in range(3):  # called, captured and replayed
            if refrozen and turn == 1:
                net.freeze("ip")
                net.unfreeze("ip")
            net.write("x", np.random.default_rng(turn).normal(size=(4, 3, 17, 16)))
            net.write("label", [0, 1, 2, 1])
            net.forward()
            net.backward()
        found = [net.blob("conv"), *(handle.gradient for handle in net.parameters.values())]
        return net.node_ops["conv"].state, found


@pytest.mark.parametrize("refrozen", [False, True])
@pytest.mark.parametrize("compute", [None, "bf16"])
def test_a_layer_is_that_on_numpy(backend: Any, compute: str | None, refrozen: bool) -> None:
    kernel, found = computed(backend, compute=compute, refrozen=refrozen)
    assert kernel.squares is not None and kernel.one.channels == (24 if compute else 20) and kernel.one.stride == (1, 1)
    for one, other in zip(found, computed("numpy")[1], strict=True):
        assert np.linalg.norm(one - other) < 2e-2 * np.linalg.norm(other)


def test_squares_are_for_images_without_a_gradient_and_for_tensor_cores(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert computed(backend, wanted=True)[0].squares is None
    monkeypatch.setenv("CUPY_TF32", "")
    assert computed(cupy_standin.watched()())[0].squares is None
    for changed in ({"stride": (1, 2)}, {"stride": (2, 5)}, {"channels": 8}, {"dilation": (2, 1)}):
        assert Squares.fit(ONES[0]) and not Squares.fit(Convolution(**{**vars(ONES[0]), **changed}))


def test_a_number_that_is_not_finite_is_lost_nowhere(backend: Any) -> None:
    """It may reach more than on NumPy: what of its square no window has is multiplied by 0."""
    found = []
    for here in (backend, "numpy"):
        x = nacre.Input((3, 17, 16), name="x", batch_size=1)
        layers = [L.Convolution(n_filter=6, kernel=(7, 5), stride=(3, 2), name="conv")(x)]
        with Net("maps", layers, backend=here, keep="all", seed=1) as net:
            numbers = np.ones((1, 3, 17, 16))
            numbers[0, 1, 7, 7] = np.inf
            net.write("x", numbers)
            net.forward()
            found.append(np.isfinite(net.blob("conv")))
    ours, theirs = found
    assert not (ours & ~theirs).any() and theirs.sum() > ours.sum() > 0


@cupy_standin.only_standin
def test_without_a_plan_for_squares_the_layer_computes_as_it_is(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = backend.dnn.computation

    def computation(graph_of: Any, one: Any, *given: Any, **how: Any) -> Any:
        return None if one.stride == (1, 1) else real(graph_of, one, *given, **how)

    monkeypatch.setattr(backend.dnn, "computation", computation)
    kernel, found = computed(backend)
    assert kernel.squares is None and kernel.one.channels == 3
    for one, other in zip(found, computed("numpy")[1], strict=True):
        assert np.linalg.norm(one - other) < 2e-2 * np.linalg.norm(other)
