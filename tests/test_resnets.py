"""The ResNets of examples/ are made of containers: they are the nets that one would write layer by layer."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import Layer, Net, Solver
from nacre.config import load
from nacre_layers import (
    BatchNormLayer,
    ConvolutionLayer,
    ElementWiseLayer,
    He,
    InnerProductLayer,
    PoolingLayer,
)
from nacre_solvers import SGD, Snapshot

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits" / "resnet20.toml"
IN_BLOCK = {"a": "Convolution1", "a_bn": "BatchNorm1", "b": "Convolution2", "b_bn": "BatchNorm2"}
SHORT_CUT = {"p": "projection/Convolution1", "p_bn": "projection/BatchNorm1"}


def layer_by_layer() -> list[Layer]:
    """Return ResNet-20 as nacre's examples had it without containers."""
    layers: list[Layer] = []

    def convolve(name: str, bottom: str, n_filter: int, kernel: int, stride: int, neuron: str) -> str:
        sizes: dict[str, Any] = {"kernel": kernel, "stride": stride, "pad": kernel // 2, "n_filter": n_filter}
        he = He(fan="out")
        layers.append(ConvolutionLayer(name=name, bottoms=bottom, tops=name, bias=False, weight_init=he, **sizes))
        layers.append(BatchNormLayer(name=f"{name}_bn", bottoms=name, tops=f"{name}_bn", neuron=neuron))
        return f"{name}_bn"

    top = convolve("conv1", "data", 16, 3, 1, "ReLU")
    for stage, n_filter in enumerate((16, 32, 64), start=2):
        for number in (1, 2, 3):
            changes, name, bottom = stage > 2 and number == 1, f"res{stage}_{number}", top
            stride = 2 if changes else 1
            top = convolve(f"{name}a", bottom, n_filter, 3, stride, "ReLU")
            top = convolve(f"{name}b", top, n_filter, 3, 1, "Identity")
            bottom = convolve(f"{name}p", bottom, n_filter, 1, stride, "Identity") if changes else bottom
            layers.append(ElementWiseLayer(name=name, bottoms=[top, bottom], tops=name, neuron="ReLU"))
            top = name
    layers.append(PoolingLayer(name="mean", bottoms=top, tops="mean", whole=True, pooling="Mean"))
    layers.append(InnerProductLayer(name="scores", bottoms="mean", tops="scores", output_dim=10, weight_init="Xavier"))
    return layers


def renamed() -> dict[str, str]:
    """Return {layer there: layer here}."""
    names = {"conv1": "net/conv1", "conv1_bn": "net/BatchNorm1", "scores": "net/scores"}
    for stage in (2, 3, 4):
        for number in (1, 2, 3):
            projects = stage > 2 and number == 1
            repeated = f"net/stage{stage}/{number if stage == 2 else number - 1}/Residual1"
            block = f"net/stage{stage}_1" if projects else repeated
            inside = IN_BLOCK | (SHORT_CUT if projects else {})
            names |= {f"res{stage}_{number}{old}": f"{block}/{new}" for old, new in inside.items()}
    return names


def losses(net: Net, count: int, **options: Any) -> list[float]:
    with Solver(SGD(), max_iter=count, lr_policy=0.1, momentum_policy=0.9, regu_coef=1e-3, **options).start(net) as run:
        seen: list[float] = []
        for _ in range(count):
            run.step()
            seen.append(net.loss())
        return seen


@pytest.mark.parametrize("backend", ["numpy", "onednn"])
def test_resnet20_of_containers_has_the_same_losses_bit_for_bit(backend: str, tmp_path: Path) -> None:
    file = load(DIGITS, ["layer.train.batch_size=16"])
    others = [layer for layer in file.layers if layer.name != "net"]
    flat_file = dataclasses.replace(file, layers=(*others[:2], *layer_by_layer(), *others[2:]))
    with flat_file.net(backend=backend, insert_splits=True) as first:
        Solver(SGD(), max_iter=1, callbacks=[Snapshot(folder=str(tmp_path))]).solve(first)
    again = dataclasses.replace(file, layers=tuple(dataclasses.replace(layer) for layer in flat_file.layers))
    same: dict[str, Any] = {"backend": backend, "deterministic": True}  # else onednn's plan follows the clock
    with again.net(**same, insert_splits=True) as flat, file.net(**same) as boxed:
        assert flat.load(tmp_path).complete
        assert boxed.load(tmp_path, rename=renamed()).complete
        assert len(flat.wiring.nodes) == len(boxed.wiring.nodes)
        expected = losses(flat, 3)
        assert losses(boxed, 3) == expected
        assert len(set(expected)) == 3
        names = renamed()
        for name, handle in flat.parameters.items():
            layer, _, parameter = name.rpartition("/")
            np.testing.assert_array_equal(boxed.parameters[f"{names[layer]}/{parameter}"].value, handle.value)


def test_the_files_are_short() -> None:
    """Layer by layer they had 540, 556 and 1,213 lines."""
    folder = DIGITS.parents[1]
    lines = {"cifar/resnet20.toml": 540, "digits/resnet20.toml": 556, "imagenet/resnet50.toml": 1213}
    for name, before in lines.items():
        assert len((folder / name).read_text(encoding="utf-8").splitlines()) <= before / 4
