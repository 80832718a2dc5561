"""RNN, GRU and LSTM: against loops over every sequence and step, and against PyTorch's modules."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from forging import trials
from nacre import ConfigError, DataError, InputLayer, Net
from nacre.testing.trial import Example, ProbeLayer, without_kernels
from nacre_layers.recurrent.gru import GRULayer
from nacre_layers.recurrent.lstm import LSTMLayer
from nacre_layers.recurrent.rnn import RNNLayer


def lengths(*values):
    return np.array(values)


def starts(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 2, shape)


def step(lib, layer, x, states, weights):
    """Compute the next states of one sequence: of NumPy's arrays or PyTorch's tensors."""

    def sigma(value):
        return 1 / (1 + lib.exp(-value))

    def parts(value, count):
        return [value[place * layer.output_dim : (place + 1) * layer.output_dim] for place in range(count)]

    h = states[0]
    from_x = weights["weight_ih"] @ x + weights.get("bias_ih", 0)
    hidden_bias = weights.get("bias_hh", 0 * from_x)
    from_h = weights["weight_hh"] @ h + hidden_bias
    if type(layer) is RNNLayer:
        total = from_x + from_h
        return [lib.tanh(total) if layer.activation == "Tanh" else total * (total > 0)]
    if type(layer) is GRULayer:
        (r, z, n), (hr, hz, hn) = parts(from_x, 3), parts(from_h, 3)
        r, z = sigma(r + hr), sigma(z + hz)
        if layer.reset_gate == "before":
            hn = parts(weights["weight_hh"], 3)[2] @ (r * h) + parts(hidden_bias, 3)[2]
            n = lib.tanh(n + hn)
        else:
            n = lib.tanh(n + r * hn)
        return [(1 - z) * n + z * h]
    c = states[1]
    i, f, g, o = parts(from_x + from_h, 4)
    peephole = weights.get("peephole", [0, 0, 0])
    i, f = sigma(i + peephole[0] * c), sigma(f + peephole[1] * c)
    c = f * c + i * lib.tanh(g)
    h = sigma(o + peephole[2] * c) * lib.tanh(c)
    return [weights["weight_hr"] @ h if "weight_hr" in weights else h, c]


def by_loops(lib, layer, inputs, parameters):
    """Compute the tops, one sequence and one step after the other."""
    told = layer.sequences != "full"
    x, *first = inputs[0], *inputs[1 + told :]
    if layer.time_major:
        x = lib.stack([x[:, n] for n in range(x.shape[1])])
    images, steps = x.shape[:2]
    directions = len(layer.directions)
    count = [steps] * images
    begins = np.zeros((images, steps), bool)
    if layer.sequences == "lengths":
        count = [int(one) for one in np.asarray(inputs[1]).reshape(-1)]
    if layer.sequences == "cont":
        begins = np.asarray(inputs[1]) == 0
        begins = begins.T if layer.time_major else begins
    tops, lasts = [], [[] for _ in layer.state_sizes]
    for n in range(images):
        values = [x[n, t] for t in range(count[n])]
        ends = [[] for _ in layer.state_sizes]
        for number in range(layer.n_layer):
            found = []
            for place, backward in enumerate(layer.directions):
                index, suffix = number * directions + place, f"_l{number}" + "_reverse" * backward
                weights = {
                    key.removesuffix(suffix): one
                    for key, one in parameters.items()
                    if key.endswith(suffix) and (backward or not key.endswith("_reverse"))
                }
                zeros = [0 * lib.stack([x[n, 0, 0]] * size) for size in layer.state_sizes]
                states = [one[n].reshape(-1, one.shape[-1])[index] for one in first] or zeros
                outputs = [None] * count[n]
                for t in range(count[n])[:: -1 if backward else 1]:
                    if begins[n, t] if not backward else t + 1 < steps and begins[n, t + 1]:
                        states = zeros
                    states = step(lib, layer, values[t], states, weights)
                    outputs[t] = states[0]
                found.append(outputs)
                for some, state in zip(ends, states, strict=True):
                    some.append(state)
            values = [lib.concatenate([one[t] for one in found]) for t in range(count[n])]
        nothing = 0 * lib.stack([x[n, 0, 0]] * (layer.size * directions))
        tops.append(lib.stack(values + [nothing] * (steps - count[n])))
        for some, one in zip(lasts, ends, strict=True):
            some.append(lib.stack(one) if len(one) > 1 else one[0])
    top = lib.stack(tops)
    if layer.time_major:
        top = lib.stack([top[:, t] for t in range(steps)])
    return [top, *(lib.stack(one) for one in lasts)][: len(layer.tops)]


def by_torch(layer, inputs, parameters):
    """Compute the tops by PyTorch's module; None if it has no such options."""
    import torch

    odd = layer.direction == "backward" or layer.sequences == "cont" or (layer.bias and not layer.hidden_bias)
    if odd or getattr(layer, "peepholes", False) or getattr(layer, "reset_gate", "after") == "before":
        return None
    told = layer.sequences == "lengths"
    if told and not inputs[1].all():
        return None
    options: dict[str, Any] = {"proj_size": layer.projection} if type(layer) is LSTMLayer else {}
    if type(layer) is RNNLayer:
        options["nonlinearity"] = layer.activation.lower()
    kind = getattr(torch.nn, type(layer).__name__.removesuffix("Layer"))
    features = inputs[0].shape[2]
    both = layer.direction == "both"
    module = kind(
        features,
        layer.output_dim,
        layer.n_layer,
        bias=layer.bias,
        batch_first=not layer.time_major,
        bidirectional=both,
        **options,
    ).double()
    assert {name for name, _ in module.named_parameters()} == set(parameters)
    x = inputs[0]
    if told:
        pack = torch.nn.utils.rnn.pack_padded_sequence
        x = pack(x, inputs[1].reshape(-1), batch_first=not layer.time_major, enforce_sorted=False)
    first = [one.reshape(one.shape[0], -1, one.shape[-1]).transpose(0, 1).contiguous() for one in inputs[1 + told :]]
    given = [x, *([] if not first else first if len(first) == 1 else [tuple(first)])]
    top, last = torch.func.functional_call(module, parameters, tuple(given))
    if told:
        steps = inputs[0].shape[0 if layer.time_major else 1]
        unpack = torch.nn.utils.rnn.pad_packed_sequence
        top, _ = unpack(top, batch_first=not layer.time_major, total_length=steps)
    lasts = [one.transpose(0, 1) for one in (last if isinstance(last, tuple) else [last])]
    several = layer.n_layer * len(layer.directions) > 1
    return [top, *(one if several else one[:, 0] for one in lasts)][: len(layer.tops)]


