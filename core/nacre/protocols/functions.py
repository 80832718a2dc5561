"""HostFunctions: NumPy's functions, of which those with a floating `out` compute whole numbers in floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

WHOLE = "biu"
"""The kinds of whole numbers among NumPy's: truth values, with a sign and without."""


class FloatingFunction:
    """A function of NumPy, or of a library like it, that computes whole numbers in the type of a floating `out`.

    NumPy chooses the type by the inputs alone: the sum of 200 and 100 in uint8 would be 44, in an `out` of float32 too.
    """

    def __init__(self, function: Any) -> None:
        self.function = function
        self.in_floats = f"{'f' * function.nin}->f" in function.types

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        if (kind := self.type_for(inputs, options)) is not None:
            options["dtype"] = kind
        return self.function(*inputs, **options)

    def type_for(self, inputs: Sequence[Any], options: dict[str, Any]) -> Any:
        """Return the floating type in which a call is computed; None leaves it to the library."""
        for one in inputs:  # one that is not whole ends it
            if (dtype := getattr(one, "dtype", None)) is None:
                if not isinstance(one, int):
                    return None
            elif dtype.kind not in WHOLE:
                return None
        if not self.in_floats or "dtype" in options:
            return None
        dtype = getattr(options.get("out"), "dtype", None)
        return dtype if dtype is not None and dtype.kind == "f" else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.function, name)


class HostFunctions:
    """NumPy's namespace, with a `FloatingFunction` for each function of one result, and `take` into any type."""

    def __init__(self) -> None:
        for name, function in vars(np).items():
            if isinstance(function, np.ufunc) and function.nout == 1:
                setattr(self, name, FloatingFunction(function))

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def take(self, a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: Any = "raise") -> Any:
        """Take elements, as `numpy.take`; `out` may be of a wider type than `a`."""
        if out is None or out.dtype == a.dtype:
            return np.take(a, indices, axis, out, mode)
        out[...] = np.take(a, indices, axis, mode=mode)
        return out


functions = HostFunctions()
"""Those of a backend in the machine's own memory that has none of its own."""
