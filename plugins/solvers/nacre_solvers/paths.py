"""Where callbacks write."""

from __future__ import annotations

import os
from typing import Any

from nacre import Converted


class OutputPath(Converted["str | os.PathLike[str]", str]):
    """A file or a folder to be written, relative to the working folder: not to the net file, which may be anybody's."""

    wants = "a path"

    @staticmethod
    def convert(value: Any) -> str:
        if not isinstance(value, str | os.PathLike) or not os.fspath(value):
            raise ValueError
        return str(os.fspath(value))
