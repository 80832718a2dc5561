"""The errors that plugins cause while they work: whose fault it is, in which file and line, and what to type."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import odd_things
from nacre import NacreError, Net, Part, Solver, open_backend
from nacre.config import load
from nacre_data import DataLayer, MemoryDataLayer
from nacre_layers import InnerProductLayer, SoftmaxLossLayer
from nacre_solvers import SGD, Snapshot
from odd_things import (
    HalfLayer,
    OddAlgorithm,
    OddBoxLayer,
    OddCallback,
    OddConstraint,
    OddInitializer,
    OddLayer,
    OddMethod,
    OddMomentum,
    OddNeuron,
    OddPolicy,
    OddRegularizer,
    OddSourceLayer,
    OddStore,
    OddTransformer,
    StatelessLayer,
)
from registries import NewRegistry, install_plugin

OFFERS: list[tuple[str, str, object]] = [
    *(("layer", name, f"odd_things:{name}Layer") for name in ("Odd", "OddBox", "Half", "Stateless", "OddSource")),
    *(
        (kind, name, f"odd_things:{name}")
        for kind, name in (
            ("neuron", "OddNeuron"), ("initializer", "OddInitializer"), ("regularizer", "OddRegularizer"),
            ("constraint", "OddConstraint"), ("solver", "OddMethod"), ("lr_policy", "OddPolicy"),
            ("momentum_policy", "OddMomentum"), ("callback", "OddCallback"), ("algorithm", "OddAlgorithm"),
            ("transformer", "OddTransformer"), ("store", "OddStore"),
        )
    ),
    ("kernel", "InnerProduct@numpy", "odd_things:OddKernel"),
    ("backend", "odd", "odd_things:OddBackend"),
    ("backend", "bare", "odd_things:EmptyBackend"),
    ("command", "shout", "odd_things:shout"),
]  # fmt: skip
AWAY = "pip uninstall odd-things, or set NACRE_DISABLE_PLUGINS=odd-things"
KERNEL = {"kernel:InnerProduct@numpy": "odd-things"}
DATA = MemoryDataLayer(name="data", data=[np.eye(4), np.arange(4) % 3], batch_size=2)


def ip(**fields: Any) -> InnerProductLayer:
    return InnerProductLayer(**{"name": "ip", "bottoms": "data", "tops": "ip", "output_dim": 3, **fields})


def net(*layers: Any, source: Any = DATA, **options: Any) -> Net:
    """Return a net of a source, an InnerProduct, the layers, and a loss of the last one's top."""
    rest = layers or (ip(),)
    top = getattr(rest[-1], "tops", ("ip",))[0]
    loss = SoftmaxLossLayer(name="loss", bottoms=[top, "label"])
    return Net("small", [source, *rest, loss], **{"backend": "numpy", **options})


def solve(*layers: Any, method: Any = None, callbacks: Any = (), find_nan: bool = False, **options: Any) -> Any:
    """Train a net for two iterations; `options` are the solver's."""
    with net(*layers) as made:
        if find_nan:
            made.find_nan()
        made.statistic_names()
        return Solver(method or SGD(), callbacks=callbacks, max_iter=2, **options).solve(made, quiet=True)


def odd(fault: str, **options: Any) -> Any:
    return solve(ip(), OddLayer(name="odd", bottoms="ip", tops="odd", fault=fault), **options)


def boxed(fault: str) -> Any:
    return net(ip(), OddBoxLayer(name="box", bottoms="ip", tops="box", fault=fault))


def sourced(**fields: Any) -> Any:
    made = net(source=OddSourceLayer(name="eye", tops=["data", "label"], **fields))
    made.forward()
    return made.epoch


def one_of_several() -> Any:
    """Run a source that feeds one of two uneven parts of each batch of three."""
    source = OddSourceLayer(name="eye", tops=["data", "label"])
    source.as_part_of(source, Part(0, 1, 2, 3, 1, 3))
    with Net("parts", [source], backend="numpy", rank=1, ranks=2) as one:
        return one.feed()


def stored() -> Any:
    Path("train.odd").write_text("")
    return net(
        source=DataLayer(name="files", tops=["data", "label"], source="train.odd", batch_size=2, store=OddStore())
    )


