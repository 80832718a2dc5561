"""The environment of a net: what its bits depend on besides its own fields and parameters."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..discovery.blame import answered
from ..discovery.registry import registry

if TYPE_CHECKING:
    from ..protocols.backend import Backend


FOR_PEOPLE = ("platform", "cpu_count", "thread_variables")
"""Entries for people, on which the bits do not depend."""


def environment(backends: Iterable[Backend] = ()) -> dict[str, Any]:
    """Return the environment of this process and these backends; resuming is bit for bit the same in an equal one."""
    import numpy as np

    threads = ("NACRE_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    deciding = ("OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES")  # which of their kernels the libraries use
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        **{name: _version(name) for plugin in registry().plugins() for name in plugin.libraries},
        "nacre": _version("nacre"),
        "platform": platform.platform(),
        "libc": " ".join(platform.libc_ver()),
        "processor": _processor(),
        "cpu_count": os.cpu_count(),
        "thread_variables": {name: os.environ[name] for name in threads if name in os.environ},
        "variables": {name: os.environ[name] for name in deciding if name in os.environ},
        "backends": {
            backend.name: answered(backend, "environment", backend.environment(), Mapping, "a dict")
            for backend in backends
        },
    }


def flat_environment(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries on which the bits depend: {"numpy": version, "backend numpy: threads": 4, ...}."""
    backends = cast("dict[str, dict[str, Any]]", environment.get("backends", {}))
    flat = {key: value for key, value in environment.items() if key not in (*FOR_PEOPLE, "backends")}
    for name, entries in backends.items():
        flat |= {f"backend {name}: {key}": value for key, value in entries.items()}
    return flat


@lru_cache
def _version(distribution: str) -> str:
    """Return the version of a distribution, looked up once: what is installed later is not what this process runs."""
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


@lru_cache
def _processor() -> str:
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
