"""Random nets give on every backend what the layers' own code gives."""

from __future__ import annotations

from typing import Any

import pytest

from nacre import ConfigError, registry
from nacre_layers import RandomNet

FOUND = (711, 807, 1163)
"""Nets of which a backend has once made something else."""


def check(numbers: range | tuple[int, ...], backend: Any) -> None:
    for number in numbers:
        RandomNet(number).check(backend)


def usable(name: str) -> str:
    if reason := registry().open("backend", name).unusable():
        pytest.skip(reason)
    return name


@pytest.mark.parametrize("name", ["numpy", "onednn"])
@pytest.mark.parametrize("numbers", [FOUND, range(20), range(20, 40), range(40, 60)], ids=repr)
def test_they_agree(name: str, numbers: range | tuple[int, ...]) -> None:
    check(numbers, usable(name))


@pytest.mark.long
@pytest.mark.parametrize("name", ["numpy", "onednn"])
@pytest.mark.parametrize("first", range(100, 2100, 100))
def test_many_agree(name: str, first: int) -> None:
    check(range(first, first + 100), usable(name))


def test_they_agree_on_the_stand_in(backend: Any) -> None:
    check(range(20), backend)


def test_what_differs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    net = next(net for net in map(RandomNet, range(100)) if net.phase == "train")
    right = net.results
    monkeypatch.setattr(net, "results", lambda backend, **options: _off(right(backend, **options), backend == "numpy"))
    told = r"loss, pass 1 is off by 0\.1\d? of its norm, allowed 0\.002; its layers:\n  Input "
    with pytest.raises(AssertionError, match=f"net {net.number}, in phase train: {told}"):
        net.check("numpy")
    monkeypatch.undo()
    net.check("numpy")


def _off(results: dict[str, Any], wrong: bool) -> dict[str, Any]:
    return {**results, "loss, pass 1": results["loss, pass 1"] * 1.1} if wrong else results


def test_all_layers_are_drawn() -> None:
    drawn, numbers = set[str](), iter(range(300))
    while not drawn >= set(RandomNet.kinds):
        drawn |= {kind for kind, _ in RandomNet(next(numbers)).drawn}


def test_a_mistake_in_the_fields_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not fit is left out, and nobody would miss it."""
    monkeypatch.setattr(RandomNet, "kinds", {"Activation": lambda net, shape: {"neuron": "None"}})
    with pytest.raises(ConfigError, match="no neuron 'None'"):
        RandomNet(0)


def test_other_layers_can_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RandomNet.kinds, "AbsVal", lambda net, shape: {})
    assert any("AbsVal" in dict(RandomNet(number).drawn) for number in range(60))
