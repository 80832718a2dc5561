"""Nets that are divided among ranks: what these compute and learn together is what the whole net does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nacre
from divided_nets import BATCH, OPTIONS, check_equal, gathered, learned, nets_of, solver, source
from nacre import ConfigError, DataError, InputLayer, LayerState, Net, TopologyError
from nacre.cli.training import begin_text
from nacre.random import Random
from nacre.testing.crew import crew, own_backend, together
from nacre_data import MemoryDataLayer
from nacre_layers import (
    AccuracyLayer,
    BatchNormLayer,
    BridgeDstLayer,
    BridgeSrcLayer,
    ConvolutionLayer,
    CropLayer,
    DropoutLayer,
    EmbeddingLayer,
    InnerProductLayer,
    LSTMLayer,
    PerplexityLayer,
    PoolingLayer,
    ReshapeLayer,
    RNNLayer,
    ROCAUCLayer,
    SliceLayer,
    SoftmaxLayer,
    SoftmaxLossLayer,
    SquareLossLayer,
    SumLossLayer,
)
from nacre_layers.metrics.accuracy import AccuracyState
from nacre_onednn.backend import OnednnBackend
from nacre_parallel import AllReduce


def mlp(way):
    return [
        source("input", (7,)),
        InnerProductLayer(name="ip1", bottoms=["data"], tops=["ip1"], output_dim=11, neuron="Tanh", **way(1)),
        DropoutLayer(name="drop", bottoms=["ip1"], ratio=0.3, **way(0)),
        InnerProductLayer(name="ip2", bottoms=["ip1"], tops=["ip2"], output_dim=8, neuron="Sigmoid", **way(1)),
        InnerProductLayer(name="ip3", bottoms=["ip2"], tops=["ip3"], output_dim=10, **way(1)),
        SoftmaxLossLayer(name="loss", bottoms=["ip3", "label"], partition_dim=-1),
    ]


def lenet(way):
    return [
        source("input", (2, 9, 9)),
        ConvolutionLayer(name="conv1", bottoms=["data"], tops=["conv1"], n_filter=5, kernel=3, neuron="ReLU", **way(0)),
        PoolingLayer(name="pool1", bottoms=["conv1"], tops=["pool1"], kernel=2, stride=2, **way(0)),
        ConvolutionLayer(name="conv2", bottoms=["pool1"], tops=["conv2"], n_filter=7, kernel=2, **way(0)),
        PoolingLayer(name="pool2", bottoms=["conv2"], tops=["pool2"], kernel=2, stride=1, pooling="Mean", **way(0)),
        InnerProductLayer(name="ip1", bottoms=["pool2"], tops=["ip1"], output_dim=9, neuron="ReLU", **way(1)),
        DropoutLayer(name="drop", bottoms=["ip1"], ratio=0.5, **way(1)),
        InnerProductLayer(name="ip2", bottoms=["ip1"], tops=["ip2"], output_dim=10, **way(1)),
        SoftmaxLossLayer(name="loss", bottoms=["ip2", "label"], partition_dim=-1),
    ]


def lstm(way):
    return [
        source("input", (5,), kind="int64"),
        EmbeddingLayer(name="embed", bottoms=["data"], tops=["vectors"], input_dim=11, output_dim=6, **way(0)),
        LSTMLayer(name="lstm", bottoms=["vectors"], tops=["h"], output_dim=7, **way(1)),
        InnerProductLayer(name="score", bottoms=["h"], tops=["score"], output_dim=10, **way(0)),
        SoftmaxLossLayer(name="loss", bottoms=["score", "label"], partition_dim=-1),
    ]


NETS = {"mlp": mlp, "lenet": lenet, "lstm": lstm}
WAYS = {
    "by records": lambda kind: {"partition_dim": 0},
    "by features": lambda kind: {"partition_dim": 1},
    "data for convolutions, features for inner products": lambda kind: {"partition_dim": kind},
    "the other way round": lambda kind: {"partition_dim": 1 - kind},
}


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("net", NETS)
def test_a_divided_net_learns_what_the_whole_net_learns(net, way, parts):
    nets = check_equal(lambda: NETS[net](WAYS[way]), parts)
    assert all(one.division is not None for one in nets)


def test_a_pipeline_is_trained_for_passes_over_data_that_one_rank_reads():
    ranks = crew(2)
    nets = nets_of(lambda: placed(mlp(lambda kind: {}), [0, 0, 0, 1, 1, 1]), ranks)

    def train(rank):
        done = solver(max_iter=None, max_epoch=2).solve(nets[rank], quiet=True)
        return done.iteration, done.epochs, done.endless

    assert together(ranks, train) == [(5, 2, False)] * 2


GPIPE = {"type": "GPipe", "micro_batches": 3}


def placed(layers, places):
    """Return layers that are whole, each on a rank."""
    return [
        type(layer)(**{**layer.given(), "partition_dim": -1, "location": place})
        for layer, place in zip(layers, places, strict=True)
    ]


@pytest.mark.parametrize("parts", [2, 3])
def test_a_pipeline_by_location(parts):
    nets = check_equal(lambda: placed(mlp(lambda kind: {}), [0, 0, 0, 1, parts - 1, parts - 1]), parts)
    assert [len(net.parameters) for net in nets] == ([2, 4] if parts == 2 else [2, 2, 2])


@pytest.mark.parametrize("parts", [2, 3])
def test_a_pipeline_with_micro_batches_learns_what_the_whole_net_learns(parts):
    """With the masks of the whole batch."""
    nets = check_equal(lambda: placed(mlp(lambda kind: {}), [0, 0, 0, 1, parts - 1, parts - 1]), parts, algorithm=GPIPE)
    assert sorted(name for name in nets[0].node_ops if name.startswith("ip1")) == ["ip1#0", "ip1#1", "ip1#2"]
    first = [node.name for node in nets[0].wiring.nodes if node.name.startswith(("ip1", "bridge_src(ip1"))]
    assert first == [name for number in range(3) for name in (f"ip1#{number}", f"bridge_src(ip1#{number}, 0->1)")], (
        "every micro-batch leaves before the next is computed"
    )


def test_a_batch_is_cut_into_micro_batches_of_equal_length():
    with pytest.raises(ConfigError, match="input: batch_size=12 cannot be cut into 5 parts of equal length"):
        Net("net", mlp(lambda kind: {}), algorithm={"type": "GPipe", "micro_batches": 5}, backend="numpy", **OPTIONS)


@pytest.mark.parametrize(
    ("way", "complaint"),
    [
        (
            {"partition_dim": 0},
            "input: GPipe cuts its batches into 3 parts, so it cannot be divided by records (partition_dim=0)",
        ),
        ({"partition_dim": 1}, "input: MemoryData cannot be cut along its features (partition_dim=1)"),
        ({"partition_dim": -1, "location": 7}, "input: location=7, but there are 2 ranks, counted from 0"),
    ],
)
def test_a_pipeline_names_the_layers_of_the_file_in_what_is_wrong_with_its_source(way, complaint):
    source, *others = mlp(lambda kind: {})
    layers = [type(source)(**{**source.given(), **way}), *placed(others, [0, 0, 0, 1, 1])]
    with pytest.raises(ConfigError) as error:
        Net("net", layers, ranks=2, algorithm=GPIPE, **OPTIONS)
    assert error.value.args[0] == complaint


def test_a_pipeline_names_a_layer_that_it_has_several_times_once():
    layers = placed(mlp(lambda kind: {}), [0, 0, 5, 1, 1, 1])
    with pytest.raises(ConfigError) as error:
        Net("net", layers, ranks=2, algorithm=GPIPE, **OPTIONS)
    assert error.value.args[0] == f"{layers[2].name}: location=5, but there are 2 ranks, counted from 0"


@pytest.mark.parametrize("parts", [1, 2])
def test_a_loss_that_nothing_divides_is_the_sum_of_those_of_the_micro_batches(parts):
    def make():
        *layers, loss = mlp(lambda kind: {})
        none = replace(loss, normalize="none", weight=0.05)
        return placed(
            [*layers, none, SumLossLayer(name="sum", bottoms=["ip1"], weight=0.01)], [0, 0, 0, *[parts - 1] * 4]
        )

    check_equal(make, parts, algorithm=GPIPE)


def ignoring(way, parts):
    """Two losses that divide by the labels that they count, of which micro-batches have different numbers."""
    *layers, loss = mlp(lambda kind: {})
    few = replace(loss, ignore_label=2)
    none = SoftmaxLossLayer(name="few", bottoms=["ip3", "label"], ignore_label=5, weight=0.3, **way)
    return [*placed([*layers, few], [0, 0, 0, 1 % parts, parts - 1, parts - 1]), none]


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_a_loss_that_divides_by_what_it_counts_is_that_of_the_whole_batch(parts):
    check_equal(lambda: ignoring({"location": parts - 1}, parts), parts, algorithm=GPIPE)


def test_micro_batches_by_records_of_a_loss_that_divides_by_what_it_counts_are_refused():
    def make(rank):
        with pytest.raises(ConfigError, match="few: it divides by what it counts, so its micro-batches cannot be div"):
            nets_of(lambda: ignoring({"partition_dim": 0}, 2), [rank], algorithm=GPIPE)

    ranks = crew(2)
    together(ranks, lambda rank: make(ranks[rank]))


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_statistics_of_micro_batches_are_those_of_the_whole_batches(parts):
    """Of metrics and of several losses; they have the layers' own names."""

    def make():
        both = {"bottoms": ["ip3", "label"]}
        metrics = [
            AccuracyLayer(name="accuracy", **both, ignore_label=1),
            AccuracyLayer(name="top", **both, top_k=2),
            PerplexityLayer(name="perplexity", **both),
        ]
        first, *layers = ignoring({"location": parts - 1}, parts)
        return [first, *layers, *placed(metrics, [parts - 1, 0, parts - 1])]

    def trained(net, **fields):
        _, training = learned(net, 4, **fields)
        return [training.take_statistics(), net.losses()]

    ranks = crew(parts)
    nets = nets_of(make, ranks, algorithm=GPIPE)
    expected = trained(Net("net", make(), backend="numpy", **OPTIONS))
    assert set(expected[0]) == {"accuracy", "top", "perplexity", "loss", "few"}
    for found in together(ranks, lambda rank: trained(nets[rank], algorithm=GPIPE)):
        assert found[0].keys() == expected[0].keys()
        for name, values in expected[0].items():
            assert found[0][name] == pytest.approx(values, rel=1e-9), name
        assert found[1] == pytest.approx(expected[1], rel=1e-9)


