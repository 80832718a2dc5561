"""Containers: layers made of layers, which a graph replaces by these before it is sorted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from ..errors import ConfigError, ContractError, brief
from ..protocols.graph import Graph, Inside, Node
from ..protocols.layer import Inner, Layer, bottoms_of, is_container, is_output, refuse_unwired, tops_of
from ..threads import process_lock

if TYPE_CHECKING:
    from ..protocols.algorithm import Algorithm

MOST = 100_000
"""Layers of the largest net with containers: a few numbers in a file could ask for any number of them."""

DEEPEST = 100
"""Containers around a layer, at most: one that contains its like would have no end."""

_lock = process_lock()


def inner_layers(container: Layer) -> tuple[Inner, ...]:
    """Return the layers that a container is made of: always the same objects, which the container keeps.

    Raises:
        ContractError: `expand` returns something else than layers, or does not end.
        ConfigError: one of the layers cannot stand in a container, or writes a blob that it must not write.
    """
    with _lock:  # two threads that make nets of one container must get the same layers
        kept: tuple[Inner, ...] | None = vars(container).get("_inner_layers")
        if kept is None:
            kept = tuple(_checked(container))
            _share(container, kept)
            object.__setattr__(container, "_inner_layers", kept)
    return kept


def _share(container: Layer, inner: Iterable[Inner]) -> None:
    """Let the layers of a container that was called use the parameters of those in its other copies."""
    first: dict[str, Layer] = vars(container.origin).setdefault("_inner_origins", {})
    for one in inner:
        origin = first.setdefault(_own_name(one), one.layer).origin
        if origin is not one.layer.origin:
            object.__setattr__(one.layer, "_origin", origin)


def _own_name(inner: Inner) -> str:
    return inner.layer.name if inner.name is None else inner.name


def _checked(container: Layer) -> Iterator[Inner]:
    missing = dict.fromkeys(tops_of(container))
    made: Any = container.expand()
    if not isinstance(made, Iterable):
        raise ContractError(f"expand returned {brief(made)}, but it must return layers")
    for number, one in enumerate(cast("Iterable[Any]", made)):
        if number == MOST:
            raise ContractError(f"expand returned more than {MOST:,} layers")
        inner = one if isinstance(one, Inner) else Inner(one)
        if not isinstance(inner.layer, Layer):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ContractError(f"expand returned {brief(one)} among its layers, but it must return layers")
        name = f"{container.name}/{_own_name(inner)}"
        refuse_unwired(inner.layer, name)
        if inner.layer.is_source or is_output(inner.layer):
            kind = "a source" if inner.layer.is_source else "an output"
            raise ConfigError(f"{name}: it is {kind}, which cannot be in a container", "place it outside")
        bottoms, tops = _blobs(inner)
        written = set(tops) & set(bottoms_of(container))
        for blob in written:
            if inner.layer.is_inplace and tops == bottoms:
                what, remedy = f"it would change '{blob}' in place", "another layer must stand before it"
            else:
                what, remedy = f"it writes '{blob}'", "give its top another name"
            raise ConfigError(f"{name}: {what}, but that is a bottom of container '{container.name}'", remedy)
        for top in tops:
            missing.pop(top, None)
        yield inner
    for top in missing:
        raise ConfigError(
            f"{container.name}: no layer in this container writes its top '{top}'",
            "name it as the top of one of them, or leave it out of the container's tops",
        )


def _blobs(inner: Inner) -> tuple[tuple[str, ...], tuple[str, ...]]:
    bottoms = bottoms_of(inner.layer) if inner.bottoms is None else inner.bottoms
    tops = tops_of(inner.layer) if inner.bottoms is None or not inner.layer.is_inplace else bottoms
    return bottoms, tops if inner.tops is None else inner.tops


def expand(graph: Graph, phase: str, algorithm: Algorithm | None = None) -> Graph:
    """Return a graph with the layers of containers in the containers' places, without those that exclude the phase.

    The same layer object at several places shares its parameters. An algorithm may rewrite the result.
    """
    expanded = _without_containers(graph, phase)
    return expanded if algorithm is None else algorithm.rewritten(expanded, phase)


def _without_containers(graph: Graph, phase: str) -> Graph:
    if not any(is_container(node.layer) for node in graph.nodes):
        return graph
    owners: dict[int, Inside] = {}
    leaves = [*islice((leaf for node in graph.nodes for leaf in _leaves(node, phase, owners)), MOST + 1)]
    if len(leaves) > MOST:
        raise ConfigError(f"the containers of this net are made of more than {MOST:,} layers")
    return graph.with_nodes(leaves)


def _leaves(node: Node, phase: str, owners: dict[int, Inside]) -> Iterator[Node]:
    container = node.layer
    if not is_container(container):
        yield node
        return
    blobs = dict(zip(bottoms_of(container), node.bottoms, strict=True))
    blobs |= zip(tops_of(container), node.tops, strict=True)
    around = () if node.inside is None else node.inside.containers
    _refuse_endless(container, around)
    for inner in inner_layers(container):
        if phase not in inner.layer.exclude:
            inside = _inside(node, inner, (*around, container), blobs)
            if not is_container(inner.layer):
                first = owners.setdefault(id(inner.layer), inside)
                inside = replace(inside, owner=first.owner, key=first.key)
            yield from _leaves(Node(inner.layer, inner.layer, inside), phase, owners)


def _refuse_endless(container: Layer, around: Sequence[Layer]) -> None:
    if len(around) >= DEEPEST or any(one is container for one in around):
        raise ContractError(
            f"in container '{around[0].name}' stand {len(around)} containers, one inside the other, and the last makes "
            f"one more, but the most is {DEEPEST}",
            "put fewer into each other; an `expand` that makes its own kind again never ends",
        )


def _inside(node: Node, inner: Inner, containers: tuple[Layer, ...], blobs: Mapping[str, str]) -> Inside:
    layer = inner.layer
    name = _own_name(inner)
    own = name if inner.owner is None else inner.owner
    bottoms, tops = (tuple(blobs.get(one, f"{node.name}/{one}") for one in names) for names in _blobs(inner))
    return Inside(
        containers,
        f"{node.name}/{name}",
        bottoms,
        tops,
        f"{node.owner}/{own}" if own else node.owner,
        f"{node.key}/{layer.param_key or own}" if layer.param_key or own else node.key,
    )


def names_in(layers: Iterable[Layer], before: str = "") -> Iterator[str]:
    """Yield the names of layers, and the full names of everything in containers."""
    for layer in layers:
        yield (name := before + layer.name)
        if is_container(layer):
            yield from _names_below(layer, name)


def _names_below(container: Layer, name: str) -> Iterator[str]:
    for inner in inner_layers(container):
        below = {_own_name(inner), inner.owner}
        for one in below - {None}:
            if one:
                yield f"{name}/{one}"
            if is_container(inner.layer):
                yield from _names_below(inner.layer, f"{name}/{one}" if one else name)
