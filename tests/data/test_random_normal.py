"""RandomNormal: what the noise is like, and that a net's passes are those of its data."""

from typing import Any

import numpy as np
import pytest

from nacre import ConfigError, DataError, Net
from nacre_data import MemoryDataLayer, PrefetchLayer, RandomNormalLayer
from nacre_layers.elementwise.element_wise import ElementWiseLayer


def noise(**fields: Any) -> RandomNormalLayer:
    return RandomNormalLayer(**{"name": "noise", "tops": ["noise"], "output_dims": 3, "batch_size": 2, **fields})


def make(*layers: Any, **options: Any) -> Net:
    return Net("t", layers, backend="numpy", **options)


def batches(net: Net, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        net.feed()
        found.append(net.blob("noise").tobytes())
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mean_0_and_variance_1(dtype: str) -> None:
    net = make(noise(output_dims=[100, 50], batch_size=20), dtype=dtype)
    net.feed()
    x = net.blob("noise").astype(np.float64)
    assert net.blob("noise").dtype == dtype
    assert abs(x.mean()) < 5 / np.sqrt(x.size)
    assert abs(x.var() - 1) < 5 * np.sqrt(2 / x.size)
    assert abs((x**4).mean() - 3) < 5 * np.sqrt(96 / x.size)


def test_the_same_noise_in_every_type() -> None:
    single, double = make(noise()), make(noise(), dtype="float64")
    for net in (single, double):
        net.feed()
    np.testing.assert_array_equal(single.blob("noise"), double.blob("noise").astype(np.float32))


@pytest.mark.parametrize("phase", ["train", "validation", "test", "predict"])
def test_every_batch_has_noise_of_its_own(phase: str) -> None:
    assert len(set(batches(make(noise(), phase=phase), 5))) == 5
    assert batches(make(noise(), phase=phase), 5) == batches(make(noise()), 5)
    assert batches(make(noise(), seed=1), 1) != batches(make(noise()), 1)


def test_going_on_after_an_interruption() -> None:
    net = make(noise())
    expected = batches(net, 6)
    interrupted, resumed = make(noise()), make(noise())
    batches(interrupted, 2)
    resumed.ops[0].state.remember(interrupted.ops[0].state.memory())
    assert batches(resumed, 4) == expected[2:]


@pytest.mark.parametrize("first", [True, False])
def test_epochs_are_those_of_the_data_though_the_noise_is_the_first_source(first: bool) -> None:
    """In Mocha a net whose first source is RandomNormal has no epoch."""
    data = MemoryDataLayer(name="data", tops="x", data=np.arange(15.0).reshape(5, 3), batch_size=2)
    add = ElementWiseLayer(name="add", bottoms=["x", "noise"], tops="y", operation="Add")
    sources = [noise(), data] if first else [data, noise()]
    net = make(*sources, add)
    epochs = []
    for _ in range(5):
        net.forward()
        epochs.append(net.epoch)
    assert epochs == [0, 0, 1, 1, 2]
    held_out = make(*sources, add, phase="validation")
    held_out.forward_epoch()
    assert held_out.epoch == 1
    assert int(held_out.scalars["rows"]) == 1


@pytest.mark.parametrize("sizes", [(3, 5), (5, 3)])
def test_tops_may_have_batches_of_several_sizes(sizes: tuple[int, int]) -> None:
    net = make(noise(tops=["noise", "more"], batch_size=sizes), keep=["more"])
    net.forward()
    assert [net.blob(name).shape for name in ("noise", "more")] == [(sizes[0], 3), (sizes[1], 3)]
    assert int(net.scalars["rows"]) == 5
    one = make(noise(batch_size=sizes[0]))
    one.forward()
    np.testing.assert_array_equal(one.blob("noise"), net.blob("noise"))


@pytest.mark.parametrize("fields", [{}, {"ahead": 2}, {"prefetch": 2}])
def test_every_pass_outside_of_training_finds_the_same_noise_and_order(fields: dict[str, Any]) -> None:
    """Where the noise went on, a validation depended on how many were before it, and a resumed training on that."""
    reads = dict(fields)
    made = int(reads.pop("prefetch", 0))
    data = MemoryDataLayer(
        name="data", tops="x", data=np.arange(15.0).reshape(5, 3), batch_size=2, shuffle=True, **reads
    )
    inner = [data, noise()]
    sources = [PrefetchLayer(name="prefetch", layer=inner, ahead=made)] if made else inner
    add = ElementWiseLayer(name="add", bottoms=["x", "noise"], tops="y", operation="Add")
    with make(*sources, add, phase="validation") as net:
        net.forward()  # somebody has looked at the first batch
        passes = []
        for _ in range(3):
            found: list[bytes] = []
            net.forward_epoch(each=lambda found=found: found.append(net.blob("y").tobytes()))
            passes.append(found)
        assert len(set(passes[0])) == 3
        assert passes[1:] == passes[:1] * 2
        assert net.epoch == 1


def test_noise_alone_has_no_passes() -> None:
    net = make(noise(), phase="test")
    assert net.epoch == 0
    with pytest.raises(DataError, match="has no source "):
        net.forward_epoch()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tops": []}, "noise: tops=.*, but at least 1 must be given"),
        ({"batch_size": 0}, r"noise: batch_size=\(0,\), but every number must be above 0"),
        ({"batch_size": "3"}, "noise: batch_size='3', but it must be a whole number, or one for each top"),
        ({"batch_size": [2, 3]}, r"noise: batch_size=\(2, 3\), .* 1 tops"),
        ({"output_dims": [2, 0]}, r"noise: output_dims=\(2, 0\), but every number must be above 0"),
    ],
)
def test_bad_fields(fields: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(noise(**fields))
