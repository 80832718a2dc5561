"""Functions of one number and their slopes in long double, and how far floats are from them."""

import math

import numpy as np

L = np.longdouble
PRECISE = np.finfo(L).eps < 1e-18
"""Whether long double has digits to spare for float64."""
PI = L("3.14159265358979323846264338327950288")
TWICE, CUBIC = 2 * np.sqrt(2 / PI), L("0.044715")


def logistic(x):
    t = np.exp(-np.abs(x))
    return np.where(x < 0, t, 1) / (1 + t)


def normal(x):
    """The standard normal distribution function, of a finite number."""
    z = -x / np.sqrt(L(2))
    near = z.astype(float)
    found = np.array([math.erfc(one) for one in near]).astype(L)
    slope = -2 / np.sqrt(PI) * np.exp(-L(1) * near * near)  # the rest of z is below the digits of a float
    far = np.minimum(x, -30) ** -2  # where the float would be denormal: the asymptotic series
    series = sum((-far) ** k * math.prod(range(1, 2 * k, 2)) for k in range(10))
    return np.where(x < -30, density(x) * series / -np.minimum(x, -30), (found + slope * (z - near)) / 2)


def density(x):
    return np.exp(-x * x / 2) / np.sqrt(2 * PI)


def near(x, far):
    """Return x, but at most so far from 0: beyond, a gate is 0 or 1."""
    return np.clip(x, -far, far)


def angle(x):
    return TWICE * (x + CUBIC * x**3)


def gelu(x):
    return np.where(x > 60, x, near(x, 60) * normal(near(x, 60)))


def gelu_slope(x):
    return normal(near(x, 60)) + near(x, 60) * density(near(x, 60))


def gelu_tanh(x):
    return np.where(x > 60, x, near(x, 60) * logistic(angle(near(x, 60))))


def gelu_tanh_slope(x):
    x = near(x, 60)
    gate = logistic(angle(x))
    return gate * (1 + x * TWICE * (1 + 3 * CUBIC * x * x) * logistic(-angle(x)))


def silu(beta):
    far = 12000 / abs(beta)
    return lambda x: np.where(x * beta > 12000, x, near(x, far) * logistic(beta * near(x, far)))


def silu_slope(beta):
    def slope(x):
        z = beta * near(x, 12000 / abs(beta))
        return logistic(z) * (1 + z * logistic(-z))

    return slope


SELU_SCALE, SELU_ALPHA = L("1.0507009873554804934193349852946"), L("1.6732632423543772848170429916717")


def selu(x):
    return SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(np.minimum(x, 0)))


def selu_slope(x):
    return SELU_SCALE * np.where(x > 0, 1, SELU_ALPHA * np.exp(np.minimum(x, 0)))


def mish_gate(x):
    """tanh(log(1 + exp(x)))."""
    t = np.exp(-np.abs(x))
    return np.where(x < 0, t * (t + 2) / (t * t + 2 * t + 2), (1 + 2 * t) / (1 + 2 * t + 2 * t * t))


def mish(x):
    return np.where(x > 12000, x, near(x, 12000) * mish_gate(near(x, 12000)))


def mish_slope(x):
    x = near(x, 12000)
    t = np.exp(-np.abs(x))
    less = np.where(x < 0, 2 / (t * t + 2 * t + 2), 2 * t * t / (1 + 2 * t + 2 * t * t))  # 1 - gate
    return mish_gate(x) + x * less * (1 + mish_gate(x)) * logistic(x)


def softplus(beta):
    return lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x * beta))) / beta


def tanh_slope(x):
    return 1 / np.cosh(near(x, 11000)) ** 2


def power(exponent):
    """Raise to a power; where it is whole, the sign is that of a product."""

    def raised(x):
        if exponent % 1:
            return np.sqrt(x) if exponent == 0.5 else np.power(x, L(exponent))
        size = np.power(np.abs(x), L(exponent))
        return np.where(np.signbit(x), -size, size) if exponent % 2 else size

    return raised


def power_slope(exponent):
    raised = power(exponent - 1)
    return lambda x: np.where((x == 0) & (exponent > 0), 0, exponent * raised(x))


def line(dtype):
    """Return numbers of a type along the whole line, NaN and infinities included; bf16 as float32."""
    info = np.finfo(np.float32 if dtype == "bf16" else dtype)
    small, large = float(info.smallest_subnormal), float(info.max)
    parts = [
        [0, small, float(info.tiny), float(info.eps), 1, 1 + float(info.eps), large, np.inf],
        np.geomspace(small, 1e-2, 1500),
        np.linspace(1e-2, 20, 3000),
        np.linspace(20, 120, 1500),
        np.geomspace(120, large / 2, 500),
    ]
    if dtype == "float64":
        parts.append(np.linspace(120, 800, 1500))
    above = np.concatenate(parts).astype(info.dtype)
    found = np.concatenate([above, -above, [np.nan]]).astype(info.dtype)
    return widen(narrow(found)) if dtype == "bf16" else found


def narrow(x):
    """Round float32 to the nearest bf16, the even one of two, as bits."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    nearest = (bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)
    return np.where(np.isnan(x), 0x7FC0, nearest).astype(np.uint16)


def widen(bits):
    """Return bits of bf16 as float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def worst(found, exact, dtype, least=0.0):
    """Return the largest error and its place, in units of the last place: of the exact number, or of `least` if larger.

    Within a factor of two of the type's largest number infinity is right, too.
    """
    kind = np.float32 if dtype == "bf16" else np.dtype(dtype).type
    largest = np.finfo(kind).max
    size = np.maximum(np.minimum(np.abs(exact), L(largest)), L(least)).astype(kind)
    unit = np.spacing(np.where(np.isnan(size), 1, np.minimum(size, largest / 2))).astype(L)
    unit = unit * 2**16 if dtype == "bf16" else unit
    found = found.astype(L)
    off = np.abs(found - exact) / unit
    both_large = (np.abs(found) > largest / 2) & (np.abs(exact) > largest / 2) & (found * exact > 0)
    both_large &= np.isinf(found) | (np.abs(exact) > largest)
    right = (found == exact) | (np.isnan(found) & np.isnan(exact)) | both_large
    off = np.where(right, 0, np.where(np.isnan(off), np.inf, off))
    place = int(np.argmax(off))
    return float(off[place]), place