class Recurrent:
    """What the tests of the three layers have in common."""

    states = 1
    entries = trials(4, 12)  # of each gradient of up to 20; test_agreement compares them whole
    coarse = 3e-5
    gradient = 1e-10

    def reference(self, layer, inputs, parameters):
        return by_loops(np, layer, inputs, parameters)

    def in_torch(self, layer, inputs, parameters):
        import torch

        found = by_torch(layer, inputs, parameters)
        return by_loops(torch, layer, inputs, parameters) if found is None else found

    def parameter(self, name, parameter, random):
        return random.uniform(-0.6, 0.6, parameter.shape)

    def whole(self, fields, shape, told=None, *, first=False, last=False, label=""):
        """Return an example, with the shapes of its first states."""
        images = shape[1] if fields.get("time_major") else shape[0]
        several = fields.get("n_layer", 1) * (2 if fields.get("direction") == "both" else 1)
        sizes = [fields.get("projection") or fields["output_dim"], fields["output_dim"]][: self.states]
        inputs = [shape, *([] if told is None else [told])]
        inputs += [(images, several, size) if several > 1 else (images, size) for size in sizes if first]
        wanted = tuple(place for place, one in enumerate(inputs) if isinstance(one, tuple))
        return Example(fields, inputs, tops=1 + last * self.states, wanted=wanted, label=label)

    def examples(self):
        yield self.whole({"output_dim": 3}, (4, 5, 2))
        yield self.whole({"output_dim": 2, "bias": False}, (3, 4, 3), first=True, last=True, label="first and last")
        deep = {"output_dim": 2, "n_layer": 2, "direction": "both", "sequences": "lengths"}
        yield self.whole(deep, (4, 5, 2), lengths(3, 5, 1, 3), first=True, last=True, label="deep, both ways, lengths")
        yield self.whole({"output_dim": 2, "direction": "backward"}, (3, 1, 2), last=True, label="backward, one step")
        cont = {"output_dim": 2, "sequences": "cont", "hidden_bias": False}
        yield self.whole(cont, (3, 6, 2), starts(3, 6), first=True, last=True, label="cont")
        major = {"output_dim": 2, "sequences": "cont", "time_major": True, "direction": "both"}
        yield self.whole(major, (4, 3, 2), starts(4, 3), label="time major, both ways, cont")

    def more(self):
        """Return a strategy of the layer's own fields."""
        return st.just({})

    def strategy(self):
        def build(fields, more, shape, told, seed, first, last):
            random = np.random.default_rng(seed)
            images, steps = shape[:2]
            fields = {**fields, **more, "sequences": told}
            if fields["time_major"]:
                shape = (steps, images, shape[2])
            numbers = {"full": None, "lengths": random.integers(0, steps + 1, images)}
            numbers["cont"] = random.integers(0, 2, shape[:2])
            return self.whole(fields, shape, numbers[told], first=first, last=last)

        small = st.integers(1, 4)
        fields = st.fixed_dictionaries(
            {
                "output_dim": st.integers(2, 4),
                "n_layer": st.integers(1, 2),
                "direction": st.sampled_from(["forward", "backward", "both"]),
                "bias": st.booleans(),
                "hidden_bias": st.booleans(),
                "time_major": st.booleans(),
            }
        )
        told = st.sampled_from(["full", "lengths", "cont"])
        shape = st.tuples(small, small, small)
        return st.builds(build, fields, self.more(), shape, told, st.integers(0, 99), st.booleans(), st.booleans())


