"""BackendTests pass what keeps its promises, and find what breaks one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import prod
from typing import Any, ClassVar

import numpy as np
import pytest

from nacre import HostFunctions, HostMemory, registry
from nacre.protocols.backend import loop
from nacre.testing import BackendTests as BackendSuite
from run_suite import besides, failures, one_or_all

Numpy: Any = registry().open("backend", "numpy")
BROKEN: dict[str, tuple[type, str, str]] = {}


def broken(check: str, words: str) -> Callable[[type], type]:
    """Note a wrong backend, the check that must find it, and what that says."""

    def note(cls: type) -> type:
        BROKEN[cls.__name__] = cls, f"test_{check}", words
        return cls

    return note


class Plain(HostMemory):
    """NumPy arrays."""

    name = "plain"
    lineage = ("plain",)


class Tiles(Numpy):
    """Own blobs of its own, and steps that are compiled."""

    name = "tiles"
    lineage = ("tiles",)


@broken("names", r"lineage=\('numpy', 'plain'\) must begin with the name, 'plain'")
class ComesBehind(Plain):
    lineage = ("numpy", "plain")


@broken("names", "auto is -1: it must be a number, 0 or more")
class WantsLess(Plain):
    auto = -1


@broken("unusable", r"unusable\(\) must be a class method")
class AsksTheObject(Plain):
    def unusable(self) -> None:  # type: ignore[override]
        return None


@broken("environment", r"asked again, environment\(\) is")
class TellsTheTime(Plain):
    count = 0

    def environment(self) -> dict[str, Any]:
        self.count += 1
        return {"started": self.count}


@broken("environment", r"environment\(\) cannot be written into a snapshot")
class TellsObjects(Plain):
    def environment(self) -> dict[str, Any]:
        return {"numpy": np}


@broken("empty", r"empty\(\(7,\), 'float64'\) holds 1.0: it must be zeros")
class TakesWhatIsThere(Plain):
    """What was freed is given again, as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[Any, Any] = {}

    def empty(self, shape: Any, dtype: str) -> Any:
        if tuple(shape) != (7,):
            return super().empty(shape, dtype)
        return self.kept.setdefault(dtype, super().empty(shape, dtype))


@broken("empty", "has shape .* and type float64")
class HasOneType(Plain):
    def empty(self, shape: Any, dtype: str) -> Any:
        return super().empty(shape, "float64" if dtype == "uint16" else dtype)


@broken("too_large", r"empty\(\) of 2\*\*59 bytes raises RuntimeError, not MemoryError")
class NamesItOtherwise(Plain):
    def empty(self, shape: Any, dtype: str) -> Any:
        try:
            return super().empty(shape, dtype)
        except MemoryError as error:
            raise RuntimeError("out of memory") from error


@broken("copies", "comes back with other bits")
class ReadsMemoryAsItLies(Plain):
    def from_host(self, host: Any, array: Any) -> None:
        array[...] = np.ravel(host, order="K").reshape(host.shape)


@broken("copies_are_copies", r"to_host\(\) gives the backend's own memory: return a copy")
class GivesItsMemory(Plain):
    def to_host(self, array: Any) -> Any:
        return array


