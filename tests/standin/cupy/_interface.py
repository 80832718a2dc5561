"""What the real CuPy has, as `record.py` has found it."""

import json
from pathlib import Path

INTERFACE = json.loads((Path(__file__).parents[1] / "interface.json").read_text(encoding="utf-8"))
