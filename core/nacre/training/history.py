"""History: the losses and statistics of a training over its iterations, phase by phase."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import nan
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ..errors import ConfigError, brief, nearest

if TYPE_CHECKING:
    import numpy as np

MOST = 1000
"""Rows that a phase has at most: of longer trainings every 2nd, 4th, 8th, ... row is kept, and the last."""

Statistics = dict[str, dict[str, float]]


class NoCurveError(ConfigError, KeyError):
    """A history has no such phase, or a phase no such column; mappings raise a KeyError."""


class Told(dict[str, Any]):
    """A dict that answers a key that it has not with what it has; `remedies` are for such keys, by "" for others."""

    def __init__(self, found: Mapping[str, Any], what: str, remedies: Mapping[str, str] | None = None) -> None:
        super().__init__(found)
        self._what, self._remedies = what, remedies or {}

    def __missing__(self, key: object) -> NoReturn:
        raise NoCurveError(
            f"{self._what} has no {brief(key)}{nearest(key, self)}; it has {', '.join(self) or 'nothing yet'}",
            self._remedies.get(str(key), self._remedies.get("", "")),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self), self._what, self._remedies)


VALIDATE = "a callback that validates makes it, such as ValidationPerformance(every_n_epoch=1)"
REMEDIES = {
    "validation": f"{VALIDATE}; in net.fit(x, y, ...) it is validation=0.2", "test": VALIDATE,
    "": "each phase has its columns: history['train']['loss']",
}  # fmt: skip
"""What makes a phase of a history; by "" what to write for something else."""


class Row(NamedTuple):
    """What one summary (phase `train`) or one validation found: means since the last, or over all records."""

    iteration: int
    epoch: int
    loss: float
    statistics: Statistics


class Curve:
    """The rows of one phase. `every` is how many rows one that is kept stands for: it is the last of them."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.every, self.count = 1, 0

    def add(self, row: Row) -> None:
        """Add a row behind the others."""
        if self.count % self.every and self.rows:
            self.rows[-1] = row
        else:
            if len(self.rows) == MOST:
                self.rows = self.rows[1::2]
                self.every *= 2
            self.rows.append(row)
        self.count += 1

    def columns(self) -> dict[str, np.ndarray]:
        """Return an array for iteration, epoch, loss and each statistic; NaN where a row has no such statistic."""
        import numpy as np

        names = dict.fromkeys(
            (layer, name) for row in self.rows for layer, some in row.statistics.items() for name in some
        )
        found = {
            "iteration": np.array([row.iteration for row in self.rows], np.int64),
            "epoch": np.array([row.epoch for row in self.rows], np.int64),
            "loss": np.array([row.loss for row in self.rows], np.float64),
        }
        for layer, name in names:
            values = [row.statistics.get(layer, {}).get(name, nan) for row in self.rows]
            found[f"{layer}/{name}"] = np.array(values, np.float64)
        return found


class Last:
    """What a training found last, for policies and callbacks: it survives a restart, as text, whatever the numbers are.

    Args:
        values: returns what can be read now, as JSON can hold it.
        restore: gets it back.
    """

    def __init__(self, values: Callable[[], Any], restore: Callable[[Any], None]) -> None:
        self._values, self._restore = values, restore

    def memory(self) -> Mapping[str, Any]:
        """Return it as text."""
        return {"found": json.dumps(self._values(), default=float)}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Restore what `memory` returned."""
        self._restore(json.loads(memory["found"]))


class History:
    """The curves of a training: they grow with the events "summary" and "validation", and survive a restart."""

    def __init__(self) -> None:
        self.curves: dict[str, Curve] = {}

    def on_event(self, event: str, data: Mapping[str, Any]) -> None:
        """Keep the numbers of an event, if it has any."""
        if event in ("summary", "validation"):
            phase = data.get("phase", "train")
            self.add(phase, data["iteration"], data["epoch"], data.get("loss", nan), data.get("statistics", {}))

    def add(self, phase: str, iteration: int, epoch: int, loss: float, statistics: Statistics) -> None:
        """Add a row to the curve of a phase."""
        self.curves.setdefault(phase, Curve()).add(Row(iteration, epoch, float(loss), statistics))

    def columns(self) -> dict[str, dict[str, np.ndarray]]:
        """Return the columns of each phase; whoever asks for others is told what there is."""
        found = {
            phase: Told(curve.columns(), f"phase '{phase}' of the history") for phase, curve in self.curves.items()
        }
        return Told(found, "the history", REMEDIES)

    def last(self, phase: str) -> Row | None:
        """Return the last row of a phase."""
        return self.curves[phase].rows[-1] if phase in self.curves else None

    def memory(self) -> Mapping[str, Any]:
        """Return all rows as text, because numbers that are not finite are no reason to save no snapshot."""
        return {
            phase: json.dumps({"every": curve.every, "count": curve.count, "rows": curve.rows})
            for phase, curve in self.curves.items()
        }

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Restore what `memory` returned."""
        self.curves = {}
        for phase, text in memory.items():
            saved, curve = json.loads(text), Curve()
            curve.every, curve.count = int(saved["every"]), int(saved["count"])
            rows = saved["rows"]
            curve.rows = [Row(int(one[0]), int(one[1]), float(one[2]), one[3]) for one in rows]
            self.curves[phase] = curve
