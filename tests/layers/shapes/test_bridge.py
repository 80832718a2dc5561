"""BridgeSrc and BridgeDst: in one process they pass a blob on; tests/core/net/test_division.py crosses ranks."""

import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.trial import Example
from nacre_layers.shapes.bridge_dst import BridgeDstLayer
from nacre_layers.shapes.bridge_src import BridgeSrcLayer


class Bridge:
    def examples(self):
        yield Example({}, [(3, 4)])
        yield Example({}, [(2, 3, 2, 2)], label="image")

    def strategy(self):
        shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4)
        return st.builds(lambda shape: Example({}, [tuple(shape)]), shapes)

    def in_torch(self, layer, inputs, parameters):
        return inputs

    def reference(self, layer, inputs, parameters):
        return inputs


class TestBridgeSrc(Bridge, Agreement):
    layer = BridgeSrcLayer


class TestBridgeDst(Bridge, Agreement):
    layer = BridgeDstLayer


@pytest.mark.parametrize("fields", [{}, {"bottoms": ["x"], "peer": 1}])
def test_the_other_end_is_here_or_on_another_rank(fields):
    with pytest.raises(ConfigError, match="but one of the two must be given"):
        BridgeDstLayer(tops=["y"], **fields)


@pytest.mark.parametrize("peer", [0, 2**32])
def test_a_rank_that_does_not_exist_is_told(peer):
    layers = [InputLayer(name="in", tops="x", shape=2, batch_size=1), BridgeSrcLayer(name="b", bottoms="x", peer=peer)]
    with Net("n", layers, backend="numpy") as net, pytest.raises(ConfigError) as caught:
        net.forward()
    assert str(caught.value).startswith(f"b: peer={peer} is no other rank: the net has 1 in all\n  leave peer out")