class TestRNN(Recurrent, Agreement):
    layer = RNNLayer

    def examples(self):
        yield from super().examples()
        yield self.whole({"output_dim": 3, "activation": "ReLU"}, (4, 3, 2), label="ReLU")

    def more(self):
        return st.just({"activation": "Tanh"})


class TestGRU(Recurrent, Agreement):
    layer = GRULayer

    def examples(self):
        yield from super().examples()
        yield self.whole({"output_dim": 3, "reset_gate": "before"}, (4, 3, 2), label="reset before")
        before = {"output_dim": 3, "reset_gate": "before", "sequences": "lengths"}
        yield self.whole(before, (4, 3, 2), lengths(2, 1, 3, 2), first=True, last=True, label="before, lengths")

    def more(self):
        return st.fixed_dictionaries({"reset_gate": st.sampled_from(["before", "after"])})


class TestLSTM(Recurrent, Agreement):
    layer = LSTMLayer
    states = 2

    def examples(self):
        yield from super().examples()
        rich = {"output_dim": 3, "peepholes": True, "projection": 2}
        yield self.whole(rich, (4, 3, 2), last=True, label="peepholes, projection")
        rich = {**rich, "sequences": "lengths", "direction": "both", "n_layer": 2}
        yield self.whole(rich, (4, 3, 2), lengths(2, 1, 3, 3), first=True, last=True, label="all of it, lengths")
        rich = {**rich, "sequences": "cont"}
        yield self.whole(rich, (3, 4, 2), starts(3, 4), first=True, last=True, label="all of it, cont")

    def more(self):
        return st.fixed_dictionaries({"peepholes": st.booleans(), "projection": st.integers(0, 1)})


# Known numbers, wrong fields, and memory


@pytest.mark.parametrize("reset", ["after", "before"])
def test_golden_numbers(reset):
    """Of SINGA's formula; with a state of one number both forms are the same."""
    layers = [
        InputLayer(tops="x", shape=(1, 2), batch_size=1),
        InputLayer(tops="h0", shape=1, batch_size=1),
        GRULayer(name="gru", bottoms=["x", "h0"], tops="h", output_dim=1, bias=False, reset_gate=reset),
    ]
    with Net("golden", layers, backend="numpy", dtype="float64") as net:
        z, r, c = [0.1, 0.2], [0.3, -0.1], [-0.2, 0.4]
        net.parameters["gru/weight_ih_l0"].value = np.array([r, z, c])
        net.parameters["gru/weight_hh_l0"].value = np.array([[0.6], [0.5], [0.7]])
        net.write("x", [[[1, -1]]])
        net.write("h0", [[0.5]])
        net.forward()
        assert net.blob("h").item() == pytest.approx(0.10653515, abs=1e-8)


def net_of(cls=LSTMLayer, shapes=((5, 2),), phase: Any = "train", images=3, **fields):
    names = [f"x{place}" for place in range(len(shapes))]
    sources = [InputLayer(tops=name, shape=one, batch_size=images) for name, one in zip(names, shapes, strict=True)]
    layer = cls(**{"name": "rnn", "bottoms": names, "tops": "y", "output_dim": 4, **fields})
    with without_kernels():
        return Net("n", [*sources, layer, ProbeLayer(name="loss", bottoms="y")], backend="numpy", phase=phase)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"output_dim": 0}, "rnn: output_dim=0, but it must be above 0"),
        ({"direction": "up"}, "rnn: direction='up'"),
        ({"projection": 4}, "rnn: projection=4, but it must be below output_dim=4"),
        ({"bottoms": ["x0", "h"]}, r"rnn: bottoms=\('x0', 'h'\), but they must be the sequences, and perhaps 2 "),
        ({"sequences": "cont"}, r"rnn: bottoms=\('x0',\), but they must be the sequences, cont, and perhaps 2 "),
        ({"tops": ["y", "h"]}, "rnn: tops=.*, but there must be 1, or 3 with the last states"),
        ({"carry": True, "bottoms": ["x0", "h", "c"]}, "rnn: carry=True, but bottoms have the first states"),
        ({"carry": True, "direction": "both"}, "rnn: carry=True, but direction='both' begins with the last step"),
        ({"shapes": [(5,)]}, r"rnn: bottom 'x0' has the shape \(3, 5\), but must be \(images, steps, features\)"),
        (
            {"shapes": [(5, 2), 4], "sequences": "lengths"},
            r"rnn: bottom 'x1' .*\(3, 4\), but must be \(3,\) or \(3, 1\)",
        ),
        ({"shapes": [(5, 2), 5, 4, 3], "sequences": "cont"}, r"rnn: bottom 'x3' .*\(3, 3\), but must be \(3, 4\) "),
    ],
)
def test_wrong_fields_and_shapes(fields, words):
    with pytest.raises(ConfigError, match=words):
        net_of(**fields)