def test_statistics_that_cannot_be_joined_are_the_means_of_the_micro_batches(monkeypatch):
    def trained(algorithm):
        layers = [*mlp(lambda kind: {}), AccuracyLayer(name="accuracy", bottoms=["ip3", "label"])]
        net = Net("net", layers, backend="numpy", algorithm=algorithm, **OPTIONS)
        _, training = learned(net, 4, algorithm=algorithm)
        return training.take_statistics()["accuracy"]["accuracy"]

    expected = trained("BP")
    monkeypatch.setattr(AccuracyState, "collected", LayerState.collected)
    assert trained(GPIPE) == pytest.approx(expected, rel=1e-12)


def pictures():
    """Random crops and mirrors, stochastic pooling, and dropout."""
    return [
        source("input", (2, 9, 9)),
        CropLayer(name="crop", bottoms=["data"], tops=["crop"], crop_size=7, random_crop=True, random_mirror=True),
        ConvolutionLayer(name="conv", bottoms=["crop"], tops=["conv"], n_filter=4, kernel=3, neuron="ReLU"),
        PoolingLayer(name="pool", bottoms=["conv"], tops=["pool"], kernel=2, stride=2, pooling="Stochastic"),
        DropoutLayer(name="drop", bottoms=["pool"], ratio=0.3),
        InnerProductLayer(name="ip", bottoms=["pool"], tops=["ip"], output_dim=10),
        SoftmaxLossLayer(name="loss", bottoms=["ip", "label"]),
    ]


