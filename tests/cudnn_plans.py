"""cuDNN's plans for the convolutions of nacre's example nets, chosen and built for an H200 that is not there.

    python tests/cudnn_plans.py

writes cudnn_plans.json. It needs nvidia-cudnn-cu13 and nvidia-cudnn-frontend, but no GPU and no driver: cuDNN is told
what the device is.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nacre.config import load
from nacre_cupy.convolutions import DTYPES, WAYS, Convolution, Way, graph_of
from nacre_cupy.plans import MOST_WORKSPACE, build
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.convolution.geometry import Geometry
from nacre_layers.neurons import is_relu

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
    """What needs a plan: a convolution, what is computed of it, with what behind it, and in which type."""

    one: Convolution
    way: Way
    bias: bool
    relu: bool
    dtype: str

    def graph(self, cudnn: Any, **where: Any) -> Any:
        """Return cuDNN's graph of it."""
        return graph_of(cudnn, self.one, self.way, self.dtype, bias=self.bias, relu=self.relu, **where)


def cases() -> dict[Case, list[str]]:
    """Return everything that a training of the nets computes of their convolutions, each with its nets' names."""
    found: dict[Case, set[str]] = {}
    for name, images in BATCHES.items():
        path = ROOT / "examples" / name
        inputs = [layer.name for layer in load(path).layers if layer.is_source]
        net = load(path, [f"layer.{one}.batch_size={images}" for one in inputs]).net(
            backend="numpy", phase="train", allocate=False
        )
        for op in net.ops:
            layer = op.node.layer
            if isinstance(layer, ConvolutionLayer) and op.neuron is None:
                one = Convolution.of(Geometry(layer, op.inputs[0].shape), layer.n_group)
                for way in WAYS:
                    behind = way == "forward"
                    fused = behind and layer.bias, behind and is_relu(layer.neuron)
                    if way != "data" or op.inputs[0].gradient is not None:
                        for dtype in DTYPES:
                            found.setdefault(Case(one, way, *fused, dtype), set()).add(name)
    return {case: sorted(nets) for case, nets in found.items()}


def entry(case: Case, nets: list[str]) -> dict[str, Any]:
    """Return the part of an entry in the list that says what it is for, as JSON has it."""
    fields = asdict(case)
    return json.loads(json.dumps({**fields.pop("one"), **fields, "nets": nets}))


def made_plans() -> dict[str, Any]:
    """Return the list.

    Raises:
        LookupError: cuDNN has no plan for one of the convolutions.
    """
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
    PLANS.write_text(text(made_plans()), encoding="utf-8")
