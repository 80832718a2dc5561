"""The nets under examples/: each can be made in every phase, has the shapes that its comments say, and learns."""

from __future__ import annotations

import ast
import math
import re
import runpy
import sys
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import InputLayer, Net, open_records
from nacre.config import NetFile, load

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
NETS = {f"{path.parent.name}/{path.stem}": path for path in sorted(EXAMPLES.glob("*/*.toml"))}
WITHOUT_DATA = [name for name, path in NETS.items() if 'type = "Input"' in path.read_text(encoding="utf-8")]
LARGE = [name for name in WITHOUT_DATA if name.startswith("imagenet/")]
OF_TEXTS = [name for name in NETS if name.startswith("text/")]
WRITTEN = runpy.run_path(str(EXAMPLES / "nets.py"))["EXAMPLES"]

# Of the papers, and of Caffe's and PyTorch's definitions of these nets.
PARAMETERS = {
    "cifar/full": 89_578,
    "cifar/quick": 145_578,
    "cifar/resnet20": 269_722 + 16 * 32 + 64 + 32 * 64 + 128,  # option A, and the projections of option B
    "imagenet/alexnet": 60_965_224,
    "imagenet/caffenet": 60_965_224,
    "imagenet/resnet50": 25_557_032,
    "imagenet/vgg_16": 138_357_544,
    "imagenet/vgg_a": 132_863_336,
    "lenet/lenet": 431_080,
    "mlp/mlp": 648_010,
}


def of_batch(name: str, batch_size: int) -> NetFile:
    """Load a net without data of its own, for so many images at a time."""
    layers = [layer.name for layer in load(NETS[name]).layers if isinstance(layer, InputLayer)]
    return load(NETS[name], [f"layer.{layer}.batch_size={batch_size}" for layer in layers])


def write_random(net: Net) -> None:
    """Write one batch of random images and labels."""
    random = np.random.default_rng(0)
    for blob in net.unwritten():
        shape = net.memory.final[blob].shape
        net.write(blob, random.integers(0, 10, shape) if blob == "label" else random.random(shape))


def test_no_two_nets_of_a_folder_save_into_one() -> None:
    """The second to be trained would put the snapshots of the first aside."""
    saved = [
        (path.parent, callback.get("folder", "snapshots"))
        for path in NETS.values()
        for callback in load(path).table.get("callback", [])
        if callback["type"] == "Snapshot"
    ]
    assert len(saved) == len(set(saved)) >= 3


def test_without_matplotlib_the_auto_encoder_says_so_first_and_how_good_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = runpy.run_path(str(EXAMPLES / "vae/vae.py"))["main"]

    def train(picture: str) -> float:
        assert capsys.readouterr().out.endswith("pip install 'nacre[plots]'\n")
        return len(picture)

    monkeypatch.setitem(main.__globals__, "run", train)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    main()
    assert capsys.readouterr().out == "negative ELBO 0.00\n"


def test_cifar_trains_on_the_files_where_they_are_and_else_on_pictures_that_it_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = runpy.run_path(str(EXAMPLES / "cifar/cifar.py"))
    write, run = example["write_pictures"], example["run"]
    monkeypatch.setitem(run.__globals__, "write_pictures", lambda folder: write(folder, 100))
    monkeypatch.chdir(tmp_path)
    made = run(iterations=2)
    assert capsys.readouterr().out.startswith("there is no folder cifar-10-batches-bin: learning from pictures")
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    write(folder, 100)
    with open_records([folder / "test_batch.bin"]) as reader:
        rows = list(reader.rows())
        assert reader.fields["label"].classes[:2] == ("warm disc", "cold disc")
    assert [int(count) for count in np.bincount([row["label"] for row in rows])] == [10] * 10
    assert len({row["data"].tobytes() for row in rows}) == 100
    assert run(iterations=2) == made  # the same files
    assert capsys.readouterr().out.startswith("CIFAR-10 of cifar-10-batches-bin\n")


@pytest.mark.parametrize("name", NETS)
def test_shapes_are_those_of_the_comments(name: str) -> None:
    net = load(NETS[name]).net(backend="numpy", phase="train", allocate=False)
    sections = re.split(r"^\[\[?(?=\w)", NETS[name].read_text(encoding="utf-8"), flags=re.M)
    said = {
        top[1]: ast.literal_eval(shape[1])
        for section in sections
        if (top := re.search(r'^tops = \["(\w+)"', section, re.M))
        and (shape := re.search(r"# (\(\d+,[\d, ]*\))", section))
    }
    assert said, "no shape is told"
    assert {name: net.memory.final[name].shape for name in said} == said


