"""The base of all kernels: passes made of stages, stages made of calls, and a choice among ways to compute each."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, ClassVar, Literal

from nacre import Array, LayerState, Neuron, Own

from ..dnnl import arguments as arg
from ..dnnl import library as dnnl
from ..dnnl.library import Unimplemented, library
from ..dnnl.primitives import (
    BLOCKED,
    CHANNELS_LAST,
    IN_ORDER,
    PLAIN,
    Buffer,
    Call,
    Desc,
    Primitive,
    attributes,
    block,
    call,
    describe,
    into,
    pass_over,
    reorder,
    too_large,
)
from ..helper.direct import packing
from ..helper.native import MISSING, helper
from ..record import Copies, aligned, recorder, sizes_of

ONE_BF16 = 0x3F80


Layouts = Callable[[Own], str]
"""Returns the layout of a blob: the one that it has, or the one that is being tried."""


def describe_blob(blob: Own, layouts: Layouts, beside: Own | None = None) -> Desc:
    """Describe a blob's layout. A blob of single pixels fits every layout, so it takes that of `beside`."""
    return describe(blob.shape, layout_beside(blob, layouts, beside), blob.dtype)


def layout_beside(blob: Own, layouts: Layouts, beside: Own | None) -> str:
    """Return the layout of a blob, or for a blob of single pixels that of `beside`."""
    if beside is not None and is_images(blob.shape) and prod(blob.shape[2:]) == 1 and is_images(beside.shape):
        return unpadded(blob.shape, layouts(beside))
    return layouts(blob)


def unfit(inputs: list[Any]) -> str | None:
    """Return the reason why no kernel here serves these bottoms, or None."""
    if len(inputs) != 1:
        return "serves one bottom"
    if inputs[0].dtype != "float32":
        return f"serves a bottom of float32, not {inputs[0].dtype}"
    return too_large(inputs[0].shape)


def unserved(inputs: list[Any]) -> str | None:
    """Return the reason why the helper does not serve these bottoms, or None."""
    return MISSING if helper() is None else unfit(inputs)


MOST_AXES = 5
"""Axes of the bottoms of kernels that serve several."""


def unfit_any(inputs: list[Any]) -> str | None:
    """Return the reason why no kernel here serves one of these bottoms, or None."""
    if reason := next((found for one in inputs if (found := unfit([one]))), None):
        return reason
    return None if len(inputs[0].shape) <= MOST_AXES else f"serves blobs of up to {MOST_AXES} axes"


def unserved_any(inputs: list[Any]) -> str | None:
    """Return the reason why the helper does not serve one of these bottoms, or None."""
    return MISSING if helper() is None else unfit_any(inputs)


FEW = 4
"""Images of up to this number of channels stay plain: they come from a source, and go into one convolution."""


def is_images(shape: tuple[int, ...]) -> bool:
    """Return whether a blob may be images: it has one to three axes after the channels."""
    return 3 <= len(shape) <= 5


def stays_plain(shape: tuple[int, ...], dtype: str = "float32") -> bool:
    """Return whether images of a shape are plain in every net; few are in bf16, which plain arrays cannot have."""
    if dtype == "bf16":
        return not 2 <= len(shape) <= 5
    return not is_images(shape) or shape[1] <= FEW or prod(shape[2:]) == 1


def in_bf16(backend: Any, shape: tuple[int, ...], others: list[Any]) -> bool:
    """Return whether a kernel may have own blobs of a shape, of bf16 in C order, beside `others`.

    Bottoms of a floating type would be rounded to bf16, too, unless they have one axis: then they stay plain.
    """
    rounded = any("float" in one.dtype and len(one.shape) > 1 for one in others)
    return backend.compute == "bf16" and len(shape) in (2, 3) and not rounded


def layout_of(shape: tuple[int, ...], candidate: str) -> str:
    """Return the layout of own blobs of a shape: C order, or for images the candidate, without padded blocks."""
    return unpadded(shape, candidate) if is_images(shape) else IN_ORDER


def unpadded(shape: tuple[int, ...], layout: str) -> str:
    """Return channels last instead of blocks if these would be padded."""
    return CHANNELS_LAST if layout == BLOCKED and shape[1] % block() else layout


