"""Callbacks that write of a training to files, and the check of all that it keeps."""

import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nacre import ConfigError, NacreError, NotFiniteError, Solver
from nacre_solvers import (
    SGD,
    AdaGrad,
    FiniteCheck,
    JSONLog,
    Snapshot,
    StatisticsStore,
    TensorBoard,
    TrainingSummary,
    ValidationPerformance,
)
from nacre_solvers.runs import read_run
from nacre_solvers.statistics_store import read_statistics
from nacre_solvers.tensorboard import EventFile, crc32c
from toy_training import Reports, pulled_net, toy_net

TOLD = [TrainingSummary(every_n_iter=4), ValidationPerformance(every_n_iter=5)]


def solver(*callbacks: Any, **fields: Any) -> Solver:
    return Solver(SGD(), **{"max_iter": 12, "lr_policy": 0.1, "callbacks": callbacks, **fields})


# The store of statistics


def test_the_store_holds_what_summaries_and_validations_told(tmp_path: Path) -> None:
    path = tmp_path / "statistics.json"
    reports = Reports()
    training = solver(StatisticsStore(path=path), *TOLD).solve(toy_net(), reports=[reports])
    found = read_statistics(path)
    assert found["train/loss"] == {str(one["iteration"]): one["loss"] for one in reports["summary"]}
    assert list(found["train/loss"]) == ["4", "8", "12"]
    assert found["train/rate"] == {"4": 0.1, "8": 0.1, "12": 0.1}
    history = training.history["validation"]
    for name in ("loss", "accuracy/accuracy"):
        assert list(found[f"validation/{name}"].values()) == history[name].tolist()
    assert list(found["validation/loss"]) == ["5", "10", "12"]  # also that of the end


def test_the_store_is_written_on_the_way(tmp_path: Path) -> None:
    path = tmp_path / "statistics.json"
    with solver(*TOLD, StatisticsStore(path=path, every_n_iter=10)).start(toy_net()) as training:
        for state in training.callbacks:
            state.begin()
        assert read_statistics(path) == {}
        for _ in range(10):
            training.step()
            for state in training.callbacks:
                if state.due(0):
                    state.run()
        assert list(read_statistics(path)["train/loss"]) == ["4", "8"]


@pytest.mark.parametrize(
    ("if_exists", "loss", "other"),
    [
        ("merge", ["2", "4", "8", "12"], {"7": 1.5}),
        ("overwrite", ["4", "8", "12"], None),
        ("replace", ["4", "8", "12"], None),
    ],
)
def test_a_store_that_is_there(tmp_path: Path, if_exists: str, loss: list[str], other: Any) -> None:
    path = tmp_path / "statistics.json"
    path.write_text(json.dumps({"train/loss": {"2": 0.5, "4": 99.0}, "other": {"7": 1.5}}))
    solver(*TOLD, StatisticsStore(path=path, if_exists=if_exists)).solve(toy_net())
    found = read_statistics(path)
    assert sorted(found["train/loss"], key=int) == loss
    assert found["train/loss"]["4"] < 99
    assert found.get("other") == other


def test_a_store_that_is_there_may_be_refused_but_not_by_the_training_that_wrote_it(tmp_path: Path) -> None:
    path = tmp_path / "statistics.json"
    store = StatisticsStore(path=path, if_exists="refuse")
    first = solver(*TOLD, store, max_iter=4).solve(toy_net())
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"statistics\.json exists") as caught:
        solver(*TOLD, store).solve(toy_net())
    assert "if_exists='merge' or 'overwrite'" in caught.value.remedy
    assert path.read_bytes() == before
    solver(*TOLD, store).solve(toy_net(), resume=first.snapshot())
    assert list(read_statistics(path)["train/loss"]) == ["4", "8", "12"]


