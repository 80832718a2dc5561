"""Nets wired by calls: layers are called with handles, and a net is made of what they return."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

import nacre
from nacre import ConfigError, Input, L, Layer, Names, Net, Top, TopologyError, exactly, feed
from nacre.calls.lower import snake
from nacre.config import dumps, load
from nacre_data import HDF5DataLayer, MemoryDataLayer, RandomNormalLayer
from nacre_layers import (
    ActivationLayer,
    ConvolutionLayer,
    DropoutLayer,
    InnerProductLayer,
    PoolingLayer,
    ReLU,
    SequentialLayer,
    SquareLossLayer,
)
from small_layers import MatrixLayer


def names(net: Net) -> list[str]:
    return [layer.name for layer in net.layers]


def made(outputs: Any, **options: Any) -> Net:
    return Net("net", outputs, backend="numpy", **options)


def test_the_shelf_has_the_layers_themselves() -> None:
    assert L.Convolution is ConvolutionLayer
    assert L["Convolution"] is L["nacre:Convolution"] is ConvolutionLayer
    assert {"Convolution", "HDF5Data", "Input", "ReLU"} <= set(dir(L))
    assert not hasattr(L, "Convolutoin")
    with pytest.raises(nacre.RegistryError, match="no layer 'Convolutoin' \\(did you mean 'Convolution'"):
        _ = L.Convolutoin


def test_the_type_of_an_input_may_be_one_of_numpys_or_pythons() -> None:
    x = Input(3, dtype=np.int64), Input(3, dtype=np.dtype("uint8")), Input(3, dtype=int), Input(3, dtype=float)  # pyright: ignore[reportArgumentType]
    with Net("types", [*x], backend="numpy") as net:
        assert [net.memory.final[one.name].dtype for one in net.layers] == ["int64", "uint8", "int64", "float64"]


def test_an_input_without_a_name_is_called_input_in_errors() -> None:
    with pytest.raises(nacre.ConfigError, match=r"^Input: shape=\(-3,\), but every number must be above 0"):
        Input(-3)
    with pytest.raises(nacre.ConfigError, match=r"^x: shape=\(-3,\), but every"):
        Input(-3, name="x")


def test_a_neuron_is_a_layer_as_in_net_files() -> None:
    layer = L.ReLU(epsilon=0.5)
    assert (type(layer), type(layer.neuron), layer.unwired) == (ActivationLayer, ReLU, True)
    assert repr(L.ReLU) == "<L.ReLU: makes a layer Activation with neuron=ReLU(...)>"


def test_a_file_has_one_number_for_all_directions() -> None:
    h = L.Convolution(n_filter=2, kernel=3, stride=(1, 2), pad=[1])(Input((3, 9, 9)))
    text = dumps(Net("short", [h], allocate=False))
    assert "\nkernel = 3\nstride = [1, 2]\npad = 1\n" in text and "shape = [3, 9, 9]" in text


def test_a_layer_does_not_change_when_it_is_called() -> None:
    layer = L.Convolution(n_filter=2)
    before = dict(vars(layer))
    top = layer(Input((3, 4, 4)))
    assert isinstance(top, Top)
    assert vars(layer) == before
    assert repr(layer) == "ConvolutionLayer(n_filter=2)"
    assert repr(top) == "<top of Convolution>"


def test_one_handle_for_each_top() -> None:
    x = Input((4, 4, 4))
    one, other = L.Convolution(n_filter=2)(x, x)
    assert repr(other) == "<top 1 of Convolution>"
    assert [repr(top) for top in L.Slice(points=[1, 2])(x, tops=3)] == [f"<top {n} of Slice>" for n in range(3)]
    assert isinstance(L.Slice()(x), Top)  # one, where nothing else is said
    pooled, mask = L.Pooling(kernel=2)(x, tops=2)
    assert isinstance(L.Dropout()(one), Top)
    assert len(L.RandomMask()(one, other)) == 2
    assert isinstance(L.SquareLoss()(pooled, mask), nacre.Call)
    assert isinstance(L.RandomNormal(output_dims=3, batch_size=2)(), Top)


def test_names_are_given_when_the_net_is_made() -> None:
    x = Input((3, 8, 8))
    first = L.Convolution(n_filter=2, kernel=3)(x)
    unused = L.Convolution(n_filter=2, kernel=3)(first)
    named = L.Convolution(n_filter=3, name="mine")(first)
    last = L.Convolution(n_filter=2)(L.Pooling()(named))
    net = made([last])
    assert names(net) == ["input1", "convolution1", "mine", "pooling1", "convolution3"]
    assert names(made([unused])) == ["input1", "convolution1", "convolution2"]
    assert names(made(last)) == names(net)
    assert [layer.tops for layer in net.layers][1:] == [("convolution1",), ("mine",), ("pooling1",), ("convolution3",)]


def test_names_that_are_taken_are_passed_over() -> None:
    x = Input((4,), name="inner_product1")
    layer = L.InnerProduct(output_dim=4)
    y = layer(L.InnerProduct(output_dim=4, name="slice1_1")(layer(x)))
    z = L.Slice()(y, tops=2)
    net = made([*z])
    assert names(net) == ["inner_product1", "inner_product2", "slice1_1", "inner_product2_2", "slice2"]
    assert net.layers[-1].tops == ("slice2_0", "slice2_1")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("InnerProduct", "inner_product"), ("HDF5Data", "hdf5_data"), ("ReLU", "relu"), ("PReLU", "prelu"),
        ("GaussianKLLoss", "gaussian_kl_loss"), ("MVN", "mvn"), ("Im2col", "im2col"), ("JSONLOutput", "jsonl_output"),
    ],
)  # fmt: skip
def test_types_as_names_begin_with_them(kind: str, name: str) -> None:
    assert snake(kind) == name


def test_a_layer_called_twice_has_one_set_of_parameters() -> None:
    left, right = Input((4,), name="left"), Input((4,), name="right")
    both = L.InnerProduct(output_dim=3)
    loss = L.SquareLoss()(both(left), both(right))
    net = made([loss])
    assert names(net) == ["left", "right", "inner_product1", "inner_product1_2", "square_loss1"]
    assert list(net.parameters) == ["inner_product1/weight", "inner_product1/bias"]
    assert dumps(net).count('param_key = "inner_product1"') == 2
    net.write("left", np.ones((1, 4)))
    net.write("right", np.ones((1, 4)))
    assert net.forward() == 0


def test_two_nets_of_one_layer_share_its_parameters_whatever_they_call_it() -> None:
    x = Input((4,), name="x")
    aside, layer = L.InnerProduct(output_dim=4), L.InnerProduct(output_dim=2)
    one = made([layer(aside(x))])
    other = made([layer(L.ReLU()(x))])
    assert (list(one.parameters)[2], next(iter(other.parameters))) == ("inner_product2/weight", "inner_product1/weight")
    one.parameters["inner_product2/weight"].value = np.full((2, 4), 3.0)
    assert (other.parameters["inner_product1/weight"].value == 3).all()
    assert made([layer(x)]).parameters["inner_product1/weight"].value[0, 0] == 3


def test_a_container_is_called_like_a_layer_and_keeps_its_parameters() -> None:
    x = Input((4,), name="x")
    inner = L.InnerProduct(output_dim=4)
    block = L.Sequential(layer=[inner, L.Dropout(), {"type": "InnerProduct", "output_dim": 4}, L.Tanh()])
    net = made([block(block(x))])
    assert names(net) == ["x", "sequential1", "sequential1_2"]
    weights = ["sequential1/InnerProduct1/weight", "sequential1/InnerProduct2/weight"]
    assert [name for name in net.parameters if "weight" in name] == weights
    other = made([block(L.ReLU()(x)), inner(x)])
    for name in weights:
        assert other.parameters[name].storage is net.parameters[name].storage
    assert other.parameters["inner_product1/weight"].storage is net.parameters[weights[0]].storage


def test_repetitions_of_a_container_share_what_they_shared_before() -> None:
    x = Input((4,), name="x")
    stage = L.Repeat(times=2, layer=[L.InnerProduct(output_dim=4)])
    one, other = made([stage(x)]), made([stage(L.ReLU()(x))])
    assert [name for name in one.parameters if "weight" in name] == [
        "repeat1/1/InnerProduct1/weight",
        "repeat1/2/InnerProduct1/weight",
    ]
    assert all(one.parameters[name].storage is other.parameters[name].storage for name in one.parameters)


class FixedLayer(Layer, has_param=True, can_do_bp=True):
    """A stranger's layer that says nothing of sharing."""

    bottoms: Annotated[Names, exactly(1)]
    tops: Annotated[Names, exactly(1)]


