"""Neurons: activation functions, most of them with a gradient that is a function of their output."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from nacre import Array, Neuron, View, finite, positive

from .mills_ratio import FAR, mills_ratio, times_density


class OfArrays(Neuron):
    """A neuron that only calls functions of arrays, which a device may record."""

    capturable = True


class ReLU(OfArrays):
    """y = max(epsilon, x); the gradient passes where y > epsilon, and is 0 at the kink.

    After Mocha.jl's `Neurons.ReLU`.
    """

    epsilon: Annotated[float, finite, "the smallest output"] = 0.0

    def forward(self, backend: View, x: Array, y: Array) -> None:
        backend.xp.maximum(x, self.epsilon, out=y)

    def backward(self, backend: View, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        xp, cut = backend.xp, backend.scratch(y.shape, "bool")
        xp.greater(y, self.epsilon, out=cut)
        xp.logical_not(cut, out=cut)
        xp.copyto(dx, dy)
        xp.copyto(dx, 0, where=cut)  # whatever dy is: a product with 0 would let a NaN through


def is_relu(neuron: Neuron) -> bool:
    """Return whether a neuron is exactly max(0, x), as kernels compute ReLU."""
    return type(neuron) is ReLU and neuron.epsilon == 0


class Sigmoid(OfArrays):
    """y = 1 / (1 + exp(-x)), computed from exp(-|x|), which cannot overflow; below 0 it is exp(x) / (1 + exp(x))."""

    def forward(self, backend: View, x: Array, y: Array) -> None:
        xp, (part, above) = backend.xp, _scratches(backend, y, 0, 1)
        xp.greater_equal(x, 0, out=above)
        xp.abs(x, out=part)
        xp.negative(part, out=part)
        xp.exp(part, out=part)
        xp.maximum(part, above, out=y)
        xp.add(part, 1.0, out=part)
        xp.divide(y, part, out=y)

    def backward(self, backend: View, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        xp = backend.xp
        slope = backend.scratch(y.shape, str(y.dtype))
        xp.subtract(1.0, y, out=slope)
        xp.multiply(slope, y, out=slope)
        xp.multiply(dy, slope, out=dx)


class Tanh(OfArrays):
    """y = tanh(x)."""

    def forward(self, backend: View, x: Array, y: Array) -> None:
        backend.xp.tanh(x, out=y)

    def backward(self, backend: View, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        xp = backend.xp
        slope = backend.scratch(y.shape, str(y.dtype))
        xp.multiply(y, y, out=slope)
        xp.subtract(1.0, slope, out=slope)
        xp.multiply(dy, slope, out=dx)


class STanh(OfArrays):
    """y = outer · tanh(inner · x): LeCun's scaled tanh, with f(1) = 1. After SINGA's `STanhLayer`."""

    outer: Annotated[float, positive, finite, "the largest output"] = 1.7159047
    inner: Annotated[float, positive, finite, "multiplies x"] = 2 / 3

    def forward(self, backend: View, x: Array, y: Array) -> None:
        xp = backend.xp
        xp.multiply(x, self.inner, out=y)
        xp.tanh(y, out=y)
        xp.multiply(y, self.outer, out=y)

    def backward(self, backend: View, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        xp = backend.xp
        slope = backend.scratch(y.shape, str(y.dtype))
        xp.multiply(y, y, out=slope)
        xp.multiply(slope, -self.inner / self.outer, out=slope)
        xp.add(slope, self.inner * self.outer, out=slope)
        xp.multiply(dy, slope, out=dx)


class LReLU(OfArrays):
    """y = x where x > 0, else slope · x. After Mocha.jl's `Neurons.LReLU`; `slope` is Caffe's `negative_slope`."""

    slope: Annotated[float, positive, finite, "slope below 0"] = 0.01

    def forward(self, backend: View, x: Array, y: Array) -> None:
        xp = backend.xp
        part = backend.scratch(y.shape, str(y.dtype))
        xp.multiply(x, self.slope, out=part)
        larger = xp.maximum if self.slope <= 1 else xp.minimum
        larger(x, part, out=y)

    def backward(self, backend: View, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        slope = backend.scratch(y.shape, str(y.dtype))
        slope[...] = self.slope
        _pass_above_zero(backend, y, dy, slope, dx)


class ELU(OfArrays):
    """y = x where x > 0, else alpha · (exp(x) - 1).

    Clevert et al., "Fast and accurate deep network learning by exponential linear units", 2016.
    """

    alpha: Annotated[float, positive, finite, "the output goes to -alpha far below 0"] = 1.0

    def forward(self, backend: View, x: Array, y: Array) -> None:
        xp = backend.xp
        part = backend.scratch(y.shape, str(y.dtype))
        xp.minimum(x, 0, out=part)
        xp.expm1(part, out=part)
        xp.multiply(part, self.alpha, out=part)
        xp.maximum(x, 0, out=y)
        xp.add(y, part, out=y)

    def backward(self, backend: View, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        slope = backend.scratch(y.shape, str(y.dtype))
        backend.xp.minimum(y, 0, out=slope)
        backend.xp.add(slope, self.alpha, out=slope)
        _pass_above_zero(backend, y, dy, slope, dx)


class SELU(OfArrays):
    """y = scale · x where x > 0, else scale · alpha · (exp(x) - 1), with scale = 1.0507... and alpha = 1.6732...

    The two numbers keep mean 0 and variance 1 from layer to layer. Klambauer and others, "Self-normalizing neural
    networks", 2017.
    """

    def forward(self, backend: View, x: Array, y: Array) -> None:
        xp = backend.xp
        part = backend.scratch(y.shape, str(y.dtype))
        xp.minimum(x, 0, out=part)
        xp.expm1(part, out=part)
        xp.multiply(part, SELU_SCALE * SELU_ALPHA, out=part)
        xp.maximum(x, 0, out=y)
        xp.multiply(y, SELU_SCALE, out=y)
        xp.add(y, part, out=y)

    def backward(self, backend: View, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        xp = backend.xp
        slope, above = backend.scratch(y.shape, str(y.dtype)), backend.scratch(y.shape, "bool")
        xp.minimum(y, 0, out=slope)
        xp.add(slope, SELU_SCALE * SELU_ALPHA, out=slope)
        xp.greater(y, 0, out=above)
        xp.copyto(slope, SELU_SCALE, where=above)
        xp.multiply(dy, slope, out=dx)


SELU_SCALE = 1.0507009873554804934193349852946
SELU_ALPHA = 1.6732632423543772848170429916717


def _pass_above_zero(backend: View, y: Array, dy: Array, slope: Array, dx: Array) -> None:
    """Write dy into dx where y > 0, and dy · slope elsewhere; the slope array is overwritten."""
    xp = backend.xp
    above, below = (backend.scratch(y.shape, "bool", slot=slot) for slot in (0, 1))
    xp.greater(y, 0, out=above)
    xp.logical_not(above, out=below)
    xp.multiply(slope, below, out=slope)  # a copy with `where` is five times slower
    xp.add(slope, above, out=slope)
    xp.multiply(dy, slope, out=dx)


class Softplus(OfArrays):
    """y = log(1 + exp(beta · x)) / beta = max(0, x) + log(1 + exp(-beta |x|)) / beta, which cannot overflow.

    With `beta` 1 it is Caffe's `BNLL`.
    """

    beta: Annotated[float, positive, finite, "how sharp the bend is"] = 1.0

    def forward(self, backend: View, x: Array, y: Array) -> None:
        xp = backend.xp
        part = backend.scratch(y.shape, str(y.dtype))
        xp.abs(x, out=part)
        xp.multiply(part, -self.beta, out=part)
        xp.exp(part, out=part)
        xp.log1p(part, out=part)
        xp.divide(part, self.beta, out=part)
        xp.maximum(x, 0, out=y)
        xp.add(y, part, out=y)

    def backward(self, backend: View, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        xp = backend.xp
        slope = backend.scratch(y.shape, str(y.dtype))
        xp.multiply(y, -self.beta, out=slope)
        xp.expm1(slope, out=slope)  # 1 - exp(-beta y) = sigmoid(beta x)
        xp.negative(slope, out=slope)
        xp.multiply(dy, slope, out=dx)


class Exponential(OfArrays):
    """y = exp(x). After Mocha.jl's `Neurons.Exponential`."""

    def forward(self, backend: View, x: Array, y: Array) -> None:
        backend.xp.exp(x, out=y)

    def backward(self, backend: View, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        backend.xp.multiply(dy, y, out=dx)


class Gate(OfArrays):
    """y = x · s(x), where the gate s rises from 0 to 1, and s(x) + s(-x) = 1: the common code of SiLU and GELU.

    With a = |x| and the tail q = s(-a), y = max(0, x) - a q; and y' is q (1 - a v) below 0 and 1 - q (1 - a v) above,
    where v = -q'(a) / q(a). So no digits are lost far below 0, where q is small. A gate that falls from 1 to 0 is
    `mirrored`: y(x) is then minus what it would be at -x.
    """

    needs_input = True
    mirrored = False

    def far(self, dtype: str) -> float:
        """Return an a from which on the tail is 0 in the type."""
        return FAR[dtype]

    def fall(self, backend: View, a: Array, v: Array) -> None:
        """Write v(a)."""
        raise NotImplementedError

    def times_tail(self, backend: View, a: Array, y: Array) -> None:
        """Multiply y by q(a), in an order in which only the result may be denormal."""
        raise NotImplementedError

    def forward(self, backend: View, x: Array, y: Array) -> None:
        xp, (a, part) = backend.xp, _scratches(backend, y, 3, 4)
        self._distance(backend, x, a)
        xp.copyto(part, a)
        self.times_tail(backend, a, part)
        passing, added = (xp.minimum, xp.add) if self.mirrored else (xp.maximum, xp.subtract)
        passing(x, 0.0, out=y)
        added(y, part, out=y)

    def backward(self, backend: View, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        xp, (a, slope) = backend.xp, _scratches(backend, y, 3, 4)
        self._distance(backend, x, a)
        self.fall(backend, a, slope)
        xp.multiply(slope, a, out=slope)
        xp.subtract(1.0, slope, out=slope)
        self.times_tail(backend, a, slope)
        above, sign = _scratches(backend, y, 0, 1)
        (xp.less if self.mirrored else xp.greater)(x, 0, out=above)
        xp.multiply(above, -2.0, out=sign)
        xp.add(sign, 1.0, out=sign)
        xp.multiply(slope, sign, out=slope)
        xp.add(slope, above, out=slope)
        xp.multiply(dy, slope, out=dx)

    def _distance(self, backend: View, x: Any, a: Array) -> None:
        backend.xp.abs(x, out=a)
        backend.xp.minimum(a, self.far(str(a.dtype)), out=a)


class SiLU(Gate):
    """y = x · sigmoid(beta · x). After Caffe's `Swish`; Elfwing et al., "Sigmoid-weighted linear units", 2018."""

    beta: Annotated[float, finite, "how sharp the bend is"] = 1.0

    @property
    def mirrored(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] (it is read only)
        """Whether the gate falls."""
        return self.beta < 0

    def far(self, dtype: str) -> float:
        return min(FAR[dtype] ** 2 / max(abs(self.beta), 1e-30), 1e30)

    def fall(self, backend: View, a: Array, v: Array) -> None:
        # beta / (1 + exp(-beta a))
        (root,) = _scratches(backend, a, 0)
        backend.xp.multiply(a, abs(self.beta), out=v)
        _logistic_parts(backend, v, root, v)
        backend.xp.divide(abs(self.beta), v, out=v)

    def times_tail(self, backend: View, a: Array, y: Array) -> None:
        (z,) = _scratches(backend, a, 2)
        backend.xp.multiply(a, abs(self.beta), out=z)
        _times_logistic_tail(backend, z, y)


class GELU(Gate):
    """y = x · Φ(x), where Φ is the standard normal distribution function.

    With `approximate="tanh"` Φ(x) is (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2. Hendrycks and Gimpel, "Gaussian error
    linear units", 2016.
    """

    approximate: Annotated[Literal["none", "tanh"], "how Φ is computed"] = "none"

    def fall(self, backend: View, a: Array, v: Array) -> None:
        xp = backend.xp
        if self.approximate == "none":
            mills_ratio(backend, a, v)
            xp.divide(1.0, v, out=v)
            return
        # 2 √(2/π) (1 + 3 · 0.044715 a²) / (1 + exp(-z))
        root, part, square = _scratches(backend, a, 0, 1, 2)
        self._twice_the_angle(backend, a, part)
        _logistic_parts(backend, part, root, part)
        xp.multiply(a, a, out=square)
        xp.multiply(square, 3 * CUBIC * TWICE, out=v)
        xp.add(v, TWICE, out=v)
        xp.divide(v, part, out=v)

    def times_tail(self, backend: View, a: Array, y: Array) -> None:
        (part,) = _scratches(backend, a, 2)
        if self.approximate == "none":
            mills_ratio(backend, a, part)
            backend.xp.multiply(y, part, out=y)
            times_density(backend, a, y)
        else:  # the tail of tanh is a logistic one: (1 - tanh(z / 2)) / 2 = 1 / (1 + exp(z))
            self._twice_the_angle(backend, a, part)
            _times_logistic_tail(backend, part, y)

    def _twice_the_angle(self, backend: View, a: Array, z: Array) -> None:
        """Write 2 √(2/π) (a + 0.044715 a³), what tanh is taken of twice over."""
        xp = backend.xp
        xp.multiply(a, a, out=z)
        xp.multiply(z, CUBIC, out=z)
        xp.add(z, 1.0, out=z)
        xp.multiply(z, a, out=z)
        xp.multiply(z, TWICE, out=z)


class Mish(OfArrays):
    """y = x · tanh(log(1 + exp(x))).

    With t = exp(-|x|) the factor is (1 + 2t) / (1 + 2t + 2t²) from 0 up, and t (t + 2) / (t² + 2t + 2) below, so
    nothing overflows and no digits are lost far below 0. Misra, "Mish: a self regularized non-monotonic activation
    function", 2020.
    """

    needs_input = True

    def forward(self, backend: View, x: Array, y: Array) -> None:
        xp = backend.xp
        root, over, under, _, _ = self._parts(backend, x, y)
        xp.maximum(x, -(FAR[str(y.dtype)] ** 2), out=y)  # from there on the factor is 0, and x may be -inf
        xp.multiply(y, root, out=y)
        xp.multiply(y, over, out=y)
        xp.divide(y, under, out=y)
        xp.multiply(y, root, out=y)

    def backward(self, backend: View, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        # root² (over / under + 4 x bend (1 + t) / under²)
        xp, (slope,) = backend.xp, _scratches(backend, y, 5)
        root, over, under, bend, t = self._parts(backend, x, y)
        far = FAR[str(y.dtype)] ** 2
        xp.clip(x, -far, far, out=slope)
        xp.add(t, 1.0, out=t)
        xp.multiply(slope, t, out=slope)
        xp.multiply(slope, bend, out=slope)
        xp.multiply(slope, 4.0, out=slope)
        xp.divide(slope, under, out=slope)
        xp.add(slope, over, out=slope)
        xp.divide(slope, under, out=slope)
        xp.multiply(slope, root, out=slope)
        xp.multiply(slope, root, out=slope)
        xp.multiply(dy, slope, out=dx)

    @staticmethod
    def _parts(backend: View, x: Any, y: Array) -> list[Array]:
        """Return root, over, under, bend and t = exp(-|x|) in scratch arrays; the factor is root² over / under.

        From 0 up root is 1, over 1 + 2t, under 1 + 2t + 2t² and bend t²; below, sqrt(t), t + 2, t² + 2t + 2 and 1.
        """
        xp = backend.xp
        root, over, under, bend, t = _scratches(backend, y, 0, 1, 2, 3, 4)
        above, below = (backend.scratch(y.shape, "bool", slot=slot) for slot in (0, 1))
        xp.greater_equal(x, 0, out=above)
        xp.logical_not(above, out=below)
        xp.abs(x, out=t)
        xp.multiply(t, -0.5, out=root)
        xp.exp(root, out=root)
        xp.multiply(root, root, out=t)
        xp.maximum(root, above, out=root)
        xp.maximum(t, below, out=over)
        xp.add(over, t, out=over)
        xp.add(over, 1.0, out=over)
        xp.multiply(t, t, out=bend)
        xp.maximum(bend, below, out=bend)
        xp.add(t, 1.0, out=under)
        xp.multiply(under, under, out=under)
        xp.add(under, bend, out=under)
        return [root, over, under, bend, t]


class Hardswish(OfArrays):
    """y = x · min(max(x + 3, 0), 6) / 6: 0 up to -3, and x from 3 on.

    The gradient is 0 at -3, and passes as it is at 3. Howard and others, "Searching for MobileNetV3", 2019.
    """

    needs_input = True

    def forward(self, backend: View, x: Array, y: Array) -> None:
        xp, (gate,) = backend.xp, _scratches(backend, y, 0)
        xp.add(x, 3.0, out=gate)
        xp.clip(gate, 0.0, 6.0, out=gate)
        xp.divide(gate, 6.0, out=gate)
        xp.maximum(x, -3.0, out=y)  # below, x may be -inf
        xp.multiply(y, gate, out=y)

    def backward(self, backend: View, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        xp, (slope,) = backend.xp, _scratches(backend, y, 0)
        outside = backend.scratch(y.shape, "bool")
        xp.clip(x, -3.0, 3.0, out=slope)
        xp.multiply(slope, 2.0, out=slope)
        xp.add(slope, 3.0, out=slope)
        xp.divide(slope, 6.0, out=slope)
        xp.less_equal(x, -3.0, out=outside)
        xp.copyto(slope, 0.0, where=outside)
        xp.greater_equal(x, 3.0, out=outside)
        xp.copyto(slope, 1.0, where=outside)
        xp.multiply(dy, slope, out=dx)


CUBIC = 0.044715
TWICE = 2 * math.sqrt(2 / math.pi)


def _logistic_parts(backend: View, z: Array, root: Array, part: Array) -> None:
    """Write exp(-z / 2) into `root`, and 1 + exp(-z) into `part`, which may be z."""
    xp = backend.xp
    xp.multiply(z, -0.5, out=root)
    xp.exp(root, out=root)
    xp.multiply(root, root, out=part)
    xp.add(part, 1.0, out=part)


def _times_logistic_tail(backend: View, z: Array, y: Array) -> None:
    """Multiply y by 1 / (1 + exp(z)), for z of 0 and above; uses the scratch arrays of slots 0 and 1."""
    xp, (root, part) = backend.xp, _scratches(backend, z, 0, 1)
    _logistic_parts(backend, z, root, part)
    xp.divide(y, part, out=y)
    xp.multiply(y, root, out=y)
    xp.multiply(y, root, out=y)


def _scratches(backend: View, like: Array, *slots: int) -> list[Array]:
    return [backend.scratch(like.shape, str(like.dtype), slot=slot) for slot in slots]
