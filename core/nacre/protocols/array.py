"""The type of arrays, a backend's own, so any; and the floating types that a net may have."""

from __future__ import annotations

from typing import Any, Literal, get_args

Array = Any

Dtype = Literal["float32", "float64"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)
