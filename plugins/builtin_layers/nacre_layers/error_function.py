"""The error function, which NumPy lacks, as one quotient of polynomials.

erf(x) = x P(x²) / Q(x²) on an interval around 0, outside of which erf is ±1 to the last digit of the type. The
coefficients were fitted in 50 digits, for the smallest largest relative error at Chebyshev points: 3e-17 for float64,
2e-8 for float32. All are positive, so that no digits are lost; what is left is the rounding of the type, about ten
times its epsilon at worst.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre import Array

EDGE = {"float64": 5.93, "float32": 3.95}
P = {
    "float64": (
        1.1283791670955126,
        0.22017190260532837,
        0.06612150668937265,
        0.006889542438100383,
        0.0008556605078795665,
        5.694385124062002e-05,
        3.900439855181549e-06,
        1.6948310488929427e-07,
        6.759999903668199e-09,
        1.7198519135348554e-10,
        3.3365474656677262e-12,
        2.2267931086080177e-14,
        1.571205483550708e-17,
    ),
    "float32": (
        1.1283791428258345,
        0.19161656264575744,
        0.052883875710170024,
        0.0038108332159476383,
        0.00028471988347873403,
        2.0250873075441167e-06,
    ),
}
Q = {
    "float64": (
        1.0,
        0.528455601650335,
        0.13475052679643848,
        0.021986503922488607,
        0.0025647379429425206,
        0.0002260953511106092,
        1.5498701619049056e-05,
        8.350314113446156e-07,
        3.5156026620874385e-08,
        1.1246001110269982e-09,
        2.549504421038225e-11,
        3.319137063952351e-13,
        8.850513405358878e-16,
    ),
    "float32": (
        1.0,
        0.5031484276773077,
        0.11458668540184845,
        0.01506056394838792,
        0.0011713151274469014,
        3.782485527463957e-05,
    ),
}


def erf(backend: Any, x: Array, y: Array) -> None:
    """Write the error function of x into y, which may be x; uses the scratch arrays of slots 0 and 1."""
    xp, dtype = backend.xp, str(y.dtype)
    square, value = (backend.scratch(y.shape, dtype, slot=slot) for slot in (0, 1))
    xp.clip(x, -EDGE[dtype], EDGE[dtype], out=y)
    xp.multiply(y, y, out=square)
    _polynomial(xp, P[dtype], square, value)
    xp.multiply(y, value, out=y)
    _polynomial(xp, Q[dtype], square, value)
    xp.divide(y, value, out=y)


def _polynomial(xp: Any, coefficients: Sequence[float], x: Array, y: Array) -> None:
    """Write Σ coefficients[i] xⁱ into y, by Horner's rule."""
    xp.multiply(x, coefficients[-1], out=y)
    for coefficient in reversed(coefficients[1:-1]):
        xp.add(y, coefficient, out=y)
        xp.multiply(y, x, out=y)
    xp.add(y, coefficients[0], out=y)
