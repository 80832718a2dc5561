"""Random nets give on every backend what the layers' own code gives."""

from __future__ import annotations

from typing import Any

import pytest

from nacre import registry
from random_nets import RandomNet, differences

FOUND = (807, 910, 1163)
"""Nets of which backends have once made something else."""


def check(numbers: range | tuple[int, ...], backend: Any) -> None:
    for number in numbers:
        net = RandomNet(number)
        assert not differences(net, backend), f"net {number}, in phase {net.phase}: {net.drawn}"


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
