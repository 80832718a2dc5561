"""Answers of a trained net to records that come one by one: lines of JSON, or the requests of a server."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..errors import DataError, NacreError, nearest
from .inputs import Inputs, known_shape, whole_records, written_net
from .outputs import Answers, compares_numbers, names_for
from .screen import print_json

if TYPE_CHECKING:
    import numpy as np

    from ..config.netfile import NetFile
    from ..net.net import Net
    from ..net.predict import Wanted
    from ..snapshots.snapshot import Snapshot

    Record = tuple[str, np.ndarray]
    """The key of a record, and its numbers."""


class Predictor:
    """A trained net that answers as `nacre predict --json` does. It is used by one thread.

    Args:
        blobs: the first is told of; by default that which no layer reads.
        shape: of a record; by default that of the net file's data, or of the first record.
        names: of the classes; by default those of the snapshot.
        batch_size: how many records are computed at a time.

    Raises:
        DataError: the net has no output, or reads several blobs of its sources.
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
        self.blob, self.output = input_blob(file, self.want), self.want.outputs[0]
        self.from_option = shape is not None
        self.shape = shape or known_shape(file, self.blob)
        self.sure = self.shape is not None and not self.from_option
        self.names = names
        self.answers = Answers(names or (), top, numbers=compares_numbers(file.layers, self.output), unit=unit)
        self._stack = ExitStack()
        self._net: Net | None = None

    def read(self, given: Any) -> Record:
        """Return a record that was given in JSON: numbers in lists, {blob: numbers, "key": name}, or {"file": path}.

        Raises:
            DataError: it cannot be read, or does not fit the net.
        """
        if not isinstance(given, dict):
            return "", self._numbers(given)
        known = {"file", "key", self.blob}
        table = cast("dict[str, Any]", given)
        if unknown := [name for name in table if name not in known]:
            raise DataError(f"a record has no {unknown[0]!r}{nearest(unknown[0], known)}", self._form())
        key = str(table.get("key", ""))
        if ("file" in table) == (self.blob in table):
            raise DataError(f"a record has either '{self.blob}' or 'file'", self._form())
        if "file" not in table:
            return key, self._numbers(table[self.blob])
        if not isinstance(table["file"], str):
            raise DataError("'file' must be the path of a file", self._form())
        return self.read_file(Path(table["file"]), key)

    def read_file(self, path: Path, key: str = "") -> Record:
        """Return the only record of a file. Raises DataError if it has several, or cannot be read."""
        found: list[Record] = []
        with Inputs(self.file, [path], self.blob, self.shape, self.divide, from_option=self.from_option) as records:
            for batch in records.batches(2):
                found += zip(batch.keys, batch.records, strict=True)
                if len(found) > 1:
                    raise DataError(f"{path}: it has several records, but one is asked for", "give a file for each")
            named = records.named
        return key or (found[0][0] if named else str(path)), found[0][1]

    def _numbers(self, given: Any) -> np.ndarray:
        import numpy as np

        try:
            record = np.array(given, np.float64)
        except (TypeError, ValueError) as error:
            raise DataError("the record must hold numbers, in lists of equal lengths", self._form()) from error
        record /= self.divide
        if self.shape is None or record.shape == self.shape:
            return record
        source = self.want.source_of(self.blob)
        if record.size == prod(self.shape):
            return record.reshape(self.shape)
        if not self.from_option and source.prepared_shape(self.blob, record.shape) == self.shape:
            return record
        raise DataError(f"the record has the shape {record.shape}, but the net needs {self.shape}", self._form())

    def _form(self) -> str:
        return f'write [numbers], {{"{self.blob}": [numbers], "key": "a name"}} or {{"file": "cat.jpg"}}'

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

        if len({array.shape for _, array in records}) > 1:
            raise DataError("the records have different shapes", "give all records one shape")
        arrays = np.stack([array for _, array in records])
        net = self._net or self._make(arrays.shape[1:])
        ready = prepared(net, self.want, {self.blob: arrays})
        found = run(net, self.want, ready)[self.output]
        rows = self.answers.of(found, whole_records(ready[self.blob]))
        return [{"key": key, **one} for (key, _), one in zip(records, rows, strict=True)]

    def _make(self, shape: tuple[int, ...]) -> Net:
        """Make the net for records of a shape."""
        from ..net.predict import check_outputs

        with ExitStack() as stack:
            made = net_for(
                self.file, self.saved, self.want, {self.blob: shape}, self.batch_size, self.backend, sure=self.sure
            )
            net = stack.enter_context(made)
            check_outputs(net, self.want)
            count = prod(net.memory.final[self.output].shape[1:])
            self.answers.names = names_for(self.file, self.output, count, self.names, "--classes")
            self._stack = stack.pop_all()
        self.shape = self.shape or shape
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


def input_blob(file: NetFile, want: Wanted) -> str:
    """Return the one blob of the sources that the outputs need. Raises DataError if they need none, or several."""
    if len(want.needed) != 1:
        found = ", ".join(sorted(want.needed)) or "none"
        message = f"{file.path}: a net for records one by one must read exactly one blob of its sources, but it reads: "
        raise DataError(message + found, "choose a blob that needs only one of them (--blob), or use files")
    return want.needed[0]


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
            _check_shape(planned, saved, next(iter(records.values())))
    with written_net(file, want, shapes, batch_size, backend) as made:
        made.parameters.load(saved, strict=False)
        yield made


def _check_shape(net: Net, saved: Snapshot, shape: tuple[int, ...]) -> None:
    """Check the shape of records: with a wrong one, layers have the trained number of outputs, but not of inputs.

    Raises:
        DataError: names a parameter.
    """
    trained = {name: saved.arrays.get(f"parameters/{name}") for name in net.parameters}
    pairs = [(name, () if array is None else array.shape) for name, array in trained.items()]
    other = [(name, there, net.parameters[name].shape) for name, there in pairs if there != net.parameters[name].shape]
    if other and all(there[:1] == here[:1] for _, there, here in other):
        name, there, here = other[0]
        message = f"records of shape {shape} do not fit the net: '{name}' was trained with the shape {there}"
        raise DataError(f"{message}, but they need {here}", "use the right shape, for example --shape 1,8,8")
