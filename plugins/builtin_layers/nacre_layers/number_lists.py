"""NumberLists: numbers in lists of lists, as a field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nacre import Converted


class NumberLists(Converted[Sequence[Any], tuple[Any, ...]]):
    """Finite numbers in a list, in lists of one length in a list, and so on; an array is taken too."""

    wants = "a list of finite numbers, or of such lists of one length"

    @staticmethod
    def convert(value: Any) -> tuple[Any, ...]:
        array = np.asarray(value)
        if not array.ndim or array.dtype.kind not in "iuf" or not np.isfinite(array).all():
            raise ValueError
        return _tuples(array.astype(float).tolist())


def _tuples(value: Any) -> Any:
    return tuple(_tuples(entry) for entry in value) if isinstance(value, list) else value
