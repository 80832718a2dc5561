"""cuDNN's plans for what it computes of nacre's example nets, chosen and built for an H200 that is not there.

    python tests/cudnn_plans.py

writes cudnn_plans.json, and with `--print` prints it. It needs nvidia-cudnn-cu13, nvidia-cudnn-frontend and a C
compiler, but no GPU and no driver: cuDNN is told what the device is, and cuda_driver.c and cuda_runtime.c take the
driver's place.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nacre import is_identity
from nacre.config import load
from nacre_cupy import convolutions, normalisations
from nacre_cupy.convolutions import DTYPES, Convolution
from nacre_cupy.normalisations import Normalisation
from nacre_cupy.plans import MOST_WORKSPACE, build
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.convolution.geometry import Geometry
from nacre_layers.elementwise.element_wise import Add, ElementWiseLayer
from nacre_layers.neurons import is_relu
from nacre_layers.normalisation.batch_norm import BatchNormLayer

ROOT = Path(__file__).resolve().parents[1]
PLANS = Path(__file__).with_suffix(".json")
BATCHES = {
    "lenet/lenet.toml": 64,
    "cifar/full.toml": 512,
    "imagenet/alexnet.toml": 512,
    "imagenet/vgg_16.toml": 128,
    "imagenet/resnet50.toml": 256,
}
"""The nets, and the images of a batch on a GPU."""

H200 = {
    "version": 1,
    "deviceName": "NVIDIA H200",
    "deviceVer": 900,
    "smVersion": 900,
    "driverVer": 13000,
    "driverVersion": 13000,
    "maxGridSize": [2147483647, 65535, 65535],
    "maxBlockSize": [1024, 1024, 64],
    "regsPerBlock": 65536,
    "multiProcessorCount": 132,
    "smCountOrigin": 0,
    "warpSize": 32,
    "maxSharedMemoryPerBlock": 49152,
    "maxSharedMemoryPerBlockOptin": 232448,
    "oversizedSharedMemoryPerBlock": 232448,
    "reservedSharedMemoryPerBlock": 1024,
    "maxSharedMemoryPerSM": 233472,
    "maxRegistersPerSM": 65536,
    "maxCtasPerSM": 32,
    "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048,
    "pciDeviceId": 9013,
    "isTccDriver": 0,
    "supportCoopLaunch": 1,
    "smClockRateKHz": 1980000,
    "memClockRateKHz": 3201000,
    "memoryBusWidth": 6144,
    "l2CacheSize": 62914560,
    "totalGlobalMem": 150000000000,
    "cudaDeviceId": 0,
}
"""The device, as `cudnn.create_device_properties(0).serialize()` would describe it there."""


@dataclass(frozen=True)
class Case:
    """What needs a plan: a convolution or a BatchNorm, what is computed of it, in which type, with what behind it."""

    one: Convolution | Normalisation
    way: str
    dtype: str
    bias: bool = False
    add: bool = False
    relu: bool = False

    def graph(self, cudnn: Any, **where: Any) -> Any:
        """Return cuDNN's graph of it."""
        way: Any = self.way
        if isinstance(self.one, Normalisation):
            return normalisations.graph_of(cudnn, self.one, way, self.dtype, **where)
        behind = {"bias": self.bias, "add": self.add, "relu": self.relu}
        return convolutions.graph_of(cudnn, self.one, way, self.dtype, **behind, **where)


def cases() -> dict[Case, list[str]]:
    """Return everything that a training of the nets computes by cuDNN, each with its nets' names.

    Each convolution is there with a sum and a ReLU behind it, too, which none of these nets has.
    """
    found: dict[Case, set[str]] = {}
    for name, images in BATCHES.items():
        path = ROOT / "examples" / name
        inputs = [layer.name for layer in load(path).layers if layer.is_source]
        net = load(path, [f"layer.{one}.batch_size={images}" for one in inputs]).net(
            backend="numpy", phase="train", allocate=False
        )
        sums = sums_behind(net.ops)
        for op in net.ops:
            if op.neuron is None:
                for case in cases_of(op, sums.get(op.name)):
                    found.setdefault(case, set()).add(name)
    return {case: sorted(nets) for case, nets in found.items()} | {case: [] for case in others()}


