"""Windows along axes: their number, their cells and their indices, against an enumeration pixel by pixel."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nacre_layers.windows import WindowAxis, WindowGrid

AXES = st.builds(
    WindowAxis,
    length=st.integers(1, 12),
    kernel=st.integers(1, 6),
    stride=st.integers(1, 15),
    pad=st.integers(0, 7),
    tail=st.integers(0, 7),
    dilation=st.integers(1, 4),
    rounding=st.sampled_from(["ceil", "floor"]),
)


def fitting(axis: WindowAxis) -> WindowAxis:
    """Return the axis, with an image that is long enough for a window."""
    return replace(axis, length=max(axis.length, axis.extent - axis.pad - axis.tail))


def enumerated(axis: WindowAxis) -> list[list[int]]:
    """Return the pixels of the cells of every window, one window after the other until none is left to count."""
    windows: list[list[int]] = []
    end = 0  # of the window before
    for start in itertools.count(-axis.pad, axis.stride):
        window = [start + cell * axis.dilation for cell in range(axis.kernel)]
        hangs_over = window[-1] >= axis.length + axis.tail
        if hangs_over and (axis.rounding == "floor" or end >= axis.length + axis.tail or start >= axis.length):
            break
        windows.append(window)
        end = window[-1] + 1
    return windows


@given(AXES.map(fitting))
def test_windows_are_those_of_an_enumeration(axis: WindowAxis) -> None:
    windows = enumerated(axis)
    assert axis.count == len(windows)
    assert list(axis.starts) == [window[0] for window in windows]
    assert axis.extent == windows[0][-1] - windows[0][0] + 1
    assert axis.span == windows[-1][-1] - windows[0][0] + 1
    assert axis.behind == max(0, windows[-1][-1] + 1 - axis.length)
    assert axis.reach == axis.pad + max(axis.length + axis.tail, windows[-1][-1] + 1)
    padded, image = range(-axis.pad, axis.length + axis.tail), range(axis.length)
    assert axis.padded == len(padded)
    for within, pixels in ("kernel", None), ("padded", padded), ("image", image):
        counts = [sum(pixels is None or pixel in pixels for pixel in window) for window in windows]
        assert axis.sizes(within) == counts
    for cell in range(axis.kernel):
        with_it = [number for number, window in enumerate(windows) if window[cell] in image]
        assert list(axis.windows_with(cell)) == with_it
        in_memory = np.arange(-axis.pad, axis.reach - axis.pad)
        assert in_memory[axis.index(cell)].tolist() == [window[cell] for window in windows]
        assert in_memory[axis.image].tolist() == list(image)


@given(AXES, st.integers(1, 20))
def test_a_window_larger_than_the_padded_image_counts_only_if_it_may_hang_over(drawn: WindowAxis, lacking: int) -> None:
    axis = replace(drawn, kernel=drawn.padded + lacking, dilation=1)
    # as in Caffe: the number is rounded up, so a window may lack up to stride - 1 pixels
    assert max(axis.count, 0) == (axis.rounding == "ceil" and lacking < axis.stride)


@given(AXES)
def test_windows_with_less_padding_than_kernel_all_have_a_pixel_of_the_image(drawn: WindowAxis) -> None:
    pad, tail = min(drawn.pad, drawn.kernel - 1), min(drawn.tail, drawn.kernel - 1)
    axis = replace(drawn, pad=pad, tail=tail, dilation=1)
    assert all(axis.sizes("image"))


@given(AXES)
def test_windows_that_lead_back_are_the_transpose(drawn: WindowAxis) -> None:
    pad, tail = min(drawn.pad, drawn.extent - 1), min(drawn.tail, drawn.extent - 1)
    axis = fitting(replace(drawn, stride=1, rounding="floor", pad=pad, tail=tail))
    back = axis.back
    assert (back.length, back.count) == (axis.count, axis.length)

    def uses(one: WindowAxis) -> set[tuple[int, int, int]]:
        """Return (window, cell, pixel) for every cell inside the image."""
        found = {
            (number, cell, start + cell * one.dilation)
            for number, start in enumerate(one.starts)
            for cell in range(one.kernel)
        }
        return {use for use in found if 0 <= use[2] < one.length}

    assert uses(back) == {(pixel, axis.kernel - 1 - cell, number) for number, cell, pixel in uses(axis)}


@given(st.lists(AXES.map(fitting), min_size=1, max_size=2), st.permutations([1, 2]))
def test_a_grid_finds_every_cell_of_every_window(axes: list[WindowAxis], indices: list[int]) -> None:
    own = dict(zip(indices, axes, strict=False))
    shape = [2, *(own[index].length if index in own else 2 for index in (1, 2))]
    grid = WindowGrid(shape, own)
    x, padded = np.arange(np.prod(shape)).reshape(shape), np.full(grid.padded, -1)
    padded[grid.image] = x
    offsets = list(itertools.product(*(range(axis.kernel) for axis in own.values())))
    assert len(grid.cells) == len(offsets)
    for index, numbers in zip(grid.cells, offsets, strict=True):
        expected = x
        for (place, axis), number in zip(own.items(), numbers, strict=True):
            pixels = [start + number * axis.dilation for start in axis.starts]
            inside = np.array([0 <= pixel < axis.length for pixel in pixels])
            taken = np.take(expected, np.clip(pixels, 0, axis.length - 1), place)
            expected = np.where(grid.along(place, inside), taken, -1)
        assert padded[index].shape == grid.counts
        np.testing.assert_array_equal(padded[index], expected)


@pytest.mark.parametrize(("tail", "count"), [(0, 3), (1, 3), (2, 3)])
def test_a_window_that_would_begin_behind_the_image_does_not_count(tail: int, count: int) -> None:
    axis = WindowAxis(6, kernel=3, stride=2, tail=tail, rounding="ceil")
    assert (axis.count, replace(axis, rounding="floor").count) == (count, 2 + (tail > 0))
