"""Crop: a window of each image, of a size of its own or of another blob's."""

import numpy as np
import pytest
from hypothesis import strategies as st

from agreement import Agreement
from nacre import ConfigError, InputLayer, Net
from nacre.testing.trial import Example
from nacre_layers.shapes.crop import CropLayer
from nacre_layers.shapes.crop_like import CropLikeLayer


class TestCrop(Agreement):
    layer = CropLayer

    def examples(self):
        yield Example({"crop_size": [2, 3]}, [(2, 3, 4, 5), (3, 1, 2, 3)], label="two bottoms")
        yield Example({"crop_size": 2}, [np.arange(50).reshape(2, 1, 5, 5)], label="whole numbers")

    def strategy(self):
        def build(images, channels, size, free):
            shape = (images, channels, *(one + more for one, more in zip(size, free, strict=True)))
            return Example({"crop_size": size}, [shape])

        def pair(low, high):
            return st.lists(st.integers(low, high), min_size=2, max_size=2)

        return st.builds(build, st.integers(1, 4), st.integers(1, 3), pair(1, 4), pair(0, 5))

    def in_torch(self, layer, inputs, parameters):
        (height, width) = layer.crop_size
        rows, columns = ((inputs[0].shape[axis] - one) // 2 for axis, one in ((2, height), (3, width)))
        return [inputs[0][:, :, rows : rows + height, columns : columns + width]]

    def reference(self, layer, inputs, parameters):
        return [windows(x, layer, [[0, 0, 1]] * len(x), middle=True) for x in inputs]


class TestRandomCrop(Agreement):
    layer = CropLayer
    is_random = True

    def examples(self):
        yield Example({"crop_size": 3, "random_crop": True, "random_mirror": True}, [(4, 2, 9, 8), (6, 1, 7, 7)])
        yield Example({"crop_size": [2, 3], "random_crop": True}, [(5, 1, 8, 9)], label="crop")
        yield Example({"crop_size": [2, 8], "random_mirror": True}, [(24, 1, 3, 9)], label="mirror")

    def strategy(self):
        def build(images, channels, size, free, crop, mirror):
            shape = (images, channels, *(one + more for one, more in zip(size, free, strict=True)))
            return Example({"crop_size": size, "random_crop": crop, "random_mirror": mirror}, [shape])

        def pair(low, high):
            return st.lists(st.integers(low, high), min_size=2, max_size=2)

        return st.builds(
            build, st.integers(1, 5), st.integers(1, 3), pair(1, 4), pair(0, 5), st.booleans(), st.booleans()
        )

    def reference(self, layer, inputs, parameters):
        acts = self.phase == "train"
        tops = []
        for x in inputs:
            uniform = np.empty((3, len(x)), np.float32)
            self.random.uniform(uniform)
            draws = uniform.astype(float).T
            if not (acts and layer.random_mirror):
                draws[:, 2] = 1
            tops.append(windows(x, layer, draws, middle=not (acts and layer.random_crop)))
        return tops


def windows(x, layer, draws, middle):
    """Cut the windows out pixel by pixel, by draws (row, column, mirror) for every image."""
    height, width = layer.crop_size
    free = x.shape[2] - height, x.shape[3] - width
    top = np.empty((*x.shape[:2], height, width), x.dtype)
    for image, (row, column, mirror) in enumerate(draws):
        start = [length // 2 for length in free]
        if not middle:
            start = [int(draw * (length + 1)) for draw, length in zip((row, column), free, strict=True)]
        for i in range(height):
            for j in range(width):
                turned = width - 1 - j if mirror < 0.5 else j
                top[image, :, i, j] = x[image, :, start[0] + i, start[1] + turned]
    return top


class TestCropLike(Agreement):
    layer = CropLikeLayer

    def examples(self):
        yield Example({}, [(2, 3, 5, 4), (2, 1, 3, 4)], tops=1)
        yield Example({"axis": 1, "offset": [1, 0, 2]}, [(2, 3, 4, 5), (2, 2, 4, 1)], tops=1, label="channels too")
        yield Example({"axis": -1, "offset": 1}, [(3, 2, 6), (4, 9, 3)], tops=1, label="last axis")

    def strategy(self):
        def build(sizes, axis, parts, offsets, from_behind):
            axis = 1 + axis % (len(sizes) - 1)
            parts, offsets = (list(one[: len(sizes) - axis]) for one in (parts, offsets))
            behind = zip(sizes[axis:], parts, offsets, strict=True)
            shape = (*sizes[:axis], *(length + part + offset for length, part, offset in behind))
            like = (*sizes[:axis], *(part + 1 for part in parts))
            return Example({"axis": axis - len(sizes) * from_behind, "offset": offsets}, [shape, like], tops=1)

        small = st.lists(st.integers(0, 3), min_size=3, max_size=3)
        return st.builds(
            build, st.lists(st.integers(1, 4), min_size=2, max_size=4), st.integers(0, 2), small, small, st.booleans()
        )

    def in_torch(self, layer, inputs, parameters):
        x, like = inputs
        axis = layer.axis % x.ndim
        offsets = layer.offset * (x.ndim - axis) if len(layer.offset) == 1 else layer.offset
        for place, offset in enumerate(offsets, axis):
            x = x.narrow(place, offset, like.shape[place])
        return [x]

    def reference(self, layer, inputs, parameters):
        x, like = inputs
        axis = layer.axis % x.ndim
        offsets = layer.offset * (x.ndim - axis) if len(layer.offset) == 1 else layer.offset
        top = np.empty((*x.shape[:axis], *like.shape[axis:]))
        for place in np.ndindex(top.shape):
            moved = [n + (offsets[i - axis] if i >= axis else 0) for i, n in enumerate(place)]
            top[place] = x[tuple(moved)]
        return [top]


def crop(x, step=0, phase="train", **fields):
    layers = [
        InputLayer(tops="x", shape=x.shape[1:], batch_size=len(x)),
        CropLayer(name="crop", bottoms="x", tops="y", **fields),
    ]
    net = Net("n", layers, backend="numpy", phase=phase)
    net.write("x", x)
    net.step = step
    net.forward()
    return net.blob("y")


def test_every_image_is_cut_and_mirrored_on_its_own():
    """Mocha draws one window and one mirror for all images of a batch."""
    x = np.broadcast_to(np.arange(400, dtype=np.float32).reshape(1, 20, 20), (400, 1, 20, 20))
    y = crop(x, crop_size=4, random_crop=True, random_mirror=True)
    mirrored = y[:, 0, 0, 0] > y[:, 0, 0, 3]
    assert 140 < mirrored.sum() < 260
    starts = np.where(mirrored, y[:, 0, 0, 3], y[:, 0, 0, 0]).astype(int)
    assert len(set(starts)) > 150
    assert {*(starts // 20), *(starts % 20)} == set(range(17))  # every row and every column, the last ones too


def test_a_picture_and_its_mask_are_cut_alike():
    layers = [
        InputLayer(tops=["picture"], shape=(3, 9, 9), batch_size=8),
        InputLayer(tops=["mask"], shape=(1, 9, 9), batch_size=8, dtype="int64"),
        CropLayer(bottoms=["picture", "mask"], tops=["a", "b"], crop_size=4, random_crop=True, random_mirror=True),
    ]
    net = Net("n", layers, backend="numpy")
    mask = np.arange(8 * 81).reshape(8, 1, 9, 9)
    net.write("mask", mask)
    net.write("picture", np.repeat(mask, 3, 1))
    net.forward()
    assert net.blob("b").dtype == np.int64
    np.testing.assert_array_equal(net.blob("a"), np.repeat(net.blob("b"), 3, 1))


@pytest.mark.parametrize("phase", ["validation", "test", "predict"])
def test_other_phases_take_the_middle(phase):
    x = np.arange(2 * 35, dtype=np.float32).reshape(2, 1, 5, 7)
    y = crop(x, phase=phase, crop_size=(2, 4), random_crop=True, random_mirror=True)
    np.testing.assert_array_equal(y, x[:, :, 1:3, 1:5])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "crop: .*crop_size"),
        ({"crop_size": 0}, r"crop: crop_size=\(0, 0\), but every number must be above 0"),
        ({"crop_size": [2, 6]}, r"crop: crop_size=\(2, 6\) is larger than the images of bottom 'x', \(4, 5\)"),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises(ConfigError, match=message):
        crop(np.ones((1, 1, 4, 5)), **fields)


def test_what_is_no_image():
    with pytest.raises(ConfigError, match=r"crop: bottom 'x' .*\(2, 5\) .*\(images, channels, rows, col"):
        crop(np.ones((2, 5)), crop_size=1)


@pytest.mark.parametrize(
    ("like", "fields", "message"),
    [
        ((1, 3, 6), {}, r"y: a part of shape \(1, 1, 3, 6\) at offset=\(0,\) does not fit into 'x' .* along axis 3"),
        ((1, 3, 3), {"offset": [2, 1]}, r"y: a part of .* at offset=\(2, 1\) does not fit .* along axis 2"),
        ((1, 3, 3), {"offset": [0, 0, 0]}, r"y: offset=\(0, 0, 0\), but there are 2 directions"),
        ((3, 3), {}, r"y: bottom 'like' of shape \(1, 3, 3\) must have as many axes as 'x' of shape \(1, 2, 4, 5\)"),
        ((1, 3, 3), {"axis": 4}, "y: axis=4, but the bottom of shape"),
        ((1, 3, 3), {"offset": -1}, r"y: offset=\(-1,\), but every number must be 0 or more"),
    ],
)
def test_bad_parts(like, fields, message):
    layers = [
        InputLayer(tops="x", shape=(2, 4, 5)),
        InputLayer(tops="like", shape=like),
    ]
    with pytest.raises(ConfigError, match=message):
        Net("n", [*layers, CropLikeLayer(bottoms=["x", "like"], tops="y", **fields)], backend="numpy")
