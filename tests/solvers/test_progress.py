"""What a training from Python shows: lines, a bar in a terminal, one line in a notebook."""

import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from nacre import Solver
from nacre_solvers import SGD, Progress, TrainingSummary, ValidationPerformance, progress
from toy_training import Reports, pulled_net, toy_net


def solver(*callbacks: Any, **fields: Any) -> Solver:
    return Solver(SGD(), **{"max_iter": 200, "lr_policy": 0.1, "callbacks": callbacks, **fields})


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    out, err = capsys.readouterr()
    assert err == ""
    return out.splitlines()


def test_ten_lines_and_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    solver().solve(toy_net())
    *lines, end = shown(capsys)
    numbers = [line.partition(":")[0].partition(", ")[2] for line in lines]
    assert numbers == [f"iteration {number}" for number in range(20, 201, 20)]
    assert all(": loss " in line and "records/s" in line for line in lines)
    assert end.startswith("done after 200 iterations: ")


def test_lines_by_epoch_with_the_validations(capsys: pytest.CaptureFixture[str]) -> None:
    solver(ValidationPerformance(every_n_epoch=1), max_iter=None, max_epoch=2).solve(toy_net())
    lines = shown(capsys)
    starts = ["epoch 1 of 2, iteration 5: loss", "epoch 1 of 2, iteration 5: validation: loss"]
    starts += ["epoch 2 of 2, iteration 10: loss", "epoch 2 of 2, iteration 10: validation: loss", "done after 10"]
    assert [line.startswith(start) for line, start in zip(lines, starts, strict=True)] == [True] * 5


def test_a_solvers_own_summaries_are_all_shown(capsys: pytest.CaptureFixture[str]) -> None:
    solver(TrainingSummary(every_n_iter=5)).solve(toy_net())
    assert len(shown(capsys)) == 41


def test_the_last_summary_is_shown_wherever_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    def stop(event: str, data: Any) -> None:
        if event == "step" and data["iteration"] == 33:
            training.stop("somebody")

    with solver().start(toy_net(), [stop], [TrainingSummary(every_n_iter=2), Progress()]) as training:
        training.run()
    *_, last, end = shown(capsys)
    assert last.startswith("epoch 7, iteration 33: loss ")  # of 47 records, in batches of 10
    assert end.startswith("stopped by somebody after 33 iterations")


class Window:
    """A stream that can only be written to, as in some programs with windows."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...


def test_a_program_without_a_console_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    window = Window()
    for stream in (None, window):
        monkeypatch.setattr(sys, "stdout", stream)
        assert solver().solve(toy_net()).iteration == 200
    assert "done after 200 iterations" in window.text


@pytest.mark.parametrize("how", [{"quiet": True}, {"reports": [Reports()]}])
def test_who_wants_nothing_gets_nothing(how: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    solver().solve(toy_net(), **how)
    solver().start(toy_net()).run()
    assert shown(capsys) == []


def test_reports_may_be_asked_for_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    reports = Reports()
    solver().solve(toy_net(), reports=[reports], quiet=False)
    assert reports["end"]
    assert shown(capsys)


def test_warnings_are_pythons_own(capsys: pytest.CaptureFixture[str]) -> None:
    def stop(event: str, _: object) -> None:
        if event == "step":
            training.warn("something")

    training = solver(max_iter=1).start(pulled_net(), (), [Progress()])
    training.listeners.append(stop)
    with pytest.warns(UserWarning, match="something"):
        training.run()
    assert [line for line in shown(capsys) if "something" in line] == []


def test_a_screen_that_is_gone_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sys.stdout, "write", broken)
    assert solver().solve(toy_net()).iteration == 200


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set the clock of the screen."""
    now = [0.0]
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(perf_counter=lambda: now[0]))

    def set_clock(seconds: float) -> None:
        now[0] = seconds

    return set_clock


