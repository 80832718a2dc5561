"""The errors of the layers, as a person reads them: how each is provoked, and its full text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import InputLayer, Layer, Net
from nacre_layers import (
    AccuracyLayer,
    ArgmaxLayer,
    BatchNormLayer,
    BinaryCrossEntropyLossLayer,
    ConcatLayer,
    ConvolutionLayer,
    CropLayer,
    DeconvolutionLayer,
    ElementWiseLayer,
    EmbeddingLayer,
    FlattenLayer,
    GroupNormLayer,
    InfogainLossLayer,
    InnerProductLayer,
    L2Norm,
    LRNLayer,
    MVNLayer,
    ParameterLayer,
    PoolingLayer,
    PReLULayer,
    Pretrained,
    ReshapeLayer,
    ScaleLayer,
    SliceLayer,
    SoftmaxLayer,
    SoftmaxLossLayer,
    SPPLayer,
    SquareLossLayer,
    Uniform,
    WassersteinLossLayer,
)
from provoked import Message, check_message


def net(layer: Layer, *shapes: tuple[int, ...], rows: int = 2) -> Net:
    """Return a net in which the bottoms of a layer have these shapes of one record."""
    bottoms = getattr(layer, "bottoms", ())
    inputs = [InputLayer(name=f"in{b}", tops=b, shape=s, batch_size=rows) for b, s in zip(bottoms, shapes, strict=True)]
    return Net("small", [*inputs, layer], phase="validation")


def run(layer: Layer, *values: Any, shapes: tuple[tuple[int, ...], ...] | None = None) -> Any:
    """Run a layer on these blobs."""
    arrays = [np.asarray(value, float) for value in values]
    with net(layer, *(shapes or [one.shape[1:] for one in arrays]), rows=2) as made:
        for bottom, array in zip(layer.bottoms, arrays, strict=True):
            made.write(bottom, array)
        return made.forward()


IMAGES = (3, 4, 4)
MOVED = WassersteinLossLayer(name="loss", bottoms=["a", "b"], cost=[[0, 1], [1, 0]], sharpness=5)
Pooling: Any = PoolingLayer  # as a file gives fields, of any type
ElementWise: Any = ElementWiseLayer

MESSAGES: list[Message] = [
    (
        lambda: net(ConvolutionLayer(bottoms="x", tops="conv1", n_filter=2, kernel=7, pad=1), IMAGES),
        "conv1: kernel=(7, 7) is larger than the padded image, (6, 6)",
    ),
    (
        lambda: net(ConvolutionLayer(bottoms="x", tops="conv1", n_filter=4, kernel=1, n_group=2), IMAGES),
        "conv1: n_group=2 does not divide the channels of the bottom, 3",
    ),
    (
        lambda: net(ConvolutionLayer(bottoms="x", tops="conv1", n_filter=4, kernel=1), (3,)),
        "conv1: a bottom of shape (2, 3) must have one to three axes after the channels",
    ),
    (
        lambda: net(DeconvolutionLayer(bottoms="x", tops="up", n_filter=2, kernel=2, extra=1), IMAGES),
        "up: extra=(1, 1) must be below stride=(1, 1)",
    ),
    (
        lambda: net(PoolingLayer(bottoms="x", tops="pool1", kernel=6), IMAGES),
        "pool1: kernel=6 is larger than the padded image, 4 along axis 2",
    ),
    (
        lambda: net(PoolingLayer(bottoms="x", tops="pool1", kernel=2, pad=2), IMAGES),
        "pool1: pad=2 must be below kernel=2, or a window has only padding",
    ),
    (
        lambda: PoolingLayer(bottoms="x", tops="pool1", whole=True, kernel=2),
        "pool1: kernel=(2,), but with whole=True the window is the image: remove it",
    ),
    (
        lambda: Pooling(bottoms="x", tops=["p", "m"], kernel=2, pooling="Mean"),
        "p: tops=('p', 'm'), but only pooling='Max' has masks, not Mean()",
    ),
    (
        lambda: PoolingLayer(bottoms="x", tops=["p", "m", "n"], kernel=2),
        "p: tops=('p', 'm', 'n'), but it needs 1, one for each bottom, or 2 with masks",
    ),
    (
        lambda: net(SPPLayer(bottoms="x", tops="spp", pyramid_height=4), (3, 5, 5)),
        (
            "spp: pyramid_height=4 cuts axis 2 of length 5 into 4 windows, of which one would have only "
            "padding: take a smaller pyramid, or images of other sizes"
        ),
    ),
    (
        lambda: net(SoftmaxLayer(bottoms="x", tops="prob", axis=4), IMAGES),
        "prob: axis=4, but the bottom of shape (2, 3, 4, 4) has the axes 1 to 3",
    ),
    (
        lambda: net(FlattenLayer(bottoms="x", tops="flat", axis=3, end_axis=2), IMAGES),
        "flat: end_axis=2, but it must be from axis=3 to 3 for a bottom of shape (2, 3, 4, 4)",
    ),
    (
        lambda: net(ReshapeLayer(bottoms="x", tops="y", shape=[5, 7]), IMAGES),
        "y: shape=(5, 7), but an image has 48 numbers: (3, 4, 4)",
    ),
    (
        lambda: net(SliceLayer(bottoms="x", tops=["a", "b"]), IMAGES),
        ("a: axis 1 of length 3 cannot be cut into 2 equal parts\n  set `points`"),
    ),
    (
        lambda: SliceLayer(bottoms="x", tops=["a", "b"], points=[1, 2]),
        "a: points=(1, 2), but 2 tops need 1",
    ),
    (
        lambda: net(ConcatLayer(bottoms=["x", "y"], tops="z"), (3, 4, 4), (3, 5, 5)),
        "z: bottom 'y' of shape (2, 3, 5, 5) does not fit 'x' of shape (2, 3, 4, 4) along axis 1",
    ),
    (
        lambda: net(CropLayer(bottoms="x", tops="y", crop_size=5), IMAGES),
        "y: crop_size=(5, 5) is larger than the images of bottom 'x', (4, 4)",
    ),
    (
        lambda: net(ElementWiseLayer(bottoms=["x", "y"], tops="z"), (3,), (4,)),
        (
            "z: bottom 'y' of shape (2, 4) does not fit 'x' of shape (2, 3)\n"
            "  the layers Scale and Bias take a second bottom of fewer axes"
        ),
    ),
    (
        lambda: ElementWise(bottoms=["x", "y"], tops="z", operation={"type": "Add", "coefficients": [1]}),
        "z: operation=Add(coefficients=(1.0,)), but it has 1 coefficients for 2 bottoms",
    ),
    (
        lambda: net(ArgmaxLayer(bottoms="x", tops="y", top_k=5), (3,)),
        "y: top_k=5, but axis 1 has the length 3",
    ),
    (
        lambda: net(ScaleLayer(bottoms=["x", "s"], tops="y", axis=1), IMAGES, (3,)),
        "y: bottom 's' of shape (2, 3) does not fit 'x' of shape (2, 3, 4, 4) from axis 1 on",
    ),
    (
        lambda: BatchNormLayer(bottoms="x", tops="y", use_running=True, use_batch=True),
        "y: use_running=True and use_batch=True, but only one of them is possible",
    ),
    (
        lambda: net(GroupNormLayer(bottoms="x", tops="y", n_group=2), IMAGES),
        "y: n_group=2 does not divide the 3 channels of (2, 3, 4, 4)",
    ),
    (
        lambda: net(LRNLayer(bottoms="x", tops="y", mode="within"), (3,)),
        (
            "y: mode='within', but the bottom of shape (2, 3) has only a batch and channels\n"
            "  windows within a channel need images; use mode='across'"
        ),
    ),
    (
        lambda: net(MVNLayer(bottoms="x", tops="y"), (3,)),
        ("y: the bottom of shape (2, 3) has one number per channel, which would become 0\n  set across_channels=True"),
    ),
    (
        lambda: net(PReLULayer(bottoms=["x", "y"], tops=["a", "b"]), (3, 2), (4, 2)),
        ("a: bottom 'y' has 4 channels, but 'x' has 3\n  shared=True gives all channels one slope"),
    ),
    (
        lambda: ParameterLayer(tops="w", shape=()),
        "w: shape=(), but a blob needs a first axis: shape = 1 makes a single number",
    ),
    (
        lambda: net(InnerProductLayer(bottoms=["x", "y"], tops=["a", "b"], output_dim=2), (3,), (4,)),
        "a: bottom 'y' has 4 features per image, but 'x' has 3",
    ),
    (
        lambda: net(
            InnerProductLayer(bottoms="x", tops="ip1", output_dim=2, weight_cons=L2Norm(threshold=1, axis=2)), (3,)
        ),
        "ip1: weight_cons: L2Norm: axis=2, but a parameter of shape (2, 3) has the axes 0 to 1",
    ),
    (
        lambda: Uniform(low=2, high=1),
        "Uniform: low=2.0, but it must not be above high=1.0",
    ),
    (
        lambda: net(
            InnerProductLayer(
                bottoms="x",
                tops="ip1",
                output_dim=2,
                weight_init=Pretrained(snapshot="none.h5", parameter="ip1/weight"),
            ),
            (3,),
        ),
        ("parameter 'ip1/weight': none.h5: no such file\n  nacre looked for it in HERE"),
    ),
    (
        lambda: run(SoftmaxLossLayer(name="loss", bottoms=["x", "label"]), np.zeros((2, 3)), [[0], [3]]),
        (
            "loss: label 3 of record 1 of the batch is not a whole number from 0 to 2\n"
            "  labels count from 0: check them, and the number of outputs of the layer before"
        ),
    ),
    (
        lambda: run(AccuracyLayer(name="acc", bottoms=["x", "label"]), np.zeros((2, 3)), [[0], [0.5]]),
        (
            "acc: label 0.5 of record 1 of the batch is not a whole number from 0 to 2\n"
            "  labels count from 0: check them, and the number of outputs of the layer before"
        ),
    ),
    (
        lambda: net(SoftmaxLossLayer(name="loss", bottoms=["x", "label"]), (3,), (3,)),
        (
            "loss: labels have the shape (2, 3), but (2, 1) is needed for predictions (2, 3)\n"
            "  labels must be class numbers; for one-hot labels use SoftlabelSoftmaxLoss, or Argmax to convert "
            "them"
        ),
    ),
    (
        lambda: run(EmbeddingLayer(bottoms="x", tops="y", input_dim=5, output_dim=2), [[0], [7]]),
        ("y: number 7 of record 1 of the batch is not a whole number from 0 to 4\n  check the data, and input_dim"),
    ),
    (
        lambda: run(BinaryCrossEntropyLossLayer(name="loss", bottoms=["x", "y"]), [[2.0], [0.5]], [[1.0], [0]]),
        (
            "loss: bottom 'x' holds 2, which is not a probability\n"
            "  add a Sigmoid before it, or use SigmoidCrossEntropyLoss"
        ),
    ),
    (
        lambda: run(
            WassersteinLossLayer(name="loss", bottoms=["a", "b"], cost=[[0, 1], [1, 0]], sharpness=5, sinkhorn_iter=9),
            [[0.5, 0.5], [0.5, 0.5]],
            [[0.5, 0.5], [0.5, 0.7]],
        ),
        (
            "loss: record 1 of the batch in bottom 'b' adds up to 1.2, but a distribution adds up to 1\n"
            "  add a Softmax before it, or divide the records by their sums"
        ),
    ),
    (
        lambda: net(SquareLossLayer(name="loss", bottoms=["x", "y"]), (3,), (4,)),
        (
            "loss: bottom 'y' of shape (2, 4) differs from 'x' of shape (2, 3)\n"
            "  it reads the prediction, the target, and optionally the weight of each record, in this order; "
            "here 'x' and 'y'"
        ),
    ),
    (
        lambda: InfogainLossLayer(name="loss", bottoms=["x", "label"]),
        "loss: exactly one matrix is needed: `matrix`, one file as `source`, or a third bottom",
    ),
    (
        lambda: net(SoftmaxLossLayer(name="loss", bottoms=["x", "label"], weights=[1, 2]), (3,), ()),
        "loss: weights have the shape (2,), but (3,) or (2, 3) is needed for scores (2, 3)",
    ),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message[1].partition("\n")[0][:60])
def test_the_text_of_an_error(message: Message, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_message(message, tmp_path, monkeypatch)
