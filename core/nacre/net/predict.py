"""`net.predict`: run any number of records through a net derived for phase `predict`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..discovery.blame import answered
from ..errors import ConfigError, DataError
from ..fields.whole import copy_numbers, too_large
from ..graph.containers import expand
from ..graph.wiring import ancestors, sort
from ..protocols.algorithm import Algorithm
from ..protocols.graph import Graph
from ..protocols.layer import Layer, bottoms_of, drops
from ..protocols.view import Fitted
from ..random import RecordRandom
from .arrays import shape_remedy
from .classes import class_numbers, renumbered
from .fitted import CLASSES, class_names, two_classes
from .given import opened
from .input import InputLayer
from .team import Team, team

if TYPE_CHECKING:
    import numpy as np

    from .net import Net


MOST = 256
"""Records of a batch, at most, where a net says none."""


@dataclass(frozen=True)
class Wanted:
    """What is needed for some outputs in phase `predict`: the `layers`, and the blobs `needed` from the `sources`."""

    outputs: tuple[str, ...]
    layers: tuple[Layer, ...]
    needed: tuple[str, ...]
    sources: tuple[Layer, ...]
    algorithm: Algorithm | None = None

    def source_of(self, blob: str) -> Layer:
        """Return the source of a blob: the first one, if several phases have one."""
        return next(source for source in self.sources if blob in source.tops)


@dataclass
class Known:
    """What `predict` need not find anew for a net: what its outputs need, and the random numbers of its inputs."""

    wanted: dict[str | tuple[str, ...], Wanted] = field(default_factory=dict[str | tuple[str, ...], Wanted])
    randoms: dict[str, RecordRandom] = field(default_factory=dict[str, RecordRandom])


_known: WeakKeyDictionary[Net, Known] = WeakKeyDictionary()


def wanted(layers: Iterable[Layer], output: str | Sequence[str] = "", algorithm: Algorithm | None = None) -> Wanted:
    """Return the layers and blobs that outputs need; by default the outputs are the blobs that no layer reads.

    Losses, statistics and layers that write files do not count as readers, but layers that drop what they read do.

    Raises:
        DataError: there is no blob that could be an output.
        TopologyError: no layer writes the output in phase `predict`.
    """
    every = tuple(layers)
    sources = tuple(layer for layer in every if layer.is_source)
    here = Graph.of(layer for layer in every if "predict" not in layer.exclude and not layer.is_source)
    graph = expand(here, "predict", algorithm)
    given = tuple(dict.fromkeys(top for source in sources for top in source.tops))
    outputs = ((output,) if isinstance(output, str) else tuple(output)) if output else _ends(here) or _ends(graph)
    if not outputs:
        raise DataError("no layer of the net has a top that can be an output", "name a blob as the output")
    names, used, before = list(outputs), dict[Layer, None](), -1
    while len(used) > before:  # all of a container runs, and all that an algorithm makes of a layer
        before = len(used)
        used = dict.fromkeys(node.outermost for node in ancestors(graph, names, given))
        names += [bottom for node in graph.nodes if node.outermost in used for bottom in node.bottoms]
    read = {*outputs, *(name for layer in used for name in bottoms_of(layer))}
    needed = tuple(name for name in given if name in read)
    return Wanted(outputs, tuple(used), needed, sources, algorithm)


def predict(
    net: Net,
    data: Any,
    output: str | Sequence[str],
    batch_size: int,
    made: dict[Any, Team],
    *,
    classes: bool = False,
) -> Any:
    """Do the work of `Net.predict`; `made` keeps the teams of derived nets."""
    import numpy as np

    found = _known.setdefault(net, Known()).wanted
    if (want := found.get(asked := output if isinstance(output, str) else tuple(output))) is None:
        want = found[asked] = wanted(net.layers, output, net.algorithm)
    named = want.outputs
    pairs = {name: pair for name in named if (pair := two_classes(net.layers, name))} if classes else {}
    if pairs:
        judged = (blob for blob, _, _ in pairs.values())
        want = wanted(net.layers, [*dict.fromkeys((*named, *judged))], net.algorithm)
    sources = {name: want.source_of(name) for name in want.needed}
    expected = {name: net.memory.final[name].shape[1:] for name in want.needed if name in net.memory.final}
    with opened(data, sources, expected, net.fitted, net.pins) as given:
        if not batch_size:
            batch_size = _batch_size(net, sources) or _sized(given.count)
        shapes = {name: _prepared_shape(sources[name], name, shape) for name, shape in given.shapes.items()}
        key = (want.outputs, batch_size, tuple(shapes.items()))
        if key not in made:
            made[key] = _team(net, want, shapes, batch_size)
        first, *_ = made[key].nets
        if net.division is not None:
            _write_whole(net, first)
        check_outputs(first, want)
        first.rewind()
        batches = [
            made[key].run(prepared(first, want, records, given.classes, net.fitted, number * batch_size), want.outputs)
            for number, records in enumerate(given.batches(batch_size))
        ]
    joined = {name: np.concatenate([batch[name] for batch in batches]) for name in want.outputs}
    if classes:
        sizes = {name: int(np.prod(values.shape[1:])) for name, values in joined.items()}
        known = class_names(net.layers, net.fitted, sizes.get)  # outputs may be absent from the phase of the net
        joined = {
            name: _of_two(name, joined[pairs[name][0]], pairs[name][1], known.get(pairs[name][2], ()))
            if name in pairs
            else _classes(name, joined[name], known.get(name, ()))
            for name in named
        }
    return joined if not isinstance(output, str) or len(joined) > 1 else joined.popitem()[1]


def layers_for(
    want: Wanted, shapes: Mapping[str, tuple[int, ...]], batch_size: int, types: Mapping[str, str] | None = None
) -> list[Layer]:
    """Return, in order, the layers of a net that gets records of these shapes instead of data from its sources."""
    inputs = [
        InputLayer(
            name=f"predict-{name}", tops=[name], shape=shape, batch_size=batch_size, dtype=(types or {}).get(name, "")
        )
        for name, shape in shapes.items()
    ]
    nodes = sort(expand(Graph.of([*inputs, *want.layers]), "predict", want.algorithm)).nodes
    return list(dict.fromkeys(node.outermost for node in nodes))


def check_outputs(net: Net, want: Wanted) -> int:
    """Return how many records a net of `layers_for` takes at a time.

    Raises:
        DataError: an output does not have one row for each record.
    """
    batch_size = net.memory.final[want.needed[0]].shape[0]
    for name in want.outputs:
        if (shape := net.memory.final[name].shape)[:1] != (batch_size,):
            raise DataError(
                f"blob '{name}' of shape {shape} does not have one row for each of the {batch_size} records of a batch",
                "choose another output, or call net.forward and then net.blob",
            )
    return batch_size


def prepared(
    net: Net,
    want: Wanted,
    batch: Mapping[str, np.ndarray],
    classes: Mapping[str, Sequence[str]] | None = None,
    fitted: Fitted | None = None,
    begin: int = 0,
) -> dict[str, np.ndarray]:
    """Return records for a net of `layers_for` as the sources that it has not would transform theirs.

    `classes` are the names that the numbers of a blob's records count, by default those of the training. `fitted` is
    what is known of the training data now, by default what the net was made with. `begin` is the number of the first
    record, among all.

    Raises:
        DataError: the records do not fit, or have a number too large for the net's type.
    """
    known, learned = classes or {}, net.fitted if fitted is None else fitted
    return {
        name: _transformed(records, name, want.source_of(name), net, learned.get(name, {}), known.get(name, ()), begin)
        for name, records in batch.items()
    }


def _classes(name: str, values: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Return the class with the largest number in each record: its name if it is known."""
    import numpy as np

    if values.ndim < 2 or values.shape[1] < 2:
        raise ConfigError(
            f"classes=True, but blob '{name}' has one number for each record, not one for each class",
            "leave classes out, or name another output",
        )
    _refuse_nan(name, values)
    numbers = values.argmax(axis=1)
    return np.array(names)[numbers] if names else numbers


