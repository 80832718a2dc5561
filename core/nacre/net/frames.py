"""What people give as arrays: lists, tensors, and data frames, whose columns are taken by their names if known."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..errors import DataError, brief, nearest

if TYPE_CHECKING:
    import numpy as np

NUMBERS = "fiub"
"""Kinds of NumPy's types that are numbers."""
DATES = "mM"
OBJECTS = "OUS"


def column_names(given: Any) -> tuple[str, ...]:
    """Return the names of the columns of a data frame; () if it is none, or if they are no different texts."""
    found: Any = getattr(given, "column_names", None)  # pyarrow's tables have others as `columns`
    found = getattr(given, "columns", ()) if found is None else found
    names: list[Any] = [*found] if isinstance(found, Iterable) else []
    texts = all(isinstance(one, str) for one in names) and len(set(names)) == len(names)
    return tuple(names) if texts and hasattr(given, "__getitem__") else ()


def own_columns(given: Any) -> tuple[str, ...]:
    """Return the names of the columns of a data frame, or of a single column (a Series); () if it has none."""
    name: Any = getattr(given, "name", None)
    return column_names(given) or ((name,) if isinstance(name, str) and name and hasattr(given, "to_numpy") else ())


def by_columns(given: Any, known: Mapping[str, Sequence[str]]) -> dict[str, Any] | None:
    """Return for each of several blobs its columns of a data frame, of which training had the `known` ones.

    A blob that is called as its only column gets this by itself. None if it is no data frame, or the columns of a blob
    are not known.

    Raises:
        DataError: a column is missing.
    """
    names = column_names(given)
    if not names or len(known) < 2 or not all(known.values()):
        return None
    there = {*names}
    if missing := [column for columns in known.values() for column in columns if column not in there]:
        near = nearest(missing[0], names)
        raise DataError(f"the data have no column {missing[0]!r}{near}, but training had one", "add this column")

    def some(columns: Sequence[str]) -> Any:
        return given.select([*columns]) if hasattr(given, "select") else given[[*columns]]

    return {name: given[name] if [*columns] == [name] else some(columns) for name, columns in known.items()}


def array_of(name: str, given: Any, known: Sequence[str] = (), *, missing: bool = False) -> np.ndarray:
    """Return records for a blob as an array.

    The columns of a data frame come in the order of the `known` names, if there are any. With `missing`, None is NaN,
    for transformers that may fill it.

    Raises:
        DataError: they are none, a column holds no numbers, or the names of the columns are not the known ones.
    """
    import numpy as np

    if np.ma.is_masked(given):
        raise DataError(
            f"'{name}' has masked numbers, and nothing can be computed from these", "fill them: x.filled(0)"
        )
    names = column_names(given)
    places = _order(name, names, known) if names and known and names != tuple(known) else None
    try:
        columns = [_numbers(name, np.asarray(given[one]), one, missing) for one in names if len(names) > 1]
        array = np.asarray(given)
        if array.dtype.kind in "US" and isinstance(cast("object", given), list | tuple):
            objects = np.asarray(given, object)
            if not all(isinstance(one, str | bytes) for one in objects.reshape(-1).tolist()):
                array = objects  # as texts, what is missing would be the class "nan"
        if array.ndim:
            array = (
                np.stack(columns, 1) if columns and array.dtype.kind in OBJECTS else _numbers(name, array, "", missing)
            )
    except (OverflowError, RuntimeError, TypeError, ValueError) as error:
        message = f"'{name}': this {type(given).__name__} cannot be made an array of numbers"
        if hasattr(given, "collect"):  # a LazyFrame of polars
            raise DataError(f"{message} yet", "compute it first: x.collect()") from error
        raise DataError(f"{message}: {error}", "give an array, a list of numbers, or a table of numbers") from error
    if not array.ndim:
        wanted = "but must be an array (records, ...)"
        message, kind = f"'{name}' is {brief(given)}, {wanted}", f"'{name}' is a {type(given).__name__}, {wanted}"
        if isinstance(given, str | os.PathLike):
            raise DataError(
                message,
                "give a file alone, without y, if it has the labels; or read it into an array; a column is table[name]",
            )
        if hasattr(given, "toarray"):
            raise DataError(kind, "a sparse matrix is made full by x.toarray()")
        if isinstance(given, bytes) or hasattr(given, "ndim") or not isinstance(given, Iterable):
            raise DataError(message, "read files into an array first; a single record is [x]")
        if not isinstance(given, Iterator):  # such as a DataLoader
            raise DataError(kind, "give an array; or let L.IterableData(data=...) feed the net, in place of Inputs")
        raise DataError(message, "make a list of it: list(...)")
    if not len(array):
        raise DataError(f"'{name}': the data have no record")
    return array if places is None else array[:, places]


