"""Sandblaster, Downpour and Hogwild: what they learn is what one process learns, where it is meant to be."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import run
from framework_ranks import averaged, in_threads, resume, run_file, start, train, validate_unevenly, without_group
from mpiexec import MPIEXEC, NEEDS_MPI
from nacre import ConfigError, Framework, RankError, make_component
from nacre.config import load
from nacre.testing.crew import ThreadCommunicator, crew, together
from nacre_parallel import AllReduce, Cluster, Downpour, Hogwild, LocalCommunicator, Sandblaster
from nacre_parallel.frameworks.hogwild import change
from nacre_parallel.frameworks.partners import dealt
from nacre_parallel.frameworks.replicas import neighbours_of
from rank_pool import Pool, pool
from registries import NewRegistry

ADAM = {"type": "Adam", "lr_policy": {"type": "Exp", "base": 0.01, "gamma": 0.99}, "regu_coef": 1e-3, "clip_norm": 0.5}
SGD = {"momentum_policy": 0.9, "lr_policy": 0.05, "n_accumulate": 2, "clip_value": 0.3, "regu_coef": 1e-3}
CLUSTERS = Path(__file__).resolve().parents[2] / "examples/cluster"
DEMO = CLUSTERS.parent / "digits/lenet.toml"
ONE_GROUP = {"type": "Downpour", "worker_groups": 1, "staleness": 0}
PLUGIN = Path(__file__).with_name("rank_plugin.py")
PATIENCE = 600
SEEDS = 5
AT_THE_END = ["callback.ValidationPerformance.every_n_iter=1500"]
RANKS = {"all_reduce": 2, "sandblaster": 3, "downpour": 3, "hogwild": 2, "distributed_hogwild": 3}
FILES = {name: CLUSTERS / f"{name}.toml" for name in RANKS}
SETS: dict[str, list[str]] = {name: [] for name in RANKS}
SETS["together"] = [
    "cluster.server_worker_separate=false",
    "cluster.nworkers_per_group=2",
    "cluster.nservers_per_group=2",
]
SETS["server_groups"] = ["cluster.nserver_groups=2"]
for name in ("together", "server_groups"):
    RANKS[name], FILES[name] = 4, FILES["downpour"]


def check_close(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in found.items():
        np.testing.assert_allclose(value, wanted[name], rtol=0, atol=1e-10, err_msg=name)


@pytest.mark.parametrize(
    ("size", "servers", "kind", "solver", "n_iter"),
    [
        (3, 1, "mlp", ADAM, 6),
        pytest.param(3, 1, "mlp", SGD, 50, marks=pytest.mark.long),
        pytest.param(4, 1, "synchronous", ADAM, 50, marks=pytest.mark.long),
        pytest.param(4, 2, "lenet", SGD, 50, marks=pytest.mark.long),
    ],
)
def test_sandblaster_learns_what_one_process_learns(
    size: int, servers: int, kind: str, solver: dict[str, Any], n_iter: int
) -> None:
    alone = train(None, kind, "AllReduce", solver, n_iter)
    several = in_threads(size, train, kind, {"type": "Sandblaster", "servers": servers}, solver, n_iter)
    for one in several:
        check_close(one["found"], alone["found"])
        assert one["validation"][0] == pytest.approx(alone["validation"][0], abs=1e-10)
        for what in ("statistics", "validation"):
            assert one[what] == several[0][what]
        for layer, values in one["statistics"].items():
            assert values == pytest.approx(alone["statistics"][layer], abs=1e-10)
        assert one["told"] == {}


@pytest.mark.parametrize(
    ("framework", "size", "algorithm"),
    [
        ("AllReduce", 3, {"type": "CD", "k": 2, "persistent": True}),
        ("AllReduce", 2, {"type": "CD"}),
        ("Sandblaster", 2, {"type": "CD", "sample_visible": True}),
        (ONE_GROUP, 2, {"type": "CD", "persistent": True}),
    ],
)
def test_energy_models_learn_what_one_process_learns(framework: Any, size: int, algorithm: dict[str, Any]) -> None:
    solver = {**SGD, "algorithm": algorithm}
    alone = train(None, "machine", "AllReduce", solver, 8)
    for one in in_threads(size, train, "machine", framework, solver, 8):
        found, wanted = (
            {name: values for name, values in of["found"].items() if name.startswith(("parameters/", "history/"))}
            for of in (one, alone)
        )
        check_close(found, wanted)
        assert one["found"]["loss"] == pytest.approx(alone["found"]["loss"], abs=1e-10)
        assert one["statistics"]["vis"] == pytest.approx(alone["statistics"]["vis"], abs=1e-10)
        if framework == "AllReduce":  # in others the parts of a validation's batches are equally long
            assert one["validation"][1]["vis"] == pytest.approx(alone["validation"][1]["vis"], abs=1e-10)


def test_persistent_chains_go_on_from_a_snapshot_of_all_ranks() -> None:
    solver = {**SGD, "algorithm": {"type": "CD", "persistent": True}}
    for uninterrupted, resumed, names in in_threads(2, resume, "machine", "AllReduce", solver, 5, 4):
        assert uninterrupted == resumed
        assert {"memory/layer.vis/chain/0/chains", "memory/rank1/layer.vis/chain/0/chains"} <= {*names}


@pytest.mark.parametrize(
    ("size", "servers", "solver"),
    [(2, 1, SGD), pytest.param(2, 1, ADAM, marks=pytest.mark.long), pytest.param(3, 2, SGD, marks=pytest.mark.long)],
)
def test_downpour_of_one_group_has_the_bits_of_one_process(size: int, servers: int, solver: dict[str, Any]) -> None:
    alone = train(None, "mlp", "AllReduce", solver, 8)
    for one in in_threads(size, train, "mlp", {**ONE_GROUP, "servers": servers}, solver, 8):
        assert one["found"] == alone["found"]


@pytest.mark.parametrize("algorithm_of", [SGD, ADAM], ids=["SGD", "Adam"])
@pytest.mark.parametrize(("size", "servers"), [(2, 1), (2, 2), pytest.param(3, 2, marks=pytest.mark.long)])
def test_workers_that_are_servers_have_the_bits_of_all_reduce(
    size: int, servers: int, algorithm_of: dict[str, Any]
) -> None:
    framework = {**ONE_GROUP, "servers": servers, "separate": False}
    expected = in_threads(size, train, "mlp", "AllReduce", algorithm_of, 8)
    for one, wanted in zip(in_threads(size, train, "mlp", framework, algorithm_of, 8), expected, strict=True):
        assert one["found"] == wanted["found"]


def test_one_worker_that_is_the_server_has_the_bits_of_one_process() -> None:
    alone = train(None, "mlp", "AllReduce", SGD, 8)
    (one,) = in_threads(1, train, "mlp", {**ONE_GROUP, "separate": False}, SGD, 8)
    assert one["found"] == alone["found"]


@pytest.mark.parametrize(("size", "servers"), [(2, 1), (4, 2), pytest.param(6, 2, marks=pytest.mark.long)])
def test_groups_that_wait_for_each_other_learn_what_one_process_learns(size: int, servers: int) -> None:
    """With staleness 0 all gradients are for the same parameters, and those of plain SGD add up."""
    solver = {"lr_policy": 0.1, "momentum_policy": 0.0}
    alone = train(None, "autoencoder", "AllReduce", solver, 8)
    for separate in (False, True):
        framework = {"type": "Downpour", "staleness": 0, "servers": servers, "separate": separate}
        for one in in_threads(size + servers * separate, train, "autoencoder", framework, solver, 8):
            found, wanted = (
                {name: value for name, value in of["found"].items() if "history" not in name} for of in (one, alone)
            )
            check_close(found, wanted)
            assert one["validation"][0] == pytest.approx(alone["validation"][0], abs=1e-10)


@pytest.mark.parametrize(("staleness", "warmup"), [(1, 2), pytest.param(0, 0, marks=pytest.mark.long)])
def test_groups_of_downpour_are_not_too_far_apart(staleness: int, warmup: int) -> None:
    framework = {"type": "Downpour", "staleness": staleness, "warmup_steps": warmup}
    for size, more in ((3, {}), (4, {"servers": 2, "separate": False})):
        found = in_threads(size, train, "mlp", {**framework, **more}, ADAM, 8)
        assert all(one["found"] == found[0]["found"] for one in found), "after a meeting ranks differ"
        told = {int(key): count for key, count in found[0]["told"]["staleness"].items()}
        assert sum(told.values()) == 2 * 8 - warmup
        assert max(told) <= 2 * staleness + 1


def test_hogwild_with_one_rank_on_each_node_is_model_averaging() -> None:
    found = in_threads(2, train, "mlp", {"type": "Hogwild", "nodes": 2}, SGD, 8)
    wanted = averaged("mlp", SGD, 2, 8)
    for one in found:
        assert {name: one["found"][f"parameters/{name}"] for name in wanted} == wanted
        assert one["told"] == {"staleness": {"0": 16}}


@pytest.mark.parametrize(
    ("size", "more"), [(4, {}), (6, {"servers": 2}), (2, {"separate": False}), (4, {"neighbours": 1})]
)
def test_server_groups_with_one_worker_each_are_model_averaging(size: int, more: dict[str, Any]) -> None:
    found = in_threads(size, train, "mlp", {"type": "Downpour", "server_groups": 2, **more}, SGD, 8)
    wanted = averaged("mlp", SGD, 2, 8)
    for one in found:
        assert {name: one["found"][f"parameters/{name}"] for name in wanted} == wanted
        assert one["told"] == {"staleness": {"0": 16}}


@pytest.mark.parametrize(
    ("size", "more"),
    [(8, {"servers": 2}), (12, {"separate": False, "servers": 2}), (4, {"separate": False, "staleness": 0})],
)
def test_server_groups_serve_groups_that_do_not_wait(size: int, more: dict[str, Any]) -> None:
    framework = {"type": "Downpour", "worker_groups": 4, "server_groups": 2, "sync_freq": 3, "staleness": 1, **more}
    found = in_threads(size, train, "mlp", framework, ADAM, 20)
    assert all(one["found"] == found[0]["found"] for one in found), "after a meeting ranks differ"
    told = {int(key): count for key, count in found[0]["told"]["staleness"].items()}
    assert sum(told.values()) == 4 * 20
    assert max(told) <= 2 * framework["staleness"] + 1


@pytest.mark.parametrize("more", [{}, {"staleness": 0, "warmup_steps": 2}])
def test_ranks_of_hogwild_share_their_parameters(more: dict[str, Any]) -> None:
    found = pool(2).run("framework_ranks:train", "mlp", {"type": "Hogwild", **more}, ADAM, 8)
    assert found[0]["found"] == found[1]["found"], "after a meeting ranks differ"
    told = {int(key): count for key, count in found[0]["told"]["staleness"].items()}
    assert sum(told.values()) == 2 * (8 - more.get("warmup_steps", 0))
    assert not more or max(told) <= 1


@pytest.mark.parametrize("how", ["leaves", "restores", "validates"])
@pytest.mark.parametrize("more", [{"separate": False}, {"separate": False, "server_groups": 2}, {}])
def test_ranks_that_step_by_themselves_wait_for_nobody_in_the_end(how: str, more: dict[str, Any]) -> None:
    def work(rank: Any) -> int:
        with start(rank, "mlp", {"type": "Downpour", "worker_groups": 2, **more}, SGD) as one:
            snapshot = one.snapshot()
            for _ in range(15):
                one.step()
            if how == "restores":
                one.restore(snapshot)
            elif how == "validates":
                one.come_together()
                with one.net.derive("validation") as validation:
                    validation.forward_epoch()
            return one.iteration

    ranks = crew(2 if "separate" in more else 3)
    assert set(together(ranks, lambda rank: work(ranks[rank]))) == {0 if how == "restores" else 15}


@pytest.mark.parametrize("size", [3, 4])
def test_servers_count_no_record_of_a_validation(size: int) -> None:
    """The source feeds training and validation, in batches that the workers divide unevenly."""
    (alone,) = in_threads(1, validate_unevenly, "AllReduce")
    for one in in_threads(size, validate_unevenly, {"type": "Sandblaster", "servers": size - 2}):
        assert one["records"] == alone["records"]
        assert one["loss"] == pytest.approx(alone["loss"], abs=1e-10)


def test_running_statistics_of_unequal_parts_are_weighed() -> None:
    all_reduce = in_threads(2, train, "uneven normal", "AllReduce", SGD, 5)[0]["found"]
    for one in in_threads(3, train, "uneven normal", "Sandblaster", SGD, 5):
        check_close(one["found"], all_reduce)


def test_changes_of_others_stay() -> None:
    before, after = np.array([1.0, 2.0, 0.1]), np.array([1.5, 1.0, 0.3])
    shared = np.array([1.0, 4.0, 0.1])
    change(shared, before, after)
    assert shared.tolist() == [1.5, 3.0, 0.3]


def test_neighbours_stand_in_a_ring() -> None:
    assert [neighbours_of(0, 5, reach) for reach in (1, 2, 9)] == [[1, 4], [1, 2, 3, 4], [1, 2, 3, 4]]
    assert neighbours_of(0, 1, 1) == []


def test_parameters_are_dealt_out_evenly_and_whole() -> None:
    sizes = {"a": 5, "b": 100, "c": 60, "d": 7, "e": 40, "f": 100}
    assert dealt(["a", "b", "c", "d", "e"], 2, sizes.__getitem__) == [["b", "d"], ["a", "c", "e"]]
    assert dealt(["b", "f", "b"], 2, sizes.__getitem__) == [["b", "b"], ["f"]]


@pytest.mark.parametrize(
    ("size", "framework"),
    [
        (4, {"type": "Sandblaster", "servers": 2}),
        (3, {"type": "Downpour", "staleness": 0}),
        (6, {"type": "Downpour", "servers": 2, "staleness": 0}),
        (6, {"type": "Downpour", "servers": 2, "staleness": 0, "separate": False}),
        (
            6,
            {
                "type": "Downpour",
                "worker_groups": 4,
                "server_groups": 2,
                "neighbours": 1,
                "staleness": 0,
                "sync_freq": 2,
            },
        ),
        (8, {"type": "Downpour", "server_groups": 2, "servers": 2, "neighbours": 1}),
        (6, {"type": "Downpour", "worker_groups": 3, "server_groups": 3, "servers": 2, "separate": False}),
        (4, {"type": "Downpour", "worker_groups": 4, "server_groups": 4, "separate": False, "neighbours": 1}),
        (4, {"type": "Hogwild", "nodes": 4, "neighbours": 1, "sync_freq": 2}),
    ],
)
def test_ranks_send_what_their_roles_say(size: int, framework: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    sent: Counter[tuple[int, int]] = Counter()

    def isend(self: Any, array: np.ndarray, to: int, tag: int = 0) -> Any:
        if array.size > 4:  # not what an array is about
            ranks = ranks_of(self)
            sent[ranks[self.rank], ranks[to]] += array.size
        return plain(self, array, to, tag)

    def split(self: Any, *arguments: Any) -> Any:
        if (part := whole(self, *arguments)) is not None:
            part.ranks = part.gather(ranks_of(self)[self.rank])
        return part

    def ranks_of(communicator: Any) -> Any:
        return getattr(communicator, "ranks", range(communicator.size))

    plain, whole = ThreadCommunicator.isend, ThreadCommunicator.split
    monkeypatch.setattr(ThreadCommunicator, "isend", isend)
    monkeypatch.setattr(ThreadCommunicator, "split", split)
    found = in_threads(size, train, "mlp", framework, {}, 4)
    shapes = {name.partition("/")[2]: np.size(value) for name, value in found[0]["found"].items() if "param" in name}
    expected: Counter[tuple[int, int]] = Counter()
    for rank, role in enumerate(make_component(Framework, framework).roles(shapes, size)):
        for what, count in role.sends.items():
            if one := re.match(r"\w+ to rank (\d+)(?:, once in \d+ iterations)?$", what):
                expected[rank, int(one[1])] += count * 4
    assert sent.keys() == expected.keys()
    assert all(abs(count - expected[ends]) <= 4 for ends, count in sent.items())  # means of iterations are rounded


def test_explain_says_what_ranks_do(new_registry: NewRegistry) -> None:
    file = CLUSTERS / "downpour.toml"
    told = json.loads(run("explain", file, "--ranks", "3", "--json").out)
    assert told["framework"] == "Downpour"
    first, second, server = told["ranks"]
    assert first["reads"] == second["reads"] == [{"source": "train", "records": 30, "batch_size": 60}]
    assert (first["role"], second["role"], server["role"]) == ("worker of group 0", "worker of group 1", "server")
    assert first["updates"] == server["reads"] == []
    assert server["updated"] == told["parameters"] == 4810
    assert first["sends"] == second["sends"] == [{"what": "gradients to rank 2", "bytes": 4 * 4810}]
    assert [one["what"] for one in server["sends"]] == ["values to rank 0", "values to rank 1"]
    text = run("explain", file, "--ranks", "3").out
    assert "rank 2: server\n  updates all parameters\n  sends values to rank 0: 18.8 KiB in an iteration\n" in text
    sets = [word for one in SETS["together"] for word in ("--set", one)]
    first, second, third, _ = json.loads(run("explain", file, "--ranks", "4", "--json", *sets).out)["ranks"]
    assert (first["role"], third["role"]) == ("worker of group 0, and server", "worker of group 1")
    assert first["updated"] + second["updated"] == 4810 and third["updates"] == []
    assert [one["what"] for one in second["sends"]] == [
        "gradients, which ranks 0 and 1 add up",
        "values of rank 1 to rank 0",
        "values to rank 3",
    ]
    assert "[cluster] describes 3 ranks (Downpour), but there are 4" in run("explain", file, "--ranks", "4", code=2).err
    text = run("explain", DEMO, "--ranks", "3").out
    assert text.startswith("AllReduce on 3 ranks, ") and "rank 2: worker\n  reads 22 of the 64 records" in text
    new_registry()  # this plugin is only for the next line
    told = run("explain", DEMO, "--ranks", "3", "--plugin", PLUGIN, "--set", "solver.framework=Silent", code=2).err
    assert "the framework Silent does not say what its ranks do" in told


@pytest.mark.parametrize("framework", [ONE_GROUP, {"type": "Hogwild", "nodes": 2}], ids=["Downpour", "Hogwild"])
def test_a_resumed_training_is_the_one_that_was_not_interrupted(framework: dict[str, Any]) -> None:
    for uninterrupted, resumed, arrays in in_threads(2, resume, "mlp", framework, ADAM, 4, 4):
        assert uninterrupted == resumed
        assert {"history/mean/ip1/weight", "parameters/ip1/weight"} <= set(arrays)


def test_ranks_that_were_servers_go_on_where_the_others_are() -> None:
    def losses(rank: Any, given: Any, n_iter: int, snapshot: Any = None) -> Any:
        with start(rank, "mlp", given, {"lr_policy": 0.05}) as one:
            if snapshot is not None:
                one.restore(snapshot)
            found: list[float] = []
            for _ in range(n_iter):
                one.step()
                found.append(one.loss)
            taken = one.snapshot()
            one.net.shutdown()
            return found, taken

    expected, _ = losses(None, "AllReduce", 9)
    (_, snapshot), *_ = in_threads(3, losses, "Sandblaster", 5)
    with pytest.warns(UserWarning, match='trained with framework="Sandblaster"'):
        after = in_threads(3, losses, "AllReduce", 4, snapshot)
    for found, _ in after:
        assert np.abs(np.subtract(found, expected[5:])).max() < 1e-10


@pytest.mark.long
@pytest.mark.parametrize(("size", "framework"), [(3, "Downpour"), (4, "Hogwild")])
def test_groups_that_do_not_wait_go_on_from_a_snapshot(size: int, framework: str) -> None:
    for uninterrupted, resumed, _ in pool(size).run("framework_ranks:resume", "mlp", framework, ADAM, 5, 5):
        assert resumed["iteration"] == uninterrupted["iteration"] == 10
        assert resumed["epochs"] == uninterrupted["epochs"]
        assert np.isfinite(resumed["loss"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("framework", "rank", "words"),
    [
        ("Sandblaster", 2, "a number is not finite; first seen in the value of parameter 'ip1/bias'"),
        ("Downpour", 2, "a number is not finite; first seen in the value of parameter 'ip1/bias'"),
        ("Hogwild", 1, "the loss is nan; first seen in blob"),
    ],
)
def test_a_number_that_is_not_finite_ends_all(framework: str, rank: int, words: str) -> None:
    ranks = Pool(3)
    with pytest.raises(RankError, match=words):
        ranks.run("framework_ranks:poison", framework, rank)
    ranks.close()


@pytest.mark.long
@pytest.mark.parametrize("name", RANKS)
def test_trainings_end_and_begin_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A signal ends all ranks at one iteration; a rank that is killed ends all, and they begin again."""
    text = FILES[name].read_text().replace("../digits", str(CLUSTERS.parent / "digits"))
    monkeypatch.chdir(tmp_path)
    words = [sys.executable, "-m", "nacre", "train", "net.toml", "--workers", str(RANKS[name])]
    words += ["--plugin", str(PLUGIN), "--set", "solver.max_iter=40", "--set", "callback.Snapshot.every_n_iter=10"]
    words += [word for one in SETS[name] for word in ("--set", one)]

    def run(*options: str, doom: str) -> tuple[int, str]:
        Path("net.toml").write_text(f'{text}\n[[callback]]\ntype = "Doom"\nevery_n_iter = 5\n{doom}')
        done = subprocess.run([*words, *options], check=False, capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, done.stdout + done.stderr

    last = RANKS[name] - 1  # a server, where there is one
    code, told = run(doom='at = 15\nhow = "signal"')
    assert code == 143 and "stopped by SIGTERM after" in told, told
    code, told = run("--resume", "auto", "--restarts", "1", doom=f'at = 25\nrank = {last}\nonce = "killed"')
    assert code == 0 and f"rank {last} of {last + 1} was ended by SIGKILL" in told, told
    assert "continuing from iteration 20" in told and "done after 40 iterations" in told, told
    code, told = run("--set", "solver.max_iter=60", "--resume", "auto", doom='at = 50\nhow = "raise"\nonce = "raised"')
    assert code == 2 and "rank 1 of" in told and "the well has run dry" in told, told


@pytest.mark.parametrize("name", RANKS)
def test_examples_of_clusters_learn(name: str) -> None:
    sets = ["solver.max_iter=150", "callback.ValidationPerformance.every_n_iter=150"]
    found = pool(RANKS[name]).run("framework_ranks:run_file", str(FILES[name]), [*sets, *SETS[name]])
    for one in found:
        assert one["iteration"] == 150
        assert one["accuracy"] == found[0]["accuracy"] > 0.8
        assert one["loss"] == found[0]["loss"]


@pytest.mark.parametrize(
    ("name", "made"),
    [("sandblaster", [1, 1, 0]), ("distributed_hogwild", [3, 3, 3]), ("server_groups", [2, 2, 2, 2])],
)
def test_a_training_closes_the_communicators_that_were_made_for_it(name: str, made: list[int]) -> None:
    found = pool(len(made)).run("framework_ranks:closed", str(FILES[name]), SETS[name])
    assert found == [[True] * count for count in made]


@pytest.mark.long
@NEEDS_MPI
@pytest.mark.parametrize("name", RANKS)
def test_examples_of_clusters_learn_under_mpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    words = [MPIEXEC, "-n", str(RANKS[name]), sys.executable, "-m", "nacre", "train", str(FILES[name])]
    for one in ("solver.max_iter=150", "callback.ValidationPerformance.every_n_iter=150", *SETS[name]):
        words += ["--set", one]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0 and "done after 150 iterations" in done.stdout, done.stdout + done.stderr
    found = re.findall(r"iteration 150: validation: .*accuracy: ([\d.]+) %", done.stdout)
    assert len(found) == 1 and float(found[0]) > 80, done.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("size", "framework"),
    [
        (3, "Downpour"),
        (3, "{type='Downpour', staleness=0, warmup_steps=20}"),
        (2, "{type='Downpour', separate=false}"),
        (4, "{type='Downpour', server_groups=2, sync_freq=5}"),
        (2, "Hogwild"),
        (2, "{type='Hogwild', nodes=2, sync_freq=5}"),
    ],
)
def test_ranks_that_do_not_wait_learn_as_well_as_one_process(size: int, framework: str) -> None:
    """The accuracies of the demo: means over five seeds within 1 point."""
    stale: Counter[str] = Counter()
    alone, several = 0.0, 0.0
    for seed in range(SEEDS):
        alone += accuracy_alone(seed) / SEEDS
        sets = [*AT_THE_END, f"solver.framework={framework}", f"seed={seed}"]
        found = pool(size).run("framework_ranks:run_file", str(DEMO), sets)[0]
        several += found["accuracy"] / SEEDS
        stale.update(found["staleness"])
    print(f"{framework}: mean accuracy {several:.4f} beside {alone:.4f}; staleness {dict(stale)}")
    assert abs(several - alone) < 0.01


