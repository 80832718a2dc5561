"""One variable says which of the processor's instructions oneDNN and the helper use; sizes that no code can take."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from mixed_nets import EXAMPLES
from nacre import InputLayer, Layer, NacreError, Net
from nacre.config import load
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.convolution.deconvolution import DeconvolutionLayer
from nacre_layers.elementwise.softmax import SoftmaxLayer
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.losses.square_loss import SquareLossLayer
from nacre_layers.normalisation.lrn import LRNLayer
from nacre_layers.pooling.functions import Mean
from nacre_layers.pooling.pooling import PoolingLayer
from nacre_onednn.backend import OnednnBackend
from nacre_onednn.dnnl import library
from nacre_onednn.dnnl.library import Unimplemented
from nacre_onednn.dnnl.primitives import MOST, dims, plain, strided
from nacre_onednn.helper import native
from nacre_onednn.helper.native import operation

if reason := OnednnBackend.unusable():
    pytest.skip(f"oneDNN cannot be used here: {reason}", allow_module_level=True)
needs_helper = pytest.mark.skipif(native.helper() is None, reason="the native helper was not compiled")

TELL = """
from nacre_onednn.helper import native
from nacre_onednn.dnnl.library import library
found = native.helper()
print(library().instructions, found.nacre_use(native.most_instructions()), native.lanes())
"""


@needs_helper
@pytest.mark.parametrize(("given", "told"), [("SSE41", "SSE4.1 0 0"), ("AVX2", "AVX2 1 8")])
def test_the_helper_uses_what_onednn_uses(given: str, told: str) -> None:
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": given}
    done = subprocess.run([sys.executable, "-c", TELL], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == told


def test_probabilities_can_be_trained_with_any_loss() -> None:
    net = Net(
        "net",
        [
            InputLayer(name="in", tops="data", shape=6, batch_size=4),
            InputLayer(name="targets", tops="target", shape=3, batch_size=4),
            InnerProductLayer(bottoms="data", tops="ip", output_dim=3),
            SoftmaxLayer(bottoms="ip", tops="p"),
            SquareLossLayer(bottoms=("p", "target")),
        ],
        backend="onednn",
    )
    net.forward()
    net.backward()
    assert all(np.isfinite(one.gradient).all() for one in net.parameters.values())


@needs_helper
@pytest.mark.parametrize(
    "path", ["cifar/quick.toml", "cifar/full.toml", "imagenet/alexnet.toml", "imagenet/vgg_a.toml"]
)
def test_blobs_of_known_nets_stay_where_they_are(path: str) -> None:
    net = load(EXAMPLES / path).net("train", backend="onednn", allocate=False)
    assert net.schedule.copies == []


# --- sizes -----------------------------------------------------------------------------------------------------------

ABSURD = [1 << 31, 1 << 32, (1 << 32) + 1, 1 << 40, (1 << 63) - 1, 1 << 63, 1 << 70]
"""All of them too large for the memory of any machine, with the bottom below."""


def layers_of(size: int) -> list[Layer]:
    ends = {"bottoms": "x", "tops": "y"}
    return [
        ConvolutionLayer(n_filter=size, kernel=3, bias=False, **ends),
        ConvolutionLayer(n_filter=size, kernel=3, pad=1, n_group=1, **ends),
        ConvolutionLayer(n_filter=16, kernel=size, pad=size, **ends),
        DeconvolutionLayer(n_filter=size, kernel=2, **ends),
        DeconvolutionLayer(n_filter=16, kernel=2, stride=size, **ends),
        InnerProductLayer(output_dim=size, bias=False, **ends),
    ]


@pytest.mark.parametrize("backend", ["numpy", "onednn"])
@pytest.mark.parametrize("size", ABSURD)
def test_what_no_memory_holds_is_told_in_a_sentence(backend: str, size: int) -> None:
    for layer in layers_of(size):
        bottom = InputLayer(name="in", tops="x", shape=(64, 32, 32), batch_size=8)
        with pytest.raises(NacreError) as told:
            Net("net", [bottom, layer], backend=backend, phase="test").forward()
        assert "status" not in str(told.value)


@pytest.mark.parametrize("size", ABSURD)
def test_absurd_sizes_that_need_no_memory_are_computed(size: int) -> None:
    ends = {"bottoms": "x", "tops": "y"}
    layers: list[Layer] = [
        ConvolutionLayer(n_filter=4, kernel=3, stride=size, **ends),
        ConvolutionLayer(n_filter=4, kernel=1, dilation=size, **ends),
        PoolingLayer(kernel=3, stride=size, **ends),
        PoolingLayer(kernel=3, stride=size, pooling=Mean(), **ends),
        LRNLayer(kernel=size, **ends),
        LRNLayer(kernel=size, mode="within", **ends),
    ]
    numbers = np.random.default_rng(0).normal(size=(2, 4, 5, 6))
    for layer in layers:
        tops = []
        for backend in ("numpy", "onednn"):
            bottom = InputLayer(name="in", tops="x", shape=(4, 5, 6), batch_size=2)
            net = Net("net", [bottom, layer], backend=backend, phase="test", seed=1, keep="all")
            net.write("x", numbers)
            net.forward()
            tops.append(net.blob("y"))
        np.testing.assert_allclose(*tops, rtol=1e-5, atol=1e-6, err_msg=repr(layer))


@pytest.mark.parametrize("shape", [(0, 3), (3, -1), (MOST + 1,), (1 << 16, 1 << 15), (1 << 62, 4), (1 << 70,)])
def test_shapes_are_checked_before_onednn_sees_them(shape: tuple[int, ...]) -> None:
    for make in (lambda: plain(*shape), lambda: strided(shape, (1,) * len(shape))):
        with pytest.raises(Unimplemented, match=r"serves (no )?blobs"):
            make()


@pytest.mark.parametrize("numbers", [(-1, 1), (1, MOST + 1), (1 << 64, 1)])
def test_sizes_are_checked_before_onednn_sees_them(numbers: tuple[int, ...]) -> None:
    with pytest.raises(Unimplemented, match="serves sizes from 0 to"):
        dims(numbers)


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1])
def test_numbers_of_the_helper_are_checked(number: int) -> None:
    with pytest.raises(NacreError, match="more than a processor can count"):
        operation("lrn", {"images": 1, "channels": number})


@pytest.mark.parametrize("status", [1, 2, 4, 5, 99])
def test_no_status_is_told_as_a_number(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    here = library.library()

    class Failing:
        def __getattr__(self, name: str) -> Any:
            return lambda *arguments: status

    monkeypatch.setattr(here, "functions", Failing())
    with pytest.raises(NacreError, match="refused 'stream_create': ") as told:
        here.call("stream_create")
    assert "status" not in str(told.value) and str(status) not in str(told.value).removeprefix(f"oneDNN {here.version}")
