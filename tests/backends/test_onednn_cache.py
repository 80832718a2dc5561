"""Plans of the onednn backend on disk."""

from __future__ import annotations

import errno
import json
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import InputLayer, Layer, Net, open_backend
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.neurons import ReLU
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.helper import native
from nacre_onednn.tuning import plans as cache
from nacre_onednn.tuning import search as layouts

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache that is not there yet."""
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "onednn"


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count how often something is timed."""
    counted: list[int] = []
    time_all = layouts.time_all

    def count(trials: Any, others: Any) -> None:
        counted.append(len(trials))
        time_all(trials, others)

    monkeypatch.setattr(layouts, "time_all", count)
    return counted


def make_net(batch_size: int = 2, n_filter: int = 16, **options: Any) -> Net:
    layers: list[Layer] = [
        InputLayer(name="in", tops="data", shape=(3, 6, 6), batch_size=batch_size),
        InputLayer(name="labels", tops="label", batch_size=batch_size),
        ConvolutionLayer(bottoms="data", tops="conv", n_filter=n_filter, kernel=3, neuron=ReLU()),
        InnerProductLayer(bottoms="conv", tops="ip", output_dim=3),
        SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
    ]
    net = Net("net", layers, backend="onednn", **options)
    net.write("data", np.random.default_rng(0).normal(size=(batch_size, 3, 6, 6)))
    return net


def test_without_memory_for_trials_a_net_gets_its_ways_by_rule_and_no_plan_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> Any:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with monkeypatch.context() as without:
        without.setattr(mmap, "mmap", refuse)
        net = make_net()
        assert np.isfinite(net.forward())
    assert "no memory to try" in capsys.readouterr().err
    assert net.plan == make_net(deterministic=True).plan
    assert not folder.exists()
    make_net()
    assert len(list(folder.iterdir())) == 1


def test_long_trials_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(layouts, "SILENT", -1.0)
    make_net()
    told = "onednn: trying which layouts are fastest for this net; 0 of "
    assert capsys.readouterr().err.startswith(told)
    make_net()
    assert capsys.readouterr().err == "", "it is kept"


def test_of_layers_that_are_alike_one_is_timed(trials: list[int]) -> None:
    def chain(names: str, **fields: Any) -> dict[str, Any]:
        layers: list[Layer] = [InputLayer(name="in", tops="x", shape=(16, 9, 9), batch_size=2)]
        bottom = "x"
        for name in names:
            layers.append(
                ConvolutionLayer(bottoms=bottom, tops=name, n_filter=16, kernel=3, pad=1, bias_lr=2.0, **fields)
            )
            bottom, fields = name, {}
        trials.clear()
        return Net("net", layers, backend="onednn").plan["onednn"]["ways"]

    chain("a")
    alone = sum(trials)
    ways = chain("abc")
    assert sum(trials) == alone > 0
    assert ways["a"] == ways["b"] == ways["c"]
    chain("ab", neuron=ReLU())
    assert sum(trials) > alone, "with another neuron they are not alike"


@pytest.mark.skipif(not native.lanes(), reason="no helper was compiled, or the processor has no AVX2")
def test_trials_for_predictions_of_large_nets_find_no_parameters_in_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[set[str], bool]] = []
    run = layouts.Trial.run

    def runs(trial: Any, most: float, before: Any) -> None:
        found.append(({name for call in trial.calls for name in call.sizes()}, before is not None))
        run(trial, most, before)

    monkeypatch.setattr(layouts.Trial, "run", runs)
    monkeypatch.setenv("NACRE_CACHE", "")
    with make_net() as net:
        assert not any(cold for _, cold in found)  # each step writes them
        with net.derive("test"):
            assert not any(cold for _, cold in found)  # a cache holds them all
        found.clear()
        monkeypatch.setattr(layouts, "CACHED", 1 << 12)
        with net.derive("predict"):
            assert {cold for names, cold in found if any("weight" in name for name in names)} == {True}


def gradients(net: Net) -> dict[str, bytes]:
    net.forward()
    net.backward()
    return {name: handle.gradient.tobytes() for name, handle in net.parameters.items() if handle.gradient is not None}


def test_the_second_start_tries_nothing(trials: list[int], folder: Path) -> None:
    first = make_net()
    assert trials
    (path,) = folder.iterdir()
    assert json.loads(path.read_text())["plan"] == first.plan["onednn"]
    trials.clear()
    second = make_net()
    assert not trials
    assert second.plan == first.plan
    assert gradients(second) == gradients(first)


def test_what_decides_the_plan_is_in_the_key(trials: list[int], monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    changes: list[dict[str, Any]] = [{}, {"batch_size": 3}, {"n_filter": 8}, {"phase": "test"}]
    backend = open_backend("onednn")
    changes += [{"compute": "bf16"}] if "bf16" in backend.computes else []
    for number, change in enumerate(changes):
        trials.clear()
        make_net(**change)
        assert trials, change
        assert len(list(folder.iterdir())) == number + 1
    for name, value in (("threads", backend.environment()["threads"] + 1), ("library", "oneDNN 3.99.0")):
        trials.clear()
        environment = {**backend.environment(), name: value}
        with monkeypatch.context() as patch:
            patch.setattr(backend, "environment", lambda environment=environment: environment)
            make_net()
        assert trials, name


def test_a_plan_that_was_given_goes_before(trials: list[int]) -> None:
    plan = make_net().plan
    other = {"layout": {"blocked": "channels last", "channels last": "blocked"}[plan["onednn"]["layout"]]}
    trials.clear()
    assert make_net(plan={"onednn": other}).plan["onednn"] == other
    assert not trials


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"\xff\x00\x80", b"[]", b"null", b'{"key": 1, "plan": {}}', b"[" * 100_000, b"{}" + b" " * (2 << 20),
        "plan", "truncated", "layout",
    ],
)  # fmt: skip
def test_a_damaged_file_is_rewritten(content: bytes | str, trials: list[int], folder: Path) -> None:
    expected = make_net().plan
    (path,) = folder.iterdir()
    good = path.read_bytes()
    if isinstance(content, str):
        table = json.loads(good)
        table["plan"] = {"plan": "none", "truncated": table["plan"], "layout": {"layout": ["blocked"], "ways": 3}}[
            content
        ]
        content = json.dumps(table).encode()[: -20 if content == "truncated" else None]
    path.write_bytes(content)
    trials.clear()
    assert set(make_net().plan["onednn"]) == set(expected["onednn"])
    assert trials
    assert set(json.loads(path.read_text())) == {"key", "plan"}
    trials.clear()
    make_net()
    assert not trials
    assert [one.name for one in folder.iterdir()] == [path.name]


def test_a_cache_that_cannot_be_written_is_none(trials: list[int], folder: Path) -> None:
    folder.parent.write_text("a file in the place of the folder")
    for _ in range(2):
        trials.clear()
        gradients(make_net())
        assert trials


def test_what_fails_halfway_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(cache.json, "dump", fail)
    gradients(make_net())
    assert list(folder.iterdir()) == []


def test_where_plans_lie(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trials: list[int]) -> None:
    monkeypatch.setenv("NACRE_CACHE", "")
    assert cache.folder() is None
    for _ in range(2):
        trials.clear()
        make_net()
        assert trials, "an empty NACRE_CACHE keeps nothing"
    monkeypatch.delenv("NACRE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.folder() == tmp_path / "xdg" / "nacre" / "onednn"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.folder() == tmp_path / ".cache" / "nacre" / "onednn"
