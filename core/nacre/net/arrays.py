"""Arrays in place of a net's Inputs: which array goes where, and the source that feeds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from ..errors import ConfigError, DataError, nearest
from ..fields.component import need_default_of
from ..fields.whole import misfit, number_text
from ..graph.containers import expand
from ..protocols.graph import Graph, Node
from ..protocols.layer import Layer, Phase
from ..text import listed
from .classes import class_order
from .columns import COLUMNS
from .frames import array_of, by_columns, column_names, own_columns
from .input import InputLayer, may_fill, without_ones

if TYPE_CHECKING:
    import numpy as np

    from ..protocols.algorithm import Algorithm
    from ..protocols.components import Transformer
    from ..protocols.view import Fitted


class HasLayers(Protocol):
    """A net, or a net file."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Its layers."""
        ...

    @property
    def algorithm(self) -> Algorithm | None:
        """What trains a batch of it, if it rewrites the net."""
        ...

    @property
    def fitted(self) -> Fitted:
        """What is known of its training data."""
        ...

    @property
    def pins(self) -> Mapping[str, str]:
        """Whose plugins are used for what several offer."""
        ...


@dataclass(frozen=True)
class Inputs:
    """The blobs of a net's `Input` layers in one phase, in the order of the layers, and who reads them.

    `data` are read by layers that compute, `targets` only by losses and statistics; blobs that nobody reads are in
    neither. Of the targets, `labels` are compared by none as sizes, so they may be classes. `nodes` are the layers,
    those in containers too. `columns` are the names of the columns of blobs that training had.
    """

    net: str
    layers: Mapping[str, InputLayer]
    data: tuple[str, ...]
    targets: tuple[str, ...]
    labels: tuple[str, ...]
    nodes: tuple[Node, ...]
    columns: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, net: HasLayers, phase: Phase) -> Inputs:
        """Return the Inputs of a net. Raises ConfigError if it has none that a layer reads."""
        here = [layer for layer in net.layers if phase not in layer.exclude]
        nodes = expand(Graph.of(layer for layer in here if not layer.is_source), phase, net.algorithm).nodes
        computing = {name for node in nodes if not _judges(node.layer) for name in node.bottoms}
        judging = {name for node in nodes if _judges(node.layer) for name in node.bottoms}
        inputs = {top: layer for layer in here if isinstance(layer, InputLayer) for top in layer.tops}
        data = tuple(top for top in inputs if top in computing)
        targets = tuple(top for top in inputs if top in judging - computing)
        if not data:
            tests = f"net.evaluate('data.csv') or net.derive('{phase}').forward_epoch() tests"
            does = "Solver(...).solve(net) trains" if phase == "train" else tests
            raise ConfigError(
                f"net '{net.name}' has no Input that its layers read, so it takes no arrays",
                f"make it with Input(shape) in place of a source; {does} a net with sources",
            )
        sizes = {name for node in nodes if node.layer.compares_numbers for name in node.bottoms}
        labels = tuple(top for top in targets if top not in sizes)
        columns = {top: known.get(COLUMNS, ()) for top, known in net.fitted.items()}
        return cls(net.name, inputs, data, targets, labels, tuple(nodes), columns)

    def records(
        self, x: Any, y: Any = None, what: str = "x and y", classes: Mapping[str, Sequence[str]] | None = None
    ) -> Records:
        """Return what arrays hold for these blobs.

        Args:
            x: for `data`: an array, or several in a list or tuple if there are several blobs; or arrays by blob.
            y: for `targets`, likewise; None if `x` has all of them.
            what: names the arrays in errors.
            classes: names that the numbers in arrays count.

        Raises:
            DataError: an array is missing, does not fit its blob, or has another number of records than the others.
        """
        given = self._in_one_frame(x) if y is None else None
        if given is None:
            given = {**self._by_name("x", x, self.data), **({} if y is None else self._by_name("y", y, self.targets))}
        arrays = {name: self._array(name, given[name]) for name in self.data if name in given}
        if missing := [name for name in (*self.data, *self.targets) if name not in given]:
            ask = f"net '{self.net}' reads the Inputs {', '.join((*self.data, *self.targets))}"
            remedy = "give it as y" if missing[0] in self.targets else "give the arrays by name: {name: array}"
            raise DataError(f"{what}: {ask}, but there is no array for {', '.join(missing)}", remedy)
        for name in self.targets:  # a target may have any name
            arrays[name] = array_of(name, given[name], missing=may_fill(self.layers[name], name))
        read = {
            name: _read(name, array, self.layers[name], (classes or {}).get(name, ()), is_label=name in self.labels)
            for name, array in arrays.items()
        }
        for name, (array, names) in read.items():
            self._refuse_names(name, names)
            self._refuse_sides(name, array)
        counts = {name: len(array) for name, (array, _) in read.items()}
        if len(set(counts.values())) > 1:
            lengths = ", ".join(f"'{name}' {count}" for name, count in counts.items())
            raise DataError(f"{what} have different numbers of records: {lengths}", "give one of each for every record")
        return Records(
            {name: array for name, (array, _) in read.items()},
            {name: names for name, (_, names) in read.items() if names},
            [(name, one) for name in read for one in self.layers[name].changes(name)],
            {
                name: names
                for name in (*self.data, *self.targets)
                if (names := self.columns.get(name) or own_columns(given[name]))
            },
        )

    def ignored(self, name: str) -> set[int]:
        """Return the labels in a blob that losses ignore."""
        readers = [node.layer for node in self.nodes if name in node.bottoms and node.layer.has_loss]
        return {label for layer in readers if (label := layer.ignored()) is not None}

    def _array(self, name: str, given: Any) -> np.ndarray:
        """Return records of a blob as an array; pictures of any size are read as the source reads those of files."""
        from .given import through_codec

        layer = self.layers[name]
        pictures = through_codec(name, given, layer, tuple(layer.shape))
        if pictures is not None:
            return pictures
        return array_of(name, given, self.columns.get(name, ()), missing=may_fill(layer, name))

    def _in_one_frame(self, x: Any) -> dict[str, Any] | None:
        """Return what is in a data frame with the columns of all blobs, as training had them; None if it is none."""
        known = {name: self.columns.get(name, ()) for name in (*self.data, *self.targets)}
        names = {name for columns in known.values() for name in columns}
        return by_columns(x, known) if self.targets and names <= {*column_names(x)} else None

    def _refuse_names(self, name: str, names: Sequence[str]) -> None:
        """Raise DataError for names of classes that a loss or a statistic would take for sizes."""
        readers = [node for node in self.nodes if name in node.bottoms]
        sizes = [node.name for node in readers if node.layer.compares_numbers]
        if names and name in self.targets and sizes:
            raise DataError(
                f"'{name}' holds texts, but '{sizes[0]}' compares numbers",
                "give numbers; scores of classes are compared by L.SoftmaxLoss()(scores, label)",
            )
        pairs = [node.name for node in readers if node.layer.boundary is not None]
        if len(names) > 2 and pairs:
            raise DataError(
                f"'{name}' has {len(names)} classes, {listed(names)}, but '{pairs[0]}' tells two apart",
                f"use L.SoftmaxLoss()(scores, label), with output_dim={len(names)} in the layer of the scores",
            )

    def _refuse_sides(self, name: str, array: np.ndarray) -> None:
        """Raise DataError for a target of a loss that tells two classes apart, if it is neither, nor between them.

        One that the loss ignores is right.
        """
        if self.layers[name].changes(name):
            return
        for node in self.nodes:
            if node.layer.boundary is None or node.bottoms[1] != name:
                continue
            outside = (array < 0) | (array > 1)
            if (ignored := node.layer.ignored()) is not None:
                outside &= array != ignored
            if outside.any():
                record = int(outside.reshape(len(outside), -1).any(axis=1).argmax())
                raise DataError(
                    f"'{name}': record {record} is {array[record][outside[record]].flat[0]:g}, but '{node.name}' tells "
                    "two classes apart, 0 and 1",
                    "write 0 and 1, such as (y > 0); more classes are told apart by L.SoftmaxLoss()(scores, label)",
                )

    def _by_name(self, what: str, given: Any, names: Sequence[str]) -> dict[str, Any]:
        if isinstance(given, Mapping):
            arrays = {str(name): array for name, array in cast("Mapping[Any, Any]", given).items()}
            known = (*self.data, *self.targets)
            for name in arrays:
                if name not in known:
                    raise DataError(
                        f"{what} has an array '{name}', but net '{self.net}' has no such Input{nearest(name, known)}",
                        f"its Inputs are {', '.join(known)}",
                    )
            return arrays
        if len(names) == 1:
            return {names[0]: given}
        if not names:
            raise DataError(
                f"{what} is given, but net '{self.net}' has no Input for it: losses and statistics read none that no "
                "other layer reads",
                "leave it out, or give the arrays by name: {name: array}",
            )
        if (found := by_columns(given, {name: self.columns.get(name, ()) for name in names})) is not None:
            return found
        several = cast("Sequence[Any]", given) if isinstance(given, list | tuple) else [given]
        if len(several) != len(names):
            is_of = "one array" if len(several) == 1 else f"{len(several)} arrays"
            raise DataError(
                f"{what} goes to the Inputs {', '.join(names)} of net '{self.net}', but it is {is_of}",
                f"give {what} as a tuple of {len(names)} arrays, or by name: {{name: array}}",
            )
        return dict(zip(names, several, strict=True))


