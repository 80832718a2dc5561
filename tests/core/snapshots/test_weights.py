"""Net.load: parameters of trained nets, by the names of layers and parameters; and what stays as it is."""

import re
from dataclasses import replace

import numpy as np
import pytest

from nacre import ConfigError, DataError, InputLayer, Net, SnapshotError, Solver
from nacre.snapshots.folder import open_snapshot_store
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.linear.prelu import PReLULayer
from nacre_layers.losses.softmax_loss import SoftmaxLossLayer
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_solvers import Snapshot


def layers(*names, output=3, key="", norm=False):
    """Return a chain of inner products with these names."""
    made = [
        InputLayer(name="in", tops=["x"], shape=4, batch_size=2),
        InputLayer(name="labels", tops=["label"], batch_size=2, dtype="int64"),
    ]
    bottom = "x"
    for name in names:
        made.append(
            InnerProductLayer(name=name, bottoms=[bottom], tops=[name], output_dim=output, param_key=key, neuron="Tanh")
        )
        bottom = name
    if norm:
        made.append(BatchNormLayer(name="norm", bottoms=[bottom], tops=["norm"]))
        bottom = "norm"
    return [*made, SoftmaxLossLayer(name="loss", bottoms=[bottom, "label"])]


def net(*names, seed=0, **options):
    made = Net("n", layers(*names, **options), backend="numpy", seed=seed)
    made.write("x", np.ones((2, 4)))
    made.write("label", [0, 1])
    return made


def saved(folder, *names, seed=1, **options):
    """Train a net for an iteration; give the snapshot's path and the net's parameters."""
    trained = net(*names, seed=seed, **options)
    training = Solver("SGD", max_iter=1, callbacks=[Snapshot(folder=str(folder))]).solve(trained)
    return training.snapshot_path, values(trained)


def values(one):
    return {name: handle.value for name, handle in one.parameters.items()}


def same(one, other):
    return set(one) == set(other) and all(np.array_equal(one[name], other[name]) for name in one)


def test_a_name_that_the_net_lacks_is_refused(tmp_path):
    path, _ = saved(tmp_path, "ip1", "ip2")
    here = net("ip1", "ip2")
    with pytest.raises(SnapshotError, match=r"'ip1' .*'ip9': net 'n' .*did you mean 'ip"):
        here.load(path, strict=False, rename={"ip1": "ip9"})


@pytest.mark.parametrize(("path", "rename"), [(3, None), ([3], None), (None, None), ("a.h5", ["ip1"])])
def test_what_is_no_path_is_told(path, rename):
    with pytest.raises(ConfigError, match=re.escape(f"net.load: path={path!r}, rename=")):
        net("ip1").load(path, rename=rename)


def test_everything_is_loaded(tmp_path):
    path, theirs = saved(tmp_path, "a", "b", norm=True)
    here = net("a", "b", norm=True)
    done = here.load(path)
    assert done.complete and set(done.loaded) == set(theirs)
    assert same(values(here), theirs)
    assert f"a/weight       loaded from {path}" in str(done)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1, 1)])
def test_a_single_number_fits_with_any_number_of_axes(tmp_path, shape):
    """Of a slope that all channels share Caffe's shape is (), PyTorch's and nacre's (1,), of old files (1, 1, 1, 1)."""

    def sloped():
        slope = PReLULayer(name="p", bottoms="x", tops="y", shared=True)
        return Net("n", [*layers()[:2], slope, SoftmaxLossLayer(bottoms=["y", "label"])], backend="numpy")

    here = sloped()
    assert here.parameters["p/slope"].shape == (1,)
    here.parameters["p/slope"].value = np.full(shape, 0.75)
    assert here.parameters["p/slope"].value.tolist() == [0.75]
    here.write("x", [[-1, -2, 3, 4], [-5, 6, -7, 8]])
    here.write("label", [0, 1])
    solver = Solver("SGD", max_iter=1, momentum_policy=0.9, lr_policy=0.1)
    snapshot = solver.solve(here).snapshot()
    learned = snapshot.arrays["parameters/p/slope"].item()
    assert learned != 0.75
    theirs = replace(snapshot, arrays={key: value.reshape(shape) for key, value in snapshot.arrays.items()})
    store = open_snapshot_store("HDF5")
    path = tmp_path / f"000001{store.suffix}"
    path.write_bytes(store.encode(theirs))
    again = sloped()
    again.load(path)
    assert again.parameters["p/slope"].value.tolist() == [learned]
    with replace(solver, max_iter=2).start(sloped()) as training:
        training.restore(theirs)
        assert training.snapshot().arrays == snapshot.arrays
    for several in ((2,), (0,), (1, 2)):
        with pytest.raises(DataError, match=r"parameter 'p/slope' has the shape \(1,\)"):
            here.parameters["p/slope"].value = np.zeros(several)


