"""CD: the chain in the place of the circle, and its gradients, chains and statistics, whose right values are known."""

import itertools

import numpy as np
import pytest

from nacre import ConfigError, InputLayer, Net, Solver, TopologyError, fresh
from nacre.config import load
from nacre.random import Random
from nacre.testing import check_net_gradients
from nacre_data import MemoryDataLayer
from nacre_layers import CD, InnerProductLayer, RBMHiddenLayer, RBMVisibleLayer, SequentialLayer, SquareLossLayer
from nacre_onednn.backend import OnednnBackend
from nacre_solvers import SGD, EarlyStopping, ValidationPerformance
from resuming import saved

VISIBLE, HIDDEN = 4, 3
CHAINS = [20_000, pytest.param(200_000, marks=pytest.mark.long)]
KINDS = [*itertools.product(["binary", "gaussian"], repeat=2)]
BACKENDS = ["numpy", *(["onednn"] if OnednnBackend.unusable() is None else [])]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def machine(visible="binary", hidden="binary", **fields):
    return [
        RBMVisibleLayer(name="vis", bottoms=["data", "hid"], tops=["vis"], units=visible, **fields),
        RBMHiddenLayer(name="hid", bottoms=["vis"], tops=["hid"], units=hidden, output_dim=HIDDEN, **fields),
    ]


def net_of(data, algorithm, *kinds, batch_size=0, backend="numpy", dtype="float64", before=(), **fields):
    """Return a net of small weights that is trained by CD."""
    source = MemoryDataLayer(name="source", tops=["data"], data=[data], batch_size=batch_size or len(data))
    layers = [source, *machine(*kinds, **fields), *before]
    net = Net("rbm", layers, backend=backend, dtype=dtype, algorithm=algorithm, keep="all")
    random = np.random.default_rng(1)
    for name, one in net.parameters.items():
        one.value = random.normal(size=one.shape) * (0.7 if name == "hid/weight" else 0.4)
    return net


def parameters(net):
    return [net.parameters[name].value for name in ("hid/weight", "vis/bias", "hid/bias")]


def gradients(net):
    return [net.parameters[name].gradient for name in ("hid/weight", "vis/bias", "hid/bias")]


def means(units, x):
    return sigmoid(x) if units == "binary" else x


def outcomes(units, mean, nodes):
    """Return all that units of a mean can be, (outcomes, units), with the probabilities; of normal ones the nodes."""
    if units == "binary":
        found = np.array([*itertools.product([0.0, 1.0], repeat=len(mean))])
        return found, np.prod(np.where(found == 1, mean, 1 - mean), axis=1)
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    found = np.array([*itertools.product(points, repeat=len(mean))]) + mean
    return found, np.prod([*itertools.product(weights / weights.sum(), repeat=len(mean))], axis=1)


def expected_update(net, record, kinds, *, sampled):
    """Return mean and variance of the CD-1 gradient of one record, from all that can be drawn."""
    (visible, hidden), (weight, b, c) = kinds, parameters(net)
    nodes = 4 if kinds == ("gaussian", "gaussian") else 8  # few are exact where means are linear
    h0 = means(hidden, weight @ record + c)
    totals = [[0.0, 0.0] for _ in range(3)]
    for drawn, chance in zip(*outcomes(hidden, h0, nodes), strict=True):
        mean = means(visible, drawn @ weight + b)
        ends, chances = outcomes(visible, mean, nodes) if sampled else (mean[None], np.ones(1))
        h1 = means(hidden, ends @ weight.T + c)
        found = [h1[:, :, None] * ends[:, None, :] - np.outer(h0, record), ends - record, h1 - h0]
        for total, one in zip(totals, found, strict=True):
            shape = (-1, *[1] * (one.ndim - 1))
            total[0] += chance * np.sum(chances.reshape(shape) * one, axis=0)
            total[1] += chance * np.sum(chances.reshape(shape) * one**2, axis=0)
    return [(mean, square - mean**2) for mean, square in totals]


