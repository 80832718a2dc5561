"""The errors of nets and of the engine, as a person reads them: how each is provoked, and its full text."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import pytest

from nacre import InputLayer, Layer, LayerState, Names, Net, Solver, exactly
from nacre_data import MemoryDataLayer
from nacre_layers import InnerProductLayer, SoftmaxLossLayer, TiedInnerProductLayer
from nacre_solvers import SGD
from provoked import Message, check_message
from small_layers import PlainBackend, SquareLossLayer


class PassLayer(Layer):
    """A layer with the state that it is given."""

    bottoms: Annotated[Names, exactly(1)]
    tops: Annotated[Names, exactly(1)]
    state: object = None

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> Any:
        return cast("Any", self.state)(self, backend, inputs, diffs)


class StatsLayer(PassLayer, has_stats=True):
    """One that says that it has statistics."""


class ForwardState(LayerState):
    """A state without backward."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape)]

    def forward(self, inputs: list[Any]) -> None:
        pass


class WholeState(ForwardState):
    """A state with both passes."""

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        pass


def ip(name: str, bottom: str = "data", **fields: Any) -> InnerProductLayer:
    return InnerProductLayer(name=name, bottoms=bottom, tops=name, **{"output_dim": 3, **fields})


LAYERS = [
    InputLayer(name="in", tops="data", shape=4, batch_size=2),
    InputLayer(name="label", tops="label", batch_size=2, dtype="int64"),
    ip("a"),
    ip("b", "a"),
    SoftmaxLossLayer(name="loss", bottoms=["b", "label"]),
]


def made(*layers: Layer, **options: Any) -> Net:
    return Net("small", layers or LAYERS, **cast("dict[str, Any]", {"backend": "numpy"} | options))


def stepped(**options: Any) -> Net:
    """Return a net after one step."""
    net = made(**options)
    net.write("data", np.ones((2, 4)))
    net.forward()
    net.backward()
    return net


def source(**fields: Any) -> list[Layer]:
    """Return layers with data of their own."""
    data = [np.eye(4), np.arange(4) % 3]
    return [MemoryDataLayer(name="train", data=data, batch_size=2, **fields), *LAYERS[2:]]


def passing(state: Any, layer: type[PassLayer] = PassLayer) -> Net:
    return made(LAYERS[0], layer(name="pass", bottoms="data", tops="y", state=state))


def closed() -> Any:
    net = made()
    net.shutdown()
    return net.forward()


def in_training() -> None:
    net = made(*source())
    with Solver(SGD()).start(net):
        net.freeze("a")


def busy() -> Any:
    """Use a net while another thread is inside."""
    net, inside, done = made(), threading.Event(), threading.Event()

    def hold() -> None:
        with net.turns.alone:
            inside.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    try:
        return net.forward()
    finally:
        done.set()
        thread.join()


def shared_apart() -> Net:
    """Make two layers share a parameter that each has in another net already."""
    one, other = ip("a", param_key="key"), ip("b", param_key="key")
    nets = [made(LAYERS[0], one), made(LAYERS[0], other)]
    return made(*nets[0].layers, other)


def of_another_type() -> Net:
    layers = [LAYERS[0], ip("a")]
    made(*layers)
    return made(*layers, dtype="float64")


def other() -> list[Layer]:
    """Return layers of which one has another shape, and one another name."""
    ends = [ip("a", output_dim=5), ip("c", "a"), SoftmaxLossLayer(name="loss", bottoms=["c", "label"])]
    return [source()[0], *ends]


def snapshot(*layers: Layer) -> Any:
    """Return a snapshot of a net that was trained for no iteration."""
    with Solver(SGD()).start(made(*layers)) as training:
        return training.snapshot()


