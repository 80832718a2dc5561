"""Regularisers and constraints of a training: their kernels and their steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ..discovery.kernels import Choice
from ..engine.target import choose_kernel
from ..fields.component import Component
from ..protocols.array import Array
from ..protocols.backend import Backend, Step, open_backend
from ..protocols.view import View

if TYPE_CHECKING:
    from ..engine.parameters import Slot
    from ..net.net import Net
    from .solver import Solver
    from .training import Training


Choices = dict[str, tuple[Component, Choice]]


def component_choices(net: Net, slots: Iterable[Slot], solver: Solver) -> Choices:
    """Choose the kernels of the parameters' regularisers and constraints: {"regularizer.ip1/weight": (it, choice)}.

    A regulariser whose coefficient is zero does not work, so it is left out.
    """
    chosen: Choices = {}
    for slot in slots:
        regularizer, constraint = slot.parameters[0].regu, slot.parameters[0].cons
        if regularizer is not None and solver.regu_coef * getattr(regularizer, "coef", 1.0) != 0:
            choice = choose_kernel(net, regularizer, [slot.storage])
            if solver.method.decoupled:
                choice = Choice(choice.thing, net.backend.name, "its coefficient is another in every iteration")
            chosen[f"regularizer.{slot.name}"] = (regularizer, choice)
        if constraint is not None:
            choice = choose_kernel(net, constraint, [slot.storage])
            if constraint.every_n_iter > 1:
                choice = Choice(choice.thing, net.backend.name, "it is not called in every iteration")
            chosen[f"constraint.{slot.name}"] = (constraint, choice)
    return chosen


def regularise_steps(training: Training) -> Iterator[Step]:
    """Return the steps that add the penalties' gradients."""
    for slot, component, view, own in _workers(training, "regularizer"):
        coefficient = training.solver.regu_coef * getattr(slot.parameters[0].regu, "coef", 1.0)
        shape = (slot.storage.size,)
        value, gradient = view.backend.view(slot.storage.array, shape), view.backend.view(slot.gradient, shape)
        if training.solver.method.decoupled:
            call = partial(_shrink, component, view, value, slot.parameters[0].lr * coefficient)
        else:
            call = partial(component.add_gradient, view, value, gradient, coefficient)
        yield Step("regularise", slot.name, call, own)


def _shrink(component: Any, view: View, value: Array, coefficient: float) -> None:
    """Go down the penalty's own gradient, by the learning rate: what a decoupled method does."""
    part = view.scratch(value.shape, slot=-1)  # regularisers count theirs from 0
    part[...] = 0
    component.add_gradient(view, value, part, -view.scalars["rate"] * coefficient)
    view.xp.add(value, part, out=value)


def constrain_steps(training: Training) -> Iterator[Step]:
    """Return the steps that move parameters back to where they may be."""
    for slot, component, view, own in _workers(training, "constraint"):
        call = partial(component.constrain, view, slot.storage.array)
        every = slot.parameters[0].cons.every_n_iter if slot.parameters[0].cons else 1
        yield Step("constrain", slot.name, partial(_now_and_then, training, every, call) if every > 1 else call, own)


def _now_and_then(training: Training, every: int, call: Any) -> None:
    if (training.iteration + 1) % every == 0:
        call()


def _workers(training: Training, kind: str) -> Iterator[tuple[Slot, Any, View, Backend | None]]:
    """Give the parameters with a regulariser or a constraint: its kernel or itself, its view, and whose step it is."""
    net = training.net
    for slot in training.slots:
        if (name := f"{kind}.{slot.name}") in training.choices:
            component, choice = training.choices[name]
            if choice.kernel is None:
                yield slot, component, net.view(net.backend), None
            else:
                backend = open_backend(choice.ancestor)
                view = net.view(backend)
                yield slot, choice.kernel(component, view), view, backend
