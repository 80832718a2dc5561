"""Bottoms that a layer has no gradient for (`Layer.bottoms_without_gradient`), such as masks and targets."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

from nacre import InputLayer, Layer, LayerState, Names, Net, TopologyError, exactly
from nacre.testing import Example, LayerTests
from nacre_layers import InnerProductLayer, SquareLossLayer


class MaskedLayer(Layer, can_do_bp=True):
    """y = x · [mask > 0]."""

    bottoms: Annotated[Names, exactly(2), "the numbers, and the mask"]
    tops: Annotated[Names, exactly(1)]

    def bottoms_without_gradient(self) -> tuple[str, ...]:
        return self.bottoms[1:]


class MaskedState(LayerState, of=MaskedLayer, reads="inputs"):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]
        assert diffs[1] is None

    def forward(self, inputs: list[Any]) -> None:
        self.backend.xp.multiply(inputs[0], inputs[1] > 0, out=self.blobs[0])

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        assert diffs[1] is None
        if diffs[0] is not None:
            self.backend.xp.multiply(self.blobs_diff[0], inputs[1] > 0, out=diffs[0])


class TestMasked(LayerTests):
    layer = MaskedLayer

    def examples(self) -> Any:
        yield Example(inputs=[(4, 3), np.array([[1.0, 0, 1]] * 4)], tops=1)

    def reference(self, layer: Any, inputs: Any, parameters: Any) -> list[Any]:
        return [inputs[0] * (inputs[1] > 0)]


def ip(bottom: str, top: str) -> Layer:
    return InnerProductLayer(name=top, bottoms=bottom, tops=top, output_dim=3)


def net(*layers: Layer, **options: Any) -> Net:
    source = InputLayer(tops=["data"], shape=[3], batch_size=2)
    return Net("n", [source, *layers], backend="numpy", **options)


def test_another_reader_may_give_the_gradient_of_the_blob() -> None:
    """Its gradient is that of the other reader alone, and no Split is needed."""
    masked = MaskedLayer(name="masked", bottoms=["x", "m"], tops="y")
    losses = [SquareLossLayer(name=f"loss-{one}", bottoms=[one, "data"]) for one in ("y", "m")]
    with net(ip("data", "x"), ip("data", "m"), masked, *losses) as made:
        made.write("data", np.arange(6.0).reshape(2, 3))
        made.forward()
        made.backward()
        both = made.parameters["m/weight"].gradient.copy()
    with net(ip("data", "m"), losses[1]) as made:
        made.write("data", np.arange(6.0).reshape(2, 3))
        made.forward()
        made.backward()
        assert np.array_equal(made.parameters["m/weight"].gradient, both) and both.any()


def test_a_layer_that_only_feeds_such_a_bottom_cannot_learn() -> None:
    masked = MaskedLayer(name="masked", bottoms=["x", "m"], tops="y")
    loss = SquareLossLayer(name="loss", bottoms=["y", "data"])
    with net(ip("data", "x"), ip("data", "m"), masked, loss) as made, pytest.raises(TopologyError) as caught:
        made.backward()
    words = (
        "blob 'm' of layer 'm' needs a gradient but reaches no loss: layer 'masked', which reads it, has no gradient"
    )
    assert words in str(caught.value)


def test_alone_it_gives_none() -> None:
    x = np.ones((2, 3))
    work = MaskedLayer(name="masked", bottoms=["x", "m"], tops="y").at_work("numpy", x, x)
    work.forward()
    dx, dmask = work.backward(x)
    assert dx.all() and dmask is None
