"""Convolutions as graphs of cuDNN: images and filters lie with the channels last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from nacre_layers.windows import WindowAxis

from .plans import TENSORS, channels_last

Way = Literal["forward", "data", "weight"]
"""The convolution, the gradient of its images, or that of its filters."""
WAYS: tuple[Way, ...] = ("forward", "data", "weight")
DTYPES = ("float32", "tf32", "bf16")
"""Types of the arrays and of the products; sums are made in float32, and arrays of "tf32" are float32."""


@dataclass(frozen=True)
class Convolution:
    """The sizes of a convolution: numbers for each axis of the images, two or three; `tail` is the padding behind."""

    images: int
    channels: int
    size: tuple[int, ...]
    filters: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    tail: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @classmethod
    def of(cls, geometry: Any, groups: int) -> Convolution:
        """Return the sizes of a `Geometry` of nacre_layers; images with one axis are rows of images with two."""
        axes = [WindowAxis(1, 1), *geometry.axes][-max(len(geometry.axes), 2) :]

        def along(name: str) -> tuple[int, ...]:
            return tuple(getattr(axis, name) for axis in axes)

        return cls(
            images=geometry.images,
            channels=geometry.channels,
            size=along("length"),
            filters=geometry.filters,
            kernel=along("kernel"),
            stride=along("stride"),
            pad=along("pad"),
            tail=along("tail"),
            dilation=along("dilation"),
            groups=groups,
        )

    @property
    def x(self) -> tuple[int, ...]:
        """The shape of the images."""
        return self.images, self.channels, *self.size

    @property
    def w(self) -> tuple[int, ...]:
        """The shape of the filters."""
        return self.filters, self.channels // self.groups, *self.kernel

    @property
    def y(self) -> tuple[int, ...]:
        """The shape of the result."""
        axes = zip(self.size, self.kernel, self.stride, self.pad, self.tail, self.dilation, strict=True)
        counts = ((size + pad + tail - (k - 1) * d - 1) // step + 1 for size, k, step, pad, tail, d in axes)
        return self.images, self.filters, *counts


def graph_of(
    cudnn: Any,
    one: Convolution,
    way: Way,
    dtype: str,
    *,
    bias: bool = False,
    add: bool = False,
    relu: bool = False,
    **where: Any,
) -> Any:
    """Return a graph of cuDNN's frontend for one convolution, whose tensors have the numbers of `TENSORS`.

    Going forward it may add a `bias`, `add` an array of the result's shape, and set what is below 0 to 0 (`relu`).
    `where` says for which device: `handle=`, or `device_property=` of one that is not there.
    """
    kind, wide = cudnn.data_type.BFLOAT16 if dtype == "bf16" else cudnn.data_type.FLOAT, cudnn.data_type.FLOAT
    graph = cudnn.pygraph(io_data_type=kind, intermediate_data_type=wide, compute_data_type=wide, **where)

    def tensor(name: str, shape: tuple[int, ...]) -> Any:
        made = graph.tensor(name=name, dim=list(shape), stride=channels_last(shape), data_type=kind)
        made.set_uid(TENSORS[name])
        return made

    windows = {
        "pre_padding": list(one.pad),
        "post_padding": list(one.tail),
        "stride": list(one.stride),
        "dilation": list(one.dilation),
    }
    if way == "forward":
        made = graph.conv_fprop(image=tensor("x", one.x), weight=tensor("w", one.w), **windows)
        if bias:
            made = graph.bias(input=made, bias=tensor("bias", (1, one.filters, *[1] * len(one.size))))
        if add:
            made = graph.add(a=made, b=tensor("other", one.y))
        if relu:
            made = graph.relu(input=made)
        name, shape = "y", one.y
    elif way == "data":
        made = graph.conv_dgrad(loss=tensor("y", one.y), filter=tensor("w", one.w), **windows)
        name, shape = "x", one.x
    else:
        made = graph.conv_wgrad(image=tensor("x", one.x), loss=tensor("y", one.y), **windows)
        name, shape = "w", one.w
    made.set_output(True).set_data_type(kind).set_dim(list(shape)).set_stride(channels_last(shape))
    made.set_uid(TENSORS[name])
    return graph
