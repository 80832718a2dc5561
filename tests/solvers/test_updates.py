"""What happens to gradients before an update: batches added up, clipping, constraints now and then."""

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fake_backends import BlockedBackend, BlockedInnerProduct, BlockedSGD
from nacre import ConfigError, Constraint, Net, NotFiniteError, Solver, open_backend
from nacre.errors import NacreError
from nacre_data import MemoryDataLayer
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.initializers import Gaussian
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.neurons import Tanh
from nacre_solvers import SGD, AdamW, Step, TrainingSummary
from registries import NewRegistry
from torch_training import train_both
from toy_training import Reports, pulled_net, trace


def solver(**fields: Any) -> Solver:
    return Solver(SGD(), **{"lr_policy": 0.1, "max_iter": 3, **fields})


def digits_net(batch_size: int, backend: str = "numpy", dtype: str = "float64", **drop: Any) -> Net:
    random = np.random.default_rng(0)
    layers = [
        MemoryDataLayer(
            name="in",
            tops=["x", "label"],
            data=[random.normal(size=(24, 5)), random.integers(0, 3, 24)],
            batch_size=batch_size,
        ),
        InnerProductLayer(bottoms="x", tops="a", output_dim=6, neuron=Tanh(), weight_init=Gaussian(std=0.5)),
        *([DropoutLayer(name="drop", bottoms="a", **drop)] if drop else []),
        InnerProductLayer(bottoms="a", tops="b", output_dim=3, weight_init=Gaussian(std=0.5)),
        SoftmaxLossLayer(name="loss", bottoms=["b", "label"]),
    ]
    return Net("digits", layers, dtype=dtype, backend=backend)


# Several batches an update


