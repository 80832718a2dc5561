"""How long a training waits for its data: the time in its sources' forward passes, by a clock of the test's own."""

import pytest

from nacre import Net, Solver
from nacre_solvers import SGD, ValidationPerformance
from toy_training import records, toy_layers, toy_net, weights


class Clock:
    """Goes on by a second in each call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> float:
        self.calls += 1
        return float(self.calls)


@pytest.mark.parametrize("batches", [1, 3])
def test_the_time_in_sources_is_added_up(batches: int) -> None:
    clock = Clock()
    with Solver(SGD(), max_iter=4, n_accumulate=batches).start(toy_net()) as training:
        training.waiting.clock = clock
        training.run()
        assert clock.calls == 2 * 4 * batches  # before and after each batch, and nowhere else
        assert training.waiting.seconds == 4 * batches
        training.step_seconds = 160.0
        assert training.data_share == 4 * batches / 160


def test_validation_is_not_in_it() -> None:
    clock = Clock()
    checks = ValidationPerformance(every_n_iter=1)
    with Solver(SGD(), max_iter=3, callbacks=[checks]).start(toy_net()) as training:
        training.waiting.clock = clock
        training.run()
        assert training.waiting.seconds == 3


def test_a_training_that_has_not_begun_has_not_waited() -> None:
    with Solver(SGD(), max_iter=3).start(toy_net()) as training:
        assert training.data_share == 0


def test_every_source_counts() -> None:
    layers = toy_layers()
    image, _ = records(30)
    more = type(layers[0])(name="more", tops="extra", data=[image], batch_size=10, exclude=["validation", "test"])
    with Net("two", [more, *layers], backend="numpy") as net, Solver(SGD(), max_iter=5).start(net) as training:
        training.waiting.clock = Clock()
        training.run()
        assert training.waiting.seconds == 2 * 5


def test_nothing_else_changes() -> None:
    found = []
    for clock in (Clock(), lambda: 0.0):
        with toy_net() as net, Solver(SGD(), max_iter=5).start(net) as training:
            training.waiting.clock = clock
            training.run()
            found.append(weights(net))
    assert found[0] == found[1]
