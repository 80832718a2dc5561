"""The list of cuDNN's plans for the convolutions of the example nets, made for an H200 that is not there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cudnn_plans import H200, PLANS, cases, entry, made_plans, text
from nacre_cupy.convolutions import Convolution, graph_of
from nacre_cupy.plans import MOST_WORKSPACE, build

MISSING = "pip install nvidia-cudnn-cu13 'nvidia-cudnn-frontend<1.29'"
LISTED = json.loads(PLANS.read_text(encoding="utf-8"))


def what(plan: dict[str, Any]) -> dict[str, Any]:
    """Return what an entry is for."""
    return {key: value for key, value in plan.items() if key not in ("plan", "workspace")}


def test_the_list_is_complete() -> None:
    """It has a plan for everything that a training of the nets computes of their convolutions, and for nothing else."""
    needed = [entry(*case) for case in cases().items()]
    assert [what(plan) for plan in LISTED["plans"]] == needed, "another net: python tests/cudnn_plans.py"
    assert {net for plan in needed for net in plan["nets"]} > {"lenet/lenet.toml", "imagenet/resnet50.toml"}
    assert all(plan["plan"] and 0 <= plan["workspace"] <= MOST_WORKSPACE for plan in LISTED["plans"])


def test_a_convolution_has_the_shapes_of_its_layer() -> None:
    one = Convolution(8, 6, (9, 7), 4, (3, 2), (2, 1), (1, 0), (1, 0), (1, 2), 2)
    assert (one.x, one.w, one.y) == ((8, 6, 9, 7), (4, 3, 3, 2), (8, 4, 5, 5))


@pytest.mark.long
def test_the_plans_are_those_that_cudnn_chooses() -> None:
    pytest.importorskip("cudnn", reason=MISSING)
    made = made_plans()
    if (made["cudnn"], made["frontend"]) != (LISTED["cudnn"], LISTED["frontend"]):
        made = {**LISTED, "plans": [what(plan) for plan in made["plans"]]}  # others may choose other plans
        assert made["plans"] == [what(plan) for plan in LISTED["plans"]]
        pytest.skip(f"every convolution has a plan; they are compared with cuDNN {LISTED['cudnn']} only")
    assert text(made) == PLANS.read_text(encoding="utf-8")


@pytest.mark.long
def test_a_convolution_without_a_plan_is_told() -> None:
    cudnn = pytest.importorskip("cudnn", reason=MISSING)
    device = cudnn.create_device_properties(json.dumps(H200))
    one = Convolution(256, 512, (28, 28), 256, (1, 1), (1, 1), (0, 0), (0, 0), (1, 1), 1)
    graph = graph_of(cudnn, one, "forward", "float32", device_property=device)
    with pytest.raises(LookupError, match="cuDNN has no plan for this graph"):
        build(cudnn, graph, most_workspace=-1)
