"""Answers of a trained net to records: of files, lines of JSON, or the requests of a server."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..errors import DataError, NacreError, nearest
from ..net.columns import COLUMNS
from ..net.files import Batch, FileRecords, batches, beside, divided, reading_of
from ..net.fitted import CLASSES
from ..protocols.data_store import Store
from ..text import FEW
from .inputs import blobs_of, known_shape, records_of, whole_records, written_net
from .outputs import Answers
from .screen import print_json

if TYPE_CHECKING:
    import numpy as np

    from ..config.netfile import NetFile
    from ..net.net import Net
    from ..net.predict import Wanted
    from ..snapshots.snapshot import Snapshot

    Record = tuple[str, Mapping[str, np.ndarray]]
    """The key of a record, and its numbers for each blob, or names of classes that training knew."""


@dataclass(frozen=True)
class Computed:
    """What a net has computed of some records, which are in its arrays: what it read, its outputs, and the answers.

    Of a batch these are the records at `places` of the batch; `errors` says what is wrong with each of the others.
    """

    ready: Mapping[str, np.ndarray]
    found: Mapping[str, np.ndarray]
    answers: Sequence[Mapping[str, Any]]
    places: Sequence[int] = ()
    errors: Mapping[int, NacreError] = field(default_factory=dict[int, NacreError])

    def told(self, batch: Batch) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield for each record of a batch its key, and the answer or what is wrong with it, as data for JSON."""
        answers = dict(zip(self.places, self.answers, strict=True))
        for place, key in enumerate(batch.keys):
            yield key, failure(self.errors[place]) if place in self.errors else answers[place]