@settings(max_examples=30, derandomize=True)
@given(
    count=st.sampled_from([1, 2, 3, 4, 6]),
    momentum=st.floats(0, 0.9),
    clip_norm=st.sampled_from([0.0, 0.1, 1.0]),
    clip_value=st.sampled_from([0.0, 0.01, 0.5]),
    decay=st.sampled_from([0.0, 0.1]),
)
def test_batches_added_up_are_one_larger_batch(count: int, **fields: Any) -> None:
    options = {
        "momentum_policy": fields["momentum"],
        "clip_norm": fields["clip_norm"],
        "clip_value": fields["clip_value"],
        "regu_coef": fields["decay"],
        "max_iter": 5,
    }
    nets = [digits_net(12 // count), digits_net(12)]
    small = solver(n_accumulate=count, **options).solve(nets[0])
    large = solver(**options).solve(nets[1])
    for name, handle in nets[0].parameters.items():
        np.testing.assert_allclose(handle.value, nets[1].parameters[name].value, rtol=1e-12, atol=1e-14)
    assert small.loss == pytest.approx(large.loss, rel=1e-12)
    assert small.loss_total == pytest.approx(large.loss_total, rel=1e-12)
    assert (small.iteration, small.epochs, small.images) == (large.iteration, large.epochs, large.images)


def test_every_batch_of_an_iteration_draws_its_own_masks() -> None:
    """Dropout of half: two batches of the same records give another gradient than twice the first would."""

    def gradient(count: int) -> np.ndarray:
        net = digits_net(24, ratio=0.5)
        solver(n_accumulate=count, max_iter=1, lr_policy=0.0).solve(net)
        found = net.parameters["b/weight"].gradient
        assert found is not None
        return found

    assert not np.allclose(gradient(1), gradient(2))


def test_policies_callbacks_and_steps_count_updates_not_batches() -> None:
    reports = Reports()
    training = solver(n_accumulate=3, callbacks=[TrainingSummary(every_n_iter=1)]).solve(
        digits_net(4), reports=[reports]
    )
    assert [report["iteration"] for report in reports["step"]] == [1, 2, 3]
    assert (training.iteration, training.images, training.net.step) == (3, 36, 8)
    assert training.loss_count == 3
    assert reports["summary"][-1]["loss"] == pytest.approx(training.loss, rel=1e-12)  # a difference of two sums


def test_without_the_check_the_loss_is_that_of_the_last_batch() -> None:
    training = solver(n_accumulate=2, check_finite=False, lr_policy=0.0, max_iter=1).solve(digits_net(12))
    losses = [solver(lr_policy=0.0, max_iter=count).solve(digits_net(12)).loss for count in (1, 2)]
    assert training.loss == pytest.approx(losses[1], rel=1e-12)
    checked = solver(n_accumulate=2, lr_policy=0.0, max_iter=1).solve(digits_net(12))
    assert checked.loss == pytest.approx(sum(losses) / 2, rel=1e-12)


def test_what_is_not_finite_is_found_in_the_batch_where_it_is() -> None:
    layers = [
        MemoryDataLayer(
            name="in",
            tops=["x", "label"],
            data=[np.array([[1.0], [2.0], [np.inf], [4.0]]), np.zeros(4)],
            batch_size=1,
        ),
        InnerProductLayer(name="ip", bottoms="x", tops="y", output_dim=2, weight_init=Gaussian()),
        SoftmaxLossLayer(name="loss", bottoms=["y", "label"]),
    ]
    net = Net("infinite", layers, dtype="float64", backend="numpy")
    with pytest.raises(NotFiniteError, match=r"iteration 0: .* nan; .*blob 'x' of layer 'in'"):
        solver(n_accumulate=4).solve(net)


# Clipping


def test_clipping_on_given_gradients() -> None:
    net = pulled_net(gradients=((0.5, 2.0), (-0.25, -9.0), (0.1, 0.0)), shape=(2,), regu=None)
    with solver(clip_value=0.4).start(net) as training:
        trace(training, 3)
    assert net.parameters["pull/w"].value == pytest.approx([1 - 0.04 + 0.025 - 0.01, 1 - 0.04 + 0.04], abs=1e-15)
    net = pulled_net(gradients=((3.0, 4.0), (0.3, 0.4)), shape=(2,), regu=None)
    with solver(clip_norm=1.0).start(net) as training:
        trace(training, 2)
    assert net.parameters["pull/w"].value == pytest.approx([1 - 0.06 - 0.03, 1 - 0.08 - 0.04], abs=1e-6)


@pytest.mark.parametrize("count", [1, 2])
def test_the_norm_is_clipped_as_caffe_does(count: int) -> None:
    torch = pytest.importorskip("torch")
    clipped: list[float] = []

    def clip(parameters: list[Any]) -> None:
        clipped.append(float(sum(float(one.grad.square().sum()) for one in parameters) ** 0.5))
        for one in parameters if clipped[-1] > 0.5 else ():
            one.grad.mul_(0.5 / clipped[-1])

    ours = solver(clip_norm=0.5, regu_coef=0.01, momentum_policy=0.9, n_accumulate=count)
    train_both(ours, lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9), 0.01, clip)
    assert min(clipped) < 0.5 < max(clipped)


@pytest.mark.parametrize("backend", ["numpy", "onednn"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("gradient", "limit", "factor"),
    [
        ((3.0, 4.0), 5.0, 1.0),  # at the limit, and just below and above it
        ((3.0, 4.0), 5.000001, 1.0),
        ((3.0, 4.0), 4.5, 0.9),
        ((0.0, 0.0), 1.0, 1.0),
        ((3e-7, 4e-7), 1e-6, 1.0),  # where 1e-6 is not small
        ((3e-7, 4e-7), 1e-7, 0.2),
        ((3.0, 4.0), 1e300, 1.0),  # no number in float32, as the next
        ((0.0, 0.0), 5e-324, 1.0),
    ],
)
def test_only_a_norm_above_the_limit_is_clipped_and_by_their_quotient(
    backend: str, dtype: str, gradient: tuple[float, float], limit: float, factor: float
) -> None:
    try:
        backend_here = open_backend(backend)
    except NacreError as error:
        pytest.skip(str(error))
    net = pulled_net(gradients=(gradient,), shape=(2,), regu=None, backend=backend_here, dtype=dtype)
    with solver(clip_norm=limit).start(net) as training:
        training.step()
    found, given = net.parameters["pull/w"].gradient, np.array(gradient, dtype)
    assert found is not None
    if factor == 1:
        np.testing.assert_array_equal(found, given)
    else:
        np.testing.assert_array_max_ulp(found, given * np.array(factor, dtype), 1)


def test_gradients_whose_squares_overflow_do_not_pass_for_nothing() -> None:
    net = pulled_net(gradients=((3e30, 0.0),), shape=(2,), regu=None, dtype="float32")
    with solver(clip_norm=1.0, check_finite=False).start(net) as training, np.errstate(over="ignore"):
        training.step()
    found = net.parameters["pull/w"].gradient
    assert found is not None
    np.testing.assert_array_equal(found, np.array([3e30, 0.0], "float32"))


def test_numbers_are_clipped_as_torch_does() -> None:
    torch = pytest.importorskip("torch")
    ours = solver(clip_value=0.02, momentum_policy=0.9)

    def clip(parameters: list[Any]) -> None:
        torch.nn.utils.clip_grad_value_(parameters, 0.02)

    train_both(ours, lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9), 0.0, clip)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("clip", [{"clip_value": 1.0}, {"clip_norm": 1.0}, {"clip_value": 1.0, "clip_norm": 1.0}])
def test_clipping_hides_no_number_that_is_not_finite(clip: dict[str, float], number: float) -> None:
    net = pulled_net(gradients=((1.0, 1.0), (1.0, number)), shape=(2,))
    message = "iteration 1: a number is not finite; first seen in the gradient of parameter 'pull/w' of layer 'pull'"
    with pytest.raises(NotFiniteError, match=message):
        solver(**clip).solve(net)


def test_clipping_leaves_alone_what_is_frozen() -> None:
    nets = [digits_net(12), digits_net(12)]
    for net, steps in zip(nets, ({"clip_norm": 1e9}, {}), strict=True):
        net.freeze("a")
        solver(**steps).solve(net)
    np.testing.assert_array_equal(nets[0].parameters["b/weight"].value, nets[1].parameters["b/weight"].value)


@pytest.mark.parametrize("clip", ["clip_norm", "clip_value"])
def test_an_infinite_limit_clips_nothing(clip: str) -> None:
    with solver(**{clip: inf}).start(pulled_net(gradients=((3.0,), (-4.0,)), regu=None)) as training:
        assert trace(training, 2) == pytest.approx([0.7, 1.1], abs=1e-12)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n_accumulate": 0}, "n_accumulate=0, but it must be above 0"),
        ({"clip_norm": -1}, "clip_norm=-1.0, but it must be 0 or more"),
        ({"clip_value": -1}, "clip_value=-1.0, but it must be 0 or more"),
        ({"regu_coef": inf}, "regu_coef=inf, but it must be finite"),
        ({"clip_gradients": 1}, "unknown field 'clip_gradients'"),
    ],
)
def test_bad_fields(fields: dict[str, Any], message: str) -> None:
    """An unknown one is no longer accepted in silence, as it was by Mocha.jl."""
    with pytest.raises(ConfigError, match=message):
        solver(**fields)


