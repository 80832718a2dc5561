"""RGBImage: SINGA's parser of pictures, as a layer and as a transformer, without its faults."""

import h5py
import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, DataError, Net
from nacre.random import RecordRandom
from nacre.testing.trial import Example
from nacre_data import MemoryDataLayer, RGBImage, RGBImageLayer, SingleLabelImageRecord

PICTURES = np.random.default_rng(0).integers(0, 256, (9, 3, 6, 5), np.uint8)
MEAN = np.random.default_rng(1).random((3, 6, 5), np.float32) * 100
BLOB = bytes.fromhex("0801 1003 1806 2005 2ae802") + MEAN.tobytes()  # num, channels, height, width, data (packed)


def singas_mean():
    return SingleLabelImageRecord().encode({"data": MEAN, "label": np.array(0)})


class TestRGBImage(Agreement):
    layer = RGBImageLayer
    is_random = True

    def examples(self):
        yield Example({"crop_size": 3, "mirror": True}, [(5, 1, 5, 4)])
        yield Example({"crop_size": 3, "mirror": True, "scale": 0.5}, [(40, 2, 5, 6)])

    def strategy(self):
        fields = {"scale": st.sampled_from([1.0, 0.25, -2.0]), "crop_size": st.integers(0, 3), "mirror": st.booleans()}
        shape = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(3, 6), st.integers(3, 6))
        return st.builds(lambda one, shape: Example(one, [shape]), st.fixed_dictionaries(fields), shape)

    def reference(self, layer, inputs, parameters):
        made = []
        for number, picture in enumerate(inputs[0]):
            u = self.random.generator(number).random(3)
            rows, columns = picture.shape[1:]
            size = layer.crop_size
            height, width = (size, size) if size else (rows, columns)
            if self.phase == "train":
                row, column = int(u[0] * (rows - height + 1)), int(u[1] * (columns - width + 1))
            else:
                row, column = (rows - height) // 2, (columns - width) // 2
            window = picture[:, row : row + height, column : column + width]
            turned = self.phase == "train" and layer.mirror and u[2] < 0.5
            made.append((window[:, :, ::-1] if turned else window) * layer.scale)
        return [np.stack(made)]


def random_at(records=range(9), epoch=0):
    random = RecordRandom(5, "d/x/0", lambda: 0)
    random.at(records, np.full(len(records), epoch))
    return random


def made(pictures, phase="train", random=None, **fields):
    parser = RGBImage(**fields)
    out = np.empty((len(pictures), *parser.shape_of(pictures.shape[1:])), np.float32)
    parser.transform_into(pictures, out, random or random_at(range(len(pictures))), phase)
    return out


