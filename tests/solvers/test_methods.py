"""Methods against numbers from their ancestors, against PyTorch's, and against loops over single numbers."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nacre
from fake_backends import ForeignBackend
from forging import trials
from nacre import ConfigError, InputLayer, Method, Net, SnapshotError, Solver
from nacre.snapshots.snapshot import Snapshot
from nacre_layers.regularizers import L1
from nacre_solvers import SGD, AdaDelta, AdaGrad, Adam, AdaMax, AdamW, Nesterov, RMSProp, StagedMomentum, Step
from nacre_solvers.elementwise import CHUNK
from one_number import one_number
from registries import NewRegistry
from resuming import saved
from torch_training import train_both
from toy_training import PulledLayer, Reports, pulled_net, toy_net, trace, weights

METHODS = [SGD(), Nesterov(), Adam(), AdaMax(), AdamW(), AdaGrad(), AdaDelta(), RMSProp(), RMSProp(centered=True)]
each = pytest.mark.parametrize("method", METHODS, ids=repr)


def solver(method: Method, **fields: Any) -> Solver:
    momentum = {"momentum_policy": 0.9} if method.has_momentum else {}
    return Solver(method, **{"lr_policy": 0.1, **momentum, **fields})


def test_every_method_is_among_these() -> None:
    offers = [offer for offer in nacre.registry().offers("solver") if offer.distribution == "nacre"]
    assert {offer.name for offer in offers} == {type(method).__name__ for method in METHODS}


# Numbers


@pytest.mark.parametrize(
    ("method", "fields", "expected"),
    [
        (SGD(), {}, [0.949, 0.927151, 0.896559749]),
        (Nesterov(), {}, [0.9031, 0.90757411, 0.869189208]),
        (AdaGrad(epsilon_place="inside"), {}, [0.900000002, 0.942724790, 0.923680433]),
        (RMSProp(rho=0.9, epsilon_place="inside"), {"momentum_policy": 0}, [0.683772295, 0.825776398, 0.760567497]),
        (RMSProp(rho=0.99), {"momentum_policy": 0}, [0.000000196, 0.441942544, 0.259535588]),
        (AdaDelta(rho=0.9, epsilon=1e-8), {"lr_policy": 1}, [0.999683772, 0.999882505, 0.999781950]),
        (Adam(epsilon_place="inside", bias_correction=False), {}, [0.683778313, 0.562928142, 0.397801870]),
        (Adam(epsilon_place="uncorrected"), {}, [0.900000062, 0.871229423, 0.837292459]),
    ],
)
def test_as_caffe_and_singa_do(method: Method, fields: dict[str, Any], expected: list[float]) -> None:
    net = pulled_net(gradients=((0.5,), (-0.25,), (0.1,)))
    with solver(method, regu_coef=0.01, **fields).start(net) as training:
        assert trace(training, 3) == pytest.approx(expected, abs=6e-10)


def test_adamax_as_singa_does_but_for_an_epsilon_that_it_adds_each_time() -> None:
    net = pulled_net(gradients=((0.5,), (-0.25,), (0.1,)))
    with solver(AdaMax(bias_correction=False), regu_coef=0.01).start(net) as training:
        assert trace(training, 3) == pytest.approx([0.99, 0.985703547, 0.979674495], abs=1e-9)


def test_nesterov_on_a_parabola_is_alive_again() -> None:
    """As Mocha.jl's formula gives it, whose solver has not worked since version 0.1.3."""
    with solver(Nesterov()).start(pulled_net()) as training:
        assert trace(training, 3) == pytest.approx([0.81, 0.5751, 0.327321], abs=1e-12)


def torch_optimizer(name: str, **options: Any) -> Callable[..., Any]:
    return lambda groups: getattr(pytest.importorskip("torch").optim, name)(groups, **options)