def test_layers_of_others_share_too_and_their_files_say_so() -> None:
    assert [field.name for field in FixedLayer.fields()].count("param_key") == 1
    assert FixedLayer(bottoms="x", tops="y", param_key="k").param_key == "k"
    layer = MatrixLayer(width=3)
    net = made([layer(layer(Input((3,))))])
    assert list(net.parameters) == ["matrix1/W"]
    assert [getattr(one, "param_key", "") for one in net.layers] == ["", "matrix1", "matrix1"]


def test_handles_are_values_whatever_layers_do_in_place() -> None:
    x = Input((6,), name="x", batch_size=4)
    h = L.InnerProduct(output_dim=50, bias_init=1.0)(x)
    dropped, again = L.Dropout(ratio=0.5)(h), L.Dropout(ratio=0.5)(h)
    twice = L.Dropout(ratio=0.5)(dropped)
    net = made([h, dropped, again, twice], phase="train", keep="all")
    assert names(net) == ["x", "inner_product1", "split1", "dropout1", "split2", "dropout2", "dropout3"]
    net.write(x, np.ones((4, 6)))
    net.forward()
    values = [net.blob(top) for top in (h, dropped, again, twice)]
    zeros = [int((value == 0).sum()) for value in values]
    assert zeros[0] == 0 < min(zeros[1:])
    assert zeros[3] > zeros[1]
    assert (values[1] != values[2]).any()
    ratio = values[1] / values[0]
    assert set(np.unique(ratio).tolist()) == {0.0, 2.0}


