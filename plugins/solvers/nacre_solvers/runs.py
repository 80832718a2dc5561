"""The curves of trainings that are over: from their logs, statistics, tables of learning curves, and snapshots."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from math import nan
from pathlib import Path
from typing import Any

from nacre import Curve, DataError, NacreError, Snapshot, load_snapshot, where_it_is
from nacre.files import os_errors

from .learning_curve import HEAD, remembered_points
from .listener import numbers
from .statistics_store import read_statistics

Points = dict[tuple[str, str], dict[int, float]]
"""The values by iteration of each (phase, what): ("validation", "accuracy/accuracy"), ("training", "loss")."""

EVENT = b'{"event": "'
"""How each line of a log begins."""

SKIPPED = re.compile(r"rate|momentum|images_per_second|(.*/)?(records|\d+_as_\d+)")
"""What is no curve to look at: a pair of classes, the number of records."""


def read_run(path: Path) -> Points:
    """Return the curves of a training.

    `path` is a log (`nacre train --log`, JSONLog), the file of a StatisticsStore, the table of a LearningCurve, or a
    snapshot or a folder of them, which have the history of their training, and know what LearningCurve has seen.

    Raises:
        NacreError: it cannot be read, or is something else.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file or folder", where_it_is(path))
    if path.suffix == ".toml":
        raise DataError(
            f"{path}: a net file has no curves", "plot the folder of its snapshots, such as snapshots/pets, or its log"
        )
    if path.is_dir() or path.suffix not in (".json", ".jsonl", ".csv"):
        found = _of_snapshot(load_snapshot(path))
    else:
        with os_errors(path, "cannot be read", DataError):
            data = path.read_bytes()
        if data.startswith(EVENT):
            found = _of_log(path, data)
        elif data.startswith(HEAD):
            found = _of_table(path, data)
        else:
            try:
                found = _of_statistics(read_statistics(path))
            except NacreError as error:
                raise DataError(
                    f"{path}: this is not the log, the statistics or the learning curve of a training",
                    "plot snapshots, or what JSONLog, StatisticsStore or LearningCurve has written",
                ) from error
    kept = {name: points for name, points in found.items() if points and not SKIPPED.fullmatch(name[1])}
    if not kept:
        raise DataError(
            f"{path}: it has no losses and no statistics",
            "callbacks of a training write them: add a TrainingSummary or a ValidationPerformance to the net file "
            '([[callback]] with type = "TrainingSummary"), and train again',
        )
    return kept


def curve_of(points: Mapping[int, float]) -> Curve:
    """Return points in the order of their iterations."""
    return sorted(points), [points[iteration] for iteration in sorted(points)]


def _name(flat: str) -> tuple[str, str]:
    """Return the phase and the rest of a name such as "train/loss"."""
    phase, _, what = flat.partition("/")
    return "training" if phase == "train" else phase, what


def _of_log(path: Path, data: bytes) -> Points:
    """Return the curves of the last training in a log; those that it continues count up to where it begins."""
    found: Points = {}
    for event in _lines(path, data):
        try:
            if event.get("event") == "start":
                begin = int(event.get("iteration", 0))
                for points in found.values():
                    for iteration in [one for one in points if one > begin or not begin]:
                        del points[iteration]
            for name, value in numbers(str(event.get("event")), event):
                found.setdefault(_name(name), {})[int(event["iteration"])] = nan if value is None else float(value)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: {event!r:.80} is no event of a training", "use the log of a training") from error
    return found


def _lines(path: Path, data: bytes) -> Iterator[dict[str, Any]]:
    lines = data.splitlines()
    end = b"" if data.endswith(b"\n") else EVENT
    for number, (line, after) in enumerate(zip_longest(lines, lines[1:], fillvalue=end), 1):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError) as error:
            if after.startswith(EVENT):  # the training was killed while it wrote; another one may go on
                continue
            raise DataError(f"{path}: line {number} is not JSON: {error}", "use the log of a training") from error


def _of_statistics(statistics: Mapping[str, Mapping[str, float | None]]) -> Points:
    return {
        _name(name): {int(iteration): nan if value is None else value for iteration, value in values.items()}
        for name, values in statistics.items()
    }


def _of_table(path: Path, data: bytes) -> Points:
    """Return the curves of a table that a LearningCurve wrote: "validation loss", "validation accuracy/error"."""
    head, *rows = csv.reader(data.decode("utf-8", "replace").splitlines())
    found: Points = {}
    for column, name in enumerate(head[1:], 1):
        phase, _, what = name.partition(" ")
        try:
            found[phase, what if "/" in what or what == "loss" else f"{what}/{what}"] = {
                int(row[0]): float(row[column]) for row in rows if row[column]
            }
        except (ValueError, IndexError) as error:
            raise DataError(f"{path}: this is not the table of a learning curve: {error}") from error
    return found


def _of_snapshot(snapshot: Snapshot) -> Points:
    found: Points = {}
    memory: Mapping[str, Any] = snapshot.state.get("memory", {})
    start = "memory/callback.LearningCurve/"
    arrays = {name.removeprefix(start): array for name, array in snapshot.arrays.items() if name.startswith(start)}
    if curve := {**memory.get("callback.LearningCurve", {}), **arrays}:
        found["training", "loss"] = dict(zip(*remembered_points(curve), strict=True))
    for phase, text in memory.get("history", {}).items():
        for iteration, _, loss, statistics in json.loads(text)["rows"]:
            data = {"phase": phase, "loss": loss, "statistics": statistics}
            for name, value in numbers("summary" if phase == "train" else "validation", data):
                found.setdefault(_name(name), {}).setdefault(int(iteration), value)
    return found
