"""Checks of what methods, policies, callbacks and algorithms answer: an error names the one to blame."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from numbers import Real
from typing import Any, TypeVar, cast

from ..discovery.blame import blaming, called, wrong
from ..errors import brief
from ..protocols.algorithm import AlgorithmState
from ..protocols.backend import Step
from ..text import with_article
from .method import MethodState
from .spans import Span

State = TypeVar("State")


def started(component: object, method: str, state: object, base: type[State]) -> State:
    """Return the state that a component's `method` returned. Raises PluginError if it is none."""
    if not isinstance(state, base):
        reason = f"{method} returned {brief(state)}, but it must return {with_article(base.__name__)}"
        raise wrong(component, reason, f"return {type(component).__name__}State(self, ...)")
    return state


def steps_of(algorithm: AlgorithmState) -> list[Step]:
    """Return the steps of an algorithm. Raises PluginError if they are none."""
    given: Any = algorithm.train_one_batch()
    steps = cast("list[object]", [*given] if isinstance(given, list | tuple) else [given])
    if not all(isinstance(one, Step) for one in steps):
        reason = f"train_one_batch returned {brief(cast('object', given))}, but it must return a list of steps"
        raise wrong(algorithm.algorithm, reason, 'return [*net.steps("feed"), *net.steps("forward"), ...]')
    return cast("list[Step]", steps)


def policy_of(policy: object, name: str, state: Any) -> Any:
    """Return what computes the numbers of a policy in a training. Raises PluginError if a method is missing."""
    for method in (name, "memory", "remember"):
        if not callable(getattr(state, method, None)):
            reason = f"start returned {brief(state)}, which has no method {method}"
            raise wrong(policy, reason, "return an object with rate or momentum, memory and remember, such as self")
    return state


def number_of(policy: object, name: str, value: Any) -> float:
    """Return a rate or a momentum.

    Raises:
        PluginError: it is no number.
        ArithmeticError: it is not finite.
    """
    if type(value) is float and value - value == 0:
        return value
    if isinstance(value, bool) or not (isinstance(value, Real) or getattr(value, "shape", None) == ()):
        raise wrong(policy, f"{name} returned {brief(value)}, but it must return a number")
    if not isfinite(value):
        raise ArithmeticError(f"the {name} of {called(policy)} is {value}")
    return float(value)


def check_method(method: object, state: MethodState, spans: Sequence[Span]) -> None:
    """Check what a method keeps. Raises PluginError."""
    if not hasattr(state, "spans") or not hasattr(state, "histories"):
        raise wrong(method, f"{type(state).__name__} does not call super().__init__(method, backend, spans)")
    for name, arrays in state.histories.items():
        with blaming(method):
            shapes = [tuple(array.shape) for array in arrays]
        if shapes != [tuple(span.value.shape) for span in spans]:
            reason = f"its history '{name}' does not have one array of each span's size"
            raise wrong(state, reason, f'make it by self.history("{name}")')
