"""AtWork: a layer alone, on arrays: forward, and backward from gradients of its tops; after Leaf's `Layer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from ..calls.call import connected
from ..errors import ConfigError, DataError, TopologyError
from ..fields.types import Names
from ..protocols.array import Dtype
from ..protocols.backend import Backend, open_backend
from ..protocols.layer import Layer, Phase, bottoms_of, tops_of
from ..protocols.state import LayerState
from ..protocols.view import View
from .blobs import array_of_numbers
from .carried import remembered
from .input import InputLayer
from .net import Net
from .parameters import Parameters

if TYPE_CHECKING:
    import numpy as np

Half = Literal["", "inputs", "parameters"]
OUTSIDE = "nacre.outside"
"""The name of the layer that stands above the one at work."""


class OutsideLayer(Layer, is_sink=True, has_loss=True, can_do_bp=True):
    """Takes the tops of the layer at work, and gives their gradients from outside."""

    bottoms: Names


class OutsideState(LayerState, of=OutsideLayer, reads=""):
    """The state of `OutsideLayer`: `given` are the gradients, as NumPy arrays."""

    def __init__(self, layer: OutsideLayer, backend: View, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.loss = 0.0
        self.given: list[np.ndarray] = []

    def forward(self, inputs: list[Any]) -> None:
        """Do nothing: the tops are read from outside."""

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        for given, dx in zip(self.given, diffs, strict=True):
            if dx is not None:
                self.backend.from_host(given, dx)


class AtWork:
    """A layer, or a container, at work alone: `Layer.at_work` makes it.

    `net` is the net in which it works: inputs, the layer, and a layer that gives the gradients of its tops. Arrays of
    another shape make another one, with the same parameters.
    """

    def __init__(
        self, layer: Layer, backend: str | Backend | None, inputs: tuple[Any, ...], **options: Phase | int | Dtype
    ) -> None:
        if layer.unwired:
            layer = connected(layer, len(inputs))
        self.layer, self.backend = layer, open_backend(backend)
        self._options: dict[str, Any] = options
        self._inputs = self._checked(inputs)
        self._half: Half = ""
        self._nets: dict[Half, Net] = {}
        self._ran = False
        self._learned: Half = ""
        self.net = self._net("")

    @property
    def parameters(self) -> Parameters:
        """The parameters by name, as `Net.parameters`; their gradients are those of the last `backward`."""
        return self._nets.get(self._learned, self.net).parameters

    def forward(self, *inputs: Any) -> Any:
        """Run forward; return the top, a tuple of several, or the loss of a layer that has no tops.

        Without inputs it runs again on those before.
        """
        if inputs:
            arrays = self._checked(inputs)
            if _look(arrays) != _look(self._inputs):
                self.shutdown()
            self._inputs = arrays
        self.net = self._net(self._half)
        loss = self._run(self.net)
        self._ran = True
        tops = tuple(self.net.blob(name) for name in tops_of(self.layer))
        return tops[0] if len(tops) == 1 else tops or loss

    def backward(self, *gradients: Any, only: Half = "") -> Any:
        """Run backward from the gradients of the tops; return that of the bottom, or a tuple of those of several.

        Those of bottoms of whole numbers are None. With `only="inputs"` the gradients of parameters are not computed
        and stay as they were; with `only="parameters"` those of the bottoms are not, and nothing is returned. The first
        call for another half runs forward again, in a net for this half, and so do all that follow in turn.

        Raises:
            DataError: `forward` has not run, or the gradients are not like the tops.
        """
        if only not in get_args(Half):
            raise ConfigError(f"only={only!r}, but it must be 'inputs' or 'parameters'", "leave it out for both")
        if not self._ran:
            raise DataError(f"layer '{self.layer.name}' has not gone forward yet", "call forward first")
        self.net.steps("backward")  # raises the error that says why there are none
        if only != self._half:
            self._half = only
            self._go_on_in(self._net(only))
            buffers = {name: one.value for name, one in self.net.parameters.items() if not one.parameter.trainable}
            self._run(self.net)  # buffers have seen these inputs already
            for name, value in buffers.items():
                self.net.parameters[name].value = value
        self._give(gradients)
        self.net.backward()
        if only != "inputs":
            self._learned = only
        if only == "parameters":
            return None
        wanted = self._wanted()
        found = tuple(self.net.gradient(name) if name in wanted else None for name in bottoms_of(self.layer))
        return found[0] if len(found) == 1 else found

    def advance(self) -> None:
        """Let the layer take over what `forward` has left for the next batch, as `Net.advance`; after `backward`."""
        self.net.advance()

    def rewind(self) -> None:
        """Let the layer forget earlier batches, so that the next one is the first, as `Net.rewind`."""
        self.net.rewind()

    def shutdown(self) -> None:
        """Release what the layer holds; the next `forward` sets it up anew, with the same parameters."""
        for net in self._nets.values():
            net.shutdown()
        self._nets.clear()
        self._ran = False

    def _checked(self, inputs: tuple[Any, ...]) -> list[np.ndarray]:
        bottoms = bottoms_of(self.layer)
        if len(inputs) != len(bottoms):
            wanted = f"layer '{self.layer.name}' has {len(bottoms)} bottoms ({', '.join(bottoms)})"
            raise DataError(f"{wanted}, but {len(inputs)} arrays are given")
        arrays: list[np.ndarray] = []
        for name, one in zip(bottoms, inputs, strict=True):
            what = f"bottom '{name}' of layer '{self.layer.name}'"
            arrays.append(array := array_of_numbers(what, one))
            if not array.ndim or not len(array):
                raise DataError(f"{what}: the array has no rows")
        return arrays

    def _wanted(self) -> list[str]:
        pairs, without = zip(bottoms_of(self.layer), self._inputs, strict=True), self.layer.bottoms_without_gradient()
        return [name for name, one in pairs if one.dtype.kind == "f" and name not in without]

    def _net(self, half: Half) -> Net:
        """Return the net that computes one half of the gradients, or both."""
        if half not in self._nets:
            step = self.net.step if hasattr(self, "net") else 0
            layers: list[Layer] = []
            for name, one in dict(zip(bottoms_of(self.layer), self._inputs, strict=True)).items():
                kind = "" if one.dtype.kind == "f" else str(one.dtype)
                shape: dict[str, Any] = {"shape": one.shape[1:], "batch_size": len(one), "dtype": kind}
                layers.append(InputLayer(name=f"in.{name}", tops=name, **shape))
            layers.append(self.layer)
            if tops := [top for top in tops_of(self.layer) if top not in self.layer.tops_without_gradient()]:
                layers.append(OutsideLayer(name=OUTSIDE, bottoms=tops))
            trains = self._options["phase"] == "train"
            made = Net(
                f"layer {self.layer.name}",
                layers,
                backend=self.backend,
                keep=tops_of(self.layer),
                input_gradients=self._wanted() if half != "parameters" and trains else (),
                insert_splits=True,
                **self._options,
            )
            made.step = step
            if half == "inputs":  # not `freeze`, with which a normalisation uses its running values
                made.withhold([slot for slot in made.slots if slot.trainable])
            self._nets[half] = made
        return self._nets[half]

    def _go_on_in(self, net: Net) -> None:
        """Go on in another net, with the step of this one and what its states carry."""
        net.step = self.net.step
        net.rewind()
        before = self.net.owners()
        for name, state in net.owners().items():
            if name in before and (memory := dict(remembered(before[name]))):
                state.remember(memory)
        self.net = net

    def _run(self, net: Net) -> float:
        for name, one in zip(bottoms_of(self.layer), self._inputs, strict=True):
            net.write(name, one)
        return net.forward()

    def _give(self, gradients: tuple[Any, ...]) -> None:
        """Hand the gradients of the tops to the layer above."""
        import numpy as np

        op = self.net.node_ops.get(OUTSIDE)
        tops = bottoms_of(op.layer) if op else ()
        if len(gradients) != len(tops):
            raise DataError(
                f"layer '{self.layer.name}' has {len(tops)} tops with gradients, but {len(gradients)} are given"
            )
        if op is None:
            return
        if not any(one.backward for one in self.net.ops if one is not op):
            raise TopologyError(f"layer '{self.layer.name}' has no gradients to compute")
        arrays: list[np.ndarray] = []
        for name, one, value in zip(tops, gradients, op.inputs, strict=True):
            what = f"the gradient of top '{name}'"
            array = array_of_numbers(what, one)
            if array.shape != value.shape:
                raise DataError(f"{what} has the shape {array.shape}, but the top has {value.shape}")
            arrays.append(np.ascontiguousarray(array, value.dtype).reshape(value.shape))
        state: Any = op.state
        state.given = arrays


def _look(arrays: list[np.ndarray]) -> list[tuple[tuple[int, ...], str]]:
    """Return what a net is made for: shapes and types, of which all floating ones are the net's."""
    return [(one.shape, "" if one.dtype.kind == "f" else str(one.dtype)) for one in arrays]
