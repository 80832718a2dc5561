"""Every layer runs on the cupy backend over the stand-in for CuPy: all of `LayerTests`, once more."""

import numpy as np
import pytest

import cupy_standin
from nacre.testing.close import assert_near, both_zero
from run_suite import failures
from suites_of_layers import suites


@pytest.fixture(scope="module")
def backend():
    with cupy_standin.installed():
        yield cupy_standin.watched()()


each = pytest.mark.parametrize("suite", list(suites()), ids=lambda suite: suite.__name__)
REPEATED = ["test_random_shapes", "test_growth"]


@each
def test_on_cupy(suite, backend):
    assert failures(suite, backend=backend, dtypes=["float32"], without=REPEATED, examples=1) == {}


@pytest.mark.long
@each
def test_all_on_cupy(suite, backend):
    assert failures(suite, backend=backend) == {}


@each
def test_replayed(suite, backend):
    """What is captured gives what the layer gives on NumPy when it is replayed, with other numbers, rows and steps."""
    for example in list(suite().examples())[:2]:
        with suite().trial(example, "numpy", "float32") as own, suite().trial(example, backend, "float32") as trial:
            if not trial.ops or not any(step.capturable for step in trial.net.steps("forward")):
                return
            rows = min((len(one) for one in trial.arrays), default=1)
            for turn, count in enumerate((rows, rows, rows, max(1, rows - 1), rows)):
                arrays = [np.roll(one, turn, axis=0)[:count] for one in trial.arrays]
                for one in (own, trial):
                    one.net.step = turn
                    one.forward(arrays)
                where = f"turn {turn}, {count} rows"
                for name, found, wanted in zip(own.tops, trial.results(), own.results(), strict=True):
                    assert_near(found, wanted, f"{where}: {name}")
                losses = np.float32(trial.net.loss()), np.float32(own.net.loss())
                assert_near(*losses, f"{where}: loss", 1e-4)  # a sum of numbers of both signs
                if own.differentiates:
                    gradients = own.gradients()
                    for name, found in trial.gradients().items():
                        if not both_zero(found, gradients[name], gradients.values()):
                            assert_near(found, gradients[name], f"{where}: gradient of {name}")
