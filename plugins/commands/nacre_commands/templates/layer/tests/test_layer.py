"""NewName against a naive reference; the kit checks gradients and all else that a layer has to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nacre_new_layer import NewNameLayer

from nacre.testing import Example, LayerTests


class TestNewName(LayerTests):
    """Vectors, and images with another factor."""

    layer = NewNameLayer

    def examples(self) -> Iterator[Example]:
        """Give the fields and the shapes to test with."""
        yield Example(inputs=[(4, 3)], label="vectors")
        yield Example(inputs=[(2, 3, 5, 4)], fields={"factor_init": -2.0}, label="images")

    def reference(self, layer: NewNameLayer, inputs: list[Any], parameters: dict[str, Any]) -> list[Any]:
        """Compute the tops in another way."""
        return [parameters["factor"] * inputs[0]]
