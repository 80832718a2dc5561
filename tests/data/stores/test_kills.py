"""Writers that are killed: every record whose flush returned is there afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nacre import open_records

WRITER = """
import sys
import warnings
from pathlib import Path

import numpy as np

from nacre import Field, make_component, Store

warnings.simplefilter("ignore")  # of a torn tail that is cut
store, path = make_component(Store, sys.argv[1]), Path(sys.argv[2])
writer = store.create(path, {"x": Field((300,), "float64")}, append=True)
print(writer.count, flush=True)
for number in range(writer.count, 10_000_000):
    writer.append({"x": np.full((1, 300), number)})
    if number % 3 == 0:
        writer.flush()
        print(number, flush=True)
"""


@pytest.mark.parametrize("store", ["LMDB", "Shard"])
@pytest.mark.parametrize("kills", [pytest.param(100, marks=pytest.mark.long), 3])
def test_what_was_flushed_is_there_after_a_kill(tmp_path: Path, store: str, kills: int) -> None:
    if store == "LMDB":
        pytest.importorskip("lmdb")
    path, random, last = tmp_path / "x", np.random.default_rng(0), -1
    for _ in range(kills):
        command = [sys.executable, "-c", WRITER, store, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            begun = int(process.stdout.readline())
            assert begun > last  # all that was flushed before is there
            for _ in range(int(random.integers(1, 20))):
                last = int(process.stdout.readline())
            process.kill()
        assert process.returncode == -9
    how = {"type": store, "torn_tail": True} if store == "Shard" else store
    with open_records([path], store=how) as reader:
        assert reader.count is not None
        assert reader.count > last
        for start in range(0, reader.count, 256):
            numbers = np.arange(start, min(start + 256, reader.count))
            out = np.empty((len(numbers), 300))
            reader.read(numbers, {"x": out})
            np.testing.assert_array_equal(out, np.broadcast_to(numbers[:, np.newaxis], out.shape))
