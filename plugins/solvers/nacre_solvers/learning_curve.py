"""LearningCurve: a picture of the losses and statistics of a training."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from math import inf
from os import SEEK_END
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from nacre import (
    Callback,
    CallbackState,
    NacreError,
    OutputPath,
    PerNet,
    Training,
    default,
    is_of_class,
    own_output,
    replace_output,
)

from .summary import MeanLoss

POINTS = 100
"""Points of the training loss over a whole training: more would show the noise of single batches."""

ENDINGS = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".eps", ".ps")
"""Endings of the files that matplotlib can write."""

MARK = b"learning curve by nacre"
_TEXT = MARK.decode()
MARKED: dict[str, dict[str, Any]] = {
    "png": {"metadata": {"Software": _TEXT}},
    **{ending: {"metadata": {"Creator": _TEXT}} for ending in ("svg", "pdf", "eps", "ps")},
    **{ending: {"pil_kwargs": {"comment": MARK}} for ending in ("jpg", "jpeg")},
    **{ending: {"pil_kwargs": {"description": _TEXT}} for ending in ("tif", "tiff")},
    "webp": {"pil_kwargs": {"xmp": MARK}},
}
"""Matplotlib's options that write the mark into a file: a net file may replace only pictures with the mark."""
HEAD = b"iteration,training loss"
ENDS = 1 << 16
"""Bytes at each end of a file in which to look for the mark."""

Curve = tuple[list[int], list[float]]


class LearningCurve(Callback):
    """Draws the losses and the statistics over the iterations: at the end, and every `every_n_iter` iterations.

    A point of the training loss is the mean over a hundredth of the iterations; the rest comes from
    `ValidationPerformance`. If matplotlib is not installed, the same numbers are written as a table, with a warning.
    `training.info["curve"]` is the file's path.

    Raises:
        NacreError: another training draws this picture.
    """

    on_every_rank = False
    outputs = ("path",)

    path: Annotated[
        OutputPath,
        "the picture: .png, .svg or .pdf; relative to the working folder; in net.toml net-learning-curve.png",
    ] = default(PerNet("learning-curve.png", "{net}-learning-curve.png"))

    def complaints(self) -> Iterator[str]:
        if Path(self.path).suffix.lower() not in ("", *ENDINGS):
            yield f"path={self.path!r}, but its ending must be one of {', '.join(ENDINGS)}"

    def start(self, training: Training) -> CallbackState:
        return LearningCurveState(self, training)


class LearningCurveState(CallbackState):
    """`LearningCurve` in one training."""

    def __init__(self, callback: LearningCurve, training: Training) -> None:
        super().__init__(callback, training)
        self.mean_loss = MeanLoss(training)
        self.to_draw = False
        n_iter = training.solver.n_iter
        self.stride = 1 if n_iter == inf else max(1, int(n_iter) // POINTS)
        self.iterations: list[int] = []
        self.losses: list[float] = []
        self.warned: set[str] = set()
        self.lock = own_output(callback.path, is_curve)

    def begin(self) -> None:
        self.mean_loss.begin()

    def due(self, epochs: int) -> bool:
        self.to_draw = super().due(epochs)
        return self.to_draw or self.training.iteration % self.stride == 0

    def run(self) -> None:
        iteration = self.training.iteration
        if iteration % self.stride == 0:
            self.iterations.append(iteration)
            self.losses.append(self.mean_loss.take())
            if len(self.losses) == 2 * POINTS:  # only if the number of iterations was not known
                self.stride *= 2
                self.iterations[:] = self.iterations[1::2]
                self.losses[:] = [sum(pair) / 2 for pair in zip(self.losses[::2], self.losses[1::2], strict=True)]
        if self.to_draw:
            self.draw()

    def finish(self) -> None:
        self.draw()

    def shutdown(self) -> None:
        self.lock.release()

    def draw(self) -> None:
        """Write the picture, or the table; if that fails, only warn, because the training itself is all right."""
        path = self.callback.path
        losses: dict[str, Curve] = {"training": (self.iterations, self.losses)}
        shares: dict[str, Curve] = {}
        for phase, columns in self.training.history.items():
            if phase == "train":
                continue
            iterations, layers = columns["iteration"].tolist(), self.training.net.layers_in(phase)
            losses[phase] = (iterations, columns["loss"].tolist())
            for column, values in columns.items():
                layer, _, name = column.rpartition("/")
                if layer and name != "records" and not is_of_class(layers, layer, name):
                    shares[f"{phase} {name if name == layer else column}"] = (iterations, values.tolist())
        try:
            try:
                data = picture(self.training.net.name, losses, shares, Path(path).suffix[1:] or "png")
            except ImportError:
                path = path.renamed(Path(path).with_suffix(".csv"))
                data = table(losses, shares)
                self.warn(
                    f"matplotlib is not installed, so the learning curve is a table, {path}: pip install 'nacre[plots]'"
                )
            replace_output(path, data, is_curve)
        except (NacreError, ValueError) as error:  # ValueError: matplotlib does not know the format
            self.warn(f"{path}: the learning curve cannot be written: {error}")
        else:
            self.training.info["curve"] = str(path)

    def warn(self, message: str) -> None:
        """Warn, but only once with the same message: the next drawing fails for the same reason."""
        if message not in self.warned:
            self.warned.add(message)
            self.training.warn(message)

    def memory(self) -> Mapping[str, Any]:
        """Return all points as text, because losses that are not finite are no reason to save no snapshot."""
        return {"points": json.dumps([self.iterations, self.losses]), **self.mean_loss.memory()}

    def remember(self, memory: Mapping[str, Any]) -> None:
        self.iterations[:], self.losses[:] = remembered_points(memory)
        self.stride = max([self.stride, *self.iterations[:1]])
        self.mean_loss.remember(memory)


def remembered_points(memory: Mapping[str, Any]) -> tuple[list[int], list[float]]:
    """Return the iterations and losses that a `LearningCurve` remembers; earlier versions had them in arrays."""
    if "points" not in memory:
        return memory["iterations"].tolist(), memory["losses"].tolist()
    iterations, losses = json.loads(memory["points"])
    return [int(one) for one in iterations], [float(one) for one in losses]


def table(losses: Mapping[str, Curve], shares: Mapping[str, Curve]) -> bytes:
    """Return the curves as CSV, a row for each iteration with a value."""
    curves = {**{f"{name} loss": curve for name, curve in losses.items()}, **shares}
    known = {name: dict(zip(*curve, strict=True)) for name, curve in curves.items()}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["iteration", *known])
    for iteration in sorted({iteration for curve in known.values() for iteration in curve}):
        writer.writerow([iteration, *(curve.get(iteration, "") for curve in known.values())])
    return text.getvalue().encode()


