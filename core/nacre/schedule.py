"""Where version 0.1 had `Step`, which is `nacre.Step` now; this module will be gone in version 0.3."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name != "Step":
        raise AttributeError(f"module 'nacre.schedule' has no attribute '{name}'")
    import warnings

    from .protocols.backend import Step

    message = "nacre.schedule will be gone in nacre 0.3: write `from nacre import Step`"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return Step
