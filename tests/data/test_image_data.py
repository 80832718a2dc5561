"""ImageData: which pixels are fed, in every phase, and that they depend on seed, pass and picture alone."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import ConfigError, DataError, Field, Net, Reader, Store, default
from nacre.random import RecordRandom
from nacre_data import ImageDataLayer, Pictures, Scale
from nacre_data.codecs.picture import Picture
from nacre_data.source import RecordSourceState
from nacre_data.split import Subset
from ranks import state_at

pytest.importorskip("PIL.Image")

COUNT, ROWS, COLUMNS = 7, 8, 10
PIXELS = np.random.default_rng(0).integers(0, 256, (COUNT, 3, ROWS, COLUMNS), np.uint8)


pytestmark = pytest.mark.usefixtures("no_thread_is_left")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with `PIXELS` in two classes: the first four are cats."""
    path = tmp_path_factory.mktemp("pictures") / "train"
    fields = {"data": Field(PIXELS.shape[1:], "uint8"), "label": Field((), "int64", ("cat", "dog"))}
    with Pictures().create(path, fields) as writer:
        writer.append({"data": PIXELS, "label": np.arange(COUNT) // 4})
    return path


def make(source: Any, phase: Any = "train", seed: Any = 0, dtype: Any = "float32", **fields: Any) -> Net:
    layer = ImageDataLayer(**{"name": "pictures", "source": source, "batch_size": 3, **fields})
    return Net("t", [layer], backend="numpy", phase=phase, seed=seed, dtype=dtype)


def batch(net: Net) -> tuple[np.ndarray, list[int]]:
    net.feed()
    return net.blob("data").copy(), net.blob("label").tolist()


def state_of(net: Net) -> RecordSourceState:
    state = net.ops[0].state
    assert isinstance(state, RecordSourceState)
    return state


def layer_of(net: Net) -> ImageDataLayer:
    layer = net.layers[0]
    assert isinstance(layer, ImageDataLayer)
    return layer


# What is fed


@pytest.mark.parametrize("ahead", [0, 1, 2, 5])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("phase", ["train", "test"])
def test_pictures_and_labels_are_fed(phase: str, threads: int, ahead: int, folder: Path) -> None:
    with make(folder, phase, threads=threads, ahead=ahead) as net:
        assert net.blob("data").shape == (3, 3, ROWS, COLUMNS)
        assert net.blob("label").dtype == np.int64
        for expected, rows in (([0, 1, 2], 3), ([3, 4, 5], 3), ([6, 0, 1] if phase == "train" else [6, 6, 6], 1)):
            data, labels = batch(net)
            np.testing.assert_array_equal(data, PIXELS[expected])
            assert labels == [number // 4 for number in expected]
            assert state_of(net).rows == (3 if phase == "train" else rows)
        assert net.epoch == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mean_and_scale_are_of_each_channel(dtype: str, folder: Path) -> None:
    fields = {"mean": [10, 20.5, 30], "scale": 1 / 3, "transformers": [["data", Scale(scale=2)]]}
    expected = ((PIXELS.astype(dtype) - np.array([10, 20.5, 30], dtype)[:, None, None]) * np.array(1 / 3, dtype)) * 2
    with make(folder, dtype=dtype, **fields) as net:
        np.testing.assert_array_equal(batch(net)[0], expected[:3])
        prepared = net.layers[0].prepare("data", PIXELS.astype(dtype), RecordRandom(0, "x", lambda: 0), "predict", {})
        np.testing.assert_array_equal(prepared, expected)


def test_grey_pictures_are_fed(folder: Path) -> None:
    from PIL import Image

    grey = [np.asarray(Image.fromarray(one.transpose(1, 2, 0)).convert("L")) for one in PIXELS[:3]]
    with make(folder, is_color=False, scale=[2], mean=1) as net:
        np.testing.assert_array_equal(batch(net)[0][:, 0], (np.array(grey).astype(float) - 1) * 2)


@pytest.mark.parametrize("fields", [{"short_side": 6}, {"new_height": 5, "new_width": 4}])
def test_pictures_are_scaled(fields: dict[str, int], folder: Path) -> None:
    codec = Picture(**fields)
    expected = [codec.pixels((folder / f"cat/{number:08d}.png").read_bytes()) for number in range(3)]
    with make(folder, **fields) as net:
        np.testing.assert_array_equal(batch(net)[0], expected)
        assert repr(layer_of(net).reading()["codec"]) == repr(codec)


def test_outside_training_the_window_is_in_the_middle(folder: Path) -> None:
    for phase in ("validation", "test", "predict"):
        with make(folder, phase, crop_size=(5, 4), mirror=True) as net:
            np.testing.assert_array_equal(batch(net)[0], PIXELS[:3, :, 1:6, 3:7])


def window_of(pixels: np.ndarray, record: int) -> tuple[int, int, bool]:
    """Return where in a picture these pixels are, and whether they are mirrored."""
    rows, columns = pixels.shape[1:]
    for top in range(ROWS - rows + 1):
        for left in range(COLUMNS - columns + 1):
            window = PIXELS[record, :, top : top + rows, left : left + columns]
            for mirrored in (False, True):
                if np.array_equal(pixels, window[:, :, ::-1] if mirrored else window):
                    return top, left, mirrored
    raise AssertionError("these pixels are not in the picture")


def windows(net: Net, batches: int, order: list[int] | None = None) -> list[list[tuple[int, int, bool]]]:
    """Return the windows of all records, pass by pass."""
    seen: list[tuple[int, int, bool]] = []
    for _ in range(batches):
        for pixels in batch(net)[0]:
            record = len(seen) % COUNT
            seen.append(window_of(pixels, record))
    return [seen[first : first + COUNT] for first in range(0, len(seen) - COUNT + 1, COUNT)]


AUGMENTED: dict[str, Any] = {"crop_size": (6, 7), "mirror": True}


def test_the_window_is_anywhere_and_half_are_mirrored(folder: Path) -> None:
    with make(folder, batch_size=7, **AUGMENTED) as net:
        passes = windows(net, 60)
    every = [one for each in passes for one in each]
    assert {one[0] for one in every} == {0, 1, 2}
    assert {one[1] for one in every} == {0, 1, 2, 3}
    assert 0.4 < np.mean([one[2] for one in every]) < 0.6
    assert len(set(map(tuple, passes))) == 60, "each pass has windows of its own"
    assert all(len({each[record] for each in passes}) > 5 for record in range(COUNT)), "and each picture"


@pytest.mark.parametrize("fields", [{"threads": 4}, {"ahead": 0}, {"batch_size": 2}, {"batch_size": 7, "ahead": 4}])
def test_windows_are_of_seed_pass_and_picture_alone(fields: dict[str, Any], folder: Path) -> None:
    with make(folder, **AUGMENTED) as net, make(folder, **{**AUGMENTED, **fields}) as other:
        expected = windows(net, 7)
        size = other.blob("data").shape[0]
        assert windows(other, -(-21 // size))[:3] == expected
    with make(folder, seed=1, **AUGMENTED) as net:
        assert windows(net, 7) != expected
    with make(folder, name="other", **AUGMENTED) as net:
        assert windows(net, 7) != expected


def test_windows_do_not_depend_on_the_order_or_the_part(folder: Path) -> None:
    with make(folder, batch_size=7, **AUGMENTED) as net:
        expected, labels = batch(net)
    with make(folder, batch_size=7, shuffle=True, **AUGMENTED) as net:
        shuffled = batch(net)[0]
    assert not np.array_equal(shuffled, expected)
    assert sorted(map(np.ndarray.tobytes, shuffled)) == sorted(map(np.ndarray.tobytes, expected))
    parts = []
    for part in ("a", "b"):
        split = {"part": part, "fractions": {"a": 0.5, "b": 0.5}}
        with make(folder, batch_size=3, split=split, **AUGMENTED) as net:
            state = state_of(net)
            pixels, found = batch(net)
            parts += [one.tobytes() for one in pixels][: state.records.count]
            assert isinstance(state.records, Subset)
            numbers = state.records.numbers[:3]
            np.testing.assert_array_equal(pixels, expected[numbers])
            assert found == [labels[number] for number in numbers]
    assert len(set(parts)) == len(parts)


@pytest.mark.parametrize("ranks", [2, 3])
def test_the_batches_of_all_ranks_are_one_batch(ranks: int, folder: Path) -> None:
    def source(size: int) -> ImageDataLayer:
        return ImageDataLayer(name="pictures", source=str(folder), batch_size=size, shuffle=True, **AUGMENTED)

    whole = state_at(source(2 * ranks))
    parts = [state_at(source(2), "train", rank, ranks) for rank in range(ranks)]
    for _ in range(5):
        for state in (whole, *parts):
            state.forward([])
        np.testing.assert_array_equal(np.concatenate([part.blobs[0] for part in parts]), whole.blobs[0])
    for state in (whole, *parts):
        state.shutdown()


@pytest.mark.parametrize("ahead", [0, 3])
@pytest.mark.parametrize("stop", [1, 3, 5])
def test_a_training_goes_on_where_it_was(stop: int, ahead: int, folder: Path) -> None:
    fields = {"shuffle": True, "ahead": ahead, **AUGMENTED}
    with make(folder, **fields) as first, make(folder, **fields) as second:
        for _ in range(stop):
            first.feed()
        state_of(second).remember({name: np.asarray(value) for name, value in state_of(first).memory().items()})
        for _ in range(6):
            for one, other in zip(batch(first), batch(second), strict=True):
                np.testing.assert_array_equal(one, other)
            assert (first.epoch, state_of(first).memory()) == (second.epoch, state_of(second).memory())


def test_a_pass_can_begin_again(folder: Path) -> None:
    with make(folder, "test") as net:
        first = batch(net)[0]
        batch(net)
        state_of(net).rewind()
        np.testing.assert_array_equal(batch(net)[0], first)


def test_a_list_with_another_root(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("cat/00000002.png 12\ndog/00000004.png 3\ncat/00000000.png 12\n")
    with make([path], root_folder=folder) as net:
        data, labels = batch(net)
        np.testing.assert_array_equal(data, PIXELS[[2, 4, 0]])
        assert labels == [12, 3, 12]


def test_pictures_without_labels(folder: Path) -> None:
    with make([folder / "dog", folder / "cat"], tops=["data"]) as net:
        net.feed()
        np.testing.assert_array_equal(net.blob("data"), PIXELS[4:7])


class Tapes(Store):
    """A store of somebody else's with pictures as bytes."""

    labels: Any = default(())

    def open(self, path: Path, fields: Any = ()) -> Reader:
        return Tape(self.labels)


class Tape(Reader):
    def __init__(self, labels: Any) -> None:
        self.labels = np.array(labels)
        self.count = len(PIXELS)
        self.fields = {"data": Field(None, "uint8", codec="Picture"), "label": Field((), self.labels.dtype.name)}

    def read(self, numbers: np.ndarray, out: Any) -> None:
        for name, rows in out.items():
            rows[:] = (
                [Picture().encode({"data": PIXELS[number]}) for number in numbers]
                if name == "data"
                else self.labels[numbers]
            )


def test_another_store_may_hold_the_pictures() -> None:
    with make("tape", store=Tapes(labels=np.arange(7, dtype=np.uint64))) as net:
        data, labels = batch(net)
        np.testing.assert_array_equal(data, PIXELS[:3])
        assert labels == [0, 1, 2]
    large = Tapes(labels=np.full(7, 1 << 63, np.uint64))
    with make("tape", store=large) as net, pytest.raises(DataError, match="pictures: 'label' is 9"):
        net.feed()
    with make("tape", tops=["data", "label"], store=Tapes(labels=np.zeros(7)), ahead=0) as net:
        net.feed()
        assert net.blob("label").dtype == np.float32


# What is wrong


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"new_height": 5}, "new_height=5 and new_width=0"),
        ({"mean": [1, 2]}, r"mean=\(1.0, 2.0\), but the pictures have 3 channels"),
        ({"mean": [1, 2, 3], "is_color": False}, "the pictures have 1 channel$"),
        ({"scale": [[1]]}, "scale"),
        ({"scale": float("nan")}, "scale"),
        ({"threads": 0}, "threads"),
        ({"ahead": -1}, "ahead"),
        ({"root_folder": ["a", "b"]}, "root_folder"),
        ({"root_folder": "a", "store": Tapes()}, "root_folder"),
        ({"store": "HDF5", "source": []}, "source"),
    ],
)
def test_fields_that_do_not_fit_are_told(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        ImageDataLayer(**{"source": "x", "batch_size": 3, **fields})


@pytest.mark.parametrize("ahead", [0, 2])
def test_a_bad_picture_is_named_and_the_batch_comes_again(ahead: int, folder: Path, tmp_path: Path) -> None:
    paths = [tmp_path / "x" / f"{number}.png" for number in range(40)]
    paths[0].parent.mkdir()
    for path in paths:
        path.write_bytes((folder / "cat/00000000.png").read_bytes())
    good = paths[20].read_bytes()
    paths[20].write_bytes(good[:-30])
    with make(tmp_path, batch_size=40, ahead=ahead) as net:
        for _ in range(2):
            with pytest.raises(DataError, match=r"this is not a picture that can be read") as caught:
                net.feed()
            assert str(caught.value).startswith(f"pictures: {tmp_path}: x/20.png: ")
        paths[20].write_bytes(good)
        np.testing.assert_array_equal(batch(net)[0], PIXELS[[0] * 40])


def test_sizes_that_differ_are_told(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    for number, size in enumerate([(4, 5), (4, 5), (5, 4)]):
        data = Picture().encode({"data": np.zeros((3, *size), np.uint8)})
        (tmp_path / f"x/{number}.png").write_bytes(data)
    with make(tmp_path) as net, pytest.raises(DataError, match=r"x/2\.png: it has the shape \(3, 5, 4\)") as caught:
        net.feed()
    assert "crop_size" in caught.value.remedy
    with make(tmp_path, crop_size=4) as net:
        assert batch(net)[0].shape == (3, 3, 4, 4)
    with make(tmp_path, crop_size=5) as net, pytest.raises(DataError, match="the picture has 4 rows"):
        net.feed()


def test_what_cannot_be_opened_is_told_with_the_name_of_the_layer(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^pictures: .*nowhere: no such file"):
        make(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"^pictures: .*it has no pictures"):
        make(tmp_path)
    with pytest.raises(DataError, match=r"^pictures: batch_size=8, but the data have only 7 records"):
        make(folder, batch_size=8)
    with pytest.raises(DataError, match=r"^pictures: 'data' must hold pictures"):
        make(Path(__file__), store=Numbers())
    (tmp_path / "a.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=rf"^pictures: {re.escape(str(tmp_path))}/a\.png: this is not a picture"):
        make(tmp_path / "a.png", tops=["data"], batch_size=1)
    with pytest.raises(DataError, match=r"^pictures: .*: a\.png: this is not a picture"):
        make(tmp_path, tops=["data"], batch_size=1)


class Numbers(Store):
    def open(self, path: Path, fields: Any = ()) -> Reader:
        reader = Tape(np.zeros(7))
        reader.fields = {"data": Field((2,), "float32"), "label": Field((), "int64")}
        return reader


def test_a_net_that_nobody_holds_ends_its_threads(folder: Path) -> None:
    net = make(folder, **AUGMENTED)
    net.feed()
    assert any(thread.name.startswith("nacre unpacks") for thread in threading.enumerate())
    del net  # the fixture waits for the threads
