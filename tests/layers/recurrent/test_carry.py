"""The state that goes from batch to batch: when it advances, when it begins anew, and that it survives a restart."""

import numpy as np
import pytest

from nacre import DataError, InputLayer, Net, NotFiniteError, Solver
from nacre.testing.close import assert_close
from nacre.testing.trial import ProbeLayer
from nacre_data import MemoryDataLayer
from nacre_layers import GRULayer, InnerProductLayer, LSTMLayer, RNNLayer, SquareLossLayer
from nacre_solvers import SGD

LAYERS = [RNNLayer, GRULayer, LSTMLayer]
each = pytest.mark.parametrize("cls", LAYERS)


def stream(records=12, steps=4, seed=0):
    return np.random.default_rng(seed).normal(size=(records, steps, 2))


def carrying(cls=LSTMLayer, **fields):
    layers = [
        InputLayer(tops="x", shape=(4, 2), batch_size=3),
        cls(**{"name": "rnn", "bottoms": "x", "tops": "y", "output_dim": 5, "carry": True, **fields}),
        ProbeLayer(name="loss", bottoms="y"),
    ]
    return Net("n", layers, backend="numpy", dtype="float64", seed=3)


def run(net, x):
    net.write("x", x)
    net.forward()
    return net.blob("y")


@each
@pytest.mark.parametrize("n_layer", [1, 2])
def test_batches_continue_each_other(cls, n_layer):
    x = stream()
    layers = [
        InputLayer(tops="x", shape=(16, 2), batch_size=3),
        cls(name="rnn", bottoms="x", tops="y", output_dim=5, n_layer=n_layer),
    ]
    with carrying(cls, n_layer=n_layer) as net, Net("whole", layers, backend="numpy", dtype="float64", seed=3) as whole:
        expected = run(whole, np.concatenate(np.split(x, 4), axis=1))
        for part in range(4):
            found = run(net, x[3 * part :][:3])
            assert_close(run(net, x[3 * part :][:3]), found, "the second forward on a batch", 0.0)
            assert_close(found, expected[:, 4 * part :][:, :4])
            net.advance()
        net.rewind()
        assert_close(run(net, x[:3]), expected[:, :4])


def test_a_sequence_that_begins_forgets_the_carried_state():
    layers = [
        InputLayer(tops="x", shape=(4, 2), batch_size=3),
        InputLayer(tops="cont", shape=4, batch_size=3),
        LSTMLayer(name="rnn", bottoms=["x", "cont"], tops="y", output_dim=5, carry=True, sequences="cont"),
    ]
    with Net("n", layers, backend="numpy", dtype="float64") as net:
        cont = np.ones((3, 4))
        net.write("cont", cont)
        first = run(net, stream(3))
        net.advance()
        cont[1, 0] = 0
        net.write("cont", cont)
        second = run(net, stream(3))
        assert_close(second[1], first[1], tolerance=0.0)
        assert np.abs(second[[0, 2]] - first[[0, 2]]).max() > 1e-3


def training_layers(x, cls=LSTMLayer):
    target = np.random.default_rng(1).normal(size=(len(x), 4, 1))
    return [
        MemoryDataLayer(name="data", tops=["x", "t"], data=[x, target], batch_size=3, exclude=["validation"]),
        MemoryDataLayer(name="held", tops=["x", "t"], data=[x, target], batch_size=3, exclude=["train"]),
        cls(name="rnn", bottoms="x", tops="y", output_dim=5, carry=True),
        InnerProductLayer(name="out", bottoms="y", tops="o", output_dim=1, axis=-1),
        SquareLossLayer(name="loss", bottoms=["o", "t"]),
    ]


def solver(**fields):
    return Solver(SGD(), **{"lr_policy": 0.1, "momentum_policy": 0.9, "max_iter": 9, **fields})


def values(net):
    return {name: one.value for name, one in net.parameters.items()}


