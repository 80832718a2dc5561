"""Checks and Suite: what suites have in common: named checks, when they apply, those that may fail; trials."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, TypeVar

import numpy as np
import pytest

from ..errors import ContractError, brief, nearest
from ..protocols.backend import Backend
from ..protocols.layer import Layer
from .trial import Example, Trial, backends, layer_of

PREFIX = "test_"
Test = TypeVar("Test", bound=Callable[..., None])


@dataclass(frozen=True)
class When:
    """A condition on a suite under which checks apply, in words and as a function of the suite's class."""

    words: str
    holds: Callable[[Any], bool]


def defines(name: str) -> When:
    """Return the condition that a suite defines this method itself, which the kit leaves to its author."""
    return When(f"with `{name}`", lambda suite: getattr(suite, name) is not getattr(suite._kit(), name))


def gives(name: str) -> When:
    """Return the condition that an attribute of a suite is not empty."""
    return When(f"with `{name}`", lambda suite: bool(getattr(suite, name)))


def only(*conditions: When) -> Callable[[Test], Test]:
    """Let a check apply only to suites for which all these conditions hold."""

    def note(test: Test) -> Test:
        setattr(test, "conditions", conditions)  # noqa: B010 (a function has no such attribute for type checkers)
        return test

    return note


@dataclass(frozen=True)
class Check:
    """A check of a suite: its name, what must hold, and to what it applies, in words."""

    name: str
    promise: str
    applies: str