def test_every_window_of_a_picture_comes_the_last_too():
    """SINGA drew rand() % (H - crop): never the last row or column, and a division by zero where all is cut out."""
    places = np.arange(5 * 4, dtype=np.uint8).reshape(1, 1, 5, 4)
    pictures = np.repeat(places, 300, 0)
    corners = made(pictures, crop_size=3)[:, 0, 0, 0].astype(int)
    assert {(corner // 4, corner % 4) for corner in corners} == {
        (row, column) for row in range(3) for column in range(2)
    }
    assert (made(pictures[:, :, :4], crop_size=4) == pictures[:, :, :4]).all()


@pytest.mark.parametrize("phase", ["validation", "test", "predict"])
def test_outside_training_it_is_the_middle(phase):
    """SINGA wrote the whole picture into the smaller place."""
    found = made(PICTURES, phase, crop_size=3, mirror=True)
    np.testing.assert_array_equal(found, PICTURES[:, :, 1:4, 1:4])


@pytest.mark.parametrize("name", ["mean.h5", "mean.bin", "mean.binaryproto"])
@pytest.mark.parametrize("phase", ["train", "test"])
def test_a_mean_is_subtracted_before_the_window_is_cut(name, phase, tmp_path):
    """SINGA wanted a mean of the size of the window."""
    path = tmp_path / name
    if name == "mean.h5":
        with h5py.File(path, "w") as file:
            file["mean"] = MEAN
    else:
        path.write_bytes(BLOB if "binaryproto" in name else singas_mean())
    found = made(PICTURES, phase, mean_file=path, crop_size=4, scale=0.5)
    whole = (PICTURES.astype(np.float32) - MEAN).astype(np.float32)
    np.testing.assert_array_equal(found, made(whole, phase, crop_size=4) * np.float32(0.5))


def test_bytes_are_numbers_from_0_to_255():
    """SINGA's `char` has a sign."""
    assert made(np.full((1, 1, 2, 2), 200, np.uint8)).tolist() == [[[[200, 200], [200, 200]]]]


def test_the_layer_does_what_the_transformer_does_whatever_the_batches():
    def epoch(batch_size, ahead=0):
        source = MemoryDataLayer(
            name="d", tops=["x"], data=[PICTURES], batch_size=batch_size, shuffle=True, ahead=ahead
        )
        layer = RGBImageLayer(bottoms="x", tops="rgb", crop_size=4, mirror=True)
        above = RGBImageLayer(bottoms="rgb", tops="again", crop_size=2)
        with Net("n", [source, layer, above], backend="numpy", keep=["rgb", "again"]) as net:
            for _ in range(18 // batch_size):
                net.forward()
                yield net.blob("rgb"), net.blob("again")

    def joined(batches):
        return [np.concatenate(blobs) for blobs in zip(*batches, strict=True)]

    first = joined(epoch(9))
    for batch_size, ahead in ((3, 0), (3, 2), (1, 3)):
        for one, other in zip(first, joined(epoch(batch_size, ahead)), strict=True):
            np.testing.assert_array_equal(one, other)
    assert not np.array_equal(first[0][:9], first[0][9:])
    order = Net("n", [MemoryDataLayer(name="d", tops=["x"], data=[np.arange(9)], batch_size=9, shuffle=True)])
    order.feed()
    random = RecordRandom(0, "rgb", lambda: 0)
    random.at(order.blob("x"), np.zeros(9))
    np.testing.assert_array_equal(
        first[0][:9], made(PICTURES[order.blob("x")], random=random, crop_size=4, mirror=True)
    )


def test_as_a_transformer_of_a_source():
    source = MemoryDataLayer(
        name="d", tops=["x"], data=[PICTURES], batch_size=9, transformers=[["x", {"type": "RGBImage", "crop_size": 4}]]
    )
    with Net("n", [source], backend="numpy", seed=5) as net:
        net.feed()
        np.testing.assert_array_equal(net.blob("x"), made(PICTURES, crop_size=4))


@pytest.mark.parametrize("shape", [(5,), (2, 3)])
def test_records_that_are_no_pictures_are_refused(shape):
    layer = RGBImageLayer(bottoms="x", tops="y")
    source = MemoryDataLayer(tops=["x"], data=[np.zeros((4, *shape))], batch_size=2)
    with pytest.raises(ConfigError, match=r"y: x: RGBImage: records must be \(channels, rows, columns\), not \("):
        Net("n", [source, layer], backend="numpy")


def test_a_window_larger_than_the_picture_is_refused():
    with pytest.raises(ConfigError, match=r"RGBImage: size=\(6, 6\) is larger than the pictures, which have \(6, 5\)"):
        RGBImage(crop_size=6).shape_of((3, 6, 5))


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("mean.bin", b"nonsense", r"mean\.bin: this is no protobuf message"),
        ("mean.bin", singas_mean()[:-3], r"mean\.bin: the message is damaged or truncated"),
        (
            "mean.bin",
            bytes(20_000),
            r"mean\.bin: it has 20,000 bytes, but the mean of records of shape \(3, 6, 5\) has",
        ),
        ("a.binaryproto", bytes.fromhex("1003"), "this BlobProto of Caffe's has no numbers"),
        (
            "a.binaryproto",
            bytes.fromhex("10032a0400000000"),
            r"it declares the shape \(1, 3, 1, 1\), but has 1 numbers",
        ),
        ("a.binaryproto", bytes.fromhex("2a0300"), "truncated: field 5 has 3 bytes"),
        ("a.binaryproto", bytes.fromhex("1203000000"), "no BlobProto of Caffe's: its field 2 is of another kind"),
        ("a.binaryproto", bytes.fromhex("42020000"), "its numbers of 8 bytes are cut"),
        ("a.binaryproto", bytes.fromhex("2a040000c07f"), "holds numbers that are not finite"),
        ("a.binaryproto", bytes.fromhex("3a0208022a080000000000000000"), r"a mean of shape \(2,\) does not fit"),
    ],
)
def test_bad_mean_files(name, data, words, tmp_path):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(DataError, match=words):
        made(PICTURES, mean_file=path)


def test_means_of_caffe_agree_with_the_protobuf_library(tmp_path):
    pytest.importorskip("google.protobuf")
    from protobuf_messages import messages

    old = {
        name: (number, "int32", False, False) for number, name in enumerate(("num", "channels", "height", "width"), 1)
    }
    numbers = {"data": (5, "float", True, True), "shape": (7, "Shape", False, False)}
    kinds = messages("caffe", Shape={"dim": (1, "int64", True, True)}, Blob=old | numbers)
    path = tmp_path / "m.binaryproto"
    values = MEAN.ravel().tolist()
    for blob in (
        kinds["Blob"](num=1, channels=3, height=6, width=5, data=values),
        kinds["Blob"](shape=kinds["Shape"](dim=(3, 6, 5)), data=values),
    ):
        path.write_bytes(blob.SerializeToString())
        np.testing.assert_array_equal(made(PICTURES, mean_file=path), (PICTURES - MEAN).astype(np.float32))
