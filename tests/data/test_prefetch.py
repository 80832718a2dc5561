"""Prefetch: what a thread makes of a source and its parsers is what the net would; only what was used counts."""

import _thread
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import nacre
from nacre import ConfigError, DataError, Field, Layer, Net, Phase, Solver, Transformer
from nacre.cli.app import nacre as command
from nacre.config import dumps, load
from nacre.testing.trial import backends
from nacre_data import (
    DataLayer,
    HDF5DataLayer,
    HDF5Store,
    LabelLayer,
    MemoryDataLayer,
    MnistImageLayer,
    PrefetchLayer,
    RandomNormalLayer,
    RGBImageLayer,
    Shard,
)
from nacre_data.ahead import ReadAhead
from nacre_layers import DropoutLayer, InnerProductLayer, SoftmaxLossLayer
from nacre_solvers import SGD
from ranks import assert_same, state_at

COUNT = 11
IMAGES = np.random.default_rng(0).integers(0, 256, (COUNT, 3, 6, 5), np.uint8)
CLASSES = np.arange(COUNT) % 3

pytestmark = pytest.mark.usefixtures("no_thread_is_left")

# The example of SINGA's page on layers, as a net file.
SEED = """
[[layer]]
type = "Prefetch"
name = "prefetch"
exclude = ["test"]

[[layer.layer]]
type = "ShardData"
name = "data"
source = "shard"
tops = ["image", "class"]
batch_size = 4
shuffle = true

[[layer.layer]]
type = "RGBImage"
name = "rgb"
bottoms = ["image"]
tops = ["rgb"]
crop_size = 4
mirror = true
mean_file = "image_mean.bin"
scale = 0.01

[[layer.layer]]
type = "Label"
name = "label"
bottoms = ["class"]
tops = ["label"]

[[layer]]
type = "Data"
name = "test"
source = "shard"
tops = ["rgb", "label"]
batch_size = 4
transformers = [["rgb", { type = "RGBImage", crop_size = 4, mean_file = "image_mean.bin", scale = 0.01 }]]
exclude = ["train", "validation", "predict"]

[[layer]]
type = "InnerProduct"
bottoms = ["rgb"]
tops = ["ip"]
output_dim = 3

[[layer]]
type = "SoftmaxLoss"
bottoms = ["ip", "label"]
exclude = ["predict"]

[[layer]]
type = "Accuracy"
bottoms = ["ip", "label"]
exclude = ["train", "predict"]

[solver]
type = "SGD"
max_iter = 6

[[callback]]
type = "Snapshot"
every_n_iter = 6
folder = "snapshots"
"""


@pytest.fixture(name="folder")
def folder_(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with the net file above and its data."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shard").mkdir()
    singa = Shard(codec="SingleLabelImageRecord")
    fields = {"image": Field((3, 6, 5), "uint8"), "class": Field((), "int64")}
    with singa.create(tmp_path / "shard", fields) as writer:
        writer.append({"image": IMAGES, "class": CLASSES})
    mean = {"data": IMAGES.mean(axis=0).astype(np.float32), "label": np.array(0)}
    (tmp_path / "image_mean.bin").write_bytes(nacre.registry().open("codec", "SingleLabelImageRecord")().encode(mean))
    (tmp_path / "net.toml").write_text(SEED)
    return tmp_path


def inner(**fields: Any) -> list[Layer]:
    options = {"name": "data", "tops": ["image", "class"], "batch_size": 4, "shuffle": True, **fields}
    return [
        MemoryDataLayer(data=[IMAGES, CLASSES], **options),
        RGBImageLayer(bottoms="image", tops="rgb", crop_size=4, mirror=True, scale=1 / 256),
        LabelLayer(bottoms="class", tops="label"),
    ]


def above() -> list[Layer]:
    return [InnerProductLayer(bottoms="rgb", tops="ip", output_dim=3), SoftmaxLossLayer(bottoms=["ip", "label"])]


# What is trained