class Checks:
    """What all suites have in common: checks with names, what they are called with, and those that may fail.

    A method `test_rows` of a suite is the check `rows`. `expected_failures` has reasons by name: `{"rows": "why"}` for
    a check, `{"rows[numpy-float64-two]": "why"}` for one of its cases. When a case that is named, or every case of a
    check that is, passes after all, that is a failure: the entry is out of date.

    Attributes:
        SUBJECT: the attribute that says what is tested; a class without it is one for others to derive from.
        IN_TURNS: tests in which the types take turns, from backend to backend and from example to example: what these
            look at hardly ever depends on the type.
        OF_THE_FIRST: tests that try the first example only.
    """

    SUBJECT: ClassVar[str]
    dtypes: ClassVar[tuple[str, ...]] = ("float64", "float32")
    expected_failures: ClassVar[Mapping[str, str]] = {}
    IN_TURNS: ClassVar[frozenset[str]] = frozenset()
    OF_THE_FIRST: ClassVar[frozenset[str]] = frozenset()
    cases: ClassVar[Mapping[str, int]] = {}
    """How many cases each check has, once pytest has asked for them."""
    _absent: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.cases = {}
        if not hasattr(cls, cls.SUBJECT):
            return
        cls.check_subject()
        kit = cls._kit()
        cls._check_methods(kit)
        tests = kit.names_of_tests()
        for name in cls._absent:  # of the class above, whose subject may be another
            setattr(cls, name, getattr(kit, name))
        for name in tests:
            own = getattr(cls, name)
            if own is not getattr(kit, name) and name not in getattr(getattr(own, "__code__", None), "co_names", ()):
                what = "takes the place of" if callable(own) else "switches off"
                raise ContractError(
                    f"{cls.__name__}.{name} {what} the check '{_name(name)}' of {kit.__name__}",
                    f"call super().{name} in it, or give a test of your own another name; if the check cannot pass, "
                    f"write why: expected_failures = {{'{_name(name)}': 'the reason'}}",
                )
        cls._absent = frozenset(set(tests) - set(kit.applicable.__func__(cls, set(tests))))  # pyright: ignore
        for name in cls._absent:
            setattr(cls, name, None)  # pytest collects functions only
        known = sorted(_name(name) for name in dir(cls) if name.startswith(PREFIX) and callable(getattr(cls, name)))
        for key in cls.expected_failures:
            name = _name(key.partition("[")[0])
            if name not in known:
                raise ContractError(
                    f"{cls.__name__}.expected_failures names '{key}', but there is no such check{nearest(name, known)}",
                    f"the checks are: {', '.join(known)}",
                )

    @classmethod
    def _check_methods(cls, kit: type[Checks]) -> None:
        """Raise ContractError if what the kit calls is given as an attribute."""
        for name in dir(kit):
            own = getattr(cls, name)
            if name.startswith(("_", PREFIX)) or not callable(getattr(kit, name)) or callable(own):
                continue
            arguments = ", ".join(inspect.signature(getattr(kit, name)).parameters)
            raise ContractError(
                f"{cls.__name__}.{name} is {brief(own)}, but it must be a method",
                f"write def {name}({arguments}): return ...",
            )

    @classmethod
    def check_subject(cls) -> None:
        """Raise ContractError if the subject is none that the suite can test."""

    @classmethod
    def _kit(cls) -> type[Checks]:
        """Return the suite of the kit from which this class derives."""
        return next(
            one for one in cls.__mro__ if one.__module__.startswith("nacre.testing.") and issubclass(one, Checks)
        )

    @classmethod
    def names_of_tests(cls) -> list[str]:
        """Return the names of all tests of a suite, in the order in which they stand in the code."""
        every = [name for base in reversed(cls.__mro__) for name in vars(base) if name.startswith(PREFIX)]
        return list(dict.fromkeys(every))

    @classmethod
    def applicable(cls, tests: set[str]) -> Iterable[str]:
        """Return the tests that apply: those whose conditions hold."""
        kit = cls._kit()
        return {name for name in tests if all(one.holds(cls) for one in _conditions(getattr(kit, name)))}

    @classmethod
    def required(cls) -> list[str]:
        """Return the names of the checks that apply, each of which must run."""
        return [_name(name) for name in cls._kit().names_of_tests() if name not in cls._absent]

    @classmethod
    def table(cls) -> list[Check]:
        """Return what a suite of the kit checks."""
        found: list[Check] = []
        for name in cls.names_of_tests():
            test = getattr(cls, name)
            promise = " ".join((test.__doc__ or "").partition("\n\n")[0].split())
            found.append(Check(_name(name), promise, ", ".join(one.words for one in _conditions(test))))
        return found

    def examples(self) -> Iterable[Any]:
        """Return the uses that are tested, at least one."""
        raise ContractError(f"{type(self).__name__} does not define examples()")

    def backends(self) -> Sequence[str]:
        """Return the names of the backends to test on: all that can be used here."""
        return backends()

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test on every backend, in each type and for every example, as far as it asks for them."""
        names, choices = metafunc.fixturenames, dict[str, list[tuple[Any, str]]]()
        if "backend" in names:
            choices["backend"] = [(name, name) for name in _backends_of(type(self))]
        if "dtype" in names:
            choices["dtype"] = [(name, name) for name in self.dtypes]
        if "example" in names:
            choices["example"] = [(one, one.label or str(number)) for number, one in enumerate(self.examples())]
        for name, values in choices.items():
            if not values:
                raise ContractError(f"{type(self).__name__} has no {name} to test with")
        test = metafunc.function.__name__
        rows = self.rows(test, choices)
        cases = {"-".join(label for _, label in row): [value for value, _ in row] for row in rows}
        type(self).cases = {**self.cases, _name(test): len(cases)}
        marks = {case: self._marks(_name(test), case, len(cases)) for case in cases}
        self._refuse_unknown(_name(test), cases)
        if choices or any(marks.values()):
            every = [pytest.param(*values, marks=marks[case], id=case or "all") for case, values in cases.items()]
            metafunc.parametrize(list(choices), every)

    def _marks(self, check: str, case: str, count: int) -> list[pytest.MarkDecorator]:
        """Return the marks of a case: strict where it alone is expected to fail.

        Of a check with several cases some may pass; nacre's plugin for pytest sees whether all do.
        """
        for key, reason in self.expected_failures.items():
            name, bracket, rest = key.partition("[")
            if _name(name) == check and (not bracket or rest == f"{case}]"):
                return [pytest.mark.xfail(reason=reason, strict=bool(bracket) or count == 1)]
        return []

    def _refuse_unknown(self, check: str, cases: Iterable[str]) -> None:
        known = {f"{case}]" for case in cases}
        for key in self.expected_failures:
            name, bracket, rest = key.partition("[")
            if _name(name) == check and bracket and rest not in known:
                raise ContractError(
                    f"{type(self).__name__}.expected_failures names '{key}', but '{check}' has no such case",
                    f"its cases are: {', '.join(sorted(cases))}",
                )

    @classmethod
    def rows(cls, test: str, asked: Mapping[str, Sequence[Any]]) -> list[tuple[Any, ...]]:
        """Return the arguments that a test is called with, one row for each call, from the choices for each of them.

        That is every combination; but in the tests `IN_TURNS` the types take turns, and those `OF_THE_FIRST` have no
        other example.
        """
        if "example" in asked and test in cls.OF_THE_FIRST:
            asked = {**asked, "example": asked["example"][:1]}
        places = list(itertools.product(*(range(len(values)) for values in asked.values())))
        if "dtype" in asked and test in cls.IN_TURNS:
            index, types = list(asked).index("dtype"), len(asked["dtype"])
            places = [one for one in places if (sum(one) - 2 * one[index]) % types == 0]
        return [tuple(values[place] for values, place in zip(asked.values(), one, strict=True)) for one in places]


@cache
def _backends_of(suite: type[Checks]) -> tuple[str, ...]:
    """Return the backends to test on: to ask them all takes long, and a suite has dozens of tests."""
    return tuple(suite().backends())


def _name(test: str) -> str:
    """Return the name of the check that a test is."""
    return test.removeprefix(PREFIX)


def _conditions(test: object) -> tuple[When, ...]:
    return getattr(test, "conditions", ())


class Suite(Checks):
    """What `LayerTests` and `KernelTests` have in common: examples of a layer, its parameters, and trials."""

    SUBJECT = "layer"
    layer: ClassVar[type[Layer]]
    max_examples: ClassVar[int] = 10

    def strategy(self) -> Any:
        """Return a hypothesis strategy of further `Example`s, drawn the same way in every run; optional."""
        return None

    def make(self, example: Example) -> Layer:
        """Make the layer of an example."""
        return layer_of(self.layer, example)

    def beside(self, example: Example) -> Sequence[Layer]:
        """Return other layers that the net of an example needs, such as one whose parameter the tested layer reads."""
        return ()

    def parameter(self, name: str, parameter: Any, random: np.random.Generator) -> np.ndarray | None:
        """Return the value that a parameter has in the tests; None leaves what its initialiser gave.

        Unless overridden: between -1 and 1, and for buffers, which may be variances, between 0.5 and 1.5.
        """
        low, high = (-1.0, 1.0) if parameter.trainable else (0.5, 1.5)
        shape: tuple[int, ...] = parameter.shape
        return random.uniform(low, high, shape)

    def put_parameters(self) -> Callable[[str, Any], np.ndarray | None]:
        """Return what `Trial` takes as `parameters`: `parameter`, with random numbers of its own for every name."""
        return lambda name, parameter: self.parameter(name, parameter, np.random.default_rng([7, *name.encode()]))

    @contextmanager
    def trial(self, example: Example, backend: str | Backend, dtype: str, **options: Any) -> Generator[Trial]:
        """Run an example of the layer in a net of its own, and shut it down."""
        options = {"parameters": self.put_parameters(), "beside": self.beside(example), **options}
        made = options.pop("made", None)
        trial = Trial(lambda one: made or self.make(one), example, backend=backend, dtype=dtype, **options)
        try:
            yield trial
        finally:
            trial.shutdown()
