"""Plans of cuDNN on disk, so that the next start has none to choose and to compile.

They lie in `nacre/cudnn` below XDG_CACHE_HOME, or ~/.cache; NACRE_CACHE names another folder than `nacre` there, and
keeps none where it is empty. The folder need not exist, nor be writable. A plan may hold code for the GPU, as do the
kernels that CuPy keeps in ~/.cupy.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from .plans import Plan

DIGEST = 32
"""Bytes of a digest, with which a file begins."""
MOST_BYTES = 1 << 26
"""The most bytes of a file."""


def folder() -> Path | None:
    """Return the folder of the plans, or None if none are kept."""
    given, home = os.environ.get("NACRE_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if given is not None:
        return Path(given) / "cudnn" if given else None
    try:
        return (Path(home) if home else Path("~/.cache").expanduser()) / "nacre" / "cudnn"
    except RuntimeError:  # the home folder is unknown
        return None


class KeptPlan:
    """The file of one plan; `key` is all that decides which it is."""

    def __init__(self, *key: Any) -> None:
        where, name = folder(), sha256(repr(key).encode()).hexdigest()[:DIGEST]
        self.path = None if where is None else where / f"{name}.plan"

    def read(self, cudnn: Any, handle: Any) -> tuple[Any, Plan] | None:
        """Return a graph with its plan, or None if there is none that can be read and used."""
        if self.path is None:
            return None
        with suppress(OSError, *_told_by(cudnn)):
            with self.path.open("rb") as file:
                whole = file.read(MOST_BYTES)
            digest, (name, workspace, data) = whole[:DIGEST], whole[DIGEST:].split(b"\n", 2)
            if sha256(whole[DIGEST:]).digest() == digest:
                graph = cudnn.pygraph(handle=handle)
                graph.deserialize(handle, list(data))
                return graph, Plan(name.decode(), int(workspace))
        return None

    def write(self, cudnn: Any, graph: Any, plan: Plan) -> None:
        """Write a plan, whole or not at all; if it cannot be written, the next start chooses one again."""
        if self.path is None:
            return
        with suppress(OSError, *_told_by(cudnn)):  # some plans cannot be serialized
            whole = f"{plan.name}\n{plan.workspace}\n".encode() + bytes(graph.serialize())
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self.path.parent, suffix=".new")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(sha256(whole).digest() + whole)
                Path(temporary).replace(self.path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise


def _told_by(cudnn: Any) -> tuple[type[Exception], ...]:
    """Return the classes of the errors that the frontend raises for a graph, and for data that are none."""
    return cudnn.cudnnGraphNotSupportedError, RuntimeError, ValueError
