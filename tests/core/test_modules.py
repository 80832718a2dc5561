"""Every file of the core and the plugins can be imported: names that doors give are looked up only then."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(
    path.relative_to(above)
    for above in (ROOT / "core", *(ROOT / "plugins").iterdir())
    for path in above.glob("nacre*/**/*.py")
    if path.stem != "__main__" and "templates" not in path.parts  # packages of others, as they begin
)


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_file_can_be_imported(file: Path) -> None:
    importlib.import_module(".".join(file.with_suffix("").parts).removesuffix(".__init__"))