def test_random_layers_of_a_pipeline_draw_the_numbers_of_the_whole_batch():
    check_equal(lambda: placed(pictures(), [0, 0, 0, 1, 1, 1, 1]), 2, algorithm=GPIPE)


def normal(**fields):
    """Batch norm of records that ranks have parts of."""
    return [
        source("input", (7,)),
        InnerProductLayer(name="ip", bottoms=["data"], tops=["ip"], output_dim=10),
        BatchNormLayer(name="norm", bottoms=["ip"], tops=["norm"], **fields),
        SoftmaxLossLayer(name="loss", bottoms=["norm", "label"]),
    ]


def test_buffers_of_layers_by_records_are_their_means_over_the_ranks():
    ranks = crew(5)  # with 2, 2, 3, 2 and 3 rows of 12
    nets = nets_of(normal, ranks)
    together(ranks, lambda rank: learned(nets[rank], 1))
    whole = Net("net", normal(), backend="numpy", **OPTIONS)
    learned(whole, 1)
    means = gathered(nets)  # the same on all ranks
    np.testing.assert_allclose(means["norm/mean"], whole.parameters["norm/mean"].value, rtol=1e-12, atol=1e-14)


def test_batch_norm_by_records_may_use_those_of_all_ranks():
    check_equal(lambda: normal(sync=True), 5)


