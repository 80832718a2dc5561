"""The numpy backend's building blocks against naive loops, and against torch where it is installed."""

import contextlib
import gc
import itertools
import math
import os
import signal
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import NacreError, open_backend
from nacre_layers.windows import WindowAxis
from nacre_numpy import convolution, functions, pooling, threads, update
from nacre_numpy.arrays import Arrays
from nacre_numpy.convolution import Convolution2D
from nacre_numpy.functions import Functions
from nacre_numpy.inner_product import InnerProduct
from nacre_numpy.pooling import Pooling2D
from nacre_numpy.threads import Blas, Pool, number_of_threads, small_buffers, split
from nacre_numpy.update import MomentumUpdate

thorough = settings(max_examples=60)
POOLS = {count: Pool(count) for count in (1, 2, 3, 5)}
pools = st.sampled_from(list(POOLS.values()))
pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def axes(size, kernel, stride=(1, 1), pad=(0, 0), dilation=(1, 1), rounding="floor"):
    """Return the windows along both axes of an image."""
    fields = zip(size, kernel, stride, pad, pad, dilation, strict=True)
    return [WindowAxis(*one, rounding=rounding) for one in fields]


def unset(*shape):
    """Memory whose content would show if a result were added to it, or not written."""
    return np.full(shape, np.nan)


# Large calls of NumPy's functions


