"""Statistics of layers over passes: in batches of any size, and joined from the parts of several ranks."""

import numpy as np

from nacre import InputLayer, Net


def state_after(layer, batch, *arrays, **fields):
    """Return the state of a layer of this class after the records of some arrays, in batches."""
    kinds = [np.asarray(one).dtype.name.replace("float64", "") for one in arrays]
    names = ["x", "label"][: len(arrays)]
    sources = [
        InputLayer(tops=name, shape=np.shape(one)[1:], batch_size=batch, dtype=kind)
        for name, one, kind in zip(names, arrays, kinds, strict=True)
    ]
    net = Net("n", [*sources, layer(name="m", bottoms=names, **fields)], backend="numpy", phase="test", dtype="float64")
    for first in range(0, len(arrays[0]), batch):
        for name, one in zip(names, arrays, strict=True):
            net.write(name, one[first : first + batch])
        net.forward()
    return net.node_ops["m"].state


def over_a_pass(layer, *arrays, **fields):
    """Return the statistics of a layer after the records of some arrays; they are the same however these come."""
    count = len(arrays[0])
    whole = state_after(layer, count, *arrays, **fields).dump_statistics()

    def check(found, what):
        assert found.keys() == whole.keys()
        np.testing.assert_allclose([*found.values()], [*whole.values()], rtol=1e-12, atol=1e-12, err_msg=what)

    for batch in {1, 2, 3, max(1, count // 2), count + 3}:
        check(state_after(layer, batch, *arrays, **fields).dump_statistics(), f"batches of {batch}")
    parts = [[one[part] for one in arrays] for part in (slice(count // 2), slice(count // 2, None))]
    one, other = (state_after(layer, 2, *part, **fields) for part in parts)
    one.join(other.collected())
    check(one.dump_statistics(), "two ranks")
    one.reset_statistics()
    assert one.dump_statistics()["records"] == 0
    return whole
