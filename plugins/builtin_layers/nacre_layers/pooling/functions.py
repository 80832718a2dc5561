"""Pooling functions, which summarise a window: the maximum, the mean, or a random cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from nacre import Array, Component, View, Written


@dataclass
class Windows:
    """The windows of a blob: `cells[i]` is cell i of every window, of the top's shape, in row-major order.

    `sizes[name]` is the number of cells of each window in the "kernel", the "padded" image, and the "image". `draw`
    fills a float32 array with uniform numbers, the same ones in forward and backward; None outside phase `train`.
    """

    cells: list[Array]
    sizes: dict[str, Array]
    draw: Callable[[Array], None] | None


class PoolingFunction(Component, kind="pooling"):
    """A summary of a window.

    `fill` is the value of cells outside the image, `reads` what `backward` reads, of "inputs" (the cells) and "blobs".
    """

    if TYPE_CHECKING:

        def __set__(self, thing: object, value: PoolingFunction | Written) -> None: ...

    fill: ClassVar[float] = 0.0
    reads: ClassVar[str] = "inputs blobs"
    capturable: ClassVar[bool] = False
    """Whether it only calls functions of arrays, so that a device may record it."""
    draws: ClassVar[bool] = False
    """Whether it draws random numbers, which not every device does itself."""

    def can_be_recorded(self, backend: View) -> bool:
        """Return whether the device of a backend may record it."""
        return self.capturable and (backend.backend.draws or not self.draws)

    def forward(self, backend: View, windows: Windows, y: Array) -> None:
        """Write the summary of every window into y."""
        raise NotImplementedError

    def backward(self, backend: View, windows: Windows, y: Array, dy: Array, gradients: list[Array]) -> None:
        """Add the gradient of cell i to `gradients[i]`; cells of overlapping windows share memory."""
        raise NotImplementedError


class Max(PoolingFunction):
    """The largest cell; of equal ones the first, row by row, gets the gradient. A NaN in a window is its maximum."""

    fill: ClassVar[float] = float("-inf")
    capturable = True

    def forward(self, backend: View, windows: Windows, y: Array) -> None:
        backend.xp.copyto(y, windows.cells[0])
        for cell in windows.cells[1:]:
            backend.xp.maximum(y, cell, out=y)

    def backward(self, backend: View, windows: Windows, y: Array, dy: Array, gradients: list[Array]) -> None:
        xp = backend.xp
        wins, free = backend.scratch(y.shape, "bool", slot=3), backend.scratch(y.shape, "bool", slot=4)
        part = backend.scratch(y.shape, str(y.dtype), slot=5)
        free[...] = True
        for cell, gradient in zip(windows.cells, gradients, strict=True):
            xp.equal(cell, y, out=wins)
            xp.logical_and(wins, free, out=wins)
            xp.logical_xor(free, wins, out=free)
            part[...] = 0  # a product with 0 would put a NaN into cells that were not chosen
            xp.copyto(part, dy, where=wins)
            xp.add(gradient, part, out=gradient)


class Mean(PoolingFunction):
    """The mean of the cells; those outside the image count as 0.

    `divide_by` is which cells of the window are counted for the divisor: those inside the "padded" image (Caffe), those
    of the whole "kernel" (Mocha.jl, SINGA), or those inside the "image" (PyTorch with count_include_pad=False).
    """

    reads = ""
    capturable = True
    divide_by: Annotated[Literal["padded", "kernel", "image"], "which cells of a window are counted"] = "padded"

    def forward(self, backend: View, windows: Windows, y: Array) -> None:
        backend.xp.copyto(y, windows.cells[0])
        for cell in windows.cells[1:]:
            backend.xp.add(y, cell, out=y)
        backend.xp.divide(y, windows.sizes[self.divide_by], out=y)

    def backward(self, backend: View, windows: Windows, y: Array, dy: Array, gradients: list[Array]) -> None:
        part = backend.scratch(y.shape, str(y.dtype), slot=5)
        backend.xp.divide(dy, windows.sizes[self.divide_by], out=part)
        for gradient in gradients:
            backend.xp.add(gradient, part, out=gradient)


class Stochastic(PoolingFunction):
    """In phase `train` a cell drawn with a probability proportional to its value, else the mean weighted by the values.

    Cells below 0 count as 0; the summary of a window without a cell above 0 is 0. Zeiler and Fergus, "Stochastic
    pooling for regularization of deep convolutional neural networks", 2013. After Caffe's, which is for cells from 0
    up.
    """

    reads = "inputs"
    capturable = draws = True

    def forward(self, backend: View, windows: Windows, y: Array) -> None:
        xp = backend.xp
        if windows.draw is not None:
            y[...] = 0
            for wins, part in self._winners(backend, windows, y):
                xp.multiply(part, wins, out=part)
                xp.add(y, part, out=y)
            return
        self._mean(backend, windows, self._total(backend, windows, y), y)

    def backward(self, backend: View, windows: Windows, y: Array, dy: Array, gradients: list[Array]) -> None:
        xp, kind = backend.xp, str(y.dtype)
        if windows.draw is not None:
            for gradient, (wins, part) in zip(gradients, self._winners(backend, windows, y), strict=True):
                xp.multiply(dy, wins, out=part)
                xp.add(gradient, part, out=gradient)
            return
        # of the mean, the sum of x² over that of x: (2 x - mean) / (sum of x) for a cell x above 0
        total = self._total(backend, windows, y)
        mean, part = (backend.scratch(y.shape, kind, slot=slot) for slot in (7, 5))
        self._mean(backend, windows, total, mean)
        xp.divide(dy, total, out=total)
        above = backend.scratch(y.shape, "bool", slot=3)
        for cell, gradient in zip(windows.cells, gradients, strict=True):
            xp.multiply(cell, 2, out=part)
            xp.subtract(part, mean, out=part)
            xp.multiply(part, total, out=part)
            xp.multiply(part, xp.greater(cell, 0, out=above), out=part)
            xp.add(gradient, part, out=gradient)

    @staticmethod
    def _mean(backend: View, windows: Windows, total: Array, mean: Array) -> None:
        """Write the mean of the cells above 0, each weighted by itself; `total` is the result of `_total`."""
        xp, part = backend.xp, backend.scratch(mean.shape, str(mean.dtype), slot=5)
        mean[...] = 0
        for cell in windows.cells:
            xp.maximum(cell, 0, out=part)
            xp.multiply(part, part, out=part)
            xp.add(mean, part, out=mean)
        xp.divide(mean, total, out=mean)

    @staticmethod
    def _total(backend: View, windows: Windows, y: Array) -> Array:
        """Return the sum of the cells above 0; 1 if there is none, as a divisor."""
        xp, kind = backend.xp, str(y.dtype)
        total, part = backend.scratch(y.shape, kind, slot=6), backend.scratch(y.shape, kind, slot=5)
        total[...] = 0
        for cell in windows.cells:
            xp.add(total, xp.maximum(cell, 0, out=part), out=total)
        xp.add(total, xp.equal(total, 0, out=backend.scratch(y.shape, "bool", slot=3)), out=total)
        return total

    def _winners(self, backend: View, windows: Windows, y: Array) -> Iterator[tuple[Array, Array]]:
        """Yield for each cell of the windows where it is the one that was drawn, and its value, in scratch memory."""
        xp, kind = backend.xp, str(y.dtype)
        total, share = self._total(backend, windows, y), backend.scratch(y.shape, kind, slot=7)
        uniform = backend.scratch(y.shape, "float32", slot=7)  # in float64 too: the same cells win
        assert windows.draw is not None
        windows.draw(uniform)
        xp.multiply(uniform, total, out=share)
        below, part = backend.scratch(y.shape, kind, slot=6), backend.scratch(y.shape, kind, slot=5)
        below[...] = 0
        wins, free = backend.scratch(y.shape, "bool", slot=3), backend.scratch(y.shape, "bool", slot=4)
        free[...] = True
        for cell in windows.cells:  # the first one that takes the sum above the share
            xp.add(below, xp.maximum(cell, 0, out=part), out=below)
            xp.greater(below, share, out=wins)
            xp.logical_and(wins, free, out=wins)
            xp.logical_xor(free, wins, out=free)
            yield wins, part
