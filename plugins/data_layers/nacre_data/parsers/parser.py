"""What all parsers have in common: a layer whose state runs a transformer on its bottom."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np

from nacre import Layer, LayerState, Names, Transformer, exactly
from nacre.random import RecordRandom

from ..pipeline import told


class ParserLayer(Layer):
    """The fields of a parser; a subclass adds those of the transformer that it `parses` with."""

    parses: ClassVar[type[Transformer]]

    bottoms: Annotated[Names, exactly(1), "the records"]
    tops: Annotated[Names, exactly(1), "what is made of them"]

    def transformer(self) -> Transformer:
        """Return what changes the records."""
        return self.parses(**{field.name: getattr(self, field.name) for field in self.parses.fields()})

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> LayerState:
        return ParserState(self, backend, inputs, diffs)


class ParserState(LayerState, host_only=True, reads=""):
    """A parser on any backend; it has no gradient.

    The random numbers of a record are a function of the seed, the layer's name, the pass and the record's number, if
    the bottom is of a source that knows these, or of a parser above one; else of its row and the iteration.
    """

    dtype: str | None = None
    """The type of the top; by default the net's."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.transformer: Transformer = layer.transformer()
        count, *record = inputs[0].shape
        with told(layer.name, layer.bottoms[0]):
            shape = self.transformer.checked_shape(tuple(record))
        blob = backend.blob((count, *shape), self.dtype)
        self.fed_by = blob.fed_by = inputs[0].fed_by
        self.blobs = [blob]
        self.random = RecordRandom(backend.seed, backend.full_name(layer.name), lambda: self.backend.step)

    def forward(self, inputs: list[Any]) -> None:
        rows = len(inputs[0])
        numbers = self.fed_by.numbers if self.fed_by else None
        self.random.at(*(numbers or (np.arange(rows), np.full(rows, self.backend.step))))
        with told(self.layer.name, self.layer.bottoms[0]):
            self.transformer.transform_into(inputs[0], self.blobs[0], self.random, self.phase)

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        """Do nothing: records have no gradient."""
