"""A stand-in for cuBLASLt over NumPy: matrices column by column, as cublasLt.h says, on the stand-in's streams."""

import ctypes

import numpy as np
from numpy.lib.stride_tricks import as_strided

BF16 = 14
TYPES = {0: np.float32, 1: np.float64, 2: np.float16, BF16: np.uint16}
SCALES = {0: ctypes.c_float, 1: ctypes.c_double}


NOT_SUPPORTED = 15
STATE = 72  # where the status lies in what an algorithm is found in


class Library:
    """The functions that nacre calls; each returns a status, which is 0 for success.

    There is no algorithm where `lacks` says so of a description, and none with an epilogue in float64. `says` is how
    the library tells that: by its own "status", by a "count" of 0, or by the "state" of what it has found.
    """

    def __init__(self, cupy):
        self.cupy = cupy
        self.lacks = lambda operation, a, b, result: False
        self.says = "status"
        self.things = {}
        self.algorithms = []
        self.opened = 0
        self.products = 0

    def _make(self, place, thing):
        number = max(self.things, default=100) + 1
        self.things[number] = thing
        place._obj.value = number
        return 0

    def cublasLtCreate(self, place):
        self.opened += 1
        return self._make(place, "handle")

    def cublasLtMatmulDescCreate(self, place, compute, scale):
        assert (compute, scale) in ((68, 0), (77, 0), (70, 1)), (
            "a type of sums and one of factors that do not go together"
        )
        return self._make(place, {"scale": scale, "compute": compute, 3: 0, 4: 0})

    def cublasLtMatrixLayoutCreate(self, place, kind, rows, columns, ahead):
        assert ahead >= rows, "the leading dimension is below the number of rows"
        return self._make(place, {"kind": kind, "rows": rows, "columns": columns, "ahead": ahead, 5: 1, 6: 0})

    def cublasLtMatmulDescSetAttribute(self, thing, attribute, value, size):
        assert size == {3: 4, 4: 4, 7: 4, 8: 8}[attribute]
        self.things[thing.value][attribute] = value._obj.value
        return 0

    def cublasLtMatrixLayoutSetAttribute(self, thing, attribute, value, size):
        assert {5: 4, 6: 8}[attribute] == size
        self.things[thing.value][attribute] = value._obj.value
        return 0

    def cublasLtMatmulDescDestroy(self, thing):
        del self.things[thing.value]
        return 0

    cublasLtMatrixLayoutDestroy = cublasLtMatmulPreferenceDestroy = cublasLtMatmulDescDestroy

    def cublasLtMatmulPreferenceCreate(self, place):
        return self._make(place, {})

    def cublasLtMatmulPreferenceSetAttribute(self, thing, attribute, value, size):
        assert {1: 8, 5: 4, 6: 4, 7: 4, 8: 4}[attribute] == size
        self.things[thing.value][attribute] = value._obj.value
        return 0

    def cublasLtMatmulAlgoGetHeuristic(self, handle, operation, a, b, c, d, wishes, most, results, count):
        assert self.things[handle.value] == "handle" and most == 1
        wanted = self.things[wishes.value]
        assert set(wanted) == {1, 5, 6, 7, 8} and all(
            wanted[one] in (2, 4, 8, 16, 32, 64, 128, 256) for one in (5, 6, 7, 8)
        )
        # an algorithm is what it was asked for: for other matrices, or worse alignments, it is none
        asked = [self._asked(one) for one in (operation, a, b, d)]
        assert asked[0].get(7, 0) in (0, 2, 4, 6), "an epilogue that nacre has no use for"
        lacking = self.lacks(*asked) or (asked[0].get(7) and asked[0]["scale"] == 1)
        if lacking and self.says == "status":
            return NOT_SUPPORTED
        self.algorithms.append((asked, wanted))
        ctypes.memmove(results, len(self.algorithms).to_bytes(8, "little"), 8)
        state = NOT_SUPPORTED if lacking and self.says == "state" else 0
        ctypes.memmove(ctypes.addressof(results._obj) + STATE, state.to_bytes(4, "little"), 4)
        count._obj.value = int(not lacking or self.says == "state")
        return 0

    def _asked(self, thing):
        """Return a description without the address of the bias, which may be another in each product."""
        return {key: value for key, value in self.things[thing.value].items() if key != 8}

    def cublasLtMatmul(
        self, handle, operation, alpha, a, of_a, b, of_b, beta, c, of_c, d, of_d, algo, space, size, stream
    ):
        assert self.things[handle.value] == "handle" and space and size
        asked, wanted = self.algorithms[ctypes.c_uint64.from_address(algo).value - 1]
        assert asked == [self._asked(one) for one in (operation, of_a, of_b, of_d)]
        assert all(place % wanted[number] == 0 for number, place in zip((5, 6, 7, 8), (a, b, c, d), strict=True))
        how = dict(self.things[operation.value])
        factor = SCALES[how["scale"]]
        assert (factor.from_address(alpha).value, factor.from_address(beta).value) == (1, 0)
        layouts = [dict(self.things[one.value]) for one in (of_a, of_b, of_d)]
        assert self.things[of_c.value] == self.things[of_d.value] and c == d
        assert len({one[5] for one in layouts}) == 1, "batches of different lengths"
        kinds = [one["kind"] for one in layouts]
        assert kinds[0] == kinds[1] and (kinds[2] == kinds[0] or kinds == [BF16, BF16, 0]), "no such types of factors"
        first, second, result = (matrices(*one) for one in zip((a, b, d), layouts, strict=True))
        if how[3]:
            first = first.transpose(0, 2, 1)
        if how[4]:
            second = second.transpose(0, 2, 1)
        assert (first.shape[1], second.shape[2]) == result.shape[1:] and first.shape[2] == second.shape[1]
        self.products += 1
        kind = np.float64 if result.dtype == np.float64 else np.float32

        has_bias, relu = how.get(7) in (4, 6), how.get(7) in (2, 6)
        column = np.zeros((1, result.shape[1], 1), kind)
        if has_bias:
            size = result.shape[1] * result.itemsize
            column = np.frombuffer((ctypes.c_char * size).from_address(how[8]), result.dtype).reshape(1, -1, 1)

        def multiply():
            factors = (widened(one, number) for one, number in zip((first, second), kinds, strict=False))
            found = np.matmul(*(rounded(one.astype(kind), how["compute"]) for one in factors))
            found = found + widened(column, kinds[2]) if has_bias else found
            found = np.maximum(found, 0) if relu else found
            result[...] = bits_of(found) if kinds[2] == BF16 else found

        self.cupy._machine.streams[stream].enqueue(multiply)
        return 0


def widened(array, number):
    """Return an array, of bf16 as float32."""
    return (array.astype(np.uint32) << 16).view(np.float32) if number == BF16 else array


def bits_of(array):
    """Return the bits of bf16 for numbers of float32, rounded to the nearest, of two the even one."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32).astype(np.uint64)
    return np.where(np.isnan(array), 0x7FFF, bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)


def rounded(array, compute):
    """Return an array, for TF32 with the 11 bits that its factors have."""
    if compute != 77:
        return array
    bits = array.view(np.uint32).astype(np.uint64) + 0x1000 & 0xFFFFE000
    return bits.astype(np.uint32).view(np.float32)


def matrices(address, layout):
    """Return (matrices, rows, columns) at an address."""
    kind = np.dtype(TYPES[layout["kind"]])
    count, step, rows, columns, ahead = (layout[one] for one in (5, 6, "rows", "columns", "ahead"))
    size = (count - 1) * step + (columns - 1) * ahead + rows
    flat = np.frombuffer((ctypes.c_char * (size * kind.itemsize)).from_address(address), kind)
    return as_strided(flat, (count, rows, columns), [kind.itemsize * one for one in (step, 1, ahead)], writeable=True)