@pytest.mark.parametrize("parts", [2, 3])
def test_statistics_are_those_of_all_records_and_every_rank_has_them(parts):
    """Metrics by records on every rank, and one that only the last rank has."""

    def make():
        both = {"bottoms": ["ip", "label"]}
        return [
            replace(source("input", (7,), 3), batch_size=10),
            InnerProductLayer(name="ip", bottoms=["data"], tops=["ip"], output_dim=3, partition_dim=0),
            AccuracyLayer(name="accuracy", **both, ignore_label=1, partition_dim=0),
            ROCAUCLayer(name="auc", **both, partition_dim=0),
            AccuracyLayer(name="last", **both, top_k=2, location=parts - 1),
            PerplexityLayer(name="perplexity", **both, partition_dim=0),
        ]

    def measured(net):
        return [net.forward_epoch(), net.statistics(), net.statistics()]

    ranks = crew(parts)
    nets = nets_of(make, ranks, phase="test")
    whole = Net("net", make(), backend="numpy", phase="test", **OPTIONS)
    expected = measured(whole)
    for found in together(ranks, lambda rank: measured(nets[rank])):
        assert [list(one) for one in found[1:]] == [list(one) for one in expected[1:]]
        for mine, one in zip(found[1:], expected[1:], strict=True):
            for name, values in one.items():
                assert mine[name] == pytest.approx(values, rel=1e-12), name


def test_a_divided_net_predicts_on_all_ranks_with_what_it_has_learned(tmp_path):
    def make():
        return mlp(lambda kind: {"partition_dim": 1})

    def used(net):
        data = np.random.default_rng(1).normal(size=(5, 7))
        before = net.predict(data, "ip3")
        learned(net, 2)
        net.save(tmp_path / f"net{net.target.rank}.nacre")
        return before, net.predict(data, "ip3")

    ranks = crew(2)
    nets = nets_of(make, ranks)
    expected = used(Net("net", make(), backend="numpy", **OPTIONS))
    for found in together(ranks, lambda rank: used(nets[rank])):
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    with nacre.load(tmp_path / "net1.nacre", backend="numpy") as saved:
        data = np.random.default_rng(1).normal(size=(5, 7))
        np.testing.assert_allclose(saved.predict(data, "ip3"), expected[1], rtol=1e-10)