@dataclass(frozen=True)
class Records:
    """Arrays by blob, all with the same number of records; `classes` are the names that the numbers of a blob count.

    `changes` are the transformers of blobs whose Inputs take the place of sources, as in a net that was saved, and
    `columns` the names of the columns of blobs that came in data frames.
    """

    arrays: Mapping[str, np.ndarray]
    classes: Mapping[str, Sequence[str]]
    changes: Sequence[tuple[str, Transformer]] = ()
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def fed(self, name: str, batch_size: int, **fields: Any) -> Layer:
        """Return a source that feeds them; batches are not larger than the data."""
        return need_default_of("arrays")(
            name=name,
            tops=list(self.arrays),
            data=list(self.arrays.values()),
            batch_size=min(batch_size, len(self)),
            classes=dict(self.classes),
            transformers=list(self.changes),
            **({"column_names": {name: list(names) for name, names in self.columns.items()}} if self.columns else {}),
            **fields,
        )


def with_sources(net: HasLayers, sources: Sequence[Layer]) -> list[Layer]:
    """Return a net's layers with sources in place of the Inputs whose blobs they feed."""
    fed = {top for source in sources for top in source.tops}
    layers: list[Layer] = list(sources)
    for layer in net.layers:
        if isinstance(layer, InputLayer) and fed & {*layer.tops}:
            if rest := [top for top in layer.tops if top not in fed]:
                layers.append(replace(layer, tops=rest))
        else:
            layers.append(layer)
    return layers


