"""What holds for all tests, and for several."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def no_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the developer's own settings and caches out of the tests, and out of the processes that they start."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        folder = tmp_path_factory.mktemp("config")
        monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
        monkeypatch.setenv("NACRE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield folder
