"""A backend of NumPy arrays that stops at the first number that is too large for its type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nacre import HostMemory, NacreError


class NewNameBackend(HostMemory):
    """Plain NumPy arrays; every layer runs by its own code. Where a number overflows, the pass ends with an error."""

    name = "new-name"
    lineage = ("new-name",)  # add "numpy" behind it for a backend that can run the kernels of nacre's own

    @classmethod
    def unusable(cls) -> str | None:
        """Return why this backend cannot be used on this machine, such as a missing device; or None."""
        return None

    def environment(self) -> dict[str, Any]:
        """Return what the bits of its results depend on; snapshots keep it."""
        return {"numpy": np.__version__}

    def wrap(self, run: Callable[[], None]) -> Callable[[], None]:
        """Return a pass that ends with an error where a number overflows, or where 0 is divided by 0."""

        def strict() -> None:
            try:
                with np.errstate(over="raise", divide="raise", invalid="raise"):
                    run()
            except FloatingPointError as error:
                raise NacreError(f"{error}, on the backend '{self.name}'", "lower the learning rate") from error

        return strict
