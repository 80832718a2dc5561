"""nacre's plugin for pytest: fixtures for authors of plugins, and a report of what the conformance kit has checked.

pytest loads it by itself where nacre is installed (`-p no:nacre` leaves it out). It imports nothing of nacre, nor
NumPy, until a test uses it.
"""

from __future__ import annotations

import importlib
import sys
import textwrap
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..discovery.registry import Registry
    from .suite import Checks

MANY = 10
"""Suites that are told one by one; of more, only with -v."""
FakeDistribution = Callable[..., Path]
"""The type of the fixture `fake_distribution`."""


def use_registry(patch: pytest.MonkeyPatch, registry: Registry | None) -> None:
    """Make this the registry of the process, which has not opened a backend yet; None means one as at the start."""
    patch.setattr("nacre.discovery.registry._registry", registry)
    patch.setattr("nacre.protocols.backend._opened", {})


@pytest.fixture
def nacre_registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Return an empty registry, which takes the place of the process's until the test ends; it finds no plugins."""
    from ..discovery.registry import Registry

    registry = Registry(discover=False)
    use_registry(monkeypatch, registry)
    return registry


@pytest.fixture
def fake_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[FakeDistribution]:
    """Return a function that puts a distribution on `sys.path` until the test ends, as if it were installed.

    `fake_distribution(files, entry_points, name=..., version=..., metadata=...)` takes the texts of files by their
    paths and entry points of the group `nacre.plugins` as {name: module}; it returns the folder. The name is that of
    the first entry point unless given; `metadata` are further lines of it, and `folder` is one for several. There is a
    RECORD of the files, as pip writes it. The process gets a new registry, which finds the distribution beside those
    that are installed.
    """
    before, own = set(sys.modules), set[str]()

    def make(
        files: Mapping[str, str],
        entry_points: Mapping[str, str],
        *,
        name: str = "",
        version: str = "1.0",
        metadata: str = "",
        folder: str = "",
    ) -> Path:
        name = name or next(iter(entry_points))
        own.update(Path(path).parts[0].removesuffix(".py") for path in files)
        root = tmp_path / (folder or f"site-{name}")
        info = f"{name.replace('-', '_')}-{version}.dist-info"
        lines = [f"{entry} = {module}" for entry, module in entry_points.items()]
        texts = {
            **{path: textwrap.dedent(text) for path, text in files.items()},
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}",
            f"{info}/entry_points.txt": "\n".join(["[nacre.plugins]", *lines, ""]),
        }
        record: list[str] = []
        for path, text in texts.items():
            file, data = root / path, text.encode()
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            digest = urlsafe_b64encode(sha256(data).digest()).decode().rstrip("=")
            record.append(f"{path},sha256={digest},{len(data)}\n")
        (root / info / "RECORD").write_text("".join([*record, f"{info}/RECORD,,\n"]), encoding="utf-8")
        if str(root) not in sys.path:
            monkeypatch.setattr(sys, "path", [str(root), *sys.path])
        importlib.invalidate_caches()
        use_registry(monkeypatch, None)
        return root

    yield make
    for module in set(sys.modules) - before:
        if module.partition(".")[0] in own:
            del sys.modules[module]


@pytest.fixture
def nacre_backend(request: pytest.FixtureRequest) -> str:
    """Return the name of a backend: the test runs once with each that can be used here."""
    return request.param


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests with the fixture `nacre_backend` on every backend."""
    if "nacre_backend" in metafunc.fixturenames:
        from .trial import backends

        metafunc.parametrize("nacre_backend", backends(), indirect=True)


# The report of the conformance kit


def _suite_of(item: object) -> type[Checks] | None:
    """Return the suite of the kit that a test belongs to, or None; nothing is imported to find out."""
    kit, cls = sys.modules.get("nacre.testing.suite"), getattr(item, "cls", None)
    return cls if kit is not None and isinstance(cls, type) and issubclass(cls, kit.Checks) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note in the report of a check which suite and check it is of; pytest-xdist carries that over."""
    report = yield
    suite, parent = _suite_of(item), item.parent
    if suite is not None and parent is not None:
        check = getattr(item, "originalname", item.name).removeprefix("test_")
        vars(report)["nacre"] = [
            parent.nodeid,
            check,
            suite.cases.get(check, 1),
            suite.expected_failures.get(check, ""),
        ]
    return report


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Count skipped checks by themselves: the report of the kit has their reasons, not pytest's summary."""
    kit = report.when == "call" and report.skipped and hasattr(report, "nacre") and not hasattr(report, "wasxfail")
    return ("checks skipped", "s", "SKIPPED") if kit else None


class NotRunError(Exception):
    """A check applies to what a suite tests, and pytest has not collected it."""


