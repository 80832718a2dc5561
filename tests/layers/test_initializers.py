"""Initializers: the first values of parameters."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import ConfigError, InputLayer, Net, SnapshotError, registry
from nacre.random import Random
from nacre.snapshots.snapshot import Snapshot
from nacre.testing.close import assert_close
from nacre_data.hdf5_store import HDF5Store
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.initializers import (
    Bilinear,
    Constant,
    Gaussian,
    GaussianSqrtFanIn,
    He,
    Orthogonal,
    PositiveUnitball,
    Pretrained,
    Uniform,
    UniformSqrtFanIn,
    UniformSqrtFanInOut,
    Xavier,
    XavierFanIn,
)
from nacre_layers.linear.inner_product import InnerProductLayer

ANY_SHAPE = [Uniform(low=-1, high=3), Gaussian(mean=2, std=0.5), Xavier(), XavierFanIn(), He(), PositiveUnitball()]
MATRICES = [Orthogonal(), GaussianSqrtFanIn(), UniformSqrtFanIn(), UniformSqrtFanInOut()]
RANDOM = [*ANY_SHAPE, *MATRICES]
ALL = [Constant(value=0.5), *RANDOM]


def values(initializer, shape, *, seed=0, name="ip/weight"):
    return initializer.values(Random(seed, name, lambda: 0), shape)


@pytest.mark.parametrize(
    ("initializer", "mean", "std", "low", "high"),
    [
        (Uniform(low=-1, high=3), 1, 4 / math.sqrt(12), -1, 3),
        (Gaussian(mean=2, std=0.5), 2, 0.5, -math.inf, math.inf),
        (Xavier(), 0, math.sqrt(2 / 600), -0.1, 0.1),  # fan-in 400, fan-out 200: limit sqrt(6 / 600)
        (XavierFanIn(), 0, math.sqrt(1 / 400), -math.sqrt(3 / 400), math.sqrt(3 / 400)),
        (Xavier(fan="out", gain=2), 0, math.sqrt(4 / 200), -math.sqrt(12 / 200), math.sqrt(12 / 200)),
        (Xavier(normal=True), 0, math.sqrt(1 / 300), -math.inf, math.inf),
        (He(), 0, math.sqrt(2 / 400), -math.inf, math.inf),
        (He(fan="average", normal=False), 0, math.sqrt(2 / 300), -math.sqrt(6 / 300), math.sqrt(6 / 300)),
        (He(fan="out", slope=2), 0, math.sqrt(2 / 5 / 200), -math.inf, math.inf),
        (GaussianSqrtFanIn(mean=1, std=2, value=3), 3 / 20, 6 / 20, -math.inf, math.inf),
        (UniformSqrtFanIn(low=0, value=2), math.sqrt(3) / 20, 1 / 20, 0, 2 * math.sqrt(3) / 20),
        (UniformSqrtFanInOut(value=6**0.5), 0, math.sqrt(2 / 600), -0.1, 0.1),  # as Xavier
        (Orthogonal(gain=3), 0, 3 / 20, -math.inf, math.inf),  # 200 rows of length 3
        (PositiveUnitball(), 1 / 400, 1 / 400 / math.sqrt(3), 0, 1),
    ],
)
def test_statistics(initializer, mean, std, low, high):
    drawn = values(initializer, (200, 400))
    assert abs(drawn.mean() - mean) < 5 * std / math.sqrt(drawn.size)
    assert drawn.std() == pytest.approx(std, rel=0.02)
    assert drawn.min() >= low and drawn.max() <= high
    if math.isfinite(high) and not isinstance(initializer, PositiveUnitball):  # and the ends are reached
        assert drawn.max() > high - 0.01 * (high - low) and drawn.min() < low + 0.01 * (high - low)


@settings(derandomize=True, max_examples=30, database=None)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=5).map(tuple))
def test_the_fans_of_a_convolution_count_its_window(shape):
    window = math.prod(shape[2:])
    fan_in, fan_out = shape[1] * window, shape[0] * window
    uniform = 2 * Random(0, "w", lambda: 0).generator().random(shape) - 1
    assert_close(values(Xavier(), shape, name="w"), uniform * math.sqrt(6 / (fan_in + fan_out)))
    assert_close(values(XavierFanIn(), shape, name="w"), uniform * math.sqrt(3 / fan_in))


@pytest.mark.parametrize(
    ("initializer", "shape"),
    [
        *itertools.product(ALL, [(3, 2), (2, 3, 2, 2)]),
        *((initializer, (4,)) for initializer in ALL if initializer not in MATRICES),
    ],
    ids=repr,
)
def test_values_are_float64_of_the_shape(initializer, shape):
    drawn = values(initializer, shape)
    assert drawn.shape == shape and drawn.dtype == np.float64


@pytest.mark.parametrize("initializer", MATRICES, ids=repr)
def test_a_vector_is_no_matrix(initializer):
    with pytest.raises(ConfigError, match=r"\(4,\) .* 2 "):
        values(initializer, (4,))


FANS = {"in": "fan_in", "out": "fan_out"}


@pytest.mark.parametrize("shape", [(300, 200), (40, 30, 3, 5)])
@pytest.mark.parametrize("fan", ["in", "out"])
@pytest.mark.parametrize("slope", [0, 0.5])
def test_he_spreads_as_in_torch(shape, fan, slope):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    theirs = torch.nn.init.kaiming_uniform_(torch.empty(shape), a=slope, mode=FANS[fan]).numpy()
    ours = values(He(fan=fan, slope=slope, normal=False), shape)
    assert np.abs(ours).max() == pytest.approx(np.abs(theirs).max(), rel=1e-3)
    theirs = torch.nn.init.kaiming_normal_(torch.empty(shape), a=slope, mode=FANS[fan]).numpy()
    assert values(He(fan=fan, slope=slope), shape).std() == pytest.approx(theirs.std(), rel=0.02)


@pytest.mark.parametrize("shape", [(300, 200), (40, 30, 3, 5)])
def test_xavier_spreads_as_in_torch(shape):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    theirs = torch.nn.init.xavier_uniform_(torch.empty(shape), gain=5 / 3).numpy()
    assert np.abs(values(Xavier(gain=5 / 3), shape)).max() == pytest.approx(np.abs(theirs).max(), rel=1e-3)
    theirs = torch.nn.init.xavier_normal_(torch.empty(shape)).numpy()
    assert values(Xavier(normal=True), shape).std() == pytest.approx(theirs.std(), rel=0.02)


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (3, 2, 4, 2), (20, 2, 3, 2)])
def test_orthogonal_is_right_for_wide_matrices_too(shape):
    """Mocha.jl copies V of the decomposition without transposing it where there are more columns than rows."""
    matrix = values(Orthogonal(gain=2), shape).reshape(shape[0], -1)
    rows, columns = matrix.shape
    product = matrix @ matrix.T if rows <= columns else matrix.T @ matrix
    assert_close(product, 4 * np.eye(min(rows, columns)))


def test_orthogonal_matrices_are_drawn_evenly():
    """Without a rule for the signs a triangle's diagonal would always have the same ones."""
    firsts = np.array([values(Orthogonal(), (2, 2), seed=seed)[0] for seed in range(400)])
    assert np.abs(firsts.mean(axis=0)).max() < 0.15


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_bilinear(size):
    """The loop of Caffe's filler, over the numbers of a filter."""
    factor = math.ceil(size / 2)
    centre = (size - 1) / (2 * factor)
    filters = values(Bilinear(), (2, 3, size, size))
    for place in range(size * size):
        x, y = place % size, place // size
        expected = (1 - abs(x / factor - centre)) * (1 - abs(y / factor - centre))
        assert filters[..., y, x] == pytest.approx(np.full((2, 3), expected))
    assert values(Bilinear(), (1, 1, size)).shape == (1, 1, size)
    with pytest.raises(ConfigError, match=r"Bilinear: .*\(3, 4\) .* 3 "):
        values(Bilinear(), (3, 4))


