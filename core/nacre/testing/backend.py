"""BackendTests: what every backend has to do: arrays, copies, functions, own blobs, nets that compute as everywhere."""

from __future__ import annotations

import gc
import itertools
import json
import threading
import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from math import isfinite, prod
from typing import Any, ClassVar

import numpy as np

from ..discovery.registry import registry
from ..errors import ContractError, NacreError
from ..graph.containers import expand
from ..net.net import Net
from ..protocols.backend import Backend, HostMemory, Own, Step
from ..protocols.graph import Graph
from ..protocols.layer import PHASES, Layer
from ..protocols.state import LayerState
from ..random import Random
from ..training.solver import Solver
from ..training.training import Training
from .bench import Bench, spoil
from .close import TOLERANCES, assert_close, assert_near
from .outside import LATE, Things, refusal
from .suite import Checks
from .tour import tour
from .toys import Descent, Momenta, Rates, as_saved
from .trial import ThroughLayer, ThroughState, spread_values

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
SHAPES = ((), (1,), (7,), (0,), (3, 0, 2), (5, 4), (2, 3, 4, 5))
OWN_SHAPES = ((3,), (4, 5), (2, 3, 4, 5), (2, 17, 3, 5), (2, 3, 1, 1), (1, 1, 6, 6))
ITERATIONS = 5

ONE = ("negative", "abs", "sign", "exp", "expm1", "tanh", "floor", "square")
OF_POSITIVE = ("log", "log1p", "sqrt")
TWO = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "copysign")
COMPARE = ("greater", "greater_equal", "less", "less_equal", "equal", "not_equal")
LOGIC = ("logical_and", "logical_or", "logical_xor")
"""Functions that layers of nacre's own call with `out`."""


class OnceLayer(ThroughLayer):
    """y = x; fails when it is told to."""


class OnceState(ThroughState, of=OnceLayer):
    """The state of `OnceLayer`."""

    fails = False

    def forward(self, inputs: list[Any]) -> None:
        if self.fails:
            raise FailedError
        super().forward(inputs)


class FailedError(Exception):
    """Raised by the kit in the middle of a pass."""


