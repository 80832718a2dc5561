"""`net.evaluate`: the loss and the statistics of a net on arrays, or on the records of files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..arguments import check_count
from ..fields.inputs import local_file
from ..protocols.data_store import BLOCK
from ..protocols.layer import Layer, Phase
from ..text import free_name
from .arrays import HasLayers, Inputs, Records, with_sources
from .classes import ordered
from .files import FileRecords, Needed, batches
from .given import are_files, listed_files
from .input import InputLayer

if TYPE_CHECKING:
    import numpy as np

    from .net import Net


def evaluate(net: Net, x: Any, y: Any, batch_size: int) -> dict[str, float]:
    """Do the work of `Net.evaluate`."""
    check_count("batch_size", batch_size, 1)
    if y is None and are_files(x):
        layers = reading_from(net, "test", listed_files(x), batch_size)
    else:
        layers = _fed(net, Inputs.of(net, "test").records(x, y), batch_size)
    with net.derive("test", layers, name=net.name) as made:
        loss = made.forward_epoch()
        statistics = made.statistics()
        losses = {"loss": loss} if made.losses() else {}
    return losses | {
        f"{layer}/{name}": value
        for layer, values in statistics.items()
        for name, value in values.items()
        if name != "records"
    }


def reading_from(net: HasLayers, phase: Phase, paths: Sequence[str], batch_size: int = BLOCK) -> list[Layer]:
    """Return a net's layers with these files as the data of its sources in a phase.

    Without a source in this phase those of other phases read them; sources for whom an `Input` stands do so again. Of a
    net whose Inputs got arrays, the files have fields with their names, or of their sizes; `batch_size` is for these.

    Raises:
        ConfigError: a source reads no files.
        DataError: the files do not fit the Inputs.
    """
    sources = [layer for layer in net.layers if layer.is_source]
    sources = [layer for layer in sources if phase not in layer.exclude] or sources
    if sources and all(isinstance(layer, InputLayer) and not layer.reads_files for layer in sources):
        return _fed(net, file_records(net, Inputs.of(net, phase), paths), batch_size)
    layers: dict[str, Layer] = {}
    tops = set[str]()
    for layer in net.layers:
        if layer in sources and (layer.needs_data or isinstance(layer, InputLayer)):
            if not tops.issuperset(layer.tops):  # else another phase's source of these blobs reads the files
                source = layer.reading_from(paths)
                layers[source.name] = source
                tops.update(source.tops)
        else:
            layers[layer.name] = layer
    return list(layers.values())


def _fed(net: HasLayers, records: Records, batch_size: int) -> list[Layer]:
    """Return a net's layers, of which a source of these records feeds the Inputs."""
    name = free_name("evaluated", {layer.name for layer in net.layers})
    return with_sources(net, [records.fed(name, batch_size)])


def file_records(net: HasLayers, inputs: Inputs, paths: Sequence[str], *, learns: bool = False) -> Records:
    """Return the records of files for the Inputs of a net: fields of their names, of their columns, or of their sizes.

    Where a net `learns` of them, it learns all classes that the files name; else only those of records count.

    Raises:
        DataError: a file cannot be read, or does not have what an Input needs.
    """
    import numpy as np

    places = [local_file(path) for path in paths]
    shapes = {blob: tuple(inputs.layers[blob].shape) for blob in (*inputs.targets, *inputs.data)}
    fields = [inputs.layers[blob].stored_as(blob) for blob in (*inputs.data, *inputs.targets)]
    claimed = {blob: {blob, *inputs.columns.get(blob, ())} for blob in shapes}
    parts: dict[str, list[np.ndarray]] = {blob: [] for blob in shapes}
    with ExitStack() as stack:
        records: dict[str, FileRecords] = {}
        for blob, shape in shapes.items():
            others = {name for other in shapes if other != blob for name in claimed[other]}
            columns, ignored = inputs.columns.get(blob, ()), inputs.ignored(blob)
            needed = Needed(shape, others=others, fields=fields, columns=columns, ignored=ignored)
            opened = FileRecords(inputs.layers[blob], places, blob, needed, pins=net.pins)
            records[blob] = stack.enter_context(opened)
        for batch in batches(records, BLOCK):
            if batch.errors:
                raise next(iter(batch.errors.values()))
            for blob, array in batch.records.items():
                parts[blob].append(array)
    arrays = {blob: np.concatenate(some) for blob, some in parts.items()}
    classes: dict[str, Sequence[str]] = {}
    for blob, one in records.items():
        if one.classes:
            arrays[blob], classes[blob] = ordered(arrays[blob], one.classes, every=learns)
    found = inputs.records(arrays, classes=classes)
    return replace(found, columns={blob: one.columns for blob, one in records.items() if one.columns})