class Predictor:
    """A trained net that answers as `nacre predict --json` does. It is used by one thread.

    Args:
        blobs: those that are told; by default those that no layer reads.
        shape: of a record, for nets that read one blob; by default that of the net file's data, or of the first record.
        names: of the classes; by default those of the snapshot.
        batch_size: how many records are computed at a time.

    Raises:
        DataError: the net has no output or reads no blob of its sources; or it reads several, and a shape is given.
    """

    takes_paths = True
    """Whether a record may name a file."""

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
        self.blobs = blobs_of(file, self.want, shape)
        self.from_option = shape is not None
        self.shapes = {blob: shape or known_shape(file, blob) for blob in self.blobs}
        self.sure = not self.from_option and None not in self.shapes.values()
        self.answers = Answers(file, self.want.outputs, names, "--classes", top, unit)
        self._stack = ExitStack()
        self._net: Net | None = None

    def read(self, given: Any) -> Record:
        """Return a record that was given in JSON: numbers in lists, {blob: numbers, "key": name}, or {"file": path}.

        Of a net that reads several blobs, each has its numbers by name, or the file has all. The numbers of a blob from
        a table may stand by the names of their columns.

        Raises:
            DataError: it cannot be read, or does not fit the net.
        """
        first, *others = self.blobs
        if not isinstance(given, dict):
            if others:
                read = ", ".join(self.blobs)
                raise DataError(f"the net reads {read}, but the record does not say whose numbers it has", self._form())
            return "", {first: self._numbers(first, given)}
        known = {"key", *self.blobs, *(["file"] if self.takes_paths else [])}
        table = self._by_blob(cast("dict[str, Any]", given))
        if unknown := [name for name in table if name not in known]:
            raise DataError(f"the net reads no {unknown[0]!r}{nearest(unknown[0], known)}", self._form())
        key, missing = str(table.get("key", "")), [blob for blob in self.blobs if blob not in table]
        if ("file" in table) != (len(missing) == len(self.blobs)):
            names = " and ".join(f"'{blob}'" for blob in self.blobs)
            either = f"either {names} or 'file'" if self.takes_paths else names
            raise DataError(f"a record has {either}", self._form())
        if "file" not in table:
            if missing:
                raise DataError(f"the record has no '{missing[0]}', which the net reads too", self._form())
            return key, {blob: self._numbers(blob, table[blob]) for blob in self.blobs}
        if not isinstance(table["file"], str):
            raise DataError("'file' must be the path of a file", self._form())
        return self.read_file(Path(table["file"]), key)

    def read_file(self, path: Path, key: str = "") -> Record:
        """Return the only record of a file. Raises DataError if it has several, or cannot be read."""
        with self.files({blob: [path] for blob in self.blobs}) as records:
            some = list(islice(batches(records, 1), 2))
            if len(some) > 1:
                raise DataError(f"{path}: it has several records, but one is asked for", "give a file for each")
        if some[0].errors:
            raise some[0].errors[0]
        key = key or (some[0].keys[0] if records[self.blobs[0]].named else str(path))
        return key, {blob: _named(array[0], records[blob].classes) for blob, array in some[0].records.items()}

    @contextmanager
    def files(self, paths: Mapping[str, Sequence[Path]]) -> Generator[Mapping[str, FileRecords]]:
        """Open the records of files for each blob. Raises DataError if they cannot be read, or do not fit."""
        with ExitStack() as stack:
            yield {
                blob: stack.enter_context(
                    records_of(
                        self.file,
                        some,
                        blob,
                        self.shapes[blob],
                        self.divide,
                        from_option=self.from_option,
                        others=beside(paths, blob),
                    )
                )
                for blob, some in paths.items()
            }

    def _numbers(self, blob: str, given: Any) -> np.ndarray:
        """Return the record of a blob, in which null is what an empty cell of a table is: "" among texts."""
        import numpy as np

        try:
            record = np.array(given)
            texts = bool(self.file.fitted.get(blob, {}).get(CLASSES)) and _are_texts(record)
            if texts:
                record = np.where(record == np.array(None), "", record).astype(str)
            else:
                record = np.array(given, np.float64)
                store = reading_of(self.want.source_of(blob)).get("store")
                if isinstance(store, Store) and (number := store.missing_number()) is not None:
                    record[np.isnan(record)] = number
        except (OverflowError, TypeError, ValueError) as error:
            raise DataError("the record must hold numbers, in lists of equal lengths", self._form()) from error
        if not texts and self.divide != 1:
            record = divided(f"'{blob}'", record, self.divide)
        shape = self.shapes[blob]
        if shape is None or record.shape == shape:
            return record
        if record.size == prod(shape):
            return record.reshape(shape)
        if not self.from_option and self.want.source_of(blob).prepared_shape(blob, record.shape) == shape:
            return record
        whose = f"'{blob}' of the record" if len(self.blobs) > 1 else "the record"
        raise DataError(f"{whose} has the shape {record.shape}, but the net needs {shape}", self._form())

    def _by_blob(self, table: dict[str, Any]) -> dict[str, Any]:
        """Return a record in which lists stand for the columns of each blob.

        Raises:
            DataError: one of these columns is missing.
        """
        made = dict(table)
        for blob in self.blobs:
            columns = self._columns(blob)
            if blob not in made and any(column in made for column in columns):
                if missing := [column for column in columns if column not in made]:
                    raise DataError(f"the record has no {missing[0]!r}, which the net reads too", self._form())
                made[blob] = [made.pop(column) for column in columns]
        return made

    def _columns(self, blob: str) -> Sequence[str]:
        """Return the names of the columns of which the records of a blob are lists; () if there are none."""
        columns = self.file.fitted.get(blob, {}).get(COLUMNS, ())
        return () if self.shapes[blob] == () or {*columns} & {*self.blobs, "key", "file"} else columns

    def _form(self) -> str:
        table = ", ".join(self._form_of(blob) for blob in self.blobs)
        several = len(self.blobs) > 1
        forms = [*([] if several else ["[numbers]"]), f'{{{table}, "key": "a name"}}']
        forms += [f'{{"file": "{"records.h5" if several else "cat.jpg"}"}}'] if self.takes_paths else []
        return f"write {', '.join(forms[:-1])}{' or ' * (len(forms) > 1)}{forms[-1]}"

    def _form_of(self, blob: str) -> str:
        if 0 < len(columns := self._columns(blob)) <= FEW:
            return ", ".join(f'"{column}": number' for column in columns)
        texts = bool(self.file.fitted.get(blob, {}).get(CLASSES))
        return f'"{blob}": {"text" if texts else "[numbers]"}'

    def answer(self, records: Sequence[Record]) -> list[dict[str, Any]]:
        """Return the answers to at most `batch_size` records.

        From one blob {key, classes} or {key, values, unit}, from several {key, outputs}, or {key, error, remedy}.
        """
        try:
            return self._answer(records)
        except NacreError as error:
            if len(records) == 1:
                return [{"key": records[0][0], **failure(error)}]
        return [one for record in records for one in self.answer([record])]

    def _answer(self, records: Sequence[Record]) -> list[dict[str, Any]]:
        import numpy as np

        from ..net.given import numbered

        given = {blob: [arrays[blob] for _, arrays in records] for blob in self.blobs}
        if any(len({array.shape for array in arrays}) > 1 for arrays in given.values()):
            raise DataError("the records have different shapes", "give all records one shape")
        batch = {blob: np.stack(arrays) for blob, arrays in given.items()}
        classes: dict[str, Sequence[str]] = {}
        for blob, array in batch.items():
            if array.dtype.kind == "U":
                batch[blob], classes[blob] = numbered(blob, array, self.file.fitted[blob][CLASSES])
        computed = self.compute(batch, classes)
        whole = whole_records(computed.ready)
        return [
            {"key": key, **(one if known and _is_finite(one) else failure(self._not_finite(arrays)))}
            for (key, arrays), one, known in zip(records, computed.answers, whole, strict=True)
        ]

    def _not_finite(self, record: Mapping[str, np.ndarray]) -> DataError:
        """Return the error for a record that lacks a number, or whose numbers make the results infinite or NaN."""
        import numpy as np

        for blob, array in record.items():
            if array.dtype.kind == "f" and (places := np.flatnonzero(np.isnan(array))).size:
                columns, place = self.file.fitted.get(blob, {}).get(COLUMNS, ()), int(places[0])
                what = f"column {columns[place]!r}" if len(columns) == array.size else f"number {place} of '{blob}'"
                return DataError(f"{what} has no value", "give a number, or train with a source that fills gaps")
        return DataError("the net's results for this record are not finite", "look for numbers that are too large")

    def compute(self, records: Mapping[str, np.ndarray], classes: Mapping[str, Sequence[str]]) -> Computed:
        """Return what the net computes of at most `batch_size` records, whose numbers count these names of classes.

        Raises:
            NacreError: the records do not fit, or the net cannot be made.
        """
        from ..net.predict import prepared
        from ..net.team import run

        net = self._net or self.make({blob: array.shape[1:] for blob, array in records.items()})
        ready = prepared(net, self.want, records, classes)
        found = run(net, ready, self.want.outputs)
        return Computed(ready, found, self.answers.of(found, whole_records(ready)))

    def answer_batch(self, batch: Batch, classes: Mapping[str, Sequence[str]]) -> Computed:
        """Return the answers to the records of a batch that can be read and fit the net.

        Raises:
            DataError: none of several fits: not the records, but the net or the files are wrong. Or one does not, and
                the net carries something from record to record.
        """
        places, errors = batch.good, dict[int, NacreError](batch.errors)
        computed: list[Computed] = []
        if errors and self._net is not None and self._net.carries:
            raise next(iter(errors.values()))
        if places:
            try:
                computed.append(self.compute(batch.records, classes))
            except DataError:
                if self._net is None or self._net.carries:
                    raise
                for row, place in enumerate(places):
                    one = {blob: array[row : row + 1] for blob, array in batch.records.items()}
                    try:
                        computed.append(self.compute(one, classes))
                    except DataError as error:
                        errors[place] = error
                if len(places) > 1 and not computed:
                    raise
        good = [place for place in places if place not in errors]
        return _joined(computed, good, errors)

    def make(self, shapes: Mapping[str, tuple[int, ...]]) -> Net:
        """Make the net for records of these shapes."""
        from ..net.predict import check_outputs

        with ExitStack() as stack:
            made = net_for(self.file, self.saved, self.want, shapes, self.batch_size, self.backend, sure=self.sure)
            net = stack.enter_context(made)
            self.batch_size = check_outputs(net, self.want)
            self.answers.count({name: prod(net.memory.final[name].shape[1:]) for name in self.want.outputs})
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


def _joined(parts: Sequence[Computed], places: Sequence[int], errors: Mapping[int, NacreError]) -> Computed:
    import numpy as np

    def joined(several: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
        return {name: np.concatenate([one[name] for one in several]) for name in several[0]} if several else {}

    ready, found = joined([one.ready for one in parts]), joined([one.found for one in parts])
    return Computed(ready, found, [answer for one in parts for answer in one.answers], places, errors)


def _are_texts(record: np.ndarray) -> bool:
    """Return whether a record holds texts, or None in their place."""
    return record.dtype.kind == "U" or (
        record.dtype.kind == "O" and all(one is None or isinstance(one, str) for one in record.reshape(-1).tolist())
    )


def _is_finite(answer: Mapping[str, Any]) -> bool:
    """Return whether an answer has classes wherever it is of classes: there are none of results that are not finite."""
    outputs: Mapping[str, Mapping[str, Any]] = answer.get("outputs", {"": answer})
    return all(one.get("classes") != [] for one in outputs.values())


def _named(record: np.ndarray, classes: Sequence[str]) -> np.ndarray:
    """Return the names of classes in place of the numbers that count them in a file."""
    import numpy as np

    return np.array(classes)[record] if classes else record


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