def test_the_example_of_singas_page_runs(folder: Path) -> None:
    file = load("net.toml")
    (folder / "again.toml").write_text(dumps(file))
    for one in (file, load("again.toml")):
        with one.net("train", backend="numpy") as net:
            assert list(net.node_ops) == ["prefetch", "ip", "SoftmaxLoss-ip"]
            assert net.node_ops["prefetch"].layer.tops == ("rgb", "label")
            net.forward()
            assert net.blob("rgb").shape == (4, 3, 4, 4)
            assert net.blob("label").dtype == np.int64
        with one.net("test", backend="numpy") as net:
            assert "prefetch" not in net.node_ops
            assert net.forward_epoch() > 0


def run(*words: str) -> str:
    result = CliRunner().invoke(command, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_line_trains_tests_predicts_and_shows(folder: Path) -> None:
    (proposed,) = [line for line in run("train", "net.toml", "--backend", "numpy").split("\n") if " predict " in line]
    assert " shard " in proposed
    assert "accuracy" in run("test", "net.toml", "snapshots", "--backend", "numpy").lower()
    with h5py.File("some.h5", "w") as file:
        file["image"] = IMAGES  # the name that the embedded source reads
    run("predict", "net.toml", "snapshots", "some.h5", "--backend", "numpy", "--blob", "rgb", "--out", "out.npy")
    mean = IMAGES.mean(axis=0).astype(np.float32)
    expected = (IMAGES - mean)[:, :, 1:5, 0:4] * np.float32(0.01)
    np.testing.assert_allclose(np.load("out.npy"), expected, rtol=1e-6, atol=1e-6)
    for looking in (["summary"], ["explain"], ["graph", "--format", "dot"]):
        assert "prefetch" in run(looking[0], "net.toml", *looking[1:])


@pytest.mark.parametrize("backend", backends())
def test_a_training_is_the_same_bit_for_bit_and_so_is_a_resumed_one(backend: str) -> None:
    def trained(ahead: int | None, iterations: int = 7, snapshot: Any = None) -> tuple[Any, bytes]:
        given = inner() if ahead is None else [PrefetchLayer(name="prefetch", layer=inner(), ahead=ahead)]
        layers = [*given, *above()]
        with Net("t", layers, backend=backend) as net, Solver(SGD(), max_iter=9, lr_policy=0.1).start(net) as training:
            if snapshot is not None:
                training.restore(snapshot)
            for _ in range(iterations):
                training.step()
            store = HDF5Store()
            written = store.decode(store.encode(training.snapshot()), "here")
            return written, b"".join(one.value.tobytes() for one in net.parameters.values())

    expected = trained(None)[1]
    for ahead in (0, 1, 3):
        assert trained(ahead)[1] == expected
        middle, _ = trained(ahead, 4)
        assert trained(2, 3, middle)[1] == expected


class Noise(Transformer):
    """Adds one number, drawn for the iteration, to a whole batch."""

    def transform(self, batch: Any, random: Any, phase: str) -> None:
        batch += random.generator().random()


def of_steps(ahead: int, size: int = 4) -> PrefetchLayer:
    """Return layers whose random numbers are those of records, of batches and of iterations."""
    layers = [
        *inner(batch_size=size, transformers=[["image", Noise()]]),
        RandomNormalLayer(name="noise", tops="noise", output_dims=2, batch_size=size),
        DropoutLayer(name="drop", bottoms="noise"),
    ]
    return PrefetchLayer(name="p", layer=layers, ahead=ahead)


@settings(max_examples=30)
@given(
    ahead=st.integers(1, 4),
    phase=st.sampled_from(["train", "validation"]),
    what=st.lists(
        st.one_of(st.sampled_from(["forward"] * 4 + ["rewind", "remember"]), st.integers(-2, 50)), max_size=20
    ),
)
def test_it_changes_nothing(ahead: int, phase: str, what: list[Any]) -> None:
    """Whatever a net does with its source, and however its steps go on."""
    plain, early = (state_at(of_steps(number), phase) for number in (0, ahead))
    assert_same(plain, early, what)


def test_without_a_thread_it_is_the_net_of_its_layers() -> None:
    state = state_at(of_steps(0))
    with Net("n", of_steps(0).layer, backend="numpy", keep="all") as net:
        for step in range(6):
            state.backend.scalars["step"] = net.step = step
            state.forward([])
            net.forward()
            for top, blob in zip(state.layer.tops, state.blobs, strict=True):
                assert blob.tobytes() == net.blob(top).tobytes(), top
            assert (state.rows, state.epoch) == (4, net.epoch)
    state.shutdown()


@settings(max_examples=25)
@given(
    ranks=st.integers(1, 8),
    size=st.integers(1, 4),
    phase=st.sampled_from(["train", "validation"]),
    aheads=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    before=st.integers(0, 6),
    whose=st.integers(0, 7),
)
def test_on_each_rank_it_is_the_net_of_its_layers(
    ranks: int, size: int, phase: Any, aheads: tuple[int, int], before: int, whose: int
) -> None:
    """Also if the training goes on from what any of the ranks has saved."""
    assume(size * ranks <= COUNT)
    first, second = (of_steps(ahead, size) for ahead in aheads)
    where: list[dict[str, Any]] = [{"phase": phase, "rank": rank, "ranks": ranks} for rank in range(ranks)]
    plain = [Net("n", of_steps(0, size).layer, backend="numpy", keep="all", **one) for one in where]
    early = [state_at(first, **one) for one in where]
    for step in range(before + 5):
        if step == before:
            memory = early[whose % ranks].memory()
            for state in early:
                state.shutdown()
            early = [state_at(second, **one) for one in where]
            for state in early:
                state.remember(memory)
        at = step * (phase == "train")
        for net, state in zip(plain, early, strict=True):
            net.step = state.backend.scalars["step"] = at
            net.forward()
            state.forward([])
            for top, blob in zip(first.tops, state.blobs, strict=True):
                assert blob.tobytes() == net.blob(top).tobytes(), (top, step)
            assert (state.rows, state.epoch) == (int(net.scalars["rows"]), net.epoch)
        assert len({tuple(state.memory().items()) for state in early}) == 1
    for one in (*plain, *early):
        one.shutdown()


def test_a_pass_outside_training_sees_each_record_once() -> None:
    layers = [PrefetchLayer(layer=inner(), exclude="train"), *above()]
    with Net("v", [*inner(), *above()], phase="validation") as plain, Net("v", layers, phase="validation") as net:
        for _ in range(3):
            assert net.forward_epoch() == plain.forward_epoch()
        assert net.epoch == plain.epoch == 1


def test_parsers_above_it_know_the_records_too() -> None:
    def made(layers: list[Layer]) -> np.ndarray:
        with Net("n", layers, backend="numpy", keep=["small"]) as net:
            return np.concatenate([(net.forward(), net.blob("small"))[1] for _ in range(5)])

    small = RGBImageLayer(bottoms="rgb", tops="small", crop_size=2)
    np.testing.assert_array_equal(made([PrefetchLayer(layer=inner()), small]), made([*inner(), small]))


# The thread


def reading(state: Any, read: Callable[..., None]) -> None:
    """Let the records of the embedded source be read by `read(usual, records, arrays)`."""
    records = state.sources[0].records
    usual = records.read
    vars(records)["read"] = lambda *arguments: read(usual, *arguments)


def test_only_some_batches_are_made_and_only_those_used_count() -> None:
    state = state_at(PrefetchLayer(name="p", layer=inner(), ahead=2))
    before, reads = state.memory(), threading.Semaphore(0)

    def counted(usual: Any, *arguments: Any) -> None:
        usual(*arguments)
        reads.release()

    reading(state, counted)
    state.forward([])
    for _ in range(1 + 2):
        assert reads.acquire(timeout=600)
    assert not reads.acquire(blocking=False)  # a fourth one has no place
    assert before == {"data:position": 0, "data:epoch": 0, "data:count": COUNT}
    assert state.memory() == {"data:position": 4, "data:epoch": 0, "data:count": COUNT}
    state.shutdown()  # with a full queue


def breaks_down(*_: Any) -> None:
    raise DataError("data: bad record")


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_an_error_comes_with_its_own_traceback_and_then_the_same_batch(ahead: int) -> None:
    state, good = (state_at(PrefetchLayer(name="p", layer=inner(), ahead=number)) for number in (ahead, 0))
    failed = threading.Event()

    def at_times(usual: Any, records: Any, arrays: Any) -> None:
        if state.net.epoch and not failed.is_set():
            failed.set()
            breaks_down()
        usual(records, arrays)

    reading(state, at_times)
    batches = 0

    def go_on() -> None:
        nonlocal batches
        while state.epoch < 5:
            state.forward([])
            batches += 1

    with pytest.raises(DataError, match="data: bad record") as caught:
        go_on()
    assert "breaks_down" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    for _ in range(batches):
        good.forward([])
    for _ in range(3):
        for one in (state, good):
            one.backend.scalars["step"] += 1
            one.forward([])
        assert state.memory() == good.memory()
        assert state.blobs[0].tobytes() == good.blobs[0].tobytes()
    state.shutdown()
    good.shutdown()


def test_it_can_be_shut_down_while_a_batch_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    state = state_at(PrefetchLayer(name="p", layer=inner(), ahead=3))
    first, go_on, begun, stop = threading.Event(), threading.Event(), threading.Event(), ReadAhead.stop

    def waits(usual: Any, *arguments: Any) -> None:
        usual(*arguments)
        if first.is_set():
            begun.set()
            assert go_on.wait(600)
        first.set()

    def stops(ahead: Any, *seconds: float) -> bool:
        go_on.set()  # not before: the shutdown begins while the second batch is made
        return stop(ahead, *seconds)

    reading(state, waits)
    monkeypatch.setattr(ReadAhead, "stop", stops)
    state.forward([])
    assert begun.wait(600)
    state.shutdown()
    state.shutdown()


def test_ctrl_c_while_waiting_for_a_batch_ends_the_thread_too() -> None:
    layers = [PrefetchLayer(name="p", layer=inner()), *above()]
    with Net("n", layers, backend="numpy") as net:
        state: Any = net.node_ops["p"].state

        keys = iter([_thread.interrupt_main])  # pressed once: a second time might come after the first was seen

        def pressed(usual: Any, *arguments: Any) -> None:
            for press in keys:
                press()
            usual(*arguments)

        reading(state, pressed)

        def go_on() -> None:
            for _ in range(10_000):
                net.forward()

        with pytest.raises(KeyboardInterrupt):
            go_on()


def test_a_net_that_nobody_holds_ends_its_thread() -> None:
    net = Net("n", [PrefetchLayer(name="p", layer=inner()), *above()], backend="numpy")
    net.forward()
    del net  # the fixture looks whether the thread ends


# Phases, plans, predictions


def test_exclude_holds_for_all_and_embedded_layers_may_exclude_phases_too() -> None:
    train, _, label = inner(exclude="validation")
    validation = MemoryDataLayer(
        name="v", data=[IMAGES[:3], CLASSES[:3]], tops=["image", "class"], batch_size=3, exclude="train"
    )
    layers = [train, validation, RGBImageLayer(bottoms="image", tops="rgb", crop_size=4), label]
    prefetch = PrefetchLayer(name="p", layer=layers, exclude=["test", "predict"])
    phases: list[tuple[Phase, int]] = [("train", 4), ("validation", 3)]
    for phase, rows in phases:
        with Net("n", [prefetch, *above()], backend="numpy", phase=phase) as net:
            net.forward()
            assert net.blob("rgb").shape == (rows, 3, 4, 4)
    with Net("n", [prefetch, *inner(), *above()], phase="test") as net:
        assert "p" not in net.node_ops


def test_a_top_that_a_phase_does_not_have_is_told() -> None:
    source, rgb, _ = inner()
    prefetch = PrefetchLayer(name="p", layer=[source, rgb, LabelLayer(bottoms="class", tops="label", exclude="train")])
    with pytest.raises(ConfigError, match="p: no embedded layer writes the top 'label' in phase train"):
        Net("n", [prefetch], backend="numpy")


def test_it_is_planned_without_reading() -> None:
    layer = PrefetchLayer(name="p", layer=inner(), tops=["label", "image", "rgb"])
    net = Net("n", [layer], backend="numpy", allocate=False)
    state: Any = net.ops[0].state
    reading(state, breaks_down)
    (row,) = net.summary().rows()
    assert row[:3] == ("p", "Prefetch", "label 4, image 4x3x6x5, rgb 4x3x4x4")
    net.shutdown()


def test_predictions_go_through_the_parsers() -> None:
    layers = [
        PrefetchLayer(layer=inner(transformers=[["image", {"type": "Scale", "scale": 0.5}]])),
        InnerProductLayer(bottoms="rgb", tops="ip", output_dim=3),
    ]
    with Net("n", layers, backend="numpy") as net:
        found = net.predict(IMAGES, "rgb", batch_size=3)
        np.testing.assert_array_equal(found, IMAGES[:, :, 1:5, 0:4].astype(np.float32) / 512)
        assert net.predict(CLASSES, "label").tolist() == CLASSES.tolist()
        assert net.predict(IMAGES, "ip").shape == (COUNT, 3)


def test_what_its_source_learns_is_known_to_the_net_and_its_derived_nets() -> None:
    source = MemoryDataLayer(
        name="data",
        data=[IMAGES, CLASSES],
        tops=["image", "class"],
        batch_size=4,
        transformers=[["image", "Standardize"]],
        classes={"class": ["cat", "dog", "cow"]},
    )
    prefetch = PrefetchLayer(name="p", layer=[source, *inner()[1:]])
    with Net("n", [prefetch, *above()], backend="numpy") as net, net.derive("validation") as validation:
        assert net.classes == {"label": ("cat", "dog", "cow"), "ip": ("cat", "dog", "cow")}
        assert sorted(net.fitted["rgb"]) == ["Standardize/deviation", "Standardize/mean"]
        assert validation.forward_epoch() > 0
        pixels = net.predict(IMAGES, "rgb")
        assert abs(pixels.mean()) < 0.01


def test_a_top_of_several_blobs_can_be_fed_but_not_predicted() -> None:
    from nacre_layers import ElementWiseLayer

    sources = [RandomNormalLayer(name=name, tops=name, output_dims=2, batch_size=3) for name in ("a", "b")]
    both = ElementWiseLayer(bottoms=["a", "b"], tops="sum", operation="Add")
    with Net("n", [PrefetchLayer(name="p", layer=[*sources, both])], backend="numpy") as net:
        net.feed()
        assert net.blob("sum").shape == (3, 2)
        with pytest.raises(ConfigError, match="p: 'sum' is made from a, b, so no other records can stand for it"):
            net.predict(np.zeros((3, 2)), "sum")


# What it refuses


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"layer": []}, r"layer=\(\), but at least 1 must be given"),
        ({"layer": inner()[1:]}, "p: no embedded layer is a source, so there is nothing to read"),
        ({"layer": [*inner(), above()[0]]}, "p: 'ip' declares has_param, so it cannot be embedded: place it outside"),
        (
            {"layer": inner(), "tops": ["rgb", "lable"]},
            "p: tops name 'lable', but the embedded layers write image, class",
        ),
        ({"layer": inner(), "ahead": -1}, "p: ahead=-1, but it must be from 0 to 1,000"),
        ({"layer": [{"type": "RGBImag"}]}, "RGBImag"),
        (
            {"layer": [{"type": "RGBImage", "bottoms": "a", "tops": "rgb", "crop": 2}]},
            "p/rgb: unknown field 'crop'",
        ),
    ],
)
def test_bad_fields_are_told(fields: Mapping[str, Any], words: str) -> None:
    with pytest.raises(nacre.NacreError, match=words):
        PrefetchLayer(name="p", **fields)  # pyright: ignore[reportArgumentType]


def test_every_source_can_be_embedded(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["image"], file["class"] = IMAGES[:, 0, :5], CLASSES
    digits = MnistImageLayer(bottoms="image", tops="mnist", norm_a=255.0, beta=15.0)
    common: dict[str, Any] = {"source": str(path), "tops": ["image", "class"], "batch_size": 3, "shuffle": True}
    for source in (
        HDF5DataLayer(**common, ahead=1),
        DataLayer(**common, ahead=2, cache_bytes=0),
        DataLayer(**common, processes=1, cache_bytes=0),
    ):
        plain, early = ([source, digits], [PrefetchLayer(layer=[source, digits])])
        with Net("a", plain, keep=["mnist"]) as one, Net("b", early) as other:
            for _ in range(8):
                one.forward()
                other.forward()
                np.testing.assert_array_equal(one.blob("mnist"), other.blob("mnist"))
