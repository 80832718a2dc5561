"""Writers that are killed: every record whose flush returned is there afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from nacre import Field, open_records
from nacre_data.stores.json_lines import JSONLines

KILLS = int(os.environ.get("NACRE_TRIALS", "1000"))

WRITER = """
import os
import signal
import sys
import warnings
from pathlib import Path

import numpy as np

from nacre import Field, make_component, Store

warnings.simplefilter("ignore")  # of a torn tail that is cut
store, path = make_component(Store, sys.argv[1]), Path(sys.argv[2])
writer = store.create(path, {"x": Field((300,), "float64")}, append=True)
begun = path.read_bytes().count(b"\\n") if sys.argv[1] == "JSONLines" else writer.count
print(begun, flush=True)
calls, last = 0, int(sys.argv[3])


def count(frame, event, argument):
    '''Be killed at call number `last` of what Python calls, such as a write, a flush or a commit.'''
    global calls
    calls += event == "c_call"
    if event == "c_call" and calls == last:
        os.kill(os.getpid(), signal.SIGKILL)


sys.setprofile(count)
for number in range(begun, 10_000_000):
    writer.append({"x": np.full((1, 300), number)})
    if number % 3 == 0:
        writer.flush()
        print(number, flush=True)
"""


@pytest.mark.parametrize("store", ["LMDB", "Shard", "JSONLines"])
@pytest.mark.parametrize("kills", [pytest.param(100, marks=pytest.mark.long), 3])
def test_what_was_flushed_is_there_after_a_kill(tmp_path: Path, store: str, kills: int) -> None:
    if store == "LMDB":
        pytest.importorskip("lmdb")
    path, random, last = tmp_path / "x", np.random.default_rng(0), -1
    for trial in range(kills):
        call = int(random.integers(1, 500)) if trial % 2 else 0  # else it is killed whenever that happens to be
        command = [sys.executable, "-c", WRITER, store, str(path), str(call)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            begun = int(process.stdout.readline())
            assert begun > last  # all that was flushed before is there
            if call:
                last = max([last, *map(int, process.stdout)])
            else:
                for _ in range(int(random.integers(1, 20))):
                    last = int(process.stdout.readline())
                process.kill()
        assert process.returncode == -9
    if store == "JSONLines":
        with warnings.catch_warnings(action="ignore"):  # of a torn line
            JSONLines().create(path, {"x": Field((300,), "float64")}, append=True).close(commit=True)
    how = {"type": store, "torn_tail": True} if store == "Shard" else store
    with open_records([path], store=how) as reader:
        assert reader.count is not None
        assert reader.count > last
        for start in range(0, reader.count, 256):
            numbers = np.arange(start, min(start + 256, reader.count))
            out = np.empty((len(numbers), 300))
            reader.read(numbers, {"x": out})
            np.testing.assert_array_equal(out, np.broadcast_to(numbers[:, np.newaxis], out.shape))


# New files, in place of old ones

REPLACER = """
import json
import os
import random
import signal
import sys
import warnings
from pathlib import Path

import numpy as np

from nacre import Field, Store, make_component, open_records

ROWS, PARTS = 40, 5
name, path, trials = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
store = make_component(Store, name)


def write(generation, last):
    '''Write a file; be killed at call number `last` of what Python calls, such as a write, a flush or a rename.'''
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "c_call"
        if event == "c_call" and calls == last:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    with store.create(path, {"x": Field((200,), "float64")}) as writer:
        for _ in range(PARTS):
            writer.append({"x": np.full((ROWS, 200), float(generation))})
    sys.setprofile(None)
    return calls


def found():
    '''Return the generation of the file after checking that it is whole.'''
    with open_records([path], ["x"], store=store) as reader:
        values = np.stack([row["x"] for row in reader.rows()])
    assert values.shape == (PARTS * ROWS, 200) and (values == values[0, 0]).all()
    return int(values[0, 0])


dice, old, killed, new = random.Random(0), 0, 0, 0
write(0, 0)
calls = write(0, 0)
for generation in range(1, trials + 1):
    last = dice.choice((dice.randint(1, calls), calls - dice.randrange(min(40, calls))))  # often near the end
    child = os.fork()
    if child == 0:
        write(generation, last)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0, status
    there = found()
    assert there in (old, generation), (there, old, generation)
    assert there == generation or os.WIFSIGNALED(status)
    killed, new, old = killed + os.WIFSIGNALED(status), new + (there == generation), there
write(trials + 1, 0)
assert found() == trials + 1
print(json.dumps([killed, new, sorted(os.listdir(path.parent))]))
"""
FILES = {"HDF5": "x.h5", "NPY": "x.npy", "NPZ": "x.npz", "Tar": "x.tar", "CSV": "x.csv", "JSONLines": "x.jsonl"}
FILES |= {"IDX": "x.idx", "Shard": "x.kvfile", "LMDB": "x.mdb"}


@pytest.mark.parametrize("store", FILES)
@pytest.mark.parametrize("trials", [pytest.param(max(6, KILLS // 10), marks=pytest.mark.long), 6])
def test_a_killed_writer_leaves_the_old_file_or_the_complete_new_one(tmp_path: Path, store: str, trials: int) -> None:
    if store == "LMDB":
        pytest.importorskip("lmdb")
    command = [sys.executable, "-c", REPLACER, store, str(tmp_path / FILES[store]), str(trials)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # it forks
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    killed, new, left = json.loads(done.stdout)
    assert killed > trials // 2
    if trials >= 50:
        assert 0 < new < killed
    assert left == [FILES[store]]
