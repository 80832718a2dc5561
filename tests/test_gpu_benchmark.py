"""The script for a GPU starts, and its checks find what they look for: in miniature, over the stand-in for CuPy."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cupy_standin

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import gpu

    return gpu


@pytest.fixture
def checks(gpu: Any) -> Any:
    from benchmarks import gpu_checks

    return gpu_checks


SMALL = {"backend": "cupy", "device": "cpu", "small": True}


@pytest.mark.parametrize("part", ["graphs", "gradients", "curves"])
def test_a_part_finds_nothing_wrong_with_the_backend(part: str, gpu: Any, tmp_path: Path) -> None:
    with cupy_standin.installed():
        gpu.run_part(part, gpu.Settings(**SMALL), tmp_path)
    told = json.loads((tmp_path / f"{part}.json").read_text())
    assert told["pieces"] and all(one["ok"] for one in told["pieces"].values()), told
    assert gpu.failed(tmp_path) == []


def test_what_the_device_does_at_best_is_measured(gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import gpu_speed

    monkeypatch.setattr(gpu_speed, "products_in_bf16", lambda *_: {})  # PyTorch's: test_benchmarks.py calls it
    with cupy_standin.installed():
        gpu.run_part("limits", gpu.Settings(**SMALL), tmp_path)
    pieces = json.loads((tmp_path / "limits.json").read_text())["pieces"]
    assert set(pieces) == {"copies", "products float32", "products tf32", "products bf16", "graphs"}
    assert all(one["ok"] for one in pieces.values()), pieces
    assert min(pieces["copies"]["device"], pieces["copies"]["upload"], pieces["products tf32"]["operations"]) > 0


def test_every_test_that_a_gpu_can_run_is_run(gpu: Any) -> None:
    settings = gpu.Settings(device="cpu")
    with cupy_standin.installed():
        pieces = [name for part in (gpu.kernels, gpu.layers) for name, _ in part(settings)]
    told = {word.partition("::")[0] for piece in pieces for word in piece.split()}
    files = {*(ROOT / "tests").rglob("test_*.py")} - {Path(__file__)}
    every = {str(file.relative_to(ROOT)): file.read_text("utf-8") for file in files}
    device = {name for name, text in every.items() if "cupy_standin" in text or "cuda_on_host" in text}
    of_the_standin = {"tests/test_cupy_standin.py", "tests/backends/test_cuda_on_host.py", "tests/test_cudnn_plans.py"}
    assert device - told == of_the_standin
    each = {name for name, text in every.items() if '", backends())' in text and "/released/" not in name}
    folders = {"tests/parallel", *gpu.FOLDERS}  # those of ranks are no tests of it
    assert {"/".join(name.split("/")[:2]) for name in each} <= folders
    assert {"tests/backends/test_cupy_kernels.py -m long", "tests/core -k cupy"} <= set(pieces)


def test_those_that_fail_are_named(checks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many lines, also where the run is cut before it tells them at its end."""
    lines = [f"test_{number} {'FAILED' if number == 3 else 'PASSED'}" for number in range(100)]

    def run(*given: Any, timeout: float, **_: Any) -> Any:
        if timeout < 2:
            raise subprocess.TimeoutExpired("pytest", timeout, "\n".join(lines).encode())
        return subprocess.CompletedProcess([], 1, "\n".join(lines), "")

    monkeypatch.setattr(checks.subprocess, "run", run)
    for limit, last in ((1, 5), (5, 60)):
        found = checks.command("pytest", limit=limit)
        assert not found["ok"] and found["lines"] == ["test_3 FAILED", *lines[-last:]]


@pytest.mark.parametrize(
    "words",
    [
        ["tests/backends/test_cupy_dropout.py", "tests/backends/test_cupy_attention.py"],
        ["tests/core/graph", "-k", "cupy"],
        pytest.param(["tests/core", "tests/data", "tests/solvers", "-k", "cupy"], marks=pytest.mark.long),
        pytest.param(["tests/backends", "-k", "test_cupy_ and not test_cupy_compiles"], marks=pytest.mark.long),
    ],
)
def test_tests_run_as_on_a_gpu(checks: Any, words: list[str]) -> None:
    """With the stand-in in the place of CuPy, but with nothing that only the stand-in has."""
    given = ["pytest", "-q", "-p", "no:cacheprovider", *words]
    found = checks.command(*given, limit=3000, env={"NACRE_TEST_GPU": "simulated"})
    assert found["ok"], "\n".join(found["lines"])


def test_the_parts_come_in_the_order_of_their_worth(gpu: Any) -> None:
    order = ["versions", "limits", "kernels", "libraries", "graphs", "gradients", "curves", "speed", "others", "layers"]
    assert list(gpu.PARTS) == [*order, "compiled"]


