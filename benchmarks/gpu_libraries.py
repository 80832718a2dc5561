"""What benchmarks.gpu measures of NVIDIA's libraries: cuDNN's plans, beside our own kernels, cuBLASLt's epilogue."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from math import prod
from typing import Any

import numpy as np

from nacre import Input, L, Net
from nacre_cupy.convolutions import Convolution, Way, graph_of
from nacre_cupy.plans import MOST_WORKSPACE, TENSORS, NoPlanError, build
from nacre_cupy.plans import plans as plans_of
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.convolution.geometry import Geometry
from nacre_layers.normalisation.batch_norm import BatchNormLayer

from . import nets
from .gpu_speed import per_call

MOST_PLANS = 6
"""Plans that are timed for each graph: the first ones that can be built, in the order of cuDNN's rules."""
LINEAR = {"fc6": (9216, 4096), "fc7": (4096, 4096), "fc8": (4096, 1000)}
"""The inner products of AlexNet: inputs and outputs."""


def convolutions(name: str, batch: int) -> list[Convolution]:
    """Return the convolutions of a net, each once."""
    net = nets.load(name, batch=batch).net("train", backend="numpy", allocate=False)
    with net:
        found = [
            Convolution.of(Geometry(op.node.layer, op.inputs[0].shape), op.node.layer.n_group)
            for op in net.ops
            if isinstance(op.node.layer, ConvolutionLayer) and op.neuron is None
        ]
    return list(dict.fromkeys(found))


def normalisations(name: str, batch: int) -> list[tuple[int, ...]]:
    """Return the shapes of the images of a net's BatchNorms, each once."""
    with nets.load(name, batch=batch).net("train", backend="numpy", allocate=False) as net:
        shapes = [tuple(op.inputs[0].shape) for op in net.ops if isinstance(op.node.layer, BatchNormLayer)]
    return list(dict.fromkeys(one for one in shapes if len(one) == 4))


def batch_norm(backend: Any, shape: tuple[int, ...], dtype: str, calls: int) -> dict[str, Any]:
    """Return the seconds of BatchNorm with a ReLU, and with a sum and a ReLU, by cuDNN and by our own kernels.

    Each is a pass forward and back of a net with a loss, which both have.
    """
    dnn, times = backend.dnn, {}
    options: dict[str, Any] = {"compute": "bf16" if dtype == "bf16" else None, "insert_splits": True}
    for what in ("ReLU", "sum, ReLU"):
        for whose, library in (("cuDNN", dnn), ("nacre", None)):
            backend.dnn = library
            try:
                x = Input(shape[1:], name="x", batch_size=shape[0])
                made = L.BatchNorm()(x) if "sum" in what else L.BatchNorm(neuron="ReLU")(x)
                top = L.ElementWise(neuron="ReLU")(made, x) if "sum" in what else made
                with Net("norm", [L.SumLoss()(top)], backend=backend, input_gradients=["x"], **options) as net:
                    run = net.compile([*net.steps("forward"), *net.steps("backward")])
                    run()  # called; then it is captured
                    times[f"{what}, {whose}"] = per_call(run, backend.wait, calls)
            finally:
                backend.dnn = dnn
    return {"times": times}


def text(one: Convolution) -> str:
    """Return a convolution in a few words."""
    sizes = ("x".join(map(str, some)) for some in (one.x, one.w))
    return f"{' by '.join(sizes)}, stride {one.stride[0]}, groups {one.groups}"


def plans(backend: Any, one: Convolution, dtype: str, calls: int) -> dict[str, Any]:
    """Return the seconds of a convolution's first plans, both gradients' too, and of what can be fused behind it.

    `chosen` is the first plan, which the backend takes; `best` is the fastest. Of "forward" there are graphs with bias,
    with bias and ReLU, and with bias, summand and ReLU: each saves a pass over the result, or two. Each of five samples
    has so many `calls`.
    """
    found: dict[str, Any] = {}
    cases: list[tuple[str, Way, dict[str, bool]]] = [
        ("forward", "forward", {}),
        ("data", "data", {}),
        ("weight", "weight", {}),
        ("forward, bias", "forward", {"bias": True}),
        ("forward, bias, ReLU", "forward", {"bias": True, "relu": True}),
        ("forward, bias, add, ReLU", "forward", {"bias": True, "add": True, "relu": True}),
    ]
    for name, way, behind in cases:
        timed = dict(_timed(backend, one, way, dtype, behind, calls))
        first = next(iter(timed), "")
        best = min(timed, key=lambda plan: timed[plan], default="")
        found[name] = {"times": timed, "chosen": first, "best": best}
    return found


