"""The kernel against the layer's own code."""

from __future__ import annotations

from collections.abc import Iterator

from nacre_swirl import SwirlLayer
from nacre_swirl_fast import SwirlKernel

from nacre.testing import Example, KernelTests, check_plugin


class TestSwirlKernel(KernelTests):
    """Whatever the kernel serves, and one bottom that it declines."""

    layer = SwirlLayer
    kernel = SwirlKernel

    def examples(self) -> Iterator[Example]:
        yield Example(inputs=[(3, 4)], label="vectors")
        yield Example(inputs=[(2, 6, 5, 4)], label="images")
        yield Example(inputs=[(2, 2, 1, 1), (2, 2, 4, 3)], label="two bottoms")
        yield Example(inputs=[(2, 2, 3)], label="declined")


def test_everything_that_is_offered_can_be_used() -> None:
    """As `nacre check nacre-swirl-fast` says."""
    check_plugin("nacre-swirl-fast")
