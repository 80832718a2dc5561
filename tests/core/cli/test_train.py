"""`nacre train`: progress, reports, results, and going on."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from command_line import NET, SCRIPT, run, terminal
from nacre.cli.snapshots import load_snapshot
from nacre.training.training import Training

TEXT = """
layer = [
    { type = "CharText", source = "text.txt", batch_size = 4, steps = 8 },
    { type = "OneHot", bottoms = "data", tops = "onehot", n_class = "data" },
    { type = "InnerProduct", bottoms = "onehot", tops = "score", output_dim = "label", axis = -1 },
    { type = "SoftmaxLoss", bottoms = ["score", "label"], axis = -1, ignore_label = -1 },
]
solver = { type = "SGD", max_iter = 1 }
callback = [{ type = "Snapshot", every_n_iter = 1 }]
"""
ENDLESS = """
layer = [
    { type = "RandomNormal", tops = "noise", output_dims = 4, batch_size = 4 },
    { type = "InnerProduct", bottoms = "noise", tops = "copy", output_dim = 4 },
    { type = "SquareLoss", bottoms = ["copy", "noise"] },
]
solver = { type = "SGD", max_iter = 2 }
callback = [{ type = "Snapshot" }]
"""


def snapshots(folder: str = "snapshots") -> list[str]:
    return sorted(path.name for path in Path(folder).glob("snapshot-*.h5"))


def test_a_training_on_a_plain_screen() -> None:
    lines = run("train", "small.toml").out.splitlines()
    assert (
        lines[0] == "training 'small': 147 parameters, 60 iterations of 10 records on numpy; snapshots go to snapshots"
    )
    assert lines[1].startswith("epoch 4, iteration 20: loss ")  # of 60 records, in batches of 10
    assert any(line.startswith("epoch 5, iteration 30: validation: loss ") and " of 27)" in line for line in lines)
    assert "epoch 10, iteration 60: saved snapshots/snapshot-000060.h5" in lines
    assert lines[-4].startswith("done after 60 iterations: ")
    assert lines[-3:] == [
        "snapshot: snapshots/snapshot-000060.h5",
        "next: nacre test small.toml snapshots/snapshot-000060.h5",
        "      nacre predict small.toml snapshots/snapshot-000060.h5 test.h5",
    ]
    assert "\x1b" not in "".join(lines)
    assert snapshots() == ["snapshot-000020.h5", "snapshot-000040.h5", "snapshot-000060.h5"]


def test_kernels_are_told_if_that_is_asked_for() -> None:
    options = ("--verbose", "--set", "solver.max_iter=1", "--set", 'freeze=["ip1"]', "--set", "solver.n_accumulate=2")
    lines = run("train", "small.toml", *options).out.splitlines()
    assert lines[0].startswith("training 'small': 147 parameters (108 frozen), 1 iteration of 20 records on numpy; ")
    assert any(line.startswith("done after 1 iteration: ") for line in lines)
    assert lines[1] == (
        "backend numpy: 2 of 4 layers run through kernels made for it; drop1, loss through their general code"
    )


def test_the_commands_that_are_named_next_work() -> None:
    for line in run("train", "small.toml").out.splitlines()[-2:]:
        run(*line.removeprefix("next:").split()[1:])


@pytest.mark.parametrize(
    ("absent", "words"),
    [
        (["train", "predict"], ["test", "predict"]),
        (["train", "test", "predict"], ["test --phase validation", "predict"]),
        (["train", "validation", "test"], ["predict"]),
    ],
)
def test_what_is_named_next_fits_the_phases_that_have_data(absent: list[str], words: list[str]) -> None:
    text = Path("small.toml").read_text(encoding="utf-8")
    if "validation" in absent:
        text = text.replace('[[callback]]\ntype = "ValidationPerformance"\nevery_n_iter = 30\n', "")
    Path("other.toml").write_text(text, encoding="utf-8")
    lines = run("train", "other.toml", "--set", f"layer.test.exclude={json.dumps(absent)}").out.splitlines()
    named = [shlex.split(line.removeprefix("next:")) for line in lines[-len(words) :]]
    for said, word in zip(named, words, strict=True):
        assert said[:2] == ["nacre", word.split()[0]]
        assert ("--phase" in said) == ("--phase" in word)
        run(*said[1:])
    assert not any("nacre test" in line for line in lines[: -len(words)])


def test_no_prediction_is_named_next_for_what_is_not_made_of_records() -> None:
    Path("text.txt").write_text("the cat sat on the mat and the rat sat on the cat\n" * 4, encoding="utf-8")
    Path("text.toml").write_text(TEXT, encoding="utf-8")
    lines = run("train", "text.toml").out.splitlines()
    assert lines[-1] == "next: nacre test text.toml snapshots/text/snapshot-000001.h5"


def test_no_test_is_named_next_for_data_without_an_end() -> None:
    Path("endless.toml").write_text(ENDLESS, encoding="utf-8")
    lines = run("train", "endless.toml").out.splitlines()
    assert lines[-1] == "next: nacre predict endless.toml snapshots/endless/snapshot-000002.h5 INPUT"


def test_the_commands_that_are_named_next_know_the_options() -> None:
    sets = ("layer.ip1.output_dim=7", 'callback.Snapshot.folder="my snapshots"', "solver.max_iter=20")
    options = [word for change in sets for word in ("--set", change)]
    lines = run("train", "small.toml", "--backend", "numpy", *options).out.splitlines()[-2:]
    for line in lines:
        assert line.endswith("--backend numpy --set layer.ip1.output_dim=7")
        run(*shlex.split(line.removeprefix("next:"))[1:])


def test_json_ends_with_one_line() -> None:
    done = run("train", "small.toml", "--json")
    result = json.loads(done.out)
    assert done.out.count("\n") == 1
    assert {"iterations", "seconds", "images_per_second", "data_share", "loss", "statistics", "snapshot"} <= set(result)
    assert result["iterations"] == 60
    assert result["images_per_second"] > 0
    assert result["statistics"]["validation"]["accuracy"] == {"accuracy": 1.0, "records": 27.0}
    assert result["snapshot"] == "snapshots/snapshot-000060.h5"


def test_a_training_that_waits_for_its_data_says_for_how_much_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for share, told in [(0.234, ", waited for data for 23 % of the time"), (0.05, "for 5 % of the time"), (0.049, "")]:
        monkeypatch.setattr(Training, "data_share", share)
        (line,) = [line for line in run("train", "small.toml").out.splitlines() if line.startswith("done after")]
        assert line.endswith(told) and ("waited" in line) == bool(told)
        assert json.loads(run("train", "small.toml", "--json").out)["data_share"] == share


def test_the_log_has_a_line_for_each_report() -> None:
    run("train", "small.toml", "--log", "log.jsonl")
    entries = [json.loads(line) for line in Path("log.jsonl").read_text().splitlines()]
    events = [(entry["event"], entry["iteration"]) for entry in entries]
    assert events[0] == ("start", 0) and events[-1] == ("end", 60)
    assert {("summary", 20), ("validation", 30), ("snapshot", 40)} <= set(events)
    assert all(0 <= entry["clock"] <= entries[-1]["clock"] for entry in entries)
    assert [entry["event"] for entry in entries if "seconds" in entry] == ["end"]
    assert next(entry for entry in entries if entry["event"] == "snapshot")["path"] == "snapshots/snapshot-000020.h5"


def test_statistics_of_the_training_net_are_reported() -> None:
    text = Path("small.toml").read_text()
    text = text.replace(
        'exclude = ["train", "predict"]\n\n[[layer]]\ntype = "Softmax"',
        'exclude = ["predict"]\n\n[[layer]]\ntype = "Softmax"',
    )
    Path("small.toml").write_text(f"insert_splits = true\n{text}")
    done = run("train", "small.toml", "--log", "log.jsonl")
    summary = next(json.loads(line) for line in Path("log.jsonl").read_text().splitlines() if '"summary"' in line)
    assert summary["statistics"]["accuracy"]["records"] == 200
    line = next(line for line in done.out.splitlines() if ", iteration 60: loss" in line)
    assert line.endswith(" of 200)")
    told = run("train", "small.toml", "--set", "solver.max_iter=50", "--json").json["statistics"]
    assert told["train"]["accuracy"]["records"] == 100
    assert told["validation"]["accuracy"]["records"] == 27


def test_the_sum_of_several_losses_is_told_apart_from_a_layer_called_loss() -> None:
    second = '[[layer]]\ntype = "SoftmaxLoss"\nname = "loss2"\nbottoms = ["ip2", "label"]\nexclude = ["predict"]\n'
    text = Path("small.toml").read_text()
    Path("two.toml").write_text(f"insert_splits = true\n{text.replace('[solver]', second + '[solver]', 1)}")
    lines = run("train", "two.toml").out.splitlines()
    for start in ("iteration 60: total loss ", "iteration 60: validation: total loss "):
        (line,) = [line for line in lines if f", {start}" in line]
        assert "; loss: loss 0." in line and "; loss2: loss 0." in line
    assert run("test", "two.toml", "snapshots").out.startswith("test, after 60 iterations: total loss ")


def test_run_json_says_how_the_training_was_started() -> None:
    run("train", "small.toml")
    told = json.loads(Path("snapshots/run.json").read_text())
    assert told["command"][0] == "nacre"
    assert told["net"]["name"] == "small"


def test_settings_change_one_run() -> None:
    done = run("train", "small.toml", "--set", "solver.max_iter=20", "--seed", "5", "--backend", "numpy", "--json")
    other = run("train", "small.toml", "--set", "solver.max_iter=20", "--seed", "6", "--json")
    assert done.json["iterations"] == 20
    assert done.json["loss"] != other.json["loss"]


def test_a_resumed_training_is_the_uninterrupted_one() -> None:
    whole = run("train", "small.toml", "--set", "callback.Snapshot.folder=whole", "--json").json
    run("train", "small.toml", "--set", "solver.max_iter=25", "--json")
    done = run("train", "small.toml", "--resume", "auto")
    assert "iteration 25\n" in done.out
    assert done.err == ""
    one, other = (load_snapshot(path).arrays for path in (whole["snapshot"], "snapshots/snapshot-000060.h5"))
    assert any(name.startswith("history/") for name in one)
    assert one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
    part = run("train", "small.toml", "--resume", "whole/snapshot-000020.h5", "--json").json
    assert part["loss"] == whole["loss"]


def test_resuming_where_nothing_is_begins_anew_and_says_so() -> None:
    done = run("train", "small.toml", "--resume", "auto", "--json")
    assert done.err == "warning: there is no snapshot in snapshots yet, so the training begins anew\n"
    assert done.json["iterations"] == 60


def test_where_snapshots_were_put_aside_is_told(trained: Path) -> None:
    run("train", "small.toml", "--json")
    for path in trained.glob("snapshot-*.h5"):
        path.unlink()
    (trained / "aside-of-mine").mkdir()
    told = "those of earlier trainings were moved to snapshots/aside-1\n"
    assert run("test", "small.toml", trained, code=2).err.endswith(f"in this folder\n  {told}")
    assert run("train", "small.toml", "--resume", "auto", "--json").err.endswith(f"begins anew; {told}")


def test_a_refused_training_moves_no_snapshot(trained: Path) -> None:
    before = sorted(trained.rglob("*.h5"))
    Path("more-statistics.json").write_text("{}")
    for kind, fields in (
        ("EarlyStopping", 'statistic = "accuracy/acuracy"\nhigher_better = true'),
        ("StatisticsStore", 'if_exists = "refuse"'),
    ):
        extra = f'[[callback]]\ntype = "{kind}"\n{fields}\n'
        Path("more.toml").write_text(Path("small.toml").read_text() + extra)
        assert kind in run("train", "more.toml", code=2).err
        assert sorted(trained.rglob("*.h5")) == before


def test_a_damaged_snapshot_is_passed_over() -> None:
    run("train", "small.toml", "--set", "solver.max_iter=40", "--json")
    path = Path("snapshots/snapshot-000040.h5")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    done = run("train", "small.toml", "--resume", "auto")
    assert "snapshot-000040.h5" in done.err
    assert "continuing from iteration 20" in done.out


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (["--resume", "no.h5"], "no.h5: no such file"),
        (["--resume", "test.h5"], "test.h5"),
        (["--set", "solver.lr_policy=1e30", "--set", "layer.ip1.neuron=Identity"], "first seen in"),
        (["--set", "layer.train.batch_size=61"], "batch_size=61, but the data have only 60 records"),
        (["--set", 'layer.loss.exclude=["train"]'], "the net has no loss layer"),
        (["--set", "layer.ip2.output_dim=2"], "iteration 0, the batch of layer 'train': loss: label 2 of record "),
        (["--set", "solver.max_iter=0"], "max_iter=0, but it must be above 0"),
        (["--log", "no/log.jsonl"], "no/log.jsonl: cannot be written: No such file or directory\n  check the folder"),
    ],
)
def test_what_cannot_be_trained(changes: list[str], error: str) -> None:
    assert error in run("train", "small.toml", *changes, code=2).err


def test_a_net_without_a_solver_or_a_snapshot() -> None:
    text = Path("small.toml").read_text()
    Path("none.toml").write_text(text.partition("[solver]")[0])
    assert "has no table [solver], so the net cannot be trained" in run("train", "none.toml", code=2).err
    Path("unsaved.toml").write_text(text.partition('[[callback]]\ntype = "Snapshot"')[0])
    assert run("train", "unsaved.toml").out.endswith(
        "nothing was saved: the net file has no callback that saves snapshots\n"
    )
    assert "so there is no folder to resume from" in run("train", "unsaved.toml", "--resume", "auto", code=2).err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_after_the_iteration_and_says_how_to_go_on(number: signal.Signals, code: int) -> None:
    command = [*SCRIPT, "train", "small.toml", "--set", "solver.max_iter=100000000", "--allow-writes", "/data"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if ", iteration 40: saved" in line:
                break
        process.send_signal(number)
        rest = process.stdout.read().splitlines()
    assert process.returncode == code
    assert any(line.startswith(f"stopped by {number.name} after ") for line in rest)
    assert rest[-1] == "next: nacre train small.toml --resume auto --set solver.max_iter=100000000 --allow-writes /data"
    iteration = int(snapshots()[-1][9:15])
    assert run("train", "small.toml", "--resume", "auto", "--set", f"solver.max_iter={iteration + 5}", "--json").json[
        "iterations"
    ] == (iteration + 5)


def test_a_training_whose_terminal_is_closed_is_saved() -> None:
    outer, inner = pty.openpty()
    command = [*SCRIPT, "train", "small.toml", "--set", "solver.max_iter=100000000"]
    command += ["--set", "callback.TrainingSummary.every_n_iter=1", "--set", "callback.Snapshot.every_n_iter=100000000"]
    with subprocess.Popen(command, stdout=inner, stderr=inner, stdin=inner) as process:
        os.close(inner)
        shown = b""
        while b"iteration 40: " not in shown:
            shown += os.read(outer, 65536)
        process.send_signal(signal.SIGHUP)
        os.close(outer)
    (name,) = snapshots()  # that of the end
    iteration = int(name[9:15])
    options = ("--resume", "auto", "--set", f"solver.max_iter={iteration + 5}", "--json")
    assert run("train", "small.toml", *options).json["iterations"] == iteration + 5


def test_a_terminal_shows_progress_and_colour_unless_it_must_not() -> None:
    shown = terminal("train", "small.toml", "--set", "solver.max_iter=1000")
    assert " of 1000" in shown
    assert "records/s" in shown
    assert "left" in shown
    assert "iteration 30: validation: loss" in shown
    colours = ("\x1b[3", "\x1b[9", "\x1b[1;3")
    assert any(colour in shown for colour in colours)
    plain = terminal("train", "small.toml", NO_COLOR="1")
    assert "iteration 30: validation: loss" in plain
    assert "\x1b[38" not in plain and "\x1b[32" not in plain and "\x1b[35" not in plain


def test_weights_of_other_nets() -> None:
    run("train", "small.toml")
    lines = run(
        "train", "small.toml", "--weights", "snapshots", "--rename", "ip2=", "--set", "solver.max_iter=1",
        "--set", 'callback.Snapshot.folder="tuned"', "--set", 'freeze=["ip1"]',
    ).out.splitlines()  # fmt: skip
    assert "ip1/weight  loaded from snapshots/snapshot-000060.h5" in lines
    assert "ip2/weight  missing: it keeps its first values" in lines
    before, after = (load_snapshot(folder).arrays["parameters/ip1/weight"] for folder in ("snapshots", "tuned"))
    assert np.array_equal(before, after)


def test_weights_are_for_a_training_that_begins() -> None:
    run("train", "small.toml", "--set", "solver.max_iter=20")
    resumed = run("train", "small.toml", "--resume", "auto", "--weights", "nowhere.h5").out
    assert "from iteration 20, so --weights is not used\n" in resumed and "loaded from" not in resumed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--weights", "nowhere.h5"], "nowhere.h5: no such file"),
        (["--weights", "a.h5", "--rename", "ip1"], "--rename ip1: there is no '='"),
        (["--weights", ""], "--weights '': a name is missing"),
        (["--weights", "a.h5,"], "--weights 'a.h5,': a name is missing"),
        (["--weights", "a.h5", "--resume", "b.h5"], "--weights is for a training that begins anew, but --resume "),
        (["--rename", "ip1=ip2"], "--rename is only for --weights"),
    ],
)
def test_bad_weights(options: list[str], message: str) -> None:
    assert message in run("train", "small.toml", *options, code=2).err


def test_another_solver_begins_anew_if_it_is_said() -> None:
    run("train", "small.toml", "--set", "solver.max_iter=40")
    other = ("--resume", "auto", "--set", "solver.type=Nesterov")
    lines = run("train", "small.toml", *other, code=2).err
    assert "made by the solver SGD, but this training uses Nesterov" in lines
    assert "--reset-solver" in lines
    lines = run("train", "small.toml", *other, "--reset-solver").out
    assert "continuing from iteration 40" in lines
    assert "done after 60 iterations" in lines
    assert "--reset-solver is only for --resume" in run("train", "small.toml", "--reset-solver", code=2).err


def test_what_is_loaded_needs_no_first_values() -> None:
    run("train", "small.toml")
    path = Path("snapshots/snapshot-000060.h5").rename("first.h5")
    change = 'layer.ip1.weight_init={type="Pretrained", snapshot="first.h5", parameter="ip1/weight"}'
    run("train", "small.toml", "--set", change, "--set", "solver.max_iter=20")
    path.unlink()
    assert "no such file" in run("train", "small.toml", "--set", change, code=2).err
    run("train", "small.toml", "--set", change, "--set", "solver.max_iter=40", "--resume", "auto")
    run("test", "small.toml", "snapshots", "--set", change)
    run("predict", "small.toml", "snapshots", "test.h5", "--set", change)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-", "| head -n 1", ">/dev/full", "2>/dev/full"])
def test_a_training_goes_on_whatever_happens_to_what_is_printed(closed: str) -> None:
    if "/dev/full" in closed and not Path("/dev/full").exists():
        pytest.skip("only Linux has this device")
    command = shlex.join([*SCRIPT, "train", "small.toml", "--log", "log.jsonl"])
    shell = ["bash", "-o", "pipefail", "-c", f"{command} {closed}"]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert snapshots() == ["snapshot-000020.h5", "snapshot-000040.h5", "snapshot-000060.h5"]
    assert load_snapshot("snapshots").iteration == 60
    assert json.loads(Path("log.jsonl").read_text().splitlines()[-1])["event"] == "end"
    if closed == ">/dev/full":
        assert done.stderr == "warning: nothing more can be printed: No space left on device; the work continues\n"
    else:
        assert "Traceback" not in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has this device")
def test_a_log_that_cannot_be_written_ends_no_training() -> None:
    done = run("train", "small.toml", "--log", "/dev/full")
    assert done.err == "warning: /dev/full: cannot be written: No space left on device; nothing more is written to it\n"
    assert snapshots()[-1] == "snapshot-000060.h5"


def test_a_log_is_added_to_no_other_file() -> None:
    Path("table.csv").write_text("a,label\n1,0\n")
    told = run("train", "small.toml", "--log", "table.csv", code=2).err
    assert (
        told == "error: table.csv: it is no log of trainings, so nothing is added to it\n  use another file for --log\n"
    )
    assert Path("table.csv").read_text() == "a,label\n1,0\n"
    Path("log.jsonl").touch()
    for _ in range(2):
        run("train", "small.toml", "--log", "log.jsonl")
    assert Path("log.jsonl").read_text().count('"event": "end"') == 2


def test_a_net_that_nobody_gives_data_is_refused() -> None:
    head, _, rest = Path("small.toml").read_text().split("[[layer]]", 2)
    given = 'type = "Input"\nbatch_size = 10\nexclude = ["test", "validation", "predict"]\n'
    inputs = f'{given}tops = ["data"]\nshape = [2, 4]\n', f'{given}name = "label"\ntops = ["label"]\n'
    Path("empty.toml").write_text("[[layer]]\n".join([head, *inputs, rest]))
    told = run("train", "empty.toml", code=2).err
    assert "'data', 'label' of its Input layers" in told and "a source with data" in told
    assert not snapshots()


def test_a_net_file_writes_elsewhere_only_if_the_options_say_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    log = elsewhere / "log"
    log.write_text("mine")
    Path("log.toml").write_text(NET + f'[[callback]]\ntype = "JSONLog"\npath = "{log}"\n')
    assert f"--allow-writes {elsewhere}" in run("train", "log.toml", code=2).err
    assert f"--overwrite {log}" in run("train", "log.toml", "--allow-writes", str(elsewhere), code=2).err
    assert log.read_text() == "mine"
    run("train", "log.toml", "--allow-writes", str(elsewhere), "--overwrite", str(log))
    assert log.read_text().startswith('mine\n{"event": ')
    run("summary", "log.toml")  # writes nothing, so there is nothing to allow
