"""BatchNorm of the batch's own mean and variance as graphs of cuDNN: images lie with the channels last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from .plans import TENSORS, channels_last

Way = Literal["forward", "backward"]


@dataclass(frozen=True)
class Normalisation:
    """BatchNorm of images, with what is behind it: `add`, another blob, and a ReLU; `shape` is (N, C, H, W).

    `gives` says that backward writes the gradient of the other blob, too.
    """

    shape: tuple[int, int, int, int]
    add: bool = False
    relu: bool = False
    gives: bool = False


def graph_of(cudnn: Any, one: Normalisation, way: Way, dtype: str, **where: Any) -> Any:
    """Return a graph of cuDNN's frontend for BatchNorm in phase train, or for all its gradients.

    Its tensors have the numbers of `TENSORS`. Forward leaves `mean` and `slope`, 1 / sqrt(variance + epsilon), for
    backward, and with a ReLU a `mask`: a bit for each number, whether it is above 0. `epsilon`, `share`, that of the
    batch in the new running values, and `zero` are numbers of float32 on the host. `where` says for which device:
    `handle=`, or `device_property=` of one that is not there.
    """
    types = cudnn.data_type
    kind, wide = types.BFLOAT16 if dtype == "bf16" else types.FLOAT, types.FLOAT
    graph = cudnn.pygraph(io_data_type=kind, intermediate_data_type=wide, compute_data_type=wide, **where)
    shape, small = list(one.shape), [1, one.shape[1], 1, 1]

    def numbered(tensor: Any, name: str) -> Any:
        tensor.set_uid(TENSORS[name])
        return tensor

    def images(name: str, dtype: Any = kind) -> Any:
        made = graph.tensor(name=name, dim=shape, stride=channels_last(shape), data_type=dtype)
        return numbered(made, name)

    def channels(name: str) -> Any:
        return numbered(graph.tensor(name=name, dim=small, stride=channels_last(small), data_type=wide), name)

    def number(name: str) -> Any:
        ones = [1, 1, 1, 1]
        return numbered(graph.tensor(name=name, dim=ones, stride=ones, data_type=wide, is_pass_by_value=True), name)

    def given(tensor: Any, name: str, dtype: Any = kind) -> None:
        tensor.set_output(True).set_data_type(dtype).set_dim(shape).set_stride(channels_last(shape))
        numbered(tensor, name)

    def measured(tensor: Any, name: str) -> None:
        tensor.set_output(True).set_data_type(wide).set_dim(small).set_stride(channels_last(small))
        numbered(tensor, name)

    if way == "forward":
        learned = {"scale": channels("scale"), "bias": channels("bias")}
        running = {"in_running_mean": channels("old_mean"), "in_running_var": channels("old_variance")}
        numbers = {"epsilon": number("epsilon"), "momentum": number("share")}
        made, *measures = graph.batchnorm(input=images("x"), **learned, **running, **numbers)
        for tensor, name in zip(measures, ("mean", "slope", "new_mean", "new_variance"), strict=True):
            measured(tensor, name)
        if one.add:
            made = graph.add(a=made.set_data_type(kind), b=images("other"))
        if one.relu:
            made = graph.relu(input=made.set_data_type(kind))
            given(graph.cmp_gt(input=made, comparison=number("zero")), "mask", types.BOOLEAN)
        given(made, "y")
        return graph
    dy = images("dy")
    if one.relu:
        dy = graph.mul(a=dy, b=images("mask", types.BOOLEAN)).set_data_type(kind)
        if one.gives:
            given(dy, "dother")
    channel = {"scale": channels("scale"), "mean": channels("mean"), "inv_variance": channels("slope")}
    dx, *sums = graph.batchnorm_backward(grad=dy, input=images("x"), **channel)
    given(dx, "dx")
    for tensor, name in zip(sums, ("dscale", "dbias"), strict=True):
        measured(tensor, name)
    return graph
