"""Reads mutants of formats, within limits, as the lines of standard input say: ["FORMAT", FIRST, COUNT, "FOLDER"].

For each line there is a fork, which has imported everything. `FOLDER/outcomes.json` says what became of the mutants,
and the answer is how the fork has ended: below 0, it has met a mutant that ends it, the last number in `FOLDER/number`.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from mutant_formats import FORMATS, Format
from nacre import NacreError, Reader, Store, blocks, make_component, open_records
from nacre.protocols.data_store import empty_rows
from nacre_data.codecs.picture import MAX_PIXELS

MIB = 1 << 20
SECONDS = 1.0
LONGEST = 10.0
"""Seconds of work after which the process is ended: it might go on for ever."""
SPARE = 16 * MIB
"""That the interpreter itself takes from the system at a time."""
opened: list[str] = []


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str | bytes):
        opened.append(os.fsdecode(arguments[0]))


def read_all(format: Format, path: Path) -> list[dict[str, bytes]]:
    """Return the records of a file after checking them; without their bytes if they need not be known."""
    with open_records([path], store=make_component(Store, format.store)) as reader:
        check_blocks(format, reader)
        found: list[dict[str, bytes]] = []
        for number, row in enumerate(reader.rows()):
            assert reader.key(number), f"record {number} has no key"
            for name, value in row.items():
                check(format, name, np.asarray(value), reader.fields[name])
            found.append({name: np.asarray(value).tobytes() for name, value in row.items()} if format.own else {})
        if reader.count is not None:
            assert reader.count == len(found), f"{reader.count} records, but {len(found)} rows"
            numbers = np.arange(reader.count)[::-7]
            reader.read(numbers, empty_rows(reader.fields, len(numbers)))
        return found


def check_blocks(format: Format, reader: Reader) -> None:
    for _, some in blocks(reader):
        for name, values in some.items():
            for value in values:
                check(format, name, np.asarray(value), reader.fields[name])


def check(format: Format, name: str, value: np.ndarray, field: Any) -> None:
    assert value.dtype == np.dtype(field.dtype), f"'{name}' is of type {value.dtype}, not {field.dtype}"
    assert field.shape in (None, value.shape), f"'{name}' has the shape {value.shape}, not {field.shape}"
    assert value.size, f"'{name}' is empty"
    if format.classes and field.classes:
        assert 0 <= int(value) < len(field.classes), f"'{name}' is {value}"


def tried(format: Format, path: Path, size: int) -> tuple[str, Any]:
    """Return what became of a file: "read" and its records, "told" and the message, or "fault" and what is wrong."""
    room = max(64 * MIB, 20 * size) + 16 * MAX_PIXELS * format.pixels
    with limits(room + SPARE):
        start = time.process_time()
        result, lacked = read_once(format, path)
        taken = time.process_time() - start
    if lacked and (used := memory_used(format, path)) > room + SPARE:
        return "fault", f"it takes {used:,} bytes: {result}"
    if taken > SECONDS + 5 * format.pixels:
        return "fault", f"it takes {taken:.1f} s: {result}"
    known = (str(path.parent), sys.prefix, sys.base_prefix, "/proc", tempfile.gettempdir())
    files = [one for one in opened if ".py" not in one and not one.startswith("<")]  # lines of code that are shown
    if others := [one for one in files if not os.path.realpath(one).startswith(known)]:
        return "fault", f"it opens {others}"
    return result


def read_once(format: Format, path: Path) -> tuple[tuple[str, Any], bool]:
    """Return what became of a file, and whether the system or Python had not enough memory for something."""
    opened.clear()
    try:
        return ("read", read_all(format, path)), False
    except NacreError as error:
        begins = str(error).startswith("/" if format.store == "Pictures" else str(path.parent))  # of any picture
        what = ("told", str(error)) if begins else ("fault", f"the message does not begin with the file: {error}")
        return what, lacks_memory(error)
    except BaseException as error:
        return ("fault", traceback.format_exc(limit=-4)), lacks_memory(error)


def lacks_memory(error: BaseException | None) -> bool:
    """Return whether memory was refused. Python's parser also says so of deep text, and HDF5 asks before it looks."""
    while error is not None:
        if isinstance(error, MemoryError) or "allocation failed" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def limits(room: int) -> Generator[None]:
    """Refuse more memory than `room` in the block; end this process if it works too long."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (used + room, hard))
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def memory_used(format: Format, path: Path) -> int:
    """Return how many bytes reading takes if it gets as many as it wants: what Python asks for, or what is filled."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins again
    before = resident("VmRSS")
    tracemalloc.start()
    with limits(32 << 30):
        read_once(format, path)
    asked = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return max(asked, resident("VmHWM") - before)


def resident(what: str) -> int:
    found = re.search(rf"{what}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) * 1024


def write(folder: Path, files: Mapping[str, bytes]) -> int:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return sum(map(len, files.values()))


def read_mutants(name: str, first: int, count: int, where: str) -> None:
    format, folder = FORMATS[name], Path(where).resolve()
    files, path = format.make(), folder / format.path
    write(folder, files)
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", "(?s).*, which float64 makes ", UserWarning)  # for the user, and right
    sys.addaudithook(watch)
    whole = read_all(format, path)
    assert whole
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    sys.unraisablehook = lambda what: faults.append(f"{number}: {what.exc_value!r} in {what.object!r}")
    progress = os.open(folder / "number", os.O_WRONLY | os.O_CREAT)
    descriptors = len(os.listdir("/proc/self/fd"))
    for number in range(first, first + count):
        os.pwrite(progress, b"%-20d" % number, 0)
        mutant = format.mutant(name, number, files)
        write(folder, {format.target: mutant[format.target]})
        kind, what = tried(format, path, sum(map(len, mutant.values())))
        if kind == "read" and format.own and any(record not in whole for record in what):
            kind, what = "fault", "a record that nobody wrote is read"
        outcomes[kind] += 1
        outcomes["past"] += kind == "read" or (kind == "told" and not re.search(format.header, what.splitlines()[0]))
        if kind == "fault":
            faults.append(f"{number}: {what}")
        if len(os.listdir("/proc/self/fd")) != descriptors:
            faults.append(f"{number}: a file stays open")
            descriptors = len(os.listdir("/proc/self/fd"))
        if os.environ.get("SHOW"):
            print(number, kind, what if kind != "read" else "", file=sys.stderr)
        if len(faults) > 20:
            break
    (folder / "outcomes.json").write_text(json.dumps({"outcomes": outcomes, "faults": faults}))


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                read_mutants(*json.loads(line))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