class NotCollected(pytest.Item):
    """Fails in place of checks that apply to a suite and were not collected."""

    missing: Sequence[str] = ()

    @classmethod
    def of(cls, suite: Any, missing: Sequence[str]) -> NotCollected:
        """Make the item for a suite that pytest has collected."""
        made: NotCollected = super().from_parent(suite, name="all_checks")  # pyright: ignore[reportUnknownMemberType]
        made.missing = missing
        return made

    def runtest(self) -> None:
        """Raise an error with the names of the checks."""
        raise NotRunError(
            f"{self.name}: the checks {', '.join(self.missing)} apply, but pytest has not collected them; look at "
            "python_functions in its settings"
        )

    def repr_failure(self, excinfo: Any, *_: Any, **__: Any) -> str:
        """Return the error's sentence."""
        return str(excinfo.value)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let a suite fail of which some checks were not collected, unless only some were asked for."""
    if any("::" in argument for argument in config.args):
        return
    found: dict[Any, set[str]] = {}
    for item in items:
        if _suite_of(item) is not None:
            found.setdefault(item.parent, set()).add(getattr(item, "originalname", item.name))
    for parent, tests in found.items():
        if missing := [name for name in parent.obj.required() if f"test_{name}" not in tests]:
            items.append(NotCollected.of(parent, missing))


@dataclass
class Told:
    """What became of the tests of one suite."""

    outcomes: Counter[str] = field(default_factory=Counter[str])
    reasons: Counter[str] = field(default_factory=Counter[str])

    def lines(self, name: str) -> Iterable[str]:
        """Yield "TestDouble: ran 46, skipped 3" and the reasons, each with how often it was given."""
        ran, skipped = self.outcomes.total() - self.outcomes["skipped"], self.outcomes["skipped"]
        counts = [f"ran {ran}", f"skipped {skipped}"]
        failed = ("failed", "failed as expected")
        counts += [f"{self.outcomes[outcome]} {outcome}" for outcome in failed if self.outcomes[outcome]]
        yield f"{name}: {', '.join(counts)}"
        yield from (f"  {count} skipped: {reason}" for reason, count in sorted(self.reasons.items()))


class Report:
    """What the suites of the kit have checked in this session; on a machine with several processes, in all of them."""

    def __init__(self) -> None:
        self.suites: dict[str, Told] = {}
        self.expected: dict[tuple[str, str], tuple[int, str, Counter[str]]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the result of a test."""
        told: tuple[str, str, int, str] | None = getattr(report, "nacre", None)
        if told is None or (report.when != "call" and report.passed):
            return
        suite, check, cases, reason = told
        outcome: str = report.outcome
        if report.skipped:
            outcome = "failed as expected" if hasattr(report, "wasxfail") else "skipped"
        mine = self.suites.setdefault(suite, Told())
        mine.outcomes[outcome] += 1
        if outcome == "skipped":
            place: Any = report.longrepr
            mine.reasons[str(place[2]).removeprefix("Skipped: ")] += 1
        if reason and cases > 1:
            self.expected.setdefault((suite, check), (cases, reason, Counter()))[2][outcome] += 1

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Report a failure for every check that was expected to fail and has passed in all cases."""
        result = yield
        for (suite, check), (cases, reason, outcomes) in self.expected.items():
            if outcomes["passed"] and outcomes["passed"] + outcomes["skipped"] == cases:
                report = pytest.TestReport(
                    nodeid=f"{suite}::test_{check}",
                    location=(suite.partition("::")[0], None, f"{suite.rpartition('::')[2]}.test_{check}"),
                    keywords={},
                    outcome="failed",
                    longrepr=f"{suite}: '{check}' is expected to fail ({reason}), but all its "
                    f"{outcomes['passed']} cases pass: take it out of expected_failures",
                    when="call",
                )
                session.config.hook.pytest_runtest_logreport(report=report)
        return result

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print for every suite how many tests ran and were skipped, and why; with -q only those of which some were.

        Many suites are told in one line.
        """
        level = terminalreporter.verbosity
        told = {name: one for name, one in self.suites.items() if one.reasons or level >= 0}
        if told:
            terminalreporter.section("nacre's conformance kit")
        if len(told) > MANY and level < 1:
            whole = Told()
            for one in told.values():
                whole.outcomes += one.outcomes
            (line,) = whole.lines(f"{len(told)} suites")
            terminalreporter.write_line(f"{line} (-v lists them)")
            return
        for name, one in told.items():
            for line in one.lines(name):
                terminalreporter.write_line(line)


def pytest_configure(config: pytest.Config) -> None:
    """Keep a report in the process that tells the results."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Report(), "nacre-report")