@pytest.mark.parametrize("phase", ["train", "validation", "test"])
@pytest.mark.parametrize("name", [name for name in NETS if name not in LARGE])
def test_every_phase_can_be_made(name: str, phase: str) -> None:
    file = of_batch(name, 2) if name in WITHOUT_DATA else load(NETS[name])
    known = file.net(backend="numpy", allocate=False).fitted if name in OF_TEXTS else {}
    with file.net(backend="numpy", phase=phase, fitted=known) as net:
        assert net.forward() >= 0
        classifies = any(layer.name == "accuracy" for layer in file.layers)
        assert ("accuracy" in net.statistics()) == (classifies and phase != "train")


@pytest.mark.parametrize("name", LARGE)
def test_every_phase_of_large_nets_can_be_planned(name: str) -> None:
    file = load(NETS[name])
    for phase in ("validation", "test", "predict"):  # the others plan phase train
        net = file.net(backend="numpy", phase=phase, allocate=False)
        assert net.memory.final["data"].shape[1:] in ((3, 224, 224), (3, 227, 227))


def test_a_plan_takes_no_memory_however_large_the_net() -> None:
    file = load(NETS["imagenet/vgg_16"])
    tracemalloc.start()
    try:
        described = file.net(backend="numpy", allocate=False).summary().describe()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * 2**20 < 2**30 < described["bytes"]["total"]


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_as_many_as_published(name: str) -> None:
    told: dict[str, Any] = load(NETS[name]).net(backend="numpy", allocate=False).summary().describe()
    assert told["parameters"] == PARAMETERS[name]
    head = NETS[name].read_text(encoding="utf-8").partition("\nname = ")[0].replace("\n# ", " ")
    assert set(re.findall(r"; ([\d,]+) parameters|weights, ([\d,]+) parameters", head)) <= {
        (f"{PARAMETERS[name]:,}", ""),
        ("", f"{PARAMETERS[name]:,}"),
    }


def naive_bits(train: str, text: str, most: int) -> list[float]:
    """Return the bits a character of n-gram models, by the formula, one character after the other."""
    counts = Counter(train[i : i + size] for size in range(1, most + 1) for i in range(len(train) - size + 1))
    kinds = {*train, *text}

    def share(history: str, one: str) -> float:
        shorter = share(history[1:], one) if history else 1 / len(kinds)
        after = [counts[history + other] for other in kinds]
        total, different = sum(after), sum(number > 0 for number in after)
        return (counts[history + one] + different * shorter) / (total + different) if total else shorter

    found = []
    for size in range(most):
        shares = [share(text[max(0, place - size) : place], text[place]) for place in range(1, len(text))]
        found.append(-sum(map(math.log2, shares)) / len(shares))
    return found


def test_models_that_count_are_right_and_the_script_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(EXAMPLES / "text/text.py"))
    train, text = "abracadabra abba cab" * 3, "a dab abracad barbaab"
    names = sorted({*train, *text})
    numbers = [np.array([names.index(one) for one in part]) for part in (train, text)]
    np.testing.assert_allclose(example["counted"](*numbers, len(names), 4), naive_bits(train, text, 4))

    files = sorted(example["library"](), key=lambda path: path.stat().st_size)[200:230]
    found = example["run"]("gru", 2, files)
    assert found.counted[0] > found.counted[1] > 2 and 4 < found.net < 9
    assert found.text.startswith("def ") and len(found.text) == 604


@pytest.mark.parametrize("name", WRITTEN)
def test_written_nets_are_those_of_their_functions(name: str) -> None:
    assert WRITTEN[name]().text(EXAMPLES / name) == (EXAMPLES / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in WITHOUT_DATA if name not in LARGE])
def test_it_learns_a_batch(name: str) -> None:
    """The nets without data of their own know one batch of random images better after some steps."""
    file = of_batch(name, 8)
    with file.net(backend="numpy") as net:
        write_random(net)
        before = net.forward()
        assert file.solver(max_iter=8, callbacks=[], lr_policy=0.02).solve(net).loss < before


@pytest.mark.long
@pytest.mark.parametrize("name", LARGE)
def test_large_nets_learn_a_batch_in_20_iterations(name: str) -> None:
    file = of_batch(name, 2)
    with file.net() as net, file.solver(callbacks=[], lr_policy=0.001, n_accumulate=1).start(net) as training:
        write_random(net)
        losses: list[float] = []
        for _ in range(20):
            training.step()
            losses.append(training.loss)
    assert np.mean(losses[-5:]) < np.mean(losses[:5]), losses
