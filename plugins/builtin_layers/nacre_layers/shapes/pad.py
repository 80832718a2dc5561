"""Pad: a border around images, of a constant, of their edge, or of what a mirror there shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from nacre import (
    Array,
    ConfigError,
    Layer,
    LayerState,
    Names,
    Shape,
    Sizes,
    as_many_as,
    at_least,
    default,
    finite,
    non_negative,
    positive,
    spread,
)

Side = tuple[slice, ...]


class PadLayer(Layer, can_do_bp=True):
    """Put a border of `pad` numbers in front of and behind each image, along `axes`; one top for each bottom.

    y[n, c, i, j] = x[n, c, i - pad, j - pad] inside the image, and outside, with `mode`, "constant": `value`; "edge":
    the nearest number of the image; "reflect": what a mirror on the edge shows, c b | a b c | b a for a border of 2, so
    the border must be shorter than the image. Along the axes one after the other, so corners are those of a border.

    Bottoms are (images, channels, rows, columns), with any number of axes after the channels. `pad` is one number for
    all of the axes, or one for each; with `end` the border behind has another length. Tops have the type of their
    bottoms. As NumPy's `pad`, and PyTorch's with the modes "constant", "replicate" and "reflect".

    Example:
        [[layer]]
        type = "Pad"
        bottoms = ["data"]  # (8, 3, 32, 32)
        tops = ["padded"]  # (8, 3, 38, 36)
        pad = [3, 2]
        mode = "reflect"
    """

    shown = ("mode", "pad")

    bottoms: Annotated[Names, at_least(1), "the images"]
    tops: Annotated[Names, as_many_as("bottoms"), "the images with a border"]
    pad: Annotated[Sizes, non_negative, "length of the border in front, and behind unless `end` is given"]
    end: Annotated[Shape, non_negative, "length of the border behind; by default that of `pad`"] = default(())
    axes: Annotated[Shape, positive, "axes that get a border; by default all after the channels"] = default(())
    mode: Annotated[Literal["constant", "edge", "reflect"], "what is in the border"] = "constant"
    value: Annotated[float, finite, 'the number in the border, with mode="constant"'] = 0.0

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        if len(set(self.axes)) < len(self.axes):
            yield f"axes={self.axes}, but an axis is named twice: remove the second"
        if self.value and self.mode != "constant":
            yield f'value={self.value}, but it is for mode="constant": remove it'


class PadState(LayerState, of=PadLayer, reads="", capturable=True):
    """`PadLayer` on any backend."""

    def __init__(self, layer: PadLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.insides: list[Side] = []
        self.copies: list[list[tuple[Side, Side]]] = []
        for name, one in zip(layer.bottoms, inputs, strict=True):
            borders = _borders(layer, one.shape)
            if not one.dtype.startswith("float") and layer.value % 1:
                raise ConfigError(
                    f"{layer.name}: value={layer.value}, but bottom '{name}' holds whole numbers ({one.dtype})"
                )
            parts = [(*borders.get(axis, (0, 0)), length) for axis, length in enumerate(one.shape)]
            self.insides.append(tuple(slice(front, front + length) for front, _, length in parts))
            self.copies.append([] if layer.mode == "constant" else _copies(layer.mode, one.shape, borders))
            self.blobs.append(backend.blob([sum(part) for part in parts], one.dtype))

    def forward(self, inputs: list[Array]) -> None:
        for x, y, inside, copies in zip(inputs, self.blobs, self.insides, self.copies, strict=True):
            if self.layer.mode == "constant":
                y[...] = self.layer.value
            self.backend.xp.copyto(y[inside], x)
            for border, source in copies:
                self.backend.xp.copyto(y[border], y[source])

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        xp = self.backend.xp
        for dy, dx, inside, copies in zip(self.blobs_diff, diffs, self.insides, self.copies, strict=True):
            if dx is None:
                continue
            if copies:
                whole = self.backend.scratch(dy.shape, str(dy.dtype))
                xp.copyto(whole, dy)
                for border, source in reversed(copies):
                    self._give_back(whole[border], whole[source])
                dy = whole
            xp.copyto(dx, dy[inside])

    def _give_back(self, border: Array, source: Array) -> None:
        """Add the gradient of a border to that of the numbers it was copied from."""
        lengths = enumerate(zip(border.shape, source.shape, strict=True))
        axes = tuple(axis for axis, (here, there) in lengths if here > there)
        if axes:  # one edge, copied several times
            total = self.backend.scratch(source.shape, str(source.dtype), slot=1)
            self.backend.xp.sum(border, axis=axes, keepdims=True, out=total)
            border = total
        self.backend.xp.add(source, border, out=source)


def _borders(layer: PadLayer, shape: tuple[int, ...]) -> dict[int, tuple[int, int]]:
    """Return the lengths of the border in front and behind, for each axis that has one."""
    axes = layer.axes or tuple(range(2, len(shape)))
    if not axes or max(axes) >= len(shape):
        raise ConfigError(f"{layer.name}: the bottom of shape {shape} has no axes {layer.axes or 'after the channels'}")
    fronts = spread(layer.pad, len(axes), f"{layer.name}: pad")
    ends = spread(layer.end, len(axes), f"{layer.name}: end") if layer.end else fronts
    borders = {axis: (front, end) for axis, front, end in zip(axes, fronts, ends, strict=True)}
    for axis, both in borders.items():
        if layer.mode == "reflect" and max(both) >= shape[axis]:
            raise ConfigError(
                f'{layer.name}: mode="reflect" needs a border that is shorter than the image, but it has {max(both)} '
                f"and the image {shape[axis]} along axis {axis}",
                'use a smaller border, or mode="edge"',
            )
    return borders


def _copies(mode: str, shape: tuple[int, ...], borders: dict[int, tuple[int, int]]) -> list[tuple[Side, Side]]:
    """Return the parts of the top that are borders, in the order in which they are written, and their sources."""
    copies: list[tuple[Side, Side]] = []
    for axis, (front, behind) in borders.items():
        last = front + shape[axis] - 1  # the index of the last number of the image
        if mode == "edge":
            sources = slice(front, front + 1), slice(last, last + 1)
        else:
            stop = last - behind - 1
            sources = slice(2 * front, front, -1), slice(last - 1, None if stop < 0 else stop, -1)
        sides = (front, slice(0, front), sources[0]), (behind, slice(last + 1, None), sources[1])
        before = (slice(None),) * axis
        copies += [((*before, border), (*before, source)) for length, border, source in sides if length]
    return copies
