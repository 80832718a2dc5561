"""Answers of a trained net to records that come one by one: lines of JSON, or the requests of a server."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..errors import DataError, NacreError, nearest
from .inputs import Batch, Inputs, blobs_of, known_shape, side_by_side, whole_records, written_net
from .outputs import Answers, names_for
from .screen import print_json

if TYPE_CHECKING:
    import numpy as np

    from ..config.netfile import NetFile
    from ..net.net import Net
    from ..net.predict import Wanted
    from ..snapshots.snapshot import Snapshot

    Record = tuple[str, Mapping[str, np.ndarray]]
    """The key of a record, and its numbers for each blob."""


class Predictor:
    """A trained net that answers as `nacre predict --json` does. It is used by one thread.

    Args:
        blobs: the first is told of; by default that which no layer reads.
        shape: of a record, for nets that read one blob; by default that of the net file's data, or of the first record.
        names: of the classes; by default those of the snapshot.
        batch_size: how many records are computed at a time.

    Raises:
        DataError: the net has no output or reads no blob of its sources; or it reads several, and a shape is given.
    """

    def __init__(
        self,
        file: NetFile,
        saved: Snapshot,
        blobs: Sequence[str] = (),
        *,
        shape: tuple[int, ...] | None = None,
        names: Sequence[str] | None = None,
        top: int = 5,
        unit: str = "",
        divide: float = 1.0,
        batch_size: int = 1,
        backend: str | None = None,
    ) -> None:
        from ..net.predict import wanted

        self.file, self.saved, self.backend = file, saved, backend
        self.batch_size, self.divide = batch_size, divide
        self.want = wanted(file.layers, blobs, file.algorithm)
        self.blobs, self.output = blobs_of(file, self.want, shape), self.want.outputs[0]
        self.from_option = shape is not None
        self.shapes = {blob: shape or known_shape(file, blob) for blob in self.blobs}
        self.sure = not self.from_option and None not in self.shapes.values()
        self.names = names
        self.answers = Answers.about(file, self.output, names, top, unit)
        self._stack = ExitStack()
        self._net: Net | None = None

    def read(self, given: Any) -> Record:
        """Return a record that was given in JSON: numbers in lists, {blob: numbers, "key": name}, or {"file": path}.

        Of a net that reads several blobs, each has its numbers by name, or the file has all.

        Raises:
            DataError: it cannot be read, or does not fit the net.
        """
        first, *others = self.blobs
        if not isinstance(given, dict):
            if others:
                read = ", ".join(self.blobs)
                raise DataError(f"the net reads {read}, but the record does not say whose numbers it has", self._form())
            return "", {first: self._numbers(first, given)}
        known = {"file", "key", *self.blobs}
        table = cast("dict[str, Any]", given)
        if unknown := [name for name in table if name not in known]:
            raise DataError(f"a record has no {unknown[0]!r}{nearest(unknown[0], known)}", self._form())
        key, missing = str(table.get("key", "")), [blob for blob in self.blobs if blob not in table]
        if ("file" in table) != (len(missing) == len(self.blobs)):
            names = " and ".join(f"'{blob}'" for blob in self.blobs)
            raise DataError(f"a record has either {names} or 'file'", self._form())
        if "file" not in table:
            if missing:
                raise DataError(f"the record has no '{missing[0]}', which the net reads too", self._form())
            return key, {blob: self._numbers(blob, table[blob]) for blob in self.blobs}
        if not isinstance(table["file"], str):
            raise DataError("'file' must be the path of a file", self._form())
        return self.read_file(Path(table["file"]), key)

    def read_file(self, path: Path, key: str = "") -> Record:
        """Return the only record of a file. Raises DataError if it has several, or cannot be read."""
        found: dict[str, Batch] = {}
        with ExitStack() as stack:
            records = {
                blob: stack.enter_context(
                    Inputs(self.file, [path], blob, shape, self.divide, from_option=self.from_option)
                )
                for blob, shape in self.shapes.items()
            }
            for batches in side_by_side(records, 1):
                if found:
                    raise DataError(f"{path}: it has several records, but one is asked for", "give a file for each")
                found = batches
        first = self.blobs[0]
        key = key or (found[first].keys[0] if records[first].named else str(path))
        return key, {blob: batch.records[0] for blob, batch in found.items()}

    def _numbers(self, blob: str, given: Any) -> np.ndarray:
        import numpy as np

        try:
            record = np.array(given, np.float64)
        except (TypeError, ValueError) as error:
            raise DataError("the record must hold numbers, in lists of equal lengths", self._form()) from error
        record /= self.divide
        shape = self.shapes[blob]
        if shape is None or record.shape == shape:
            return record
        if record.size == prod(shape):
            return record.reshape(shape)
        if not self.from_option and self.want.source_of(blob).prepared_shape(blob, record.shape) == shape:
            return record
        whose = f"'{blob}' of the record" if len(self.blobs) > 1 else "the record"
        raise DataError(f"{whose} has the shape {record.shape}, but the net needs {shape}", self._form())

    def _form(self) -> str:
        table = ", ".join(f'"{blob}": [numbers]' for blob in self.blobs)
        if len(self.blobs) > 1:
            return f'write {{{table}, "key": "a name"}} or {{"file": "records.h5"}}'
        return f'write [numbers], {{{table}, "key": "a name"}} or {{"file": "cat.jpg"}}'

    def answer(self, records: Sequence[Record]) -> list[dict[str, Any]]:
        """Return the answers to at most `batch_size` records: {key, classes}, {key, values} or {key, error, remedy}."""
        try:
            return self._answer(records)
        except NacreError as error:
            if len(records) == 1:
                return [{"key": records[0][0], **failure(error)}]
        return [one for record in records for one in self.answer([record])]

    def _answer(self, records: Sequence[Record]) -> list[dict[str, Any]]:
        import numpy as np

        from ..net.predict import prepared, run

        given = {blob: [arrays[blob] for _, arrays in records] for blob in self.blobs}
        if any(len({array.shape for array in arrays}) > 1 for arrays in given.values()):
            raise DataError("the records have different shapes", "give all records one shape")
        batch = {blob: np.stack(arrays) for blob, arrays in given.items()}
        net = self._net or self._make({blob: array.shape[1:] for blob, array in batch.items()})
        ready = prepared(net, self.want, batch)
        found = run(net, self.want, ready)[self.output]
        rows = self.answers.of(found, whole_records(ready))
        return [{"key": key, **one} for (key, _), one in zip(records, rows, strict=True)]

    def _make(self, shapes: Mapping[str, tuple[int, ...]]) -> Net:
        """Make the net for records of these shapes."""
        from ..net.predict import check_outputs

        with ExitStack() as stack:
            made = net_for(self.file, self.saved, self.want, shapes, self.batch_size, self.backend, sure=self.sure)
            net = stack.enter_context(made)
            check_outputs(net, self.want)
            count = prod(net.memory.final[self.output].shape[1:])
            self.answers.names = names_for(self.file, self.output, count, self.names, "--classes")
            self._stack = stack.pop_all()
        self.shapes = {blob: known or shapes[blob] for blob, known in self.shapes.items()}
        self._net = net
        return net

    def close(self) -> None:
        """Release the net; may be called twice."""
        self._net = None
        self._stack.close()

    def __enter__(self) -> Predictor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def failure(error: NacreError) -> dict[str, str]:
    """Return an error as data for JSON."""
    return {"error": str(error.args[0]), "remedy": error.remedy}


def answer_lines(predictor: Predictor, lines: Iterable[str]) -> None:
    """Print the answer to each line, before the next is read; a line that is wrong is answered with what is wrong."""
    number = 0
    for line in lines:
        if not line.strip():
            continue
        print_json({"record": number, **_answer_line(predictor, line)}, lines=True)
        number += 1


def _answer_line(predictor: Predictor, line: str) -> Mapping[str, Any]:
    try:
        key, record = predictor.read(json.loads(line))
    except NacreError as error:
        return failure(error)
    except (ValueError, RecursionError) as error:
        return {"error": f"the line is not JSON: {error}", "remedy": "write a record as JSON on one line"}
    return predictor.answer([(key, record)])[0]


# The net


@contextmanager
def net_for(
    file: NetFile,
    saved: Snapshot,
    want: Wanted,
    records: Mapping[str, tuple[int, ...]],
    batch_size: int,
    backend: str | None,
    *,
    sure: bool,
) -> Generator[Net]:
    """Make the net of the layers that are needed, trained. The sources' data may be missing.

    `records` has the shape of a record for each blob; `sure` is true if the sources' records have these shapes.

    Raises:
        DataError: the parameters have other shapes than records of this shape need.
        SnapshotError: the snapshot belongs to another net.
    """
    shapes = {blob: want.source_of(blob).prepared_shape(blob, given) for blob, given in records.items()}
    if not sure:  # before there are parameters, whose shape other nets of these layers share
        with written_net(file, want, shapes, batch_size, backend, allocate=False) as planned:
            _check_shapes(planned, saved, records)
    with written_net(file, want, shapes, batch_size, backend) as made:
        made.parameters.load(saved, strict=False)
        yield made


def _check_shapes(net: Net, saved: Snapshot, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check the shapes of records: with a wrong one, layers have the trained number of outputs, but not of inputs.

    Raises:
        DataError: names a parameter.
    """
    trained = {name: saved.arrays.get(f"parameters/{name}") for name in net.parameters}
    pairs = [(name, () if array is None else array.shape) for name, array in trained.items()]
    other = [(name, there, net.parameters[name].shape) for name, there in pairs if there != net.parameters[name].shape]
    if other and all(there[:1] == here[:1] for _, there, here in other):
        name, there, here = other[0]
        told = " and ".join(map(str, shapes.values()))
        message = f"records of shape {told} do not fit the net: '{name}' was trained with the shape {there}"
        more = ", for example --shape 1,8,8" if len(shapes) == 1 else ""
        raise DataError(f"{message}, but they need {here}", f"use the right shape{more}")