class BackendTests(Checks):
    """The tests of a backend.

    An author gives the class:

        class TestStrict(BackendTests):
            backend = StrictBackend

            def layers(self):  # optional: a net whose layers have kernels on it
                ...

    Kernels are tested by `LayerTests` of their layers, or by `KernelTests`.

    Attributes:
        backend: the class.
        dtypes: the floating types it works in.
        tolerances: how much a trained parameter may differ from that of a net on NumPy, relative to its norm.
    """

    SUBJECT = "backend"
    backend: ClassVar[type[Backend]]
    tolerances: ClassVar[dict[str, float]] = {"float64": 1e-9, "float32": 1e-4}

    def layers(self) -> list[Layer]:
        """Return the net that is trained: with a source for every phase, and a loss."""
        return tour()

    def opened(self) -> Backend:
        """Return a backend of its own, beside others that may be open."""
        return self.backend()

    # What it says of itself

    def test_names(self) -> None:
        """`name`, `lineage`, `auto` and `computes` are what nets ask for."""
        cls, opened = self.backend, self.opened()
        assert isinstance(cls.name, str) and cls.name, f"name is {cls.name!r}: it must be a text"
        assert isinstance(cls.lineage, tuple), f"lineage is {cls.lineage!r}: it must be a tuple of names"
        assert cls.lineage[:1] == (cls.name,), f"lineage={cls.lineage!r} must begin with the name, '{cls.name}'"
        fit = isfinite(cls.auto) and cls.auto >= 0
        assert fit, f"auto is {cls.auto!r}: it must be a number, 0 or more"
        for what in ("computes", "lacks"):
            kinds = list(getattr(opened, what))
            assert not set(kinds) & {"float32", "float64"}, f"{what} is {kinds}: only types narrower than float32"
        both = set(opened.computes) & set(opened.lacks)
        assert not both, f"computes and lacks both name {', '.join(sorted(both))}"
        here = registry()
        for offer in here.offers("backend", cls.name):
            other = here.open_offer(offer)
            assert other is cls, f"'{cls.name}' of {offer.provenance} opens to {other.__name__}, not {cls.__name__}"

    def test_unusable(self) -> None:
        """`unusable` can be asked of the class, without a backend; it says a reason, or None."""
        try:
            answers = [self.backend.unusable() for _ in range(2)]
        except TypeError as error:
            raise AssertionError(f"unusable() must be a class method: {error}") from error
        assert answers == [None, None], f"it runs these tests, but unusable() says {answers}"

    def test_environment(self) -> None:
        """`environment` is data for JSON, the same in every backend of this process."""
        one, other = self.opened(), self.opened()
        said = one.environment()
        try:
            kept = json.loads(json.dumps(said, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise AssertionError(f"environment() cannot be written into a snapshot: {error}") from error
        assert kept == said, f"environment() is {said}, but comes back from a snapshot as {kept}"
        for what, again in (("asked again", one.environment()), ("of another backend", other.environment())):
            assert again == said, f"{what}, environment() is {again} instead of {said}: resuming would always warn"

    # Plain arrays

    def test_empty(self) -> None:
        """`empty` makes zeros of any type and shape, in memory of their own, whatever lay there before."""
        opened = self.opened()
        for dtype, shape in itertools.product((*self.dtypes, "float32", *INTEGERS), SHAPES):
            for _ in range(2):
                array = opened.empty(shape, dtype)
                what = f"empty({shape}, '{dtype}')"
                found = tuple(array.shape), str(array.dtype)
                assert found == (shape, dtype), f"{what} has shape {found[0]} and type {found[1]}"
                host = opened.to_host(array)
                assert not host.any(), f"{what} holds {host[host != 0][0]}: it must be zeros"
                opened.from_host(np.ones(shape, dtype), array)
                del array
        one, other = opened.empty((4,), "float32"), opened.empty((4,), "float32")
        opened.from_host(np.ones(4, np.float32), one)
        assert not opened.to_host(other).any(), "two arrays of empty() share memory"

    def test_too_large(self) -> None:
        """What is too large for the memory is a MemoryError, and the backend works on."""
        opened = self.opened()
        try:
            told = refusal(MemoryError, lambda: opened.empty((2**56,), "float64"))
        except Exception as error:
            raise AssertionError(f"empty() of 2**59 bytes raises {type(error).__name__}, not MemoryError") from error
        assert told, "empty() of 2**59 bytes returns an array"
        assert opened.to_host(opened.empty((3,), "float32")).shape == (3,)

    def test_copies(self) -> None:
        """`from_host` and `to_host` keep every bit, of every type, shape and order of the NumPy array."""
        opened = self.opened()
        for dtype, shape in itertools.product((*self.dtypes, *INTEGERS), SHAPES):
            host = _numbers(shape, dtype)
            fixed = host.copy()
            fixed.flags.writeable = False
            wide = np.repeat(host.reshape(*shape, 1), 2, axis=-1)
            forms = {
                "": host,
                " in Fortran's order": np.asfortranarray(host),
                " that is a part": wide[..., 0],
                " that is read-only": fixed,
            }
            for form, given in forms.items():
                array = opened.empty(shape, dtype)
                opened.from_host(given, array)
                found = opened.to_host(array)
                what = f"an array of {dtype} and shape {shape}{form}"
                assert isinstance(found, np.ndarray), f"to_host() gives a {type(found).__name__}"
                alike = (found.dtype, found.shape) == (host.dtype, shape)
                assert alike, f"{what} comes back as {found.dtype} of shape {found.shape}"
                assert found.tobytes() == host.tobytes(), f"{what} comes back with other bits"

    def test_copies_are_copies(self) -> None:
        """A copy has memory of its own, and is complete when the call returns."""
        opened = self.opened()
        host = np.arange(1 << 16, dtype=np.float32)
        array, other = opened.empty(host.shape, "float32"), opened.empty(host.shape, "float32")
        opened.from_host(host, array)
        host += 1
        opened.from_host(host, other)
        host[...] = -1
        first, second = opened.to_host(array), opened.to_host(other)
        kept = first[-1] == len(host) - 1 and second[-1] == len(host)
        assert kept, "from_host() reads the NumPy array after it returned"
        assert first.flags.writeable, "to_host() gives an array that cannot be written to"
        first[...] = -2
        assert opened.to_host(array)[0] == 0, "to_host() gives the backend's own memory: return a copy"
        opened.xp.add(array, 1, out=array)
        assert opened.to_host(array)[-1] == len(host), "to_host() does not wait for what was computed before"
        assert second[-1] == len(host), "what to_host() gave changes with the backend's array"

    def test_view(self) -> None:
        """`view` reads the first elements under another shape, without a copy."""
        opened = self.opened()
        for shape in ((3, 4), (12,), (2, 1, 5), (1,), (), (0,)):
            base = opened.empty((24,), "float32")
            opened.from_host(np.arange(24, dtype=np.float32), base)
            seen = opened.view(base, shape)
            assert (tuple(seen.shape), str(seen.dtype)) == (shape, "float32"), (
                f"view(array, {shape}) has shape {tuple(seen.shape)} and type {seen.dtype}"
            )
            wanted = np.arange(prod(shape), dtype=np.float32).reshape(shape)
            assert np.array_equal(opened.to_host(seen), wanted), f"view(array, {shape}) has other numbers"
            opened.from_host(-wanted - 1, seen) if shape else opened.xp.copyto(seen, -1)
            found, count = opened.to_host(base), prod(shape)
            same = np.array_equal(found[:count], -wanted.reshape(-1) - 1)
            assert same, f"what is written into view(array, {shape}) is not in the array: it must not copy"
            assert np.array_equal(found[count:], np.arange(count, 24)), "view() reaches behind its elements"

    def test_parts(self) -> None:
        """Parts of plain arrays, by NumPy's indexing, `T`, `transpose` and `reshape`, are no copies."""
        opened = self.opened()
        host = spread_values((4, 3, 2), 0)
        bench = Bench(opened, "float64" if "float64" in self.dtypes else "float32")
        host = host.astype(bench.dtype)
        parts: dict[str, Callable[[Any], Any]] = {
            "a[1:3]": lambda a: a[1:3],
            "a[:, 0]": lambda a: a[:, 0],
            "a[..., 1]": lambda a: a[..., 1],
            "a[::2]": lambda a: a[::2],
            "a.T": lambda a: a.T,
            "a.transpose(1, 0, 2)": lambda a: a.transpose(1, 0, 2),
            "a.reshape(6, 4)": lambda a: a.reshape(6, 4),
        }
        for text, part in parts.items():
            array, wanted = bench.put(host), host.copy()
            found = part(array)
            there = bench.put(np.zeros(tuple(found.shape)))
            opened.xp.copyto(there, found)
            assert_close(bench.get(there), part(wanted), text, 0.0)
            opened.xp.multiply(found, 2, out=found)
            part(wanted)[...] *= 2
            assert_close(bench.get(array), wanted, f"the array after {text} was doubled", 0.0)
            found[...] = 5
            part(wanted)[...] = 5
            assert_close(bench.get(array), wanted, f"the array after {text}[...] = 5", 0.0)

    def test_functions(self, dtype: str) -> None:
        """The functions of `xp` that layers call compute what NumPy's do, into `out`, also of NaN and infinities."""
        bench = Bench(self.opened(), dtype)
        odd = [np.nan, np.inf, -np.inf, 0.0, -0.0]
        x = np.concatenate([spread_values((40,), 0), odd, odd]).astype(dtype)
        z = np.concatenate([spread_values((40,), 1), odd, odd[::-1]]).astype(dtype)
        z[:5] = x[:5]
        truth = [x > 0, z > 0]
        with np.errstate(all="ignore"):
            for name in (*ONE, *OF_POSITIVE):
                self._compare(bench, name, [np.abs(x) if name in OF_POSITIVE else x])
            for name in TWO:
                self._compare(bench, name, [x, z])
                if name != "copysign":
                    self._compare(bench, name, [x, 0.5])
            for name in COMPARE:
                self._compare(bench, name, [x, z], "bool")
                self._compare(bench, name, [x, 0], "bool")
            for name in LOGIC:
                self._compare(bench, name, truth, "bool")
            self._compare(bench, "logical_not", truth[:1], "bool")
            self._compare(bench, "clip", [x[:40], -0.5, 0.7])

    def test_whole_numbers(self, dtype: str) -> None:
        """Functions of whole numbers alone compute them in the type of a floating `out`: see `FloatingFunction`."""
        bench = Bench(self.opened(), dtype)
        names = (*ONE, *OF_POSITIVE, *TWO, "matmul", "sum", "max", "min")
        for kind, name in itertools.product(INTEGERS, names):
            x = np.arange(0, 256, 16).astype(kind).reshape(4, 4)
            try:
                with np.errstate(all="ignore"):
                    self._compare(bench, name, [x, x[::-1]] if name in (*TWO, "matmul") else [x])
            except Exception as error:
                remedy = "compute whole numbers in the type of a floating out, as nacre.FloatingFunction does"
                raise AssertionError(f"xp.{name} of {kind} into an out of {dtype}: {error}; {remedy}") from error

    def test_reductions(self, dtype: str) -> None:
        """Sums, maxima and products of matrices are NumPy's, along any axis, into `out`; sums of much stay exact."""
        bench = Bench(self.opened(), dtype)
        xp, x = bench.backend.xp, spread_values((4, 5, 6), 0).astype(dtype)
        for name, axis, keep in itertools.product(("sum", "max", "min"), (0, 1, -1, (0, 2), None), (False, True)):
            wanted = getattr(np, name)(x, axis=axis, keepdims=keep)
            out = bench.spoiled(wanted.shape)
            getattr(xp, name)(bench.put(x), axis=axis, keepdims=keep, out=out)
            assert_close(bench.get(out), wanted, f"xp.{name}(axis={axis}, keepdims={keep})", TOLERANCES[dtype])
        assert_close(float(xp.sum(bench.put(x))), float(x.sum()), "float(xp.sum(a))", TOLERANCES[dtype])
        one, other = spread_values((7, 5), 1).astype(dtype), spread_values((5, 3), 2).astype(dtype)
        held, beside = bench.put(one), bench.put(other)
        products: dict[str, tuple[Any, Any, np.ndarray]] = {
            "a, b": (held, beside, one @ other),
            "a.T, a": (held.T, held, one.T @ one),
            "b.T, a.T": (beside.T, held.T, other.T @ one.T),
        }
        for what, (left, right, wanted) in products.items():
            out = bench.spoiled(wanted.shape)
            xp.matmul(left, right, out=out)
            assert_close(bench.get(out), wanted, f"xp.matmul({what})", TOLERANCES[dtype])
        many = np.full(1 << 20, 0.1, dtype)
        found = float(xp.sum(bench.put(many)))
        assert abs(found - many.size * 0.1) <= 1e-4 * found, f"the sum of 2**20 times 0.1 is {found:.6g}"

    def test_choices(self, dtype: str) -> None:
        """`copyto` with `where`, `where` and `take` choose as NumPy's do: what is not chosen leaves no trace."""
        bench = Bench(self.opened(), dtype)
        xp = bench.backend.xp
        x, z = spread_values((6, 4), 0).astype(dtype), spread_values((6, 4), 1).astype(dtype)
        x[0, 0], z[1, 1] = np.nan, np.nan
        mask = spread_values((6, 4), 2) > 0
        mask[0, 0], mask[1, 1] = True, False
        cut = bench.backend.empty(mask.shape, "bool")
        bench.backend.from_host(mask, cut)
        array = bench.put(x)
        xp.copyto(array, bench.put(z), where=cut)
        assert_close(bench.get(array), np.where(mask, z, x), "xp.copyto(a, b, where=mask)", 0.0)
        xp.copyto(array, 0, where=cut)
        assert_close(bench.get(array), np.where(mask, 0, x), "xp.copyto(a, 0, where=mask)", 0.0)
        assert_close(bench.get(xp.where(cut, bench.put(x), bench.put(z))), np.where(mask, x, z), "xp.where", 0.0)
        numbers = bench.backend.empty((3,), "int64")
        bench.backend.from_host(np.array([4, 0, 4]), numbers)
        out = bench.spoiled((3, 4))
        xp.take(bench.put(x), numbers, axis=0, out=out)
        assert_close(bench.get(out), x[[4, 0, 4]], "xp.take(a, numbers, axis=0)", 0.0)
        what = f"xp.take of bool into an out of {dtype}"
        try:
            xp.take(cut, numbers, axis=0, out=out)
        except Exception as error:
            raise AssertionError(f"{what}: {error}") from error
        assert_close(bench.get(out), mask[[4, 0, 4]].astype(dtype), what, 0.0)

    def test_random(self) -> None:
        """Random numbers are those that `nacre.random` describes, bit for bit, in both types."""
        opened = self.opened()
        bench = Bench(opened, "float32")
        for shape, dtype, step, draw in itertools.product(
            ((1,), (7,), (33, 5), (2, 3, 4, 5)), ("float32", "float64"), (0, 3, 10**6), (0, 1)
        ):
            bench.view.scalars["step"] = step
            array, wanted = opened.empty(shape, dtype), np.empty(shape, dtype)
            bench.view.random("layer").uniform(array, draw)
            Random(0, "layer", lambda step=step: step).uniform(wanted, draw)
            same = opened.to_host(array).tobytes() == wanted.tobytes()
            assert same, f"random numbers of {dtype} and shape {shape}, step {step}, draw {draw}, are others"

    # Own blobs, for kernels

    def test_own_blobs(self, dtype: str) -> None:
        """A blob of its own holds what is packed into it, in the memory that `storage` asks for and no more."""
        opened = self.opened()
        bench = Bench(opened, dtype)
        for number, (blob, arena, count) in enumerate(self._blobs(opened, dtype)):
            host = spread_values(blob.shape, number).astype(dtype)
            opened.place(blob, arena)
            before = opened.to_host(arena)[count:].tobytes()
            array, back = bench.put(host), bench.spoiled(blob.shape)
            bench.run(lambda array=array, blob=blob: opened.pack(array, blob), None)
            what = f"a blob of shape {blob.shape} and layout {blob.layout}"
            after = opened.to_host(arena)[count:].tobytes()
            assert after == before, f"{what} is written behind the {count} numbers that storage() asks for"
            bench.run(lambda back=back, blob=blob: opened.unpack(blob, back), None)
            assert_close(bench.get(back), host, f"{what}, unpacked", 0.0)
            assert_close(bench.get(array), host, f"the array that was packed into {what}", 0.0)
            if opened.elementwise:
                elements = opened.elements(blob)
                assert elements is not None, f"elementwise is declared, but elements() of {what} is None"
                found = np.sort(np.array(opened.to_host(elements)).reshape(-1))
                assert_close(found, np.sort(host.reshape(-1)), f"the elements of {what}", 0.0)

    def test_sums_of_own_blobs(self, dtype: str) -> None:
        """`add` writes the first blob into the sum, and adds the others, if the backend is `elementwise`."""
        opened = self.opened()
        if not opened.elementwise:
            return
        bench = Bench(opened, dtype)
        parts, totals = ([*self._blobs(opened, dtype)] for _ in range(2))
        for (part, arena, _), (total, other, _) in zip(parts, totals, strict=True):
            opened.place(part, arena)
            opened.place(total, other)
            host = spread_values(part.shape, 0).astype(dtype)
            array, back = bench.put(host), bench.spoiled(part.shape)
            bench.run(lambda array=array, part=part: opened.pack(array, part), None)
            for turn in (1, 2, 3):
                bench.run(lambda part=part, total=total, turn=turn: opened.add(part, total, first=turn == 1), None)
                bench.run(lambda total=total, back=back: opened.unpack(total, back), None)
                assert_close(bench.get(back), turn * host, f"the sum of {turn} blobs of shape {part.shape}")

    def test_plan(self, dtype: str) -> None:
        """What `arrange` decides is data for JSON, and a plan that is given is followed."""
        opened = self.opened()
        plan: dict[str, Any] = {}
        first = [blob.layout for blob, _, _ in self._blobs(opened, dtype, plan)]
        try:
            kept = json.loads(json.dumps(plan))
        except (TypeError, ValueError) as error:
            raise AssertionError(f"the plan of arrange() cannot be written into a snapshot: {error}") from error
        again = [blob.layout for blob, _, _ in self._blobs(self.opened(), dtype, kept)]
        assert again == first, f"with the plan that gave the layouts {first}, arrange() decides {again}"
        assert all(isinstance(one, str) and one for one in first), f"arrange() leaves layouts open: {first}"

    def test_compile(self, dtype: str) -> None:
        """`compile` gives one function that runs all steps, in order, each time, with the numbers of that time."""
        opened = self.opened()
        bench = Bench(opened, dtype)
        for blob, arena, _ in self._blobs(opened, dtype):
            opened.place(blob, arena)
            here, there, last = (bench.spoiled(blob.shape) for _ in range(3))
            calls: list[Callable[[], None]] = [
                lambda blob=blob, here=here: opened.pack(here, blob),
                lambda blob=blob, there=there: opened.unpack(blob, there),
                lambda blob=blob, last=last: opened.pack(last, blob),
                lambda blob=blob, here=here: opened.unpack(blob, here),
            ]
            run = opened.wrap(opened.compile([Step("copy", "tested", call, opened) for call in calls]))
            for turn in range(3):
                first, second = (spread_values(blob.shape, 2 * turn + part).astype(dtype) for part in range(2))
                opened.from_host(first, here)
                opened.from_host(second, last)
                run()
                for array, wanted in ((there, first), (here, second)):
                    assert_close(bench.get(array), wanted, f"run {turn} of compiled steps, shape {blob.shape}", 0.0)

    def test_rewrite(self) -> None:
        """`rewrite` leaves the graph that it is given as it is, and returns the same graph each time."""
        opened = self.opened()
        for phase in PHASES[:2]:
            with Net("test", self.layers(), backend=HostMemory.shared(), phase=phase, allocate=False) as planned:
                graph = expand(Graph.of(layer for layer in planned.layers if phase not in layer.exclude), phase)
            before = _drawn(graph)
            first, second = (_drawn(opened.rewrite(graph)) for _ in range(2))
            assert _drawn(graph) == before, "rewrite() changes the graph that it is given"
            assert first == second, "rewrite() returns another graph the second time"

    # Nets

    def test_states(self, dtype: str) -> None:
        """A net with states of every kind has the blobs, gradients, losses and statistics that it has on NumPy."""
        for phase in PHASES[:2]:
            options: dict[str, Any] = {"dtype": dtype, "phase": phase, "keep": "all"}
            with (
                Net("tour", tour(), backend=self.opened(), **options) as net,
                Net("tour", tour(), backend=HostMemory.shared(), **options) as own,
            ):
                for number in range(3):
                    for one in (net, own):
                        one.feed()
                        one.forward()
                        if phase == "train":
                            one.backward()
                    what = f"phase {phase}, batch {number}"
                    for name in own.memory.final:
                        assert_close(net.blob(name), own.blob(name), f"{what}: blob '{name}'", TOLERANCES[dtype])
                    for name, handle in own.parameters.items():
                        assert_near(net.parameters[name].value, handle.value, f"{what}: '{name}'")
                        if phase == "train" and handle.gradient is not None:
                            found = net.parameters[name].gradient
                            assert_near(found, handle.gradient, f"{what}: gradient of '{name}'")
                    assert_close(net.loss(), own.loss(), f"{what}: the loss", TOLERANCES[dtype])
                said, wanted = net.statistics(), own.statistics()
                assert _names(said) == _names(wanted), f"phase {phase}: the statistics are {said} instead of {wanted}"
                for layer, name in _names(wanted):
                    what = f"phase {phase}: statistic '{name}' of '{layer}'"
                    assert_close(said[layer][name], wanted[layer][name], what, TOLERANCES[dtype])

    def test_training(self, dtype: str) -> None:
        """A training of the net of `layers` has the parameters that it has on NumPy."""
        with self.training(HostMemory.shared(), dtype) as own, self.training(self.opened(), dtype) as training:
            for one in (own, training):
                _steps(one)
            wanted, found = _values(own), _values(training)
            assert set(found) == set(wanted), f"the parameters are {sorted(found)} instead of {sorted(wanted)}"
            for name, value in found.items():
                assert_near(value, wanted[name], f"'{name}' after {ITERATIONS} iterations", self.tolerances[dtype])

    def test_resume(self) -> None:
        """A training that is resumed goes on bit for bit as the one that was not interrupted."""
        dtype = self.dtypes[-1]
        with self.training(self.opened(), dtype) as whole:
            _steps(whole, 2)
            snapshot = as_saved(whole.snapshot())
            _steps(whole, 3)
            wanted = _values(whole)
        with self.training(self.opened(), dtype) as resumed:
            resumed.restore(snapshot)
            _steps(resumed, 3)
            for name, value in _values(resumed).items():
                assert_close(value, wanted[name], f"'{name}' after a restart", 0.0)

    def test_deterministic(self) -> None:
        """A net that says `deterministic=True` has the same bits each time, or is refused in a sentence."""
        found: list[dict[str, np.ndarray]] = []

        def train() -> None:
            with self.training(self.opened(), self.dtypes[-1], deterministic=True) as training:
                _steps(training)
                found.append(_values(training))

        told = refusal(NacreError, lambda: (train(), train()))
        assert not told or "determin" in told, f"it refuses a deterministic net without saying so: {told}"
        for name, value in () if told else found[0].items():
            assert_close(found[1][name], value, f"'{name}' of a second deterministic training", 0.0)

    def test_several_at_once(self) -> None:
        """Several backends and nets are open at once, step by step and in threads, and each is what it is alone."""
        dtype = self.dtypes[-1]
        with self.training(self.opened(), dtype) as alone:
            _steps(alone)
            wanted = _values(alone)
        with ExitStack() as stack:
            opened = self.opened()
            trainings = [stack.enter_context(self.training(one, dtype)) for one in (opened, opened, self.opened())]
            for _ in range(2):
                for training in trainings:
                    _steps(training, 1)
            failed: list[BaseException] = []
            work = [(failed, _steps, training, ITERATIONS - 2) for training in trainings]
            threads = [threading.Thread(target=_noted, args=one, daemon=True) for one in work]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30 * LATE)
            if any(thread.is_alive() for thread in threads):
                stack.pop_all()  # to shut them down would wait, too
                raise AssertionError("nets in several threads wait for each other for ever")
            assert not failed, f"in threads of their own: {type(failed[0]).__name__}: {failed[0]}"
            for number, training in enumerate(trainings):
                for name, value in _values(training).items():
                    assert_close(value, wanted[name], f"'{name}' of net {number} of three at once", 0.0)

    def test_errors(self) -> None:
        """An error in the middle of a pass gets out, and leaves the backend free for other threads and passes."""
        opened = self.opened()
        layers = [OnceLayer(name="once", bottoms=["numbers"], tops=["above"])]
        calls = list[int]()

        def fail() -> None:
            calls.append(1)
            raise FailedError

        assert refusal(FailedError, lambda: opened.wrap(fail)()), "wrap() swallows an error of the pass"
        assert calls == [1], f"wrap() runs a pass {len(calls)} times"
        thread = threading.Thread(target=opened.wrap(lambda: None), daemon=True)
        thread.start()
        thread.join(LATE)
        assert not thread.is_alive(), "after an error another thread cannot run a pass: wrap() holds a lock"
        with Net("fails", [tour()[0], *layers], backend=opened) as net:
            state = net.node_ops["once"].state
            assert isinstance(state, OnceState)
            net.feed()
            state.fails = True
            assert refusal(Exception, net.forward), "an error of a layer does not get out of the pass"
            state.fails = False
            net.forward()
            assert_close(net.blob("above"), net.blob("numbers"), "a blob after an error", 0.0)

    def test_shutdown(self) -> None:
        """A net that is shut down leaves nothing behind: no state, no thread, no file, no process."""
        opened = self.opened()
        for turn in range(3):  # the first time libraries open files and threads of their own
            before = Things.open()
            left = self._left_of_a_net(opened)
            gc.collect()
            alive = [type(state()).__name__ for state in left if state() is not None]
            assert not alive, f"after its net was shut down, {alive[0]} is still held: what keeps it?"
            after = Things.open().besides(before) if turn else ""
            assert not after, f"after a net was trained and shut down, {after}"

    # How it is checked

    @contextmanager
    def training(self, backend: Backend, dtype: str, **options: Any) -> Generator[Training]:
        """Begin a training of the net of `layers`."""
        fields: dict[str, Any] = {"method": Descent(), "lr_policy": Rates(), "momentum_policy": Momenta()}
        named: Any = dtype
        with (
            Net("test", self.layers(), backend=backend, dtype=named, **options) as made,
            Solver(max_iter=ITERATIONS, regu_coef=0.01, **fields).start(made, [_unseen]) as training,
        ):
            yield training

    def _left_of_a_net(self, opened: Backend) -> list[weakref.ref[LayerState]]:
        with self.training(opened, self.dtypes[-1]) as training:
            _steps(training, 2)
            return [weakref.ref(op.state) for op in training.net.ops]

    def _blobs(
        self, opened: Backend, dtype: str, plan: dict[str, Any] | None = None
    ) -> Generator[tuple[Own, Any, int]]:
        """Yield blobs of the backend's own with layouts, each with memory, and how many numbers of that it asks for."""
        blobs = [opened.own(shape, dtype) for shape in OWN_SHAPES if not opened.layout_is_plain(shape, dtype)]
        opened.arrange([], blobs, {} if plan is None else plan)
        if not blobs and type(opened).pack is Backend.pack:  # they are plain arrays, which kernels get as they are
            blobs = [Own(shape, dtype) for shape in OWN_SHAPES]
            for blob in blobs:
                blob.layout = "plain"
        for blob in blobs:
            count, kind = opened.storage(blob)
            arena = opened.empty((count + 16,), kind)
            spoil(opened, [arena])
            yield blob, arena, count

    def _compare(self, bench: Bench, name: str, given: Sequence[Any], result: str = "") -> None:
        """Compare a function of `xp` with NumPy's."""
        arrays: list[Any] = []
        for one in given:
            array: Any = one
            if hasattr(one, "shape"):
                array = bench.backend.empty(one.shape, str(one.dtype))
                bench.backend.from_host(one, array)
            arrays.append(array)
        kind = result or bench.dtype
        wanted = getattr(np, name)(*(np.asarray(one, bench.dtype) for one in given))
        out = bench.backend.empty(wanted.shape, kind)
        spoil(bench.backend, [out])
        function = getattr(bench.backend.xp, name, None)
        if function is None:
            raise ContractError(f"backend '{self.backend.name}': xp has no function {name}")
        made = function(*arrays, out=out)
        scalar = "" if all(isinstance(one, np.ndarray) for one in given) else f"(a, {given[1]})"
        assert_close(bench.get(out), wanted.astype(kind), f"xp.{name}{scalar}", TOLERANCES[bench.dtype])
        if made is not None:
            assert tuple(made.shape) == wanted.shape, f"xp.{name}{scalar} returns something else than out"


def _numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return numbers of a type, with all that is odd: its ends, zeros, and for floating types NaN and infinities."""
    size = prod(shape)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return (np.arange(size) % 3 == 0).reshape(shape)
    if kind.kind == "f":
        odd = [np.nan, np.inf, -np.inf, -0.0, float(np.finfo(kind).tiny) / 4, float(np.finfo(kind).max)]
    else:
        odd = [np.iinfo(kind).max, np.iinfo(kind).min, 0, 1]
    found = np.arange(size).astype(kind)
    found[: len(odd)] = np.array(odd[:size], kind)
    return found.reshape(shape)


def _drawn(graph: Graph) -> list[Any]:
    return [(node.name, type(node.layer).__name__, tuple(node.bottoms), tuple(node.tops)) for node in graph.nodes]


def _steps(training: Training, count: int = ITERATIONS) -> None:
    for _ in range(count):
        training.step()


def _names(statistics: dict[str, dict[str, float]]) -> list[tuple[str, str]]:
    return [(layer, name) for layer, numbers in statistics.items() for name in numbers]


def _values(training: Training) -> dict[str, np.ndarray]:
    return {name: handle.value for name, handle in training.net.parameters.items()}


def _noted(failed: list[BaseException], work: Callable[..., object], *arguments: Any) -> None:
    try:
        work(*arguments)
    except BaseException as error:
        failed.append(error)


def _unseen(event: str, data: dict[str, Any]) -> None:
    """Show nothing of a training."""