@pytest.mark.parametrize(
    ("sequences", "shape", "value", "most"),
    [("lengths", (), 6, 5), ("lengths", (), -1, 5), ("lengths", (), 2.5, 5), ("cont", 5, np.nan, 1), ("cont", 5, 2, 1)],
)
def test_wrong_lengths_and_starts(sequences, shape, value, most):
    with net_of(shapes=((5, 2), shape), sequences=sequences) as net:
        told = np.ones(net.memory.final["x1"].shape)
        told[1] = value
        net.write("x1", told)
        with pytest.raises(DataError, match=f"rnn: 'x1' has .* for record 1 .*from 0 to {most}"):
            net.forward()


def test_rows_that_are_not_real_may_have_any_length():
    with net_of(shapes=((5, 2), ()), sequences="lengths") as net:
        net.write("x1", np.array([2.0, 5.0]))
        net.feed()
        net.node_ops["rnn"].input_arrays[1][2] = np.nan
        net._passes.calls["forward"]()
        assert not net.blob("y")[2].any()


@pytest.mark.parametrize("cls", [RNNLayer, GRULayer, LSTMLayer])
def test_what_lies_behind_a_length_has_no_influence(cls):
    with net_of(cls, ((5, 2), ()), sequences="lengths", direction="both", n_layer=2) as net:
        found = []
        for behind in (np.nan, 7.0):  # the one after the NaN must not remember it
            x = np.arange(30.0).reshape(3, 5, 2) / 30
            x[0, 2:] = x[1, 4:] = behind
            net.write("x0", x)
            net.write("x1", np.array([2.0, 4.0, 5.0]))
            net.forward()
            net.backward()
            found.append([net.blob("y"), *(one.gradient for one in net.parameters.values())])
        for one, other in zip(*found, strict=True):
            assert np.isfinite(one).all()
            assert np.array_equal(one, other)
        assert not found[0][0][0, 2:].any()


@pytest.mark.parametrize("cls", [RNNLayer, GRULayer, LSTMLayer])
@pytest.mark.parametrize("direction", ["forward", "both"])
@pytest.mark.parametrize("phase", ["train", "test"])
def test_longer_sequences_of_another_batch_are_forgotten(cls, direction, phase):
    with net_of(cls, ((5, 2), ()), phase, sequences="lengths", direction=direction) as net:
        found = []
        for told in ([2.0, 4.0, 5.0], [5.0, 5.0, 5.0], [2.0, 4.0, 5.0]):
            net.write("x0", np.arange(30.0).reshape(3, 5, 2) / 30)
            net.write("x1", np.array(told))
            net.forward()
            if phase == "train":
                net.backward()
            found.append([net.blob("y"), *(one.gradient for one in net.parameters.values() if phase == "train")])
        for one, other in zip(found[0], found[2], strict=True):
            assert np.array_equal(one, other)
        assert not found[2][0][0, 2:].any()


@pytest.mark.parametrize("cls", [RNNLayer, GRULayer, LSTMLayer])
@pytest.mark.parametrize("phase", ["train", "test"])
def test_a_step_allocates_nothing(cls, phase):
    with net_of(cls, ((10, 32),), phase, 64, output_dim=512) as net:
        net.write("x0", np.ones((64, 10, 32)))
        net.forward()
        names = ("forward", "backward") if phase == "train" else ("forward",)
        run = net.compile([one for name in names for one in net.steps(name) if one.name == "rnn"])
        run()
        tracemalloc.start()
        try:
            run()
            # a state has 131072 bytes; Python itself needs some for each thread
            assert tracemalloc.get_traced_memory()[1] < 100_000
        finally:
            tracemalloc.stop()


def test_each_gate_has_first_values_of_its_own():
    with net_of(shapes=((5, 4),)) as net:
        blocks = net.parameters["rnn/weight_hh_l0"].value.reshape(4, 4, 4)
        for block in blocks:
            np.testing.assert_allclose(block @ block.T, np.eye(4), atol=1e-6)
        inputs = net.parameters["rnn/weight_ih_l0"].value
        assert np.abs(inputs).max() <= np.sqrt(6 / 8)  # Xavier's bound for one gate
        assert len(np.unique(np.concatenate([blocks.ravel(), inputs.ravel()]))) == 128
