"""`nacre sample`: a net that was trained on a text goes on with one."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from command_line import run
from nacre.cli import read_trained
from nacre.config import load
from nacre_commands.sample import drawn, sample

TEXT = "abcab\nxyz " * 30

NET = """
name = "cycle"

[[layer]]
type = "CharText"
name = "train"
tops = ["data", "label", "cont"]
exclude = ["validation", "test", "predict"]
source = "text.txt"
batch_size = 8
steps = 10

[[layer]]
type = "OneHot"
bottoms = ["data"]
tops = ["onehot"]
n_class = "data"

[[layer]]
type = "GRU"
name = "gru"
bottoms = ["onehot", "cont"]
tops = ["hidden"]
output_dim = 24
sequences = "cont"
carry = true

[[layer]]
type = "InnerProduct"
name = "score"
bottoms = ["hidden"]
tops = ["score"]
output_dim = "label"
axis = -1

[[layer]]
type = "SoftmaxLoss"
name = "loss"
bottoms = ["score", "label"]
exclude = ["predict"]
axis = -1

[solver]
type = "Adam"
max_iter = 80
lr_policy = 0.03

[[callback]]
type = "Snapshot"
folder = "snapshots"
"""


def train(folder: Path, text: str = TEXT, net: str = NET) -> None:
    """Write a text and a net file into a folder, and train the net there."""
    (folder / "text.txt").write_bytes(text.encode())
    (folder / "net.toml").write_text(net, encoding="utf-8")
    run("train", "net.toml", "--json")


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a trained net."""
    folder = tmp_path_factory.mktemp("cycle")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        train(folder)
    (folder / "text.txt").unlink()  # a sample needs no data
    return folder


@pytest.fixture
def at(learned: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(learned)
    return learned


def sampled(*options: object, code: int = 0) -> str:
    done = run("sample", "net.toml", "snapshots", *options, code=code)
    return done.err if code else done.out


def test_the_likeliest_text_is_the_text_it_was_trained_on(at: Path) -> None:
    """Only a net that knows more than the last character can go on with both ab."""
    assert sampled("--prompt", "z abc", "--length", 25, "--temperature", 0) == f"z {(TEXT * 2)[:28]}\n"
    told = run("sample", "net.toml", "snapshots", "--prompt", "xyz", "--length", 3, "--temperature", 0, "--json").json
    assert told == {"prompt": "xyz", "text": "xyz ab"}


def test_a_seed_gives_one_text(at: Path) -> None:
    texts = [sampled("--prompt", "a", "--length", 60, "--temperature", 3, *seed) for seed in ((), (), ("--seed", 7))]
    assert texts[0] == texts[1] != texts[2]
    assert all(len(text) == 62 and {*text} <= {*TEXT} for text in texts)


def test_states_are_those_of_the_whole_text(at: Path) -> None:
    """Character by character the net computes what it computes for all of them at once."""
    file, saved = read_trained(at / "net.toml", (), None, at / "snapshots")
    text = sample(file, saved, "xy", 30, 0)
    (at / "text.txt").write_text(text, encoding="utf-8")
    changes = ["layer.train.exclude=[]", "layer.train.batch_size=1", "layer.train.steps=31"]
    with load(at / "net.toml", changes).net("predict", fitted=saved.fitted()) as net:
        net.parameters.load(saved, strict=False)
        net.forward()
        likeliest = net.blob("score")[0].argmax(-1)
    (at / "text.txt").unlink()
    assert [net.classes["data"][number] for number in likeliest[1:]] == [*text[2:]]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("probabilities", [False, True])
def test_draws_have_the_frequencies_of_the_softmax(temperature: float, probabilities: bool) -> None:
    scores, random = np.array([1.0, -1.0, 0.3, 2.0]), np.random.default_rng(0)
    shares = np.exp(scores / temperature) / np.exp(scores / temperature).sum()
    given = np.exp(scores) / np.exp(scores).sum() if probabilities else scores
    count = 20_000
    found = np.bincount([drawn(given.reshape(1, 1, 4), "s", 4, temperature, random) for _ in range(count)], minlength=4)
    assert (np.abs(found / count - shares) < 4 * np.sqrt(shares * (1 - shares) / count)).all()


def test_scores_at_the_edges() -> None:
    random = np.random.default_rng(0)
    assert {drawn(np.array([0.0, 1.0, 0.0]), "s", 3, 1.0, random) for _ in range(50)} == {1}
    assert {drawn(np.array([-1e30, 1e30, 1e30 / 2]), "s", 3, 1e-300, random) for _ in range(50)} == {1}
    assert {drawn(np.array([1.0, 1.0]), "s", 2, 0, random) for _ in range(50)} == {0}
    assert drawn(np.array([[0.3]]), "s", 1, 0.8, random) == 0


def test_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the training did not know has a number of its own, in a prompt too."""
    monkeypatch.chdir(tmp_path)
    net = NET.replace("CharText", "WordText").replace("steps = 10", 'steps = 10\nmost = 4\nunknown = "own"')
    train(tmp_path, "one two three\nfour " * 60, net)
    assert load("net.toml").net().classes["data"] == ("\n", "four", "one", "three", "<unk>")
    given = sampled("--prompt", "four  one two", "--length", 6, "--temperature", 0)
    assert given == "four one two three\nfour one <unk> three\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--prompt", "abQ"],
            "the prompt has the character 'Q', which is not one of the 8 characters of the snapshot's",
        ),
        (["--prompt", ""], "the prompt has no characters"),
        (["--prompt", "a", "--temperature", "-1"], "'--temperature': -1 must be 0 or more"),
        (["--prompt", "a", "--temperature", "nan"], "'--temperature': nan must be 0 or more"),
        (["--prompt", "a", "--length", "0"], "'--length'"),
        ([], "Missing option '--prompt'"),
        (["--prompt", "a", "--set", "layer.gru.carry=false"], "no layer carries a state from step to step"),
        (["--prompt", "a", "--blob", "hidden"], "the blob 'hidden' has 24 numbers, but the vocabulary has 8 names"),
        (["--prompt", "a", "--blob", "nothing"], "no layer writes blob 'nothing'"),
        (
            ["--prompt", "a", "--set", 'layer.gru.tops=["hidden", "last"]'],
            "no layer reads the blobs last, score, and any of them may be the scores",
        ),
    ],
)
def test_what_cannot_be_sampled(at: Path, options: list[str], message: str) -> None:
    assert message in sampled(*options, code=2)


def test_a_net_without_a_text(trained: Path) -> None:
    said = run("sample", "small.toml", trained, "--prompt", "a", code=2).err
    assert "small.toml: the snapshot has no vocabulary of a text for what the net reads (data)" in said


def test_a_net_that_reads_more_than_a_text(at: Path) -> None:
    more = """
[[layer]]
type = "RandomNormal"
tops = ["noise"]
output_dims = [10, 8]
batch_size = 8

[[layer]]
type = "ElementWise"
bottoms = ["score", "noise"]
tops = ["sum"]
operation = "Add"

[solver]"""
    Path("more.toml").write_text(NET.replace("\n[solver]", more), encoding="utf-8")
    said = run("sample", "more.toml", "snapshots", "--prompt", "a", code=2).err
    assert "nothing but where its streams go on beside them; but it reads data, cont, noise" in said


def test_scores_that_are_not_finite() -> None:
    from nacre import DataError

    for bad in (math.nan, math.inf):
        with pytest.raises(DataError, match="the blob 's' has numbers that are not finite"):
            drawn(np.array([0.0, bad]), "s", 2, 1.0, np.random.default_rng(0))
