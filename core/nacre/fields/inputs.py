"""The files that a layer reads: on this machine, or fetched from a host that a net file may fetch from."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from ..errors import ConfigError
from ..files.remote import fetch, is_at, is_url, shown
from .types import URL


def local_file(given: str | Path) -> Path:
    """Return the path of a file or folder; that of a URL is copied to this machine, or was before.

    Raises:
        ConfigError: the net file that names this URL may not fetch from its host.
        DataError: the file cannot be fetched.
    """
    if isinstance(given, Path) or not is_url(given):
        return Path(given)
    permission = given.permission if isinstance(given, URL) else None
    if permission is None:
        return fetch(given)
    if not is_at(given, permission.hosts):
        parts = urlsplit(given)
        host = parts.hostname if parts.scheme.lower() in ("http", "https") else f"{parts.scheme}://{parts.netloc}"
        raise ConfigError(
            f"a net file may fetch only from hosts that you allow, but this one names {shown(given)}",
            f"if you trust the file, allow it with --allow-remote {host} (in Python load(..., allow_remote=[...]), for "
            "every net allow_remote in your own nacre.toml)",
        )
    return fetch(given, lambda url: is_at(url, permission.hosts))