def _of_two(name: str, values: np.ndarray, boundary: float, names: Sequence[str]) -> np.ndarray:
    """Return for each number whether it is above the boundary, 0 or 1: or the names of these two classes.

    Of one number for each record there is one answer, of several, as for records with several labels, a row.
    """
    import numpy as np

    _refuse_nan(name, values)
    numbers = (values > boundary).astype(np.int64)
    numbers = numbers.reshape(-1) if values[0].size == 1 else numbers
    return np.array(names)[numbers] if len(names) == 2 else numbers


def _refuse_nan(name: str, values: np.ndarray) -> None:
    """Raise DataError if a record has a result that is NaN: any class would be a guess."""
    import numpy as np

    if (bad := np.isnan(values).reshape(len(values), -1).any(axis=1)).any():
        raise DataError(
            f"classes=True, but blob '{name}' is not a number for record {bad.argmax()}",
            "look for NaN in this record, or leave classes out",
        )


def _ends(graph: Graph) -> tuple[str, ...]:
    """Return the blobs that are neither read by a layer that computes, nor dropped: the default outputs."""
    takers = [node for node in graph.nodes if not node.in_place and (node.tops or drops(node.layer))]
    read = {name for node in takers for name in node.bottoms}
    return tuple(dict.fromkeys(name for node in graph.nodes for name in node.tops if name not in read))


