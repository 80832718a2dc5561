"""The type of arrays: a backend's own, so any."""

from __future__ import annotations

from typing import Any

Array = Any
