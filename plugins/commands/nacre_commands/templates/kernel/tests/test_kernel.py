"""The kernel against the layer's own code."""

from __future__ import annotations

from collections.abc import Iterator

from nacre_new_kernel import NewNameKernel

from nacre.testing import Example, KernelTests
from nacre_layers import GLULayer


class TestNewNameKernel(KernelTests):
    """What the kernel serves, and what it declines."""

    layer = GLULayer
    kernel = NewNameKernel
    backend_name = "numpy"

    def examples(self) -> Iterator[Example]:
        """Give the fields and the shapes to test with."""
        yield Example(inputs=[(3, 4)], label="vectors")
        yield Example(inputs=[(5, 2), (5, 6)], label="two bottoms")
        yield Example(inputs=[(2, 6, 4, 4)], label="images, which it declines")
