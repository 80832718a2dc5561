"""The estimators: scikit-learn's own checks, and what its users do with estimators."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from nacre_sklearn import NacreClassifier, NacreRegressor
from sklearn.base import clone
from sklearn.datasets import load_iris, make_regression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import nacre
from nacre import ConfigError, L, Net, Solver
from nacre_solvers import SGD

CHECKED = [NacreClassifier(lr=0.01, epochs=30), NacreRegressor(lr=0.01, epochs=30)]
IRIS = load_iris(return_X_y=True)


@pytest.mark.filterwarnings("ignore")  # some checks provoke warnings, of scikit-learn's own code too
@pytest.mark.parametrize(("estimator", "check"), [pair for one in CHECKED for pair in estimator_checks_generator(one)])
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    """All that `check_estimator` checks."""
    check(estimator)


def body(x: Any) -> Any:
    """Return what stands before the outputs."""
    return L.InnerProduct(output_dim=20, neuron="Tanh")(x)


def scored(layers: Any, **options: Any) -> float:
    """Return the share of the flowers that a net with these layers gets right."""
    x, y = IRIS
    net = NacreClassifier(layers, **{"epochs": 60, "lr": 0.01, "random_state": 0, **options})
    return float(make_pipeline(StandardScaler(), net).fit(x, y).score(x, y))


@pytest.mark.parametrize(
    "layers",
    [(), (20,), [np.int64(20), "Dropout"], L.InnerProduct(output_dim=20, neuron="ReLU"), body],
    ids=["linear", "numbers", "names", "a layer", "a function"],
)
def test_layers_are_numbers_names_layers_or_a_function(layers: Any) -> None:
    """Or nothing: then the net is linear."""
    assert scored(layers) > 0.9


def test_solvers_are_nacres() -> None:
    """A method by its name, or a solver, which has its own learning rate."""
    assert scored((10,), solver="Nesterov", lr=0.1) > 0.9
    assert scored((10,), lr=None, solver=Solver(SGD(), lr_policy=0.1, momentum_policy=0.9)) > 0.9


def test_names_of_classes_come_back() -> None:
    """In the order of `classes_`, as from any classifier."""
    x, y = IRIS
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    net = NacreClassifier(epochs=30, random_state=0).fit(x, names)
    assert set(net.predict(x)) <= set(names)
    assert net.predict_proba(x).shape == (150, 3)
    assert (net.classes_[net.decision_function(x).argmax(axis=1)] == net.predict(x)).all()


def test_images_in_float32_stay_float32() -> None:
    """Records have the shape that the layers read, and the net their type."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=(60, 1, 6, 6)).astype(np.float32), np.arange(60) % 2
    x[y == 1] += 1
    layers = [{"type": "Convolution", "n_filter": 4, "kernel": 3}]
    net = NacreClassifier(layers, epochs=30, lr=0.01, random_state=0).fit(x, y)
    assert net.net_.dtype == "float32" and net.predict_proba(x).dtype == np.float32
    assert net.score(x, y) > 0.9


def test_a_grid_search_tries_layers() -> None:
    """And it finds the learning rate with which a net learns."""
    x, y = IRIS
    net = make_pipeline(StandardScaler(), NacreClassifier(epochs=20, random_state=0))
    grid = {"nacreclassifier__layers": [(5,), (30,)], "nacreclassifier__lr": [1e-6, 0.01]}
    search = GridSearchCV(net, grid, cv=2).fit(x, y)
    assert search.best_params_["nacreclassifier__lr"] == 0.01
    assert search.best_score_ > 0.9


def test_layers_with_parameters_are_not_shared_by_fits() -> None:
    """A second fit begins anew, and so does that of a clone."""
    x, y = IRIS
    net = NacreClassifier([L.InnerProduct(output_dim=5)], epochs=3, random_state=0)
    first = net.fit(x, y).predict_proba(x)
    assert np.array_equal(net.fit(x, y).predict_proba(x), first)
    assert np.array_equal(clone(net).fit(x, y).predict_proba(x), first)


def test_a_pickle_and_a_saved_net_predict_the_same(tmp_path: Any) -> None:
    """A pickle is the estimator, a saved net the net alone."""
    x, y = IRIS
    net = NacreClassifier(body, epochs=5, random_state=0).fit(x, y)
    expected = net.predict_proba(x)
    assert np.array_equal(pickle.loads(pickle.dumps(net)).predict_proba(x), expected)  # noqa: S301 - our own
    net.net_.save(tmp_path / "iris.nacre")
    assert np.array_equal(nacre.load(tmp_path / "iris.nacre").predict(x, "probability", batch_size=256), expected)


def test_weights_of_classes_and_records() -> None:
    """A class whose records weigh more is found more often."""
    x, y = IRIS
    y = (y == 2).astype(int)
    weighed = NacreClassifier((), class_weight={0: 1.0, 1: 100.0}, epochs=20, lr=0.05, random_state=0).fit(x, y)
    plain = NacreClassifier((), epochs=20, lr=0.05, random_state=0).fit(x, y)
    assert weighed.predict(x).sum() > plain.predict(x).sum()
    same = NacreClassifier((), epochs=20, lr=0.05, random_state=0).fit(x, y, sample_weight=np.where(y == 1, 100.0, 1.0))
    assert np.allclose(same.predict_proba(x), weighed.predict_proba(x))


def test_early_stopping_needs_records_to_validate_on() -> None:
    """It ends before all epochs; without such records nacre says what to give."""
    x, y = IRIS
    net = NacreClassifier(epochs=500, lr=0.1, validation=0.3, early_stopping=3, random_state=0).fit(x, y)
    assert len(net.history_["validation"]["loss"]) < 500
    with pytest.raises(ConfigError, match="early_stopping"):
        NacreClassifier(early_stopping=3).fit(x, y)


def test_regressors_predict_the_shape_of_their_targets() -> None:
    """One number for each record, or several."""
    x, y = make_regression(80, 4, n_targets=2, random_state=0)
    y /= 100
    net = NacreRegressor((), epochs=100, lr=0.05, random_state=0).fit(x, y)
    assert net.predict(x).shape == y.shape and net.score(x, y) > 0.99
    assert net.fit(x, y[:, 0]).predict(x).shape == (80,)
    assert cross_val_score(net, x, y[:, 0], cv=3).min() > 0.9
    assert isinstance(net.net_, Net)
