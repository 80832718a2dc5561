"""The solver NewName, for nacre."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .solver import NewName as NewName

nacre_api = "1.1"

SOLVERS = {"NewName": "nacre_new_solver.solver:NewName"}


@hookimpl
def offer_components() -> dict[str, dict[str, str]]:
    """Offer the solver."""
    return {"solver": SOLVERS}


__getattr__ = lazy(__name__, SOLVERS)
