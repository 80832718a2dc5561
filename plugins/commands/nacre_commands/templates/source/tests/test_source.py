"""NewName: the kit checks its batches, passes and orders, and that it goes on after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from nacre_new_source import NewNameLayer

from nacre.testing import SourceTests


class TestNewName(SourceTests):
    """Seven waves of eight numbers."""

    layer = NewNameLayer

    def write(self, folder: Path) -> dict[str, Any]:
        """Return the fields to test with; a source of files writes some into the folder."""
        return {"tops": ["wave", "label"], "count": 7, "length": 8}

    def records(self) -> dict[str, Any]:
        """Compute all records in another way."""
        turn = np.linspace(0, 2 * np.pi, 8, endpoint=False)
        return {"wave": [np.sin((n % 4 + 1) * turn + n) for n in range(7)], "label": [n % 4 for n in range(7)]}
