"""The kit: what an algorithm has to do; and how often a batch runs forward."""

from __future__ import annotations

from nacre_forward_twice.algorithm import ForwardTwice

from nacre import Input, L, Net
from nacre.testing import SolverTests, check_plugin


class TestForwardTwice(SolverTests):
    """Gradients, batches, restarts and all else."""

    component = ForwardTwice


def test_a_batch_runs_forward_twice() -> None:
    """And backward once."""
    x, y = Input(3, name="x", batch_size=2), Input(1, name="y", batch_size=2)
    with Net("small", [L.SquareLoss()(L.InnerProduct(output_dim=1)(x), y)], backend="numpy") as net:
        once = [len(net.steps(what)) for what in ("feed", "forward", "backward")]
        assert len(ForwardTwice().train_one_batch(net)) == once[0] + 2 * once[1] + once[2]
        assert all(once[1:])


def test_everything_that_is_offered_can_be_used() -> None:
    """As `nacre check nacre-forward-twice` says."""
    check_plugin("nacre-forward-twice")