def test_a_notebook_has_one_line_that_changes_twice_a_second(
    clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = types.SimpleNamespace(kernel="here")
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: kernel))
    changes: list[int] = []

    def listen(event: str, data: Any) -> None:
        if event == "step":
            clock(data["iteration"] * 0.1)  # ten iterations a second
            changes.append(sys.stdout.getvalue().count("\r") if hasattr(sys.stdout, "getvalue") else 0)

    training = solver(ValidationPerformance(every_n_iter=10), max_iter=50).start(toy_net(), [listen], [Progress()])
    training.run()
    out, _ = capsys.readouterr()
    assert out.count("\n") == 1
    lines = out.rstrip("\n").split("\r")[1:]
    assert len(lines) <= 2 * 5 + 2
    assert "iteration 50: validation: loss" in lines[-1]
    assert "done after 50 iterations" in lines[-1]
    assert max(map(len, lines[:-1])) <= len(lines[-1])


def test_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    training = solver(max_iter=None, max_epoch=3).start(toy_net(), (), [Progress()])
    bars: list[bool] = []
    training.listeners.append(lambda event, _: bars.append(training.callbacks[0].screen._bar is not None))
    training.run()
    assert bars[1:] == [True] * 15 + [False]
    assert "done after 15 iterations" in capsys.readouterr().out


def test_the_length_of_a_training_is_known_after_the_first_pass_and_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr("nacre.cli.training.REFRESH", 0.0)
    training = solver(max_iter=None, max_epoch=3).start(toy_net(), (), [Progress()])
    tasks: list[Any] = []

    def listen(event: str, _: Any) -> None:
        if event == "step":
            (task,) = training.callbacks[0].screen._bar.tasks
            tasks.append((task.completed, task.total, task.description))

    training.listeners.append(listen)
    training.run()
    assert [total for _, total, _ in tasks] == [None] * 4 + [15] * 11
    assert tasks[3][::2] == (4, "epoch 1 of 3, iteration 4")
    assert tasks[11][::2] == (12, "epoch 3 of 3, iteration 12 of 15")


@pytest.mark.parametrize("first", [True, False])
def test_progress_may_stand_before_other_callbacks(first: bool, capsys: pytest.CaptureFixture[str]) -> None:
    callbacks: list[Any] = [ValidationPerformance(every_n_epoch=1)]
    callbacks.insert(0 if first else 1, Progress())
    solver(*callbacks, max_iter=None, max_epoch=3).start(toy_net()).run()
    validations = [line.partition(",")[0] for line in shown(capsys) if "validation" in line]
    assert validations == ["epoch 1 of 3", "epoch 2 of 3", "epoch 3 of 3"]


def test_lines_by_iteration_name_the_epoch_if_the_data_have_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    each = [TrainingSummary(every_n_iter=2)]
    solver(*each, max_iter=10).solve(toy_net())
    assert [line.partition(":")[0] for line in shown(capsys)[:5]] == [
        f"epoch {epoch}, iteration {iteration}" for epoch, iteration in [(1, 2), (1, 4), (2, 6), (2, 8), (2, 10)]
    ]
    solver(*each, max_iter=10, max_epoch=2).solve(toy_net())
    assert [line.partition(":")[0] for line in shown(capsys)[1:3]] == [
        "epoch 1 of 2, iteration 4", "epoch 2 of 2, iteration 6"
    ]  # fmt: skip
    solver(*each, max_iter=2).solve(pulled_net())
    assert shown(capsys)[0].startswith("iteration 2: ")


def test_the_line_of_a_notebook_names_the_epoch_that_is_on(
    clock: Callable[[float], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = types.SimpleNamespace(kernel="here")
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: kernel))
    monkeypatch.setattr(progress, "REWRITTEN", 0.0)
    solver(max_iter=None, max_epoch=2).start(toy_net(), (), [Progress()]).run()
    lines = capsys.readouterr().out.split("\r")[1:]
    assert lines[0].startswith("epoch 1 of 2, iteration 1: ")
    assert lines[-1].startswith("epoch 2 of 2, iteration 10: ")
