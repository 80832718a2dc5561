"""What is written is read back; a file has its name when it is complete; damage is told."""

from __future__ import annotations

from nacre_new_store import NewName

from nacre import Field
from nacre.testing import StoreTests


class TestNewName(StoreTests):
    """Rows of three numbers."""

    store = NewName()

    def fields(self) -> dict[str, Field]:
        """Give the fields to test with."""
        return {"data": Field((3,), "float32")}
