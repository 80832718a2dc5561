"""The benchmarks compare like with like, and run."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
LARGE = pytest.mark.long


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("torch", reason="PyTorch is what the benchmarks compare with")
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import twins

    return twins


@pytest.mark.parametrize(
    "name",
    [
        "LeNet-64",
        "MLP-128",
        "CIFAR quick-100",
        "CIFAR full-100",
        "ResNet-20-128",
        "Embedding-64",
        "MLP-mixer-64",
        "M5-32",
        "DCGAN generator-32",
        "LSTM-64",
        pytest.param("U-Net-8", marks=LARGE),
        pytest.param("Conv3d-8", marks=LARGE),
        pytest.param("DCGAN discriminator-32", marks=LARGE),
        pytest.param("Deep-1000", marks=LARGE),
        pytest.param("ResNet-18-32", marks=LARGE),
        pytest.param("MobileNetV2-32", marks=LARGE),
        pytest.param("AlexNet-16", marks=LARGE),
        pytest.param("ResNet-50-8", marks=LARGE),
        pytest.param("VGG-16-8", marks=LARGE),
        pytest.param("VGG-A-8", marks=LARGE),
    ],
)
def test_a_twin_computes_the_same_in_float64(
    name: str, twins: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks import nets

    batch = [f"layer.{layer}.batch_size=2" for layer in ("data", "label")]
    monkeypatch.setitem(nets.NETS, name, nets.Benchmark(nets.NETS[name].file, batch))
    assert nets.describe(name, tmp_path) == 2
    peer = twins.Training(tmp_path, 0.01, 0.9, compared=True, bf16=False)
    peer.model.double()
    peer.data, peer.label = (one.double() if one.is_floating_point() else one for one in (peer.data, peer.label))
    theirs = dict(peer.gradients())

    net = nets.load(name, dropout=False).net("train", backend="numpy", dtype="float64")
    for parameter in net.parameters.values():
        parameter.value = nets.read(tmp_path, parameter.name)  # as float32 has them
    for blob in ("data", "label"):
        net.write(blob, nets.read(tmp_path, blob))
    net.forward()
    net.backward()
    ours = {one.name: one.gradient for one in net.parameters.values() if one.gradient is not None}
    assert ours.keys() == theirs.keys()
    for parameter, gradient in ours.items():
        error = np.linalg.norm(gradient - theirs[parameter]) / np.linalg.norm(theirs[parameter])
        assert error < 1e-10, parameter


def test_products_in_bf16_are_timed(twins: Any) -> None:
    from benchmarks import gpu_speed

    assert twins and gpu_speed.products_in_bf16(16, "cpu")["operations"] > 0


@pytest.mark.long
@pytest.mark.parametrize("options", [[], ["--predict"], ["--text"]], ids=["training", "predict", "text"])
def test_recurrent_layers_are_compared(options: list[str]) -> None:
    pytest.importorskip("torch", reason="PyTorch is what the benchmarks compare with")
    command = [sys.executable, "-m", "benchmarks.recurrent", "--backend", "numpy", "--size", "0", "--rounds", "1"]
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    size = "text, 50 x 64 x 256" if options == ["--text"] else "50 x 64 x 128"
    assert f"| LSTM {size}" in done.stdout and f"| GRU {size}" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("options", [[], ["--predict"], ["--load"]], ids=["training", "predict", "load"])
def test_they_run(options: list[str]) -> None:
    pytest.importorskip("torch", reason="PyTorch is what the benchmarks compare with")
    command = [sys.executable, "-m", "benchmarks", "--net", "CIFAR full-100", "--backend", "numpy", "--rounds", "1"]
    ran = subprocess.run([*command, "--peer", "eager", *options], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    sides = [line.split(" | ")[0] for line in ran.stdout.splitlines() if line.startswith(("| nacre", "| PyTorch"))]
    assert sides == ["| nacre numpy", "| PyTorch eager", "| PyTorch eager, malloc"]


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("torch", reason="PyTorch is what the benchmarks compare with")
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import data

    monkeypatch.setattr(data, "WORKERS", (0,))
    monkeypatch.setattr(data, "PICTURES_WORKERS", (0,))
    return data


def test_all_sides_read_the_same_records(data: Any, tmp_path: Path) -> None:
    made = (data.stores, data.archives, data.sources, data.databases)
    for case in chain.from_iterable(cases(tmp_path, 3) for cases in made):
        assert case.ours and case.peers, case.name
        data.check(case)


def test_a_net_trains_from_bytes_and_from_memory(data: Any, tmp_path: Path) -> None:
    (case,) = data.trainings(tmp_path, 1)
    for side in (*case.ours, *case.peers):
        with ExitStack() as stack:
            next(side.start(stack))


def test_a_net_trains_from_a_source_as_slow_as_a_step(data: Any, tmp_path: Path) -> None:
    (case,) = data.prefetched(tmp_path, 1)
    for side in (*case.ours, *case.peers):
        with ExitStack() as stack:
            next(side.start(stack))


@pytest.mark.long
def test_pictures_are_within_2_of_scaling_and_then_cutting(data: Any, tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image")
    for case in data.pictures(tmp_path, 3 * data.PICTURES_BATCH, "test"):
        data.check(case)


def test_a_side_with_other_records_is_found(data: Any) -> None:
    def wrong(stack: Any) -> Any:
        yield np.ones((data.BATCH, 2)), np.arange(data.BATCH)

    case = data.Case("c", [data.Side("wrong", wrong)], [], lambda numbers: np.zeros((len(numbers), 2)))
    with pytest.raises(ValueError, match="c, wrong: batch 0 has other data"):
        data.check(case)