def side_by_side(shape: tuple[int, ...], layout: str) -> int:
    """Return how many channels of a pixel lie side by side in images of a layout."""
    return {CHANNELS_LAST: shape[1], BLOCKED: block()}.get(layout, 1)


class OnednnKernel(LayerState, dtypes=("float32",)):
    """A kernel whose passes are lists of calls, made of stages such as "forward", "weights" and "data".

    Blobs have the type that the net computes in, `backend.compute`; parameters and their gradients are plain and
    float32.

    A stage may have several ways to compute it. The backend takes the fastest, and the fastest layouts of blobs;
    `taken` then has the calls of each stage.
    """

    PASSES: ClassVar[Mapping[str, tuple[str, ...]]] = {"forward": ("forward",), "backward": ("data",)}
    LIES: Literal["in order", "by channels", "as below", "as it likes"] = "in order"
    """How it wants blobs of three or five axes to lie: in C order, or as images with their channels side by side. One
    that says "as below" takes both, as its bottom comes, and one "as it likes" reads all as plain arrays in float32.
    Blobs of four axes are images for all kernels."""
    ALIKE: ClassVar[bool] = False
    """Whether all its blobs must lie alike; a blob and its gradient must for every kernel."""
    relu = False
    """Whether the kernel applies the layer's ReLU itself."""
    adds = False
    """Whether it adds a blob to its top, as the sum behind it would."""

    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.inputs, self.diffs = inputs, diffs
        self.layer_name = backend.full_name(getattr(layer, "name", type(layer).__name__))
        self.keeps = self.phase in ("test", "predict")
        self.taken: dict[str, list[Call]] = {}
        self.ways: dict[str, str] = {}
        self.own: dict[str, Array] = {}
        self.calls: dict[str, list[Call]] = {}

    def fuses_neuron(self, neuron: Neuron) -> bool:
        return self.relu

    def learns(self, name: str) -> bool:
        """Return whether somebody wants the gradient of a parameter of this name; each may be frozen alone."""
        return any(one.name == name and one.gradient is not None for one in self.parameters)

    # What a kernel defines

    def stages(self) -> list[str]:
        """Return the stages that are needed."""
        return ["forward", *(["data"] if self.diffs[0] is not None else [])]

    def passes(self) -> Mapping[str, tuple[str, ...]]:
        """Return the stages of each pass, whether they are needed or not."""
        return self.PASSES

    def ways_of(self, stage: str, layouts: Layouts) -> tuple[str, ...]:
        """Return the ways in which a stage can be computed."""
        return ("",)

    def by_rule(self, stage: str, layouts: Layouts) -> tuple[str, ...]:
        """Return the ways, best first, for a net whose ways must not be timed."""
        return self.ways_of(stage, layouts)

    def make(self, stage: str, way: str, layouts: Layouts) -> list[Call]:
        """Return the calls of a stage.

        Raises:
            Unimplemented: oneDNN has no good code for it.
        """
        raise NotImplementedError

    def packed(self, name: str, outer: Desc, inner: Desc) -> tuple[list[Call], Buffer]:
        """Return the calls that copy a parameter into a primitive's layout, if needed, and the buffer to read then.

        If nothing is trained, the copy is kept.
        """
        copy = f"{'Packed' if self.keeps else 'inner'} {name}"
        ours = packing(name, outer, inner, copy)
        calls, buffer = ([ours], (copy, inner)) if ours else into(name, outer, inner, copy)
        return [replace(one, once=self.keeps) for one in calls], buffer

    @property
    def reads_mostly_weights(self) -> bool:
        """Whether copies of weights are kept, and these, the first parameter, have more numbers than bottom and top."""
        return self.keeps and prod(self.parameters[0].shape) > prod(self.inputs[0].shape) + prod(self.blobs[0].shape)

    def ends(self) -> list[list[Own]]:
        """Return the blobs that it reads and writes, in groups of those that must lie alike."""
        pairs = (*zip(self.inputs, self.diffs, strict=True), *zip(self.blobs, self.blobs_diff, strict=True))
        groups = [[one for one in pair if one is not None] for pair in pairs]
        return [[one for group in groups for one in group]] if self.ALIKE else groups

    # What the net calls

    def ready(self) -> None:
        def layouts(blob: Own) -> str:
            return blob.layout or PLAIN

        with recorder(self.backend).on_threads():
            made = {stage: self.taken.get(stage) or self.make_first(stage, layouts) for stage in self.stages()}
        self.calls = {
            name: [call for stage in stages for call in made.get(stage, ())] for name, stages in self.passes().items()
        }
        sizes = sizes_of(call for calls in self.calls.values() for call in calls)
        self.own = {
            name: self.own[name] if name in self.own and self.own[name].nbytes >= size else aligned(size)
            for name, size in sizes.items()
            if name[0].isupper()
        }
        there = {**self.buffers(), **self.own}
        for calls in self.calls.values():
            recorder(self.backend).scratch.reserve(sizes_of(calls, there))

    def make_first(self, stage: str, layouts: Layouts, way: str | None = None) -> list[Call]:
        """Make and take a stage in this way, or in the first of `by_rule` that oneDNN has code for.

        Raises:
            Unimplemented: oneDNN has no good code for it.
        """
        for one in self.by_rule(stage, layouts) if way is None else (way,):
            try:
                calls = self.make(stage, one, layouts)
            except Unimplemented:
                continue
            self.taken[stage], self.ways[stage] = calls, one
            return calls
        raise Unimplemented(f"{self.layer_name}: oneDNN has no good code for '{stage}' in these layouts")

    def buffers(self) -> dict[str, Array]:
        """Return the net's buffers by name."""
        found: dict[str, Any] = {
            "x": self.inputs[0].memory,
            "y": self.blobs[0].memory,
            "dy": self.blobs_diff[0] and self.blobs_diff[0].memory,
            "dx": self.diffs[0] and self.diffs[0].memory,
        }
        for parameter in self.parameters:
            found[parameter.name], found[f"d{parameter.name}"] = parameter.blob, parameter.gradient
        return {name: array for name, array in found.items() if array is not None}

    def forward(self, inputs: list[Own]) -> None:
        recorder(self.backend).enqueue(self.calls["forward"], {**self.buffers(), **self.own}, self.copies())

    def copies(self) -> Copies:
        """Return the parameters that the forward pass copies and keeps."""
        return Copies([parameter.storage for parameter in self.parameters if parameter.storage is not None])

    def backward(self, inputs: list[Own], diffs: list[Own | None]) -> None:
        recorder(self.backend).enqueue(self.calls["backward"], {**self.buffers(), **self.own})


