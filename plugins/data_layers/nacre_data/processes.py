"""Reading in other processes: what decodes records may crash there, and takes no time of Python here.

A process is `python -m nacre_data.reader`: neither a fork nor `multiprocessing`, so that threads, notebooks and scripts
without a main guard do not matter. It opens the same files by itself, is asked through a pipe, and puts records into
memory that both share. It ends when the pipe does, whatever ends this process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import nacre
from nacre import (
    Component,
    ConfigError,
    DataError,
    Field,
    NacreError,
    PluginError,
    Reader,
    make_component,
    registry,
    store_of,
    table_of,
)
from nacre.files import anonymous_file

from .shared_rows import BESIDES, DRAWS, NUMBERS, SharedRows, bytes_of

PIECE = 1 << 24
"""Bytes of records that a process puts into memory at a time, unless a single record has more."""
BLOCK = 256
"""Records that are read at a time where they have no numbers."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
BY_FILE = "nacre_file_"
"""How the names of modules begin that are plugins by `--plugin FILE`."""
REMEDIES = {
    "SIGBUS": "was the file cut while it was read? Write it again",
    "SIGKILL": "was it killed by hand, or for lack of memory? Fewer processes need less of it",
}
DAMAGED = 'the file may be damaged, or what reads it has a mistake; on_error = "skip" leaves out such records'


