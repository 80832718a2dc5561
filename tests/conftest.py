"""What holds for all tests, and for several."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from importlib_metadata import EntryPoint, entry_points

import cupy_standin
from forging import trials
from nacre.discovery.discovery import GROUP
from nacre.discovery.registry import Registry
from nacre.files import remote
from nacre.testing.kernels import KernelTests
from nacre.testing.suite import Suite
from registries import NewRegistry, use_registry

for name in ("NACRE_BACKEND", "NACRE_DISABLE_PLUGINS", "NACRE_NO_PLUGINS", "NACRE_PLUGINS"):
    os.environ.pop(name, None)  # the developer's own; here, since test files ask the registry while they are collected
cupy_standin.simulate()

# Under nohup, and behind a shell's `&`, all that the tests start would ignore these.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

collect_ignore = ["released"]  # packages with tests of their own, which test_released.py runs

# A busy machine is no fault of what is tested, so no test of properties looks at the clock. This is the one place:
# what a test sets besides (`max_examples`) it adds to this.
settings.register_profile("nacre", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("nacre")
Suite.max_examples = trials(3, 10)
KernelTests.max_examples = trials(3, 200)


@pytest.fixture(scope="session", autouse=True)
def no_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep the developer's own settings and caches out of the tests, and out of the processes that they start.

    What these leave in the folder of temporary files, such as those that are killed, goes with pytest's own folders.
    """
    with pytest.MonkeyPatch.context() as monkeypatch:
        folder = tmp_path_factory.mktemp("config")
        monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("tmp")))
        monkeypatch.setattr(tempfile, "tempdir", None)  # which is asked anew
        monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
        monkeypatch.setenv("NACRE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield folder


@cache
def installed(*path: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of the plugins on this `sys.path`: finding them is half of the work of a new registry."""
    return tuple(entry_points(group=GROUP))


@pytest.fixture
def new_registry(monkeypatch: pytest.MonkeyPatch) -> NewRegistry:
    """Return a function that gives the process another registry until the test ends: `new_registry(discover=False)`."""

    def make(**options: Any) -> Registry:
        registry = Registry(**{"entry_points": installed(*sys.path), **options})
        use_registry(monkeypatch, registry)
        return registry

    return make


LONGEST = (
    "test_doc_pages.py",
    "test_packaging.py",
    "test_third_party.py",
    "test_host_wheels.py",
    "test_growth.py",
    "test_foreign_memory.py",
    "test_snapshot_kill.py",
)


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is long
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the files that take longest come first: at the end one process would work on them while the others wait.

    A thousand steps of a layer on a backend are run with one example of each suite; the others are long tests. Tests of
    suites are marked as such.
    """
    items.sort(key=lambda item: item.path.name not in LONGEST)
    grown: set[tuple[Any, str]] = set()
    for item in items:
        if isinstance(item, pytest.Function) and item.cls is not None and issubclass(item.cls, Suite):
            item.add_marker(pytest.mark.suite)
        found = getattr(item, "callspec", None)
        if isinstance(item, pytest.Function) and item.originalname == "test_growth" and found is not None:
            key = item.cls, str(found.params.get("backend"))
            if key in grown:
                item.add_marker(pytest.mark.long)
            grown.add(key)


class Places(list[str]):
    """The names of all tests; where one stands is asked for each."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self.places = {name: place for place, name in enumerate(names)}

    def index(self, name: str) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.places[name]


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist nobody asks
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give out whole files as `--dist loadfile` does, but without what that does with all tests for each."""
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):
        def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
            super().add_node_collection(node, collection)
            self.registered_collections[node] = Places(collection)

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            super().mark_test_complete(node, item_index, duration)
            files = self.assigned_work[node]
            file = self._split_scope(self.registered_collections[node][item_index])
            if file in files and all(files[file].values()):
                del files[file]

    return Files(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[Any]:
    """Leave out of the reports of what passed, which go from process to process, what nobody reads."""
    report: pytest.TestReport = yield
    if report.passed:
        report.keywords = {}
    return report


@pytest.fixture(scope="module", autouse=True)
def frozen() -> None:
    """Let the collector of garbage leave alone what was there before a file: all tests, and modules that others use."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep copies of files at URLs in a folder of the test's, and let the locks on them end with it."""
    locks = remote.Locks()
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(remote, "_locks", locks)
    yield
    locks.close()
