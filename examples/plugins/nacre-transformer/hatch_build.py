"""Compiles the flash kernel when a wheel is built, or an editable install: hatchling calls it.

Without a C compiler, and on other systems than Linux, nothing is compiled, and attention is computed by the layer's own
state. `CC` names another compiler, `CFLAGS` further options for it.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("nacre_transformer/native")
NAME = "_flash.so"
FLAGS = ["-std=gnu11", "-O3", "-fno-trapping-math", "-fno-math-errno", "-fvisibility=hidden", "-fPIC", "-Wall"]
KINDS = {
    "any": [],
    "avx2": ["-mavx2", "-mfma"],
    "avx512": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mfma", "-mprefer-vector-width=512"],
}


class FlashHook(BuildHookInterface):
    """Adds the compiled kernel to the wheel, whose tag then names the platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile: for an editable install in the checkout, and for a wheel elsewhere, so that the checkout stays."""
        folder = Path(self.root) / FOLDER
        self.elsewhere = tempfile.TemporaryDirectory()
        target = folder / NAME if version == "editable" else Path(self.elsewhere.name) / NAME
        if reason := compile_flash(folder, target):
            self.app.display_warning(f"the flash kernel is left out: {reason}")
            return
        if version != "editable":
            build_data["force_include"][str(target)] = f"{FOLDER}/{NAME}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was compiled elsewhere."""
        self.elsewhere.cleanup()


def compile_flash(folder: Path, target: Path) -> str:
    """Compile flash.c for each kind of processor, and dispatch.c; return the reason if it is not done, or ""."""
    if sys.platform != "linux":
        return f"it is not compiled on {sys.platform}"
    compiler = shlex.split(os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or "")
    if not compiler:
        return "there is no C compiler"
    flags = [*FLAGS, *shlex.split(os.environ.get("CFLAGS", ""))]
    kinds = KINDS if platform.machine() in ("x86_64", "AMD64") else {"any": []}
    with tempfile.TemporaryDirectory() as objects:
        steps = [
            [*compiler, *flags, *more, f"-DKIND={kind}", "-c", str(folder / "flash.c"), "-o", f"{objects}/{kind}.o"]
            for kind, more in kinds.items()
        ]
        made = [step[-1] for step in steps]
        last = [*compiler, *flags, "-shared", str(folder / "dispatch.c"), *made, "-o", str(target), "-lm"]
        for command in [*steps, last]:
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            except OSError as error:
                return f"the compiler cannot be run: {error}"
            if done.returncode:
                target.unlink(missing_ok=True)  # of other sources
                return f"the compiler failed: {done.stderr.strip()}"
    return ""