class ChildTraceback(Exception):
    """The traceback of an error in another process: the cause of the error here."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class _EndedError(Exception):
    """A process has ended by itself, or was killed, as `how` says. It never leaves this module.

    `numbers` are those of the records that it was to read, and `key` is that of the first.
    """

    def __init__(self, how: str, remedy: str, key: str) -> None:
        super().__init__(how)
        self.how = how
        self.key = key
        self.remedy = remedy
        self.numbers = np.empty(0, np.int64)
        self.draws: np.ndarray | None = None

    def at(self, where: str) -> DataError:
        """Return the error that people see."""
        return DataError(f"{where}: the process that reads this {self.how}", self.remedy)


class ProcessReader(Reader):
    """The records of files that `processes` other processes read; those without numbers come through one of them.

    The numbers of each `read` are cut into as many runs, so the order is always that of the numbers. After an error,
    or `pause`, the next request starts new processes.

    Args:
        opener: the function that opens the files in a process, of `reader.OPENERS`; `options` are its arguments.
        narrow: whether the record is searched for at which a process ended, so that the error names it.

    Raises:
        DataError: the files cannot be read; or a process was killed, or ended by itself.
        ConfigError: another process cannot make the same store or codec.
    """

    def __init__(self, opener: str, options: Mapping[str, Any], processes: int, *, narrow: bool = True) -> None:
        if sys.platform == "win32":
            raise ConfigError("Windows cannot hand memory on to them", "set processes to 0")
        registered: list[tuple[str, str, str]] = []
        for path in options["paths"]:
            _described(store_of(path, options["store"]), registered)
        self.paths = [str(path) for path in options["paths"]]
        here = registry()
        files = [plugin.provenance.file for plugin in here.plugins() if plugin.provenance.module.startswith(BY_FILE)]
        described = {name: _described(value, registered) for name, value in options.items()}
        job = {"open": opener, "options": {**described, "paths": self.paths}, "plugins": files}
        job |= {"pins": here.followed_pins, "registered": registered}
        self.narrow = narrow
        self.children = _Children(job, processes)
        self._end = weakref.finalize(self, self.children.end)
        self.description: dict[str, Any] = {}
        try:
            self._start(1)
        except BaseException:
            self._end()
            raise
        self.count, self.named = self.description["count"], self.description["named"]
        self.file_starts = self.description["file_starts"]
        self.fields = {
            name: Field(None if shape is None else tuple(shape), dtype, tuple(classes), codec, *map(tuple, columns))
            for name, (shape, dtype, classes, codec, *columns) in self.description["fields"].items()
        }

    def _start(self, number: int) -> Sequence[_Child]:
        """Return the first processes, all of them with open files."""
        self.children.stop_busy()  # whoever asked them was interrupted
        some = self.children.every[:number]
        new = [child for child in some if child.process is None]
        for child in new:  # at the same time
            self.children.start(child)
        for child in new:
            try:
                self._check(self._answer(child))
            except _EndedError as ended:
                raise ended.at(", ".join(self.paths)) from None
            except BaseException:
                child.end()
                raise
        return some

    def _check(self, description: dict[str, Any]) -> None:
        """Raise DataError unless a process has found what the first one did."""
        self.description = self.description or description
        if description != self.description:
            message = f"{self.paths[0]}: another process found other fields, or another number of records"
            raise DataError(message, "do not change files while they are read")

    def _answer(self, child: _Child) -> dict[str, Any]:
        """Return the answer of a process to the last request, or raise its error."""
        answer = child.answer()
        for message in answer.pop("warnings"):
            warnings.warn(message, stacklevel=3)
        if "error" in answer:
            raise self._error(**answer["error"])
        return answer

    def _error(self, kind: str, message: str, remedy: str, trace: str) -> NacreError:
        if kind:
            error: NacreError = getattr(nacre, kind)(message, remedy)
        else:
            where = f"{', '.join(self.paths)}: they cannot be read"
            error = PluginError(f"{where}: {message}", "this is a mistake in the plugin that reads such files")
        error.__cause__ = ChildTraceback(trace)
        return error

    def read(self, numbers: np.ndarray, out: Mapping[str, Any], draws: np.ndarray | None = None) -> None:
        """Write records into `out`; `draws` are for readers that take what is drawn for each record too."""
        size = sum(bytes_of(self.fields[name]) for name in out)
        together = len(self.children.every) * max(1, PIECE // max(1, size))
        try:
            for first in range(0, len(numbers), together):
                part = slice(first, first + together)
                rows = {name: values[part] for name, values in out.items()}
                self._read(numbers[part], rows, None if draws is None else draws[part])
        except _EndedError as ended:
            raise self._located(ended, list(out)) from ended.__cause__

    def _read(self, numbers: np.ndarray, out: Mapping[str, np.ndarray], draws: np.ndarray | None) -> None:
        """Let each process read a run of the records."""
        children = self._start(min(len(self.children.every), len(numbers)))
        runs = [
            slice(*ends) for ends in pairwise(len(numbers) * end // len(children) for end in range(len(children) + 1))
        ]
        given = {NUMBERS: numbers} if draws is None else {NUMBERS: numbers, DRAWS: draws}
        fields = {name: BESIDES[name] for name in given} | {name: self.fields[name] for name in out}
        shared: list[dict[str, np.ndarray]] = []
        for child, run in zip(children, runs, strict=True):
            shared.append(child.shared.arrays(fields, run.stop - run.start))
            for name, values in given.items():
                shared[-1][name][...] = values[run]
            child.ask({"read": run.stop - run.start, "names": list(out), "draws": draws is not None})
        errors: list[NacreError | _EndedError] = []
        for child, run, arrays in zip(children, runs, shared, strict=True):
            try:
                self._answer(child)
            except NacreError as error:
                errors.append(error)
            except _EndedError as ended:
                ended.numbers, ended.draws = numbers[run], None if draws is None else draws[run]
                errors.append(ended)
            else:
                for name, values in out.items():
                    values[run] = arrays[name]
        if errors:
            raise errors[0]

    def _located(self, ended: _EndedError, names: Sequence[str]) -> DataError:
        """Return the error for a process that ended, with the record at which it did if reading again shows that."""
        numbers, draws = ended.numbers, ended.draws
        count = len(numbers)
        places = {name: np.empty((1, *(self.fields[name].shape or ())), self.fields[name].dtype) for name in names}
        try:
            for row in range(count if self.narrow and count > 1 else 0):
                one = slice(row, row + 1)
                self._read(numbers[one], places, None if draws is None else draws[one])
        except _EndedError as again:
            ended, count = again, 1
        except NacreError as error:  # it is no longer what it was, such as a file that was cut
            ended.__cause__ = error
        alone = len(self.paths) == 1 and ended.key != Path(self.paths[0]).name
        where = f"{self.paths[0]}: {ended.key}" if alone else ended.key
        return ended.at(where if count == 1 else f"one of {count} records from {where} on")

    def rows(self, start: int = 0) -> Iterator[Mapping[str, Any]]:
        if self.count is not None:
            yield from super().rows(start)
            return
        child = self.children.every[0]
        if child.begun:
            child.end()
        self._start(1)
        child.begun = True
        fields = {name: field for name, field in self.fields.items() if field.shape is not None and not field.codec}
        size = max(1, min(BLOCK, PIECE // max(1, sum(map(bytes_of, fields.values())))))
        arrays = child.shared.arrays(fields, size)
        child.ask({"rows": size, "names": list(fields), "start": start})
        more = True
        while more:
            try:
                answer = self._answer(child)
            except _EndedError as ended:
                raise ended.at(f"{', '.join(self.paths)}: record {start}, or one of the next {size}") from None
            count, more = answer["count"], answer["more"]
            block = {name: array[:count].copy() for name, array in arrays.items()}
            if more:  # while these are used
                child.ask({"rows": size, "names": list(fields), "start": None})
            start += count
            for row in range(count):
                yield {name: values[row] for name, values in block.items()}

    def key(self, number: int) -> str:
        if self.count is None:
            return super().key(number)
        (child,) = self._start(1)
        child.ask({"key": number})
        try:
            return self._answer(child)["key"]
        except _EndedError as ended:
            raise ended.at(f"{', '.join(self.paths)}: record {number}") from None

    def pause(self) -> None:
        """End the processes until something else is read."""
        for child in self.children.every:
            child.end()

    def interrupt(self) -> None:
        """End the processes for good, also while another thread waits for them, which gets an error."""
        self.children.kill()

    def close(self) -> None:
        self._end()


class _Children:
    """The processes of a reader; it is not referred to from here, so that it can be freed."""

    def __init__(self, job: Mapping[str, Any], number: int) -> None:
        self.job = job
        self.closed = False
        self.folder = str(Path.cwd())
        entries = [entry or self.folder for entry in sys.path if isinstance(entry, str)]  # Python ignores others too
        path = os.pathsep.join(entries)
        self.environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": path}
        self.every: list[_Child] = []
        try:
            for _ in range(number):
                self.every.append(_Child())
        except OSError as error:
            self.end()
            where = self.job["options"]["paths"][0]
            raise DataError(f"{where}: no memory for {number} processes to read it: {error}", "use fewer") from error

    def start(self, child: _Child) -> None:
        """Start a process and let it open the files; its answer describes them."""
        where = self.job["options"]["paths"][0]
        try:
            if not self.closed:
                child.start(self.folder, self.environment)
        except OSError as error:
            raise DataError(f"{where}: no process can be started to read it: {error}", "set processes to 0") from error
        if self.closed:  # perhaps only now, by another thread
            child.end()
            raise DataError(f"{where}: it was closed while it was read")
        child.ask(self.job)

    def stop_busy(self) -> None:
        """End the processes that have not answered."""
        for child in self.every:
            if child.busy:
                child.end()

    def kill(self) -> None:
        """Kill all processes, also while another thread uses them."""
        self.closed = True
        for child in self.every:
            if (process := child.process) is not None:
                process.kill()

    def end(self) -> None:
        """End all processes, and free the memory."""
        self.kill()
        for child in self.every:
            child.end()
            child.free()


class _Child:
    """A process, and the memory into which it puts records."""

    def __init__(self) -> None:
        self.descriptor = anonymous_file("nacre records")
        self.shared = SharedRows(self.descriptor)
        self.process: subprocess.Popen[bytes] | None = None
        self.busy = False
        self.begun = False  # to send records one after the other
        self.key = ""  # of the first record that it reads

    def start(self, folder: str, environment: Mapping[str, str]) -> None:
        """Start the process. What is typed at a terminal, such as Ctrl-C, does not reach it."""
        self.begun = False
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "nacre_data.reader", str(self.descriptor)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env=environment,
            pass_fds=[self.descriptor],
            start_new_session=True,
        )

    def ask(self, request: Mapping[str, Any]) -> None:
        """Send a request."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.busy = True
        with suppress(BrokenPipeError):  # `answer` tells that it has ended
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Return the answer; raise _EndedError if there is none, because the process has ended."""
        assert self.process is not None
        assert self.process.stdout is not None
        while (line := self.process.stdout.readline()).endswith(b"\n"):
            answer = json.loads(line)
            if "at" not in answer:
                self.busy = False
                return answer
            self.key = answer["at"]
        code = self.end()
        if code >= 0:
            raise _EndedError(f"ended with exit code {code}", DAMAGED, self.key)
        name = signal.Signals(-code).name
        raise _EndedError(f"was ended by {name}", REMEDIES.get(name, DAMAGED), self.key)

    def end(self) -> int:
        """Kill the process, unless it has ended, and return its exit code."""
        process, self.process, self.busy = self.process, None, False
        if process is None:
            return 0
        process.kill()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # a request that it did not read
                pipe.close()
        return process.wait()

    def free(self) -> None:
        """Release the memory."""
        self.shared.memory = None
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def _is_importable(cls: type) -> bool:
    """Return whether another process finds a class by its module and its name there."""
    found: Any = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is cls


def _described(value: Any, registered: list[tuple[str, str, str]]) -> Any:
    """Return an option as JSON holds it: a component becomes its table, by which another process can make it.

    If its class was registered by hand, how it is found goes to `registered`: kind, name, and module:Class.

    Raises:
        ConfigError: no table makes this component.
    """
    if not isinstance(value, Component):
        return value
    kind, table = value.nacre_kind, table_of(value)
    known = registry().offers_of(type(value), kind)
    if not any(offer.provenance.version or offer.provenance.module.startswith(BY_FILE) for offer in known):
        cls = type(value)
        if not known or cls.__module__ == "__main__" or not _is_importable(cls):
            raise ConfigError(
                f"the {kind} {cls.__name__} exists only in this process, so that no other can read with it",
                "put it into a module, or load its file with `nacre.registry().load_file`; or set processes to 0",
            )
        registered.append((kind, known[0].name, f"{cls.__module__}:{cls.__qualname__}"))
    try:
        make_component(Component.kinds[kind], table)
    except (ConfigError, ValueError) as error:
        message = f"the {kind} {table} cannot be made again in another process: {error}"
        raise ConfigError(message, "set processes to 0") from error
    return table