@broken("copies_are_copies", r"from_host\(\) reads the NumPy array after it returned")
class CopiesLater(Plain):
    """Large arrays are copied when they are read."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[Any, Any]] = []

    def from_host(self, host: Any, array: Any) -> None:
        if host.size > 10_000:
            self.waiting.append((host, array))
        else:
            super().from_host(host, array)

    def to_host(self, array: Any) -> Any:
        for host, other in self.waiting:
            other[...] = host
        self.waiting.clear()
        return super().to_host(array)


@broken("view", r"what is written into view\(array, \(3, 4\)\) is not in the array: it must not copy")
class CopiesToView(Plain):
    def view(self, array: Any, shape: Any) -> Any:
        seen = array.reshape(-1)[: prod(shape)].reshape(shape)
        return seen.copy() if len(shape) > 1 and array.shape == (24,) else seen


class Functions(HostFunctions):
    """NumPy with other functions."""

    def __init__(self, **others: Any) -> None:
        super().__init__()
        vars(self).update(others)


class WithFunctions(Plain):
    others: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.xp = Functions(**self.others)


@broken("functions", r"xp.minimum: .* instead of nan")
class LosesNaN(WithFunctions):
    others: ClassVar[dict[str, Any]] = {"minimum": np.fmin}


def no_true_divide(one: Any, other: Any, out: Any) -> Any:
    return np.true_divide(one, other)


@broken("functions", "xp.divide: .* numbers differ")
class ForgetsOut(WithFunctions):
    others: ClassVar[dict[str, Any]] = {"divide": no_true_divide}


@broken("whole_numbers", r"xp.add of uint8 into an out of float64: .* instead of 256, .* as nacre.FloatingFunction")
class AddsInTheNarrowType(WithFunctions):
    others: ClassVar[dict[str, Any]] = {"add": np.add}


def without_truth_values(one: Any, other: Any, out: Any) -> Any:
    return np.subtract(one, other, out=out, dtype=None if one.dtype == bool else out.dtype)


@broken("whole_numbers", r"xp.subtract of bool into an out of float64: .* is not supported.* as nacre.FloatingFunction")
class SubtractsNoTruthValues(WithFunctions):
    others: ClassVar[dict[str, Any]] = {"subtract": without_truth_values}


@broken("choices", "xp.take.* of bool into an out of float64: Cannot cast")
class TakesIntoTheSameType(WithFunctions):
    others: ClassVar[dict[str, Any]] = {"take": np.take}


def with_product(array: Any, value: Any, where: Any = None) -> None:
    if where is None:
        np.copyto(array, value)
    else:
        array[...] = array * ~np.asarray(where) + np.where(where, value, 0)


@broken("choices", r"xp.copyto\(a, 0, where=mask\)|xp.copyto\(a, b, where=mask\)")
class ChoosesByAProduct(WithFunctions):
    others: ClassVar[dict[str, Any]] = {"copyto": with_product}


@broken("random", "random numbers of float32 and shape .*, are others")
class RoundsToSixteenBits(Plain):
    on_host = False

    def from_host(self, host: Any, array: Any) -> None:
        drawn = host.dtype == np.float32 and host.size and host.min() >= 0 and host.max() < 1
        super().from_host(host.astype(np.float16) if drawn else host, array)


@broken("own_blobs", "a blob of shape .* and layout channels last, unpacked")
class UnpacksInOneOrder(Tiles):
    def unpack(self, blob: Any, array: Any) -> None:
        array[...] = blob.memory.reshape(array.shape)


@broken("own_blobs", r"is written behind the .* numbers that storage\(\) asks for")
class AsksForTooLittle(Tiles):
    def storage(self, blob: Any) -> tuple[int, str]:
        return blob.size - 4, blob.dtype


@broken("sums_of_own_blobs", "the sum of 2 blobs of shape")
class AddsAlwaysFirst(Tiles):
    def add(self, part: Any, total: Any, *, first: bool) -> None:
        super().add(part, total, first=True)


@broken("plan", r"with the plan that gave the layouts .*, arrange\(\) decides")
class DecidesAnew(Tiles):
    turns = 0

    def arrange(self, kernels: Any, blobs: Any, plan: dict[str, Any]) -> None:
        DecidesAnew.turns += 1
        for blob in blobs:
            blob.layout = plan["layout"] = f"channels last {self.turns}"


@broken("compile", "run 0 of compiled steps")
class RunsBackwards(Tiles):
    def compile(self, steps: Any) -> Any:
        return loop(steps[::-1])


@broken("compile", "run 1 of compiled steps")
class RunsOnce(Tiles):
    def compile(self, steps: Any) -> Any:
        waiting = [step.call for step in steps]

        def run() -> None:
            while waiting:
                waiting.pop(0)()

        return run


@broken("errors", r"wrap\(\) swallows an error of the pass")
class SaysNothing(Plain):
    def wrap(self, run: Any) -> Any:
        def quietly() -> None:
            try:
                run()
            except ArithmeticError:
                raise
            except Exception:
                return

        return quietly


@broken("errors", r"after an error another thread cannot run a pass: wrap\(\) holds a lock")
class KeepsItsLock(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.RLock()

    def wrap(self, run: Any) -> Any:
        def alone() -> None:
            self.lock.acquire()
            run()
            self.lock.release()

        return alone


@broken("shutdown", "after its net was shut down, .* is still held: what keeps it")
class KeepsEveryStep(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Any] = []

    def wrap(self, run: Any) -> Any:
        self.kept.append(run)
        return run


@broken("shutdown", "after a net was trained and shut down, a thread is still there: .*worker")
class StartsAThread(Plain):
    ends: ClassVar[list[threading.Event]] = []

    def wrap(self, run: Any) -> Any:
        end = threading.Event()
        threading.Thread(target=end.wait, name="worker", daemon=True).start()
        self.ends.append(end)
        return run


@one_or_all
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_found_by_its_check(name: str, every: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made, check, words = BROKEN[name]
    monkeypatch.setattr("nacre.testing.outside.LATE", 0.05)
    monkeypatch.setattr("nacre.testing.backend.LATE", 0.05)

    class Suite(BackendSuite):
        backend = made

    Suite.opened = lambda self: made()
    found = failures(Suite, dtypes=["float64"], without=besides(Suite, check, every))
    for end in StartsAThread.ends:
        end.set()
    assert check in found, f"{name} is not found by {check}, but by {found}"
    with pytest.raises(AssertionError, match=words):
        raise found[check]
    assert len(found) <= 4, f"{name} is found by {sorted(found)}"


def test_good_ones_pass() -> None:
    for made in (Plain, Tiles):

        class Suite(BackendSuite):
            backend = made

        assert failures(Suite) == {}
