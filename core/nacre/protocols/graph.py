"""Graph and Node: the layers of a net as data, for rewrites."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..discovery.blame import answered, shown, wrong
from ..text import listed
from .layer import Layer, bottoms_of, tops_of
from .part import Micro, Part


@dataclass(frozen=True)
class Inside:
    """Where the layer of a node stands in its containers, the outermost first; all names are full ones.

    `owner` is the layer's name in the names of its parameters, `key` what the layers that share them have in common.
    """

    containers: tuple[Layer, ...]
    name: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    owner: str
    key: str


@dataclass(frozen=True)
class Node:
    """One layer of a graph: `layer` is what runs, `user` the layer it came from; names and sharing go by `user`.

    `inside` is None, except for a layer in a container, and for one that `again` has made: then it has the names, and a
    rewrite that connects the layer to other blobs changes them there. `part` is None if the net is whole, and
    `micro` if the layer works on whole batches.
    """

    layer: Layer
    user: Layer
    inside: Inside | None = None
    part: Part | None = None
    micro: Micro | None = None

    @property
    def name(self) -> str:
        return self.user.name if self.inside is None else self.inside.name

    @property
    def whole_name(self) -> str:
        """The name of the layer that works on whole batches, of which this may have a part."""
        return self.name if self.micro is None else self.micro.name

    @property
    def bottoms(self) -> tuple[str, ...]:
        return bottoms_of(self.layer) if self.inside is None else self.inside.bottoms

    @property
    def tops(self) -> tuple[str, ...]:
        return tops_of(self.layer) if self.inside is None else self.inside.tops

    @property
    def owner(self) -> str:
        """The layer's name in the names of its parameters."""
        return self.user.name if self.inside is None else self.inside.owner

    @property
    def key(self) -> str:
        """What the layers that share their parameters have in common."""
        return self.user.param_key or self.user.name if self.inside is None else self.inside.key

    @property
    def outermost(self) -> Layer:
        """The layer of the net that this one is, or is a part of."""
        containers = self.inside.containers if self.inside else ()
        return containers[0] if containers else self.user

    @property
    def in_place(self) -> bool:
        """Whether the layer writes new versions of the blobs that it reads; in a container it may write others."""
        return self.layer.is_inplace and (self.inside is None or self.inside.tops == self.inside.bottoms)

    def again(self, name: str, bottoms: Iterable[str], tops: Iterable[str]) -> Node:
        """Return this layer once more, with the same parameters, under another name and connected to other blobs."""
        containers = self.inside.containers if self.inside else ()
        return replace(self, inside=Inside(containers, name, tuple(bottoms), tuple(tops), self.owner, self.key))

    def not_by_records(self) -> str:
        """Return what `Layer.not_by_records` does; the node of an algorithm may know better why."""
        return self.layer.not_by_records()

    def tops_without_gradient(self) -> set[str]:
        """Return the names of the tops that have no gradient."""
        constant = self._names("tops_without_gradient", tops_of(self.layer))
        if not constant:
            return set()
        return {top for own, top in zip(tops_of(self.layer), self.tops, strict=True) if own in constant}

    @property
    def without_gradient(self) -> set[int]:
        """The indices of the bottoms that have no gradient."""
        own = bottoms_of(self.layer)
        constant = self._names("bottoms_without_gradient", own)
        return {index for index, name in enumerate(own) if name in constant} if constant else set()

    def _names(self, method: str, known: Sequence[str]) -> Sequence[str]:
        found = answered(self.layer, method, getattr(self.layer, method)(), (tuple, list), "a tuple of names")
        for name in found:
            if name not in known:
                raise wrong(self.layer, f"{method} returned {shown(name)}, but the names are {listed(known) or 'none'}")
        return found


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
