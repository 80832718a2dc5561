"""The tests of components pass what keeps its promises, and find what breaks one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pytest

from nacre import Codec, Constraint, ContractError, DataError, Field, Initializer, Neuron, Regularizer, Transformer
from nacre.testing import CodecTests as CodecSuite
from nacre.testing import ConstraintTests as ConstraintSuite
from nacre.testing import InitializerTests as InitializerSuite
from nacre.testing import NeuronTests as NeuronSuite
from nacre.testing import RegularizerTests as RegularizerSuite
from nacre.testing import TransformerTests as TransformerSuite
from run_suite import failures

BROKEN: dict[str, tuple[Any, type, str, str]] = {}


def broken(suite: Any, check: str, words: str) -> Callable[[type], type]:
    """Note a wrong component, the check that must find it, and what that says."""

    def note(cls: type) -> type:
        BROKEN[cls.__name__] = suite, cls, f"test_{check}", words
        return cls

    return note


class Half(Neuron):
    """y = x / 2."""

    def forward(self, backend: Any, x: Any, y: Any) -> None:
        backend.xp.multiply(x, 0.5, out=y)

    def backward(self, backend: Any, x: Any, y: Any, dy: Any, dx: Any) -> None:
        backend.xp.multiply(dy, 0.5, out=dx)


class OfNeurons(NeuronSuite):
    component = Half

    def reference(self, neuron: Any, x: Any) -> Any:
        return x / 2


class Wide(Initializer):
    """Normal numbers."""

    def values(self, random: Any, shape: tuple[int, ...]) -> Any:
        return random.generator().standard_normal(shape)


class OfInitializers(InitializerSuite):
    component = Wide

    def spread(self, initializer: Any, shape: tuple[int, ...]) -> tuple[float, float]:
        return 0.0, 1.0


class Square(Regularizer):
    """The penalty Σ W² / 2."""

    def add_gradient(self, backend: Any, value: Any, gradient: Any, coefficient: float) -> None:
        gradient += coefficient * value


class OfRegularizers(RegularizerSuite):
    component = Square

    def penalty(self, regularizer: Any, value: Any) -> float:
        return float((value**2).sum() / 2)


class Boxed(Constraint):
    """Numbers between -1 and 1."""

    def constrain(self, backend: Any, value: Any) -> None:
        backend.xp.clip(value, -1, 1, out=value)


class OfConstraints(ConstraintSuite):
    component = Boxed

    def reference(self, constraint: Any, value: Any) -> Any:
        return np.clip(value, -1, 1)


class Noise(Transformer):
    """Adds noise in training."""

    def transform(self, batch: Any, random: Any, phase: str) -> None:
        if phase == "train":
            batch += random.each(batch[0].size).reshape(batch.shape)


class OfNoise(TransformerSuite):
    component = Noise
    is_random = True


class Centred(Transformer):
    """Subtracts the mean of the training data."""

    def fit(self, blocks: Any) -> Any:
        total: Any = 0
        for block in blocks:
            total = total + block.sum(0)
        return {"mean": total / blocks.count}

    def transform(self, batch: Any, random: Any, phase: str) -> None:
        batch -= self.fitted_array("mean", batch.shape[1:]).astype(batch.dtype)


class OfCentred(TransformerSuite):
    component = Centred

    def reference(self, transformer: Any, records: Any, phase: str) -> Any:
        return records - records.mean(0)


class Counted(Codec):
    """One byte that counts the numbers, and these."""

    def describe(self, data: bytes) -> Any:
        if not data or len(data) != 1 + data[0]:
            raise DataError("the count is wrong")
        return {"data": Field((len(data) - 1,), "uint8")}

    def decode(self, data: bytes, shapes: Any) -> Any:
        self.describe(data)
        return {"data": np.frombuffer(data, np.uint8, offset=1)}

    def encode(self, record: Any) -> bytes:
        return bytes([record["data"].size]) + record["data"].tobytes()


class OfCodecs(CodecSuite):
    component = Counted

    def encoded(self) -> Any:
        yield b"\3abc", {"data": np.frombuffer(b"abc", np.uint8)}
        yield b"\0", {"data": np.empty(0, np.uint8)}


SUITES = (OfCodecs, OfNeurons, OfInitializers, OfRegularizers, OfConstraints, OfNoise, OfCentred)


@broken(OfNeurons, "gradients", "but central differences give")
class ForgetsTheSlope(Half):
    def backward(self, backend: Any, x: Any, y: Any, dy: Any, dx: Any) -> None:
        backend.xp.copyto(dx, dy)


@broken(OfNeurons, "needs_input", "backward reads x, which is None: declare needs_input = True")
class ReadsItsInput(Half):
    def backward(self, backend: Any, x: Any, y: Any, dy: Any, dx: Any) -> None:
        backend.xp.multiply(dy, 0.5 + 0 * x, out=dx)


@broken(OfNeurons, "needs_input", "backward does not read x, which is kept for it")
class KeepsItsInputForNothing(Half):
    needs_input = True


@broken(OfNeurons, "inputs_are_left_alone", "dy after backward")
class HalvesTheGradientAbove(Half):
    def backward(self, backend: Any, x: Any, y: Any, dy: Any, dx: Any) -> None:
        dy *= 0.5
        backend.xp.copyto(dx, dy)


@broken(OfNeurons, "in_place", "y, in place")
class WritesTwice(Half):
    def forward(self, backend: Any, x: Any, y: Any) -> None:
        backend.xp.copyto(y, 0)
        backend.xp.multiply(x, 0.5, out=y)


@broken(OfNeurons, "nan", "y is not NaN where x is")
class SwallowsNaN(Half):
    def forward(self, backend: Any, x: Any, y: Any) -> None:
        np.multiply(np.nan_to_num(x, posinf=np.inf, neginf=-np.inf), 0.5, out=y)


@broken(OfNeurons, "large_numbers", "overflow")
class Overflows(Half):
    def forward(self, backend: Any, x: Any, y: Any) -> None:
        part = backend.xp.exp(backend.xp.abs(x))
        backend.xp.multiply(x, part / part / 2, out=y)


@broken(OfNeurons, "two_arrays", r"dx after forward\(\) of another layer")
class KeepsTheLast(Half):
    def forward(self, backend: Any, x: Any, y: Any) -> None:
        super().forward(backend, x, y)
        vars(self)["slope"] = 0.5 if x.size == 60 else 0.25

    def backward(self, backend: Any, x: Any, y: Any, dy: Any, dx: Any) -> None:
        backend.xp.multiply(dy, vars(self)["slope"] if y.size == 60 else 0.5, out=dx)


@broken(OfNeurons, "scratch", "where scratch memory held other numbers")
class AddsToScratch(Half):
    def forward(self, backend: Any, x: Any, y: Any) -> None:
        part = backend.scratch((1,), str(y.dtype))
        super().forward(backend, x, y)
        y += 0 * part


@broken(OfInitializers, "values", "the array is of type float32, not float64")
class IsNarrow(Wide):
    def values(self, random: Any, shape: tuple[int, ...]) -> Any:
        return super().values(random, shape).astype(np.float32)


@broken(OfInitializers, "seed_and_name", "another seed gives the same numbers")
class HasASeedOfItsOwn(Wide):
    def values(self, random: Any, shape: tuple[int, ...]) -> Any:
        return np.random.default_rng(7).standard_normal(shape)


@broken(OfInitializers, "global_state", "the state of the global random numbers has changed")
class DrawsFromNumpy(Wide):
    def values(self, random: Any, shape: tuple[int, ...]) -> Any:
        return super().values(random, shape) + 0 * np.random.random()  # noqa: NPY002


@broken(OfInitializers, "spread", "the deviation is")
class IsWider(Wide):
    def values(self, random: Any, shape: tuple[int, ...]) -> Any:
        return 2 * super().values(random, shape)


@broken(OfInitializers, "numbers_in_fields", "width=nan is accepted")
class TakesAnyNumber(Wide):
    width: Annotated[float, "the width"] = 1.0


@broken(OfRegularizers, "is_added", "the gradient, to which it is added")
class Replaces(Square):
    def add_gradient(self, backend: Any, value: Any, gradient: Any, coefficient: float) -> None:
        gradient[...] = coefficient * value


@broken(OfRegularizers, "gradient", "but the penalty's slope, times the coefficient")
class AddsTwice(Square):
    def add_gradient(self, backend: Any, value: Any, gradient: Any, coefficient: float) -> None:
        super().add_gradient(backend, value, gradient, 2 * coefficient)


@broken(OfRegularizers, "value_is_left_alone", "the value after add_gradient")
class Shrinks(Square):
    def add_gradient(self, backend: Any, value: Any, gradient: Any, coefficient: float) -> None:
        super().add_gradient(backend, value, gradient, coefficient)
        value *= 0.9


@broken(OfConstraints, "zeros", "a number is not finite")
class DividesByTheNorm(Boxed):
    def constrain(self, backend: Any, value: Any) -> None:
        super().constrain(backend, value)
        if not value.any():
            value += np.nan


@broken(OfConstraints, "values", "shape")
class LooksAbove(Boxed):
    def constrain(self, backend: Any, value: Any) -> None:
        backend.xp.minimum(value, 1, out=value)


@broken(OfNoise, "random_numbers", "phase validation: another seed gives other numbers")
class IsAlwaysNoisy(Noise):
    def transform(self, batch: Any, random: Any, phase: str) -> None:
        super().transform(batch, random, "train")


@broken(OfNoise, "batches", "phase train: the records")
class DrawsByPlace(Noise):
    def transform(self, batch: Any, random: Any, phase: str) -> None:
        if phase == "train":
            batch += random.generator(int(random.each(1)[0, 0] * 1e6)).random(batch.shape)


@broken(OfCentred, "records_are_left_alone", "it changes the records that it is given")
class ChangesWhatItIsGiven(Centred):
    def transform_into(self, given: Any, out: Any, random: Any, phase: str) -> None:
        super().transform_into(given, out, random, phase)
        if phase == "predict":
            given[...] = 0


@broken(OfCentred, "fit_is_needed", "not fitted, it raises KeyError")
class TrustsThatItWasFitted(Centred):
    def transform(self, batch: Any, random: Any, phase: str) -> None:
        batch -= vars(self).get("fitted", {})["mean"].astype(batch.dtype)


@broken(OfCentred, "fit_blocks", "'mean', in blocks of 1")
class MeansOfMeans(Centred):
    def fit(self, blocks: Any) -> Any:
        return {"mean": np.mean([block.mean(0) for block in blocks], axis=0)}


@broken(OfCentred, "fit_leaves_records_alone", r"fit\(\) changes the records that it reads")
class CentresWhatItReads(Centred):
    def fit(self, blocks: Any) -> Any:
        found = super().fit(blocks)
        for block in blocks:
            block -= found["mean"]
        return found


@broken(OfCodecs, "truncated", "raise IndexError")
class LooksBehindTheEnd(Counted):
    def describe(self, data: bytes) -> Any:
        return {"data": Field((data[0],), "uint8")}

    def decode(self, data: bytes, shapes: Any) -> Any:
        return {"data": np.array([data[1 + place] for place in range(data[0])], np.uint8)}


@broken(OfCodecs, "damaged", "make it take .* bytes of memory")
class BelievesTheCount(Counted):
    def decode(self, data: bytes, shapes: Any) -> Any:
        np.zeros(data[0] * 100_000)
        return super().decode(data, shapes)

    def describe(self, data: bytes) -> Any:
        np.zeros(data[0] * 100_000 if data else 0)
        return super().describe(data)


@broken(OfCodecs, "describe", "is of type uint8, but int64 is declared")
class DeclaresAnotherType(Counted):
    def describe(self, data: bytes) -> Any:
        super().describe(data)
        return {"data": Field((len(data) - 1,), "int64")}


@broken(OfCodecs, "encode", "written and read|the count is wrong")
class ForgetsTheCount(Counted):
    def encode(self, record: Any) -> bytes:
        return b"\0" + record["data"].tobytes()


@pytest.mark.parametrize("suite", SUITES)
def test_good_ones_pass(suite: Any) -> None:
    assert failures(suite) == {}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_promise_is_found_by_its_check(name: str) -> None:
    base, made, check, words = BROKEN[name]
    suite: Any = type("Suite", (base,), {"component": made})
    found = failures(suite, dtypes=["float64"], without={"test_file"})
    assert check in found, f"{name} is not found by {check}, but by {found}"
    with pytest.raises((AssertionError, DataError), match=words):
        raise found[check]
    assert len(found) <= 4, f"{name} is found by {sorted(found)}"


def test_a_suite_of_another_kind_is_told() -> None:
    with pytest.raises(ContractError, match="component=Half, but it must be an initializer"):

        class OfNeurons(InitializerSuite):
            component = Half

    with pytest.raises(ContractError, match=r"has no reference\(\)"):

        class Untold(TransformerSuite):
            component = Centred