def numbered(name: str, blobs: Sequence[Own | None]) -> dict[str, Array]:
    """Return the memory of blobs, by a name with their index."""
    return {f"{name}{index}": blob.memory for index, blob in enumerate(blobs) if blob is not None}


def gate(desc: Desc, into: str, also: str = "") -> list[Call]:
    """Return the calls of the gradient below a ReLU: `into`, and `also`, are dy where y is above 0, else 0."""
    if helper() is not None:
        return [pass_over("gate", {"y": "y", "dy": "dy", "dx": into, "also": also}, desc)]
    zero = ctypes.c_float(0)
    engine = library().engine
    hint = Primitive(
        "eltwise_forward", engine, dnnl.FORWARD_TRAINING, dnnl.RELU_OF_RESULT, desc, desc, zero, zero, attributes()
    )
    backward = Primitive(
        "eltwise_backward", engine, dnnl.RELU_OF_RESULT, desc, desc, desc, zero, zero, hint.desc, attributes()
    )
    gated = call(backward, {arg.DST: ("y", desc), arg.DIFF_DST: ("dy", desc), arg.DIFF_SRC: (into, desc)})
    return [gated, *(reorder(into, desc, also, desc) if also else [])]


def rectify(desc: Desc, source: str = "y") -> list[Call]:
    """Return the calls of y = max(0, x), where x may be y. A NaN stays one; in every ReLU of oneDNN it is lost."""
    if helper() is not None:
        return [pass_over("rectify", {"x": source, "y": "y"}, desc)]
    largest = Primitive("binary", library().engine, dnnl.BINARY_MAX, desc, desc, desc, attributes())
    return [call(largest, {arg.SRC: ("Zeros", desc), arg.SRC_1: (source, desc), arg.DST: ("y", desc)})]


def make_ones(backend: Any, count: int, dtype: str = "float32") -> Array:
    """Return an array of ones, with which a product computes a sum."""
    narrow = dtype == "bf16"
    ones = backend.empty((count,), "uint16" if narrow else "float32")
    ones[...] = ONE_BF16 if narrow else 1
    return ones
