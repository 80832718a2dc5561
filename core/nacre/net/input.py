"""InputLayer: blobs that are written from outside, by `net.write`; `predict` uses it for its data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from ..arguments import how_to_call
from ..calls.handles import Call, Top
from ..fields.checks import at_least, one_of, positive
from ..fields.types import Names, Shape, default
from ..protocols.layer import Layer
from ..protocols.state import SourceState

TYPES = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")


class InputLayer(Layer, is_source=True):
    """Blobs that are written from outside: `net.write("data", x)`.

    y = what was written; it stays until something else is written. Every top has the shape (batch_size, *shape).

    Example:
        [[layer]]
        type = "Input"
        tops = ["data"]  # (8, 3, 32, 32)
        shape = [3, 32, 32]
        batch_size = 8
    """

    tops: Annotated[Names, at_least(1), "names of the blobs"] = default(("data",))
    shape: Annotated[Shape, positive, "shape of one record"] = default(())
    batch_size: Annotated[int, positive, "records in a batch"] = 1
    dtype: Annotated[str, one_of("", *TYPES), "type of the blobs; by default the net's floating type"] = ""


class InputState(SourceState, of=InputLayer):
    """The state of `InputLayer`: it does not change its blobs."""

    endless = True

    def __init__(self, layer: InputLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.rows = layer.batch_size
        self.blobs = [backend.blob((layer.batch_size, *layer.shape), layer.dtype or None) for _ in layer.tops]

    def forward(self, inputs: list[Any]) -> None:
        """Keep what was written."""

    def rewind(self) -> None:
        """Do nothing: what was written has no beginning."""


@how_to_call("Input(shape, name=..., dtype=...)")
def Input(shape: int | Sequence[int] = (), *, name: str = "", dtype: str = "", batch_size: int = 1) -> Top:
    """Return a blob that is written from outside, of records of this shape; layers that are called with it read it.

    Its name is that of the layer: `name`, else input1, input2, ... in the order of their calls.
    """
    layer = InputLayer(name=name, shape=shape, batch_size=batch_size, dtype=dtype)
    return Call(layer, (), 1).tops()[0]
