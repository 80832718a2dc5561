"""What benchmarks.gpu measures of our own kernels: the bytes a second that they read and write."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod
from typing import Any

import numpy as np

from nacre import Input, L, Net, Solver
from nacre.protocols.view import Scalars, View
from nacre_cupy.kernels.convert import Arithmetic, Conversion, Crop, Mirror

from .gpu_speed import per_call

Sizes = tuple[int, ...]

LAYERS: dict[str, tuple[Any, list[Sizes]]] = {
    "Pooling, max": (partial(L.Pooling, kernel=3, stride=2), [(256, 64, 112, 112)]),
    "Pooling, mean": (partial(L.Pooling, kernel=7, pooling="Mean"), [(256, 2048, 7, 7)]),
    "LRN": (L.LRN, [(512, 96, 55, 55)]),
    "Dropout": (L.Dropout, [(512, 4096)]),
    "ElementWise, ReLU": (partial(L.ElementWise, neuron="ReLU"), [(256, 256, 56, 56)] * 2),
    "Activation, GELU": (partial(L.Activation, neuron="GELU"), [(64, 2048, 3072)]),
    "SoftmaxLoss": (L.SoftmaxLoss, [(512, 1000), (512,)]),
}
"""Layers, and the shapes of what they read: those of ResNet-50 and of AlexNet; the GELU is that of a transformer."""
REPEATED = 10
"""How many times a step is run in one graph."""
NUMBERS = 61_000_000
"""Parameters that an update changes: about those of AlexNet."""


def pieces(backend: Any, dtype: str, calls: int, *, small: bool) -> Iterator[tuple[str, Any]]:
    """Yield names, and functions that time what is named."""
    for name, (layer, shapes) in LAYERS.items():
        given = [(min(one[0], 4), *(min(size, 8) for size in one[1:])) for one in shapes] if small else shapes
        yield name, partial(timed, backend, layer, given, dtype, calls)
    if dtype == "bf16":
        yield "conversion", partial(conversion, backend, 4 if small else 256, 16 if small else 256, calls)
    else:
        yield "SGD", partial(update, backend, 100 if small else NUMBERS, calls)


def timed(backend: Any, layer: Any, shapes: list[Sizes], dtype: str, calls: int) -> dict[str, Any]:
    """Return the seconds of a layer's passes, and the bytes a second.

    Forward reads the bottoms and writes the tops; backward reads the tops' gradients and whatever else the kernel says
    it `reads`, and writes the bottoms' gradients. Both are those of a net with the layer alone, captured.
    """
    bottoms = [Input(shape[1:], name=f"x{number}", batch_size=shape[0]) for number, shape in enumerate(shapes)]
    made = layer(name="timed")(*bottoms)
    ends = [made] if layer is L.SoftmaxLoss else [L.SumLoss()(made)]
    wanted = [f"x{number}" for number, shape in enumerate(shapes) if len(shape) > 1]
    options: dict[str, Any] = {"compute": "bf16" if dtype == "bf16" else None, "input_gradients": wanted}
    told: dict[str, Any] = {}
    with Net("one", ends, backend=backend, **options) as net:
        random = np.random.default_rng(0)
        for number, shape in enumerate(shapes):
            labels = len(shape) == 1
            net.write(f"x{number}", random.integers(0, shapes[0][1], shape) if labels else random.normal(size=shape))
        net.forward()
        net.backward()
        op = [one for one in net.ops if one.name.partition("/")[0] == "timed"][-1]  # its neuron's, if that is apart
        read, written = _bytes(op.state.inputs), _bytes(op.state.blobs)
        again = sum(size for word, size in (("inputs", read), ("blobs", written)) if word in op.state.reads)
        for way, size in (("forward", read + written), ("backward", read + written + again)):
            (step,) = [step for step in net.steps(way) if step.kind == way and step.name == op.name]
            run = net.compile([step] * REPEATED)  # what it takes to begin a run is longer than many of them
            run()  # called; then it is captured
            seconds = per_call(run, backend.wait, calls) / REPEATED
            told[way] = {"seconds": seconds, "bytes a second": size / seconds}
        told["by"] = type(op.state).__name__
    return told


def _bytes(blobs: list[Any]) -> int:
    return sum(prod(one.shape) * (2 if one.dtype == "bf16" else np.dtype(one.dtype).itemsize) for one in blobs)


def update(backend: Any, numbers: int, calls: int) -> dict[str, Any]:
    """Return the seconds of an update by SGD with momentum, and the bytes a second: 5 numbers of float32 for each."""
    x = Input(numbers, name="x", batch_size=1)
    solver = Solver("SGD", lr_policy=0.01, momentum_policy=0.9)
    layers = [L.SumLoss()(L.InnerProduct(output_dim=1, bias=False)(x))]
    with Net("one", layers, backend=backend) as net, solver.start(net) as training:
        training.step()
        run = partial(training.update, 0)
        run()
        seconds = per_call(run, backend.wait, calls)
    return {"seconds": seconds, "bytes a second": 5 * 4 * numbers / seconds}


def conversion(backend: Any, images: int, side: int, calls: int) -> dict[str, Any]:
    """Return the seconds of making a batch in bf16 of bytes: cropped, mirrored, centred, with the channels last."""
    rows = side - side // 8
    view = View(backend, phase="train", dtype="float32", compute="bf16", seed=0, scalars=Scalars())
    changes = [Crop(rows, rows), Mirror(), Arithmetic(np.full(3, 110.0), multiplies=False)]
    made = Conversion(view, (3, side, side), changes)
    random = np.random.default_rng(0)
    drawn = [random.random((images, 2)), random.random((images, 1))]
    batch = backend.empty((images, 3, side, side), "uint8")
    places = backend.empty((len(made.sizes), images, 3), "int32")
    backend.from_host(made.places(drawn, images, "train"), places)
    to = backend.empty((images, rows, rows, 3), "uint16")

    def run() -> None:
        with backend.here:
            made.enqueue(batch, places, to, "bf16", 3)

    seconds = per_call(run, backend.wait, calls)
    return {"seconds": seconds, "bytes a second": images * 3 * rows * rows * 3 / seconds}