LARGE_SHAPES = [(4, functions.LARGE), (functions.LARGE, 3), (1, 7, functions.LARGE // 7 + 1), (2 * functions.LARGE,)]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("shape", LARGE_SHAPES, ids=str)
def test_shared_functions_have_the_bits_of_numpy(count, shape):
    xp, x = Functions(POOLS[count]), numbers(*shape).astype(np.float32)
    row, scalar = numbers(shape[-1], seed=1).astype(np.float32), np.float32(0.3)
    for function, inputs in (
        ("add", (x, x[::-1])), ("multiply", (x, row)), ("subtract", (row, x)), ("divide", (x, scalar)), ("exp", (x,)),
        ("maximum", (x, 0.5)), ("tanh", (x,)), ("log", (np.abs(x),)),
    ):  # fmt: skip
        out = unset(*shape).astype(np.float32)
        assert getattr(xp, function)(*inputs, out=out) is out
        np.testing.assert_array_equal(out, getattr(np, function)(*inputs), err_msg=function)
    mask = np.empty(shape, bool)
    xp.greater(x, 0, out=mask)
    np.testing.assert_array_equal(mask, x > 0)
    target = unset(*shape)
    xp.copyto(target, x)
    np.testing.assert_array_equal(target, x)
    xp.copyto(target, row)
    np.testing.assert_array_equal(target, np.broadcast_to(row, shape))
    xp.copyto(target, 0, where=x > 0)
    np.testing.assert_array_equal(target == 0, x > 0)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_shared_functions_may_write_over_what_they_read(count):
    xp, size = Functions(POOLS[count]), 3 * functions.LARGE
    x = numbers(size)
    expected = x.copy()
    expected[1:] = expected[1:] + expected[:-1]
    xp.add(x[1:], x[:-1], out=x[1:])
    np.testing.assert_array_equal(x, expected)
    xp.multiply(x, x, out=x)
    np.testing.assert_array_equal(x, expected * expected)
    expected = x.copy()
    expected[3:] = expected[:-3].copy()
    xp.copyto(x[3:], x[:-3])
    np.testing.assert_array_equal(x, expected)


@thorough
@given(pools, st.lists(st.sampled_from([1, 2, 3, 5, 7, 12, 31]), min_size=1, max_size=4), st.data())
def test_shared_reductions_have_the_bits_of_numpy(pool, shape, data):
    shape.insert(data.draw(st.integers(0, len(shape))), functions.LARGE_SUM // math.prod(shape) + 1)
    order = data.draw(st.permutations(range(len(shape))))
    x = numbers(*shape).astype(data.draw(st.sampled_from(["float32", "float64"]))).transpose(order)
    axes = data.draw(st.lists(st.integers(-x.ndim, x.ndim - 1), min_size=1, unique_by=lambda one: one % x.ndim))
    axis = data.draw(st.sampled_from([tuple(axes), axes[0]]))
    name, keeps = data.draw(st.sampled_from(["sum", "max", "min", "argmax"])), data.draw(st.booleans())
    if name == "argmax":
        axis = axes[0]
    expected = getattr(np, name)(x, axis=axis, keepdims=keeps)
    out = np.full_like(expected, 0)
    assert getattr(Functions(pool), name)(x, axis, out, keeps) is out
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shared_taking_has_the_numbers_of_numpy(count, axis, dtype):
    xp, x = Functions(POOLS[count]), numbers(64, 2000).astype(dtype)
    shape = {None: (functions.LARGE_SUM,), 0: (90, 50)}.get(axis, (5000,))
    at = np.random.default_rng(0).integers(-3, 3000, shape)
    at.flat[5] = 10**6
    expected = np.take(x, at, axis, mode="clip").astype("float64")
    for out in (np.empty(expected.shape), np.empty(expected.shape[::-1]).T, np.empty(expected.shape, dtype)):
        assert xp.take(x, at, axis=axis, out=out, mode="clip") is out
        np.testing.assert_array_equal(out, expected)
    with pytest.raises(IndexError, match="out of bounds"):
        xp.take(x, at, axis=axis, out=out)


@pytest.mark.parametrize("name", ["sum", "max", "argmax", "take"])
def test_sums_and_what_takes_numbers_use_every_thread(name, monkeypatch):
    used, function = [], getattr(np, name)

    def note(*inputs, **options):
        used.append(threading.get_ident())
        return function(*inputs, **options)

    monkeypatch.setattr(np, name, note)
    xp, x = Functions(POOLS[3]), numbers(functions.LARGE_SUM, 3)
    if name == "take":
        xp.take(x, np.arange(functions.LARGE_SUM)[::-1], axis=0, out=np.empty_like(x), mode="clip")
    else:
        getattr(xp, name)(x, axis=1, out=np.empty(functions.LARGE_SUM, "int64" if name == "argmax" else "float64"))
    assert len(set(used)) == 3
    with pytest.raises(ValueError, match=r"output|operands"):
        getattr(xp, name)(x, np.arange(3), 0, np.empty(5)) if name == "take" else getattr(xp, name)(x, 1, np.empty(5))


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_shared_products_have_the_bits_of_numpy(count):
    xp, a, b = Functions(POOLS[count]), numbers(7, 2, 40, 30), numbers(7, 2, 30, 50, seed=1)
    out = unset(7, 2, 40, 50)
    xp.matmul(a, b, out=out)
    np.testing.assert_array_equal(out, np.matmul(a, b))
    for one, other in ((a, b[0]), (a[0], b), (a, b[0, 0]), (a[:1], b)):
        xp.matmul(one, other, out=out)
        np.testing.assert_array_equal(out, np.matmul(one, other))
    matrix = unset(40, 50)
    xp.matmul(a[0, 0], b[0, 0], out=matrix)
    np.testing.assert_array_equal(matrix, a[0, 0] @ b[0, 0])


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize(("rows", "inner", "columns"), [(301, 128, 64), (3, 1024, 701), (1024, 1024, 1), (2, 3, 4)])
def test_one_large_product_uses_every_thread(count, rows, inner, columns):
    xp, used, large = Functions(POOLS[count]), [], rows * inner * columns >= functions.LARGE_PRODUCT

    def note(*inputs, out):
        used.append(threading.get_ident())
        return np.matmul(*inputs, out=out)

    note.nin = 2
    xp.matmul.function = note
    a, b, out = numbers(inner, rows).T, numbers(inner, columns, seed=1), unset(rows, columns)
    assert xp.matmul(a, b, out=out) is out
    np.testing.assert_allclose(out, np.matmul(a, b), rtol=1e-12, atol=1e-12)
    assert len(used) == len(set(used)) == (count if large else 1)


def test_a_large_product_that_numpy_refuses_or_copies_is_left_to_it():
    xp, x = Functions(POOLS[2]), numbers(128, 128)
    for other, out in ((numbers(127, 128), unset(128, 128)), (x, unset(1, 128))):
        with pytest.raises(ValueError, match="mismatch"):
            xp.matmul(x, other, out=out)
    expected = x @ x.T
    np.testing.assert_allclose(xp.matmul(x, x.T, out=x), expected, rtol=1e-12, atol=1e-12)


def test_shared_functions_are_numpys_for_all_else():
    xp, x = Functions(POOLS[3]), numbers(3, functions.LARGE)
    assert xp.add.reduce(x[0]) == np.add.reduce(x[0]) and xp.float32 is np.float32 and xp.pi == np.pi
    np.testing.assert_array_equal(xp.add(x, 1), x + 1)
    with pytest.raises(ValueError, match="broadcast"):
        xp.add(x, numbers(3, 5), out=x)
    with pytest.raises(ValueError, match="broadcast"):
        xp.copyto(x, numbers(2, functions.LARGE))
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        xp.divide(x, 0.0, out=x)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("length", [5, functions.LARGE + 1])
def test_whole_numbers_are_computed_in_the_type_of_a_floating_out(count, length):
    xp = Functions(POOLS[count])
    for kind in (np.uint8, np.int8, np.int16, np.int32, np.int64, bool):
        x = np.full(length, np.iinfo(kind).max if kind is not bool else True, kind)
        exact = x.astype(np.float32)
        for function, inputs in (
            ("add", (x, x)), ("subtract", (x[::-1], x)), ("multiply", (x, x)), ("multiply", (x, 3)), ("square", (x,)),
            ("negative", (x,)), ("add", (np.int32(7), x)),
        ):  # fmt: skip
            out = unset(length).astype(np.float32)
            assert getattr(xp, function)(*inputs, out=out) is out
            floats = [exact if isinstance(one, np.ndarray) else np.float32(one) for one in inputs]
            np.testing.assert_array_equal(out, getattr(np, function)(*floats), err_msg=f"{function} of {kind}")
    mask = np.empty(length, bool)
    assert xp.greater(x, 0, out=mask).all() and xp.add(x, x).dtype == x.dtype


def test_products_of_whole_numbers_are_computed_in_the_type_of_a_floating_out():
    xp, x = Functions(POOLS[2]), np.full((3, 4, 4), 200, np.uint8)
    for one in (x, x[0]):
        out = unset(*one.shape).astype(np.float32)
        np.testing.assert_array_equal(xp.matmul(one, one, out=out), 4 * 200.0**2)


def test_shared_functions_use_every_thread():
    used = set()

    def note(a, out):
        used.add(threading.get_ident())
        np.copyto(out, a)

    functions.share(POOLS[3], note, (x := numbers(9, 4),), out := unset(9, 4), 0)
    np.testing.assert_array_equal(out, x)
    assert len(used) == 3


# Threads


@given(st.integers(1, 100), st.integers(1, 12))
def test_split_covers_everything_in_order(n, parts):
    pieces = split(n, parts)
    assert [i for start, stop in pieces for i in range(start, stop)] == list(range(n))
    sizes = {stop - start for start, stop in pieces}
    assert len(pieces) == min(n, parts) and max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("count", [1, 2, 4])
def test_parallel_calls_every_piece_once_on_its_own_thread(count):
    pool, calls = Pool(count), []
    for n in (1, 2, 3, 10):
        calls.clear()
        pool.parallel(lambda *piece: calls.append((*piece, threading.get_ident())), n)
        assert sorted(call[:2] for call in calls) == list(split(n, count))
        assert len({call[3] for call in calls}) == min(n, count)
        assert next(call[3] for call in calls if call[2] == 0) == threading.get_ident()
    pool.close()


def test_one_thread_starts_no_threads():
    before = threading.active_count()
    Pool(1).parallel(lambda *_: None, 8)
    Pool(4).parallel(lambda *_: None, 1)
    assert threading.active_count() == before


@pytest.mark.parametrize("how", ["ignore", "raise", "warn"])
def test_threads_tell_of_numbers_that_are_not_finite_as_their_caller_does(how):
    found = {}

    def look(start, stop, worker):
        found[worker] = np.geterr()["over"]

    with np.errstate(over=how):
        POOLS[3].parallel(look, 3)
    assert found == dict.fromkeys(range(3), how)


@pytest.mark.parametrize("guilty", [0, 1, 2])
def test_an_exception_reaches_the_caller_and_the_pool_works_on(guilty):
    pool, done = Pool(3), []

    def fail(start, stop, worker):
        if worker == guilty:
            raise KeyError(worker)
        done.append(worker)

    with pytest.raises(KeyError, match=str(guilty)):
        pool.parallel(fail, 3)
    assert sorted(done) == [worker for worker in range(3) if worker != guilty]
    pool.parallel(lambda start, stop, worker: done.append(worker), 3)
    assert len(done) == 5
    pool.close()


def test_a_call_from_inside_a_piece_runs_there():
    pool, seen = Pool(2), []
    pool.parallel(lambda *_: pool.parallel(lambda *piece: seen.append(piece), 4), 2)
    assert sorted(seen) == [(0, 2, 0), (0, 2, 0), (2, 4, 1), (2, 4, 1)]
    pool.close()


def test_a_call_from_another_thread_waits_for_its_turn():
    pool, busy, clashes = Pool(2), [0, 0], []

    def piece(start, stop, worker):
        busy[worker] += 1
        np.sort(numbers(20000))  # gives up the interpreter's lock
        clashes.append(busy[worker])
        busy[worker] -= 1

    callers = [threading.Thread(target=lambda: [pool.parallel(piece, 2) for _ in range(10)]) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert clashes == [1] * 60
    pool.close()


def test_threads_end_with_close_and_with_the_pool():
    before = threading.active_count()
    pool = Pool(3)
    pool.parallel(lambda *_: None, 3)
    assert threading.active_count() == before + 2
    pool.close()
    pool.close()
    assert threading.active_count() == before
    pool.parallel(lambda *_: None, 3)
    del pool
    assert threading.active_count() == before


def test_a_pool_needs_a_thread():
    with pytest.raises(ValueError, match="count=0"):
        Pool(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_threads_of_its_own():
    code = """
import os, warnings
from nacre_numpy.threads import Pool
warnings.simplefilter("ignore")
pool = Pool(2)
pool.parallel(lambda *_: None, 2)
child = os.fork()
seen = []
pool.parallel(lambda start, stop, worker: seen.append(worker), 2)
assert sorted(seen) == [0, 1]
pool.close()
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600, env=environment)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_blas_has_its_threads_again_in_a_child_that_was_forked_beside_a_limit():
    code = """
import os, threading, warnings
from nacre_numpy.threads import Blas
warnings.simplefilter("ignore")
blas = Blas()
blas.set_threads(2)
usual = blas.threads()
inside, over = threading.Event(), threading.Event()
def limit():
    with blas.limit(1), blas.limit(3), blas.limit(1):
        inside.set()
        over.wait()
other = threading.Thread(target=limit, daemon=True)
other.start()
inside.wait()
beside = os.fork()
if not beside:
    assert blas.threads() == usual
    with blas.limit(1):
        assert blas.threads() == 1
    assert blas.threads() == usual
    os._exit(0)
assert os.waitpid(beside, 0)[1] == 0
assert blas.threads() == 1
over.set()
other.join()
assert blas.threads() == usual
with blas.limit(1):
    within = os.fork()
    assert blas.threads() == 1
assert blas.threads() == usual
if within:
    assert os.waitpid(within, 0)[1] == 0
os._exit(0)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600, env=environment)


def test_number_of_threads_reads_the_environment(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    monkeypatch.delenv("NACRE_NUM_THREADS", raising=False)
    assert number_of_threads() == 3
    monkeypatch.setenv("NACRE_NUM_THREADS", "16")
    assert number_of_threads() == 16
    for bad in ("many", "0", "-1", "2.5", "17", "1000", "1000000000", "9" * 5000):
        monkeypatch.setenv("NACRE_NUM_THREADS", bad)
        told = rf"^NACRE_NUM_THREADS={bad:.40}, but it must be a whole number from 1 to 16 \(8 for each processor\)"
        with pytest.raises(NacreError, match=told):
            number_of_threads()
    monkeypatch.setenv("NACRE_NUM_THREADS", "")
    for many in ("17", "1" + 5000 * "0"):
        monkeypatch.setenv("OMP_NUM_THREADS", many)
        assert number_of_threads() == 16
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert number_of_threads() >= 1
    monkeypatch.setattr("nacre.threads._cgroup_limit", lambda: 1)
    assert number_of_threads() == 1


def test_threads_that_the_system_does_not_start_are_told(monkeypatch):
    pool, start, left = Pool(5), threading.Thread.start, [1, 2]

    def start_two(thread):
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start_two)
        with pytest.raises(NacreError, match="4 threads are wanted beside this one, but the system starts only 2"):
            pool.parallel(lambda start, stop, worker: None, 5)
    seen = []
    pool.parallel(lambda start, stop, worker: seen.append(worker), 5)  # they can be had again
    assert sorted(seen) == list(range(5))
    pool.close()


def test_blas_threads_are_set_and_put_back():
    blas = Blas()
    before = blas.threads()
    with blas.limit(1):
        assert blas.threads() == 1
    assert blas.threads() == before
    assert blas.set_threads(1) == before and blas.set_threads(before) == 1


def test_without_openblas_nothing_is_set(monkeypatch):
    monkeypatch.setattr(threads, "_openblas_functions", lambda: (None, None, None))
    blas = Blas()
    with blas.limit(4):
        assert blas.threads() == 1
    assert blas.description


def test_the_backend_says_on_what_its_bits_depend():
    backend = open_backend("numpy")
    told = backend.environment()
    assert told["threads"] == backend.pool.count
    if any(threads._openblas_functions()):
        assert told["blas"].startswith("OpenBLAS ")


# Convolution


def naive_convolution(x, weight, bias, dy, stride, pad, dilation, groups, relu):
    """y, dx, dweight, dbias by one product for each cell of the kernel and each group."""
    images, height, width, _ = x.shape
    filters, each, high, wide = weight.shape
    rows = (height + 2 * pad[0] - (high - 1) * dilation[0] - 1) // stride[0] + 1
    columns = (width + 2 * pad[1] - (wide - 1) * dilation[1] - 1) // stride[1] + 1
    padded = np.pad(x, ((0, 0), (pad[0], pad[0]), (pad[1], pad[1]), (0, 0)))
    y = np.zeros((images, rows, columns, filters)) + bias
    dpadded, dweight = np.zeros_like(padded), np.zeros_like(weight)
    parts = []
    for group, i, j in itertools.product(range(groups), range(high), range(wide)):
        inputs = slice(group * each, (group + 1) * each)
        outputs = slice(group * filters // groups, (group + 1) * filters // groups)
        down = slice(i * dilation[0], i * dilation[0] + (rows - 1) * stride[0] + 1, stride[0])
        right = slice(j * dilation[1], j * dilation[1] + (columns - 1) * stride[1] + 1, stride[1])
        parts.append((inputs, outputs, down, right, i, j))
        y[..., outputs] += padded[:, down, right, inputs] @ weight[outputs, :, i, j].T
    if relu:
        y = np.maximum(y, 0)
    dy = dy(y.shape)
    gradient = dy * (y > 0) if relu else dy
    for inputs, outputs, down, right, i, j in parts:
        dpadded[:, down, right, inputs] += gradient[..., outputs] @ weight[outputs, :, i, j]
        dweight[outputs, :, i, j] = np.tensordot(
            gradient[..., outputs], padded[:, down, right, inputs], ((0, 1, 2),) * 2
        )
    dx = dpadded[:, pad[0] : pad[0] + height, pad[1] : pad[1] + width]
    return y, dy, dx, dweight, gradient.sum((0, 1, 2))


@st.composite
def convolutions(draw):
    kernel, stride, dilation = draw(pairs), draw(pairs), draw(pairs)
    pad = draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    if draw(st.booleans()):
        stride = (1, 1)
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    height, width = (draw(st.integers(max(1, e - 2 * p), 9)) for e, p in zip(extent, pad, strict=True))
    groups = draw(st.integers(1, 3))
    channels, filters = (groups * draw(st.integers(1, 3)) for _ in range(2))
    return (draw(st.integers(1, 4)), height, width, channels), filters, kernel, stride, pad, dilation, groups


def check_convolution(shape, filters, kernel, stride, pad, dilation, groups, pool, relu):
    x, weight, bias = numbers(*shape), numbers(filters, shape[3] // groups, *kernel, seed=1), numbers(filters, seed=2)
    y, dy, *gradients = naive_convolution(
        x, weight, bias, lambda shape: numbers(*shape, seed=3), stride, pad, dilation, groups, relu
    )
    windows = axes(shape[1:3], kernel, stride, pad, dilation)
    layer = Convolution2D(shape[0], shape[3], filters, *windows, groups, np.float64, pool, relu)
    found = unset(*y.shape)
    assert found.shape[1:3] == (layer.rows, layer.columns)
    for wanted in itertools.product((True, False), repeat=3):
        dx, dweight, dbias = (unset(*g.shape) if want else None for g, want in zip(gradients, wanted, strict=True))
        layer.bind(Arrays(x, weight, bias, found, dy, dweight, dbias, dx))
        found[...] = np.nan
        layer.forward()
        np.testing.assert_allclose(found, y, atol=1e-12)
        for _ in range(2):
            layer.backward()
            for result, expected in zip((dx, dweight, dbias), gradients, strict=True):
                if result is not None:
                    np.testing.assert_allclose(result, expected, atol=1e-11)
    layer.bind(Arrays(x, weight, None, found))
    layer.forward()
    without = naive_convolution(
        x, weight, np.zeros(filters), lambda shape: np.zeros(shape), stride, pad, dilation, groups, relu
    )
    np.testing.assert_allclose(found, without[0], atol=1e-12)


@thorough
@given(convolutions(), pools, st.booleans())
def test_convolution_equals_the_naive_one(case, pool, relu):
    check_convolution(*case, pool, relu)


@pytest.mark.parametrize("limit", [1, 3000, 20000])
@pytest.mark.parametrize(
    ("kernel", "stride", "pad"), [((3, 3), (1, 1), (1, 1)), ((3, 2), (2, 1), (1, 0)), ((1, 1), (1, 1), (0, 0))]
)
def test_convolution_in_small_chunks_and_bands_of_rows(monkeypatch, limit, kernel, stride, pad):
    monkeypatch.setattr(convolution, "CHUNK_BYTES", limit)
    check_convolution((5, 9, 7, 4), 6, kernel, stride, pad, (1, 1), 2, POOLS[2], True)


def test_convolution_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="no convolution of 2x9x3"):
        Convolution2D(1, 3, 4, *axes((2, 9), (3, 3)))


@pytest.mark.parametrize("wants_dx", [True, False])
def test_convolution_gives_the_same_bits_every_time(wants_dx):
    x, weight, bias = numbers(7, 8, 8, 3), numbers(4, 3, 3, 3, seed=1), numbers(4, seed=2)
    results = []
    for _ in range(3):
        layer = Convolution2D(7, 3, 4, *axes((8, 8), (3, 3), pad=(1, 1)), dtype=np.float64, pool=Pool(3))
        y, dweight, dbias = unset(7, 8, 8, 4), unset(4, 3, 3, 3), unset(4)
        layer.bind(Arrays(x, weight, bias, y, y, dweight, dbias, unset(*x.shape) if wants_dx else None))
        layer.forward()
        layer.backward()
        results.append((y.tobytes(), dweight.tobytes(), dbias.tobytes()))
    assert results[0] == results[1] == results[2]


def test_relu_lets_nothing_through_where_it_cut_whatever_the_gradient():
    weight = np.ones((1, 1, 1, 1), np.float32)
    x = np.array([-1, -1, 2, 2, 0], np.float32).reshape(5, 1, 1, 1)
    dy = np.array([np.nan, np.inf, np.inf, 3, 5], np.float32).reshape(5, 1, 1, 1)
    layer = Convolution2D(5, 1, 1, *axes((1, 1), (1, 1)), relu=True)
    y, dx = np.empty_like(x), np.empty_like(x)
    layer.bind(Arrays(x, weight, None, y, dy, dx=dx))
    layer.forward()
    layer.backward()
    assert dx.ravel().tolist() == [0, 0, np.inf, 3, 0]


def test_convolution_equals_torchs():
    torch = pytest.importorskip("torch")
    x, weight, bias = (a.astype(np.float32) for a in (numbers(6, 13, 12, 8), numbers(12, 4, 5, 3), numbers(12)))
    layer = Convolution2D(6, 8, 12, *axes((13, 12), (5, 3), (2, 1), (2, 1)), 2, np.float32, POOLS[2])
    y = np.empty((6, layer.rows, layer.columns, 12), np.float32)
    dx, dweight, dbias = (np.empty_like(a) for a in (x, weight, bias))
    layer.bind(Arrays(x, weight, bias, y, y, dweight, dbias, dx))
    layer.forward()
    inputs = [torch.tensor(a, requires_grad=True) for a in (x.transpose(0, 3, 1, 2), weight, bias)]
    expected = torch.nn.functional.conv2d(*inputs, (2, 1), (2, 1), 1, 2)
    np.testing.assert_allclose(y.transpose(0, 3, 1, 2), expected.detach().numpy(), rtol=1e-4, atol=1e-4)
    layer.backward()
    expected.backward(expected.detach())
    for found, there in zip((dx.transpose(0, 3, 1, 2), dweight, dbias), inputs, strict=True):
        np.testing.assert_allclose(found, there.grad.numpy(), rtol=1e-4, atol=2e-3)


# Pooling


def naive_pooling(x, dy, rows, columns, kernel, stride, pad, mode):
    """y and dx, window by window."""
    images, height, width, channels = x.shape
    y, dx = np.zeros((images, rows, columns, channels)), np.zeros_like(x)
    for i, j in itertools.product(range(rows), range(columns)):
        top, left = i * stride[0] - pad[0], j * stride[1] - pad[1]
        down = [r for r in range(top, top + kernel[0]) if 0 <= r < height]
        right = [c for c in range(left, left + kernel[1]) if 0 <= c < width]
        count = len(range(max(top, -pad[0]), min(top + kernel[0], height + pad[0])))
        count *= len(range(max(left, -pad[1]), min(left + kernel[1], width + pad[1])))
        window = x[:, down][:, :, right].reshape(images, -1, channels)
        cells = list(itertools.product(down, right))
        if mode == "max":
            y[:, i, j] = window.max(1)
            for n, c in itertools.product(range(images), range(channels)):
                row, column = cells[int(window[n, :, c].argmax())]
                dx[n, row, column, c] += dy[n, i, j, c]
        else:
            y[:, i, j] = window.sum(1) / count
            for row, column in cells:
                dx[:, row, column] += dy[:, i, j] / count
    return y, dx


@st.composite
def poolings(draw):
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    stride = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    pad = tuple(draw(st.integers(0, k - 1)) for k in kernel)
    size = tuple(draw(st.integers(max(1, k - 2 * p), 9)) for k, p in zip(kernel, pad, strict=True))
    rounding = draw(st.sampled_from(["ceil", "floor"]))
    result = []
    for length, k, s, p in zip(size, kernel, stride, pad, strict=True):
        windows = getattr(math, rounding)((length + 2 * p - k) / s) + 1
        result.append(windows - ((windows - 1) * s - p >= length))  # the last window would miss the image
    return (draw(st.integers(1, 4)), *size, draw(st.integers(1, 3))), result, kernel, stride, pad, rounding


@thorough
@given(poolings(), pools, st.sampled_from(["max", "mean"]), st.booleans())
def test_pooling_equals_the_naive_one(case, pool, mode, ties):
    shape, (rows, columns), kernel, stride, pad, rounding = case
    x, dy = numbers(*shape), numbers(shape[0], rows, columns, shape[3], seed=1)
    if ties:
        x = np.sign(x.round())
    y, dx = naive_pooling(x, dy, rows, columns, kernel, stride, pad, mode)
    windows = axes(shape[1:3], kernel, stride, pad, rounding=rounding)
    layer = Pooling2D(shape[0], shape[3], *windows, mode, np.float64, pool)
    found, dfound = unset(*y.shape), unset(*x.shape)
    layer.bind(x, found, dy, dfound)
    for _ in range(2):
        layer.forward()
        layer.backward()
        np.testing.assert_allclose(found, y, atol=1e-12)
        np.testing.assert_allclose(dfound, dx, atol=1e-12)


@pytest.mark.parametrize("mode", ["max", "mean"])
def test_pooling_in_small_chunks(monkeypatch, mode):
    monkeypatch.setattr(pooling, "CHUNK_BYTES", 1000)
    x, dy = numbers(9, 7, 7, 2), numbers(9, 3, 3, 2, seed=1)
    layer = Pooling2D(9, 2, *axes((7, 7), (3, 3), (2, 2)), mode, np.float64, POOLS[2])
    y, dx = unset(*dy.shape), unset(*x.shape)
    layer.bind(x, y, dy, dx)
    layer.forward()
    layer.backward()
    for found, expected in zip((y, dx), naive_pooling(x, dy, 3, 3, (3, 3), (2, 2), (0, 0), mode), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("mode", ["max", "mean"])
def test_pooling_of_whole_numbers_is_that_of_the_same_floats(mode):
    x = np.random.default_rng(0).integers(100, 256, (4, 7, 7, 2)).astype(np.uint8)
    layer = Pooling2D(4, 2, *axes((7, 7), (3, 3), (2, 2), (1, 1)), mode)
    found, expected = np.empty((2, 4, layer.rows, layer.columns, 2), np.float32)
    for one, y in ((x, found), (x.astype(np.float32), expected)):
        layer.bind(one, y)
        layer.forward()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["max", "mean"])
def test_pooling_may_write_the_gradient_over_its_input(mode):
    x, dy = numbers(5, 7, 7, 2), numbers(5, 3, 3, 2, seed=1)
    layer = Pooling2D(5, 2, *axes((7, 7), (3, 3), (2, 2)), mode, np.float64, POOLS[2])
    _, dx = naive_pooling(x, dy, 3, 3, (3, 3), (2, 2), (0, 0), mode)
    layer.bind(x, unset(*dy.shape), dy, x)
    layer.backward()
    np.testing.assert_allclose(x, dx, atol=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("mode", ["max", "mean"])
def test_pooling_passes_nan_on_and_spreads_no_infinity(mode):
    x = numbers(1, 6, 6, 2).astype(np.float32)
    x[0, 3, 2, 1] = np.nan
    x[0, :2, :2, 0] = -np.inf
    layer = Pooling2D(1, 2, *axes((6, 6), (2, 2), (2, 2)), mode)
    y, dy, dx = np.empty((1, 3, 3, 2), np.float32), np.ones((1, 3, 3, 2), np.float32), np.empty_like(x)
    layer.bind(x, y, dy, dx)
    layer.forward()
    assert np.argwhere(np.isnan(y)).tolist() == [[0, 1, 1, 1]]
    assert y[0, 0, 0, 0] == -np.inf
    dy[0, 2, 2, 0] = np.inf
    layer.backward()
    np.testing.assert_array_equal(dx.reshape(1, 3, 2, 3, 2, 2).sum((2, 4)), dy)


def test_pooling_whose_window_misses_the_image_is_refused():
    with pytest.raises(ValueError, match="misses the 4 pixels"):
        Pooling2D(1, 1, *axes((4, 4), (2, 2), (2, 2), (2, 0)))
    with pytest.raises(ValueError, match="mode='least'"):
        Pooling2D(1, 1, *axes((4, 4), (2, 2), (2, 2)), mode="least")


@pytest.mark.parametrize("mode", ["max", "mean"])
def test_pooling_equals_torchs(mode):
    torch = pytest.importorskip("torch")
    x = numbers(3, 9, 11, 4).astype(np.float32)
    there = torch.tensor(x.transpose(0, 3, 1, 2), requires_grad=True)
    function = torch.nn.functional.max_pool2d if mode == "max" else torch.nn.functional.avg_pool2d
    expected = function(there, 3, 2, 1, ceil_mode=True)
    layer = Pooling2D(3, 4, *axes((9, 11), (3, 3), (2, 2), (1, 1), rounding="ceil"), mode, pool=POOLS[2])
    y, dx = np.empty((3, *expected.shape[2:], 4), np.float32), np.empty_like(x)
    layer.bind(x, y, y, dx)
    layer.forward()
    layer.backward()
    expected.backward(expected.detach())
    np.testing.assert_allclose(y.transpose(0, 3, 1, 2), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dx.transpose(0, 3, 1, 2), there.grad.numpy(), rtol=1e-5, atol=1e-6)


# Inner product


@thorough
@given(st.integers(1, 5), st.integers(1, 9), st.integers(1, 9), pools, st.booleans(), st.booleans())
def test_inner_product_equals_the_formula(batch, inputs, outputs, pool, relu, shared):
    x, weight, bias, dy = (
        numbers(*shape, seed=seed)
        for seed, shape in enumerate([(batch, inputs), (outputs, inputs), (outputs,), (batch, outputs)])
    )
    layer = InnerProduct(batch, inputs, outputs, np.float64, pool, relu)
    if shared:
        layer.workers = min(pool.count, inputs, outputs)
    y = unset(batch, outputs)
    layer.bind(Arrays(x, weight, bias, y))
    layer.forward()
    expected = np.array([[sum(a * b for a, b in zip(row, w, strict=True)) for w in weight] for row in x]) + bias
    expected = np.maximum(expected, 0) if relu else expected
    np.testing.assert_allclose(y, expected, atol=1e-12)
    gradient = dy * (y > 0) if relu else dy
    expected = gradient @ weight, gradient.T @ x, gradient.sum(0)
    for wanted in itertools.product((True, False), repeat=3):
        dx, dweight, dbias = (unset(*g.shape) if want else None for g, want in zip(expected, wanted, strict=True))
        layer.bind(Arrays(x, weight, bias, y, dy, dweight, dbias, dx))
        layer.backward()
        for found, right in zip((dx, dweight, dbias), expected, strict=True):
            if found is not None:
                np.testing.assert_allclose(found, right, atol=1e-12)


def test_inner_product_of_some_size_uses_the_threads():
    layer = InnerProduct(16, 300, 300, pool=POOLS[2])
    assert layer.workers == 2 and InnerProduct(16, 300, 10, pool=POOLS[2]).workers == 1
    x, weight, y = (a.astype(np.float32) for a in (numbers(16, 300), numbers(300, 300), unset(16, 300)))
    layer.bind(Arrays(x, weight, None, y))
    layer.forward()
    np.testing.assert_allclose(y, x @ weight.T, rtol=1e-3, atol=1e-4)


# Update


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_update_follows_the_formula_with_the_same_bits_on_any_number_of_threads(monkeypatch, dtype):
    monkeypatch.setattr(update, "CHUNK", 16)
    monkeypatch.setattr(update, "ALONE", 0)
    start = [numbers(101, seed=seed).astype(dtype) for seed in range(3)]
    results = []
    for pool in POOLS.values():
        weight, gradient, velocity = (a.copy() for a in start)
        step = MomentumUpdate(101, dtype, pool)
        for rate in (0.1, 0.2):
            step.update(weight, gradient, velocity, rate, 0.9)
        results.append((weight.tobytes(), velocity.tobytes()))
    assert len(set(results)) == 1
    w, g, v = (a.astype(np.float64) for a in start)
    for rate in (0.1, 0.2):
        v = 0.9 * v - rate * g
        w = w + v
    np.testing.assert_allclose(weight, w, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-6)
    np.testing.assert_array_equal(gradient, start[1])


# All of them


def test_nothing_of_size_is_allocated_after_the_first_pass():
    pool, batch = POOLS[2], 8
    x, y, z = (np.ones((batch, size, size, 16), np.float32) for size in (16, 16, 8))
    weight, bias = np.ones((16, 16, 3, 3), np.float32), np.ones(16, np.float32)
    dx, dy, dweight, dbias = (np.empty_like(a) for a in (x, y, weight, bias))
    convolve = Convolution2D(batch, 16, 16, *axes((16, 16), (3, 3), pad=(1, 1)), pool=pool, relu=True)
    reduce = Pooling2D(batch, 16, *axes((16, 16), (2, 2), (2, 2)), pool=pool)
    product = InnerProduct(batch, 1024, 256, pool=pool, relu=True)
    matrix, vector, out = np.ones((256, 1024), np.float32), np.ones(256, np.float32), np.ones((batch, 256), np.float32)
    dmatrix, dvector, dz, flat = np.empty_like(matrix), np.empty_like(vector), np.empty_like(z), z.reshape(batch, -1)
    dflat, velocity = dz.reshape(batch, -1), np.zeros(matrix.size, np.float32)
    step, ravelled, dravelled = MomentumUpdate(matrix.size, pool=pool), matrix.reshape(-1), dmatrix.reshape(-1)

    convolve.bind(Arrays(x, weight, bias, y, dy, dweight, dbias, dx))
    reduce.bind(y, z, dy=dz, dx=dy)
    product.bind(Arrays(flat, matrix, vector, out, out, dmatrix, dvector, dflat))

    def everything():
        for work in (convolve, reduce, product):
            work.forward()
        for work in (product, reduce, convolve):
            work.backward()
        step.update(ravelled, dravelled, velocity, 0.0, 0.9)

    for _ in range(3):
        everything()
    peaks, kept = list[int](), list[int]()
    for _ in range(3):  # a thread that an earlier test has left may allocate in the meantime
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            with small_buffers():
                everything()
            after, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        peaks.append(peak - before)
        kept.append(after - before)
    assert min(peaks) < 16 << 10 and min(kept) < 8 << 10


def test_interrupts_neither_hang_nor_kill_a_pool():
    """SIGINT comes at every moment of a call; afterwards the pool still works."""
    pool = threads.Pool(2)
    small = np.zeros(64)
    interrupts = 0

    def work(start: int, stop: int, worker: int) -> None:
        for _ in range(20):
            np.add(small, 1, out=np.empty(64))

    def handle(number, frame) -> None:
        nonlocal interrupts
        while frame is not None and frame.f_code.co_filename != threads.__file__:
            frame = frame.f_back
        if frame is not None:  # within the pool: elsewhere the test itself would end
            interrupts += 1
            raise KeyboardInterrupt

    def interrupt() -> None:
        pause = threading.Event()
        for _ in range(300):
            os.kill(os.getpid(), signal.SIGINT)
            pause.wait(0.0005)

    before = signal.signal(signal.SIGINT, handle)
    gc.disable()  # an error in what Python calls when it collects garbage is lost
    try:
        thread = threading.Thread(target=interrupt)
        thread.start()
        while thread.is_alive():
            with contextlib.suppress(KeyboardInterrupt):
                pool.parallel(work, 2)
    finally:
        gc.enable()
        signal.signal(signal.SIGINT, before)
    assert interrupts > 0
    done = []
    pool.parallel(lambda start, stop, worker: done.append(worker), 2)
    assert sorted(done) == [0, 1]
    pool.close()
