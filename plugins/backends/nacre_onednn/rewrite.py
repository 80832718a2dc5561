"""Rewrites a graph before setup.

ReLU moves behind max pooling, where there are fewer numbers. A sum that alone reads the top of a BatchNorm may compute
it itself, so that it is never written. In phase predict, filters compute the BatchNorm that alone reads their top, and
the sum behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nacre import Graph, Identity, Node, is_identity
from nacre_layers.convolution.convolution import ConvolutionLayer
from nacre_layers.convolution.deconvolution import DeconvolutionLayer
from nacre_layers.elementwise.element_wise import Add, ElementWiseLayer
from nacre_layers.neurons import ReLU, is_relu
from nacre_layers.normalisation.batch_norm import BatchNormLayer
from nacre_layers.pooling.functions import Max
from nacre_layers.pooling.pooling import PoolingLayer


def relu_behind_max_pooling(graph: Graph) -> Graph:
    """Let a max pooling apply the ReLU of the layers below it, where nobody else reads their tops.

    The values are the same, and so are the gradients: where the largest number of a window is below 0, nothing flows.
    """
    writers, readers = _ends(graph)
    changed: dict[str, Node] = {}
    for node in graph.nodes:
        below = [writers[bottom] for bottom in node.bottoms]
        if _is_max_pooling(node) and all(
            _applies_relu(one) and all(readers.get(top) == [node] and top not in graph.keep for top in one.tops)
            for one in below
        ):
            changed |= {one.name: replace(one, layer=replace(one.layer, neuron=Identity())) for one in below}
            changed[node.name] = replace(node, layer=replace(node.layer, neuron=ReLU()))
    return graph.with_nodes(changed.get(node.name, node) for node in graph.nodes)


SUM = "nacre_onednn: the sum behind it computes its top"


def sums_behind_batch_norm(graph: Graph) -> Graph:
    """Give each sum of two blobs that alone reads the top of a BatchNorm a `Sum` with it: with the last one below."""
    writers, readers = _ends(graph)
    order = {top: number for number, node in enumerate(graph.nodes) for top in node.tops}

    def written(name: str) -> int:
        return order.get(name, -1)

    changed: dict[str, Node] = {}
    for node in graph.nodes:
        if type(node.layer) is not ElementWiseLayer or not is_sum(node.layer) or len(node.bottoms) != 2:
            continue
        below = [writers[name] for name in sorted(node.bottoms, key=written, reverse=True) if name in writers]
        alone = (one for one in below if _leaves_its_top(one) and _is_alone(graph, one.tops, readers, node))
        if norm := next(alone, None):
            index = node.bottoms.index(norm.tops[0])
            joined = Sum(index, waits=written(node.bottoms[1 - index]) < written(norm.bottoms[0]))
            changed |= {one.name: replace(one, layer=_marked(one.layer, SUM, joined)) for one in (norm, node)}
    return graph.with_nodes(changed.get(node.name, node) for node in graph.nodes)


def is_sum(layer: ElementWiseLayer) -> bool:
    """Return whether a layer adds up its bottoms, each as it is."""
    return type(layer.operation) is Add and not layer.operation.coefficients


@dataclass
class Sum:
    """A BatchNorm and the sum behind it, which may become one; the first has its kernel here.

    `index` says which bottom of the sum is the BatchNorm's top. `waits`: whether the other bottom is there before the
    layer below the BatchNorm runs.
    """

    index: int
    waits: bool
    norm: Any = None


def sum_of(layer: Any) -> Sum | None:
    """Return what `sums_behind_batch_norm` gave a layer."""
    return vars(layer).get(SUM)


FOLD = "nacre_onednn: the filters below it may take it over"


def batch_norm_behind_filters(graph: Graph) -> Graph:
    """Give each BatchNorm that alone reads the top of a convolution or deconvolution a `Fold` with that layer."""
    writers, readers = _ends(graph)
    changed: dict[str, Node] = {}
    for node in graph.nodes:
        below = writers.get(node.bottoms[0]) if type(node.layer) is BatchNormLayer else None
        if below is not None and _has_filters(below) and _is_alone(graph, below.tops, readers, node):
            fold = Fold()
            changed |= {one.name: replace(one, layer=_marked(one.layer, FOLD, fold)) for one in (below, node)}
    return graph.with_nodes(changed.get(node.name, node) for node in graph.nodes)


@dataclass
class Fold:
    """A layer with filters and the BatchNorm behind it, which may become one; the first has its kernel here."""

    below: Any = None


def fold_of(layer: Any) -> Fold | None:
    """Return what `batch_norm_behind_filters` gave a layer."""
    return vars(layer).get(FOLD)


def _has_filters(node: Node) -> bool:
    return type(node.layer) in (ConvolutionLayer, DeconvolutionLayer) and is_identity(node.layer.neuron)


def _is_alone(graph: Graph, tops: Sequence[str], readers: dict[str, list[Node]], node: Node) -> bool:
    """Return whether a node reads the only top of another, and nobody else does."""
    return len(tops) == 1 and tops[0] not in graph.keep and readers[tops[0]] == [node]


def _ends(graph: Graph) -> tuple[dict[str, Node], dict[str, list[Node]]]:
    """Return the node that writes each blob, and those that read it."""
    writers = {top: node for node in graph.nodes for top in node.tops if not node.in_place}
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for bottom in node.bottoms:
            readers.setdefault(bottom, []).append(node)
    return writers, readers


def _leaves_its_top(node: Node) -> bool:
    return type(node.layer) is BatchNormLayer and is_identity(node.layer.neuron)


def _marked(layer: Any, mark: str, value: Any) -> Any:
    """Return a copy of a layer with a mark, and with those that it has."""
    copy = replace(layer)
    vars(copy).update({name: vars(layer)[name] for name in (SUM, FOLD) if name in vars(layer)})
    vars(copy)[mark] = value
    return copy


def _is_max_pooling(node: Node) -> bool:
    layer = node.layer
    if type(layer) is not PoolingLayer or type(layer.pooling) is not Max or layer.masks:
        return False  # a mask shows the largest of numbers below 0, which ReLU would make equal
    return is_identity(layer.neuron) or is_relu(layer.neuron)


def _applies_relu(node: Node) -> bool:
    layer = node.layer
    can_lose_it = any(field.name == "neuron" for field in layer.fields())  # it may be a property
    return layer.has_neuron and is_relu(layer.neuron) and can_lose_it