@pytest.mark.parametrize("text", ["", "[]", "3", '{"a": 3}', '{"a": {"b": 1}}', "\x00", "[" * 100_000, '{"a": [1]}'])
def test_a_file_of_something_else_is_not_merged_into(tmp_path: Path, text: str) -> None:
    path = tmp_path / "statistics.json"
    path.write_text(text)
    with pytest.raises(NacreError, match=r"statistics\.json "):
        solver(StatisticsStore(path=path)).solve(toy_net())
    assert path.read_text() == text


def test_numbers_that_are_not_finite_are_null(tmp_path: Path) -> None:
    path = tmp_path / "statistics.json"
    store = StatisticsStore(path=path)
    with solver(store).start(toy_net()) as training:
        training.callbacks[0].begin()
        training.report("validation", phase="test", loss=float("nan"), statistics={"a": {"b": float("inf")}})
        training.callbacks[0].finish()
    assert read_statistics(path) == {"test/loss": {"0": None}, "test/a/b": {"0": None}}


def test_what_cannot_be_written_is_an_error_at_the_start_and_a_warning_later(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    for callback in (StatisticsStore(path=folder / "x.json"), JSONLog(path=folder / "x.jsonl")):
        with pytest.raises(NacreError, match=r"folder/x\.jsonl?: cannot be written: No such file"):
            solver(callback).solve(toy_net())
    (tmp_path / "file").touch()
    with pytest.raises(NacreError, match="file: cannot be written"):
        solver(TensorBoard(path=tmp_path / "file")).solve(toy_net())
    folder.mkdir()
    store = StatisticsStore(path=folder / "x.json", every_n_iter=1)

    def listen(event: str, data: dict[str, Any]) -> None:
        if event == "step" and data["iteration"] == 3:
            shutil.rmtree(folder)

    reports = Reports()
    training = solver(store).solve(toy_net(), reports=[listen, reports])
    assert training.iteration == 12
    (warning,) = reports["warning"]
    assert "x.json: cannot be written: No such file or directory; nothing more is written there" in warning["message"]


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (StatisticsStore, {"if_exists": "panic"}, "it must be one of 'merge', 'overwrite', 'refuse', 'replace'"),
        (StatisticsStore, {"path": ""}, "path='', but it must be a path"),
        (JSONLog, {"every_n_iter": 3}, "every_n_iter=3"),
        (TensorBoard, {"every_n_epoch": 1}, "every_n_epoch=1"),
        (JSONLog, {"path": 3}, "path=3, but it must be a path"),
        (TensorBoard, {"folder": "x"}, "unknown field 'folder'"),
    ],
)
def test_bad_fields(kind: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kind(**fields)


# The log


def test_the_log_has_a_line_for_each_event_but_steps(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    callbacks = [JSONLog(path=path), *TOLD, Snapshot(folder=tmp_path / "snapshots")]
    solver(*callbacks).solve(toy_net())
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    events = [(line["event"], line["iteration"]) for line in lines]
    assert events[:5] == [("start", 0), ("summary", 4), ("validation", 5), ("summary", 8), ("validation", 10)]
    assert events[5:] == [("summary", 12), ("validation", 12), ("snapshot", 12), ("end", 12)]
    clocks = [line["clock"] for line in lines]
    assert clocks == sorted(clocks)
    assert lines[1]["rate"] == 0.1
    assert [line["event"] for line in lines if line.get("final")] == ["validation"]
    size = path.stat().st_size
    solver(*callbacks[:2]).solve(toy_net())
    assert path.stat().st_size > size
    assert path.read_text().startswith(json.dumps(lines[0]))


def test_a_log_that_was_cut_in_a_line_goes_on_in_the_next(tmp_path: Path) -> None:
    """The first line of the next training stood behind the half one: neither could be read."""
    path = tmp_path / "log.jsonl"
    solver(*TOLD, JSONLog(path=path)).solve(toy_net())
    before = path.read_bytes()
    path.write_bytes(before[:-9])
    solver(*TOLD, JSONLog(path=path)).solve(toy_net())
    lines = path.read_bytes().splitlines()
    whole = before.splitlines()
    assert lines[: len(whole)] == [*whole[:-1], whole[-1][:-8]]
    assert json.loads(lines[len(whole)])["event"] == "start"
    assert read_run(path)["training", "loss"].keys() == {4, 8, 12}


def test_a_log_has_paths_that_are_no_utf_8(tmp_path: Path) -> None:
    """They ended the training with a UnicodeEncodeError."""
    path, folder = tmp_path / "log.jsonl", tmp_path / os.fsdecode(b"snap-\xff")
    solver(JSONLog(path=path), Snapshot(folder=folder)).solve(pulled_net())
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert str(folder / "snapshot-000012.h5") in [event.get("path") for event in events]


def test_tensorboard_takes_names_that_are_no_utf_8(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.scalars(1, [(os.fsdecode(b"layer-\xff/loss"), 1.0)])
    file.close()
    assert b"layer-\\udcff/loss" in next(tmp_path.iterdir()).read_bytes()


def test_a_log_says_null_where_json_has_no_number(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with solver(JSONLog(path=path)).start(toy_net()) as training:
        training.report("summary", loss=float("nan"), statistics={})
    assert json.loads(path.read_text())["loss"] is None


# TensorBoard


def records(path: Path) -> list[bytes]:
    """Take a file of TFRecords apart, and check its sums."""
    data, found = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        message, rest = data[12 : 12 + length], data[16 + length :]
        sums = struct.unpack("<I", data[8:12]) + struct.unpack("<I", data[12 + length : 16 + length])
        for part, given_sum in zip((data[:8], message), sums, strict=True):
            crc = crc32c(part)
            assert given_sum == (((crc >> 15) | (crc << 17 & 0xFFFFFFFF)) + 0xA282EAD8) & 0xFFFFFFFF
        found.append(message)
        data = rest
    return found


def test_the_checksum_is_castagnolis() -> None:
    """By RFC 3720, B.4."""
    assert crc32c(b"") == 0
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"123456789") == 0xE3069283


def test_an_event_is_what_its_message_says(tmp_path: Path) -> None:
    file = EventFile(tmp_path)
    file.scalars(300, [("a/b", 0.5)])
    file.close()
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("events.out.tfevents.")
    version, event = records(path)
    assert version[9:] == b"\x10\x00" + b"\x1a\x0dbrain.Event:2"
    value = b"\x0a\x03a/b" + b"\x15" + struct.pack("<f", 0.5)
    summary = b"\x0a" + bytes([len(value)]) + value
    assert event[:1] == b"\x09"
    assert event[9:] == b"\x10\xac\x02" + b"\x2a" + bytes([len(summary)]) + summary


def read_back(folder: Path) -> Any:
    """Let TensorBoard itself read a folder."""
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="pip install tensorboard to run this"
    )
    found = accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    found.Reload()
    return found


def test_tensorboard_reads_a_training(tmp_path: Path) -> None:
    reports = Reports()
    training = solver(TensorBoard(path=tmp_path), *TOLD).solve(toy_net(), reports=[reports])
    found = read_back(tmp_path)
    losses = [(event.step, event.value) for event in found.Scalars("train/loss")]
    assert losses == [(one["iteration"], pytest.approx(one["loss"], rel=1e-6)) for one in reports["summary"]]
    accuracies = [(event.step, event.value) for event in found.Scalars("validation/accuracy/accuracy")]
    history = training.history["validation"]
    pairs = zip(history["iteration"].tolist(), history["accuracy/accuracy"].tolist(), strict=True)
    assert accuracies == [(iteration, pytest.approx(value, rel=1e-6)) for iteration, value in pairs]
    assert found.file_version == 2.0
    times = [event.wall_time for event in found.Scalars("train/loss")]
    assert times == sorted(times)


def test_tensorboard_forgets_what_a_training_does_again(tmp_path: Path) -> None:
    first = solver(TensorBoard(path=tmp_path), *TOLD, max_iter=8).start(toy_net())
    with first:
        for _ in range(4):
            first.step()
        snapshot = first.snapshot()
    solver(TensorBoard(path=tmp_path), *TOLD, max_iter=10).solve(toy_net())  # was killed
    again = solver(TensorBoard(path=tmp_path), *TOLD, max_iter=12).solve(toy_net(), resume=snapshot)
    assert again.iteration == 12
    assert len(list(tmp_path.iterdir())) == 2
    steps = [event.step for event in read_back(tmp_path).Scalars("train/loss")]
    assert steps == [4, 8, 12]


def test_every_training_is_a_run_of_its_own(tmp_path: Path) -> None:
    snapshot = None
    for _ in range(3):
        with solver(TensorBoard(path=tmp_path), *TOLD, max_iter=8).start(toy_net()) as training:
            training.run()
            snapshot = training.snapshot()
    solver(TensorBoard(path=tmp_path), *TOLD, max_iter=12).solve(toy_net(), resume=snapshot)
    folders = (tmp_path, tmp_path / "2", tmp_path / "3")
    assert [len(list(folder.glob("events.*"))) for folder in folders] == [1, 1, 2]


@settings(max_examples=50, derandomize=True)
@given(
    values=st.dictionaries(st.text(min_size=1, max_size=200), st.floats(), min_size=1, max_size=5),
    step=st.integers(0, 2**62),
)
def test_tensorboard_reads_any_number_and_name(
    values: dict[str, float], step: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    loader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_file_loader", reason="pip install tensorboard to run this"
    )
    folder = tmp_path_factory.mktemp("events")
    file = EventFile(folder)
    file.scalars(step, values.items())
    file.close()
    (path,) = folder.iterdir()
    _, event = loader.LegacyEventFileLoader(str(path)).Load()
    assert event.step == step
    with np.errstate(over="ignore"):
        expected = [(name, np.float32(value)) for name, value in values.items()]
    assert [one.tag for one in event.summary.value] == [name for name, _ in expected]
    np.testing.assert_array_equal([one.simple_value for one in event.summary.value], [value for _, value in expected])


# Numbers that are not finite


def test_a_buffer_that_is_not_finite_is_found(tmp_path: Path) -> None:
    net = toy_net()
    folder = tmp_path / "snapshots"

    def poison(event: str, data: dict[str, Any]) -> None:
        if event == "step" and data["iteration"] == 5:
            net.parameters["norm/mean"].value = np.full(8, np.nan)

    message = (
        "after 6 iterations: a number is not finite; first seen in the value of parameter 'norm/mean' of layer 'norm'"
    )
    one = solver(Snapshot(folder=folder, every_n_iter=3), FiniteCheck(every_n_iter=3), check_finite=False)
    with pytest.raises(NotFiniteError, match=message) as caught:
        one.solve(net, reports=[poison])
    assert [path.name for path in folder.glob("*.h5")] == ["snapshot-000003.h5"]
    assert "snapshot-000003.h5" in caught.value.remedy


def test_a_history_that_overflows_is_found() -> None:
    """The gradient is finite, its square is not: the number would never move again, and nobody would know."""
    net = pulled_net(dtype="float32", shape=(2,), gradients=((1.0, 1.0), (1.0, 1e25), (1.0, 1.0)))
    method = AdaGrad()
    assert Solver(method, max_iter=3, lr_policy=0.1).solve(net).iteration == 3
    net = pulled_net(dtype="float32", shape=(2,), gradients=((1.0, 1.0), (1.0, 1e25), (1.0, 1.0)))
    with pytest.raises(NotFiniteError, match=r"after 2 iterations: .* the history 'square' of parameter 'pull/w'"):
        Solver(method, max_iter=3, lr_policy=0.1, callbacks=[FiniteCheck(every_n_iter=1)]).solve(net)


def test_it_may_take_the_place_of_the_solvers_own_check() -> None:
    net = pulled_net(gradients=((1.0,), (float("inf"),), (1.0,), (1.0,)))
    with (
        np.errstate(all="ignore"),
        pytest.raises(NotFiniteError, match="the value of parameter 'pull/w' of layer 'pull'"),
    ):
        solver(FiniteCheck(every_n_iter=4), check_finite=False, max_iter=4).solve(net)