def test_a_layer_in_place_alone_needs_no_split() -> None:
    h = L.InnerProduct(output_dim=5)(Input((6,)))
    net = made([L.Dropout()(L.Dropout()(h))])
    assert [type(layer) for layer in net.layers][2:] == [DropoutLayer, DropoutLayer]
    assert net.layers[-1].bottoms == ("inner_product1",)


def test_metrics_that_read_what_is_changed_in_place_do_not_stop_training() -> None:
    x, y = Input((6,), batch_size=4), Input((3,), batch_size=4)
    h = L.InnerProduct(output_dim=3)(x)
    mean = L.Reduction(exclude=["train"])(h)
    net = made([L.SquareLoss()(L.Dropout()(h), y), mean])
    net.forward()
    net.backward()
    assert net.derive("validation").layers_in("validation").keys() >= {"reduction1"}


def test_a_blob_that_several_layers_read_gets_the_sum_of_their_gradients() -> None:
    x = Input((4,), name="x", batch_size=2)
    h = L.InnerProduct(output_dim=4)(x)
    net = made([L.SquareLoss()(L.ElementWise(operation="Add")(h, L.Tanh()(h)), x)])
    assert net.insert_splits
    assert "insert_splits = true" in dumps(net)
    net.forward()
    net.backward()
    plain = made([L.SquareLoss()(L.InnerProduct(output_dim=4)(x), x)])
    assert not plain.insert_splits
    assert "insert_splits" not in dumps(plain)


def test_sources_begin_and_keep_the_names_of_their_tops() -> None:
    data, label = L.MemoryData(data=[np.ones((4, 3)), np.arange(4)], batch_size=2)()
    net = made([data, L.SquareLoss()(L.InnerProduct(output_dim=1)(data), label)])
    assert names(net) == ["memory_data1", "inner_product1", "square_loss1"]
    assert net.layers[0].tops == ("data", "label")
    noise = RandomNormalLayer(output_dims=3, batch_size=2, name="noise")()
    assert made([noise]).layers[0].tops == ("noise",)


def test_feed_joins_sources_of_phases(tmp_path: Any) -> None:
    train = MemoryDataLayer(data={"data": np.ones((6, 3)), "label": np.zeros(6), "w": np.ones(6)},
                            tops=["data", "w", "label"], batch_size=3)  # fmt: skip
    rest = MemoryDataLayer(data=[np.ones((4, 3)), np.zeros(4)], batch_size=2, name="rest")
    data, label = feed(train=train, validation=rest, test=rest)
    assert (train.exclude, rest.exclude) == ((), ())
    loss = L.SquareLoss()(L.InnerProduct(output_dim=1)(data), label)
    net = made([loss])
    assert {layer.name: layer.exclude for layer in net.layers[:2]} == {
        "memory_data1": ("validation", "test", "predict"),
        "rest": ("train", "predict"),
    }
    assert net.derive("test").forward_epoch() >= 0
    assert made([loss], phase="validation").forward() >= 0


def test_feed_returns_a_single_top_alone() -> None:
    arrays = np.ones((6, 3))
    top = feed(train=L.MemoryData(data=[arrays], tops="data", batch_size=2))
    assert repr(top) == "<top 'data' of MemoryData>"


