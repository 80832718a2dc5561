"""The list of cuDNN's plans for what it computes of the example nets, made for an H200 that is not there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cupy_standin
from cudnn_plans import BATCHES, H200, PLANS, ROOT, cases, entry, without_a_driver
from nacre.config import load
from nacre_cupy.convolutions import Convolution, graph_of
from nacre_cupy.kept import KeptPlan
from nacre_cupy.kernels.batch_norm import BatchNormSumKernel
from nacre_cupy.normalisations import Normalisation
from nacre_cupy.plans import MOST_WORKSPACE, NoPlanError, build

MISSING = "pip install nvidia-cudnn-cu13 'nvidia-cudnn-frontend<1.29'"
LISTED = json.loads(PLANS.read_text(encoding="utf-8"))


def what(plan: dict[str, Any]) -> dict[str, Any]:
    """Return what an entry is for."""
    return {key: value for key, value in plan.items() if key not in ("plan", "workspace")}


def test_the_list_is_complete() -> None:
    """It has a plan for everything that a training of the nets computes by cuDNN, and for sums behind convolutions."""
    needed = [entry(*case) for case in cases().items()]
    assert [what(plan) for plan in LISTED["plans"]] == needed, "another net: python tests/cudnn_plans.py"
    assert {net for plan in needed for net in plan["nets"]} > {"lenet/lenet.toml", "imagenet/resnet50.toml"}
    assert all(plan["plan"] and 0 <= plan["workspace"] <= MOST_WORKSPACE for plan in LISTED["plans"])


def test_the_list_is_of_the_versions_that_are_compared() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    pinned = re.findall(r"nvidia-cudnn-(?:cu13|frontend)==([\d.]+)", makefile)
    assert [pinned[0].rpartition(".")[0], pinned[1]] == [LISTED["cudnn"], LISTED["frontend"]]


def test_a_convolution_has_the_shapes_of_its_layer() -> None:
    one = Convolution(8, 6, (9, 7), 4, (3, 2), (2, 1), (1, 0), (1, 0), (1, 2), 2)
    assert (one.x, one.w, one.y) == ((8, 6, 9, 7), (4, 3, 3, 2), (8, 4, 5, 5))


def test_sums_and_batch_norms_of_resnet_50_are_one_kernel_each_and_are_those_of_the_list() -> None:
    (name,) = [one for one in BATCHES if "resnet" in one]
    with cupy_standin.installed():
        backend = cupy_standin.watched()()
        with load(ROOT / "examples" / name).net(backend=backend, phase="train", allocate=False) as net:
            sums = [op.state for op in net.ops if isinstance(op.state, BatchNormSumKernel)]
            assert len(sums) == 16 and all(one.by_cudnn is not None for one in sums)
            assert "ElementWiseKernel" not in {type(op.state).__name__ for op in net.ops}
        asked = [(one, way) for _, one, way, *_ in backend.dnn._made if isinstance(one, Normalisation)]
    listed = {(case.one, case.way) for case in cases()}
    assert len(asked) == 18
    assert {(replace(one, shape=(BATCHES[name], *one.shape[1:])), way) for one, way in asked} <= listed


@pytest.mark.long
def test_the_plans_are_those_that_cudnn_chooses() -> None:
    pytest.importorskip("cudnn", reason=MISSING)
    done = subprocess.run(
        [sys.executable, str(PLANS.with_suffix(".py")), "--print"], stdout=subprocess.PIPE, text=True, check=True
    )
    made = json.loads(done.stdout)
    if (made["cudnn"], made["frontend"]) != (LISTED["cudnn"], LISTED["frontend"]):
        made = {**LISTED, "plans": [what(plan) for plan in made["plans"]]}  # others may choose other plans
        assert made["plans"] == [what(plan) for plan in LISTED["plans"]]
        pytest.skip(f"everything has a plan; they are compared with cuDNN {LISTED['cudnn']} only")
    assert done.stdout == PLANS.read_text(encoding="utf-8")


@pytest.mark.long
def test_a_convolution_without_a_plan_is_told() -> None:
    cudnn = pytest.importorskip("cudnn", reason=MISSING)
    without_a_driver()
    device = cudnn.create_device_properties(json.dumps(H200))
    one = Convolution(256, 512, (28, 28), 256, (1, 1), (1, 1), (0, 0), (0, 0), (1, 1), 1)
    graph = graph_of(cudnn, one, "forward", "float32", device_property=device)
    with pytest.raises(NoPlanError, match="cuDNN has no plan for this graph"):
        build(cudnn, graph, most_workspace=-1)


@pytest.mark.long
def test_a_kept_plan_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By cuDNN itself, for the device that is described to it in place of a handle's."""
    cudnn = pytest.importorskip("cudnn", reason=MISSING)
    without_a_driver()
    if tuple(map(int, cudnn.__version__.split(".")[:2])) < (1, 28):
        pytest.skip("this frontend reads plans with a handle only, which needs a GPU")
    monkeypatch.setenv("NACRE_CACHE", str(tmp_path))
    device = cudnn.create_device_properties(json.dumps(H200))
    one = Convolution(64, 64, (28, 28), 64, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1)
    graph = graph_of(cudnn, one, "forward", "bf16", device_property=device, bias=True, relu=True)
    plan = build(cudnn, graph)
    KeptPlan("a key").write(cudnn, graph, plan)

    def pygraph(handle: Any) -> Any:
        made = cudnn.pygraph(device_property=device)
        read = made.deserialize
        made.deserialize = lambda _, data: read(data)
        return made

    reader = SimpleNamespace(pygraph=pygraph, cudnnGraphNotSupportedError=cudnn.cudnnGraphNotSupportedError)
    assert KeptPlan("another key").read(reader, None) is None
    found, known = KeptPlan("a key").read(reader, None) or pytest.fail("it was not read")
    assert known == plan and found.get_workspace_size() == plan.workspace > 0
