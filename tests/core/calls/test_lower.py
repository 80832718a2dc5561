"""A net of calls is the same net as the list of layers that a person would write: its losses, and its file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from forging import trials
from nacre import Input, L, Layer, Net, Solver, Top
from nacre.config import dumps, load

WIDTH, ROWS = 4, 3
FIELDS: dict[str, dict[str, Any]] = {
    "InnerProduct": {"output_dim": WIDTH},
    "Shared": {"output_dim": WIDTH, "neuron": "Tanh"},
    "ReLU": {},
    "Dropout": {"ratio": 0.3},
    "RandomMask": {"ratio": 0.3},
    "ElementWise": {"operation": "Add"},
    "Halves": {},
    "LayerNorm": {},
    "Residual": {},
}
"""What may be done with values, all of WIDTH numbers: with two of them in TWO, and RandomMask makes two as well."""
TWO = ("ElementWise", "RandomMask")
IN_PLACE = ("Dropout", "RandomMask")
STEMS = {
    "InnerProduct": "inner_product", "Shared": "inner_product", "ReLU": "activation", "RandomMask": "random_mask",
    "ElementWise": "element_wise", "LayerNorm": "layer_norm",
}  # fmt: skip
INNER = {"output_dim": WIDTH, "neuron": "ReLU"}

Step = tuple[str, tuple[int, ...]]
"""What is done, and with which values: number 0 is the input."""


def program(drawn: Sequence[tuple[str, int, int]]) -> tuple[list[Step], list[list[tuple[int, int]]]]:
    """Return the steps of a net, and for each value the (step, bottom) that read it; losses read what is left."""
    steps: list[Step] = []
    readers: list[list[tuple[int, int]]] = [[]]
    for kind, *chosen in [("InnerProduct", 0, 0), *drawn]:
        reads = tuple(one % len(readers) for one in chosen[: 2 if kind in TWO else 1])
        for bottom, value in enumerate(reads):
            readers[value].append((len(steps), bottom))
        steps.append((kind, reads))
        readers += [[] for _ in range(2 if kind == "RandomMask" else 1)]
    for value, uses in enumerate(readers):
        if not uses:
            uses.append((len(steps), 0))
            steps.append(("SquareLoss", (value,)))
    return steps, readers


def by_calls(steps: Sequence[Step]) -> list[Any]:
    """Return the handles of the losses."""
    values: list[Top] = [Input((WIDTH,), name="x", batch_size=ROWS)]
    target = Input((WIDTH,), name="target", batch_size=ROWS)
    shared = L.InnerProduct(**FIELDS["Shared"])
    losses: list[Any] = []
    for kind, reads in steps:
        below = [values[number] for number in reads]
        if kind == "SquareLoss":
            losses.append(L.SquareLoss()(*below, target))
        elif kind == "Halves":
            first, second = L.Slice()(*below, tops=2)
            values.append(L.Concat()(second, first))
        elif kind == "Residual":
            values.append(L.Residual(layer=[L.InnerProduct(**INNER)])(*below))
        else:
            made = (shared if kind == "Shared" else L[kind](**FIELDS[kind]))(*below)
            values += made if isinstance(made, tuple) else [made]
    return losses


class Written:
    """The list of layers that a person would write for a program; values are names of blobs."""

    def __init__(self, steps: Sequence[Step], readers: Sequence[Sequence[tuple[int, int]]]) -> None:
        self.layers: list[Layer] = []
        self.in_place = {step for step, (kind, _) in enumerate(steps) if kind in IN_PLACE}
        self.several = sum(kind == "Shared" for kind, _ in steps) > 1
        self.readers = readers
        self.copies: dict[tuple[int, int], str] = {}
        self.numbers, self.shared, self.times = Counter[str](), "", 0
        self.values: list[str] = []
        self.add("Input", "x", (), ["x"], shape=WIDTH, batch_size=ROWS)
        self.value("x")
        self.add("Input", "target", (), ["target"], shape=WIDTH, batch_size=ROWS)
        for step, (kind, reads) in enumerate(steps):
            below = [self.copies.get((step, bottom), self.values[value]) for bottom, value in enumerate(reads)]
            if kind == "SquareLoss":
                self.add("SquareLoss", self.name("square_loss"), [*below, "target"])
            elif kind == "Shared":
                self.share(below)
            elif kind in IN_PLACE:
                self.add(kind, self.name(STEMS.get(kind, "dropout")), below, **FIELDS[kind])
                self.value(*below)
            elif kind == "Halves":
                halves = [f"{(name := self.name('slice'))}_0", f"{name}_1"]
                self.add("Slice", name, below, halves)
                self.plain("Concat", "concat", halves[::-1])
            elif kind == "Residual":
                self.plain(kind, "residual", below, layer=[{"type": "InnerProduct", **INNER}])
            else:
                self.plain(kind, STEMS[kind], below, **FIELDS[kind])

    def name(self, stem: str) -> str:
        self.numbers[stem] += 1
        return f"{stem}{self.numbers[stem]}"

    def add(self, kind: str, name: str, bottoms: Sequence[str], tops: Sequence[str] = (), **fields: Any) -> None:
        wiring = {"name": name} | ({"bottoms": bottoms} if bottoms else {}) | ({"tops": tops} if tops else {})
        self.layers.append(L[kind](**wiring, **fields))

    def plain(self, kind: str, stem: str, bottoms: Sequence[str], **fields: Any) -> None:
        name = self.name(stem)
        self.add(kind, name, bottoms, [name], **fields)
        self.value(name)

    def share(self, bottoms: Sequence[str]) -> None:
        self.times += 1
        self.shared = self.shared or self.name("inner_product")
        name = self.shared if self.times == 1 else f"{self.shared}_{self.times}"
        key = {"param_key": self.shared} if self.several else {}
        self.add("InnerProduct", name, bottoms, [name], **FIELDS["Shared"], **key)
        self.value(name)

    def value(self, *blobs: str) -> None:
        """Note new values; one that is changed in place and read elsewhere is split."""
        first = len(self.values)
        self.values += blobs
        for number, blob in enumerate(blobs, first):
            uses = self.readers[number]
            if len(uses) > 1 and any(step in self.in_place for step, _ in uses):
                name = self.name("split")
                tops = [f"{name}_{index}" for index in range(len(uses))]
                self.add("Split", name, [blob], tops)
                self.copies |= dict(zip(uses, tops, strict=True))


def losses(net: Net) -> list[float]:
    """Train a net; return its losses."""
    random = np.random.default_rng(0)
    for name in ("x", "target"):
        net.write(name, random.normal(size=(ROWS, WIDTH)))
    found: list[float] = []
    with Solver("SGD", lr_policy=0.1).start(net) as training:
        for _ in range(3):
            training.step()
            found.append(net.loss())
    return found


def reloaded(net: Net) -> Net:
    """Return the net that the file of a net describes."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.toml"
        path.write_text(dumps(net))
        file = load(path)
        assert dumps(file, folder) == path.read_text()
        return file.net()