def test_a_folder_means_the_newest(tmp_path):
    _, theirs = saved(tmp_path, "a", "b")
    here = net("a", "b")
    here.load(tmp_path)
    assert same(values(here), theirs)


def test_what_does_not_fit_is_an_error_that_changes_nothing(tmp_path):
    path, _ = saved(tmp_path, "a", "b")
    here = net("a", "c", output=3)
    before = values(here)
    with pytest.raises(SnapshotError) as caught:
        here.load(path)
    for line in (r"a/weight +loaded from", "c/weight +missing: it keeps", "b/bias +left over"):
        assert re.search(line, str(caught.value))
    assert "strict=False" in str(caught.value)
    assert same(values(here), before)


def test_what_fits_is_taken(tmp_path):
    path, theirs = saved(tmp_path, "a", "b")
    here = net("a", "c")
    before = values(here)
    done = here.load(path, strict=False)
    assert list(done.loaded) == ["a/weight", "a/bias"]
    assert done.missing == ["c/weight", "c/bias"]
    assert done.left_over == ["b/weight", "b/bias"]
    assert same(values(here), {name: theirs.get(name, before[name]) for name in before})


def test_another_shape_is_told(tmp_path):
    path, _ = saved(tmp_path, "a", output=5)
    here = net("a", "b")
    with pytest.raises(SnapshotError, match=r"a/weight +.*\(5, 4\).*\(3, 4\)"):
        here.load(path, strict=False)


def test_layers_and_parameters_are_renamed(tmp_path):
    path, theirs = saved(tmp_path, "a", "b")
    here = net("first", "b")
    done = here.load(path, strict=False, rename={"a": "first", "b/bias": ""})
    assert done.missing == ["b/bias"] and not done.left_over
    assert done.loaded["first/weight"] == f"{path}, where its name is a/weight"
    assert np.array_equal(here.parameters["first/weight"].value, theirs["a/weight"])


def test_a_layer_may_take_the_name_of_another(tmp_path):
    path, theirs = saved(tmp_path, "a", "b", output=4)
    here = net("a", "b", output=4)
    here.load(path, rename={"a": "b", "b": "a"})
    assert np.array_equal(here.parameters["a/weight"].value, theirs["b/weight"])


@pytest.mark.parametrize(
    ("rename", "message"),
    [({"aa": "b"}, "has no layer or parameter 'aa'.*'a'"), ({"a": "b"}, "'b/")],
)
def test_bad_renames(tmp_path, rename, message):
    path, _ = saved(tmp_path, "a", "b")
    with pytest.raises(SnapshotError, match=message):
        net("a", "b").load(path, rename=rename)


def test_of_several_files_a_later_one_wins(tmp_path):
    one, first = saved(tmp_path / "one", "a", "b", seed=1)
    two, second = saved(tmp_path / "two", "b", "c", output=4, seed=2)
    here = net("a", "b", output=4)
    done = here.load([one, two], strict=False)
    assert "a/weight" in done.unfit and done.loaded["b/weight"] == two
    assert np.array_equal(here.parameters["b/weight"].value, second["b/weight"])
    again = net("a", "b")
    again.load([two, one], strict=False, rename=None)
    assert same(values(again), first)


def test_shared_parameters(tmp_path):
    path, theirs = saved(tmp_path / "shared", "a", "b", output=4, key="k")
    apart = net("a", "b", output=4)
    apart.load(path)
    assert np.array_equal(apart.parameters["b/weight"].value, theirs["a/weight"])
    path, _ = saved(tmp_path / "apart", "a", "b", output=4)
    with pytest.raises(SnapshotError, match=r"shared here, but not in .*: a/weight, b/weight"):
        net("a", "b", output=4, key="k").load(path, strict=False)


def test_frozen_layers_stay_as_they_are():
    here = Net("n", layers("a", "b"), backend="numpy", freeze=["a"])
    here.write("x", np.arange(8.0).reshape(2, 4))
    here.write("label", [0, 0])
    before = values(here)
    Solver("SGD", max_iter=2, lr_policy=0.5, callbacks=[]).solve(here)
    changed = {name for name, value in values(here).items() if not np.array_equal(value, before[name])}
    assert changed == {"b/weight", "b/bias"}


def test_freezing_is_for_training():
    validation = [layer for layer in layers("a", "b") if layer.name != "loss"]
    assert not Net("n", validation, backend="numpy", phase="test", freeze=["a"]).frozen


def test_freezing_a_layer_that_is_not_there():
    with pytest.raises(ConfigError, match=r"freeze has 'aa'.*'a'"):
        Net("n", layers("a"), backend="numpy", freeze=["aa"])


def test_a_net_that_is_not_initialised_waits_for_its_values(tmp_path):
    path, theirs = saved(tmp_path, "a", "b", norm=True)
    here = Net("n", layers("a", "b", norm=True), backend="numpy", initialise=False)
    assert not any(value.any() for value in values(here).values())
    here.load(path)
    assert same(values(here), theirs)
