"""HostFunctions: NumPy's functions compute whole numbers in the type of a floating result."""

import numpy as np
import pytest

from nacre import FloatingFunction, HostFunctions, HostMemory

xp = HostFunctions()


def test_the_type_is_that_of_out_where_all_inputs_are_whole_numbers() -> None:
    a, b = np.array([200, 3], np.uint8), np.array([100, 5], np.uint8)
    for kind in ("float32", "float64"):
        out = np.empty(2, kind)
        assert xp.add(a, b, out=out) is out and out.tolist() == [300, 8]
        assert xp.subtract(b, a, out=out).tolist() == [-100, 2]
        assert xp.multiply(a, 2, out=out).tolist() == [400, 6]
        assert xp.subtract(a > 3, b > 3, out=out).tolist() == [0, -1]
        assert xp.absolute(np.array([-128, 1], np.int8), out=out).tolist() == [128, 1]
        np.testing.assert_array_equal(xp.exp(np.array([20, 0], np.uint8), out=out), np.exp(np.array([20, 0], kind)))
        assert xp.matmul(np.array([a, b]), a, out=out).tolist() == [200 * 200 + 9, 100 * 200 + 15]
        assert xp.add(a, b, out=out, where=a > 3)[0] == 300


@pytest.mark.skipif(not hasattr(np, "vecdot"), reason="this NumPy has no vecdot")
def test_the_type_is_that_of_out_where_sums_leave_no_axis() -> None:
    a, b = np.array([200, 3], np.uint8), np.array([100, 5], np.uint8)
    for kind in ("float32", "float64"):
        assert xp.vecdot(a, b, out=np.empty((), kind)) == 200 * 100 + 15


def test_all_else_is_numpys() -> None:
    a, half = np.array([200, 3], np.uint8), np.array([0.5, 0.25], np.float32)
    assert xp.add(a, a).tolist() == [144, 6] and xp.add(a, a, out=np.empty(2, np.int64)).tolist() == [144, 6]
    assert xp.add(a, a, out=np.empty(2), dtype=np.uint8).tolist() == [144, 6]
    assert xp.multiply(a, half, out=np.empty(2, np.float32)).tolist() == [100, 0.75]
    assert xp.greater(a, 3, out=np.empty(2)).tolist() == [1, 0]
    assert xp.add.reduce(a) == 203 and xp.float32 is np.float32
    with pytest.raises(AttributeError, match="no_such"):
        _ = xp.no_such


def test_elements_are_taken_into_a_wider_type() -> None:
    a, out = np.array([[200, 3], [7, 9]], np.uint8), np.empty((2, 1), np.float32)
    assert xp.take(a, [1], axis=1, out=out, mode="clip") is out and out.tolist() == [[3], [9]]
    assert xp.take(a, [0, 9], mode="clip").tolist() == [200, 9]


def test_the_hosts_functions_are_these() -> None:
    assert isinstance(HostMemory.shared().xp.add, FloatingFunction)