def test_the_numbers_of_an_output_of_a_positive_unitball_add_up_to_one():
    drawn = values(PositiveUnitball(), (4, 3, 2, 2))
    assert (drawn > 0).all()
    assert_close(drawn.sum(axis=(1, 2, 3)), np.ones(4))


def test_a_sparse_gaussian_has_so_many_outputs_for_each_input():
    drawn = values(Gaussian(sparse=15, std=2), (100, 400))
    there = drawn != 0
    assert there.sum(axis=0).mean() == pytest.approx(15, abs=1)
    assert drawn[there].std() == pytest.approx(2, rel=0.05)
    assert_close(drawn[there], values(Gaussian(std=2), (100, 400))[there])  # the others are only left out
    with pytest.raises(ConfigError, match=r"Gaussian: sparse=15, .*\(10, 3\)"):
        values(Gaussian(sparse=15), (10, 3))


def test_singas_fans_are_those_of_a_matrix_of_filters():
    for initializer, scale in (
        (GaussianSqrtFanIn(value=2), 2 / math.sqrt(12)),
        (UniformSqrtFanIn(value=2), 2 / math.sqrt(12 / 3)),
        (UniformSqrtFanInOut(value=2), 2 / math.sqrt(5 + 12)),
    ):
        plain = Gaussian() if isinstance(initializer, Gaussian) else Uniform(low=-1, high=1)
        assert_close(values(initializer, (5, 3, 2, 2)), values(plain, (5, 3, 2, 2)) * scale)