def test_a_machine_without_nvidia_smi_is_described(gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = gpu._device(gpu.Settings())
    assert found["ok"] and found["nvidia-smi"].startswith("cannot be run: ")


def test_kernels_are_timed(gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_tests", lambda *_: ())
    with cupy_standin.installed():
        gpu.run_part("kernels", gpu.Settings(**SMALL), tmp_path)
    pieces = json.loads((tmp_path / "kernels.json").read_text())["pieces"]
    assert all(one["ok"] for one in pieces.values()), pieces
    assert {name.partition(",")[0] for name in pieces} >= {"Pooling", "LRN", "SGD", "conversion", "SoftmaxLoss"}
    for name, one in pieces.items():
        timed = [one["forward"], one["backward"]] if "by" in one else [one]
        assert min(way["bytes a second"] for way in timed) > 0, name
        assert one.get("by", "Kernel").endswith("Kernel"), f"{name} is computed by {one['by']}"


@pytest.mark.parametrize("what", ["reads", "sends"])
def test_what_does_not_arrive_is_found(gpu: Any, checks: Any, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    from benchmarks import gpu_libraries, gpu_speed

    with cupy_standin.installed():
        backend = checks.fresh("cupy")
        if what == "sends":
            assert gpu_speed.uploads(backend, 1 << 12, 8)["ok"]
            backend.upload = lambda host, array: None
            assert not gpu_speed.uploads(backend, 1 << 12, 8)["ok"]
            return
        (one, *_) = gpu_libraries.convolutions("LeNet-64", 2)
        assert gpu_libraries.described(backend, one, "forward", "float32")["ok"]
        factors = iter((1, 2))
        monkeypatch.setattr(gpu_libraries, "_widened", lambda made, _: made * next(factors))
        assert not gpu_libraries.described(backend, one, "forward", "float32")["ok"]


def test_plans_and_epilogues_are_timed(gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import gpu_libraries

    monkeypatch.setattr(gpu_libraries, "linear_of_torch", lambda *_, **__: {})  # which may be missing
    monkeypatch.setattr(gpu_libraries, "MOST_PLANS", 2)
    with cupy_standin.installed():
        gpu.run_part("libraries", gpu.Settings(**SMALL), tmp_path)
    pieces = json.loads((tmp_path / "libraries.json").read_text())["pieces"]
    assert all(one["ok"] for one in pieces.values()), pieces
    assert min(pieces["fc6"]["times"].values()) > 0
    times = pieces["BatchNorm 4x8x5x5, bf16"]["times"]
    assert set(times) == {f"{what}, {whose}" for what in ("ReLU", "sum, ReLU") for whose in ("cuDNN", "nacre")}
    assert len(gpu_libraries.normalisations("ResNet-50-8", 8)) == 9
    prepared = {name: one for name, one in pieces.items() if name.startswith("prepared")}
    assert len(prepared) == 9 and max(one["apart"] for one in prepared.values()) == 0
    (first, *_) = (one for name, one in pieces.items() if name.endswith("stride 1, groups 1, bf16"))
    assert {"forward", "data", "weight", "forward, bias, add, ReLU"} < first.keys()
    for timed in (one for one in first.values() if isinstance(one, dict)):
        assert list(timed["times"]) == ["any order", "fast"] and timed["chosen"] == "any order"


@pytest.mark.parametrize("compute", [None, "bf16"])
def test_a_lost_nan_is_found(checks: Any, monkeypatch: pytest.MonkeyPatch, compute: str | None) -> None:
    with cupy_standin.installed():
        good = checks.not_numbers("cupy", compute)
        assert good["ok"] and set(good["lost"]) == {"conv", "norm", "ip", "conv_sum", "norm_sum"}
        monkeypatch.setitem(importlib.import_module("dnn").OPERATIONS, "relu", lambda one, _: np.fmax(one, 0))
        found = checks.not_numbers("cupy", compute)
    assert not found["ok"] and found["lost"]["norm"] > 0 and found["lost"]["norm_sum"] > 0


def test_a_training_with_other_bits_is_found(checks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real, seeds = checks.trained, iter(range(10))
    monkeypatch.setattr(checks, "trained", lambda *given, **how: real(*given, seed=next(seeds), **how))
    for check in (checks.replay, checks.twice):
        found = check("numpy", "LeNet-64", 2, batch=2)
        assert not found["ok"] and "conv1/weight" in found["differing"]


def test_replayed_steps_are_compared_with_called_ones(checks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with cupy_standin.installed():
        found = checks.replay("cupy", "LeNet-64", 4, batch=2)
        assert found["ok"] and found["graphs"][0] > 0 and found["graphs"][1] == 0
        real = checks.fresh
        monkeypatch.setattr(checks, "fresh", lambda name, **_: real(name))
        assert not checks.replay("cupy", "LeNet-64", 4, batch=2)["ok"]


def test_a_curve_that_lies_too_far_off_is_found(checks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real, factor = checks.trained, 1 + 1e-4

    def trained(*given: Any, **how: Any) -> Any:
        found = real(*given, **how)
        losses = [one * factor for one in found.losses] if "compute" in how else found.losses
        return checks.Trained(losses, found.values, found.pools, found.graphs)

    monkeypatch.setattr(checks, "trained", trained)
    assert not checks.curve("numpy", "LeNet-64", 3, batch=2)["ok"]
    factor = 1.0
    assert checks.curve("numpy", "LeNet-64", 3, batch=2)["ok"]


def test_gradients_of_other_parameters_are_found(checks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = checks._gradients

    def wrong(*given: Any) -> Any:
        values, found = real(*given)
        return values, {key: one * (1.001 if len(given) > 4 else 1) for key, one in found.items()}

    monkeypatch.setattr(checks, "_gradients", wrong)
    assert not checks.gradients("numpy", "LeNet-64", 2)["ok"]


def test_a_run_goes_on_where_it_was_cut_short(gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def pieces(settings: Any) -> Any:
        def run(name: str) -> dict[str, Any]:
            ran.append(name)
            if name == "b" and len(ran) == 2:
                raise KeyboardInterrupt
            if name == "c":
                raise SystemExit("the losses differ")
            return {"ok": True}

        yield from ((name, lambda name=name: run(name)) for name in "abcd")

    monkeypatch.setitem(gpu.PARTS, "graphs", pieces)
    with pytest.raises(KeyboardInterrupt):
        gpu.run_part("graphs", gpu.Settings(**SMALL), tmp_path)
    assert gpu.failed(tmp_path) == ["graphs: b: it was cut short, or its process ended"]
    gpu.run_part("graphs", gpu.Settings(**SMALL), tmp_path)
    assert ran == ["a", "b", "c", "d", "b"], "those that were never begun come first"
    assert gpu.failed(tmp_path) == ["graphs: c: the losses differ"]
    gpu.run_part("graphs", gpu.Settings(**SMALL), tmp_path)
    assert len(ran) == 5
    gpu.run_part("graphs", gpu.Settings(**SMALL), tmp_path, again=True)
    assert ran[5:] == ["c"]


def test_the_table_has_what_was_measured_and_nothing_else(gpu: Any, tmp_path: Path) -> None:
    empty = list(gpu.table(tmp_path))
    assert len(empty) == 2 + 2 * (len(gpu.NETS) + len(gpu.OTHERS))
    assert all(line.endswith("|  |  |  |  |  |  |  |") for line in empty[2:])
    readme = (ROOT / "benchmarks" / "README.md").read_text()
    assert all(line.rstrip("| ") in readme for line in empty), "it has a row for each, with or without figures"
    found = {
        "ok": True,
        "batch": 64,
        "precision": "bf16",
        "ratios": {"PyTorch eager": 4.0, "PyTorch graph": 1.5},
        "records a second": {"nacre cupy": 6400.0, "PyTorch eager": 1600.0, "PyTorch graph": 4266.0},
        "peaks": {"nacre cupy": 10.0, "PyTorch eager": 20.0},
        "work": {"operations": 1e9, "bytes": 1e6},
    }
    gpu.Results(tmp_path, "speed").put("LeNet, 64, bf16", found)
    limits = gpu.Results(tmp_path, "limits")
    limits.put("products bf16", {"ok": True, "operations": 1e12})
    limits.put("copies", {"ok": True, "device": 1e8})
    assert "| LeNet, 64 | bf16 | 6,400 | 1,600 | 4,266 |  | 1.50 | 100% | 10 / 20 |" in list(gpu.table(tmp_path))
    gpu.Results(tmp_path, "others").put("U-Net, 64, bf16", {**found, "ratios": {"PyTorch graph": 0.5}})
    assert gpu.failed(tmp_path) == ["speed: LeNet, 64, bf16: 4.00 times as fast as PyTorch eager; the goal is 5.0"]
    assert any(line.startswith("| U-Net, 64 | bf16 | 6,400 | ") and "| 0.50 |" in line for line in gpu.table(tmp_path))


def test_batches_that_are_permuted_have_the_same_rows(checks: Any) -> None:
    from benchmarks import nets

    for name in ("LeNet-64", "LSTM-64", "U-Net-8", "Embedding-64", "DCGAN generator-32"):
        with nets.load(name, batch=5).net("train", backend="numpy") as net:
            batches = checks.Batches(net)
            plain, other = (batches.batch(3, permuted=permuted) for permuted in (False, True))
            rows = [{row.tobytes() for row in one["data"]} for one in (plain, other)]
            assert rows[0] == rows[1] and (plain["data"] != other["data"]).any()
            assert plain["label"].shape == batches.shapes["label"] or name == "LSTM-64"
            assert batches.classes is None or np.ravel(plain["label"]).max() < batches.classes


@pytest.mark.parametrize("what", ["describe", "work_of"])
def test_no_net_of_a_gpus_batch_is_made_on_the_host(gpu: Any, tmp_path: Path, what: str) -> None:
    from benchmarks import gpu_speed, nets

    tracemalloc.start()
    try:
        if what == "describe":
            assert nets.describe("CIFAR full-100", tmp_path, 2048) == 2048
        else:
            gpu_speed.work_of("CIFAR full-100", 2048, "bf16")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 200 << 20, "the blobs of the net have more than 1 GB"


def test_parameters_do_not_depend_on_the_batch(gpu: Any, tmp_path: Path) -> None:
    from benchmarks import nets

    with nets.load("LeNet-64", batch=3).net("train", backend="numpy") as net:
        nets.describe("LeNet-64", tmp_path, 3)
        for name, handle in net.parameters.items():
            np.testing.assert_array_equal(nets.read(tmp_path, name), handle.value)


def test_what_a_step_takes_at_the_least(gpu: Any) -> None:
    from benchmarks import gpu_speed

    work = gpu_speed.work_of("LeNet-64", 512, "bf16")
    assert work["operations"] == pytest.approx(0.0138e9 * 512, rel=0.01)
    assert work["bytes"] < gpu_speed.work_of("LeNet-64", 512, "tf32")["bytes"]


def test_plans_and_compiled_code_are_kept_for_the_next_run(gpu: Any, tmp_path: Path, monkeypatch: Any) -> None:
    from benchmarks import gpu_speed, sides

    found: list[str] = []
    monkeypatch.setattr(gpu_speed, "work_of", lambda *_: {})
    monkeypatch.setattr(gpu_speed, "compare", lambda *_, **__: None)
    monkeypatch.setattr(gpu_speed.nets, "describe", lambda *_: 64)

    class Worker:
        """One that only tells where it would keep what it makes."""

        def __init__(self, side: Any, folder: Path, threads: int, *words: str, kept: Path | None) -> None:
            self.side = side
            told = sides._environment(side, kept or folder, threads)
            found.extend(told[name] for name in ("NACRE_CACHE", "TORCHINDUCTOR_CACHE_DIR"))

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def ask(self, command: str) -> Any:
            return 1.0 if command.startswith("sample") else {"names": [], "losses": []}

    monkeypatch.setattr(gpu_speed, "Worker", Worker)
    (name, run), *_ = gpu.speed(gpu.Settings(**SMALL, kept=tmp_path / "kept"))
    assert name == "LeNet, 64, float32" and run()["ok"] and len(found) == 4
    assert set(found) == {str(tmp_path / "kept" / one) for one in ("plans", "inductor")}


@pytest.mark.long
def test_the_script_runs_from_end_to_end(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is what it compares with")
    words = [sys.executable, "-m", "benchmarks.gpu", "--small", "--backend", "numpy", "--device", "cpu"]
    words += ["--out", str(tmp_path)]
    for part in ("versions", "graphs", "gradients", "curves", "kernels", "layers", "speed"):
        words += ["--part", part]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    told = {path.stem: json.loads(path.read_text())["pieces"] for path in tmp_path.glob("*.json")}
    wrong = [f"{part}: {piece}" for part, pieces in told.items() for piece, one in pieces.items() if not one["ok"]]
    assert wrong == ["versions: cuDNN's description of the device"], done.stdout
    assert done.returncode == 1 and "compiled: not run" in done.stdout and "limits: not run" in done.stdout
    assert told["speed"]["LeNet, 64, float32"]["ratios"].keys() == {"PyTorch eager"}


def test_a_part_that_hangs_is_ended_with_all_that_it_has_started(gpu: Any) -> None:

    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    assert gpu._ended([sys.executable, "-c", child], 0.5) == "cut short; the same command goes on"
    assert gpu._ended([sys.executable, "-c", "raise SystemExit(3)"], 60) == "its process ended with 3"
    assert gpu._ended([sys.executable, "-c", ""], 60) == ""