@cache
def accuracy_alone(seed: int) -> float:
    """Return the accuracy of the demo, trained by one process to its end: before, pushes count more than batches."""
    accuracy: float = run_file(None, str(DEMO), [*AT_THE_END, f"seed={seed}"])["accuracy"]
    return accuracy


@pytest.mark.parametrize(
    ("fields", "meant", "ranks"),
    [
        ({"nworkers_per_group": 3, "nservers_per_group": 3}, AllReduce(), 3),
        (
            {"nworkers_per_group": 3, "nservers_per_group": 2, "server_worker_separate": True},
            Sandblaster(servers=2),
            5,
        ),
        (
            {"nworker_groups": 2, "nworkers_per_group": 2, "nservers_per_group": 2, "server_worker_separate": True},
            Downpour(worker_groups=2, servers=2),
            6,
        ),
        (
            {"nworker_groups": 2, "nworkers_per_group": 3, "nservers_per_group": 2, "staleness": 1},
            Downpour(worker_groups=2, servers=2, staleness=1, separate=False),
            6,
        ),
        (
            {"nworker_groups": 4, "nserver_groups": 2, "server_worker_separate": True, "sync_freq": 7},
            Downpour(worker_groups=4, server_groups=2, sync_freq=7),
            6,
        ),
        (
            {"nworker_groups": 2, "nserver_groups": 2, "nworkers_per_group": 2, "nservers_per_group": 2},
            Downpour(server_groups=2, servers=2, separate=False),
            4,
        ),
        ({"nworker_groups": 3, "nserver_groups": 3, "sync_freq": 7}, Hogwild(nodes=3, sync_freq=7), 3),
        ({"nworker_groups": 4, "staleness": 3, "warmup_steps": 9}, Hogwild(nodes=1, staleness=3, warmup_steps=9), 4),
    ],
)
def test_singas_numbers_mean_a_framework(fields: dict[str, Any], meant: Any, ranks: int) -> None:
    cluster = Cluster(**fields)
    assert type(cluster.meant) is type(meant)
    given = {key: value for key, value in cluster.meant.given().items() if value != getattr(type(meant)(), key)}
    assert given | {"nodes": 0} == meant.given() | {"nodes": 0}
    assert getattr(cluster.meant, "nodes", 0) == getattr(meant, "nodes", 0)
    assert cluster.ranks == ranks


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"nserver_groups": 2, "server_worker_separate": True}, "nworker_groups=1 cannot be divided among nserver_gr"),
        ({"nworkers_per_group": 2, "staleness": 3}, "staleness=3, but it means nothing for AllReduce"),
        ({"server_worker_separate": True, "warmup_steps": 2}, "warmup_steps=2, but it means nothing for Sandblaster"),
        ({"nworker_groups": 2, "sync_freq": 5}, "sync_freq=5, but it means nothing for Hogwild"),
        ({"nworker_groups": 3, "nserver_groups": 2}, "nworker_groups=3 cannot be divided among nserver_groups=2"),
        ({"nworker_groups": 2, "nworkers_per_group": 2, "nservers_per_group": 3}, "nservers_per_group=3, but servers"),
        ({"nworker_groups": 2, "nserver_groups": 2, "nservers_per_group": 2}, "nservers_per_group=2, but servers"),
        ({"nworker_groups": 3, "nservers_per_group": 5}, "nservers_per_group=5, but servers"),
    ],
)
def test_numbers_that_mean_no_framework_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Cluster(**fields)


