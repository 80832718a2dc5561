"""Plans of cuDNN, by `nvidia-cudnn-frontend`: which one computes a graph, and in how much memory.

A plan can also be chosen and built for a device that is not there, from a description of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from nacre import NacreError

MOST_WORKSPACE = 1 << 30
"""Bytes of memory that a plan may need besides the arrays."""
INEXACT = (
    *("TENSOR_CORE", "DOWN_CONVERT_INPUTS", "REDUCED_PRECISION_REDUCTION", "FFT"),
    *("WINOGRAD", "WINOGRAD_TILE_4x4", "WINOGRAD_TILE_6x6", "WINOGRAD_TILE_13x13"),
)
"""What cuDNN notes of plans whose results in float32 are not exact in all digits."""
NAMES = (
    *("x", "w", "y", "bias", "other"),
    *("scale", "mean", "slope", "old_mean", "old_variance", "new_mean", "new_variance", "mask"),
    *("epsilon", "share", "zero"),
    *("dx", "dy", "dother", "dscale", "dbias"),
)
"""What graphs call their arrays and numbers."""
TENSORS = {name: number for number, name in enumerate(NAMES, 1)}
"""The numbers by which graphs know them."""


class NoPlanError(NacreError):
    """cuDNN cannot compute a graph."""


@dataclass(frozen=True)
class Plan:
    """What cuDNN computes a graph with: the plan's name, and the bytes of memory that it needs besides the arrays.

    `index` is its place among the graph's plans; 0 for one that was read back, whose graph has no others.
    """

    name: str
    workspace: int
    index: int = 0


def channels_last(shape: Sequence[int]) -> list[int]:
    """Return the distances of neighbours along (images, channels, ...) where the channels lie last."""
    _, channels, *size = shape
    ahead = [channels * prod(size[axis + 1 :]) for axis in range(len(size))]
    return [channels * prod(size), 1, *ahead]


def plans(
    cudnn: Any, graph: Any, *, deterministic: bool = True, tensor_cores: bool = True, most_workspace: int | None = None
) -> Iterator[Plan]:
    """Build one plan of a graph after the other, in the order in which cuDNN's heuristics expect them to be fastest.

    The last one that was built is that of the graph. Without `tensor_cores` products of float32 are exact; with them,
    their factors have the 11 bits of TF32.

    Raises:
        NoPlanError: none can be built.
    """
    known = cudnn.numerical_note
    notes = [known.NONDETERMINISTIC] if deterministic else []
    notes += [] if tensor_cores else [getattr(known, name) for name in INEXACT]
    try:
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    except cudnn.cudnnGraphNotSupportedError as error:
        raise NoPlanError(f"cuDNN has no plan for this graph: {_first_line(error)}") from error
    if notes:
        graph.deselect_numeric_notes(notes)
    if most_workspace is not None:
        graph.deselect_workspace_greater_than(most_workspace)
    reason, some = "none", False
    for index in range(graph.get_execution_plan_count()):
        try:
            graph.build_plan_at_index(index)
        except (cudnn.cudnnGraphNotSupportedError, ValueError) as error:  # a ValueError: it was deselected
            reason = _first_line(error)
            continue
        some = True
        yield Plan(graph.get_plan_name_at_index(index), graph.get_workspace_size_plan_at_index(index), index)
    if not some:
        raise NoPlanError(f"cuDNN has no plan for this graph; the last reason: {reason}")


def build(cudnn: Any, graph: Any, **limits: Any) -> Plan:
    """Choose a plan for a graph: the first of `plans`, which has the same `limits`, and raises the same."""
    return next(plans(cudnn, graph, **limits))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
