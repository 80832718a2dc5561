"""StatisticsStore: the statistics of a training over its iterations, in one file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from nacre import (
    Callback,
    CallbackState,
    ConfigError,
    NacreError,
    OutputPath,
    PerNet,
    Training,
    default,
    non_negative,
    output_place,
    own_output,
    replace_output,
)
from nacre.files import finite, os_errors

from .listener import ListenerState, numbers


class StatisticsStore(Callback):
    """Keeps the statistics of summaries and validations: {"train/loss": {"100": 0.53, "200": 0.4}, ...}.

    They come from the callbacks `TrainingSummary` and `ValidationPerformance`. The JSON file is written at intervals
    and at the end, completely or not at all. The file of another training is replaced; with `if_exists="merge"` its
    values stay, except for the same statistic of the same iteration. A resumed training always merges. A file that
    holds something else is an error, except with "overwrite". After Mocha.jl's coffee lounge, which merges by default.

    Raises:
        NacreError: the file exists (`if_exists="refuse"`), is not one of these, is in use, or cannot be written.
    """

    runs_last = True
    on_every_rank = False
    outputs = ("path",)

    path: Annotated[OutputPath, "the file; relative to the working folder; in net.toml net-statistics.json"] = default(
        PerNet("statistics.json", "{net}-statistics.json")
    )
    every_n_iter: Annotated[int, non_negative, "iterations from one writing to the next; 0 for only at the end"] = 0
    if_exists: Annotated[Literal["merge", "overwrite", "refuse", "replace"], "what to do with an existing file"] = (
        "replace"
    )

    def start(self, training: Training) -> CallbackState:
        return StatisticsStoreState(self, training)


class StatisticsStoreState(ListenerState):
    """`StatisticsStore` in one training."""

    def __init__(self, callback: StatisticsStore, training: Training) -> None:
        super().__init__(callback, training)
        self.statistics: dict[str, dict[str, float]] = {}
        self.lock = own_output(callback.path)

    def begin(self) -> None:
        path, if_exists = output_place(self.path, is_statistics), self.callback.if_exists
        if self.training.resumed_from is not None:
            if_exists = "merge"
        if path.exists() and if_exists == "refuse":
            raise ConfigError(
                f"StatisticsStore: {self.path} exists already",
                "use another path, or if_exists='merge' or 'overwrite'",
            )
        if path.exists() and if_exists in ("merge", "replace"):
            found = read_statistics(path)  # which must be such a file in both cases
            self.statistics = found if if_exists == "merge" else {}
        self.write()

    def on_event(self, event: str, data: Mapping[str, Any]) -> None:
        for name, value in numbers(event, data):
            self.statistics.setdefault(name, {})[str(data["iteration"])] = value

    def write(self) -> None:
        replace_output(self.path, json.dumps(finite(self.statistics), indent=1).encode(), is_statistics)

    def run(self) -> None:
        self.attempt(self.write)

    def finish(self) -> None:
        self.attempt(self.write)

    def shutdown(self) -> None:
        self.lock.release()


def read_statistics(path: str | Path) -> dict[str, dict[str, float]]:
    """Read the file of a `StatisticsStore`: {statistic: {iteration: value}}; None is a value that is not finite.

    Raises:
        NacreError: the file cannot be read, or holds something else.
    """
    path = Path(path)
    with os_errors(path, "cannot be read", NacreError):
        data = path.read_bytes()
    try:
        return _parsed(data)
    except (ValueError, RecursionError) as error:
        raise NacreError(
            f"{path} does not hold the statistics of a training: {error}",
            "use another path, or if_exists='overwrite'",
        ) from error


def is_statistics(file: BinaryIO) -> bool:
    """Return whether a file was written by a `StatisticsStore`, judged by its form."""
    try:
        _parsed(file.read())
    except (ValueError, RecursionError):
        return False
    return True


def _parsed(data: bytes) -> dict[str, dict[str, float]]:
    found = json.loads(data)
    if not (isinstance(found, dict) and all(map(_is_curve, found.values()))):
        raise ValueError("its JSON has another form")
    return found


def _is_curve(values: Any) -> bool:
    """Return whether this is a dict {iteration: value}."""
    return isinstance(values, dict) and all(
        key.isdecimal() and (value is None or type(value) in (int, float)) for key, value in values.items()
    )