@each
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_resumed_training_is_the_same_bit_for_bit(cls, dtype):
    nets = [Net("n", training_layers(stream(), cls), backend="numpy", dtype=dtype, seed=1) for _ in range(3)]
    whole, first, second = nets
    with solver().start(whole) as training:
        for _ in range(9):
            training.step()
    with solver().start(first) as training:
        for _ in range(5):
            training.step()
        snapshot = training.snapshot()
    with solver().start(second) as training:
        training.restore(snapshot)
        for _ in range(4):
            training.step()
    for name, value in values(whole).items():
        assert np.array_equal(value, values(second)[name]), name
    for net in nets:
        net.shutdown()


def test_without_the_carried_state_it_would_not_be_the_same():
    """So that the test above could fail."""
    with Net("n", training_layers(stream()), backend="numpy", seed=1) as net, solver().start(net) as training:
        training.step()
        state = net.node_ops["rnn"].state
        assert all(one.any() for one in state.memory().values())
        loss = net.forward()
        net.rewind()
        assert abs(net.forward() - loss) > 0


def test_several_batches_of_an_iteration_continue_each_other():
    x = stream()
    with (
        Net("one", training_layers(x), backend="numpy", dtype="float64", seed=1) as one,
        Net("two", training_layers(x), backend="numpy", dtype="float64", seed=1) as two,
        solver(lr_policy=0.0).start(one) as single,
        solver(lr_policy=0.0, n_accumulate=4).start(two) as several,
    ):
        losses = []
        for _ in range(4):
            single.step()
            losses.append(single.loss)
        several.step()
        assert several.loss == pytest.approx(np.mean(losses), rel=1e-14)
        ours, theirs = (net.node_ops["rnn"].state.memory() for net in (one, two))
        for name, state in ours.items():
            assert np.array_equal(state, theirs[name])


def test_an_iteration_that_fails_does_not_advance():
    x = stream()
    x[3:6] = np.inf
    with Net("n", training_layers(x), backend="numpy", seed=1) as net, solver().start(net) as training:
        training.step()
        before = net.node_ops["rnn"].state.memory()
        with pytest.raises(NotFiniteError), np.errstate(all="ignore"):
            training.step()
        after = net.node_ops["rnn"].state.memory()
        assert all(np.array_equal(before[name], after[name]) for name in before)


def test_each_pass_of_validation_and_each_prediction_begins_anew():
    x = stream()
    with Net("n", training_layers(x), backend="numpy", dtype="float64", seed=1) as net:
        with net.derive("validation") as validation:
            first = validation.forward_epoch()
            assert validation.forward_epoch() == first
        assert not any(one.any() for one in net.node_ops["rnn"].state.memory().values())
        whole = net.predict(x, "y")
        assert np.array_equal(net.predict(x, "y"), whole)
        assert_close(net.predict(x[:3], "y"), whole[:3], tolerance=0.0)
        alone = np.concatenate([net.predict(one, "y") for one in np.split(x, 4)])
        assert np.abs(alone - whole)[3:].max() > 1e-3  # within a call batches continue each other


def test_on_another_number_of_sequences_it_begins_with_zero_and_says_so():
    with carrying() as net:
        run(net, stream(3))
        net.advance()
        state = net.node_ops["rnn"].state
        memory = {name: one[:2] for name, one in state.memory().items()}
        assert "rnn: the carried state of the snapshot has the shape (2, 1, 5)" in (state.remember(memory) or "")
        assert not any(one.any() for one in state.memory().values())


def test_a_batch_that_cannot_be_read_does_not_advance():
    layers = [
        InputLayer(tops="x", shape=(4, 2), batch_size=3),
        InputLayer(tops="n", shape=(), batch_size=3),
        GRULayer(name="rnn", bottoms=["x", "n"], tops="y", output_dim=5, carry=True, sequences="lengths"),
        ProbeLayer(name="loss", bottoms="y"),
    ]
    with Net("n", layers, backend="numpy") as net, solver().start(net) as training:
        net.write("x", stream(3))
        net.write("n", [4, 4, 4])
        training.step()
        before = net.node_ops["rnn"].state.memory()["hidden"]
        assert before.any()
        net.write("n", [4, 9, 4])
        with pytest.raises(DataError):
            training.step()
        assert np.array_equal(net.node_ops["rnn"].state.memory()["hidden"], before)