def test_a_top_that_is_absent_in_a_phase_is_told_when_the_net_is_made() -> None:
    data = feed(train=MemoryDataLayer(data=[np.ones((6, 3))], tops="data", batch_size=3))
    ip = L.InnerProduct(output_dim=1)(data)
    with pytest.raises(TopologyError) as caught:
        made([ip], phase="test")
    assert str(caught.value) == (
        "net 'net': layer 'inner_product1' reads 'data' of layer 'memory_data1', absent in phase 'test'\n"
        "  feed(test=...) gives a source for this phase"
    )
    x = Input((3,))
    prob = L.Softmax(exclude=["train"])(x)
    loss = L.SquareLoss()(prob, x)
    with pytest.raises(TopologyError) as caught:
        made([loss])
    assert str(caught.value) == (
        "net 'net': layer 'square_loss1' reads 'softmax1' of layer 'softmax1', absent in phase 'train'\n"
        "  exclude 'square_loss1' from this phase too: exclude=['train']"
    )
    assert "softmax1" not in made([prob, L.InnerProduct(output_dim=2)(x)]).memory.final


def test_tops_that_a_net_is_made_of_stay_readable() -> None:
    x = Input((4,), name="x")
    h = L.InnerProduct(output_dim=4, name="h")(x)
    loss = L.SquareLoss()(L.Tanh()(L.InnerProduct(output_dim=4)(h)), x)
    net = made([h, loss])
    net.write(x, np.ones((1, 4)))
    net.forward()
    assert net.blob(h).shape == net.blob("h").shape == (1, 4)
    assert net.predict(np.ones((3, 4)), h).shape == (3, 4)
    with pytest.raises(nacre.BlobError, match="has no blob for <top of Activation>"):
        net.blob(L.Tanh()(h))


def test_a_layer_without_bottoms_and_tops_is_at_work_alone() -> None:
    work = L.InnerProduct(output_dim=2).at_work("numpy", np.ones((3, 4)))
    assert work.forward().shape == (3, 2)
    assert L.Slice().at_work("numpy", np.ones((3, 4))).forward().shape == (3, 4)


def test_a_default_of_bottoms_gives_way_to_a_call() -> None:
    loss = L.GaussianKLLoss()
    net = made([loss(Input((2,), name="a"), Input((2,), name="b"))])
    assert net.layers[-1].bottoms == ("a", "b")
    assert loss.bottoms == ("mu", "sigma")


def test_a_layer_of_values_begins_too() -> None:
    net = made([L.Parameter(shape=(3,))()])
    net.forward()
    assert net.blob("parameter1").shape == (3,)


def test_fields_are_checked_when_a_layer_is_made_and_when_it_is_called() -> None:
    with pytest.raises(ConfigError, match=r"Pooling: kernel=\(0,\), but every number must be above 0"):
        PoolingLayer(kernel=0)
    with pytest.raises(ConfigError, match=r"Clip: .*low"):
        L.Clip(low=3, high=1)(Input((3,)))
    with pytest.raises(ConfigError, match="seq/InnerProduct1: output_dim is missing"):
        made([L.Sequential(name="seq", layer=["InnerProduct"])(Input((3,)))])


def test_a_net_file_and_lists_take_no_layer_that_is_not_connected(tmp_path: Any) -> None:
    file = tmp_path / "net.toml"
    file.write_text('[[layer]]\ntype = "InnerProduct"\nname = "ip"\noutput_dim = 3\n')
    with pytest.raises(ConfigError, match="ip: bottoms is missing: the blobs to multiply"):
        load(file)
    inner = InnerProductLayer(output_dim=2)
    with pytest.raises(ConfigError) as caught:
        Net("list", [inner], backend="numpy")
    assert str(caught.value) == (
        "net 'list': InnerProduct: bottoms is missing: the blobs to multiply\n"
        "net 'list': InnerProduct: tops is missing: the products\n"
        "  in Python a layer without bottoms and tops is called: layer(x), and Net gets what that returns"
    )
    with pytest.raises(ConfigError, match="tops is missing"):
        InnerProductLayer(bottoms="x", output_dim=2)
    with pytest.raises(ConfigError, match="bottoms is missing"):
        InnerProductLayer(tops="x", output_dim=2)
    assert nacre.fresh(SequentialLayer(layer=[inner])).unwired


def test_what_cannot_be_written_from_outside_is_named_by_its_handle() -> None:
    net = made([L.SquareLoss()(Input((3,), name="a"), Input((3,), name="b"))])
    assert net.unwritten() == ["a", "b"]
    assert isinstance(SquareLossLayer(), Layer)
    assert HDF5DataLayer(source="a.h5", batch_size=2).given_name == ""
