"""InputLayer: blobs that are written from outside, by `net.write`; `predict` uses it for its data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ..arguments import how_to_call
from ..calls.handles import Call, Top
from ..errors import ConfigError, put_full_name
from ..fields.checks import at_least, one_of, positive
from ..fields.types import Names, Shape, default
from ..protocols.layer import Layer, Phase
from ..protocols.making import Layers, make_layer
from ..protocols.state import SourceState

if TYPE_CHECKING:
    from ..protocols.array import Array
    from ..protocols.components import Transformer
    from ..random import RecordRandom

TYPES = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
PYTHONS = {"int": "int64", "float": "float64"}
"""What NumPy takes Python's own types for."""


class InputLayer(Layer, is_source=True):
    """Blobs that are written from outside: `net.write("data", x)`.

    y = what was written; it stays until something else is written. Every top has the shape (batch_size, *shape). In a
    net that was saved, `instead_of` is the source whose place this takes: `predict` changes records as it does.

    Example:
        [[layer]]
        type = "Input"
        tops = ["data"]  # (8, 3, 32, 32)
        shape = [3, 32, 32]
        batch_size = 8
    """

    needs_data: ClassVar[bool] = False

    tops: Annotated[Names, at_least(1), "names of the blobs"] = default(("data",))
    shape: Annotated[Shape, positive, "shape of one record"] = default(())
    batch_size: Annotated[int, positive, "records in a batch"] = 1
    dtype: Annotated[str, one_of("", *TYPES), "type of the blobs; by default the net's floating type"] = ""
    instead_of: Annotated[Layers, "the source whose place it takes: records for `predict` are changed as it does"] = (
        default(())
    )

    def _complete(self) -> None:
        given: tuple[Any, ...] = self.instead_of
        sources = tuple(one if isinstance(one, Layer) else make_layer(one) for one in given)
        object.__setattr__(self, "instead_of", sources)
        super()._complete()

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if [one.is_source for one in self.instead_of] not in ([], [True]):
            yield f"instead_of={list(self.instead_of)}, but it must have one source"

    def reading(self) -> Mapping[str, Any]:
        return self.instead_of[0].reading() if self.instead_of else {}

    @property
    def reads_files(self) -> bool:
        return any(one.reads_files for one in self.instead_of)

    def reading_from(self, paths: Sequence[str]) -> Layer:
        return self.instead_of[0].reading_from(paths) if self.instead_of else super().reading_from(paths)

    def changes(self, top: str) -> Sequence[Transformer]:
        return self.instead_of[0].changes(top) if self.instead_of else ()

    def stored_as(self, top: str) -> str:
        return self.instead_of[0].stored_as(top) if self.instead_of else top

    def prepared_shape(self, top: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self.instead_of[0].prepared_shape(top, shape) if self.instead_of else shape

    def prepare(
        self,
        top: str,
        records: Array,
        random: RecordRandom,
        phase: Phase,
        fitted: Mapping[str, Any],
        classes: Sequence[str] = (),
    ) -> Array:
        prepare = self.instead_of[0].prepare if self.instead_of else super().prepare
        return prepare(top, records, random, phase, fitted, classes)


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


def without_ones(shape: Sequence[int]) -> list[int]:
    """Return a shape without its axes of length 1."""
    return [length for length in shape if length != 1]


@how_to_call("Input(shape, name=..., dtype=...)")
def Input(shape: int | Sequence[int] = (), *, name: str = "", dtype: str | type = "", batch_size: int = 1) -> Top:
    """Return a blob that is written from outside, of records of this shape; layers that are called with it read it.

    Its name is that of the layer: `name`, else input1, input2, ... in the order of their calls. `dtype` is a type of
    NumPy's, or Python's int, float or bool, or its name.
    """
    if isinstance(shape, list | tuple) and None in shape:
        raise ConfigError(f"Input: shape={shape}, but it is that of one record, of whole numbers", "leave None out")
    kind = dtype if isinstance(dtype, str) else str(getattr(dtype, "__name__", dtype))
    try:
        layer = InputLayer(name=name, shape=shape, batch_size=batch_size, dtype=PYTHONS.get(kind, kind))
    except ConfigError as error:
        if not name:
            put_full_name(error, "data", "Input")  # which is what an InputLayer is called by default
        raise
    return Call(layer, (), 1).tops()[0]


def may_fill(source: Layer, blob: str) -> bool:
    """Return whether a source may put numbers where records of a blob lack some."""
    try:
        return bool(source.changes(blob))
    except ConfigError:  # it has its own way
        return True