def _judges(layer: Layer) -> bool:
    """Return whether a layer reads targets: losses and statistics do."""
    return layer.has_loss or layer.has_stats


def _read(
    name: str, array: np.ndarray, layer: InputLayer, names: Sequence[str], *, is_label: bool
) -> tuple[np.ndarray, Sequence[str]]:
    """Return an array as an Input takes it, and the names of the classes that its numbers count, also if it has texts.

    One whole number for each record is of an integer type if it is a label, and of a floating type if it is not: what
    splits the records takes integers for classes.
    """
    import numpy as np

    where = f"'{name}'"
    if names or array.dtype.kind in "OUS":
        made = layer.prepared_shape(name, ())  # a saved net may make numbers of each text, such as those of its words
        if array.size != len(array) or without_ones(made) != without_ones(layer.shape):
            raise DataError(
                f"{where} holds texts, but an Input of shape {layer.shape} needs numbers",
                "a source makes them: docs/tutorials/sentences.md; for labels, an Input has the shape ()",
            )
    if array.dtype.kind in "OUS":
        texts = array.astype(str).reshape(-1).tolist()
        names = class_order(texts)
        numbers = {text: number for number, text in enumerate(names)}
        array = np.array([numbers[text] for text in texts])
    if array.dtype.kind not in "fiub":
        raise DataError(f"{where} holds {array.dtype}, but numbers are needed", "convert it to numbers")
    changed = layer.prepared_shape(name, array.shape[1:])
    if without_ones(changed) != without_ones(layer.shape):
        raise DataError(
            f"{where} has records of shape {array.shape[1:]}, but its Input has the shape {tuple(layer.shape)}",
            "give the numbers of the classes: y.argmax(1)"
            if is_label and _one_hot(array) and not without_ones(layer.shape)
            else shape_remedy(array.shape, layer.shape),
        )
    if changed == array.shape[1:]:
        array = array.reshape(len(array), *layer.shape)
    real = np.dtype(layer.dtype or "float32").kind == "f"
    single = array.size == len(array)
    if not real and (place := misfit(array, np.dtype(layer.dtype))) is not None:
        found = f"record {place // (array.size // len(array))} has {number_text(array.reshape(-1)[place])}"
        raise DataError(
            f"{where} must hold whole numbers ({layer.dtype}), but {found}",
            "leave such records out, or make an Input of numbers: Input(shape) without dtype",
        )
    if real and single and not (is_label or names):
        array = array.astype(np.float64, copy=False)
    elif array.dtype.kind == "f" and (not real or (single and is_label and _are_whole(array))):
        array = array.astype(np.int64)
    return array, names


def shape_remedy(found: Sequence[int], wanted: Sequence[int]) -> str:
    """Return what to do with an array of a shape, for records of another one."""
    for order in ((0, 3, 1, 2), (0, 2, 3, 1)) if len(found) == 4 else ():
        if [found[axis] for axis in order[1:]] == list(wanted):
            return f"the channels are at the other end: give x.transpose{order}"
    if not wanted:
        return "give one number for each record"
    single = "a single record is [x]; " if list(found[1:]) == list(wanted[1:]) else ""
    return f"{single}give an array (records, {', '.join(map(str, wanted))})"


def _are_whole(array: np.ndarray) -> bool:
    import numpy as np

    return array.dtype.kind != "f" or bool(np.isfinite(array).all() and (array == np.rint(array)).all())


def _one_hot(array: np.ndarray) -> bool:
    return array.ndim == 2 and bool(((array == 0) | (array == 1)).all() and (array.sum(axis=1) == 1).all())
