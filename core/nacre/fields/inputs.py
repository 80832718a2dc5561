"""The files that a layer reads: on this machine, or fetched from a host that a net file may fetch from."""

from __future__ import annotations

from pathlib import Path

from ..files.remote import fetch, is_url
from .outputs import may_reach


def local_file(given: str | Path) -> Path:
    """Return the path of a file or folder; that of a URL is copied to this machine, or was before.

    Raises:
        ConfigError: the net file that names this URL may not fetch from its host.
        DataError: the file cannot be fetched.
    """
    if isinstance(given, Path) or not is_url(given):
        return Path(given)
    return fetch(given, may_reach(given))
