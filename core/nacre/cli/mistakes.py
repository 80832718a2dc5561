"""The worst mistakes of a pass over the test data: records that a net takes for another class, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from ..protocols.layer import bottoms_of
from ..protocols.state import SourceState
from .outputs import are_probabilities

if TYPE_CHECKING:
    import numpy as np

    from ..config.netfile import NetFile
    from ..net.net import Net
    from ..protocols.layer import Phase


@dataclass(frozen=True)
class Mistake:
    """A record that was taken for another class.

    `probability` is that of the wrong class, and `loss` -ln of that of the right one: of a blob that has probabilities
    as it is, of other scores after a softmax. `key` is what a person finds the record by.
    """

    record: int
    key: str
    label: int
    prediction: int
    probability: float
    loss: float

    def as_dict(self, names: Sequence[str]) -> dict[str, Any]:
        """Return it as data for JSON; names of classes are None where they are not known."""
        label, prediction = ((names[one] if one < len(names) else None) for one in (self.label, self.prediction))
        return {**asdict(self), "label_name": label, "prediction_name": prediction}


def compared(file: NetFile, phase: Phase) -> tuple[str, str] | None:
    """Return the blobs of scores and of labels that a loss compares in a phase, or else a statistic; None if none does.

    The labels come from a source, and the scores do not.
    """
    here = [layer for layer in file.layers if phase not in layer.exclude]
    given = {top for layer in here if layer.is_source for top in getattr(layer, "tops", ())}
    comparing = [layer for layer in here if layer.has_loss] + [layer for layer in here if layer.has_stats]
    for layer in comparing:
        labels = [blob for blob in bottoms_of(layer) if blob in given]
        scores = [blob for blob in bottoms_of(layer) if blob not in given]
        if len(labels) == len(scores) == 1:
            return scores[0], labels[0]
    return None


class Mistakes:
    """Collects the worst mistakes of a pass, at most `count`: `look` is called after each batch."""

    def __init__(self, net: Net, scores: str, labels: str, count: int) -> None:
        self.net, self.scores, self.labels, self.count = net, scores, labels, count
        feeding = [op.state for op in net.ops if isinstance(op.state, SourceState) and labels in op.layer.tops]
        self.fed_by = feeding[0]
        self.found: list[Mistake] = []

    def look(self) -> None:
        """Take the mistakes of the last batch, if its labels are classes."""
        import numpy as np

        if self.fed_by.numbers is None or not self._are_classes():
            return
        rows = int(self.net.scalars["rows"])
        scores = np.asarray(self.net.blob(self.scores)[:rows].reshape(rows, -1), np.float64)
        labels = self.net.blob(self.labels)[:rows].reshape(-1).astype(np.int64)
        numbers = np.asarray(self.fed_by.numbers[0])[:rows]
        counts = np.isfinite(scores).all(axis=1) & (labels >= 0) & (labels < scores.shape[1])
        scores, labels, numbers = scores[counts], labels[counts], numbers[counts]
        each, logs = np.arange(len(labels)), log_probabilities(scores)
        predictions = scores.argmax(axis=1)
        wrong = each[predictions != labels]
        losses = -logs[each, labels]
        for row in wrong[np.argsort(-losses[wrong], kind="stable")][: self.count].tolist():
            label, prediction = int(labels[row]), int(predictions[row])
            sure = float(np.exp(logs[row, prediction]))
            self.found.append(Mistake(int(numbers[row]), "", label, prediction, sure, float(losses[row])))
        self.found = sorted(self.found, key=lambda one: -one.loss)[: self.count]

    def _are_classes(self) -> bool:
        scores, labels = (self.net.memory.final[name] for name in (self.scores, self.labels))
        single = labels.shape in (scores.shape[:1], (*scores.shape[:1], 1))
        return single and labels.dtype.startswith("int") and max(scores.shape[1:], default=1) > 1

    def named(self) -> list[Mistake]:
        """Return the mistakes with the keys of their records, the worst first."""
        keys = self.fed_by.keys([one.record for one in self.found])
        return [replace(one, key=key) for one, key in zip(self.found, keys, strict=True)]


def log_probabilities(scores: np.ndarray) -> np.ndarray:
    """Return the logarithms of probabilities, or of the softmax of other scores, row by row."""
    import numpy as np

    if are_probabilities(scores):
        return np.log(np.maximum(scores, np.finfo(np.float64).tiny))
    shifted = scores - scores.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
