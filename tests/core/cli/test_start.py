"""What commands import that only look around; `python -m benchmarks.start` measures the time that it takes."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

HEAVY = {
    *("numpy", "h5py", "lmdb", "cupy", "rich", "matplotlib", "PIL", "hypothesis"),
    # parts of the standard library that cost more than they give here
    *("json", "shutil", "traceback", "difflib", "tomllib", "subprocess", "socket", "asyncio", "logging", "tempfile"),
    *("email.parser", "email.policy", "email.headerregistry", "email.utils"),
}
# Of nacre only what the registry and the command line are made of.
OURS = {
    *("nacre", "nacre._version", "nacre.errors", "nacre.hooks", "nacre.text", "nacre.threads", "nacre.files"),
    "nacre.discovery",
    *(
        f"nacre.discovery.{name}"
        for name in ["discovery", "guard", "kernels", "lazy", "loading", "offers", "pins", "registry", "settings"]
    ),
    *(
        "nacre.cli",
        "nacre.cli.app",
        "nacre.cli.completion",
        "nacre.cli.options",
        "nacre.cli.screen",
        "nacre.cli.streams",
    ),
    *("nacre.cli.commands", "nacre.cli.commands.layers"),
    *("nacre_commands", "nacre_cupy", "nacre_layers", "nacre_data", "nacre_numpy", "nacre_onednn"),  # light modules
    *("nacre_parallel", "nacre_solvers"),
}


def imported(code: str, *arguments: str, besides: str = "import pluggy, importlib_metadata") -> set[str]:
    """Return the modules of a fresh process after `code`, beyond those that it has after `besides`."""
    report = "import sys, atexit; atexit.register(lambda: print('@', *sys.modules)); "
    found = []
    for source in (code, besides):
        command = [sys.executable, "-c", report + source, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(set(done.stdout.rpartition("@")[2].split()))
    return found[0] - found[1]


def test_listing_layers_imports_no_more_than_it_needs() -> None:
    found = imported("from nacre.cli import main; main()", "layers")
    assert "click" in found
    assert found & HEAVY == set()
    assert {name for name in found if name.startswith("nacre")} <= OURS


def test_listing_many_plugins_imports_their_light_modules_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT)
    importlib.import_module("benchmarks.start").write_packages(tmp_path, plugins=10, others=60)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    found = imported("from nacre.cli import main; main()", "layers")
    assert found & HEAVY == set()
    assert {name for name in found if name.startswith("nacre")} <= OURS
    assert {name for name in found if name.startswith("acme")} == {f"acme{number}" for number in range(10)}


def test_of_packages_that_are_no_plugins_one_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of plugins also name and version, and the light module, each once."""
    monkeypatch.syspath_prepend(ROOT)
    site = tmp_path / "site"
    importlib.import_module("benchmarks.start").write_packages(site, plugins=10, others=60)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(ROOT)]))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    code = """
import atexit, sys
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
atexit.register(lambda: print("opened:", *opened, sep="\\n"))
from nacre.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code, "layers"], capture_output=True, text=True, check=True)
    opened = [name for name in done.stdout.partition("opened:\n")[2].splitlines() if name.startswith(str(site))]
    files = Counter(Path(name).name for name in opened if not name.endswith(".pyc"))
    assert files == {"entry_points.txt": 70, "METADATA": 10, "direct_url.json": 10, "__init__.py": 10}
    assert len(opened) == len({*opened})


def test_importing_nacre_imports_no_library() -> None:
    found = imported("import nacre", besides="pass")
    assert {name for name in found if name.startswith("nacre")} == {"nacre", "nacre._version"}
    assert not found & {*HEAVY, "click", "pluggy", "importlib_metadata", "importlib.metadata", "dataclasses"}


def test_the_benchmark_runs() -> None:
    command = [sys.executable, "-m", "benchmarks.start", "--rounds", "1"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split("  ")[0] for line in lines[1:]] == [
        "import pluggy, importlib_metadata",
        "nacre layers",
        "nacre --version",
        "import nacre",
        "nacre layers, 200 more",
    ]
    assert lines[1].endswith("1.00 x")


def test_a_command_that_is_interrupted_while_it_is_imported_ends_without_a_word() -> None:
    code = (
        "import sys\nfrom nacre.cli import main\nclass Interrupt:\n    def find_spec(self, name, *_):\n"
        "        if name == 'nacre.cli.app':\n            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code, "layers"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