@pytest.fixture
def snapshot(tmp_path):
    """Return a file with two parameters, one of them under two names."""
    arrays = {
        "parameters/ip1/weight": np.arange(20.0, dtype=np.float32).reshape(4, 5),
        "parameters/ip1/bias": np.ones(4),
    }
    file = tmp_path / "snapshot-000007.h5"
    file.write_bytes(HDF5Store().encode(Snapshot(7, arrays, {"aliases": {"twin/weight": "ip1/weight"}})))
    return file


@pytest.mark.parametrize("name", ["ip1/weight", "twin/weight"])
@pytest.mark.parametrize("folder", [False, True])
def test_pretrained(snapshot, name, folder):
    initializer = Pretrained(snapshot=snapshot.parent if folder else snapshot, parameter=name)
    weight = net(initializer=initializer).parameters["ip/weight"].value
    assert_close(weight, np.arange(20.0).reshape(4, 5), tolerance=0.0)


def test_a_pretrained_weight_that_lies_transposed(snapshot):
    initializer = Pretrained(snapshot=snapshot, parameter="ip1/weight")
    layer = InnerProductLayer(
        name="ip", bottoms=["x"], tops=["y"], output_dim=5, transpose=True, weight_init=initializer
    )
    weight = Net("n", [InputLayer(tops=["x"], shape=4), layer], backend="numpy").parameters["ip/weight"].value
    assert_close(weight, np.arange(20.0).reshape(4, 5), tolerance=0.0)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        (
            "ip1/wait",
            SnapshotError,
            r"parameter 'ip/weight': .* has no parameter 'ip1/wait' \(did you mean 'ip1/weight'\?\)",
        ),
        (
            "ip1/bias",
            ConfigError,
            r"parameter 'ip/weight': Pretrained: .* has the shape \(4,\), but \(4, 5\) is wanted",
        ),
    ],
)
def test_what_a_snapshot_does_not_have(snapshot, name, error, message):
    with pytest.raises(error, match=message):
        net(initializer=Pretrained(snapshot=snapshot, parameter=name))


def test_a_snapshot_that_is_not_there(tmp_path):
    with pytest.raises(SnapshotError, match=r"parameter 'ip/weight': .*gone\.h5: no such file"):
        net(initializer=Pretrained(snapshot=tmp_path / "gone.h5", parameter="ip1/weight"))


