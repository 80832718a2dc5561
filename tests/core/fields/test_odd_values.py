"""Every field of everything that is offered, with values that no field should choke on: each ends in a sentence."""

import copy
import random
import resource
import tomllib
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import nacre
from forging import ODD, trials
from nacre import InputLayer, Net, Solver
from nacre.config import load
from nacre.errors import NacreError
from nacre.files.toml import toml_text
from nacre.testing.trial import backends
from nacre_data import MemoryDataLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_solvers import SGD, ValidationPerformance
from page_examples import example_of, fed

ROOM = 1 << 29  # bytes of address space that a trial may take more than there are
KINDS = [
    *("layer", "neuron", "initializer", "regularizer", "constraint", "pooling", "elementwise", "transformer", "solver"),
    *("lr_policy", "momentum_policy", "callback", "algorithm"),
]
CLASSES = [
    (offer.kind, nacre.registry().open_offer(offer)) for kind in KINDS for offer in nacre.registry().offers(kind)
]
CLASSES += [("training", Solver)]
CLASSES = [(kind, cls) for kind, cls in CLASSES if cls.fields()]
PLACES = {"initializer": "weight_init", "regularizer": "weight_regu", "constraint": "weight_cons", "neuron": "neuron"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in a folder that has what the examples of sources read, with bounded memory."""
    monkeypatch.chdir(tmp_path)
    with h5py.File("train.h5", "w") as file:
        file["data"] = np.random.default_rng(0).random((20, 3, 8, 8), np.float32)
        file["label"] = np.arange(20) % 10
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
    if pages:
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, before[1]))
    yield tmp_path
    resource.setrlimit(resource.RLIMIT_AS, before)


def pick(cls: Any, dice: random.Random, fields: dict[str, Any]) -> str:
    """Return odd values to a field or two of a class, and some to what it needs; say which."""
    known = list(cls.fields())
    odd = dice.sample(known, min(len(known), dice.choice((1, 1, 1, 2))))
    for field in known:
        if field in odd:
            fields[field.name] = copy.deepcopy(dice.choice(ODD))
        elif field.required and field.name not in fields:
            fields[field.name] = dice.choice((0.5, 1, 2, [1], "a", [[1, 0.5], [2, 0.1]]))
    return ", ".join(f"{field.name}={fields[field.name]!r:.60}" for field in odd)


def layers_of(cls: Any, dice: random.Random) -> tuple[list[Any], str]:
    """Return a net around the example of a layer, in which fields are odd."""
    text = example_of(cls)
    if not text.startswith("[[layer]]"):
        fields: dict[str, Any] = {"name": "it", "tops": ["a", "b"], "data": [np.ones((4, 3)), np.arange(4)]}
        told = pick(cls, dice, fields)
        return [cls(**fields)], told
    tables = tomllib.loads(text)["layer"]
    others = [dict(table) for table in tables[:-1]]
    last = dict(tables[-1])
    last.pop("type")
    last.setdefault("name", "it")
    told = pick(cls, dice, last)
    made = [
        nacre.registry().open("layer", table.pop("type"))(**{"name": f"n{i}", **table})
        for i, table in enumerate(others)
    ]
    made.append(cls(**last))
    return [*fed(text, made), *made], told


def small(**fields: Any) -> list[Any]:
    data = [np.random.default_rng(0).random((8, 2, 4, 4)), np.arange(8) % 3]
    return [
        MemoryDataLayer(
            name="in", tops=["x", "label"], data=data, batch_size=4, transformers=fields.pop("transformers", ())
        ),
        PoolingLayer(name="pool", bottoms="x", tops="p", kernel=2, stride=2, **fields.pop("pooling", {})),
        InnerProductLayer(name="ip", bottoms="p", tops="y", output_dim=3, **fields),
        SoftmaxLossLayer(name="loss", bottoms=["y", "label"]),
    ]


def trial(number: int) -> str:
    """Make one net with odd fields, and train it for two iterations or run it; say what was odd."""
    dice = random.Random(number)
    kind, cls = CLASSES[number % len(CLASSES)]
    backend = dice.choice(backends())
    told, fields, solver = f"{cls.__name__} on {backend}: ", dict[str, Any](), dict[str, Any]()
    try:
        if kind == "layer":
            layers, odd = layers_of(cls, dice)
            told += odd
            with Net("odd", layers, backend=backend, seed=0) as net:
                for one in layers:
                    if isinstance(one, InputLayer):
                        for top in one.tops:
                            net.write(top, np.full(net.blob(top).shape, 1))
                net.forward()
                if net.trains:
                    net.backward()
            return ""
        told += pick(cls, dice, fields)
        made: Any = fields if kind == "training" else cls(**fields)
        if kind == "training":
            solver = {"method": SGD(), **fields}
        elif kind in ("solver", "lr_policy", "momentum_policy", "algorithm"):
            solver = {"method" if kind == "solver" else kind: made}
        elif kind == "callback":
            solver = {"callbacks": [ValidationPerformance(every_n_iter=1), made]}
        where: dict[str, Any] = {PLACES[kind]: made} if kind in PLACES else {}
        where |= {"pooling": {"pooling": made}} if kind == "pooling" else {}
        where |= {"transformers": [["x", made]]} if kind == "transformer" else {}
        with Net("odd", small(**where), backend=backend) as net:
            chosen: dict[str, Any] = {"method": SGD(), "lr_policy": 0.01, "regu_coef": 0.1, "max_iter": 2, **solver}
            method = chosen.pop("method")
            with Solver(method, **chosen).start(net, [lambda *_: None]) as training:
                training.step()
                training.step()
    except NacreError:
        pass
    except Exception as error:
        return f"{number}: {told}: {_said(error)}"
    return ""


def _said(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error!s:.120} [{frame.filename[-40:]}:{frame.lineno}]"


NET: dict[str, Any] = {
    "name": "odd",
    "seed": 1,
    "backend": "numpy",
    "compute": "float32",
    "dtype": "float32",
    "freeze": ["ip"],
    "insert_splits": True,
    "deterministic": False,
    "fallback": "warn",
    "layer": [
        {"type": "HDF5Data", "name": "in", "tops": ["data", "label"], "source": ["train.h5"], "batch_size": 4},
        {"type": "Convolution", "name": "c", "bottoms": ["data"], "tops": ["c"], "n_filter": 2, "kernel": 3},
        {"type": "InnerProduct", "name": "ip", "bottoms": ["c"], "tops": ["y"], "output_dim": 10, "neuron": "Tanh"},
        {"type": "InnerProduct", "name": "ip2", "bottoms": ["y"], "tops": ["z"], "output_dim": 10, "exclude": ["test"]},
        {"type": "SoftmaxLoss", "name": "loss", "bottoms": ["z", "label"]},
    ],
    "solver": {"type": "SGD", "max_iter": 2, "lr_policy": {"type": "Step", "base": 0.1, "gamma": 0.5, "stepsize": 1}},
    "callback": [{"type": "TrainingSummary", "every_n_iter": 1}, {"type": "Snapshot", "keep": 1, "folder": "saved"}],
    "plugins": {"require": [], "pin": {}},
}


def odd_net_file(number: int) -> str:
    """Train by a net file in which something is odd for two iterations; say what was odd if that is a bug."""
    dice, table = random.Random(number), copy.deepcopy(NET)
    inside: Any = table
    key: Any = dice.choice(list(table))
    while isinstance(inside[key], dict | list) and inside[key] and dice.random() < 0.8:
        inside = inside[key]
        key = dice.choice(list(inside)) if isinstance(inside, dict) else dice.randrange(len(inside))
    inside[key] = copy.deepcopy(dice.choice([one for one in ODD if one is not None]))
    told = f"{key}={inside[key]!r:.60}"
    try:
        text = toml_text(table)
        Path("odd.toml").write_text(text, encoding="utf-8")
    except (AttributeError, NacreError, TypeError, UnicodeEncodeError, ValueError):
        return ""  # no file can say it
    try:
        file = load("odd.toml")
        with file.net("train") as net, file.solver().start(net, [lambda *_: None]) as training:
            training.step()
            training.step()
    except NacreError:
        pass
    except Exception as error:
        return f"{number}: {told}: {_said(error)}"
    return ""


def try_all(try_one: Callable[[int], str], numbers: range) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bugs = [bug for number in numbers if (bug := try_one(number))]
    assert not bugs, "\n".join(bugs)


def test_what_is_not_odd_is_trained() -> None:
    """Else every trial might end at once, for another reason."""
    Path("net.toml").write_text(toml_text(NET), encoding="utf-8")
    file = load("net.toml")
    with file.net("train") as net:
        assert file.solver().solve(net, reports=[lambda *_: None]).iteration == 2
    with Net("odd", small(), backend="numpy") as net:
        Solver(SGD(), max_iter=2).solve(net)


@pytest.mark.parametrize(("try_one", "count"), [(trial, 200), (odd_net_file, 100)])
def test_whatever_a_field_says_ends_in_a_sentence(try_one: Callable[[int], str], count: int) -> None:
    try_all(try_one, range(count))


@pytest.mark.long
@pytest.mark.parametrize("try_one", [trial, odd_net_file])
def test_whatever_many_fields_say_ends_in_a_sentence(try_one: Callable[[int], str]) -> None:
    try_all(try_one, range(100, trials(1000, 10_500)))


@pytest.mark.parametrize("count", [2**31, 2**63, 10**40])
def test_a_training_of_many_batches_an_iteration_makes_no_list_of_them(count: int) -> None:
    with Net("odd", small(), backend="numpy") as net:
        Solver(SGD(), n_accumulate=count).start(net).shutdown()
