"""What runs the cupy backend's kernels on the processor does what a GPU does, and sees what one would stop at."""

from __future__ import annotations

import numpy as np
import pytest

from cuda_on_host import ShimBackend, compiled, from_bits, missing, steps_apart, to_bits
from nacre_cupy.kernels.launch import FOLDER, divisor

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

CODE = (
    (FOLDER / "common.cuh").read_text()
    + """
template <class T> __global__ void sums(const T *x, T *y, i64 size) {
    T sum = 0;
    for (i64 index = threadIdx.x; index < size; index += blockDim.x) sum += x[blockIdx.x * size + index];
    sum = block_sum(sum);
    sum = block_sum(threadIdx.x == 0 ? sum : T(0)); // again, with what was left in shared memory
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
__global__ void largest(const double *x, double *y) {
    const double most = warp_max(x[threadIdx.x]);
    y[threadIdx.x] = most;
}
__global__ void some_wait(i64 from) {
    if (threadIdx.x < from) __syncthreads();
}
__global__ void some_shuffle(i64 from) {
    if (threadIdx.x < from) warp_sum(1.0);
}
__global__ void crooked(float *x, i64 start) { store<4>(x, load<4>(x + start)); }
__global__ void both_ways(const float *x, bf16 *y, float *z, i64 size) {
    for_each<float>(size, aligned(x, z), [=](auto count, i64 start) {
        const int N = decltype(count)::value;
        const Pack<float, N> pack = load<N>(x + start);
        for (int n = 0; n < N; n++) y[start + n] = narrow<bf16>(pack.at[n]);
        for (int n = 0; n < N; n++) z[start + n] = widen(y[start + n]);
    });
}
__global__ void divide(const u32 *x, u32 *y, int *rest, i64 size, i64 number, i64 inverse) {
    const Divisor by(number, inverse);
    for (i64 index = threadIdx.x; index < size; index += blockDim.x) y[index] = by.quotient(x[index], rest[index]);
}
"""
)
NAMES = ("sums<float>", "sums<double>", "largest", "some_wait", "some_shuffle", "crooked", "both_ways", "divide")


def run(name: str, blocks: int, threads: int, *arguments: object) -> None:
    compiled(CODE, NAMES)[NAMES.index(name)]((blocks,), (threads,), arguments)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threads", [32, 256, 1024])
def test_sums_over_blocks_and_maxima_over_warps(dtype: str, threads: int) -> None:
    x, y = np.arange(5 * 700, dtype=dtype).reshape(5, 700) % 11, np.zeros(5, dtype)
    for _ in range(2):
        run("sums<float>" if dtype == "float32" else "sums<double>", 5, threads, x, y, 700)
        assert (y == x.sum(axis=1)).all()


def test_maxima_over_warps_keep_a_nan() -> None:
    x, y = np.random.default_rng(0).normal(size=64), np.zeros(64)
    x[40] = np.nan
    run("largest", 1, 64, x, y)
    assert (y[:32] == x[:32].max()).all() and np.isnan(y[32:]).all()


def test_faults_that_a_gpu_stops_at_are_seen() -> None:
    for name in ("some_wait", "some_shuffle"):
        with pytest.raises(AssertionError, match="some threads wait at a barrier that the others do not reach"):
            run(name, 1, 64, 40)
        run(name, 3, 64, 64)
    memory = np.zeros(32, np.float32)
    memory = memory[-memory.ctypes.data % 16 // 4 :]
    run("crooked", 1, 1, memory, 4)
    with pytest.raises(AssertionError, match="an address does not fit"):
        run("crooked", 1, 1, memory, 3)
    with pytest.raises(AssertionError, match="number of arguments"):
        run("crooked", 1, 1, memory)
    with pytest.raises(AssertionError, match="no such grid"):
        run("some_wait", 1, 2048, 0)


def test_bf16_is_rounded_as_it_should_be() -> None:
    torch = pytest.importorskip("torch")
    bits = np.random.default_rng(0).integers(0, 2**32, 20_003, np.uint32)
    bits[:8] = [0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x00000001]
    x, y, z = bits.view(np.float32), np.zeros(bits.shape, np.uint16), np.zeros(bits.shape, np.float32)
    run("both_ways", 3, 256, x, y, z, len(x))
    expected = torch.from_numpy(x.copy()).to(torch.bfloat16).float().numpy()
    for found in (z, from_bits(y), from_bits(to_bits(x))):
        np.testing.assert_array_equal(found, expected)
    assert steps_apart(expected, expected).max() == 0
    assert steps_apart(np.float32(1), np.float32(1.015625)) == 2


def test_quotients_are_those_of_a_division() -> None:
    random = np.random.default_rng(0)
    ends = [0, 1, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1]
    powers = [2**power + more for power in range(1, 31) for more in (-1, 0, 1)]
    some = (2 ** random.uniform(8, 31, 300)).astype(np.int64).tolist()
    for number in [*range(1, 301), *powers, *some, 2**31 - 2, 2**31 - 1]:
        multiples = number * np.array([1, 2, 3, *random.integers(0, 2**32 // number, 20), (2**32 - 1) // number])
        near = np.add.outer(multiples, [-1, 0, 1]).ravel()
        x = np.array([*ends, *near[near < 2**32], *random.integers(0, 2**32, 20)], np.uint32)
        y, rest = np.zeros_like(x), np.zeros(x.shape, np.int32)
        run("divide", 1, 1, x, y, rest, len(x), *divisor(number))
        np.testing.assert_array_equal(y, x // np.uint32(number), str(number))
        np.testing.assert_array_equal(rest, x % np.uint32(number), str(number))
    assert divisor(0)[1] == divisor(1)[1]  # of an array with no numbers


def test_what_is_written_outside_of_an_array_is_seen() -> None:
    backend = ShimBackend()
    array = backend.empty((5,), "float32")
    backend.check_guards()
    np.lib.stride_tricks.as_strided(array, (6,), (4,))[5] = 0
    with pytest.raises(AssertionError, match="outside an array"):
        backend.check_guards()


def test_a_gpu_needs_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "no C++ compiler 'no-such-compiler'" in missing.__wrapped__()
    monkeypatch.setenv("NACRE_TEST_GPU", "1")
    assert missing.__wrapped__() == ""