def _order(name: str, names: Sequence[str], known: Sequence[str]) -> list[int]:
    """Return the places of the known columns. Raises DataError if there are others than these."""
    as_array = "give the columns of the training; or an array, x.to_numpy(), whose columns are in their order"
    places, learned = {one: place for place, one in enumerate(names)}, {*known}
    if missing := [one for one in known if one not in places]:
        near = nearest(missing[0], names)
        raise DataError(f"'{name}' has no column {missing[0]!r}{near}, but training had one", as_array)
    if more := [one for one in names if one not in learned]:
        raise DataError(f"'{name}' has the column {more[0]!r}, but training had none", as_array)
    return [places[one] for one in known]


def _numbers(name: str, array: np.ndarray, column: str, missing: bool) -> np.ndarray:
    """Return an array, of objects as numbers if they are no texts; those of a `column` of several must be numbers.

    With `missing`, None is NaN.

    Raises:
        DataError: something in it is no number, or not all are texts.
    """
    import numpy as np

    where = f"'{name}': column {column!r}" if column else f"'{name}'"
    if array.dtype.kind in DATES:
        remedy = "compute numbers of them, such as the days since a date"
        raise DataError(f"{where} holds times ({array.dtype}), but numbers are needed", remedy)
    if array.dtype.kind not in OBJECTS:
        return array
    items: list[Any] = array.reshape(-1).tolist()
    texts = not column and any(isinstance(one, str | bytes) for one in items)
    if texts and all(isinstance(one, str | bytes) for one in items):
        return _texts(where, array, items)
    if not (texts and array.size == len(array)):
        try:
            if not missing and any(one is None for one in items):
                raise TypeError  # NumPy makes NaN of it
            return array.astype(np.float64)  # the columns of a table may have different types
        except (OverflowError, TypeError, ValueError):
            texts = False
    wrong = [isinstance(one, str | bytes) != texts if texts else not _is_number(one, missing) for one in items]
    found = items[place := wrong.index(True)]
    record = place // (array.size // len(array))
    needed = "the others are texts" if texts else "numbers are needed"
    remedy = "fill what is missing, or leave such records out"
    if isinstance(cast("object", found), Mapping) and not column:
        remedy = "make a table of them, such as pandas.DataFrame(x)"
    elif isinstance(found, str | bytes):
        remedy = "make numbers of texts, such as a column for each (one-hot), as pandas.get_dummies(x) does"
    elif _is_number(found, False) and found == found:
        remedy = "write all of them as texts"
    raise DataError(f"{where}: record {record} is {brief(found)}, but {needed}", remedy)


def _texts(where: str, array: np.ndarray, items: Sequence[str | bytes]) -> np.ndarray:
    """Return an array of texts, of which those that are bytes, such as h5py's, are in UTF-8."""
    import numpy as np

    if not any(isinstance(one, bytes) for one in items):
        return array
    texts: list[str] = []
    for place, one in enumerate(items):
        try:
            texts.append(one.decode() if isinstance(one, bytes) else one)
        except UnicodeDecodeError as error:
            record = place // (array.size // len(array))
            message = f"{where}: record {record} is {brief(one)}, which is no text in UTF-8"
            raise DataError(message, "decode the texts first: one.decode('latin-1')") from error
    return np.array(texts, object).reshape(array.shape)


def _is_number(item: Any, missing: bool) -> bool:
    """Return whether an object is a number; None is one with `missing`."""
    try:
        float(0 if missing and item is None else item)
    except (OverflowError, TypeError, ValueError):
        return False
    return True