ADAM = {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-6}
ROOT = {"lr": 0.01, "alpha": 0.95, "eps": 1e-7}
TORCH = {
    "Nesterov": (Nesterov(), torch_optimizer("SGD", lr=0.05, momentum=0.9, nesterov=True), 0.05),
    "Adam": (Adam(beta1=0.8, beta2=0.95, epsilon=1e-6), torch_optimizer("Adam", **ADAM), 0.01),
    "AdamW": (AdamW(beta1=0.8, beta2=0.95, epsilon=1e-6), torch_optimizer("AdamW", **ADAM), 0.01),
    "AdaMax": (AdaMax(beta1=0.8, beta2=0.95, epsilon=1e-6), torch_optimizer("Adamax", **ADAM), 0.01),
    "AdaGrad": (AdaGrad(epsilon=1e-9), torch_optimizer("Adagrad", lr=0.05, eps=1e-9), 0.05),
    "AdaDelta": (AdaDelta(rho=0.9, epsilon=1e-5), torch_optimizer("Adadelta", lr=0.7, rho=0.9, eps=1e-5), 0.7),
    "RMSProp": (RMSProp(rho=0.95, epsilon=1e-7), torch_optimizer("RMSprop", momentum=0.9, **ROOT), 0.01),
    "RMSProp, centered": (
        RMSProp(rho=0.95, epsilon=1e-7, centered=True),
        torch_optimizer("RMSprop", momentum=0.9, centered=True, **ROOT),
        0.01,
    ),
}


@pytest.mark.parametrize("name", TORCH)
@pytest.mark.parametrize("decay", [0.0, 0.02])
def test_a_hundred_steps_as_torch_does(name: str, decay: float) -> None:
    method, optimizer, rate = TORCH[name]
    train_both(solver(method, lr_policy=rate, regu_coef=decay), optimizer, decay)


shares = st.floats(0, 0.99)
epsilons = st.sampled_from([1e-10, 1e-8, 1e-3])
places = st.sampled_from(["outside", "inside"])
rooted = {"epsilon": epsilons, "epsilon_place": places}
methods = st.one_of(
    st.just(SGD()),
    st.just(Nesterov()),
    *(
        st.builds(
            kind,
            beta1=shares,
            beta2=shares,
            epsilon=epsilons,
            epsilon_place=st.sampled_from(["outside", "uncorrected", "inside"]),
            bias_correction=st.booleans(),
        )
        for kind in (Adam, AdamW)
    ),
    st.builds(AdaGrad, **rooted),
    st.builds(AdaMax, beta1=shares, beta2=shares, epsilon=epsilons, bias_correction=st.booleans()),
    st.builds(RMSProp, rho=shares, **rooted),
    st.builds(RMSProp, rho=st.floats(0.1, 0.99), epsilon_place=places, epsilon=st.just(1e-3), centered=st.just(True)),
    st.builds(AdaDelta, rho=shares, epsilon=epsilons),
)


@settings(max_examples=trials(60, 200), derandomize=True)
@given(
    method=methods,
    seed=st.integers(0, 1000),
    size=st.integers(1, 9),
    count=st.integers(1, 6),
    rate=st.floats(1e-3, 1),
    own_rate=st.sampled_from([1.0, 2.0, 0.5]),
    momentum=shares,
)
def test_every_number_goes_its_own_way(
    method: Any, seed: int, size: int, count: int, rate: float, own_rate: float, momentum: float
) -> None:
    """AdaGrad among them, for which Mocha.jl had one rate for all numbers of a parameter."""
    random = np.random.default_rng(seed)
    gradients = random.normal(size=(count, size)) * 10.0 ** random.integers(-3, 3, (1, size))
    gradients[random.random(gradients.shape) < 0.1] = 0.0
    net = pulled_net(gradients=tuple(gradients), shape=(size,), rate=own_rate)
    with solver(method, lr_policy=rate, **({"momentum_policy": momentum} if method.has_momentum else {})).start(
        net
    ) as training:
        trace(training, count)
    expected = [one_number(method, column, [rate * own_rate] * count, [momentum] * count) for column in gradients.T]
    np.testing.assert_allclose(net.parameters["pull/w"].value, expected, rtol=1e-10, atol=1e-10)


def test_adam_forgets_old_gradients() -> None:
    """Under a constant gradient its steps stay as large as the rate; in Mocha.jl they fell like 1/√t."""
    net = pulled_net(gradients=((0.3,),) * 3000)
    with solver(Adam(), lr_policy=0.001).start(net) as training:
        values = trace(training, 3000)
    assert values[-2] - values[-1] == pytest.approx(0.001, rel=1e-6)


