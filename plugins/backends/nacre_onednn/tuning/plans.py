"""Plans on disk: what was fastest for a net on this machine, so that its next start has nothing to try.

They lie as JSON in `nacre/onednn` below XDG_CACHE_HOME, or ~/.cache; NACRE_CACHE names another folder than `nacre`
there, and keeps none where it is empty. The folder need not exist, nor be writable.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from nacre import environment, table_of

from ..kernels.base import OnednnKernel

OF_ONE = ("name", "bottoms", "tops", "_init", "_regu", "_cons", "_lr")
"""Ends of the names of fields that do not change how long a layer takes."""


MOST_BYTES = 1 << 20
"""The most bytes of a plan's file."""


def folder() -> Path | None:
    """Return the folder of the plans, or None if none are kept."""
    given = os.environ.get("NACRE_CACHE")
    if given is not None:
        return Path(given) / "onednn" if given else None
    home = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(home) if home else Path("~/.cache").expanduser()) / "nacre" / "onednn"
    except RuntimeError:  # the home folder is unknown
        return None


def key_of(kernels: Sequence[OnednnKernel], machine: Mapping[str, Any]) -> dict[str, Any]:
    """Return all that decides which plan is fastest: layers, shapes, what is computed, and on which machine."""
    here = environment()
    return {
        "nacre": here["nacre"],
        "processor": here["processor"],
        **machine,
        "layers": [{**table_of(kernel.layer), "name": kernel.layer_name, **_work_of(kernel)} for kernel in kernels],
    }


def _work_of(kernel: OnednnKernel) -> dict[str, Any]:
    return {
        "compute": kernel.backend.compute,
        "shapes": [list(blob.shape) for blob in (*kernel.inputs, *kernel.blobs)],
        "parts": kernel.stages(),  # the word in files that exist
        "keeps": kernel.keeps,
        "relu": kernel.relu,  # which may be that of a layer behind it
        "adds": kernel.adds,  # as the sum behind it would
    }


def likeness(kernel: OnednnKernel) -> str:
    """Return a text that is equal for kernels of a net that take the same time."""
    fields = {name: value for name, value in table_of(kernel.layer).items() if not name.endswith(OF_ONE)}
    layouts = [blob.layout for blob in (*kernel.inputs, *kernel.blobs)]
    code = [type(kernel).__module__, type(kernel).__qualname__]
    return json.dumps([code, fields, layouts, _work_of(kernel)], sort_keys=True, default=repr)


class Kept:
    """The file of a plan.

    Args:
        key: what `key_of` gives; the file has its digest for a name.
    """

    def __init__(self, key: Mapping[str, Any]) -> None:
        self.key = json.loads(json.dumps(key, default=repr))  # as it comes back from a file
        digest = sha256(json.dumps(self.key, sort_keys=True).encode()).hexdigest()[:32]
        where = folder()
        self.path = None if where is None else where / f"{digest}.json"

    def read(self) -> dict[str, Any]:
        """Return the plan, or an empty one if there is none that can be read."""
        if self.path is None:
            return {}
        try:
            with self.path.open("rb") as file:
                found: Any = json.loads(file.read(MOST_BYTES))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(found, dict) or found.get("key") != self.key or not isinstance(found.get("plan"), dict):
            return {}
        return cast("dict[str, Any]", found["plan"])

    def write(self, plan: Mapping[str, Any]) -> None:
        """Write a plan, whole or not at all; if it cannot be written, the next start tries again."""
        if self.path is None:
            return
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self.path.parent, suffix=".new")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump({"key": self.key, "plan": plan}, file, indent=1)
                Path(temporary).replace(self.path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