def filed(layer: str) -> Any:
    Path("net.toml").write_text(f'[[layer]]\ntype = "Input"\n[[layer]]\nbottoms = "data"\ntops = "x"\n{layer}')
    return load("net.toml").net()


FAULTS: dict[str, tuple[Callable[[], object], str, str]] = {
    "complaints": (
        lambda: filed('type = "Odd"\nfault = "complaints raise"'),
        (
            "layer 'x' (Odd of odd-things 1.0): complaints raised IndexError: out of range [raise "
            'IndexError("out of range")]'
        ),
        AWAY,
    ),
    "no state": (
        lambda: net(ip(), StatelessLayer(name="stateless", bottoms="ip", tops="stateless")),
        (
            "layer 'stateless' (Stateless of odd-things 1.0): setup: StatelessLayer has no state: no "
            "class declares of=StatelessLayer, and StatelessLayer does not define setup [class "
            "StatelessLayer(Layer):]"
        ),
        AWAY,
    ),
    "no backward": (
        lambda: net(ip(), HalfLayer(name="half", bottoms="ip", tops="half")),
        (
            "layer 'half' (Half of odd-things 1.0): HalfState does not define backward, but a state "
            "needs both forward and backward [class HalfState(LayerState, of=HalfLayer):]"
        ),
        AWAY,
    ),
    "setup raises": (
        lambda: odd("setup raises"),
        ("layer 'odd' (Odd of odd-things 1.0): setup raised KeyError: 'size' [raise KeyError(\"size\")]"),
        AWAY,
    ),
    "setup returns None": (
        lambda: odd("setup returns None"),
        (
            "layer 'odd' (Odd of odd-things 1.0): Odd.setup must return a LayerState, not a NoneType "
            "[class OddLayer(Layer, has_param=True, has_loss=True, has_stats=True, can_do_bp=True):]"
        ),
        AWAY,
    ),
    "no super().__init__": (
        lambda: odd("no super"),
        (
            "layer 'odd' (Odd of odd-things 1.0): OddState does not call super().__init__(layer, "
            "backend, inputs, diffs) [class OddState(LayerState):]"
        ),
        AWAY,
    ),
    "two blobs for one top": (
        lambda: odd("two blobs"),
        ("layer 'odd' (Odd of odd-things 1.0): OddState declares 2 blobs for 1 tops [class OddState(LayerState):]"),
        AWAY,
    ),
    "parameters are arrays": (
        lambda: odd("parameters are arrays"),
        (
            "layer 'odd' (Odd of odd-things 1.0): OddState.parameters has a ndarray, but must have "
            "only Parameters [class OddState(LayerState):]"
        ),
        AWAY,
    ),
    "ready raises": (
        lambda: odd("ready raises"),
        (
            "layer 'odd' (Odd of odd-things 1.0): ready raised IndexError: tuple index out of range "
            "[self.weight = self.parameters[1]]"
        ),
        AWAY,
    ),
    "forward raises": (
        lambda: odd("forward raises"),
        (
            "layer 'odd' (Odd of odd-things 1.0): forward raised ValueError: cannot reshape array of "
            "size 6 into shape (7,7,7) [inputs[0].reshape(7, 7, 7)]"
        ),
        AWAY,
    ),
    "forward ends the process": (
        lambda: odd("forward exits"),
        ("layer 'odd' (Odd of odd-things 1.0): forward raised SystemExit: 3 [raise SystemExit(3)]"),
        AWAY,
    ),
    "forward returns its result": (
        lambda: odd("forward returns"),
        (
            "layer 'odd' (Odd of odd-things 1.0): forward returned an array of shape (2, 3), but it "
            "must return nothing, and write into self.blobs[0] [class OddState(LayerState):]"
        ),
        f"write self.blobs[0][...] = ..., or {AWAY}",
    ),
    "blobs[0] =": (
        lambda: odd("blobs[0] = "),
        (
            "layer 'odd' (Odd of odd-things 1.0): forward: self.blobs[0] = ... would put another "
            "array into the place of the net's, which the other layers use [self.blobs[0] = "
            "inputs[0] * 2]"
        ),
        f"write into the array: self.blobs[0][...] = ..., or {AWAY}",
    ),
    "blobs =": (
        lambda: odd("blobs = "),
        (
            "layer 'odd' (Odd of odd-things 1.0): it has put another object into the place of "
            "self.blobs, which belongs to the net [class OddState(LayerState):]"
        ),
        f"write into the net's arrays: self.blobs[0][...] = ..., or {AWAY}",
    ),
    "blobs.append": (
        lambda: odd("blobs.append"),
        (
            "layer 'odd' (Odd of odd-things 1.0): forward: self.blobs cannot have more or fewer "
            "entries: from ready() on, its arrays are the net's [self.blobs.append(inputs[0] * 2)]"
        ),
        f"declare blobs and parameters in __init__, or {AWAY}",
    ),
    "parameter.blob =": (
        lambda: odd("parameter.blob = "),
        (
            "layer 'odd' (Odd of odd-things 1.0): it has put another object into the place of the "
            "blob of parameter 'weight', which belongs to the net [class OddState(LayerState):]"
        ),
        f"write into the net's arrays: self.blobs[0][...] = ..., or {AWAY}",
    ),
    "forward writes NaN": (
        lambda: odd("forward NaN"),
        ("iteration 0: the loss is nan; first seen in blob 'odd' of layer 'odd'"),
        "try a smaller learning rate, or check the data; nacre train --find-nan (net.find_nan) names the layer",
    ),
    "forward writes NaN, step by step": (
        lambda: odd("forward NaN", find_nan=True),
        (
            "iteration 0: layer 'odd' (Odd of odd-things 1.0): forward writes the first number that "
            "is not finite, into blob 'odd'"
        ),
        "try a smaller learning rate, or check the data and the fields of this layer",
    ),
    "backward raises": (
        lambda: odd("backward raises"),
        (
            "layer 'odd' (Odd of odd-things 1.0): backward raised AttributeError: 'OddState' object "
            "has no attribute 'missing' [self.missing()  # type: ignore[attr-defined]]"
        ),
        AWAY,
    ),
    "backward returns its result": (
        lambda: odd("backward returns"),
        (
            "layer 'odd' (Odd of odd-things 1.0): backward returned an array of shape (2, 3), but it "
            "must return nothing, and write into diffs[0] [class OddState(LayerState):]"
        ),
        f"write diffs[0][...] = ..., or {AWAY}",
    ),
    "diffs[0] =": (
        lambda: odd("diffs[0] = "),
        (
            "layer 'odd' (Odd of odd-things 1.0): backward: diffs[0] = ... would put another array "
            "into the place of the net's, which the other layers use [diffs[0] = self.blobs_diff[0]]"
        ),
        f"write into the array: diffs[0][...] = ..., or {AWAY}",
    ),
    "parameter.gradient =": (
        lambda: odd("gradient = "),
        (
            "layer 'odd' (Odd of odd-things 1.0): it has put another object into the place of the "
            "gradient of parameter 'weight', which belongs to the net [class OddState(LayerState):]"
        ),
        f"write into the net's arrays: self.blobs[0][...] = ..., or {AWAY}",
    ),
    "backward writes NaN": (
        lambda: odd("backward NaN"),
        (
            "iteration 0: a number is not finite; first seen in the gradient of parameter 'ip/bias' "
            "of layer 'ip', which came through layer 'odd'"
        ),
        "try a smaller learning rate, or check the data; nacre train --find-nan (net.find_nan) names the layer",
    ),
    "backward writes NaN, step by step": (
        lambda: odd("backward NaN", find_nan=True),
        (
            "iteration 0: layer 'odd' (Odd of odd-things 1.0): backward writes the first number that "
            "is not finite, into the gradient of blob 'ip'"
        ),
        "try a smaller learning rate, or check the data and the fields of this layer",
    ),
    "the loss is None": (
        lambda: odd("loss is None"),
        (
            "layer 'odd' (Odd of odd-things 1.0): its loss is None, but it must be a number, or an "
            "array of the backend with one [class OddState(LayerState):]"
        ),
        f"forward must set self.loss, or {AWAY}",
    ),
    "statistics raise": (
        lambda: odd("statistics raise"),
        (
            "layer 'odd' (Odd of odd-things 1.0): dump_statistics raised ZeroDivisionError: division "
            'by zero [return {"share": 1 / (self.backend.step * 0)}]'
        ),
        AWAY,
    ),
    "statistics are a number": (
        lambda: odd("statistics are a number"),
        (
            "layer 'odd' (Odd of odd-things 1.0): dump_statistics returned 0.5, but it must return a "
            "dict of numbers [class OddState(LayerState):]"
        ),
        'return {"accuracy": ..., ...}, or ' + AWAY,
    ),
    "memory is a list": (
        lambda: odd("memory is a list", callbacks=[Snapshot()]),
        (
            "layer 'odd' (Odd of odd-things 1.0): memory returned [1], but it must return a dict "
            "[class OddState(LayerState):]"
        ),
        AWAY,
    ),
    "memory of objects": (
        lambda: odd("memory of objects", callbacks=[Snapshot()]),
        (
            "layer 'odd' (Odd of odd-things 1.0): memory returned {1, 2} as 'seen', but it must be "
            "an array of numbers, a number or a string [class OddState(LayerState):]"
        ),
        AWAY,
    ),
    "shutdown raises": (
        lambda: odd("shutdown raises"),
        (
            "layer 'odd' (Odd of odd-things 1.0): shutdown raised ProcessLookupError: no such "
            'process [raise ProcessLookupError("no such process")]'
        ),
        AWAY,
    ),
    "a source raises": (
        lambda: sourced(fault="forward raises"),
        (
            "layer 'eye' (OddSource of odd-things 1.0): forward raised EOFError: the camera is off "
            '[raise EOFError("the camera is off")]'
        ),
        AWAY,
    ),
    "a source without rows": (
        lambda: sourced(fault="rows are None"),
        (
            "layer 'eye' (OddSource of odd-things 1.0): its rows are None, but must be how many rows "
            "of the batch of 2 are real [class OddSourceState(SourceState, of=OddSourceLayer):]"
        ),
        f"forward must set self.rows, or {AWAY}",
    ),
    "complaints that are no sentences": (
        lambda: filed('type = "Odd"\nfault = "complaints are numbers"'),
        (
            "layer 'x' (Odd of odd-things 1.0): complaints returned [3], but it must yield sentences "
            "[class OddLayer(Layer, has_param=True, has_loss=True, has_stats=True, can_do_bp=True):]"
        ),
        AWAY,
    ),
    "a bottom that is none": (
        lambda: odd("a bottom that is none"),
        (
            "layer 'odd' (Odd of odd-things 1.0): bottoms_without_gradient returned 'eyes', but the names are ip "
            "[class OddLayer(Layer, has_param=True, has_loss=True, has_stats=True, can_do_bp=True):]"
        ),
        AWAY,
    ),
    "blobs are None": (
        lambda: odd("blobs are None"),
        (
            "layer 'odd' (Odd of odd-things 1.0): OddState.blobs is None, but must be a list of what "
            "backend.blob() returns [class OddState(LayerState):]"
        ),
        AWAY,
    ),
    "blobs are words": (
        lambda: odd("blobs are words"),
        (
            "layer 'odd' (Odd of odd-things 1.0): OddState.blobs has a str, but must have only what "
            "backend.blob() returns [class OddState(LayerState):]"
        ),
        AWAY,
    ),
    "intermediates are a blob": (
        lambda: odd("intermediates are a blob"),
        (
            "layer 'odd' (Odd of odd-things 1.0): OddState.intermediates is Blob(2 x 3, float32), "
            "but must be a list of what backend.blob() returns [class OddState(LayerState):]"
        ),
        AWAY,
    ),
    "parameters of one name": (
        lambda: odd("parameters of one name"),
        (
            "layer 'odd' (Odd of odd-things 1.0): OddState.parameters has two of the name 'weight' "
            "[class OddState(LayerState):]"
        ),
        AWAY,
    ),
    "a blob of objects": (
        lambda: odd("a blob of objects"),
        (
            "layer 'odd' (Odd of odd-things 1.0): __init__: a blob cannot hold object [\"a blob of "
            'objects": lambda self, inputs: self.backend.blob((2, 3), "object"),]'
        ),
        f"it has numbers: floating, whole, or booleans, or {AWAY}",
    ),
    "a blob of half a row": (
        lambda: odd("a blob of half a row"),
        (
            "layer 'odd' (Odd of odd-things 1.0): __init__: a blob cannot have the shape (2.5, 3); "
            'it must be a tuple of whole numbers ["a blob of half a row": lambda self, inputs: '
            "self.backend.blob((2.5, 3)),  # type: ignore[arg-type]]"
        ),
        AWAY,
    ),
    "a blob is used before ready": (
        lambda: odd("a blob is used"),
        (
            "layer 'odd' (Odd of odd-things 1.0): __init__: a declared blob of shape (2, 3) was "
            'used, but it has no memory before ready() ["a blob is used": lambda self, inputs: '
            "inputs[0] * 2,]"
        ),
        AWAY,
    ),
    "a number as initializer": (
        lambda: odd("a number as initializer"),
        (
            "layer 'odd' (Odd of odd-things 1.0): __init__: parameter 'bias': init is an int, but "
            'must be an Initializer or None ["a number as initializer": lambda self, inputs: '
            'Parameter("bias", (1,), init=3),  # type: ignore[arg-type]]'
        ),
        AWAY,
    ),
    "a word as shape": (
        lambda: odd("a word as shape"),
        (
            "layer 'odd' (Odd of odd-things 1.0): __init__: parameter 'bias': its shape is '1', but "
            'must be a tuple of whole numbers ["a word as shape": lambda self, inputs: '
            'Parameter("bias", "1", init=Constant()),  # type: ignore[arg-type]]'
        ),
        AWAY,
    ),
    "a field is set": (
        lambda: odd("a field is set"),
        (
            "layer 'odd' (Odd of odd-things 1.0): setup: OddLayer: fault cannot be set, because "
            "layers and components do not change [setattr(thing, name, value)]"
        ),
        f"make another: dataclasses.replace(layer, fault=...), or {AWAY}",
    ),
    "a function of the package raises": (
        lambda: odd("a function raises"),
        (
            "layer 'odd' (Odd of odd-things 1.0): __init__ raised ValueError: cannot reshape array "
            "of size 6 into shape (7,7,7) [return array.reshape(7, 7, 7)]"
        ),
        AWAY,
    ),
    "memory by number": (
        lambda: odd("memory by number", callbacks=[Snapshot()]),
        (
            "layer 'odd' (Odd of odd-things 1.0): memory returned the key 3, but its keys must be "
            "strings [class OddState(LayerState):]"
        ),
        AWAY,
    ),
    "a container returns None": (
        lambda: boxed("None"),
        (
            "layer 'box' (OddBox of odd-things 1.0): expand returned None, but it must return layers "
            "[class OddBoxLayer(Layer):]"
        ),
        AWAY,
    ),
    "a container returns names": (
        lambda: boxed("names"),
        (
            "layer 'box' (OddBox of odd-things 1.0): expand returned 'ReLU' among its layers, but it "
            "must return layers [class OddBoxLayer(Layer):]"
        ),
        AWAY,
    ),
    "a container without an end": (
        lambda: boxed("no end"),
        (
            "layer 'box' (OddBox of odd-things 1.0): expand returned more than 100,000 layers [class "
            "OddBoxLayer(Layer):]"
        ),
        AWAY,
    ),
    "a container in itself": (
        lambda: boxed("itself"),
        (
            "layer 'box' (OddBox of odd-things 1.0): in container 'box' stand 100 containers, one inside the other, "
            "and the last makes one more, but the most is 100 [class OddBoxLayer(Layer):]"
        ),
        f"put fewer into each other; an `expand` that makes its own kind again never ends, or {AWAY}",
    ),
    "a source of more rows than a batch has": (
        lambda: sourced(fault="rows are too many"),
        (
            "layer 'eye' (OddSource of odd-things 1.0): its rows are 5, but must be how many rows of "
            "the batch of 2 are real [class OddSourceState(SourceState, of=OddSourceLayer):]"
        ),
        f"forward must set self.rows, or {AWAY}",
    ),
    "a source without passes": (
        lambda: sourced(fault="epoch is None"),
        (
            "layer 'eye' (OddSource of odd-things 1.0): its epoch is None, but must be how many "
            "passes over the data are complete [class OddSourceState(SourceState, "
            "of=OddSourceLayer):]"
        ),
        f"forward must set self.epoch, or {AWAY}",
    ),
    "a source that does not ask for its rows": (
        one_of_several,
        (
            "layer 'eye' (OddSource of odd-things 1.0) does not ask which rows of a batch are this rank's, so it would "
            "feed wrong ones: 3 records are not divided evenly among 2 ranks"
        ),
        "use a multiple of 2 as batch_size; its author should take the rows that backend.joined(rows) says",
    ),
    "a transformer raises": (
        lambda: net(
            source=MemoryDataLayer(
                name="data", data=[np.eye(4), np.arange(4) % 3], batch_size=2, transformers=[("data", OddTransformer())]
            )
        ).forward(),
        (
            "transformer 'OddTransformer' of odd-things 1.0: transform raised ValueError: operands "
            "could not be broadcast together with shapes (2,4) (99,) (2,4) [batch -= np.ones(99)]"
        ),
        AWAY,
    ),
    "a store raises": (
        lambda: stored(),
        (
            "store 'OddStore' of odd-things 1.0: open raised UnicodeDecodeError: 'utf-8' codec can't "
            'decode byte 0xff in position 0: invalid start byte [raise UnicodeDecodeError("utf-8", '
            'b"\\xff", 0, 1, "invalid start byte")]'
        ),
        AWAY,
    ),
    "a kernel raises": (
        lambda: net(ip(), pins=KERNEL).forward(),
        (
            "layer 'ip' (InnerProduct): its kernel OddKernel of odd-things 1.0: forward raised "
            "ValueError: matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc "
            "signature (n?,k),(k,m?)->(n?,m?) (size 3 is different from 4) "
            "[self.blobs[0].memory[...] = inputs[0].memory @ self.parameters[0].blob]"
        ),
        f"do not use its kernels (remove it from `kernels` and `pin` under [plugins]), or {AWAY}",
    ),
    "a neuron raises": (
        lambda: net(ip(neuron=OddNeuron(fault="forward raises"))).forward(),
        (
            "neuron 'OddNeuron' of odd-things 1.0: forward raised NameError: name 'xp' is not "
            "defined [raise NameError(\"name 'xp' is not defined\")]"
        ),
        AWAY,
    ),
    "a neuron returns": (
        lambda: net(ip(neuron=OddNeuron(fault="forward returns"))).forward(),
        (
            "neuron 'OddNeuron' of odd-things 1.0: forward returned an array of shape (2, 3), but it "
            "must return nothing, and write into y [class OddNeuron(Neuron):]"
        ),
        f"write y[...] = ..., or {AWAY}",
    ),
    "a neuron without backward": (
        lambda: solve(ip(neuron=OddNeuron())),
        ("neuron 'OddNeuron' of odd-things 1.0: OddNeuron does not define backward [class OddNeuron(Neuron):]"),
        AWAY,
    ),
    "an initializer raises": (
        lambda: net(ip(weight_init=OddInitializer(fault="values raise"))),
        (
            "initializer 'OddInitializer' of odd-things 1.0: values raised ZeroDivisionError: float "
            'division by zero [raise ZeroDivisionError("float division by zero")]'
        ),
        AWAY,
    ),
    "an initializer's shape": (
        lambda: net(ip(weight_init=OddInitializer(fault="shape"))),
        (
            "initializer 'OddInitializer' of odd-things 1.0: values returned array([0., 0., 0., 0., "
            "0., 0., 0.]), but parameter 'ip/weight' needs an array of numbers of shape (3, 4) "
            "[class OddInitializer(Initializer):]"
        ),
        AWAY,
    ),
    "an initializer's text": (
        lambda: net(ip(weight_init=OddInitializer(fault="text"))),
        (
            "initializer 'OddInitializer' of odd-things 1.0: values returned 'zeros', but parameter "
            "'ip/weight' needs an array of numbers of shape (3, 4) [class "
            "OddInitializer(Initializer):]"
        ),
        AWAY,
    ),
    "a regularizer returns": (
        lambda: solve(ip(weight_regu=OddRegularizer()), regu_coef=0.1),
        (
            "regularizer 'OddRegularizer' of odd-things 1.0: add_gradient returned an array of shape "
            "(12,), but it must return nothing, and write into gradient [class "
            "OddRegularizer(Regularizer):]"
        ),
        f"write gradient[...] = ..., or {AWAY}",
    ),
    "a constraint raises": (
        lambda: solve(ip(weight_cons=OddConstraint())),
        (
            "constraint 'OddConstraint' of odd-things 1.0: constrain raised TypeError: clip() "
            "missing 1 required positional argument: 'a_max' [value[...] = np.clip(value, 1)  # "
            "type: ignore[call-overload]]"
        ),
        AWAY,
    ),
    "a method's setup": (
        lambda: solve(method=OddMethod(fault="setup returns None")),
        (
            "solver 'OddMethod' of odd-things 1.0: setup returned None, but it must return a "
            "MethodState [class OddMethod(Method):]"
        ),
        f"return OddMethodState(self, ...), or {AWAY}",
    ),
    "a method without super": (
        lambda: solve(method=OddMethod(fault="no super")),
        (
            "solver 'OddMethod' of odd-things 1.0: OddMethodState does not call "
            "super().__init__(method, backend, spans) [class OddMethod(Method):]"
        ),
        AWAY,
    ),
    "a method's history": (
        lambda: solve(method=OddMethod(fault="history")),
        (
            "solver 'OddMethod' of odd-things 1.0: its history 'speed' does not have one array of "
            "each span's size [class OddMethodState(MethodState):]"
        ),
        'make it by self.history("speed"), or ' + AWAY,
    ),
    "a method raises": (
        lambda: solve(method=OddMethod(fault="update raises")),
        (
            "solver 'OddMethod' of odd-things 1.0: update raised TypeError: unsupported operand "
            '[raise TypeError("unsupported operand")]'
        ),
        AWAY,
    ),
    "a method without update": (
        lambda: solve(method=OddMethod(fault="update is missing")),
        ("solver 'OddMethod' of odd-things 1.0: OddMethodState does not define update [super().update()]"),
        AWAY,
    ),
    "a policy's start": (
        lambda: solve(lr_policy=OddPolicy(fault="start returns None")),
        (
            "lr_policy 'OddPolicy' of odd-things 1.0: start returned None, which has no method rate "
            "[class OddPolicy(LrPolicy):]"
        ),
        f"return an object with rate or momentum, memory and remember, such as self, or {AWAY}",
    ),
    "a policy without rate": (
        lambda: solve(lr_policy=OddPolicy(fault="rate is missing")),
        ("lr_policy 'OddPolicy' of odd-things 1.0: OddPolicy does not define rate [return super().rate(iteration)]"),
        AWAY,
    ),
    "a rate of text": (
        lambda: solve(lr_policy=OddPolicy(fault="rate is text")),
        (
            "lr_policy 'OddPolicy' of odd-things 1.0: rate returned '0.1', but it must return a "
            "number [class OddPolicy(LrPolicy):]"
        ),
        AWAY,
    ),
    "a rate of None": (
        lambda: solve(lr_policy=OddPolicy(fault="rate is None")),
        (
            "lr_policy 'OddPolicy' of odd-things 1.0: rate returned None, but it must return a "
            "number [class OddPolicy(LrPolicy):]"
        ),
        AWAY,
    ),
    "a rate of NaN": (
        lambda: solve(lr_policy=OddPolicy(fault="rate is NaN")),
        (
            "iteration 0: the learning rate or the momentum cannot be computed: the rate of "
            "lr_policy 'OddPolicy' of odd-things 1.0 is nan"
        ),
        "change the fields of lr_policy or momentum_policy",
    ),
    "a momentum of two numbers": (
        lambda: solve(momentum_policy=OddMomentum()),
        (
            "momentum_policy 'OddMomentum' of odd-things 1.0: momentum returned array([0., 0.]), but "
            "it must return a number [class OddMomentum(MomentumPolicy):]"
        ),
        AWAY,
    ),
    "a callback's start": (
        lambda: solve(callbacks=[OddCallback(fault="start returns None")]),
        (
            "callback 'OddCallback' of odd-things 1.0: start returned None, but it must return a "
            "CallbackState [class OddCallback(Callback):]"
        ),
        f"return OddCallbackState(self, ...), or {AWAY}",
    ),
    "a callback raises": (
        lambda: solve(callbacks=[OddCallback(fault="run raises", every_n_iter=1)]),
        (
            "callback 'OddCallback' of odd-things 1.0: run raised AttributeError: 'Training' object "
            "has no attribute 'curve' [self.training.curve.append(1)  # type: ignore[attr-defined]]"
        ),
        AWAY,
    ),
    "a callback without run": (
        lambda: solve(callbacks=[OddCallback(fault="run is missing", every_n_iter=1)]),
        ("callback 'OddCallback' of odd-things 1.0: OddCallbackState does not define run [super().run()]"),
        AWAY,
    ),
    "a callback's memory": (
        lambda: solve(callbacks=[OddCallback(fault="memory of objects"), Snapshot()]),
        (
            "callback 'OddCallback' of odd-things 1.0: memory returned {1, 2} as 'best', but it must "
            "be an array of numbers, a number or a string [class OddCallbackState(CallbackState):]"
        ),
        AWAY,
    ),
    "an algorithm's start": (
        lambda: solve(algorithm=OddAlgorithm(fault="start returns 7")),
        (
            "algorithm 'OddAlgorithm' of odd-things 1.0: start returned 7, but it must return an "
            "AlgorithmState [class OddAlgorithm(Algorithm):]"
        ),
        f"return OddAlgorithmState(self, ...), or {AWAY}",
    ),
    "an algorithm without train_one_batch": (
        lambda: solve(algorithm=OddAlgorithm(fault="train_one_batch is missing")),
        (
            "algorithm 'OddAlgorithm' of odd-things 1.0: OddAlgorithm does not define "
            "train_one_batch [return super().train_one_batch(net)]"
        ),
        AWAY,
    ),
    "an algorithm's steps": (
        lambda: solve(algorithm=OddAlgorithm()),
        (
            "algorithm 'OddAlgorithm' of odd-things 1.0: train_one_batch returned 'forward', but it "
            "must return a list of steps [class OddAlgorithm(Algorithm):]"
        ),
        'return [*net.steps("feed"), *net.steps("forward"), ...], or ' + AWAY,
    ),
    "a backend's unusable": (
        lambda: open_backend("odd"),
        ("backend 'OddBackend' of odd-things 1.0: unusable raised IndexError: list index out of range [return [][0]]"),
        AWAY,
    ),
    "a backend's arrays": (
        lambda: net(backend="bare"),
        ("backend 'bare' of odd-things 1.0: empty raised RuntimeError: no device [raise RuntimeError(\"no device\")]"),
        AWAY,
    ),
}
"""What goes wrong: what provokes it, the sentence with the text of the line in the place of its file and line, and the
remedy."""


def sentence(error: NacreError, folder: Path) -> str:
    """Return an error's sentence with the text of the line in the place of each file and line."""
    lines = Path(odd_things.__file__).read_text().splitlines()
    text = str(error.args[0]).replace(str(folder), "HERE")
    return re.sub(rf"{odd_things.__file__}:(\d+)", lambda found: lines[int(found[1]) - 1].strip(), text)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_fault_of_a_plugin(
    fault: str, new_registry: NewRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    install_plugin(new_registry(), "odd-things", OFFERS)
    provoke, says, remedy = FAULTS[fault]
    with pytest.raises(NacreError) as caught:
        provoke()
    assert sentence(caught.value, tmp_path) == says
    assert caught.value.remedy == remedy
