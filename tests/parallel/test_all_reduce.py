"""AllReduce: n ranks train as one process with the joined batch does."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from many_ranks import NETS, example, mlp, sources, train
from nacre import ConfigError, NacreError, Net, Part, RankError, Solver
from nacre.testing.crew import crew, own_backend, together
from nacre_data import CharTextLayer, MemoryDataLayer, PrefetchLayer
from nacre_layers import (
    CD,
    AccuracyLayer,
    EmbeddingLayer,
    GRULayer,
    InnerProductLayer,
    PerplexityLayer,
    SoftmaxLossLayer,
    SumLossLayer,
)
from nacre_parallel import AllReduce, Downpour, LocalCommunicator, Sandblaster
from nacre_parallel.frameworks.batches import divided
from rank_pool import Pool, pool

ADAM = {"type": "Adam", "lr_policy": 0.01, "regu_coef": 1e-3, "clip_norm": 0.5}
SGD = {"momentum_policy": 0.9, "lr_policy": 0.05, "n_accumulate": 2, "clip_value": 0.3, "regu_coef": 1e-3}
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = (  # without batch norm, and small enough
    *("cifar/full", "cifar/quick", "digits/dropout_mlp", "digits/lenet", "lenet/lenet", "mlp/mlp", "text/gru"),
    *("text/lstm", "vae/vae"),
)
CASES = [("mlp", ADAM), ("lenet", SGD), ("synchronous", SGD)]


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Return where numbers differ by more than the order of sums does."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        return [text for key in one for text in differences(one[key], other[key], f"{where}/{key}")]
    first, second = np.array(one, dtype=object), np.array(other, dtype=object)
    if first.dtype == object and first.ndim == 1 and any(isinstance(value, dict) for value in first):
        pairs = enumerate(zip(one, other, strict=True))
        return [text for number, both in pairs for text in differences(*both, f"{where}/{number}")]
    off = np.abs(first.astype(float) - second.astype(float))
    return [f"{where}: off by {off.max():.3g}"] if off.size and off.max() > 1e-10 else []


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize(("kind", "solver"), CASES, ids=[kind for kind, _ in CASES])
def test_ranks_train_as_one_process_does(kind: str, solver: dict[str, Any], size: int) -> None:
    alone = train(None, kind, solver, 50, {})
    several = pool(size).run("many_ranks:train", kind, solver, 50, {})
    assert alone["losses"][-1] < 0.8 * alone["losses"][0]
    for rank, found in enumerate(several):
        assert differences(alone, found, f"rank {rank}") == []
    assert all(found["parameters"] == several[0]["parameters"] for found in several), "ranks have other parameters"


@pytest.mark.long
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(("kind", "solver"), CASES, ids=[kind for kind, _ in CASES])
def test_in_float32_ranks_are_not_much_farther_from_the_exact_training(
    kind: str, solver: dict[str, Any], size: int
) -> None:
    single = {"dtype": "float32"}
    exact = train(None, kind, solver, 50, {})["parameters"]
    alone = train(None, kind, solver, 50, single)["parameters"]
    several = pool(size).run("many_ranks:train", kind, solver, 50, single)[0]["parameters"]

    def distance(found: Any) -> float:
        return max(float(np.abs(np.subtract(found[name], exact[name])).max()) for name in exact)

    assert distance(several) <= 3 * distance(alone)


@pytest.mark.long
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_train_as_one_process_does(name: str, size: int) -> None:
    path = str(ROOT / "examples" / f"{name}.toml")
    alone = example(None, path, 50)
    for found in pool(size).run("many_ranks:example", path, 50):
        assert differences(alone, found, name) == []


def test_two_runs_have_the_same_bits() -> None:
    first, second = (pool(2).run("many_ranks:train", "mlp", ADAM, 20, {}) for _ in range(2))
    assert first == second


def test_buffers_are_the_means_over_the_ranks() -> None:
    found = pool(2).run("many_ranks:train", "normal", {}, 5, {})
    assert found[0]["parameters"] == found[1]["parameters"]
    one = train(None, "normal", {}, 1, {})["parameters"]["norm/mean"]
    several = pool(2).run("many_ranks:train", "normal", {}, 1, {})[0]["parameters"]["norm/mean"]
    assert np.allclose(one, several, atol=1e-12), "the mean of the means of halves is the mean"


def test_a_batch_that_cannot_be_divided_is_refused() -> None:
    ranks = LocalCommunicator()
    ranks.size = 5
    train_part, validation_part, *_ = AllReduce().layers(mlp(), ranks)
    assert (train_part.batch_size, validation_part.batch_size) == (2, 2)
    assert train_part.undivided.batch_size == 12
    with pytest.raises(ConfigError, match=r"train: batch_size=4 cannot be divided among 5 ranks\n  use 5 or more; or"):
        AllReduce().layers(sources((9,), 4), ranks)
    with pytest.raises(
        ConfigError, match=r"train: batch_size=9 cannot be divided among 4 workers\n  use a multiple of 4"
    ):
        Downpour().layers(sources((9,), 9), ranks)
    with pytest.raises(ConfigError, match=r"train: batch_size=2 cannot be divided among 4 workers"):
        Sandblaster().layers(sources((9,), 2), ranks)
    assert AllReduce().layers(sources((9,), 4)[1:], ranks)[0].batch_size == 1
    train_part, validation_part, *_ = AllReduce(batch="each").layers(mlp(), ranks)
    assert (train_part.batch_size, validation_part.batch_size) == (12, 12)
    ranks.size = 4
    train_part, validation_part, *_ = AllReduce().layers(mlp(), ranks)
    assert (train_part.batch_size, validation_part.batch_size) == (3, 3)
    prefetch: Any = divided(PrefetchLayer(layer=[sources((9,))[0]]), 3, 5)
    assert prefetch.layer[0].batch_size == 2
    assert prefetch.batch_part == prefetch.layer[0].batch_part == Part(0, 3, 5, 12, 7, 9)
    one = dataclasses.replace(sources((9,), 7)[1], exclude=())
    prefetch = PrefetchLayer(name="validation", layer=[one], exclude=["train", "predict"])
    for uneven, count, size in ((False, 3, 3), (True, 9, 1)):
        prefetched: Any = divided(prefetch, 2, count, uneven=uneven)
        assert prefetched.layer[0].batch_size == size
    parts: list[Any] = [divided(sources((9,), 7)[1], rank, 3, uneven=False) for rank in range(3)]
    assert [part.batch_size for part in parts] == [2, 2, 3]  # only batches of the training have to be even


@pytest.mark.parametrize("records", [7, 3, 1])
def test_a_validation_batch_of_fewer_records_than_ranks_has_the_numbers_of_one_process(records: int) -> None:
    random = np.random.default_rng(records)
    arrays = [random.normal(size=(records, 4)), random.integers(-1, 3, records)]  # one label in four is ignored
    source = MemoryDataLayer(name="v", data=arrays, batch_size=2, exclude=["train"])
    both: dict[str, Any] = {"bottoms": ["score", "label"], "ignore_label": -1}
    layers = [
        PrefetchLayer(name="ahead", tops=["data", "label"], layer=[source], exclude=["train"]),
        InnerProductLayer(name="ip", bottoms=["data"], tops=["score"], output_dim=3),
        SoftmaxLossLayer(name="loss", **both),
        SumLossLayer(name="sum", bottoms=["score"]),
        AccuracyLayer(name="accuracy", **both),
        PerplexityLayer(name="perplexity", **both),
    ]
    check_validation(layers)
    check_validation([source, *layers[1:]])


def test_a_text_in_fewer_streams_than_ranks_has_the_perplexity_of_one_process(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("abcabbaccbacabcab")
    both: dict[str, Any] = {"bottoms": ["score", "target"], "ignore_label": -1, "axis": 2}
    layers = [
        CharTextLayer(
            name="text",
            source=[str(tmp_path / "text.txt")],
            tops=["unit", "target", "cont"],
            vocabulary=["a", "b", "c"],
            batch_size=2,
            steps=3,
            exclude=["train"],
        ),
        EmbeddingLayer(name="embedding", bottoms=["unit"], tops=["x"], input_dim=3, output_dim=4),
        GRULayer(name="gru", bottoms=["x", "cont"], tops=["score"], output_dim=3, sequences="cont", carry=True),
        SoftmaxLossLayer(name="loss", **both),
        PerplexityLayer(name="perplexity", **both),
    ]
    check_validation(layers)


def check_validation(layers: list[Any], size: int = 4) -> None:
    """Assert that so many ranks find the loss and the statistics of one process, in two passes."""
    ranks = crew(size)

    def found(rank: int | None) -> list[Any]:
        here = layers if rank is None else AllReduce().layers(layers, ranks[rank])
        options: dict[str, Any] = {"phase": "validation", "dtype": "float64", "backend": own_backend("numpy")}
        with Net("small", here, communicator=None if rank is None else ranks[rank], **options) as net:
            return [found for _ in range(2) for found in (net.forward_epoch(), net.statistics())]

    alone = found(None)
    for rank, several in enumerate(together(ranks, found)):
        assert differences(alone, several, f"rank {rank}") == []


def test_statistics_that_no_rank_has_are_refused_on_all_ranks() -> None:
    ranks = crew(3)
    labels = np.arange(2) % 2  # the last rank has no record
    source = MemoryDataLayer(name="v", tops=["x", "y"], data=[np.eye(2), labels], batch_size=2, exclude=["train"])

    def told(rank: int) -> list[str]:
        layers = [*AllReduce().layers([source], ranks[rank]), AccuracyLayer(name="a", bottoms=["x", "y"])]
        with Net("net", layers, phase="validation", communicator=ranks[rank], backend=own_backend("numpy")) as net:
            net.forward_epoch()
            counted = net.statistics()["a"]["accuracy"]
            net.reset_statistics()
            with pytest.raises(NacreError, match="since its statistics were reset") as caught:
                net.statistics()
            return [str(counted), str(caught.value)]

    first, *others = together(ranks, told)
    assert first[0] == "1.0" and others == [first] * 2


def test_records_that_are_not_finite_are_counted_on_all_ranks() -> None:
    x = np.zeros((9, 2))
    x[[2, 5, 8]] = np.nan  # of each batch of 3, the last, which the second of two ranks reads
    source = MemoryDataLayer(name="v", tops=["x"], data=[x], batch_size=3, exclude=["train"])
    ranks = crew(2)

    def told(rank: int) -> list[str]:
        layers = [*AllReduce().layers([source], ranks[rank]), SumLossLayer(name="loss", bottoms=["x"])]
        found: list[str] = []
        with Net("net", layers, phase="validation", communicator=ranks[rank], backend=own_backend("numpy")) as net:
            net.forward_epoch(found.append)
        return found

    for messages in together(ranks, told):
        assert len(messages) == 1
        assert messages[0].startswith("blob 'x' of layer 'v': 3 of 9 records have numbers that are not finite")


def test_an_algorithm_with_gradients_of_its_own_is_refused_with_a_sentence() -> None:
    class Odd(CD):
        adds_up = False

    rank, _ = crew(2)
    with (
        Net("rbm", AllReduce().layers(NETS["machine"](), rank), algorithm=Odd(), communicator=rank) as net,
        pytest.raises(ConfigError, match=r"the algorithm Odd has gradients of its own, which several ranks cannot add"),
    ):
        Solver("SGD", algorithm=Odd(), framework=AllReduce()).start(net)


def test_sources_that_are_divided_differently_are_refused() -> None:
    ranks = LocalCommunicator()
    ranks.size = 5
    one, other = sources((9,))[0], sources((9,), 6)[0]
    other = dataclasses.replace(other, name="more", tops=["data2", "label2"])
    layers = AllReduce().layers([one, other], ranks)
    with pytest.raises(ConfigError, match=r"'train' has batches of 12 records and 'more' of 6"):
        Net("uneven", layers, rank=0, ranks=5)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("seed", "seed is 5 on rank 0, but 6 on rank 1"),
        pytest.param("solver", "settings: lr_policy", marks=pytest.mark.long),
        pytest.param("parameters", "checksum of ip1/weight", marks=pytest.mark.long),
    ],
)
def test_ranks_that_disagree_are_refused(what: str, words: str) -> None:
    ranks = Pool(2)
    with pytest.raises(RankError, match=words):
        ranks.run("many_ranks:disagree", what)
    ranks.close()


def test_a_number_that_is_not_finite_on_one_rank_is_told_of_its_blob() -> None:
    ranks = Pool(2)
    with pytest.raises(RankError, match=r"iteration 0: the loss is nan; first seen in blob 'ip1' of layer 'ip1'"):
        ranks.run("many_ranks:poison")
    ranks.close()


@pytest.mark.parametrize("kind", ["mlp", "lenet"])
def test_a_resumed_training_is_the_one_that_was_not_interrupted(kind: str) -> None:
    for uninterrupted, resumed, memory in pool(2).run("many_ranks:resume", kind, SGD, 5, 7):
        assert uninterrupted == resumed
        assert {"layer.train", "rank1/layer.train"} <= set(memory)