COLOURS = {"training": "#8aa4bf", "validation": "#d1495b", "test": "#2a7f62"}


def picture(title: str, losses: Mapping[str, Curve], shares: Mapping[str, Curve], suffix: str) -> bytes:
    """Draw the losses in one panel and, if there are any, the statistics in another; return the file's bytes.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: matplotlib cannot write this format.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    panels = 2 if shares else 1
    figure = Figure(figsize=(5.2 * panels, 3.8), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=12)
    axes = figure.subplots(1, panels, squeeze=False, sharex=True)[0]
    for name, curve in losses.items():
        _draw(axes[0], curve, name, COLOURS.get(name), f"{name} loss")
    values = [loss for _, curve in losses.values() for loss in curve]
    if values and min(values) > 0 and max(values) > 20 * min(values):
        axes[0].set_yscale("log")
        axes[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes[0].set_ylabel("loss")
    for name, curve in shares.items():
        colour = (
            COLOURS.get(name.partition(" ")[0]) if len(shares) == len({n.partition(" ")[0] for n in shares}) else None
        )
        _draw(axes[1], curve, "", colour, name)
    if shares:
        names = {name.partition(" ")[2].rpartition("/")[2] for name in shares}
        axes[1].set_ylabel(names.pop() if len(names) == 1 else "statistics")
        if all(0 <= value <= 1 for _, curve in shares.values() for value in curve):
            axes[1].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
    for one in axes:
        one.set_xlabel("iteration")
        one.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        one.grid(visible=True, color="#e3e3e3", linewidth=0.8)
        one.spines[["top", "right"]].set_visible(False)
        one.set_axisbelow(True)
        if one.lines:
            one.legend(frameon=False)
    file = io.BytesIO()
    figure.savefig(file, format=suffix, **MARKED.get(suffix.lower(), {}))
    return file.getvalue()


def is_curve(file: BinaryIO) -> bool:
    """Return whether a file is a picture that `picture` drew, or a table that `table` made."""
    start = file.read(ENDS)
    file.seek(max(0, file.seek(0, SEEK_END) - ENDS))
    return MARK in start or MARK in file.read() or start.startswith(HEAD)


def _draw(axes: Any, curve: Curve, name: str, colour: str | None, label: str) -> None:
    iterations, values = curve
    if not iterations:
        return
    fine = name == "training"
    last = f"{values[-1]:.3g}" if name else f"{100 * values[-1]:.2f} %" if 0 <= values[-1] <= 1 else f"{values[-1]:.3g}"
    axes.plot(
        iterations,
        values,
        color=colour,
        linewidth=1.2 if fine else 1.8,
        marker=None if fine and len(iterations) > 1 else "o",
        markersize=4,
        label=f"{label} ({last})",
    )
