"""RandomNormal: endless random numbers of the normal distribution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np

from nacre import Layer, Names, Shape, Sizes, SourceState, at_least, count_in, default, positive, spread


class BatchSizes(Sizes):
    """Records in a batch, for each top; a single number means the same for every top."""

    wants = "a whole number, or one for each top"


class RandomNormalLayer(Layer, is_source=True):
    """Fill every top with numbers of the normal distribution of mean 0 and variance 1, new ones in each batch.

    y = N(0, 1), each number drawn on its own.

    Tops are (batch_size, *output_dims), of the net's type. Batch number i is a function of the seed, the layer's name
    and i, in every phase: NumPy's `standard_normal` of `nacre.random` in float64, draw t for top t. It has no end, so
    passes (epochs) are those of other sources; `net.forward_epoch`, as in a validation, begins with batch 0. After
    Mocha.jl's `RandomNormalLayer`.

    Example:
        [[layer]]
        type = "RandomNormal"
        tops = ["noise"]  # (8, 5)
        output_dims = 5
        batch_size = 8
    """

    needs_data: ClassVar[bool] = False

    tops: Annotated[Names, at_least(1), "names of the blobs"]
    output_dims: Annotated[Shape, positive, "shape of one record"] = default(())
    batch_size: Annotated[BatchSizes, positive, "records in a batch: one number for all tops, or one for each"]

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if len(self.batch_size) not in (1, len(self.tops)):
            yield f"batch_size={self.batch_size}, but it needs one number, or one for each of the {len(self.tops)} tops"

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> RandomNormalState:
        return RandomNormalState(self, backend)


class RandomNormalState(SourceState, host_only=True):
    """`RandomNormalLayer` on any backend. Of several ranks, each takes its part of a batch of all of them."""

    endless = True

    def __init__(self, layer: RandomNormalLayer, backend: Any) -> None:
        super().__init__(layer, backend, [], [])
        sizes = spread(layer.batch_size, len(layer.tops), f"{layer.name}: batch_size")
        self.rows = sizes[0]
        self.blobs = [backend.blob((size, *layer.output_dims)) for size in sizes]
        self.batches = 0
        self.random = backend.random(layer.name, lambda: self.batches)

    def ready(self) -> None:
        self.starts = [self.backend.joined(len(blob)) for blob in self.blobs]
        sizes = zip(self.starts, self.blobs, strict=True)  # float64: the same noise in every type
        self.exact = [np.empty((rows, *blob.shape[1:])) for (_, rows), blob in sizes]

    def forward(self, inputs: list[Any]) -> None:
        for draw, (blob, exact, (start, _)) in enumerate(zip(self.blobs, self.exact, self.starts, strict=True)):
            self.random.generator(draw).standard_normal(out=exact)
            np.copyto(blob, exact[start : start + len(blob)], casting="same_kind")
        self.batches += 1

    def rewind(self) -> None:
        """Do nothing: there are no passes."""

    def memory(self) -> dict[str, int]:
        return {"batches": self.batches}

    def remember(self, memory: Mapping[str, Any]) -> None:
        self.batches = count_in(memory, "batches") if memory else 0