def test_bridges_that_are_written_say_where_data_cross():
    def make():
        return [
            source("input", (7,)),
            InnerProductLayer(bottoms=["data"], tops=["ip1"], output_dim=5, location=0),
            BridgeSrcLayer(bottoms=["ip1"], tops=["sent"], location=0),
            BridgeDstLayer(bottoms=["sent"], tops=["here"], location=1),
            InnerProductLayer(bottoms=["here"], tops=["ip2"], output_dim=10, location=1),
            SoftmaxLossLayer(name="loss", bottoms=["ip2", "label"], location=1),
        ]

    nets = check_equal(make, 2)
    assert [one.blob for one in nets[0].division.bridges if one.gradient] == ["sent"]


def test_a_loss_on_another_rank_is_the_loss_of_every_rank():
    def make():
        return [
            source("input", (6,)),
            InnerProductLayer(bottoms=["data"], tops=["a"], output_dim=4, partition_dim=1),
            InnerProductLayer(bottoms=["data"], tops=["b"], output_dim=4, location=1),
            SquareLossLayer(name="loss1", bottoms=["a", "b"], location=1),
            SquareLossLayer(name="loss2", bottoms=["b", "a"], location=0),
        ]

    nets = check_equal(make, 2)
    assert nets[0].losses() == nets[1].losses()
    assert list(nets[0].losses()) == ["loss1", "loss2"]


def by_records(make):
    """Return a function that makes a net whose source and losses are divided by records, too."""

    def made():
        return [
            type(layer)(**{**layer.given(), "partition_dim": 0}) if layer.is_source or layer.has_loss else layer
            for layer in make()
        ]

    return made


@pytest.mark.parametrize("net", NETS)
def test_sources_and_losses_that_are_divided_by_records(net):
    nets = check_equal(by_records(lambda: NETS[net](WAYS["by features"])), 2)
    assert [sum(op.is_source for op in one.ops) for one in nets] == [1, 1]


def test_no_gradient_comes_from_what_is_brought_to_a_metric():
    def make():
        layers = [one for one in mlp(lambda kind: {"partition_dim": -1}) if one.name != "drop"]
        return [*layers, AccuracyLayer(name="accuracy", bottoms=["ip3", "label"], partition_dim=0)]

    nets = check_equal(make, 2)
    assert not [step.name for step in nets[0].steps("backward") if "@" in step.name]
    assert nets[1].steps("backward") == []


def test_labels_that_do_not_count_are_counted_on_all_ranks():
    def make():
        *layers, loss = mlp(WAYS["by features"])
        return [*layers, SoftmaxLossLayer(**{**loss.given(), "ignore_label": 3})]

    check_equal(by_records(make), 3)


def test_the_norm_of_all_gradients_is_clipped():
    check_equal(lambda: mlp(WAYS["by features"]), 2, clip_norm=0.05)
    check_equal(lambda: mlp(WAYS["the other way round"]), 3, clip_norm=0.05, clip_value=0.02)


def test_gradients_of_several_batches_are_added_up():
    check_equal(lambda: mlp(WAYS["by features"]), 2, n_accumulate=2)