def test_a_backend_with_steps_of_its_own_does_the_same() -> None:
    try:
        open_backend("onednn")
    except NacreError as error:
        pytest.skip(str(error))
    fields: dict[str, Any] = {
        "n_accumulate": 3,
        "clip_norm": 0.5,
        "clip_value": 0.3,
        "regu_coef": 0.01,
        "momentum_policy": 0.9,
        "max_iter": 10,
    }
    nets = [digits_net(4, backend, "float32") for backend in ("onednn", "numpy")]
    for net in nets:
        solver(**fields).solve(net)
    for name, handle in nets[0].parameters.items():
        np.testing.assert_allclose(handle.value, nets[1].parameters[name].value, rtol=1e-4, atol=1e-5)
    nets = [digits_net(4, backend, "float32") for backend in ("onednn", "numpy")]
    for net in nets:
        Solver(AdamW(), lr_policy=0.01, max_iter=10, regu_coef=0.1).solve(net)
    for name, handle in nets[0].parameters.items():
        np.testing.assert_allclose(handle.value, nets[1].parameters[name].value, rtol=1e-3, atol=1e-4)


def test_a_backend_that_records_its_steps_reads_what_differs_in_each(new_registry: NewRegistry) -> None:
    registry = new_registry()
    registry.register(BlockedBackend, "blocked", "backend")
    registry.register_kernel(BlockedInnerProduct, "InnerProduct", "blocked")
    registry.register_kernel(BlockedSGD, "solver/SGD", "blocked")
    nets = [digits_net(4, backend, ratio=0.3) for backend in ("blocked", "numpy")]
    for net in nets:
        policy = Step(base=0.3, gamma=0.5, stepsize=2)
        solver(lr_policy=policy, n_accumulate=4, clip_norm=0.3, regu_coef=0.01, momentum_policy=0.9).solve(net)
    for name, handle in nets[0].parameters.items():
        np.testing.assert_allclose(handle.value, nets[1].parameters[name].value, rtol=1e-10, atol=1e-12)


# Constraints


class AtMost(Constraint):
    """Numbers are at most `most`."""

    most: float

    def constrain(self, backend: Any, value: Any) -> None:
        backend.xp.minimum(value, self.most, out=value)


@pytest.mark.parametrize("count", [1, 2])
def test_a_constraint_may_act_now_and_then(count: int) -> None:
    cons = AtMost(most=0.0, every_n_iter=3)
    layers = [
        MemoryDataLayer(name="in", tops=["x", "label"], data=[np.ones((4, 2)), np.arange(4) % 2], batch_size=4),
        InnerProductLayer(bottoms="x", tops="y", output_dim=2, weight_init=Gaussian(), weight_cons=cons),
        SoftmaxLossLayer(name="loss", bottoms=["y", "label"]),
    ]
    net = Net("constrained", layers, backend="numpy")
    holds: list[bool] = []
    with solver(lr_policy=0.5, n_accumulate=count).start(net) as training:
        for _ in range(6):
            net.parameters["y/weight"].value = np.ones((2, 2))
            training.step()
            holds.append(bool(net.parameters["y/weight"].value.max() <= 0))
    assert holds == [False, False, True, False, False, True]


def test_a_constraint_acts_once_in_so_many() -> None:
    with pytest.raises(ConfigError, match="every_n_iter=0, but it must be above 0"):
        AtMost(most=1.0, every_n_iter=0)