def test_an_error_names_the_parameter():
    source = InputLayer(tops=["x"], shape=(2, 4, 4))
    layer = ConvolutionLayer(name="conv", bottoms=["x"], tops=["y"], n_filter=2, bias_init="Orthogonal")
    with pytest.raises(ConfigError, match=r"'conv/bias': Orthogonal: .*\(2,\)"):
        Net("n", [source, layer], backend="numpy")


def test_constant():
    assert_close(values(Constant(value=0.5), (2, 3)), np.full((2, 3), 0.5))
    assert_close(values(Constant(), (2,)), [0, 0])


@pytest.mark.parametrize("initializer", RANDOM, ids=repr)
def test_values_are_those_of_the_seed_and_the_name(initializer):
    first = values(initializer, (3, 4))
    assert np.array_equal(values(initializer, (3, 4)), first)
    assert not (values(initializer, (3, 4), name="ip2/weight") == first).any()
    assert not (values(initializer, (3, 4), seed=1) == first).any()


def net(*, dtype="float64", seed=0, before=(), initializer=None):
    layers = [InputLayer(tops=["x"], shape=5, batch_size=2), *before]
    layers.append(InnerProductLayer(bottoms=["x"], tops=["ip"], output_dim=4, weight_init=initializer or Xavier()))
    return Net("n", layers, backend="numpy", dtype=dtype, seed=seed)


@pytest.mark.parametrize("initializer", RANDOM, ids=repr)
def test_weights_do_not_depend_on_the_type(initializer):
    coarse = net(dtype="float32", initializer=initializer).parameters["ip/weight"].value
    fine = net(dtype="float64", initializer=initializer).parameters["ip/weight"].value
    assert coarse.dtype == np.float32
    assert np.array_equal(coarse, fine.astype(np.float32))


def test_another_layer_moves_nobody_elses_weights():
    other = InnerProductLayer(bottoms=["x"], tops=["other"], output_dim=4)
    one, both = net(), net(before=[other])
    assert np.array_equal(one.parameters["ip/weight"].value, both.parameters["ip/weight"].value)
    assert not np.array_equal(both.parameters["other/weight"].value, both.parameters["ip/weight"].value)
    assert not np.array_equal(net(seed=1).parameters["ip/weight"].value, one.parameters["ip/weight"].value)


def test_a_bare_number_is_a_constant():
    layer = InnerProductLayer(bottoms=["x"], tops=["y"], output_dim=2, weight_init=0.25, bias_init={"type": "Gaussian"})
    assert repr(layer.weight_init) == "Constant(value=0.25)" and repr(layer.bias_init) == "Gaussian()"


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        *((Gaussian, {"std": -1}), (Gaussian, {"sparse": 0}), (Constant, {"value": math.nan})),
        *((Uniform, {"high": math.inf}), (Uniform, {"low": 1}), (UniformSqrtFanIn, {"low": 2})),
        *((He, {"fan": "both"}), (He, {"slope": math.inf}), (Xavier, {"gain": 0}), (Orthogonal, {"gain": math.nan})),
        *((Pretrained, {"snapshot": [], "parameter": "a/b"}), (Pretrained, {"parameter": 3, "snapshot": "a"})),
    ],
)
def test_bad_fields(kind, fields):
    with pytest.raises(ConfigError, match=f"{kind.__name__}: {next(iter(fields))}="):
        kind(**fields)


def test_every_initializer_of_ours_is_tested_here():
    ours = {offer.name for offer in registry().offers("initializer") if offer.distribution == "nacre"}
    assert ours == {type(one).__name__ for one in ALL} | {"Bilinear", "Pretrained"}


@pytest.mark.parametrize("initializer", [Constant(value=0.5), Uniform(), Gaussian(), Xavier(), XavierFanIn(), He()])
def test_a_single_number_has_a_first_value_too(initializer):
    assert np.shape(values(initializer, ())) == ()


@pytest.mark.parametrize("initializer", [He(slope=1e308), Xavier(gain=1e308)])
def test_a_field_whose_square_is_too_large_raises_nothing(initializer):
    with np.errstate(all="ignore"):
        assert values(initializer, (20, 30)).shape == (20, 30)
