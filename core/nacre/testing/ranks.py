"""What every rank of a group runs for `CommunicatorTests`: `python -m nacre.testing.ranks MODULE:CLASS FOLDER [WAY]`.

Each rank runs all checks in turn, and writes what came of each to a file in the folder. With WAY it ends in some way
that the others did not expect.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ContractError, RankError
from ..protocols.communicator import OPS, Communicator, reduce_into
from .outside import refusal

TYPES = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
)
SIZES = (0, 1, 7, 1000)
LARGE = {"float32": 300_007, "uint8": 2_100_001}
"""Arrays that are sent in several pieces, of some types."""
CLOSE = {"float16": 1e-2, "float32": 1e-5, "float64": 1e-13}
"""How far a sum may be from that in the order of the ranks, as a share of the largest number."""
WAYS = ("abort", "uncaught", "killed", "leaves")
TOLD = "the well has run dry"


def sizes(dtype: str) -> list[int]:
    """Return the sizes of arrays of a type that are tried."""
    return [*SIZES, *([LARGE[dtype]] if dtype in LARGE else [])]


@cache
def _drawn(rank: int, count: int, dtype: str) -> np.ndarray:
    random = np.random.default_rng([rank, count])
    if dtype == "bool":
        return random.integers(0, 2, count).astype(bool)
    if dtype.startswith("float"):
        return random.normal(size=count).astype(dtype)
    return random.integers(1 if dtype.startswith("u") else -5, 6, count).astype(dtype)


def numbers(rank: int, count: int, dtype: str) -> np.ndarray:
    """Return the numbers of a rank: small, of both signs where the type has them, and other ones for each rank."""
    return _drawn(rank, count, dtype).copy()


def expected(ranks: int, count: int, dtype: str, op: Any) -> np.ndarray:
    """Return the reduction in the order of the ranks."""
    every = [numbers(rank, count, dtype) for rank in range(ranks)]
    out = np.empty(count, dtype)
    reduce_into(every, op, out)
    return out


def reductions() -> Iterator[tuple[str, Any]]:
    """Yield the types, and the reductions that each has."""
    for dtype in TYPES:
        yield from ((dtype, op) for op in OPS if dtype != "bool" or op in ("min", "max"))


def check_equal(found: np.ndarray, wanted: np.ndarray, what: str) -> None:
    """Raise AssertionError unless all numbers are equal."""
    assert np.array_equal(found, wanted, equal_nan=found.dtype.kind == "f"), f"{what}: {found!r} instead of {wanted!r}"


def check_close(found: np.ndarray, wanted: np.ndarray, what: str) -> None:
    """Raise AssertionError unless all numbers are those that were wanted, but for the order of a sum."""
    if found.dtype.kind != "f":
        check_equal(found, wanted, what)
    elif len(found):
        off = np.abs(found.astype(np.float64) - wanted).max()
        assert off <= CLOSE[str(found.dtype)] * max(1.0, float(np.abs(wanted).max())), f"{what}: off by {off:.3g}"


def check_same_bits(comm: Communicator, array: np.ndarray, what: str) -> None:
    """Raise AssertionError unless all ranks have the same bits."""
    found = comm.gather(hashlib.sha256(array.tobytes()).hexdigest())
    assert len(set(found)) == 1, f"{what}: ranks have different bits: {found}"


def place(comm: Communicator) -> None:
    """Each rank has a number of its own."""
    assert comm.gather(comm.rank) == list(range(comm.size))
    assert f"rank {comm.rank} of {comm.size}" in repr(comm)
    assert comm.rank in comm.on_this_machine()


def allreduce(comm: Communicator) -> None:
    """Every reduction of every type and size, on all ranks alike."""
    for dtype, op in reductions():
        for count in sizes(dtype):
            what = f"allreduce {op} of {count} numbers of {dtype}"
            array = numbers(comm.rank, count, dtype)
            comm.allreduce(array, op)
            check_close(array, expected(comm.size, count, dtype, op), what)
    array = numbers(comm.rank, 300_007, "float32")
    comm.allreduce(array)
    check_same_bits(comm, array, "allreduce")
    again = numbers(comm.rank, 300_007, "float32").reshape(1, -1)
    comm.allreduce(again)
    check_equal(again.reshape(-1), array, "allreduce for the second time, of another shape")


def ordered(comm: Communicator) -> None:
    """An ordered reduction has the bits of the sum in the order of the ranks."""
    for dtype in ("float32", "float64"):
        for count in sizes(dtype):
            array = numbers(comm.rank, count, dtype)
            comm.allreduce(array, ordered=True)
            check_equal(array, expected(comm.size, count, dtype, "sum"), f"ordered sum of {count} of {dtype}")


def not_numbers(comm: Communicator) -> None:
    """A minimum, a maximum and a sum with a NaN are NaN, wherever it comes from."""
    for rank in range(comm.size):
        for op in OPS:
            array = np.array([np.nan if comm.rank == rank else 1.0, np.inf, comm.rank])
            comm.allreduce(array, op)
            assert np.isnan(array[0]), f"{op} with a NaN of rank {rank} is {array[0]}"
            assert array[1] == np.inf


def reduce_scatter(comm: Communicator) -> None:
    """Each rank gets its part of every reduction."""
    for dtype, op in reductions():
        for count in sizes(dtype):
            array = numbers(comm.rank, count, dtype)
            part = comm.part(count)
            out = np.zeros(part.stop - part.start, dtype)
            comm.reduce_scatter(array, out, op)
            check_close(out, expected(comm.size, count, dtype, op)[part], f"reduce_scatter {op} of {count} of {dtype}")


def allgather(comm: Communicator) -> None:
    """Arrays of one size, and the parts of sizes that divide nothing, come together in the order of the ranks."""
    for dtype in TYPES:
        for count in sizes(dtype):
            out = np.zeros(count, dtype)
            comm.allgather(numbers(9, count, dtype)[comm.part(count)], out)
            check_equal(out, numbers(9, count, dtype), f"allgather of {count} of {dtype}")
        every = np.zeros((comm.size, 3, 5), dtype)
        comm.allgather(numbers(comm.rank, 15, dtype).reshape(3, 5), every)
        for rank, row in enumerate(every):
            check_equal(row.reshape(-1), numbers(rank, 15, dtype), f"allgather, row {rank} of {dtype}")


def bcast(comm: Communicator) -> None:
    """Every rank can be the one whose array the others get."""
    for root in range(comm.size):
        for dtype in TYPES:
            for count in sizes(dtype):
                array = numbers(comm.rank, count, dtype)
                comm.bcast(array, root)
                check_equal(array, numbers(root, count, dtype), f"bcast of {count} of {dtype} from rank {root}")


def messages(comm: Communicator) -> None:
    """Arrays of every type and size go round, also while all send at once, and may change when they have gone."""
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for dtype in TYPES:
        for count in sizes(dtype):
            array, out = numbers(comm.rank, count, dtype), np.zeros(count, dtype)
            sent = comm.isend(array, after, 5)
            if sent.done():
                array[...] = 0
            comm.recv(out, before, 5)
            sent.wait()
            check_equal(out, numbers(before, count, dtype), f"{count} of {dtype}")


def tags(comm: Communicator) -> None:
    """Messages with one tag come in their order; those with other tags may be received before them."""
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    sent = [comm.isend(numbers(one, 40_000, "float64"), after, tag) for one, tag in enumerate((1, 2, 1, 3, 2))]
    found = {one: np.zeros(40_000) for one in range(5)}
    waited = [comm.irecv(found[one], before, tag) for one, tag in ((3, 3), (1, 2), (0, 1), (4, 2), (2, 1))]
    for request in [*reversed(waited), *sent]:
        request.wait()
        assert request.done()
    for one, array in found.items():
        check_equal(array, numbers(one, 40_000, "float64"), f"message {one}")


def not_kept(comm: Communicator) -> None:
    """A message arrives whose request and array the sender has not kept."""
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for one in range(5):
        comm.isend(np.full(300_000, one, np.int32), after, 4)
    others = [np.full(300_000, -1, np.int32) for _ in range(10)]  # in the memory of those that are gone
    comm.barrier()
    for one in range(5):
        comm.recv(others[one], before, 4)
        check_equal(others[one], np.full(300_000, one, np.int32), f"message {one}")


def to_all(comm: Communicator) -> None:
    """Every rank sends to every other one, and to itself, while all of them meet."""
    sent = [comm.isend(numbers(comm.rank, 100_000, "int32"), to) for to in range(comm.size)]
    comm.barrier()
    for source in range(comm.size):
        out = np.zeros(100_000, np.int32)
        comm.recv(out, source)
        check_equal(out, numbers(source, 100_000, "int32"), f"from rank {source}")
    for request in sent:
        request.wait()


def any_of_several(comm: Communicator) -> None:
    """Whoever waits for any of several messages gets those that have come, while others are still to come."""
    tokens = [np.full(3, -1) for _ in range(comm.size)]
    waited = {source: comm.irecv(token, source, 8) for source, token in enumerate(tokens)}
    for source in range(comm.size):  # one after the other sends, and only when the one before has been received by all
        sent = [comm.isend(np.full(3, source), to, 8) for to in range(comm.size if source == comm.rank else 0)]
        numbers = list(waited)
        found = numbers[comm.wait_any([waited[one] for one in numbers])]
        waited.pop(found).wait()
        assert found == source, f"the message of rank {found} came before that of rank {source} was sent"
        check_equal(tokens[source], np.full(3, source), f"from rank {source}")
        for request in sent:
            request.wait()
        comm.barrier()
    assert refusal(ContractError, lambda: comm.wait_any([])), "waiting for none of no messages is not refused"


def wrong_size(comm: Communicator) -> None:
    """A message of another size than is expected is an error of its receiver."""
    for count in (3, 5):
        sent = comm.isend(np.arange(count), comm.rank, 7)
        told = refusal(RankError, lambda: comm.recv(np.zeros(4, np.int64), comm.rank, 7))
        assert "32" in told, f"a message of {count} numbers is taken for one of 4: {told}"
        sent.wait()


def split(comm: Communicator) -> None:
    """Ranks of one colour have a communicator of their own, in the order of the keys; those of None have none."""
    half = comm.split(comm.rank % 2, -comm.rank)
    assert half is not None
    ours = sorted((rank for rank in range(comm.size) if rank % 2 == comm.rank % 2), reverse=True)
    assert half.gather(comm.rank) == ours
    assert (half.size, half.rank) == (len(ours), ours.index(comm.rank))
    total = np.array([comm.rank])
    half.allreduce(total)
    assert total[0] == sum(ours)
    one = comm.split(None if comm.rank else 3)
    assert (one is None) == bool(comm.rank)
    if one is not None:
        assert one.size == 1
    sent = [comm.isend(np.array([1.0]), comm.rank, 2), half.isend(np.array([2.0]), half.rank, 2)]
    out = np.zeros(1)
    half.recv(out, half.rank, 2)
    assert out[0] == 2, "messages of two communicators are mixed up"
    comm.recv(out, comm.rank, 2)
    for request in sent:
        request.wait()


def closing(comm: Communicator) -> None:
    """Communicators of splits are made and closed again and again; what they share lives as long as it is used."""
    kept: list[np.ndarray] = []
    for number in range(20):
        half = comm.split(comm.rank % 2)
        assert half is not None
        array = half.shared_array((half.size, 100), "int64")
        assert not array.any(), "a shared array is not 0 at first"
        half.barrier()
        array[half.rank] = number
        half.barrier()
        kept += [array] if number % 7 == 0 and half.rank == half.size - 1 else []
        del array
        half.close()
        half.close()
    assert [int(array[-1, -1]) for array in kept] == [0, 7, 14][: len(kept)], (
        "closing a communicator changes a shared array"
    )


def shared(comm: Communicator) -> None:
    """What a rank writes into a shared array can be read by all others behind a barrier."""
    array, other = comm.shared_array((comm.size, 1000), "float32"), comm.shared_array((3,), "int64")
    assert array.shape == (comm.size, 1000) and str(array.dtype) == "float32" and not array.any()
    comm.barrier()
    array[comm.rank] = comm.rank + 1
    if comm.rank == comm.size - 1:
        other[...] = 7
    comm.barrier()
    check_equal(array[:, -1], np.arange(1, comm.size + 1, dtype=np.float32), "shared array")
    check_equal(other, np.full(3, 7), "second shared array")
    comm.barrier()


def values(comm: Communicator) -> None:
    """What JSON can hold comes together, of any length, and goes from one to all."""
    value = {"rank": comm.rank, "text": "ü" * 3000 * comm.rank, "none": None}
    found = comm.gather(value)
    assert [one["rank"] for one in found] == list(range(comm.size)) and found[comm.rank] == value
    for root in range(comm.size):
        assert comm.share(value, root)["rank"] == root


def refused(comm: Communicator) -> None:
    """Arrays that cannot be sent, unknown reductions and ranks are refused, before anything is sent."""
    good = np.zeros(4)
    read_only = np.zeros(4)
    read_only.flags.writeable = False
    anything: Any = comm
    calls: dict[str, Callable[[], object]] = {
        "a list": lambda: anything.allreduce([1.0]),
        "objects": lambda: comm.allreduce(np.array([None])),
        "complex numbers": lambda: comm.bcast(np.zeros(3, complex)),
        "every second number": lambda: comm.allreduce(np.zeros(8)[::2]),
        "a read-only array": lambda: comm.allreduce(read_only),
        "an unknown reduction": lambda: anything.allreduce(good, "mean"),
        "a sum of booleans": lambda: comm.allreduce(np.zeros(3, bool)),
        "a part of another size": lambda: comm.allgather(np.zeros(5), np.zeros(3 * comm.size)),
        "a part of another type": lambda: comm.allgather(np.zeros(3, np.float32), np.zeros(3 * comm.size)),
        "another part of a reduction": lambda: comm.reduce_scatter(good, np.zeros(9)),
        "a rank that is none": lambda: comm.isend(good, comm.size),
        "a rank below 0": lambda: comm.irecv(good, -1),
        "a root that is none": lambda: comm.bcast(good, comm.size),
    }
    for what, call in calls.items():
        assert refusal(ContractError, call), f"{what} is not refused"


CHECKS = (
    *(
        place,
        allreduce,
        ordered,
        not_numbers,
        reduce_scatter,
        allgather,
        bcast,
        messages,
        tags,
        not_kept,
        to_all,
        any_of_several,
        wrong_size,
    ),
    *(split, closing, shared, values, refused),
)


def fail(comm: Communicator, way: str) -> None:
    """Let the last rank end in some way, while the others wait for it."""
    comm.barrier()
    if comm.rank == comm.size - 1:
        if way == "abort":
            comm.abort(TOLD)
        if way == "uncaught":
            raise ValueError(TOLD)
        if way == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        sys.exit(TOLD)  # before `close`
    comm.barrier()
    comm.allreduce(np.zeros(10))


def main() -> None:
    """Run the checks as one rank."""
    module, _, name = sys.argv[1].partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    comm: Communicator = found.connect()
    if len(sys.argv) > 3:
        fail(comm, sys.argv[3])
        return
    outcomes: dict[str, str] = {}
    file = Path(sys.argv[2]) / f"rank{comm.rank}.json"
    check = place
    try:
        for check in CHECKS:
            outcomes[check.__name__] = f"rank {comm.rank} of {comm.size} has not finished it"
            file.write_text(json.dumps(outcomes))
            check(comm)
            comm.barrier()
            outcomes[check.__name__] = ""
    except BaseException:
        outcomes[check.__name__] = f"rank {comm.rank} of {comm.size}: {traceback.format_exc()}"
        file.write_text(json.dumps(outcomes))
        raise
    file.write_text(json.dumps(outcomes))
    comm.close()
    comm.close()


if __name__ == "__main__":
    main()
