"""The benchmarks compare like with like, and run."""

from __future__ import annotations

import json
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


EVERYTHING = [
    *(f"training, {kind}, {threads}" for kind in ("float32", "bf16") for threads in ("2 threads", "1 thread")),
    *(f"inference{of}, float32, {threads}" for of in ("", " of one record") for threads in ("2 threads", "1 thread")),
]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import __main__

    return __main__


@pytest.fixture
def sides(bench: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Let nobody work: seconds of a step by the side, 1 of nacre's and 2 of others; "peak SIDE", "loss SIDE" too."""
    known: dict[str, Any] = {}

    class Worker:
        def __init__(self, side: Any, *_: object) -> None:
            self.side = side

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def ask(self, command: str = "") -> Any:
            answer = known.get(str(self.side), 1.0 if self.side.ours else 2.0)
            if isinstance(answer, BaseException):
                raise answer
            if not command:
                return known.get(f"peak {self.side}", 50.0 if self.side.ours else 100.0)
            if command.startswith("check"):
                Path(command.removeprefix("check ")).mkdir()
                return {"names": [], "losses": [known.get(f"loss {self.side}", 1.0)], "seconds": 0.0}
            return answer

    def describe(net: str, folder: Path, batch: int) -> int:
        kind = "InnerProduct" if net == "MLP-128" else "Convolution"
        folder.joinpath("net.json").write_text(
            json.dumps({"blobs": {"data": [8, 3, 8, 8]}, "layers": [{"type": kind}]}), encoding="utf-8"
        )
        return batch or 8

    for name, value in {
        "Worker": Worker,
        "describe": describe,
        "PAUSE": 0.0,
        "ours": lambda *_: [bench.Side("nacre onednn")],
        "installed": lambda *_: True,
    }.items():
        monkeypatch.setattr(bench, name, value)
    return known


def summed_up(bench: Any, capsys: pytest.CaptureFixture[str], words: str) -> tuple[list[str], str]:
    """Return the lines of the summary, and with what the run ends."""
    ended = ""
    try:
        bench.main([*words.split(), "--rounds", "3"])
    except (SystemExit, KeyboardInterrupt) as error:
        ended = str(error)
    _, head, rows = capsys.readouterr().out.partition("| net | figure | ratio to the best | the best | floor | met, ")
    assert head
    return rows.splitlines()[2:], ended


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--all", EVERYTHING),
        ("--all --bf16", EVERYTHING[2:4]),
        ("--all --predict", EVERYTHING[4:]),
        ("--all --threads 1", EVERYTHING[1::2]),
        ("--all --predict --batch 1", EVERYTHING[6:]),
        ("--all --predict --batch 8 --threads 2", ["inference of 8 records, float32, 2 threads"]),
        ("--large", EVERYTHING[:1]),
        ("--large --predict --threads 3", ["inference, float32, 3 threads"]),
    ],
)
def test_what_is_measured(bench: Any, monkeypatch: pytest.MonkeyPatch, words: str, expected: list[str]) -> None:
    from benchmarks.nets import NETS

    made: list[Any] = []
    monkeypatch.setattr(bench, "measured", lambda case, _: made.append(case) or [])
    bench.main(words.split())
    cpu = [name for name, net in NETS.items() if not net.on_gpus]
    assert [(case.net, case.what) for case in made] == [(net, what) for net in cpu for what in expected]
    assert all(case.floor for case in made)
    made.clear()
    bench.main([*words.split(), "--net", "U-Net-8", "--net", "LSTM-64"])
    assert [case.what for case in made] == 2 * expected
    assert [bool(case.floor) for case in made] == [True] * len(expected) + [False] * len(expected)  # it is for GPUs
    made.clear()
    bench.main([])
    assert {case.net for case in made} == {name for name in cpu if NETS[name].small}


def test_floors(bench: Any) -> None:
    def floors(net: str) -> tuple[Any, ...]:
        return tuple(bench.Case(net, False, bf16, 2, 0).floor for bf16 in (False, True))

    assert floors("LeNet-64") == (1.3, 1.5) and floors("AlexNet-16") == (1.4, 2.0) and floors("U-Net-8") == (1.5, 1.5)
    assert bench.Case("U-Net-8", True, False, 1, 1).floor == 1.0
    assert bench.Case("U-Net-8", False, False, 2, 4).floor is None