def others() -> Iterator[Case]:
    """Yield convolutions over one and three axes, and those whose gradients are deconvolutions, of no example net.

    A sum behind them, and a ReLU without a bias, have no plan in some types: the backend does without.
    """
    for size, channels, filters, kernel, stride, pad, groups in (
        ((1, 8000), 1, 128, (1, 80), (1, 4), (0, 0), 1),
        ((1, 495), 128, 128, (1, 3), (1, 1), (0, 0), 1),
        ((1, 200), 32, 32, (1, 7), (1, 1), (0, 3), 32),
        ((16, 32, 32), 3, 32, (3, 3, 3), (1, 1, 1), (1, 1, 1), 1),
        ((4, 4, 4), 128, 128, (3, 3, 3), (2, 1, 1), (1, 1, 1), 2),
        ((16, 16), 128, 256, (2, 2), (2, 2), (0, 0), 1),
        ((4, 4), 512, 100, (4, 4), (1, 1), (0, 0), 1),
        ((64, 64), 3, 64, (4, 4), (2, 2), (1, 1), 1),
    ):
        one = Convolution(64, channels, size, filters, kernel, stride, pad, pad, (1,) * len(size), groups)
        for dtype in DTYPES:
            for behind in ({}, {"bias": True}, {"bias": True, "relu": True}):
                yield Case(one, "forward", dtype, **behind)
            for way in ("data", "weight"):
                yield Case(one, way, dtype)


def sums_behind(ops: list[Any]) -> dict[str, Any]:
    """Return the sums that the backend computes together with the layer below, by the names of these layers."""
    readers = Counter(id(value) for op in ops for value in op.inputs)
    writers = {id(value): op for op in ops for value in op.outputs}
    found: dict[str, Any] = {}
    for op in ops:
        layer = op.node.layer
        if isinstance(layer, ElementWiseLayer) and isinstance(layer.operation, Add) and len(op.inputs) == 2:
            below = [writers[id(value)] for value in op.inputs if readers[id(value)] == 1]
            fit = [one for one in below if isinstance(one.node.layer, ConvolutionLayer | BatchNormLayer)]
            found |= {one.name: op for one in fit[:1] if is_identity(one.node.layer.neuron)}
    return found


def cases_of(op: Any, added: Any) -> Iterator[Case]:
    """Yield what is computed of one layer; `added` is the sum behind it, or None."""
    layer = op.node.layer
    if not isinstance(layer, ConvolutionLayer | BatchNormLayer):
        return
    relu, wanted = is_relu((added or op).node.layer.neuron), op.inputs[0].gradient is not None
    if isinstance(layer, ConvolutionLayer):
        one = Convolution.of(Geometry(layer, op.inputs[0].shape), layer.n_group)
        for dtype in DTYPES:
            yield Case(one, "forward", dtype, layer.bias, added is not None, relu)
            yield Case(one, "forward", dtype, layer.bias, add=True, relu=True)
            for way in ("data", "weight") if wanted else ("weight",):
                yield Case(one, way, dtype)
    else:
        one = Normalisation(op.inputs[0].shape, added is not None, relu)
        gives = added is not None and all(value.gradient is not None for value in added.inputs)
        for dtype in ("float32", "bf16"):
            yield Case(one, "forward", dtype)
            if wanted:
                yield Case(replace(one, add=False, gives=gives), "backward", dtype)


def entry(case: Case, nets: list[str]) -> dict[str, Any]:
    """Return the part of an entry in the list that says what it is for, as JSON has it."""
    fields = asdict(case)
    sizes = fields.pop("one")
    return json.loads(json.dumps({"what": type(case.one).__name__, **fields, **sizes, "nets": nets}))


def without_a_driver() -> None:
    """Load cuda_driver.c and cuda_runtime.c, unless there is a driver: cuDNN finds them by their names."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        with tempfile.TemporaryDirectory() as folder:
            for name, source in (("libcuda.so.1", "cuda_driver.c"), ("libcudart.so.13", "cuda_runtime.c")):
                made = str(Path(folder, name))
                how = ["-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", made]
                subprocess.run(["cc", *how, str(PLANS.with_name(source))], check=True)
                ctypes.CDLL(made, ctypes.RTLD_GLOBAL)


def made_plans() -> dict[str, Any]:
    """Return the list.

    Raises:
        NoPlanError: cuDNN has no plan for one of them.
    """
    without_a_driver()
    cudnn = importlib.import_module("cudnn")
    device = cudnn.create_device_properties(json.dumps(H200))
    plans: list[dict[str, Any]] = []
    for case, nets in cases().items():
        graph, tensor_cores = case.graph(cudnn, device_property=device), case.dtype != "float32"
        plan = build(cudnn, graph, tensor_cores=tensor_cores, most_workspace=MOST_WORKSPACE)
        plans.append({**entry(case, nets), "plan": plan.name, "workspace": plan.workspace})
    versions = {"cudnn": cudnn.backend_version_string(), "frontend": cudnn.__version__}
    return {**versions, "device": H200["deviceName"], "plans": plans}


def text(made: dict[str, Any]) -> str:
    """Return the list as it is saved: a line for each plan."""
    lines = ",\n".join(f"    {json.dumps(plan)}" for plan in made["plans"])
    head = {key: value for key, value in made.items() if key != "plans"}
    return f'{json.dumps(head, indent=2)[:-2]},\n  "plans": [\n{lines}\n  ]\n}}\n'


if __name__ == "__main__":
    made = text(made_plans())
    if "--print" in sys.argv:
        print(made, end="")
    else:
        PLANS.write_text(made, encoding="utf-8")
