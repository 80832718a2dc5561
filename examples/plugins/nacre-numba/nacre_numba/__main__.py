"""`python -m nacre_numba`: how much processor time the kernels take, and nacre's own code for the same layers."""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np

from nacre import InputLayer, Layer, Net
from nacre_layers import ConvolutionLayer, LayerNormLayer, LRNLayer, PoolingLayer, RMSNormLayer, SumLossLayer

ROUNDS = 7
SIZES: dict[type[Layer], tuple[int, ...]] = {
    LayerNormLayer: (4096, 512),
    RMSNormLayer: (4096, 512),
    LRNLayer: (32, 64, 28, 28),
}
OWNER = "nacre-numba"


def seconds(cls: Any, shape: tuple[int, ...], **options: Any) -> float:
    """Return the least processor time that forward and backward of a layer take, and the copies around it.

    Before and behind images stand layers that work on the backend's own blobs, as in most nets.
    """
    layers: list[Layer] = [InputLayer(name="x", tops="x", shape=shape[1:], batch_size=shape[0])]
    if len(shape) == 4:
        layers += [
            ConvolutionLayer(name="before", bottoms="x", tops="a", n_filter=shape[1], kernel=1),
            cls(name="tested", bottoms="a", tops="b"),
            PoolingLayer(name="behind", bottoms="b", tops="y", kernel=2, stride=2),
        ]
    else:
        layers.append(cls(name="tested", bottoms="x", tops="y"))
    layers.append(SumLossLayer(name="loss", bottoms="y"))
    with Net(cls.__name__, layers, backend="numpy", input_gradients=["x"], **options) as net:
        net.write("x", np.random.default_rng(0).normal(size=shape))
        net.forward()
        net.backward()
        steps = [*net.steps("forward"), *net.steps("backward")]
        run = net.compile([step for step in steps if step.name == "tested" or step.kind == "copy"])
        times = []
        for _ in range(ROUNDS):
            begun = process_time()
            run()
            times.append(process_time() - begun)
    return min(times)


if __name__ == "__main__":
    print(f"{'layer':<10} {'shape':<18} {'nacre':>9} {OWNER:>13}")
    for cls, shape in SIZES.items():
        name = cls.__name__.removesuffix("Layer")
        own, ours = seconds(cls, shape), seconds(cls, shape, pins={f"kernel:{name}@numpy": OWNER})
        print(f"{name:<10} {shape!s:<18} {own * 1000:>6.1f} ms {ours * 1000:>10.1f} ms   {own / ours:.1f} times faster")