def test_the_summary_of_all(bench: Any, sides: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    rows, ended = summed_up(bench, capsys, "--all")
    assert not ended and sum("| memory of " in row for row in rows) == len(rows) / (len(EVERYTHING) + 2) * 2
    assert rows[:3] == [
        "| LeNet-64 | training, float32, 2 threads | 2.00 (2.00 to 2.00) | PyTorch eager | 1.30 | yes |",
        "| LeNet-64 | memory of training, float32, 2 threads | 0.50 | PyTorch eager | at most 1.00 | yes |",
        "| LeNet-64 | training, float32, 1 thread | 2.00 (2.00 to 2.00) | PyTorch eager | 1.30 | yes |",
    ]


@pytest.mark.parametrize(
    ("words", "fastest"),
    [
        ("--all --bf16 --threads 2 --net LeNet-64", "PyTorch compile, malloc"),
        ("--bf16 --threads 2 --net LeNet-64", "PyTorch channels last, malloc"),
        ("--compile --net U-Net-8", "PyTorch channels last, malloc"),
        ("--all --predict --batch 1 --threads 1 --net U-Net-8", "PyTorch frozen compile"),
        ("--all --threads 1 --batch 1 --predict --net U-Net-8 --peer onnx", "onnxruntime"),
        ("--net MLP-128", "JAX"),
    ],
)
def test_the_best_of_those_that_count(
    bench: Any, sides: dict[str, Any], capsys: pytest.CaptureFixture[str], words: str, fastest: str
) -> None:
    sides |= {"JAX": 1.6, "PyTorch frozen compile": 1.6, "PyTorch compile, malloc": 1.7, "onnxruntime": 1.8}
    sides["PyTorch channels last, malloc"] = 1.9
    rows, ended = summed_up(bench, capsys, words)
    assert not ended and rows[0].split(" | ")[3] == fastest


@pytest.mark.parametrize(
    ("words", "compiled"),
    [
        ("--all --bf16 --net LeNet-64", True),
        ("--all --bf16 --net U-Net-8", False),
        ("--all --bf16 --net U-Net-8 --compile", True),
        ("--bf16 --net LeNet-64", False),
    ],
)
def test_all_has_the_compiled_modes_that_count(
    bench: Any, sides: dict[str, Any], capsys: pytest.CaptureFixture[str], words: str, compiled: bool
) -> None:
    bench.main(words.split())
    assert ("| PyTorch compile | " in capsys.readouterr().out) == compiled


def test_floors_are_met_within_3_percent(bench: Any, sides: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    sides |= {"PyTorch eager": 1.27, "peak nacre onednn": 102.0}
    rows, ended = summed_up(bench, capsys, "--net LeNet-64")
    assert not ended and [row.split(" | ")[2:] for row in rows] == [
        ["1.27 (1.27 to 1.27)", "PyTorch eager", "1.30", "yes |"],
        ["1.02", "PyTorch eager", "at most 1.00", "yes |"],
    ]
    sides |= {"PyTorch eager": 1.25, "peak nacre onednn": 104.0}
    rows, ended = summed_up(bench, capsys, "--net LeNet-64")
    assert ended == "2 of 2 lines are below their floors" and all(row.endswith("| **no** |") for row in rows)
    rows, ended = summed_up(bench, capsys, "--net LeNet-64 --batch 2")
    assert not ended and all(row.endswith("|  |  |") for row in rows)  # it has no floor for that


def test_a_net_that_is_refused_does_not_end_a_run(
    bench: Any, sides: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    sides["loss JAX"] = 2.0
    rows, ended = summed_up(bench, capsys, "--net MLP-128 --net LeNet-64")
    assert ended == "1 of 3 lines could not be measured"
    assert rows[0] == (
        "| MLP-128 | training, float32, 2 threads |  |  | 1.25 | "
        "**no**: MLP-128: in step 1 the losses of nacre onednn and JAX are (1.0, 2.0) |"
    )
    sides["PyTorch compile"] = SystemExit("PyTorch compile ended by itself:\nTraceback:\nNo compiler")
    rows, ended = summed_up(bench, capsys, "--compile --net U-Net-8")
    assert rows[0].endswith("| **no**: PyTorch compile ended by itself: No compiler |")


def test_a_run_that_is_interrupted_sums_up_what_there_is(
    bench: Any, sides: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    sides["JAX"] = KeyboardInterrupt()
    rows, ended = summed_up(bench, capsys, "--net LeNet-64 --net MLP-128 --net U-Net-8")
    assert len(rows) == 2 and ended == "the run was interrupted before 2 of its tables"


def test_a_run_goes_on_where_it_ended(
    bench: Any, sides: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = f"--net LeNet-64 --net MLP-128 --net U-Net-8 --out {tmp_path / 'results'}"
    sides["JAX"] = KeyboardInterrupt()
    before, _ = summed_up(bench, capsys, words)
    sides |= {"PyTorch eager": 1.0, "JAX": SystemExit("JAX ended by itself")}
    rows, ended = summed_up(bench, capsys, words)
    assert rows[:2] == before and ended == "1 of 5 lines are below their floors; 1 of 5 lines could not be measured"
    sides["JAX"] = 0.5
    again, ended = summed_up(bench, capsys, words)
    assert again[:2] == before and again[-2:] == rows[-2:] and " | 0.50 (0.50 to 0.50) | JAX | " in again[2]
    with pytest.raises(SystemExit, match=r"results has the options .*U-Net-8.*, and this is .*\['LeNet-64'\]"):
        bench.main(["--net", "LeNet-64", "--out", str(tmp_path / "results")])


def test_a_peer_that_is_not_installed_is_missing_in_the_summary(
    bench: Any, sides: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "installed", lambda *modules: modules == ("torch",))
    rows, ended = summed_up(bench, capsys, "--predict --net LeNet-64")
    assert not ended and rows == [
        "| LeNet-64 | inference, float32, 2 threads | 2.00 (2.00 to 2.00) "
        "| PyTorch eager (without onnxruntime) | 1.00 | yes |",
        "",
        "Not installed, so not compared with: onnxruntime; README.md says what to install.",
    ]
    rows, ended = summed_up(bench, capsys, "--predict --net LeNet-64 --peer onnx")
    assert ended == "1 of 1 lines could not be measured" and "no peer is installed that --peer admits, of " in rows[0]


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
