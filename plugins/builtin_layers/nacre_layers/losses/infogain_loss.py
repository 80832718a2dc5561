"""InfogainLoss: a logistic loss with the cost of each mistake in a matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from nacre import Array, ConfigError, DataError, Names, Paths, at_least, default, open_records

from ..fields import NumberLists
from .base import divided_by
from .class_loss import ClassLoss, class_divisor
from .classes import Classes
from .softlabel_softmax_loss import SoftlabelSoftmaxLossState


class InfogainLossLayer(ClassLoss, is_sink=True, has_loss=True, can_do_bp=True):
    """loss = -weight / M · Σ_label Σ_k H[label, k] log softmax(x)[k], over the labels of the rows that count.

    Bottoms are the scores and the labels, as for SoftmaxLoss; M is chosen by `normalize` as there. H has a row for each
    label and a column for each class, with the value of each prediction for that label; with the identity this is
    SoftmaxLoss. It is `matrix`, or the dataset "matrix" of the HDF5 file `source` (or a .npy or .csv file), or a third
    bottom, which has a gradient; as (K, K), or with axes of length 1 before, as Caffe's (1, 1, K, K). After Caffe's
    `InfogainLoss`.

    Example:
        [[layer]]
        type = "InfogainLoss"
        bottoms = ["score", "label"]  # (8, 3), (8,)
        matrix = [[1, 0, 0], [0, 1, 0.5], [0, 0.5, 1]]  # 1 for 2, or 2 for 1, is half right
    """

    bottoms: Annotated[Names, at_least(2), "the scores, the labels, and optionally H"]
    matrix: Annotated[NumberLists, "H, as a list of rows"] = default(())
    source: Annotated[Paths, "file with H, if it is neither in `matrix` nor a bottom"] = default(())

    def standalone(self) -> InfogainLossLayer:
        if not self.source:
            return self
        matrix = _read_matrix(self.name, Path(self.source[0]))
        return replace(self, matrix=matrix.reshape(matrix.shape[-2:]).tolist(), source=())

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if len(self.bottoms) > 3:
            yield f"bottoms={self.bottoms}, but 2 or 3 are needed"
        elif len(self.bottoms) - 2 + len(self.source) + bool(self.matrix) != 1:
            yield "exactly one matrix is needed: `matrix`, one file as `source`, or a third bottom"


class InfogainLossState(SoftlabelSoftmaxLossState, of=InfogainLossLayer, reads=""):
    """`InfogainLossLayer` on any backend: the distributions are rows of the matrix."""

    def __init__(self, layer: InfogainLossLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.classes = Classes(layer, backend, inputs[0].shape, inputs[1].shape)
        self.divided_by = divided_by(layer.normalize, ignores=layer.ignore_label is not None)
        self.host, self.learns = None, len(diffs) > 2 and diffs[2] is not None
        if layer.source:
            self.host = _read_matrix(layer.name, Path(layer.source[0]))
        elif layer.matrix:
            self.host = np.array(layer.matrix)
        found = tuple(inputs[2].shape) if self.host is None else self.host.shape
        needed = (self.shape[1], self.shape[1])
        if found[-2:] != needed or prod(found) != prod(needed):
            raise ConfigError(f"{layer.name}: the matrix has the shape {found}, but {needed} is needed")

    def ready(self) -> None:
        super().ready()
        before, classes, behind = self.shape
        self.classes.ready()
        if self.host is not None:
            self.matrix = self.backend.constant(self.host.reshape(classes, classes))
        if self.learns:
            self.numbers = self.backend.constant(np.arange(classes).reshape(-1, 1), "int64")
            self.of_label = self.backend.empty((classes, before * behind))
        self.taken = self.backend.empty((before * behind, classes))

    def targets(self, inputs: list[Array]) -> Array:
        xp, count, (_, classes, behind) = self.backend.xp, self.classes.count, self.shape
        taken, labels = self.taken[:count], self.classes.labels(inputs[1], count)
        matrix = inputs[2].reshape(classes, classes) if self.host is None else self.matrix
        xp.take(matrix, labels, axis=0, out=taken, mode="clip")
        if self.learns:
            xp.equal(self.numbers, labels, out=self.of_label[:, :count])
        if self.classes.ignored is not None:
            used = self.backend.scratch((count,), "bool")
            xp.logical_not(self.classes.ignored, out=used)
            xp.multiply(taken, used.reshape(-1, 1), out=taken)
            if self.learns:
                xp.multiply(self.of_label[:, :count], used, out=self.of_label[:, :count])
        return taken.reshape(-1, behind, classes).transpose(0, 2, 1)

    def divisor(self) -> int:
        self.n_counted = self.classes.used()
        return class_divisor(self.layer, self.classes)

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        super().backward(inputs, diffs)
        if len(diffs) > 2 and diffs[2] is not None:
            xp, (_, classes, behind), real = self.backend.xp, self.shape, self.real
            log = self.backend.scratch((real, behind, classes))
            xp.copyto(log, self.log[:real].transpose(0, 2, 1))
            dh = diffs[2].reshape(classes, classes)
            xp.matmul(self.of_label[:, : real * behind], log.reshape(-1, classes), out=dh)
            xp.multiply(diffs[2], -self.factor, out=diffs[2])

    def label_gradient(self, diff: Array, log: Array) -> None:
        diff[...] = 0


def _read_matrix(name: str, source: Path) -> Array:
    try:
        with open_records([source], ["matrix"]) as reader:
            return np.array([row["matrix"] for row in reader.rows()])
    except DataError as error:
        remedy = "write H to the dataset 'matrix' of an HDF5 file, or as a .npy or .csv file"
        raise DataError(f"{name}: source: {error.args[0]}", remedy) from error
