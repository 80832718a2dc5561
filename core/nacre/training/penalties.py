"""Regularisers and constraints of a training: their kernels and their steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..discovery.kernels import Choice
from ..engine.target import choose_kernel
from ..fields.component import Component

if TYPE_CHECKING:
    from ..engine.parameters import Slot
    from ..net.net import Net
    from ..solver import Solver


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
