"""The cupy backend's Embedding: on the processor, against the layer's own state, and in captured nets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import cupy_standin
from cuda_bench import CLOSE, KernelSide, OwnSide, near, rounded
from cuda_on_host import ShimBackend, missing
from nacre import DataError, HostMemory, L, Net, Own, Solver
from nacre_cupy.kernels.embedding import PIECE, TILE, EmbeddingKernel
from nacre_cupy.kernels.launch import NUMBERS
from nacre_layers.linear.embedding import EmbeddingLayer
from nacre_solvers import SGD

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

KINDS = ["float32", "float64", "bf16"]


def embedding(count: int, width: int, bottoms: int = 1, **fields: Any) -> EmbeddingLayer:
    ends = {"bottoms": ["x", "z"][:bottoms], "tops": ["y", "v"][:bottoms]}
    return EmbeddingLayer(name="words", input_dim=count, output_dim=width, **ends, **fields)


def compare(
    layer: EmbeddingLayer,
    arrays: list[np.ndarray],
    dtype: str,
    rows: int | None = None,
    unwanted: str = "",
    special: float | None = None,
    shift: int = 0,
) -> KernelSide:
    """Check tops and gradients against the layer's own state; return the kernel's side.

    `special` is one number of each row of the weight, and one of the first vector's gradient. Sums of gradients have
    another order, so they may be off by some roundings.
    """
    options = (dtype, "train", 7, rows, 3, (0, 1))
    fast, own = KernelSide(ShimBackend(False, shift), *options), OwnSide(HostMemory.shared(), *options)
    wanted = [index for index, one in enumerate(arrays) if one.dtype.kind == "f"]

    def gradients(shapes: Sequence[Any]) -> list[Any]:
        random = np.random.default_rng(5)
        made = [random.normal(size=shape) for shape in shapes]
        for one in made:
            one.reshape(-1)[: 0 if special is None else 1] = special
        return [rounded(one, dtype) for one in made]

    def prepare(view: Any, state: Any) -> None:
        random = np.random.default_rng(11)
        for parameter in state.parameters:
            values = random.normal(size=parameter.shape)
            values[..., : 0 if special is None else 1] = special
            parameter.blob, gradient = (view.empty(parameter.shape, view.dtype) for _ in range(2))
            parameter.blob[...], gradient[...] = values, np.nan
            parameter.gradient = None if parameter.name == unwanted else gradient

    for side in (fast, own):
        side.prepare = lambda state, view=side.view: prepare(view, state)
    with np.errstate(all="ignore"):
        own.run(layer, arrays, wanted, gradients)
        if not wanted:
            own.state.backward(arrays, own.diffs)
    fast.run(layer, EmbeddingKernel, arrays, wanted, gradients)
    for _ in range(1 if wanted else 2):  # a second time it is the same
        fast.state.backward(fast.state.inputs, fast.state.diffs)
    fast.backend.check_guards()
    for one, other in zip(fast.tops, own.tops, strict=True):
        near(one, other, dtype, "top")
    wide = "float64" if dtype == "float64" else "float32"
    for one, other in zip(fast.state.parameters, own.state.parameters, strict=True):
        assert (one.gradient is None) == (other.gradient is None) == (one.name == unwanted)
        if one.gradient is not None:
            near(np.asarray(one.gradient), np.asarray(other.gradient), wide, one.name, close=8 * CLOSE[wide])
    assert not any(one.any() for one in fast.diffs if one is not None)
    return fast


def words(shape: tuple[int, ...], count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, count, shape)


SIZES: list[tuple[tuple[int, ...], int, int]] = [
    ((1,), 1, 1),
    ((7,), 3, 5),
    ((3, 5), 1000, 8),
    ((5, PIECE), 2, 12),
    ((PIECE + 1, 3), 7, 16),
    ((2, 3, 4), 5, 3),
    ((TILE, 2), 40, 1),
    ((13, 331), 3, 4),  # five tiles, and runs over many pieces
]


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize(("shape", "count", "width"), SIZES)
def test_embedding(shape: tuple[int, ...], count: int, width: int, dtype: str) -> None:
    compare(embedding(count, width), [words(shape, count)], dtype)
    for rows in (0, 1):
        compare(embedding(count, width, bias=False), [words(shape, count)], dtype, rows=rows, shift=1)


@pytest.mark.parametrize("dtype", KINDS)
def test_two_bottoms(dtype: str) -> None:
    arrays = [words((6, 20), 9), words((6, 3), 9).astype("uint8")]
    for unwanted in ("", "weight", "bias"):
        compare(embedding(9, 8, 2), arrays, dtype, unwanted=unwanted)


@pytest.mark.parametrize("one", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", KINDS)
def test_numbers_that_are_not_finite_reach_the_rows_that_they_belong_to(dtype: str, one: float) -> None:
    compare(embedding(9, 5), [words((50, 3), 9)], dtype, special=one)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("last", [1, PIECE, PIECE + 1, 2 * PIECE - 1, 2 * PIECE, 5 * PIECE])
def test_runs_that_end_anywhere(last: int, dtype: str) -> None:
    """Of one number there are `last`, of those around it one, and some."""
    numbers = np.repeat([0, 1, 2, 3], [1, last, 1, PIECE])
    compare(embedding(5, 4), [np.random.default_rng(2).permutation(numbers)], dtype)


@pytest.mark.parametrize("kind", [one for one in NUMBERS if one != "bf16"])
def test_types_of_numbers(kind: str) -> None:
    compare(embedding(100, 4), [words((9, 12), 100).astype(kind)], "float64" if kind == "float64" else "float32")


def told(value: Any, rows: int | None = None, kind: str = "float32") -> KernelSide:
    numbers = words((8, 3), 4).astype(kind)
    numbers[5, 1] = value
    return compare(embedding(4, 2), [numbers], "float64" if kind == "float64" else "float32", rows)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(-1, "int64"), (4, "uint8"), (2**40, "int64"), (2**64 - 1, "uint64"), (1.5, "float32"), (np.nan, "float64")],
)
def test_wrong_numbers_are_told_as_by_the_layer_itself(value: float, kind: str) -> None:
    side = KernelSide(ShimBackend(False), "float64" if kind == "float64" else "float32", "train", 7, None, 3)
    numbers, layer = words((8, 3), 4).astype(kind), embedding(4, 2)
    numbers[5, 1] = value
    side.prepare = lambda state: [
        setattr(one, "blob", side.view.empty(one.shape, side.view.dtype)) for one in state.parameters
    ]
    with pytest.raises(DataError, match=r"words: number \S+ of record 5 .* from 0 to 3\n.*input_dim") as ours:
        side.run(layer, EmbeddingKernel, [numbers], (), lambda shapes: [])
    with pytest.raises(DataError) as theirs:
        told(value, kind=kind)
    assert str(ours.value) == str(theirs.value)
    told(value, 5, kind)  # the row does not count


def test_declines() -> None:
    layer = embedding(4, 2**16)
    assert EmbeddingKernel.supports(layer, [Own((3, 4), "int64")]) is None
    assert "not bool" in str(EmbeddingKernel.supports(layer, [Own((3, 4), "bool")]))
    assert "fewer" in str(EmbeddingKernel.supports(layer, [Own((2**15, 1), "int64")]))


# In nets


def layers(kind: str, shape: tuple[int, ...], bottoms: int) -> list[Any]:
    random = np.random.default_rng(3)
    data = [random.integers(0, 300, (13, *shape)).astype(kind), random.normal(size=(13, 6))]
    x, t = L.MemoryData(data=data, tops=["x", "t"], batch_size=5, name="data")()
    vectors = L.Embedding(input_dim=300, output_dim=8, name="words")(*[x] * bottoms)
    both = L.ElementWise(name="both")(*vectors) if bottoms > 1 else vectors
    return [L.SquareLoss(name="loss")(L.InnerProduct(output_dim=6, name="ip")(both), t)]


def trained(backend: Any, made: list[Any], **options: Any) -> tuple[list[float], dict[str, Any]]:
    """Return the losses of a training, and the parameters after it; on a device, it has to be one graph."""
    with Net("words", made, backend=backend, **options) as net:
        with Solver(SGD(), lr_policy=0.05, check_finite=False).start(net) as training:
            on_device = backend != "numpy"
            losses = cupy_standin.losses_of(training, 12, backend if on_device else None)
            if on_device:
                (whole,) = (one for one in backend.recordings if one.graph and ("update", "SGD") in steps(one))
                assert {("forward", "words"), ("backward", "words")} < steps(whole)
        return losses, {name: handle.value for name, handle in net.parameters.items()}


def steps(recording: Any) -> set[tuple[str, str]]:
    return {(one.kind, one.name) for one in recording.steps}


@pytest.mark.parametrize(
    ("kind", "shape", "bottoms"), [("int32", (4,), 1), ("float32", (4,), 1), ("int64", (3, 2), 2)], ids=repr
)
@pytest.mark.parametrize("options", [{}, {"dtype": "float64"}, {"compute": "bf16"}], ids=repr)
def test_a_training_is_captured_and_that_of_numpy(
    backend: Any, kind: str, shape: tuple[int, ...], bottoms: int, options: dict[str, str]
) -> None:
    losses, values = trained(backend, layers(kind, shape, bottoms), **options)
    own_losses, own_values = trained("numpy", layers(kind, shape, bottoms), dtype=options.get("dtype", "float32"))
    close = {"compute": 2e-2, "dtype": 1e-12}.get(*options, 1e-4) if options else 1e-4
    np.testing.assert_allclose(losses, own_losses, rtol=close)
    for name, value in own_values.items():
        np.testing.assert_allclose(values[name], value, rtol=close, atol=close, err_msg=name)
    assert losses[-1] < losses[0]
