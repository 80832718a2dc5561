"""Records on the way to a file on this machine or at a URL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nacre import Field, Store, Writer, uploading
from nacre.files import is_url


def create_records(store: Store, target: str | Path, fields: Mapping[str, Field]) -> Writer:
    """Begin a file with these fields; at a URL it is uploaded when it is complete.

    Raises:
        DataError: as `Store.create`.
    """
    if isinstance(target, Path) or not is_url(target):
        return store.create(Path(target), fields)
    return UploadedWriter(store, target, fields)


class UploadedWriter(Writer):
    """A file that is uploaded when it is complete."""

    def __init__(self, store: Store, url: str, fields: Mapping[str, Field]) -> None:
        with ExitStack() as stack:
            self.writer = store.create(stack.enter_context(uploading(url)), fields)
            self.upload = stack.pop_all()

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        self.writer.append(rows, keys)

    def close(self, commit: bool) -> None:
        with self.upload:
            self.writer.close(commit)