def records(visible):
    random = np.random.default_rng(2)
    return random.normal(size=(4, VISIBLE)) if visible == "gaussian" else random.integers(0, 2, (4, VISIBLE)) * 1.0


@pytest.mark.parametrize("chains", CHAINS)
@pytest.mark.parametrize("sampled", [False, True], ids=["means", "sampled"])
@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_the_update_is_the_enumerated_one(kinds, sampled, chains):
    several = records(kinds[0])
    with net_of(np.tile(several, (chains // 4, 1)), CD(sample_visible=sampled), *kinds) as net:
        net.forward()
        net.backward()
        each = [expected_update(net, record, kinds, sampled=sampled) for record in several]
        for found, one in zip(gradients(net), zip(*each, strict=True), strict=True):
            mean, variance = (sum(part) / 4 for part in zip(*one, strict=True))
            assert np.all(np.abs(found - mean) <= 4 * np.sqrt(variance / chains) + 1e-12)


def distribution(net, data=()):
    """Return all visible binary vectors, and their probabilities."""
    weight, b, c = parameters(net)
    every = np.array([*itertools.product([0.0, 1.0], repeat=VISIBLE)])
    weights = np.exp(every @ b) * np.prod(1 + np.exp(every @ weight.T + c), axis=1)
    return every, weights / weights.sum()


def run(net, times):
    for step in range(times):
        net.step = step
        net.forward()
        net.advance()


@pytest.mark.parametrize("chains", [5_000, pytest.param(20_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("k", [1, 3])
def test_persistent_chains_end_in_the_distribution_of_the_machine(k, chains):
    with net_of(np.tile(records("binary"), (chains // 4, 1)), CD(k=k, persistent=True)) as net:
        run(net, 60 // k)
        _, probabilities = distribution(net)
        places = net.blob(f"vis/chain/{k}") @ [8, 4, 2, 1]
        counts = np.bincount(places.astype(int), minlength=16)
        chi_square = np.sum((counts - chains * probabilities) ** 2 / (chains * probabilities))
        assert chi_square < 37.7  # of 15 degrees of freedom; one in a thousand is above


def test_persistent_chains_of_normal_units_end_in_the_distribution_of_the_machine():
    with net_of(records("gaussian").repeat(2_000, 0), CD(persistent=True), "gaussian", "binary") as net:
        run(net, 40)
        weight, b, c = parameters(net)
        hidden = np.array([*itertools.product([0.0, 1.0], repeat=HIDDEN)])
        centres = hidden @ weight + b  # p(v) is a mixture of normal distributions around these
        chances = np.exp(hidden @ c + 0.5 * np.sum(centres**2, axis=1) - 0.5 * b @ b)
        chances /= chances.sum()
        v, mean = net.blob("vis/chain/1"), chances @ centres
        spread = 1 + chances @ centres**2 - mean**2
        assert np.all(np.abs(v.mean(0) - mean) < 4 * np.sqrt(spread / len(v)))


@pytest.mark.parametrize("chains", CHAINS)
def test_a_long_chain_follows_the_gradient_of_the_likelihood(chains):
    data = np.array([[1.0, 1, 0, 0], [1, 1, 0, 1], [0, 0, 1, 1], [1, 1, 0, 0]])
    with net_of(np.tile(data, (chains // 4, 1)), CD(k=50)) as net:
        net.forward()
        net.backward()
        weight, _, c = parameters(net)
        every, probabilities = distribution(net)

        def moments(v, chance):
            h = sigmoid(v @ weight.T + c)
            return [(h * chance[:, None]).T @ v, chance @ v, chance @ h]

        exact = [a - b for a, b in zip(moments(every, probabilities), moments(data, np.full(4, 0.25)), strict=True)]
        for one, other in zip(gradients(net), exact, strict=True):
            assert np.sum(one * other) / np.linalg.norm(one) / np.linalg.norm(other) > 0.99


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_cd_1_is_singas(kinds, backend):
    """v1 are means, hidden units are drawn once; the shared weight has its whole gradient, not half of it."""
    x = np.random.default_rng(3).random((5, VISIBLE))
    with net_of(x, CD(), *kinds, backend=backend) as net:
        weight, b, c = parameters(net)
        random = Random(net.seed, "vis", lambda: 0)
        h0 = means(kinds[1], x @ weight.T + c)
        if kinds[1] == "binary":
            uniform = np.empty(h0.shape, "float32")
            random.uniform(uniform)
            drawn = 1.0 * (uniform < h0)
        else:
            drawn = h0 + random.generator().standard_normal(h0.shape)
        v1 = means(kinds[0], drawn @ weight + b)
        h1 = means(kinds[1], v1 @ weight.T + c)
        expected = [(h1.T @ v1 - h0.T @ x) / 5, np.sum(v1 - x, axis=0) / 5, np.sum(h1 - h0, axis=0) / 5]
        solver = Solver(SGD(), algorithm=CD(), max_iter=1, lr_policy=0.5, momentum_policy=0.0, callbacks=[])
        training = solver.solve(net)
        for was, one, gradient in zip((weight, b, c), parameters(net), expected, strict=True):
            np.testing.assert_allclose(one, was - 0.5 * gradient, rtol=1e-9, atol=1e-12)
        error = np.sum((x - v1) ** 2) / 5
        assert training.loss == pytest.approx(error)
        assert training.statistics["train"]["vis"]["reconstruction_error"] == pytest.approx(error)


@pytest.mark.parametrize("hidden", ["binary", "gaussian"])
@pytest.mark.parametrize("phase", ["train", "validation"])
def test_pseudo_likelihood_is_that_of_the_numbers_drawn(phase, hidden):
    x = np.random.default_rng(4).integers(0, 2, (50, VISIBLE)) * 1.0
    with net_of(x, CD(), "binary", hidden) as trained, trained.derive(phase) as net:
        net.forward()
        weight, b, c = parameters(net)

        def free_energy(v):
            a = v @ weight.T + c
            return -v @ b - np.sum(np.log1p(np.exp(a)) if hidden == "binary" else a**2 / 2, axis=1)

        uniform = np.empty(50, "float32")
        Random(net.seed, "vis", lambda: 0).uniform(uniform, 2)
        turned = x.copy()
        place = np.arange(50), np.floor(uniform * VISIBLE).astype(int)
        turned[place] = 1 - turned[place]
        expected = np.mean(-VISIBLE * np.log1p(np.exp(free_energy(x) - free_energy(turned))))
        assert net.statistics()["vis"]["pseudo_likelihood"] == pytest.approx(expected, rel=1e-5)


def test_of_normal_visible_units_there_is_no_pseudo_likelihood():
    with net_of(records("gaussian"), CD(), "gaussian", "binary") as net:
        net.forward()
        assert set(net.statistics()["vis"]) == {"reconstruction_error"}


# The graph


def names(algorithm, phase="train"):
    net = Net("rbm", [InputLayer(tops="data", shape=VISIBLE), *machine()], algorithm=algorithm, phase=phase)
    return [f"{node.name}: {'+'.join(node.bottoms)} -> {'+'.join(node.tops)}" for node in net.wiring.nodes[1:]]


def test_the_circle_becomes_a_chain():
    start = ["vis/data: data -> vis", "hid: vis -> hid", "vis: vis+hid -> vis/1"]
    assert names(CD(), "predict") == start
    assert names(CD()) == [*start, "hid/1: vis/1 -> hid/1", "hid/contrast: vis+hid+vis/1+hid/1 -> "]
    assert names(CD(k=2))[3:] == [
        "hid/1: vis/1 -> hid/1",
        "vis/2: vis+hid/1 -> vis/2",
        "hid/2: vis/2 -> hid/2",
        "hid/contrast: vis+hid+vis/2+hid/2 -> ",
    ]
    assert sorted(names(CD(persistent=True))) == sorted(
        [
            *start,
            "vis/chain/0: vis -> vis/chain/0",
            "hid/chain/0: vis/chain/0 -> hid/chain/0",
            "vis/chain/1: vis+hid/chain/0 -> vis/chain/1",
            "hid/chain/1: vis/chain/1 -> hid/chain/1",
            "hid/contrast: vis+hid+vis/chain/1+hid/chain/1 -> ",
        ]
    )


def test_without_the_algorithm_the_circle_is_an_error_that_names_it():
    with pytest.raises(TopologyError) as caught:
        Net("rbm", [InputLayer(tops="data", shape=VISIBLE), *machine()])
    assert "the net has a cycle" in str(caught.value)
    assert 'algorithm = "CD"' in caught.value.remedy


def test_its_gradients_are_not_called_wrong():
    with net_of(records("binary"), CD()) as net, pytest.raises(ConfigError, match=r"'rbm' is trained by CD, which"):
        check_net_gradients(net)


def test_the_solver_needs_the_algorithm_of_the_net():
    with net_of(records("binary"), CD(k=2)) as net, pytest.raises(ConfigError, match="trains with BP"):
        Solver(SGD()).start(net)
    with net_of(records("binary"), CD(k=2)) as net, pytest.raises(ConfigError, match="for the algorithm CD"):
        Solver(SGD(), algorithm=CD()).start(net)


def test_visible_units_without_their_hidden_ones_are_an_error():
    source = InputLayer(tops="data", shape=VISIBLE)
    visible, _ = machine()
    other = InnerProductLayer(name="hid", bottoms=["vis"], tops=["hid"], output_dim=HIDDEN)
    with pytest.raises(TopologyError, match=r"layer 'vis' \(RBMVisible\) reads 'hid', which no RBMHidden makes"):
        Net("rbm", [source, visible, other], algorithm=CD())
    with pytest.raises(
        ConfigError, match=r"'hid' of shape \(2, 3\) has not as many images as 'data' of shape \(1, 4\)"
    ):
        Net("rbm", [source, InputLayer(tops="hid", shape=HIDDEN, batch_size=2), visible])


def test_biases_may_be_left_out():
    with net_of(records("binary"), CD(), bias=False) as net:
        net.forward()
        net.backward()
        assert list(net.parameters) == ["hid/weight"]
        assert np.all(net.parameters["hid/weight"].gradient != 0)


def test_in_other_phases_nothing_is_drawn():
    x = records("binary")
    with net_of(x, CD(k=3)) as net:
        weight, b, c = parameters(net)
        h = sigmoid(x @ weight.T + c)
        np.testing.assert_allclose(net.predict(x, "vis"), x)
        np.testing.assert_allclose(net.predict(x, "hid"), h)
        np.testing.assert_allclose(net.predict(x), sigmoid(h @ weight + b))  # by default what is reconstructed
        with net.derive("validation") as other:
            loss = other.forward_epoch()
            assert loss == pytest.approx(np.sum((x - sigmoid(h @ weight + b)) ** 2) / 4)
            assert other.statistics()["vis"]["reconstruction_error"] == pytest.approx(loss)


BELOW = [
    RBMHiddenLayer(name="below", bottoms=["x"], tops=["data"], output_dim=VISIBLE),
    InnerProductLayer(name="below", bottoms=["x"], tops=["data"], output_dim=VISIBLE, neuron="Sigmoid"),
]


@pytest.mark.parametrize("loss", [False, True], ids=["alone", "beside a loss"])
@pytest.mark.parametrize("below", BELOW, ids=["RBMHidden", "InnerProduct"])
def test_layers_below_learn_only_by_a_loss(below, loss):
    layers = [
        MemoryDataLayer(name="source", tops=["x", "t"], data=[np.eye(6), np.ones((6, 2))], batch_size=6),
        below := fresh(below),
        *machine(),
        InnerProductLayer(name="ip", bottoms=["data"], tops=["y"], output_dim=2),
        *([SquareLossLayer(name="loss", bottoms=["y", "t"])] if loss else []),
    ]
    with Net("rbm", layers, algorithm=CD()) as net:
        before = {name: one.value for name, one in net.parameters.items()}
        Solver(SGD(), algorithm=CD(), max_iter=3, lr_policy=0.1, regu_coef=0.1, callbacks=[]).solve(net)
        learned = {name for name, one in net.parameters.items() if not np.array_equal(one.value, before[name])}
        expected = {"hid/weight", "hid/bias", "vis/bias"}
        expected |= {"ip/weight", "ip/bias"} if loss else set()
        expected |= {"below/weight", "below/bias"} if loss and below.can_do_bp else set()
        assert learned == expected  # nothing else is so much as decayed


def test_a_net_of_encoders_only_cannot_be_trained():
    layers = [
        MemoryDataLayer(name="source", tops=["x", "t"], data=[np.eye(6), np.ones((6, 2))], batch_size=6),
        RBMHiddenLayer(name="code", bottoms=["x"], tops=["y"], output_dim=2),
        SquareLossLayer(name="loss", bottoms=["y", "t"]),
    ]
    with Net("encoder", layers) as net, pytest.raises(ConfigError, match="'encoder': code cannot learn by BP"):
        Solver(SGD()).start(net)


def test_a_frozen_half_stays_as_it_is():
    with net_of(records("binary"), CD()) as net:
        net.freeze("hid")
        before = parameters(net)
        Solver(SGD(), algorithm=CD(), max_iter=2, lr_policy=0.1, regu_coef=0.1, callbacks=[]).solve(net)
        same = [np.array_equal(one, other) for one, other in zip(parameters(net), before, strict=True)]
        assert same == [True, False, True]


@pytest.mark.parametrize("algorithm", [CD(), CD(k=2, persistent=True)], ids=["CD-1", "persistent"])
def test_whole_numbers_are_data_like_others(algorithm):
    found = []
    for dtype in ("uint8", "bool", "float32"):
        with net_of(records("binary").astype(dtype), algorithm, dtype="float32") as net:
            training = Solver(SGD(), algorithm=algorithm, max_iter=3, lr_policy=0.1, callbacks=[]).solve(net)
            found.append([*parameters(net), training.loss, *training.statistics["train"]["vis"].values()])
    for other in found[1:]:
        for one, there in zip(found[0], other, strict=True):
            np.testing.assert_allclose(one, there, rtol=1e-6)


def test_a_machine_in_a_container_has_its_full_names():
    layers = [
        MemoryDataLayer(name="source", tops=["data"], data=[records("binary")], batch_size=4),
        SequentialLayer(name="rbm", bottoms=["data"], tops=["hid"], layer=machine()),
    ]
    with Net("net", layers, algorithm=CD(k=2)) as net:
        Solver(SGD(), algorithm=CD(k=2), max_iter=2, lr_policy=0.1, callbacks=[]).solve(net)
        assert set(net.parameters) == {"rbm/hid/weight", "rbm/hid/bias", "rbm/vis/bias"}
        assert net.predict(records("binary")).shape == (4, HIDDEN)


# Training


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("algorithm", [CD(), CD(k=2), CD(persistent=True)], ids=["CD-1", "CD-2", "persistent"])
def test_a_resumed_training_is_bitwise_the_same(algorithm, backend):
    data = np.random.default_rng(5).integers(0, 2, (24, VISIBLE)) * 1.0

    def trained(iterations, snapshot=None):
        solver = Solver(SGD(), algorithm=algorithm, max_iter=20, lr_policy=0.1, momentum_policy=0.5, callbacks=[])
        net = net_of(data, algorithm, batch_size=4, backend=backend, dtype="float32")
        with net, solver.start(net) as training:
            if snapshot is not None:
                training.restore(snapshot)
            for _ in range(iterations):
                training.step()
            return saved(training), [one.tobytes() for one in parameters(net)]

    half, _ = trained(5)
    assert trained(5, half)[1] == trained(10)[1]


def test_backends_compute_the_same():
    data = np.random.default_rng(5).integers(0, 2, (24, VISIBLE)) * 1.0
    found = []
    for backend in BACKENDS:
        with net_of(data, CD(k=2, persistent=True), batch_size=4, backend=backend) as net:
            solver = Solver(SGD(), algorithm=CD(k=2, persistent=True), max_iter=10, lr_policy=0.1, callbacks=[])
            solver.solve(net)
            found.append(parameters(net))
    for other in found[1:]:
        for one, there in zip(found[0], other, strict=True):
            np.testing.assert_allclose(one, there, rtol=1e-12)


def test_a_second_forward_does_not_move_the_chains_and_they_begin_at_the_data():
    x = records("binary")
    with net_of(x, CD(persistent=True)) as net:
        for _ in range(2):
            net.forward()
            np.testing.assert_array_equal(net.blob("vis/chain/0"), x)
        end = net.blob("vis/chain/1")
        net.advance()
        net.forward()
        np.testing.assert_array_equal(net.blob("vis/chain/0"), end)
        net.rewind()
        net.forward()
        np.testing.assert_array_equal(net.blob("vis/chain/0"), x)


def test_chains_of_another_number_begin_with_the_data_and_say_so():
    algorithm = CD(persistent=True)
    solver = Solver(SGD(), algorithm=algorithm, max_iter=9, lr_policy=0.1, callbacks=[])
    data = np.tile(records("binary"), (3, 1))
    with net_of(data, algorithm, batch_size=4) as net, solver.start(net) as training:
        training.step()
        snapshot = saved(training)
    reports = []
    net = net_of(data, algorithm, batch_size=6)
    with net, solver.start(net, [lambda event, facts: reports.append(facts.get("message", ""))]) as training:
        training.restore(snapshot)
        training.step()
        np.testing.assert_array_equal(net.blob("vis/chain/0"), net.blob("vis"))
    said = "vis: the persistent chains of the snapshot have the shape (4, 4), but here it is (6, 4), so they begin"
    assert any(said in message for message in reports)


NET_FILE = """
name = "rbm"
[[layer]]
type = "RandomNormal"
tops = ["data"]
output_dims = 4
batch_size = 8
[[layer]]
type = "RBMVisible"
bottoms = ["data", "hid"]
tops = ["vis"]
units = "gaussian"
[[layer]]
type = "RBMHidden"
bottoms = ["vis"]
tops = ["hid"]
output_dim = 3
[solver]
type = "SGD"
max_iter = 3
algorithm = { type = "CD", k = 2, persistent = true }
"""


def test_callbacks_follow_its_statistics():
    data = np.random.default_rng(5).integers(0, 2, (24, VISIBLE)) * 1.0
    callbacks = [
        ValidationPerformance(every_n_iter=2),
        EarlyStopping(statistic="vis/pseudo_likelihood", higher_better=True, patience=100),
    ]
    with net_of(data, CD(), batch_size=4) as net:
        training = Solver(SGD(), algorithm=CD(), max_iter=4, lr_policy=0.1, callbacks=callbacks).solve(net)
        history = training.history["validation"]
        assert history["vis/reconstruction_error"] == pytest.approx(history["loss"])
        assert {name.partition("/")[0] for name in history} == {"iteration", "epoch", "loss", "vis"}


def test_a_net_file_has_the_algorithm_in_its_solver(tmp_path):
    path = tmp_path / "rbm.toml"
    path.write_text(NET_FILE)
    file = load(path)
    with file.net() as net:
        assert file.solver().solve(net).iteration == 3