@each
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_long_parameter_is_updated_from_end_to_end(method: Method, dtype: str) -> None:
    size = 2 * CHUNK + 3
    gradient = np.random.default_rng(0).normal(size=size)
    net = pulled_net(dtype=dtype, shape=(size,), gradients=(gradient, -0.5 * gradient))
    with solver(method).start(net) as training:
        trace(training, 2)
    value, close = net.parameters["pull/w"].value, 1e-12 if dtype == "float64" else 1e-5
    for place in (0, 1, CHUNK - 1, CHUNK, 2 * CHUNK, size - 1):
        given = [float(np.dtype(dtype).type(number)) for number in (gradient[place], -0.5 * gradient[place])]
        assert value[place] == pytest.approx(one_number(method, given, [0.1] * 2, [0.9] * 2), rel=close)


def test_a_decoupled_regulariser_leaves_the_gradient_alone() -> None:
    net = pulled_net(gradients=((0.0,),) * 2, regu=L1(coef=0.5), rate=2.0)
    with solver(AdamW(), regu_coef=0.1).start(net) as training:
        assert trace(training, 2) == pytest.approx([0.99, 0.98], abs=1e-15)
        assert net.parameters["pull/w"].gradient[0] == 0
        assert training.choices["regularizer.pull/w"][1].kernel is None


@each
def test_a_device_gives_the_same(method: Method, new_registry: NewRegistry) -> None:
    new_registry().register(ForeignBackend, "foreign", "backend")
    nets = [toy_net(backend=name) for name in ("foreign", "numpy")]
    for net in nets:
        solver(method, regu_coef=0.01, n_accumulate=2, clip_norm=0.3, clip_value=0.1, max_iter=5).solve(net)
    for name, handle in nets[0].parameters.items():
        # a step divided by the size of a gradient near 0 has lost some of the digits that the two have in common
        np.testing.assert_allclose(handle.value, nets[1].parameters[name].value, rtol=1e-8, atol=1e-9)


@each
def test_policies_reach_every_method(method: Method) -> None:
    """In three versions of Mocha.jl a method that was overridden silently kept them from SGD."""

    def end(**fields: Any) -> float:
        with solver(method, **fields).start(pulled_net(gradients=((0.5,), (-0.25,), (0.1,)))) as training:
            return trace(training, 3)[-1]

    assert end() != end(lr_policy=Step(base=0.1, gamma=0.5, stepsize=1))
    if method.has_momentum:
        assert end() != end(momentum_policy=StagedMomentum(stages=[(2, 0.5), (1, 0.9)]))


def test_a_centred_root_of_equal_gradients_is_no_nan() -> None:
    """The mean square and the squared mean are one number but for rounding, which may be below 0."""
    net = pulled_net(gradients=((0.1,), (0.3,), (0.7,)) * 100, shape=(3,))
    with solver(RMSProp(rho=0.01, centered=True), lr_policy=1e-9).start(net) as training:
        trace(training, 300)
    assert np.isfinite(net.parameters["pull/w"].value).all()


