"""The nets that are measured, and their description for other frameworks: layers, first parameters and one batch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"


@dataclass(frozen=True)
class Benchmark:
    """A net file under examples/, and what is changed in it."""

    file: str
    overrides: Sequence[str] = ()
    small: bool = True  # measured by default, and on every backend
    # How far gradients may lie apart, of their norm. Where a ReLU is fed with 0 but for rounding, its gradient passes
    # on one side and not on the other; behind many layers that is not little. In float64 twins agree to 1e-10.
    apart: float = 1e-4
    # In bf16 maxima of pools that lie close together change places; PyTorch's own bf16 is as far from its float32.
    apart_in_bf16: float = 0.2


NETS = {
    "LeNet-64": Benchmark("lenet/lenet.toml"),
    "LeNet-128": Benchmark("lenet/lenet.toml", ["layer.data.batch_size=128", "layer.label.batch_size=128"], False),
    "MLP-128": Benchmark("mlp/mlp.toml"),
    "CIFAR quick-100": Benchmark("cifar/quick.toml"),
    "CIFAR full-100": Benchmark("cifar/full.toml", small=False),
    "ResNet-20-128": Benchmark("cifar/resnet20.toml", small=False, apart=3e-2),
    "AlexNet-16": Benchmark("imagenet/alexnet.toml", small=False, apart=1e-2, apart_in_bf16=0.6),
    "VGG-A-8": Benchmark("imagenet/vgg_a.toml", small=False, apart=1e-2, apart_in_bf16=0.6),
}


def load(name: str, *, dropout: bool = True) -> Any:
    """Load a net file; its biases learn as fast as its weights, which a plain optimiser of PyTorch would do too.

    Without `dropout`, no element is dropped: two frameworks draw different masks, and could not be compared.
    """
    from nacre.config import netfile as config

    file = config.load(EXAMPLES / NETS[name].file, NETS[name].overrides)
    biased = [f"layer.{layer.name}.bias_lr=1.0" for layer in file.layers if hasattr(layer, "bias_lr")]
    masked = [f"layer.{layer.name}.ratio=0.0" for layer in file.layers if hasattr(layer, "ratio")]
    return config.load(file.path, [*NETS[name].overrides, *biased, *([] if dropout else masked)])


def describe(name: str, folder: Path) -> int:
    """Write what a twin in another framework needs into a folder; give the size of a batch.

    net.json has the layers of phase train in order, with all their fields, and the shapes of blobs and parameters;
    every parameter lies in a file by its name, and `data` and `label` are one random batch.
    """
    import numpy as np

    from nacre.fields.tables import plain, type_name

    net = load(name).net("train", backend="numpy")
    nodes = net.wiring.nodes
    shapes = {blob: value.shape for blob, value in net.memory.final.items()}
    scores = next(node.bottoms[0] for node in nodes if node.layer.has_loss)
    told = {
        "name": name,
        "layers": [
            {"type": type_name(type(node.layer)), **_layer(node, plain)} for node in nodes if not _ends(node.layer)
        ],
        "blobs": shapes,
        "parameters": {name: parameter.shape for name, parameter in net.parameters.items()},
        "scores": scores,
    }
    (folder / "net.json").write_text(json.dumps(told), encoding="utf-8")
    for parameter in net.parameters.values():
        save(folder, parameter.name, parameter.value)
    random = np.random.default_rng(0)
    save(folder, "data", random.normal(size=shapes["data"]).astype(np.float32))
    save(folder, "label", random.integers(0, shapes[scores][1], shapes["label"]))
    net.shutdown()
    return int(shapes["data"][0])


def _layer(node: Any, plain: Any) -> dict[str, Any]:
    fields = {field.name: plain(getattr(node.layer, field.name)) for field in type(node.layer).fields()}
    names = {"name": node.name, "bottoms": list(node.bottoms), "tops": list(node.tops)}
    return fields | {name: value for name, value in names.items() if name in fields}


def _ends(layer: Any) -> bool:
    return layer.is_source or layer.has_loss or layer.has_stats


def save(folder: Path, name: str, array: Any) -> None:
    """Write an array by its name, such as conv1/weight."""
    import numpy as np

    np.save(_path(folder, name), array)


def read(folder: Path, name: str) -> Any:
    """Read an array by its name."""
    import numpy as np

    return np.load(_path(folder, name))


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name.replace('/', '.')}.npy"