MESSAGES: list[Message] = [
    # Arguments
    (
        lambda: made(phase="training"),
        "net 'small': phase='training', but it must be one of train, validation, test, predict",
    ),
    (
        lambda: made(dtype="float16", seed="one"),
        (
            "net 'small': dtype='float16', but it must be float32 or float64\n"
            "net 'small': seed='one', but it must be a whole number"
        ),
    ),
    (lambda: made(backend=3), "net 'small': backend=3, but it must be a Backend, the name of one, or None"),
    (
        lambda: Net("small", cast("Any", ["Conv"])),
        (
            "net 'small': layers holds 'Conv', but every entry must be a layer\n"
            "  make a layer of the class: ConvolutionLayer(bottoms=..., tops=..., ...)"
        ),
    ),
    (
        lambda: Net("small", cast("Any", 3)),
        (
            "net 'small': layers=3, but it must be a list of layers\n"
            "  write Net(name, [...]) with layers, or with handles"
        ),
    ),
    (
        lambda: made(compute="bf16"),
        ("net 'small': compute='bf16', but backend 'numpy' computes in float32\n  leave compute out"),
    ),
    (lambda: made(freeze=["aa"]), "net 'small': freeze has 'aa', but no layer has this name (did you mean 'a'?)"),
    (lambda: made(share=3), ("net 'small': share=3, but it must be another Net\n  leave share out, or give a net")),
    (
        lambda: made(share=Net("other", LAYERS, backend=PlainBackend())),
        (
            "net 'small' on backend 'numpy' cannot share the parameters of net 'other', which is on backend "
            "'plain'\n"
            "  make both nets on one backend"
        ),
    ),
    (lambda: made(keep="dat"), "net 'small' has no blob 'dat' (did you mean 'data'?)"),
    # Blobs
    (
        lambda: stepped().blob("a"),
        (
            "blob 'a' is not kept after a step: its memory may now hold something else\n"
            "  make the net with keep=('a',), or keep='all'"
        ),
    ),
    (
        lambda: stepped().gradient("a"),
        (
            "the gradient of blob 'a' is not kept after a step: its memory may now hold something else\n"
            "  make the net with keep=('a',), or keep='all'"
        ),
    ),
    (
        lambda: stepped().gradient("data"),
        (
            "the gradient of blob 'data' is not needed in this net, so it is not computed\n"
            "  make the net with input_gradients=('data',)"
        ),
    ),
    (lambda: made().blob("dat"), "net 'small' has no blob 'dat' (did you mean 'data'?)"),
    (lambda: made().write("a", 0), "blob 'a' is computed by layer 'a'; only blobs of sources can be written"),
    (lambda: made().write("data", np.ones((2, 5))), "blob 'data' has the shape (2, 4), but the new array has (2, 5)"),
    (
        lambda: made().write("data", np.full((2, 4), "x")),
        "blob 'data' needs numbers, but the new array has the type <U1",
    ),
    (
        lambda: made().write("label", [0, 1.5]),
        "blob 'label' needs whole numbers (int64), but the new array has 1.5 in row 1",
    ),
    (
        lambda: made(allocate=False).forward(),
        (
            "net 'small' was made with allocate=False, so its blobs have no memory\n"
            "  make the net without allocate=False"
        ),
    ),
    (closed, ("net 'small' is shut down\n  make a new net")),
    (
        busy,
        (
            "another thread is using net 'small', or a net derived from it\n"
            "  use it from one thread only (any thread may call net.predict, which waits for its turn), or "
            "make a net for each thread: Net(..., share=net)"
        ),
    ),
    # Parameters
    (
        lambda: setattr(made().parameters["a/weight"], "value", np.ones(4)),
        "parameter 'a/weight' has the shape (3, 4), but the new array has (4,)",
    ),
    (
        lambda: setattr(made().parameters["a/weight"], "value", "many"),
        "parameter 'a/weight' needs numbers of shape (3, 4), not 'many'",
    ),
    (
        lambda: made(LAYERS[0], ip("a"), allocate=False).parameters["a/weight"].value,
        ("parameter 'a/weight' has no memory, because its net was made with allocate=False\n  make the net without it"),
    ),
    (
        lambda: made().freeze(cast("Any", 3)),
        ("the name of a layer must be a string, not 3\n  call net.freeze('conv1', 'conv2')"),
    ),
    (lambda: made().freeze("aa"), "net 'small' has no layer 'aa' (did you mean 'a'?)"),
    (
        in_training,
        (
            "net 'small' is being trained, so its layers cannot be frozen or unfrozen\n"
            "  do it before the training starts"
        ),
    ),
    (
        lambda: made(*source()).parameters.load(snapshot(*other())),
        (
            "the snapshot does not fit net 'small': parameter 'a/weight' has the shape (5, 4) in the snapshot, "
            "but (3, 4) in this net; 'a/bias' has the shape (5,) in the snapshot, but (3,) in this net; "
            "'b/weight' is missing; 'b/bias' is missing; 'c/weight' is not in the net; 'c/bias' is not in the "
            "net\n"
            "  use the net file with which the snapshot was trained"
        ),
    ),
    (
        shared_apart,
        (
            "parameters a/weight and b/weight should be shared, but in other nets each layer has its own\n"
            "  make new layers, or give them one param_key in the first net already"
        ),
    ),
    (
        of_another_type,
        (
            "layer 'a' has float32 parameters from another net, but this net computes in float64\n"
            "  use a copy of the layer in this net: dataclasses.replace(layer)"
        ),
    ),
    (
        lambda: made(LAYERS[0], ip("a", param_key="key"), ip("b", param_key="key", output_dim=5)),
        (
            "parameter 'b/weight' has the shape (5, 4) and type float32, but 'a/weight', with which it is "
            "shared, has (3, 4) and float32\n"
            "  give the layers the same sizes, or let them not share parameters"
        ),
    ),
    (
        lambda: made(LAYERS[0], ip("a"), TiedInnerProductLayer(bottoms="a", tops="y", tied="aa", output_dim=4)),
        ("layer 'y' is tied to parameter 'aa/weight', but the net has no such parameter (did you mean 'a/weight'?)"),
    ),
    # Passes over data
    (
        lambda: made().forward_epoch(),
        (
            "net 'small' is in phase 'train', in which a pass over the data may begin inside a batch\n"
            "  use a net of another phase: net.derive('validation')"
        ),
    ),
    (
        lambda: made(phase="test").forward_epoch(),
        "net 'small' has no source whose data have an end, so there are no passes over the data",
    ),
    (
        lambda: Solver(SGD()).solve(made()),
        (
            "net 'small' has no data: nothing was written to 'data', 'label' of its Input layers\n"
            "  write it before (net.write('data', x)), or use a source with data"
        ),
    ),
    # Prediction
    (
        lambda: made().predict(np.ones((5, 3)), "b"),
        "blob 'data' has records of shape (4,), but the data have (3,)\n  give an array (records, 4)",
    ),
    (
        lambda: made().predict(np.ones(4), "b"),
        (
            "blob 'data' has records of shape (4,), but the data have ()\n"
            "  a single record is [x]; give an array (records, 4)"
        ),
    ),
    (lambda: made().predict(np.ones((0, 4)), "b"), "'data': the data have no record"),
    (lambda: made().predict([["x"] * 4], "b"), "blob 'data': the data must be numbers, but the array has the type <U1"),
    (lambda: made().predict({"other": np.ones((5, 4))}, "b"), "the net needs the blobs data, but data is missing"),
    (
        lambda: made().predict(np.ones((5, 4)), ["b", "label"]),
        ("the net needs the blobs data, label\n  give a tuple of arrays in this order, or data={name: array}"),
    ),
    (
        lambda: made(LAYERS[0], SquareLossLayer(name="loss", bottoms="data")).predict(np.ones((5, 4))),
        ("no layer of the net has a top that can be an output\n  name a blob as the output"),
    ),
    # States
    (
        lambda: passing(lambda *_: None),
        "layer 'pass' (Pass): Pass.setup must return a LayerState, not a NoneType [LINE]\n  correct it there",
    ),
    (
        lambda: passing(ForwardState),
        (
            "layer 'pass' (Pass): ForwardState does not define backward, but a state needs both forward and backward "
            "[LINE]\n  correct it there"
        ),
    ),
    (
        lambda: passing(WholeState, StatsLayer),
        (
            "layer 'pass' (Stats): the class declares has_stats, but WholeState does not define dump_statistics "
            "[LINE]\n  correct it there"
        ),
    ),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message[1].partition("\n")[0][:60])
def test_the_text_of_an_error(message: Message, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_message(message, tmp_path, monkeypatch)