@pytest.mark.parametrize("method", [Adam(), AdaMax(), AdamW(), AdaGrad(), AdaDelta()])
def test_a_momentum_policy_that_nobody_reads_is_refused(method: Method) -> None:
    with pytest.raises(ConfigError, match=rf"momentum_policy=.*{type(method).__name__} .*momentum"):
        Solver(method, momentum_policy=0.9)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (Adam, {"beta1": 1.0}, "beta1=1.0, but it must be 0 or more, and below 1"),
        (Adam, {"epsilon": 0}, "epsilon=0.0, but it must be above 0"),
        (Adam, {"epsilon_place": "between"}, "it must be one of 'outside', 'uncorrected', 'inside'"),
        (AdaGrad, {"epsilon_place": "uncorrected"}, "it must be one of 'outside', 'inside'"),
        (RMSProp, {"rho": -0.1}, "rho=-0.1"),
        (AdaMax, {"epsilon_place": "inside"}, "unknown field 'epsilon_place'"),
        (AdaDelta, {"rho": 2}, "rho=2"),
        (SGD, {"nesterov": True}, "unknown field 'nesterov'"),
    ],
)
def test_bad_fields(kind: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kind(**fields)


# Memory


@each
def test_a_step_allocates_nothing(method: Method) -> None:
    size = 4 * CHUNK
    net = pulled_net(shape=(size,), gradients=(np.ones(size, np.float32),) * 20, dtype="float32")
    training = solver(method, regu_coef=0.1, clip_norm=1.0, clip_value=0.5, n_accumulate=2).start(net)
    for _ in range(3):
        training.step()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        for _ in range(3):
            training.step()
        largest = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert largest < 8000, f"{largest} bytes are allocated at once in a step"


# Restarts


@each
def test_a_resumed_training_is_bit_for_bit_the_uninterrupted(method: Method) -> None:
    """Mocha.jl's snapshots lost SGD's velocity, and the histories of AdaGrad and AdaDelta."""
    fields: dict[str, Any] = {"max_iter": 12, "lr_policy": 0.01, "regu_coef": 0.01, "n_accumulate": 2, "clip_norm": 0.1}
    with solver(method, **fields).start(toy_net(dtype="float32")) as whole:
        for _ in range(5):
            whole.step()
        snapshot = saved(whole)
        for _ in range(7):
            whole.step()
    net = toy_net(dtype="float32")
    reports = Reports()
    resumed = solver(method, **fields).solve(net, resume=snapshot, reports=[reports])
    assert reports["warning"] == []
    assert resumed.loss == whole.loss
    assert weights(net) == weights(whole.net)


@each
def test_every_history_of_a_method_is_needed(method: Method) -> None:
    """The test above could not fail if they made no difference."""
    with solver(method, lr_policy=0.01).start(toy_net()) as whole:
        for _ in range(5):
            whole.step()
        snapshot = saved(whole)
        whole.step()
    histories = [name for name in snapshot.arrays if name.startswith("history/") and name.endswith("ip1/weight")]
    assert len(histories) == len(whole.method.histories) > 0
    for name in histories:
        arrays = snapshot.arrays | {name: np.zeros_like(snapshot.arrays[name])}
        net = toy_net()
        with solver(method, lr_policy=0.01).start(net) as resumed:
            resumed.restore(Snapshot(5, arrays, snapshot.state))
            resumed.step()
        assert weights(net) != weights(whole.net), name


@each
def test_another_method_is_refused_naming_both_or_begins_anew_if_wanted(method: Method) -> None:
    """Mocha.jl told of a function that is not implemented."""
    other = Adam() if not isinstance(method, Adam) else SGD()
    with solver(other).start(toy_net()) as before:
        before.step()
        snapshot = saved(before)
    names = f"by the solver {type(other).__name__}, but this training uses {type(method).__name__}"
    with solver(method).start(toy_net()) as training, pytest.raises(SnapshotError, match=names) as caught:
        training.restore(snapshot)
    assert "--reset-solver" in caught.value.remedy
    reports = Reports()
    net = toy_net()
    with solver(method).start(net, [reports]) as training:
        training.restore(snapshot, reset_solver=True)
        assert weights(net) == weights(before.net)
        assert training.iteration == 1
        assert not any(array.any() for arrays in training.method.histories.values() for array in arrays)
        training.step()
    assert reports["warning"] == []


def test_a_solver_that_begins_anew_forgets_also_its_own_past() -> None:
    with solver(Adam()).start(pulled_net()) as training:
        trace(training, 3)
        snapshot = saved(training)
        value = float(training.net.parameters["pull/w"].value[0])
    again = solver(Adam(), max_iter=4).solve(pulled_net(), resume=snapshot, reset_solver=True)
    assert again.iteration == 4
    # the first step of Adam is as large as its rate
    assert value - float(again.net.parameters["pull/w"].value[0]) == pytest.approx(0.1, rel=1e-6)


def test_two_parameters_at_different_rates_share_no_span() -> None:
    layers = [
        InputLayer(),
        PulledLayer(name="one", rate=1.0),
        PulledLayer(name="two", rate=0.5),
    ]
    net = Net("two", layers, dtype="float64", backend="numpy")
    with solver(AdaGrad()).start(net) as training:
        training.step()
        assert len(training.spans) == 2
    values = [float(net.parameters[f"{name}/w"].value[0]) for name in ("one", "two")]
    assert values == pytest.approx([0.9, 0.95], abs=1e-8)
