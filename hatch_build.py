"""Compiles the onednn backend's helper when a wheel is built, or an editable install: hatchling calls it.

Without a C compiler, and on other systems than Linux, nothing is compiled: the wheel is for every platform then, and
the backend does the same work through ctypes and NumPy. `CC` names another compiler, `CFLAGS` further options for it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("plugins/backends/nacre_onednn/helper")
NAME = "_helper.so"
# Nobody asks which exceptions a float raised, nor reads errno, so loops that choose between numbers become vectors.
BITS = ["-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno"]
FLAGS = ["-std=gnu11", "-O3", *BITS, "-fvisibility=hidden", "-fPIC", "-Wall", "-Wextra"]


class HelperHook(BuildHookInterface):
    """Adds the compiled helper to the wheel, whose tag then names the platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile: for an editable install in the checkout, and for a wheel elsewhere, so that the checkout stays."""
        folder = Path(self.root) / FOLDER
        self.elsewhere = tempfile.TemporaryDirectory()
        helper = folder / NAME if version == "editable" else Path(self.elsewhere.name) / NAME
        if reason := compile_helper(folder, helper):
            self.app.display_warning(f"the onednn backend's helper is left out: {reason}")
            return
        if version != "editable":
            build_data["force_include"][str(helper)] = f"nacre_onednn/{FOLDER.name}/{NAME}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled elsewhere."""
        self.elsewhere.cleanup()


def compile_helper(folder: Path, target: Path) -> str:
    """Compile the C files of a folder as the helper; return the reason if it is not done, or ""."""
    reason = _compile(folder, made := target.with_name(f"{target.name}.{os.getpid()}"))
    if reason:
        made.unlink(missing_ok=True)
        target.unlink(missing_ok=True)  # of other sources
    else:
        made.replace(target)  # whoever loads the helper meanwhile has the old one or the new one
    return reason


def _compile(folder: Path, target: Path) -> str:
    if sys.platform != "linux":
        return f"it is not compiled on {sys.platform}"
    compiler = shlex.split(os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or "")
    if not compiler:
        return "there is no C compiler"
    flags = [*FLAGS, *shlex.split(os.environ.get("CFLAGS", ""))]  # the last of two that contradict counts
    with tempfile.TemporaryDirectory() as objects, ThreadPoolExecutor(os.cpu_count()) as pool:
        sources = sorted(folder.glob("*.c"), reverse=True)  # those that take longest begin
        made = {source: f"{objects}/{source.stem}.o" for source in sources}
        commands = [[*compiler, *flags, "-c", str(source), "-o", object_] for source, object_ in made.items()]
        failed = next(filter(None, pool.map(_run, commands)), "")
        return failed or _run([*compiler, *flags, "-shared", *made.values(), "-o", str(target), "-lm"])


def _run(command: list[str]) -> str:
    """Run a compiler; return the reason if it fails, or ""."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return f"the compiler cannot be run: {error}"
    return "" if done.returncode == 0 else f"the compiler failed: {done.stderr.strip()}"