@pytest.mark.parametrize("way", WAYS)
def test_a_snapshot_of_a_divided_net_goes_on_as_a_whole_and_back(way):
    def make():
        return mlp(WAYS[way])

    ranks = crew(2)
    nets, others = nets_of(make, ranks), nets_of(make, ranks)
    whole, again = (Net("net", make(), backend="numpy", **OPTIONS) for _ in range(2))
    taken = together(ranks, lambda rank: learned(nets[rank], 4)[1].snapshot())
    names = {name: array.shape for name, array in taken[0].arrays.items() if name.startswith("parameters/")}
    assert names == {f"parameters/{name}": handle.shape for name, handle in whole.parameters.items()}
    expected, alone = learned(whole, 4)
    for name, array in alone.snapshot().arrays.items():
        np.testing.assert_allclose(taken[0].arrays[name], array, rtol=1e-10, atol=1e-10, err_msg=name)
    with pytest.warns(UserWarning, match="made by 2 ranks"):
        found, _ = learned(again, 3, snapshot=taken[0])
    snapshot = alone.snapshot()
    with pytest.warns(UserWarning, match="made by 1 rank"):
        back = together(ranks, lambda rank: learned(others[rank], 3, snapshot=snapshot)[0])
    expected, _ = [alone.step() or alone.loss for _ in range(3)], None
    for losses in (found, *back):
        np.testing.assert_allclose(losses, expected, rtol=1e-9)


def test_a_source_on_another_rank_goes_on_at_its_place_on_any_number_of_ranks(recwarn):
    def make(places=(1, 1, 1, 0, 0, 0)):
        return placed(mlp(lambda kind: {}), places)

    ranks, more = crew(2), crew(3)
    nets = nets_of(make, ranks)
    taken = together(ranks, lambda rank: learned(nets[rank], 4)[1].snapshot())[0]
    whole, again = (Net("net", make([0] * 6), backend="numpy", **OPTIONS) for _ in range(2))
    expected, _ = learned(whole, 7)
    others = nets_of(lambda: make((2, 0, 0, 0, 1, 1)), more)
    after = [learned(again, 3, snapshot=taken)[0]]
    after += together(more, lambda rank: learned(others[rank], 3, snapshot=taken)[0])
    for losses in after:
        np.testing.assert_allclose(losses, expected[4:], rtol=1e-9)
    assert all("no memory" not in str(one.message) for one in recwarn)


def in_two_halves():
    return placed(mlp(lambda kind: {}), [0, 0, 0, 1, 1, 1])


@pytest.mark.parametrize("algorithm", ["BP", GPIPE])
@pytest.mark.parametrize("frozen", [["ip1"], ["ip2"], ["ip1", "ip2"], ["ip2", "ip3"]])
def test_layers_of_one_rank_are_frozen_as_those_of_the_whole_net(frozen, algorithm):
    nets = check_equal(in_two_halves, 2, algorithm, options={"freeze": frozen})
    assert [one.frozen for one in nets] == [{*frozen}] * 2


def test_a_net_that_is_frozen_on_all_ranks_is_not_trained():
    first, _ = nets_of(in_two_halves, crew(2), freeze=["ip1", "ip2", "ip3"])
    with pytest.raises(ConfigError, match="every layer that could learn is frozen: ip1"):
        solver().start(first)


def test_the_first_line_of_a_training_counts_the_parameters_of_the_whole_net():
    def make():
        return [*lenet(WAYS["by features"])[:-1], BatchNormLayer(name="norm", bottoms=["ip2"], tops=["y"])]

    whole = Net("net", make(), backend="numpy", freeze=["ip1"], allocate=False, **OPTIONS)
    expected = begin_text(whole, solver()).replace(" on numpy;", " on numpy, 2 ranks;")
    first, _ = nets_of(make, crew(2), freeze=["ip1"], allocate=False)
    assert begin_text(first, solver()) == expected


def test_parameters_of_a_whole_net_are_loaded_into_a_divided_one(tmp_path):
    whole = Net("net", mlp(WAYS["by features"]), backend="numpy", **{**OPTIONS, "seed": 9})
    whole.save(tmp_path / "whole.nacre")
    ranks = crew(3)
    nets = nets_of(lambda: mlp(WAYS["by features"]), ranks)
    for net in nets:
        assert net.load(tmp_path / "whole.nacre").complete
    for name, value in gathered(nets).items():
        np.testing.assert_array_equal(value, whole.parameters[name].value)


