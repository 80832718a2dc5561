"""Regularisers and constraints of a training: the choice of their kernels, and their steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ..discovery.kernels import Choice
from ..engine.ops import returned
from ..engine.parameters import Slot
from ..fields.component import Component
from ..net.net import Net
from ..protocols.array import Array
from ..protocols.backend import Backend, Step
from ..protocols.view import View

Choices = dict[str, tuple[Component, Choice]]
"""Regularisers and constraints, each with the choice of its kernel: {"regularizer.ip1/weight": (it, choice)}."""


def choose_penalties(net: Net, slots: Iterable[Slot], regu_coef: float, *, decoupled: bool) -> Choices:
    """Choose the kernels of the parameters' regularisers and constraints.

    A regulariser whose coefficient is zero is left out.
    """
    chosen: Choices = {}
    for slot in slots:
        regularizer, constraint = slot.parameters[0].regu, slot.parameters[0].cons
        if regularizer is not None and regu_coef * regularizer.coef != 0:
            choice = net.target.choose_kernel(regularizer, [slot.storage])
            if decoupled:
                choice = Choice(choice.thing, net.backend.name, "its coefficient changes in every iteration")
            chosen[f"regularizer.{slot.name}"] = (regularizer, choice)
        if constraint is not None:
            choice = net.target.choose_kernel(constraint, [slot.storage])
            if constraint.every_n_iter > 1:
                choice = Choice(choice.thing, net.backend.name, "it is not called in every iteration")
            chosen[f"constraint.{slot.name}"] = (constraint, choice)
    return chosen


def regularise_steps(
    net: Net, slots: Sequence[Slot], choices: Choices, regu_coef: float, *, decoupled: bool
) -> Iterator[Step]:
    """Yield the steps that add the penalties' gradients, or for a `decoupled` method change the parameters by them."""
    for slot, component, view, own in _workers(net, slots, choices, "regularizer"):
        parameter = slot.parameters[0]
        assert parameter.regu is not None
        coefficient, shape = regu_coef * parameter.regu.coef, (slot.storage.size,)
        value, gradient = view.backend.view(slot.storage.array, shape), view.backend.view(slot.gradient, shape)
        if decoupled:
            call = partial(_shrink, component, view, value, parameter.lr * coefficient)
        else:
            call = _silent(component, "add_gradient", "gradient", view, value, gradient, coefficient)
        yield Step("regularise", slot.name, call, own, component)


def _silent(component: Any, method: str, array: str, *arguments: Any) -> Callable[[], None]:
    """Return a call of a method that writes into one of its arguments, and must return nothing."""
    work = getattr(component, method)

    def call() -> None:
        if (result := work(*arguments)) is not None:
            raise returned(component, method, result, array)

    return call


def _shrink(component: Any, view: View, value: Array, coefficient: float) -> None:
    """Change a parameter by the penalty's own gradient times the learning rate, for a decoupled method."""
    change = view.scratch(value.shape, slot=-1)  # regularisers count their slots from 0
    change[...] = 0
    component.add_gradient(view, value, change, -view.scalars["rate"] * coefficient)
    view.xp.add(value, change, out=value)


def constrain_steps(net: Net, slots: Sequence[Slot], choices: Choices, iteration: Callable[[], int]) -> Iterator[Step]:
    """Yield the steps that apply constraints; `iteration` returns how many iterations are done."""
    for slot, component, view, own in _workers(net, slots, choices, "constraint"):
        call = _silent(component, "constrain", "value", view, slot.storage.array)
        constraint = slot.parameters[0].cons
        assert constraint is not None
        if (every := constraint.every_n_iter) > 1:
            call = partial(_now_and_then, iteration, every, call)
        yield Step("constrain", slot.name, call, own, component)


def _now_and_then(iteration: Callable[[], int], every: int, call: Callable[[], None]) -> None:
    if (iteration() + 1) % every == 0:
        call()


def _workers(
    net: Net, slots: Sequence[Slot], choices: Mapping[str, tuple[Component, Choice]], kind: str
) -> Iterator[tuple[Slot, Any, View, Backend | None]]:
    """Yield each parameter with a component of a kind: its kernel or itself, its view, and the step's backend."""
    for slot in slots:
        if (name := f"{kind}.{slot.name}") in choices:
            component, choice = choices[name]
            if choice.kernel is None:
                yield slot, component, net.view(), None
            else:
                backend = net.target.backend_of(choice)
                view = net.view(backend)
                yield slot, choice.kernel(component, view), view, backend