kinds = st.tuples(st.sampled_from([*FIELDS]), st.integers(0, 20), st.integers(0, 20))


@settings(max_examples=trials(40, 1000))
@given(st.lists(kinds, max_size=9), st.sampled_from(["numpy", "onednn"]))
def test_a_net_of_calls_is_the_list_of_layers_that_a_person_would_write(
    drawn: list[tuple[str, int, int]], backend: str
) -> None:
    steps, readers = program(drawn)
    net = Net("net", by_calls(steps), backend=backend, seed=3)
    listed = Net("net", Written(steps, readers).layers, backend=backend, seed=3, insert_splits=net.insert_splits)
    assert dumps(net) == dumps(listed)
    expected = losses(listed)
    assert np.isfinite(expected).all()
    assert losses(net) == expected
    assert losses(reloaded(net)) == expected


def test_a_program_of_everything() -> None:
    """Every kind of step, one upon the other, and all of them upon one value."""
    for drawn in ([(kind, 30, 1) for kind in FIELDS], [(kind, 1, 1) for kind in FIELDS]):
        steps, readers = program(drawn)
        net = Net("net", by_calls(steps), backend="numpy")
        listed = Net("net", Written(steps, readers).layers, backend="numpy", insert_splits=net.insert_splits)
        assert losses(net) == losses(listed)