def _batch_size(net: Net, sources: Mapping[str, Layer]) -> int:
    """Return the batch that the net has for the blobs of these sources, or 0 if nobody has said one.

    One record is what an Input has if nothing is said; but what is carried goes from one record to the next.
    """
    for name, source in sources.items():
        if name in net.memory.final:
            batch = net.memory.final[name].shape[0]
            unsaid = batch == 1 and isinstance(source, InputLayer) and not source.instead_of
            return 0 if unsaid and not net.carries else batch
    return 0


def _sized(count: int | None) -> int:
    """Return a batch for so many records: few different ones, as each has a net of its own."""
    return min(MOST, 1 << (count - 1).bit_length()) if count else MOST


def _team(net: Net, want: Wanted, shapes: Mapping[str, tuple[int, ...]], batch_size: int) -> Team:
    """Return what predicts a batch, after it has compared the records with the net's own."""
    for name, shape in shapes.items():
        value = net.memory.final.get(name)
        if value is not None and value.shape[1:] != shape:
            raise DataError(
                f"blob '{name}' has records of shape {value.shape[1:]}, but the data have {shape}",
                shape_remedy((0, *shape), value.shape[1:]),
            )
    types = {name: _type(net, name) for name in shapes}
    whole: dict[str, Any] = {} if net.division is None else {"share": None, "initialise": False}

    def derive(rows: int, options: Mapping[str, Any]) -> Net:
        layers = layers_for(want, shapes, rows, types)
        return net.derive("predict", layers, keep=want.outputs, **whole, **options)

    return team(net, want.layers, batch_size, derive)


def _write_whole(net: Net, whole: Net) -> None:
    """Give a whole net the parameters of one that is divided among ranks; collective."""
    values = net.parameters.whole()
    whole.parameters.write({name: value for name, value in values.items() if name in whole.parameters})


def _type(net: Net, name: str) -> str:
    """Return the type of a source's blob in `net`; "" stands for the net's floating type."""
    return next((value.dtype for value in net.memory.values if value.name == name), "")


def _transformed(
    batch: np.ndarray,
    name: str,
    source: Layer,
    net: Net,
    fitted: Mapping[str, Any],
    classes: Sequence[str],
    begin: int,
) -> np.ndarray:
    """Transform a batch as the source that it replaces does."""
    import numpy as np

    whole = all(np.dtype(one.dtype).kind in "biu" for one in (batch, net.memory.final[name]))
    dtype = np.dtype(np.int64 if whole else net.dtype)
    given = batch
    if batch.dtype != dtype or not _takes_numbers_alone(source):  # which may change it
        given = np.empty(batch.shape, dtype)
        if (index := copy_numbers(batch, given)) is not None:
            number = begin + index // (batch.size // len(batch))
            record = f": record {number}" if number or len(batch) > 1 else ""  # of a single one it says nothing
            raise too_large(f"'{name}'{record}", dtype)
    randoms, scalars = _known.setdefault(net, Known()).randoms, net.scalars
    if (random := randoms.get(name)) is None:
        random = randoms[name] = RecordRandom(net.seed, f"predict-{name}", lambda: int(scalars["step"]))
    random.at(range(len(given)), np.zeros(len(given)))
    names = fitted.get(CLASSES, ())
    if classes and names and _takes_numbers_alone(source):
        given = renumbered(given, class_numbers("the records", name, classes, names), len(names))
    made: Any = source.prepare(name, given, random, "predict", fitted, classes)
    return answered(source, "prepare", made, np.ndarray, "an array: the records that it got, changed")


def _takes_numbers_alone(source: Layer) -> bool:
    """Return whether a source leaves records as they are, so that it does not know names of classes."""
    if isinstance(source, InputLayer):
        return not source.instead_of or _takes_numbers_alone(source.instead_of[0])
    return type(source).prepare is Layer.prepare


def _prepared_shape(source: Layer, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    found = source.prepared_shape(name, shape)
    return answered(source, "prepared_shape", found, tuple, "the shape of a record, a tuple")