def test_a_pass_over_the_data_is_one_of_all_ranks():
    def make():
        layers = mlp(WAYS["data for convolutions, features for inner products"])
        return [*layers, AccuracyLayer(name="accuracy", bottoms=["ip3", "label"], partition_dim=-1)]

    ranks = crew(2)
    nets = nets_of(make, ranks, phase="validation")
    whole = Net("net", make(), backend="numpy", phase="validation", **OPTIONS)
    losses = together(ranks, lambda rank: nets[rank].forward_epoch())
    assert losses == pytest.approx([whole.forward_epoch()] * 2, rel=1e-12)
    assert together(ranks, lambda rank: nets[rank].statistics()) == [whole.statistics()] * 2


@pytest.mark.parametrize("backend", ["numpy", "onednn"])
@pytest.mark.parametrize("records", [12, 14, 25])
def test_ranks_without_a_record_of_the_last_batch_count_none(records, backend):
    """Of batches of 12 records, the last has 12, 2 or 1: with three ranks, one or two of them have none."""
    if backend == "onednn" and OnednnBackend.unusable() is not None:
        pytest.skip("no oneDNN here")
    random = np.random.default_rng(records)
    arrays = [random.integers(0, 11, (records, 5)), random.permutation(records) % 4]

    def make():
        both = {"bottoms": ["score", "label"], "ignore_label": 3, "partition_dim": 0}
        return [
            MemoryDataLayer(name="input", data=arrays, batch_size=BATCH, partition_dim=0),
            EmbeddingLayer(name="embed", bottoms=["data"], tops=["x"], input_dim=11, output_dim=6, partition_dim=0),
            LSTMLayer(name="lstm", bottoms=["x"], tops=["h"], output_dim=7, partition_dim=1),
            InnerProductLayer(name="score", bottoms=["h"], tops=["score"], output_dim=4, partition_dim=0),
            SoftmaxLossLayer(name="loss", **both),
            SumLossLayer(name="sum", bottoms=["score"], partition_dim=0),
            AccuracyLayer(name="accuracy", **both),
            PerplexityLayer(name="perplexity", **both),
            ROCAUCLayer(name="auc", bottoms=["score", "label"], partition_dim=0),
        ]

    def measured(net):
        return [found for _ in range(2) for found in (net.forward_epoch(), net.statistics())]

    options = {**OPTIONS, "dtype": "float64" if backend == "numpy" else "float32"}
    ranks = crew(3)
    nets = [
        Net("net", make(), backend=own_backend(backend), phase="validation", communicator=rank, **options)
        for rank in ranks
    ]
    expected = measured(Net("net", make(), backend=backend, phase="validation", **options))
    for found in together(ranks, lambda rank: measured(nets[rank])):
        for mine, one in zip(found, expected, strict=True):
            close = 1e-12 if backend == "numpy" else 1e-5
            if isinstance(one, float):
                assert mine == pytest.approx(one, rel=close)
                continue
            assert list(mine) == list(one)
            for name, values in one.items():
                assert mine[name] == pytest.approx(values, rel=close), name


def test_a_training_needs_a_record_on_every_rank_where_a_loss_is_divided_by_records():
    def make():
        layers = by_records(lambda: mlp(WAYS["by features"]))()[1:]
        tops = (("data", 7), ("label", ()))
        return [InputLayer(tops=[top], shape=shape, batch_size=BATCH, partition_dim=-1) for top, shape in tops] + layers

    def trained(net):
        if net.rank == 0:
            net.write("data", np.zeros((6, 7)))
            net.write("label", np.zeros(6))
        net.forward()

    ranks = crew(2)
    nets = nets_of(make, ranks)
    with pytest.raises(DataError, match=r"6 real records of a batch of 12 are too few for 2 ranks, among which 'loss'"):
        together(ranks, lambda rank: trained(nets[rank]))


