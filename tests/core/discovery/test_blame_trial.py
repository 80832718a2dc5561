"""Each method of each kind of plugin raises odd exceptions and returns odd values: the error names the plugin."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import odd_methods
from nacre import NacreError
from registries import NewRegistry, install_plugin


class Mute(Exception):
    """Its text cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Interrupt(KeyboardInterrupt):
    """Not that of Ctrl-C."""


ERRORS: list[Callable[[], BaseException]] = [
    lambda: KeyError("size"),
    lambda: SystemExit(3),
    Interrupt,
    GeneratorExit,
    Mute,
    lambda: ExceptionGroup("several", [ValueError("one"), KeyError("other")]),
    lambda: BaseExceptionGroup("several", [SystemExit(1)]),
    lambda: RecursionError("maximum recursion depth exceeded"),
    StopIteration,
    AssertionError,
    lambda: OSError(5, "Input/output error"),
    lambda: NotImplementedError("not yet"),
    lambda: AttributeError("no such thing"),
    lambda: UserWarning("a warning"),
]
VALUES: list[Callable[[], Any]] = [
    lambda: None,
    lambda: "text",
    lambda: 7,
    lambda: np.zeros((3, 5)),
    lambda: (number for number in range(3)),
    object,
    lambda: int,
    lambda: [1, 2],
]
NEVER_CALLED = ("FineKernel.fuses_neuron", "FineKernel.backward", "FineConstraint.check")
DECLINES = "FineKernel.supports"
"""What it raises makes a kernel decline: other code computes the layer, and `nacre train` says why."""
ALLOWED = {
    "FineLayer.complaints": "fine: ",
    "FineBackend.unusable": "backend 'fine' cannot be used here: ",
    "FineBackend.to_host": "backend 'fine': ",
    "FineSource.prepare": "blob 'x' has the shape",
    "FineStore.open": "in: [Errno 5]",
    "FineReader.__init__": "in: [Errno 5]",
    "FineReader.read": "in: [Errno 5]",
}
"""How errors begin that need not name the plugin: reasons that it gives, errors of the system, shapes of data."""

Case = tuple[type, str, Callable[..., Any], bool]


def cases() -> list[Case]:
    found: list[Case] = []
    for cls, name in odd_methods.methods():
        found += [(cls, name, odd_methods.raising(error), True) for error in ERRORS]
        found += [(cls, name, odd_methods.returning(value), False) for value in VALUES if name != "__init__"]
    return found


def try_all(chosen: list[Case], folder: Path, new_registry: NewRegistry) -> None:
    """Try each case in a registry of its own, and collect what is told of nobody."""
    wrong: list[str] = []
    for number, (cls, name, method, raises) in enumerate(chosen):
        where, place = f"{cls.__name__}.{name}", folder / str(number)
        place.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            install_plugin(new_registry(), "odd-methods", odd_methods.OFFERS)
            old = vars(cls).get(name)
            made = classmethod(method) if isinstance(old, classmethod) else method
            patch.setattr(cls, name, made, raising=False)
            patch.chdir(place)
            wrong += [f"{where}: {one}" for one in told(place, where, raises=raises)]
    assert not wrong, "\n".join(wrong)


def told(place: Path, where: str, *, raises: bool) -> list[str]:
    try:
        odd_methods.use_all(place)
    except NacreError as error:
        text = str(error)
        fine = "odd-methods" in text and "bug in nacre" not in text
        return [] if fine or text.startswith(ALLOWED.get(where, "odd-methods")) else [text]
    except BaseException as error:
        return [f"raises {type(error).__name__} as it is"]
    return ["it is silent"] if raises and where not in (*NEVER_CALLED, DECLINES) else []


def test_all_is_well_if_nothing_is_wrong(tmp_path: Path, new_registry: NewRegistry) -> None:
    try_all([(odd_methods.FineLayer, "no_such_method", odd_methods.returning(int), False)], tmp_path, new_registry)


@pytest.mark.filterwarnings("ignore")
def test_some_methods(tmp_path: Path, new_registry: NewRegistry) -> None:
    try_all(random.Random(os.environ.get("NACRE_TRIAL_SEED", 5)).sample(cases(), 25), tmp_path, new_registry)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(20))
def test_every_method(part: int, tmp_path: Path, new_registry: NewRegistry) -> None:
    try_all(cases()[part::20], tmp_path, new_registry)
