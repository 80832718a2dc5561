import pytest

from nacre import Solver
from nacre_solvers import SGD, Step, TrainingSummary
from toy_training import Reports, pulled_net, toy_net


def test_the_mean_loss_since_the_last_report_and_one_at_the_end() -> None:
    reports = Reports()
    losses: list[float] = []

    def listen(event: str, _: object) -> None:
        if event == "step":
            losses.append(training.loss)

    policy = Step(base=0.2, gamma=0.5, stepsize=10)
    solver = Solver(
        SGD(), max_iter=25, lr_policy=policy, momentum_policy=0.5, callbacks=[TrainingSummary(every_n_iter=10)]
    )
    training = solver.start(pulled_net(), [reports, listen])
    training.run()
    summaries = reports["summary"]
    assert [summary["iteration"] for summary in summaries] == [10, 20, 25]
    for summary, part in zip(summaries, (losses[:10], losses[10:20], losses[20:]), strict=True):
        assert summary["loss"] == pytest.approx(sum(part) / len(part), rel=1e-9)
        assert summary["momentum"] == 0.5
        assert summary["images_per_second"] > 0
    assert [summary["rate"] for summary in summaries] == [0.2, 0.1, 0.05]


def test_no_second_report_at_the_end() -> None:
    reports = Reports()
    Solver(SGD(), max_iter=20, callbacks=[TrainingSummary(every_n_iter=10)]).solve(toy_net(), reports=[reports])
    assert [summary["iteration"] for summary in reports["summary"]] == [10, 20]


def test_without_the_check_the_last_loss() -> None:
    reports = Reports()
    solver = Solver(SGD(), max_iter=20, check_finite=False, callbacks=[TrainingSummary()])
    training = solver.solve(pulled_net(), reports=[reports])
    assert [summary["loss"] for summary in reports["summary"]] == [training.loss]
