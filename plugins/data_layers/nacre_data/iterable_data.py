"""IterableData: records from Python: a dataset with numbers, any iterable, or a function that makes one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Annotated, Any

import numpy as np

from nacre import Converted, DataError, Field, Layer, Reader, nearest, non_negative

from .checks import NUMBERS
from .data import StoreRecords
from .files import named
from .memory_data import MemoryDataLayer
from .reading import SourceReader
from .sequential import SequentialState
from .source import RecordSourceLayer, RecordSourceState


class Items(Converted[Any, Any]):
    """What gives items: with numbers, in an order of its own, or a function that makes such an iterable."""

    wants = "an iterable, a function that returns one, or a dataset with a length and numbered items"

    @staticmethod
    def convert(value: Any) -> Any:
        gives = hasattr(value, "__iter__") or callable(value) or is_numbered(value)
        if not gives or isinstance(value, str | bytes | Mapping):
            raise ValueError
        if isinstance(value, list | tuple):
            return Listed(value)
        return Once(value) if hasattr(value, "__next__") else value


class Listed:
    """The items of a list, of which a snapshot does not write down each."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> Any:
        return self.items[number]

    def __repr__(self) -> str:
        return f"{len(self)} items"


class Once:
    """An iterator, which gives its items only once."""

    def __init__(self, iterator: Any) -> None:
        self.iterator = iterator
        self.begun = False

    def __iter__(self) -> Iterator[Any]:
        if self.begun:
            message = f"data is an iterator ({type(self.iterator).__name__}), which gives its items only once"
            raise DataError(message, "give the function that makes it, such as data=records instead of data=records()")
        self.begun = True
        return self.iterator


class IterableDataLayer(RecordSourceLayer, is_source=True):
    """Feed the items of a Python iterable, or of a dataset such as those of PyTorch and Hugging Face.

    y[n] = item[order[position + n]], where position grows by batch_size with every batch.

    Each item is a record: a dict with an entry for each top, a tuple or list of them in the order of the tops, or for
    one top an array or number. Entries are arrays, tensors or numbers; all items have the shapes and types of the
    first. Data with a length and numbered items (`len(data)`, `data[7]`) are read in any order, and a training is
    resumed where it was. Others are read anew in each pass, one after the other; `shuffle` mixes `window` items at a
    time, and a resumed training reads again from the start of its pass, which must give the same items. An iterator,
    such as a generator at work, gives one pass only. From Python only: no net file can hold data. Raises DataError if
    an item is not like the first, or if there is none.

    Example:
        import numpy as np
        from nacre_data import IterableDataLayer


        def records():  # called for each pass
            for number in range(100):
                yield {"data": np.full((1, 28, 28), number), "label": number % 10}


        layer = IterableDataLayer(data=records, batch_size=20)  # "data" (20, 1, 28, 28), "label" (20,)
    """

    data: Annotated[
        Items, "from Python code: an iterable, a function that returns one, or a dataset with numbered items"
    ]
    window: Annotated[int, non_negative, "records that are mixed at a time, if they are read one after the other"] = 0

    def standalone(self) -> Layer:
        """Return a source without data, for a saved net: it changes records as this one does."""
        own = {field.name for field in RecordSourceLayer.fields()}
        return MemoryDataLayer(
            data=(), **{name: value for name, value in self.given().items() if name in own}
        ).standalone()

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if hasattr(self.data, "batch_sampler") and hasattr(self.data, "dataset"):
            yield "data is a DataLoader, which gives batches, but records are needed: give its dataset"
        if self.window and not self.shuffle:
            yield f"window={self.window} is given without shuffle = true, so nothing is mixed"
        elif self.window and is_numbered(self.data):
            yield f"window={self.window}, but shuffle mixes all items of data that have numbers"

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> RecordSourceState:
        """Look at the first item.

        Raises:
            DataError: there is none, it does not have what the tops need, or there are fewer items than in a batch.
        """
        columns = tuple(self.columns(backend.phase))
        if is_numbered(self.data):
            with named(self.name):
                reader = SourceReader(NumberedItems(self.data, self.tops, columns), skips=False)
            return RecordSourceState(
                self, backend, StoreRecords(self.name, self.tops, reader, cache_bytes=0, at_once=0)
            )

        def opened() -> SourceReader:
            with named(self.name):
                return SourceReader(ItemsInOrder(self.data, self.tops, columns), skips=False)

        return SequentialState(self, backend, opened(), opened)


def is_numbered(data: Any) -> bool:
    """Return whether data have a length and numbered items; PyTorch's iterable datasets have a method that refuses."""
    if not hasattr(data, "__len__") or not hasattr(data, "__getitem__"):
        return False
    if not hasattr(data, "__iter__"):
        return True
    try:
        return not len(data) or data[0] is not None
    except (LookupError, NotImplementedError, TypeError):  # a mapping, or a data frame, has others than numbers
        return False


