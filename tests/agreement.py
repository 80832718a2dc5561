"""Many random cases of a layer against PyTorch, or where that lacks the operation, against the naive reference."""

from dataclasses import replace
from typing import Any, ClassVar

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from nacre.testing.close import assert_near
from nacre.testing.layers import LayerTests
from nacre.testing.trial import spread_values

FORWARD, SLOPE = 1e-10, 1e-6
STEP = 1e-5


class Agreement(LayerTests):
    """`LayerTests` with one more: random examples of `strategy`, the same ones in every run; 200 in the long tests.

    In float64 the results agree with `in_torch` to 1e-10 and the gradients to `gradient`, and the slope along a random
    direction to 1e-6; in float32 all of it agrees with float64 to `coarse`. A class that leaves `in_torch` as it is has
    no such operation in PyTorch: its results are compared with `reference`.
    """

    coarse: ClassVar[float] = 1e-5
    gradient: ClassVar[float] = 1e-8

    def in_torch(self, layer: Any, inputs: list[Any], parameters: dict[str, Any]) -> Any:
        """Compute the layer in PyTorch: a list of tops, or the loss; of tensors of float64 (inputs may be whole)."""
        raise NotImplementedError

    @pytest.mark.parametrize("cases", [6, pytest.param(200, marks=pytest.mark.long)])
    def test_agreement(self, cases):
        against_torch = type(self).in_torch is not Agreement.in_torch
        if against_torch:
            pytest.importorskip("torch")

        def check(example, seed):
            arrays = [
                spread_values(one, seed + place) if isinstance(one, tuple) else one
                for place, one in enumerate(example.inputs)
            ]
            example = replace(example, inputs=arrays)
            with self.trial(example, "numpy", "float64") as trial:
                before = trial.parameters()
                loss = trial.forward()
                tops = trial.results() if trial.tops else [np.array(loss)]
                gradients = trial.gradients() if trial.differentiates else {}
                if against_torch:
                    self._check_torch(trial, before, tops, gradients)
                else:
                    self._check_reference(trial, tops)
                if gradients:
                    self._check_slope(trial, before, gradients, seed, loss)
            with self.trial(example, "numpy", "float32") as coarse:
                loss = coarse.forward()
                for exact, top in zip(tops, coarse.results() if coarse.tops else [np.array(loss)], strict=True):
                    self._check_coarse(top, exact, "float32")
                for name, gradient in (coarse.gradients() if gradients else {}).items():
                    self._check_coarse(gradient, gradients[name], f"gradient of {name} in float32")

        strategy = self.strategy()
        assert strategy is not None, f"{type(self).__name__} has no strategy()"
        once = hypothesis.settings(
            derandomize=True,
            database=None,
            max_examples=cases,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        once(hypothesis.given(strategy, st.integers(0, 2**16))(check))()

    def _check_coarse(self, actual, exact, what):
        """Where nearly all of numbers about 1 has gone by subtraction, float32 has no more digits than 1e-7."""
        norm = float(np.linalg.norm(exact))
        assert_near(actual, exact, what, self.coarse * max(1.0, 0.01 / norm if norm else 1.0))

    def _check_torch(self, trial, before, tops, gradients):
        import torch

        wanted = {f"input {place}" for place in trial.wanted}
        inputs = [
            torch.tensor(one, requires_grad=one.dtype.kind == "f" and f"input {place}" in wanted)
            for place, one in enumerate(trial.arrays)
        ]
        learned = {name: torch.tensor(one, requires_grad=name in gradients) for name, one in before.items()}
        found = self.in_torch(trial.layer, inputs, learned)
        theirs = list(found) if isinstance(found, list | tuple) else [found]
        for place, (top, other) in enumerate(zip(tops, theirs, strict=True)):
            assert_near(top, other.detach().numpy(), f"top {place}", FORWARD)
        if not gradients:
            return
        weights = trial.probe_weights() if trial.tops else [np.ones(())]
        sum((one * torch.tensor(weight)).sum() for one, weight in zip(theirs, weights, strict=True)).backward()
        tensors = {**{f"input {place}": one for place, one in enumerate(inputs)}, **learned}
        for name, gradient in gradients.items():
            given = tensors[name].grad
            expected = np.zeros_like(gradient) if given is None else given.numpy()
            assert_near(gradient, expected, f"gradient of {name}", self.gradient)

    def _check_reference(self, trial, tops):
        for part in self._expected(trial):
            if isinstance(part, list):
                for place, (top, other) in enumerate(zip(tops, part, strict=True)):
                    assert_near(top, np.asarray(other), f"top {place}", FORWARD)
            elif isinstance(part, float | np.floating):
                assert_near(tops[0], np.asarray(part), "loss", FORWARD)

    def _check_slope(self, trial, before, gradients, seed, loss):
        random = np.random.default_rng(seed)
        ways = {name: random.choice([-1.0, 1.0], gradient.shape) for name, gradient in gradients.items()}

        def along(step):
            arrays = list(trial.arrays)
            for name, way in ways.items():
                if name.startswith("input "):
                    arrays[int(name[6:])] = arrays[int(name[6:])] + step * way
                else:
                    trial.set_parameter(name, before[name] + step * way)
            return trial.forward(arrays)

        slope = (along(STEP) - along(-STEP)) / (2 * STEP)
        computed = sum(float(np.sum(gradients[name] * way)) for name, way in ways.items())
        size = sum(float(np.sum(np.abs(gradient))) for gradient in gradients.values())
        assert abs(slope - computed) <= SLOPE * max(size, abs(loss), 1e-3), (
            f"slope {slope}, but backward gives {computed}"
        )
