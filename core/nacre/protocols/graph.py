"""Graph and Node: the layers of a net as data, for rewrites."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .layer import Layer, bottoms_of, tops_of


@dataclass(frozen=True)
class Node:
    """One layer of a graph: `layer` is what runs, `user` the layer it came from; names and sharing go by `user`."""

    layer: Layer
    user: Layer

    @property
    def name(self) -> str:
        return self.user.name

    @property
    def bottoms(self) -> tuple[str, ...]:
        return bottoms_of(self.layer)

    @property
    def tops(self) -> tuple[str, ...]:
        return tops_of(self.layer)


@dataclass(frozen=True)
class Graph:
    """The layers of a net, in some order. A rewrite returns another graph, made by `with_nodes`.

    Blobs in `keep` can be read from outside, so a rewrite leaves them what they are.
    """

    nodes: tuple[Node, ...]
    keep: frozenset[str] = frozenset()

    @classmethod
    def of(cls, layers: Iterable[Layer], keep: Iterable[str] = ()) -> Graph:
        return cls(tuple(Node(layer, layer) for layer in layers), frozenset(keep))

    def with_nodes(self, nodes: Iterable[Node]) -> Graph:
        return replace(self, nodes=tuple(nodes))
