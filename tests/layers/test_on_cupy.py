"""Every layer runs on the cupy backend over the stand-in for CuPy: all of `LayerTests`, once more."""

import os
import subprocess
import sys
from pathlib import Path

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
OF_NETS = ["examples", "global_state", "kernels", "memory_is_shared"]
OF_NETS += ["partition", "phase_of_an_algorithm", "two_instances"]
"""Checks that have little to do with a backend's arrays: `make long` has them on this one, too."""


@each
def test_on_cupy(suite, backend):
    without = [*REPEATED, *(f"test_{name}" for name in OF_NETS)]
    assert failures(suite, backend=backend, dtypes=["float32"], without=without, examples=1) == {}


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
            fewer = max(1, rows - 1)
            for turn, count in enumerate((rows, rows, rows, fewer, rows, fewer, rows, fewer)):
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
            if not cupy_standin.on_gpu():
                assert not cupy_standin.left_in_graphs(trial.net, backend), "make them in ready(): see `capturable`"


@pytest.mark.skipif(cupy_standin.on_gpu(), reason="they run there by themselves")
@pytest.mark.long
def test_what_is_no_suite():
    """The other tests of layers with a backend among their parameters, as on a GPU: how exact layers are, and more."""
    others = sorted({*Path(__file__).parent.rglob("test_*.py")} - {Path(__file__)})
    files = [str(file) for file in others if "backends()" in file.read_text("utf-8")]
    words = ["-q", "-p", "no:cacheprovider", "-k", "cupy", "-m", "not suite and not long", *files]
    env = {**os.environ, "NACRE_TEST_GPU": "simulated"}
    done = subprocess.run([sys.executable, "-m", "pytest", *words], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]
    assert "passed" in done.stdout
