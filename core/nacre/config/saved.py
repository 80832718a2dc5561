"""Net.save and nacre.load: a net as one file, which needs neither the training data nor a net file beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..arguments import how_to_call, path_of
from ..discovery.registry import registry
from ..errors import ConfigError, NacreError, SnapshotError
from ..fields.tables import table_of
from ..fields.types import Paths
from ..files.durable import atomic_write
from ..graph.containers import names_in
from ..net.input import InputLayer
from ..protocols.layer import PHASES, Layer, bottoms_of, is_output
from ..snapshots.folder import default_snapshot_store
from ..snapshots.snapshot import PARAMETERS, SAVED, Snapshot, split_fitted
from ..text import free_name
from .netfile import NetFile, checked, net_text
from .netfile import load as load_file
from .savedfile import FIELDS, FORM, decoded, table_in

if TYPE_CHECKING:
    from ..net.net import Net
    from ..protocols.backend import Backend
    from ..protocols.layer import Phase

PREPARES = ("reading", "stored_as", "prepared_shape", "prepare")
"""The methods of a source that change records which stand for its own."""


def save(net: Net, path: str | os.PathLike[str]) -> None:
    """Do the work of `Net.save`."""
    place = path_of(path, remedy=f'write "net{SAVED}"')
    if place.suffix != SAVED:
        raise ConfigError(f"{place}: the name of a saved net ends in {SAVED}", f"write {place.stem}{SAVED}")
    atomic_write(place, encoded(net), SnapshotError)


@how_to_call("load(path, phase=..., backend=..., ...)")
def load(
    path: str | os.PathLike[str],
    *,
    phase: Phase | None = None,
    backend: str | Backend | None = None,
    **options: Any,
) -> Net:
    """Return the net in a file that `Net.save` wrote, with its parameters, in the phase that it had.

    Its backend is that of the net that was saved, if it can be used here. `options` are other arguments of `Net`.

    Raises:
        SnapshotError: the file cannot be read: it is damaged, no saved net, or written by a later nacre.
        ConfigError: a plugin that the net needs is not installed.
    """
    if (place := path_of(path, remedy=f'write "net{SAVED}"')).suffix != SAVED:
        remedy = "for a net file use nacre.config.load(path).net(), for a snapshot net.load(path)"
        raise ConfigError(f"{place}: the name of a saved net ends in {SAVED}", remedy)
    return restored(load_file(place), phase=phase, backend=backend, **options)


def restored(file: NetFile, *, phase: Phase | None = None, **options: Any) -> Net:
    """Return the net of a saved net's file, with its parameters."""
    assert file.saved is not None
    kept = file.saved.state.get("options", {})
    keep = "all" if file.saved.state.get("keep_all") else kept.get("keep", ())
    was = kept.get("phase", "train")
    given = {"keep": keep, "input_gradients": kept.get("input_gradients", ()), "initialise": False, **options}
    net = file.net(phase or was, **given)
    try:
        net.parameters.load(file.saved, strict=(phase or was) == was)
    except BaseException:
        net.shutdown()
        raise
    net.step = net.parameters.iterations
    return net


def encoded(net: Net) -> bytes:
    """Return the bytes of a saved net."""
    return default_snapshot_store().encode(content(net))


def unpickled(data: bytes) -> Net:
    """Return the net that these bytes were made of, as pickles have it."""
    return restored(_file_of(data))


def copied(net: Net) -> Net:
    """Return a copy of a net on the same backend, with parameters of its own."""
    return restored(_file_of(encoded(net)), backend=net.backend)


def _file_of(data: bytes) -> NetFile:
    where = f"the pickled net{SAVED}"
    saved = decoded(data, where)
    return checked(Path(where), table_in(saved, where), saved=saved)


def content(net: Net) -> Snapshot:
    """Return what the file of a net holds.

    Raises:
        ConfigError: a layer or a component cannot be written.
    """
    arrays: list[Any] = []
    layers = tuple(saved_layers(net))
    text = net_text(net, layers, Path(), arrays)
    fitted_arrays, fitted = split_fitted(net.fitted)
    keep, input_gradients = net.readable()
    algorithm = {} if net.algorithm is None else {"algorithm": table_of(net.algorithm)}
    state: dict[str, Any] = {
        "saved": FORM,
        "nacre": __version__,
        "net": net.name,
        "net_file": text,
        "options": {
            "phase": net.phase, "keep": list(keep or ()), "input_gradients": list(input_gradients), **algorithm
        },
        "keep_all": keep is None,
        "fitted": fitted,
        "aliases": {alias: name for name, names in net.parameters.sharers().items() for alias in names[1:]},
    }  # fmt: skip
    known = net.parameters
    values = {f"{PARAMETERS}{name}": value for name, value in known.whole().items()}
    fields = {f"{FIELDS}{number}": array for number, array in enumerate(arrays)}
    return Snapshot(known.iterations, {**values, **fitted_arrays, **fields}, state)


def saved_layers(net: Net) -> Iterator[Layer]:
    """Yield the layers of a saved net: without outputs, and with an `Input` for each blob of a source with data."""
    sources = [layer for layer in net.layers if layer.is_source and layer.needs_data]
    others = [layer for layer in net.layers if layer not in sources and not is_output(layer)]
    taken, readable = set(names_in(others)), {*(net.readable()[0] or ()), *net.readable()[1]}
    for top in dict.fromkeys(top for source in sources for top in source.tops):
        reading = [layer for layer in others if top in bottoms_of(layer)]
        absent: list[Phase] = [phase for phase in PHASES if all(phase in layer.exclude for layer in reading)]
        if len(absent) == len(PHASES) and top not in readable:
            continue
        name = free_name(top, taken)
        taken.add(name)
        source = next(one for one in sources if top in one.tops)
        yield _input(net, top, source, name, () if top in readable else absent)
    for layer in others:
        yield layer.standalone()


def _input(net: Net, top: str, source: Layer, name: str, absent: Sequence[Phase]) -> Layer:
    """Return what stands for a blob of a source."""
    batch_size, *shape = _shape(net, top)
    kind = type(source)
    changes = any(getattr(kind, method) is not getattr(Layer, method) for method in PREPARES)
    reads = any(field.takes(Paths) for field in kind.fields()) and bool(registry().offers_of(kind, "layer"))
    return InputLayer(
        name=name,
        tops=[top],
        exclude=absent,
        shape=shape,
        batch_size=batch_size,
        dtype=_type(net, top),
        instead_of=[source.standalone()] if changes or reads else [],
    )


def _shape(net: Net, top: str) -> tuple[int, ...]:
    """Return the shape of a source's blob, which may be absent from the phase of the net.

    Raises:
        ConfigError: it cannot be found out.
    """
    whole: dict[str, Any] = {"share": None, "communicator": None, "rank": 0, "ranks": 1} if net.division else {}
    if not whole and (value := net.memory.final.get(top)) is not None:
        return value.shape
    problems: list[str] = []
    for phase in PHASES:
        try:
            with net.derive(phase, allocate=False, **whole) as other:
                if (value := other.memory.final.get(top)) is not None:
                    return value.shape
        except NacreError as error:
            problems.append(str(error.args[0]))
    because = f": {problems[0]}" if problems else ""
    raise ConfigError(f"net '{net.name}' cannot be saved: the shape of blob '{top}' is not known{because}")


def _type(net: Net, top: str) -> str:
    """Return the type of a source's blob; "" if it is the net's."""
    kind = next((value.dtype for value in net.memory.values if value.name == top), net.dtype)
    return "" if kind == net.dtype else kind