def test_each_rank_holds_its_part_of_the_parameters():
    nets = [Net("n", lenet(WAYS["by features"]), rank=rank, ranks=2, allocate=False) for rank in range(2)]
    shapes = [{name: handle.storage.shape for name, handle in net.parameters.items()} for net in nets]
    assert [one["conv1/weight"] for one in shapes] == [(2, 2, 3, 3), (3, 2, 3, 3)]
    assert [one["ip1/weight"] for one in shapes] == [(4, 28), (5, 28)]
    assert [one["ip2/bias"] for one in shapes] == [(5,), (5,)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("whole", "start", "shape"),
    [
        ((8, 5), (0, 0), (8, 5)),
        ((8, 5), (3, 0), (4, 5)),
        ((8, 5), (0, 2), (8, 3)),
        ((8, 5), (7, 4), (1, 1)),
        ((3, 4, 5), (1, 1, 2), (2, 2, 3)),
        ((17,), (9,), (8,)),
    ],
)
def test_random_numbers_of_a_box_are_those_of_the_whole(dtype, whole, start, shape):
    random = Random(7, "layer", lambda: 3)
    everything, part = np.empty(whole, dtype), np.empty(shape, dtype)
    random.uniform(everything, 2)
    random.uniform(part, 2, whole=whole, start=start)
    place = tuple(slice(one, one + length) for one, length in zip(start, shape, strict=True))
    np.testing.assert_array_equal(part, everything[place])
    again = np.empty(whole, dtype)
    random.uniform(again, 2)
    np.testing.assert_array_equal(again, everything)


def test_what_cannot_be_divided_is_told_of_every_layer_at_once():
    layers = mlp(lambda kind: {})
    with pytest.raises(ConfigError) as caught:
        Net("n", [*layers[:-1], SoftmaxLossLayer(name="loss", bottoms=["ip3", "label"])], ranks=2, partition_dim=1)
    assert "loss: SoftmaxLoss cannot be cut along its features (partition_dim=1)" in str(caught.value)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (SoftmaxLayer(name="across", bottoms=["ip1"], tops=["y"], axis=0), "axis=0 joins the records of a batch"),
        (SliceLayer(name="across", bottoms=["ip1"], tops=["y", "z"], axis=0), "axis=0 joins the records of a batch"),
        (RNNLayer(name="across", bottoms=["seq"], tops=["y"], time_major=True, output_dim=3), "time_major=True counts"),
    ],
)
def test_layers_that_read_across_records_need_whole_batches(layer, reason):
    layers = [
        replace(source("input", (7,)), partition_dim=None),
        InnerProductLayer(name="ip1", bottoms=["data"], tops=["ip1"], output_dim=6),
        ReshapeLayer(name="seq", bottoms=["ip1"], tops=["seq"], shape=[3, 2]),
        layer,
    ]
    rank, _ = crew(2)
    with pytest.raises(ConfigError, match=rf"^across: {reason}.*, so its batches cannot be divided among 2 ranks"):
        Net("net", AllReduce().layers(layers, rank), communicator=rank, insert_splits=True)
    Net("net", AllReduce(batch="each").layers(layers, rank), communicator=rank, insert_splits=True).shutdown()


def test_a_divided_net_has_no_framework():
    net, _ = nets_of(lambda: mlp(WAYS["by features"]), crew(2))
    with pytest.raises(ConfigError, match="framework=AllReduce, but net 'net' is divided among its ranks"):
        solver(framework="AllReduce").start(net)


def test_fewer_layers_than_ranks():
    layers = [InputLayer(tops=["x"], shape=3), InnerProductLayer(bottoms=["x"], tops=["y"], output_dim=2)]
    with pytest.raises(TopologyError, match="of 2 ranks number 1 has no layer"):
        Net("n", layers, ranks=2, partition_dim="whole", allocate=False)


@pytest.mark.parametrize("value", [2, "rows", None, 0.5])
def test_the_default_of_a_net_is_checked(value):
    with pytest.raises(ConfigError, match="partition_dim"):
        Net("n", [InputLayer(tops=["x"])], partition_dim=value)
