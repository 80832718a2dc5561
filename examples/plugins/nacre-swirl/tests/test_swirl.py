"""Swirl against a naive reference, on every backend; the kit adds gradients and all else that a layer has to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from nacre_swirl import SwirlLayer

from nacre import ConfigError, InputLayer, Net
from nacre.testing import Example, LayerTests, check_plugin


class TestSwirl(LayerTests):
    """Vectors, images, and two bottoms that share the angles."""

    layer = SwirlLayer

    def examples(self) -> Iterator[Example]:
        yield Example(inputs=[(3, 4)], label="vectors")
        yield Example(inputs=[(2, 6, 5, 4)], label="images")
        yield Example(inputs=[(2, 2, 3), (2, 2, 4, 3)], label="two bottoms")

    def reference(self, layer: SwirlLayer, inputs: list[Any], parameters: dict[str, Any]) -> list[Any]:
        tops = [np.empty_like(x) for x in inputs]
        for x, y in zip(inputs, tops, strict=True):
            for pair, a in enumerate(parameters["angle"]):
                turn = [[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]
                y[:, 2 * pair : 2 * pair + 2] = np.einsum("ij,nj...->ni...", turn, x[:, 2 * pair : 2 * pair + 2])
        return tops


@pytest.mark.parametrize(
    ("shapes", "what"),
    [([(5, 4)], "bottom 'in0' has 5 channels"), ([(2, 4), (4, 4)], "'in1' has 4 channels, but 'in0' 2")],
)
def test_channels_must_be_pairs(shapes: list[tuple[int, int]], what: str) -> None:
    """The error names layer, bottom and number."""
    names = [f"in{place}" for place in range(len(shapes))]
    sources = [InputLayer(name=name, tops=name, shape=shape) for name, shape in zip(names, shapes, strict=True)]
    swirl = SwirlLayer(name="swirl1", bottoms=names, tops=[f"{name}-turned" for name in names])
    with pytest.raises(ConfigError, match=what) as error:
        Net("swirl", [*sources, swirl])
    assert str(error.value).startswith("swirl1: ")


def test_everything_that_is_offered_can_be_used() -> None:
    """As `nacre check nacre-swirl` says."""
    check_plugin("nacre-swirl")
