"""Writes docs/tutorials/notebook.ipynb from notebook.md beside it: python docs/make_notebook.py."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "tutorials" / "notebook.md"


def text() -> str:
    """Return the notebook: a cell for each code block, and one for the text between two."""
    parts = re.split(r"^```python\n(.*?)^```\n", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
    cells = [_cell(number, part.strip()) for number, part in enumerate(parts)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def _cell(number: int, part: str) -> dict[str, Any]:
    if number % 2:
        code = {"cell_type": "code", "execution_count": None, "outputs": []}
    else:
        code = {"cell_type": "markdown"}
        part = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", part)  # a notebook is read where the other pages are not
    return {**code, "id": f"cell-{number}", "metadata": {}, "source": part.splitlines(keepends=True)}


if __name__ == "__main__":
    PAGE.with_suffix(".ipynb").write_text(text(), encoding="utf-8")