def test_another_number_of_ranks_is_refused() -> None:
    ranks = LocalCommunicator()
    ranks.size = 4
    with pytest.raises(ConfigError, match=r"describes 2 ranks \(AllReduce\), but there are 4\n  .*--workers 2"):
        Cluster(nworkers_per_group=2).layers([], ranks)
    with pytest.raises(ConfigError, match=r"of 4 ranks 1 are servers, so there are 3 workers, .*2 groups"):
        Downpour().layers([], ranks)
    with pytest.raises(ConfigError, match=r"4 ranks are 4 workers, .* 6 or more in 2 .*, as 3 of .*\n  start 6 ranks"):
        Downpour(servers=3, separate=False).layers([], ranks)
    with pytest.raises(ConfigError, match=r"4 ranks cannot be divided into nodes=3"):
        Hogwild(nodes=3).node(ranks)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"worker_groups": 3, "server_groups": 2}, "worker_groups=3 cannot be divided among server_groups=2"),
        ({"sync_freq": 5}, "sync_freq=5, but with one group of servers there are no means"),
        ({"neighbours": 1}, "neighbours=1, but with one group of servers there are no means"),
    ],
)
def test_numbers_of_server_groups_that_mean_nothing_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Downpour(**fields)


@pytest.mark.parametrize("framework", ["Sandblaster", "Hogwild"])
def test_a_net_for_other_groups_is_refused(framework: str) -> None:
    for told in in_threads(2, without_group, framework):
        assert f"{framework}: the net was made for ranks that do everything together" in told


def test_a_net_file_names_its_framework_once(tmp_path: Path) -> None:
    text = (CLUSTERS / "downpour.toml").read_text().replace("../digits", str(CLUSTERS.parent / "digits"))
    file = tmp_path / "net.toml"
    file.write_text(text)
    assert load(file, ["cluster.nworker_groups=3"]).solver().framework.nworker_groups == 3  # pyright: ignore
    with pytest.raises(ConfigError, match=r"\[cluster\]: Cluster: unknown field 'nworkers'"):
        load(file, ["cluster.nworkers=3"])
    with pytest.raises(ConfigError, match=r"both \[cluster\] and \[solver\] have a framework"):
        load(file, ["solver.framework=Hogwild"])
    head, tail = text.split("[cluster]")
    file.write_text(f'{head}[cluster]\ntype = "Sandblaster"\n{tail[tail.index("[[layer]]") :]}')
    assert isinstance(load(file).solver().framework, Sandblaster)