def _timed(
    backend: Any, one: Convolution, way: Way, dtype: str, behind: dict[str, bool], calls: int
) -> Iterator[tuple[str, float]]:
    """Yield the names of plans, and the seconds of each; none if cuDNN has no plan."""
    dnn, cupy = backend.dnn, backend.cupy
    handle = dnn.opened()
    kind = "uint16" if dtype == "bf16" else "float32"
    shapes = {"x": one.x, "w": one.w, "y": one.y, "bias": (one.filters,), "other": one.y}
    named = ["x", "w", "y", *(["bias"] if behind.get("bias") else []), *(["other"] if behind.get("add") else [])]
    limits = {"deterministic": False, "tensor_cores": dtype != "float32", "most_workspace": MOST_WORKSPACE}
    with backend.here, suppress(NoPlanError):
        graph = graph_of(dnn.module, one, way, dtype, handle=handle, **behind)
        arrays = {name: cupy.zeros((prod(shapes[name]),), kind) for name in named}
        places = {TENSORS[name]: array.data.ptr for name, array in arrays.items()}
        for plan in islice(plans_of(dnn.module, graph, **limits), MOST_PLANS):
            workspace = cupy.empty((max(1, plan.workspace),), "uint8")
            run = partial(graph.execute, places, workspace.data.ptr, handle=handle)
            yield plan.name, per_call(run, backend.wait, calls)


def described(backend: Any, one: Convolution, way: Way, dtype: str) -> dict[str, Any]:
    """Compare a plan that was built for a description of the device, and read back, with one that was built on it.

    `seconds` are those of building and of reading.
    """
    dnn, cupy = backend.dnn, backend.cupy
    cudnn, handle, found = dnn.module, dnn.opened(), list[Any]()
    limits = {"deterministic": True, "tensor_cores": dtype != "float32", "most_workspace": MOST_WORKSPACE}
    began = time.perf_counter()
    prepared = graph_of(cudnn, one, way, dtype, device_property=cudnn.create_device_properties(0))
    there = build(cudnn, prepared, **limits)
    built = time.perf_counter()
    read = cudnn.pygraph(handle=handle)
    read.deserialize(handle, list(prepared.serialize()))
    seconds = {"built": built - began, "read": time.perf_counter() - built}
    here = graph_of(cudnn, one, way, dtype, handle=handle)
    random, shapes = np.random.default_rng(0), {"x": one.x, "w": one.w, "y": one.y}
    numbers = {name: random.normal(size=prod(shape)).astype(np.float32) for name, shape in shapes.items()}
    with backend.here:
        for graph, plan in ((read, there), (here, build(cudnn, here, **limits))):
            arrays = {name: cupy.array(_stored(array, dtype)) for name, array in numbers.items()}
            workspace = cupy.empty((max(1, plan.workspace),), "uint8")
            places = {TENSORS[name]: array.data.ptr for name, array in arrays.items()}
            graph.execute(places, workspace.data.ptr, handle=handle)
            made = backend.to_host(arrays[{"forward": "y", "data": "x", "weight": "w"}[way]])
            found.append(_widened(made, dtype).astype(np.float64))
    apart = float(np.linalg.norm(found[0] - found[1]) / np.linalg.norm(found[1]))
    ok = apart <= (1e-2 if dtype != "float32" else 1e-5)
    return {"ok": ok, "plan": there.name, "apart": apart, "seconds": seconds}


def _stored(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return numbers of float32 as they lie in the device's memory."""
    return (array.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bf16" else array


def _widened(array: np.ndarray, dtype: str) -> np.ndarray:
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype == "bf16" else array


def linear(backend: Any, rows: int, inputs: int, outputs: int) -> dict[str, Any]:
    """Return the seconds of an inner product with the bias in cuBLASLt's epilogue, and with the bias apart."""
    cupy = backend.cupy
    with backend.here:
        shapes = (rows, inputs), (outputs, inputs), (outputs,), (rows, outputs)
        x, weight, bias, y = (cupy.ones(shape, "float32") for shape in shapes)

        def apart() -> None:
            backend.xp.matmul(x, weight.T, out=y)
            backend.xp.add(y, bias, out=y)

        together = per_call(lambda: backend.products.linear(x, weight, bias, y), backend.wait)
        times = {"epilogue": together, "apart": per_call(apart, backend.wait)}
    return {"times": times, "products": "TF32" if backend.products.tf32 else "float32"}


def linear_of_torch(rows: int, inputs: int, outputs: int, device: str, *, tf32: bool) -> dict[str, Any]:
    """Return the seconds of the same by PyTorch."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = tf32
    x, weight, bias = (torch.ones(shape, device=device) for shape in ((rows, inputs), (outputs, inputs), (outputs,)))
    wait = torch.cuda.synchronize if device != "cpu" else lambda: None
    with torch.no_grad():
        return {"times": per_call(lambda: torch.nn.functional.linear(x, weight, bias), wait)}
