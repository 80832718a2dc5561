"""Attention by cuDNN, in a kernel of another distribution (examples/plugins/nacre-transformer), over the stand-ins."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import cupy_standin
from nacre import InputLayer, Net
from nacre_cupy import library
from nacre_cupy.plans import build
from nacre_layers import SquareLossLayer

FOLDER = cupy_standin.STANDIN.parents[1] / "examples" / "plugins" / "nacre-transformer"


pytestmark = pytest.mark.usefixtures("cupy")


@pytest.fixture
def fused(new_registry: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module of the kernel; its layer and the kernel are offered until the test ends."""
    monkeypatch.syspath_prepend(FOLDER)
    module = importlib.import_module("nacre_transformer.fused")
    registry = new_registry()
    registry.register(module.DotProductAttentionLayer)
    registry.register_kernel(module.FusedKernel, "DotProductAttention", "cupy")
    return module


SHAPES = {1: [(7, 48)], 2: [(7, 16), (5, 32)], 3: [(7, 16), (5, 16), (5, 16)]}
"""Those of the bottoms, by their number: queries, keys and values are of 2 heads with 8 numbers each."""


def computed(
    backend: Any, fused: Any, bottoms: int, causal: bool, wanted: str = "qkv", heads: int = 2, **options: Any
) -> list[Any]:
    """Return the top and the gradients of bottoms, after three turns; the state of the layer comes last."""
    names = "qkv"[:bottoms]
    layers: list[Any] = [
        InputLayer(name=f"in_{name}", tops=name, shape=shape, batch_size=3)
        for name, shape in zip([*names, "t"], [*SHAPES[bottoms], (7, 16)], strict=True)
    ]
    layers.append(
        fused.DotProductAttentionLayer(name="look", bottoms=list(names), tops="y", heads=heads, causal=causal)
    )
    layers.append(SquareLossLayer(name="loss", bottoms=["y", "t"]))
    given = [name for name in names if name in wanted]
    with Net("attention", layers, backend=backend, input_gradients=given, keep=["y"], **options) as net:
        for turn in range(3):  # called, captured, replayed
            for number, name in enumerate([*names, "t"]):
                net.write(name, np.random.default_rng(10 * turn + number).normal(size=net.blob(name).shape))
            net.forward()
            net.backward()
        return [net.blob("y"), *(net.gradient(name) for name in given), net.node_ops["look"].state]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("bottoms", "wanted"), [(1, "q"), (2, "qk"), (2, "k"), (3, "qkv"), (3, "qv"), (2, "")])
def test_a_net_in_bf16_is_near_that_on_numpy(fused: Any, bottoms: int, wanted: str, causal: bool) -> None:
    backend = cupy_standin.watched()()
    *found, state = computed(backend, fused, bottoms, causal, wanted, compute="bf16")
    *exact, _ = computed("numpy", fused, bottoms, causal, wanted)
    assert type(state) is fused.FusedKernel and state.capturable and state.in_bf16
    assert set(state.made) == ({"forward", "backward"} if wanted else {"forward"})
    assert len(found) == len(exact) == 1 + len(wanted)
    for one, other in zip(found, exact, strict=True):
        assert np.linalg.norm(one - other) < 2e-2 * np.linalg.norm(other)


@cupy_standin.only_standin
@pytest.mark.parametrize("how", ["float32", "odd heads", "no plan", "no cudnn"])
def test_where_cudnn_cannot_the_layers_own_state_computes(
    fused: Any, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "no cudnn":
        monkeypatch.setattr(library, "without_cudnn", lambda: "it is not there")
    monkeypatch.setenv("NACRE_CACHE", "")
    frontend = library.cudnn()
    monkeypatch.setattr(frontend, "lacks", {"sdpa"} if how == "no plan" else set())
    options: dict[str, Any] = {} if how == "float32" else {"compute": "bf16"}
    heads = 4 if how == "odd heads" else 2
    *found, state = computed(cupy_standin.watched()(), fused, 2, True, heads=heads, **options)
    *exact, _ = computed("numpy", fused, 2, True, heads=heads)
    assert type(state) is fused.FusedKernel and not state.made
    for one, other in zip(found, exact, strict=True):
        assert np.linalg.norm(one - other) < 1e-2 * np.linalg.norm(other)


def test_what_it_is_not_made_for_it_declines(fused: Any) -> None:
    for fields in ({"masked": True}, {"rotary": True}, {"carry": 3, "causal": True}):
        layer = fused.DotProductAttentionLayer(bottoms=["q", "k"], tops="y", heads=2, **fields)
        assert fused.FusedKernel.supports(layer, []) == "serves no mask, no rotary positions and no carry"


BUILT = """
import json

from cudnn_plans import H200, without_a_driver

without_a_driver()
import cudnn
from nacre_cupy.plans import MOST_WORKSPACE, build
from nacre_transformer.fused import Sizes, graph_of

device = cudnn.create_device_properties(json.dumps(H200))
for one in (
    Sizes(64, 6, 128, 128, 32, (576, 576, 576), 0.2, True, False),
    Sizes(64, 6, 128, 128, 32, (576, 576, 576), 0.2, True, True),
    Sizes(8, 8, 100, 77, 128, (1024, 2048, 2048), 0.1, False, True),
    Sizes(3, 2, 7, 5, 8, (16, 32, 32), 0.5, False, False),
):
    for way in ("forward", "backward"):
        graph = graph_of(cudnn, one, way, "bf16", device_property=device)
        print(build(cudnn, graph, deterministic=one.deterministic, most_workspace=MOST_WORKSPACE))
"""


@pytest.mark.long
def test_cudnn_has_plans_for_it() -> None:
    """In a process of its own, for an H200 that is not there: see cudnn_plans.py."""
    pytest.importorskip("cudnn", reason="pip install nvidia-cudnn-cu13 'nvidia-cudnn-frontend<1.29'")
    paths = [str(FOLDER), str(cupy_standin.STANDIN.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, "-c", BUILT], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.count("Plan(name='eng") == 8


@cupy_standin.only_standin
@pytest.mark.parametrize("way", ["forward", "backward"])
def test_the_stand_in_refuses_what_does_not_fit(fused: Any, way: str) -> None:
    frontend = library.cudnn()
    one = fused.Sizes(3, 2, 7, 5, 8, (16, 32, 32), 0.5, False, True)
    for tensor, told in ((1, "the sizes do not fit"), (0, "a type of its own")):
        graph = fused.graph_of(frontend, one, way, "bf16", handle=frontend.create_handle())
        if tensor:
            graph.tensors[1].set_dim([3, 2, 6, 8])
        else:
            graph.tensors[0].set_data_type(frontend.data_type.FLOAT)
        with pytest.raises(AssertionError, match=told):
            build(frontend, graph)
