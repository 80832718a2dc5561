"""A net of nacre at work, for a benchmark's worker."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nacre import Solver
from nacre.net.predict import wanted

from . import nets


class _Side:
    """A net on a backend; to be `compared`, it takes the batch that the others take."""

    def __init__(self, folder: Path, name: str, backend: str, *, compared: bool, bf16: bool, batch: int = 0) -> None:
        self.folder, self.name, self.compared, self.batch = folder, name, compared, batch
        self.options: dict[str, Any] = {"backend": backend, **({"compute": "bf16"} if bf16 else {})}

    def _net(self, phase: str, *, dropout: bool = True) -> Any:
        import numpy as np

        net = nets.load(self.name, dropout=dropout, batch=self.batch).net(phase, **self.options)
        for blob in net.unwritten():
            value = net.memory.final[blob]
            net.write(blob, nets.read(self.folder, blob) if self.compared else np.zeros(value.shape, value.dtype))
        return net


class Training(_Side):
    """Trains the batch again and again, by SGD with momentum."""

    def __init__(
        self,
        folder: Path,
        name: str,
        backend: str,
        rate: float,
        momentum: float,
        *,
        check_finite: bool = True,
        **how: Any,
    ) -> None:
        super().__init__(folder, name, backend, **how)
        self.solver = Solver("SGD", lr_policy=rate, momentum_policy=momentum, check_finite=check_finite)
        self._begin(dropout=not self.compared)

    def _begin(self, *, dropout: bool) -> None:
        self.net = self._net("train", dropout=dropout)
        self.training = self.solver.start(self.net)

    def with_dropout(self) -> None:
        """Begin anew with dropout, if the net has any: until now it was without, to be compared."""
        if any(hasattr(layer, "ratio") for layer in self.net.layers):
            self.net.shutdown()
            del self.net, self.training
            gc.collect()  # parts of a net know each other: its memory is free only now
            self._begin(dropout=True)

    def gradients(self) -> Iterator[tuple[str, Any]]:
        """Compute the gradients of the first batch; give them by name."""
        self.net.forward()
        self.net.backward()
        for parameter in self.net.parameters.values():
            if parameter.gradient is not None:
                yield parameter.name, parameter.gradient

    def step(self) -> float:
        """Train one batch; give its loss."""
        self.training.step()
        return self.training.loss


class Predicting(_Side):
    """Gives the probabilities of the batch, or what else the net makes, again and again, in phase predict.

    By `net.predict` if several nets share out a batch there, else by `forward`.
    """

    def __init__(self, folder: Path, name: str, backend: str, **how: Any) -> None:
        super().__init__(folder, name, backend, **how)
        self.net = self._net("predict")
        self.made = "prob" if "prob" in self.net.memory.final else "scores"
        self.records = {blob: self.net.blob(blob) for blob in wanted(self.net.layers, self.made).needed}
        self.net.predict(self.records, self.made)
        self.shared = any(len(team.nets) > 1 for team in self.net._predictors.values())

    def output(self) -> Any:
        """Return the probabilities (images, classes, ...), or the scores."""
        if self.shared:
            return self.net.predict(self.records, self.made)
        self.net.forward()
        return self.net.blob(self.made)

    def step(self) -> float:
        """Predict one batch; give a number of it."""
        return float(self.output().flat[0])