class ItemReader(Reader):
    """Items as records; their fields are those of the first."""

    def __init__(self, data: Any, first: Any, tops: Sequence[str], columns: Sequence[str]) -> None:
        self.tops = tops
        self.wanted = tops if columns == () else (*tops, *columns)
        features = getattr(data, "features", None) or {}  # Hugging Face's; those of classes have names
        entries = self._entries(first, 0)
        self.fields: Mapping[str, Field] = {
            name: Field(array.shape, array.dtype.name, tuple(getattr(features.get(name), "names", None) or ()))
            for name, array in entries.items()
        }

    def _entries(self, item: Any, number: int) -> dict[str, np.ndarray]:
        """Return the entries of an item as arrays, by the names that are wanted."""
        if isinstance(item, Mapping):
            if missing := [name for name in self.wanted if name not in item]:
                known = f"{nearest(missing[0], map(str, item))}; it has: {', '.join(map(str, item)) or 'nothing'}"
                raise DataError(f"{self.key(number)} has no '{missing[0]}'{known}")
            return {name: self._array(item[name], name, number) for name in self.wanted}
        if missing := self.wanted[len(self.tops) :]:
            what = f"the items have no names, so there is no '{missing[0]}'"
            raise DataError(what, "let the items be dicts")
        by_place = isinstance(item, tuple) or (isinstance(item, list) and len(self.tops) > 1)
        entries: Sequence[Any] = item if by_place else (item,)
        if len(entries) != len(self.tops):
            raise DataError(
                f"{self.key(number)} has {len(entries)} {'entry' if len(entries) == 1 else 'entries'}, "
                f"but it needs one for each top: {', '.join(self.tops)}"
            )
        return {top: self._array(entry, top, number) for top, entry in zip(self.tops, entries, strict=True)}

    def _array(self, entry: Any, name: str, number: int) -> np.ndarray:
        try:
            array = np.asarray(entry)
        except (
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:  # a list of lists of different lengths, a tensor on a GPU
            message = f"{self.key(number)}: '{name}' is of type {type(entry).__name__}"
            raise DataError(f"{message}, which cannot be made an array: {error}") from error
        if array.dtype.kind not in NUMBERS:
            raise DataError(f"{self.key(number)}: '{name}' is of type {array.dtype}, but it must hold numbers")
        return array

    def record(self, item: Any, number: int) -> dict[str, np.ndarray]:
        """Return an item as a record, after checking that it is like the first."""
        entries = self._entries(item, number)
        for name, array in entries.items():
            field = self.fields[name]
            if array.shape != field.shape or not _fits(array, np.dtype(field.dtype)):
                raise DataError(
                    f"{self.key(number)}: '{name}' has the shape {array.shape} and type {array.dtype}, "
                    f"but in the first item {field.shape} and {field.dtype}",
                    "let all items have the same shapes and types",
                )
        return entries

    def key(self, number: int) -> str:
        return f"item {number}"


def _fits(array: np.ndarray, wanted: np.dtype[Any]) -> bool:
    """Return whether no number is another one in the wanted type, apart from rounding."""
    if array.dtype == wanted or np.can_cast(array.dtype, wanted, "safe"):
        return True
    if not array.dtype.kind == wanted.kind == "f":
        return False
    with np.errstate(over="ignore"):
        return bool(np.array_equal(np.isinf(array.astype(wanted)), np.isinf(array)))


class NumberedItems(ItemReader):
    """Items of a dataset with a length."""

    def __init__(self, data: Any, tops: Sequence[str], columns: Sequence[str]) -> None:
        self.data = data
        self.count: int | None = len(data)
        if not self.count:
            raise DataError("there are no items in data")
        super().__init__(data, data[0], tops, columns)

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        chosen = numbers.tolist()
        several = getattr(self.data, "__getitems__", None)  # PyTorch's protocol for many at once
        items = several(chosen) if several else map(self.data.__getitem__, chosen)
        for row, (number, item) in enumerate(zip(chosen, items, strict=True)):
            record = self.record(item, number)
            for name, places in out.items():
                places[row] = record[name]


class ItemsInOrder(ItemReader):
    """Items of one pass over an iterable."""

    count: int | None = None

    def __init__(self, data: Any, tops: Sequence[str], columns: Sequence[str]) -> None:
        made: Any = data if hasattr(data, "__iter__") else data()
        if not hasattr(made, "__iter__"):
            message = f"data is a function that returns {type(made).__name__}, but it must return an iterable"
            raise DataError(message, "let it yield the items")
        self.items: Iterator[Any] = iter(made)
        nothing = object()
        first = next(self.items, nothing)
        if first is nothing:
            raise DataError("there are no items in data")
        self.all = chain([first], self.items)
        super().__init__(data, first, tops, columns)

    def rows(self, start: int = 0) -> Iterator[Mapping[str, Any]]:
        for number, item in enumerate(islice(self.all, start, None), start):
            # copied: records of a batch are kept until it is whole, and a generator may fill one array again and again
            yield {name: array.copy() for name, array in self.record(item, number).items()}

    def close(self) -> None:
        end: Callable[[], None] | None = getattr(self.items, "close", None)
        if end is not None:  # a generator, which may hold files
            end()
