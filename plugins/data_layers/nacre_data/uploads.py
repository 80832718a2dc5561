"""Records on the way to a file on this machine or at a URL."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from nacre import Field, Store, Writer, may_reach
from nacre.files import is_url, upload


def create_records(store: Store, target: str | Path, fields: Mapping[str, Field]) -> Writer:
    """Begin a file with these fields; at a URL it is uploaded when it is complete.

    Raises:
        DataError: as `Store.create`.
    """
    if isinstance(target, Path) or not is_url(target):
        return store.create(Path(target), fields)
    return UploadedWriter(store, target, fields)


class UploadedWriter(Writer):
    """A file in a temporary folder, which is uploaded when it is complete."""

    def __init__(self, store: Store, url: str, fields: Mapping[str, Field]) -> None:
        self.url = url
        self.folder = Path(tempfile.mkdtemp(prefix="nacre-upload-"))
        self.path = self.folder / PurePosixPath(urlsplit(url).path or "/records").name
        try:
            self.writer = store.create(self.path, fields)
        except BaseException:
            shutil.rmtree(self.folder)
            raise

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        self.writer.append(rows, keys)

    def close(self, commit: bool) -> None:
        if not self.folder.exists():
            return
        try:
            self.writer.close(commit)
            if commit:
                upload(self.path, self.url, may_reach(self.url))
        finally:
            shutil.rmtree(self.folder)
