"""CD: contrastive divergence, which trains restricted Boltzmann machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from nacre import Algorithm, Graph, Net, Node, Step, TopologyError, positive

from .chain import (
    ChainState,
    ChainStep,
    ContrastState,
    ContrastStep,
    DataState,
    ReconstructionStep,
    VisibleStep,
    step,
)
from .rbm_hidden import RBMHiddenLayer
from .rbm_visible import RBMVisibleLayer, RBMVisibleState, VisibleState


class CD(Algorithm):
    """Contrastive divergence: the gradient is that at the data, less that at the end of a Gibbs chain of `k` steps.

    For a restricted Boltzmann machine: an `RBMVisible` and an `RBMHidden` of which each is the other's bottom. In phase
    `train` they become the chain v0 → h0 → v1 → h1 ... vk → hk, with shared parameters. v0 are the data; the h are
    means, by which hidden units are drawn before each v. The gradients, for descent, are those of the mean over images
    of

        E(v0, h0) - E(vk, hk), where E(v, h) = -h W v - b v - c h

    with the units as they are. That needs no loss; other layers of the net learn from losses of their own. In all other
    phases there is v0 → h0 → v1 only, and nothing is drawn.

    With `persistent` the chains, as many as a batch has images, go on where they ended in the batch before; they begin
    at the first data. Visible units are means, as in SINGA, unless k is above 1, or `persistent` or `sample_visible` is
    True: then they are drawn as well, and only the hk of the last step are means. Hinton, "Training products of experts
    by minimizing contrastive divergence", 2002; Tieleman, "Training restricted Boltzmann machines using approximations
    to the likelihood gradient", 2008.
    """

    adds_up = True

    k: Annotated[int, positive, "steps of the chain"] = 1
    persistent: Annotated[bool, "whether chains go on from batch to batch"] = False
    sample_visible: Annotated[bool, "whether visible units are drawn with k = 1, too"] = False

    def rewrite(self, graph: Graph, phase: str) -> Graph:
        nodes: dict[str, list[Node]] = {node.name: [node] for node in graph.nodes}
        for visible in graph.nodes:
            if isinstance(visible.layer, RBMVisibleLayer) and (hidden := _other(graph, visible, phase)):
                nodes[visible.name] = [*self._steps(visible, hidden, train=phase == "train")]
        return graph.with_nodes(node for some in nodes.values() for node in some)

    def _steps(self, visible: Node, hidden: Node, *, train: bool) -> Iterator[Node]:
        """Yield the nodes that take the place of visible units; the hidden ones stay for those of the data."""
        data, (v, h) = visible.bottoms[0], (visible.tops[0], hidden.tops[0])
        assert isinstance(hidden.layer, RBMHiddenLayer)
        role: dict[str, Any] = {"tied": hidden.owner, "hidden_units": hidden.layer.units}
        drawn = role | {"draws": True, "samples": self.persistent or self.k > 1 or self.sample_visible}

        yield step(ChainStep, DataState, visible.again(f"{visible.name}/data", [data], [v]))
        first = drawn if train and not self.persistent else role
        yield step(ReconstructionStep, RBMVisibleState, visible.again(visible.name, [v, h], [f"{v}/1"]), **first)
        if not train:
            return
        chain, start, chains = "", 1, None
        if self.persistent:
            chain, start = "chain/", 0
            begin = step(ChainStep, ChainState, visible.again(f"{visible.name}/chain/0", [v], [f"{v}/chain/0"]))
            chains = begin.layer
            yield begin
        for number in range(start, self.k):
            here, above = f"{chain}{number}", f"{chain}{number + 1}"
            yield hidden.again(f"{hidden.name}/{here}", [f"{v}/{here}"], [f"{h}/{here}"])
            again = visible.again(f"{visible.name}/{above}", [v, f"{h}/{here}"], [f"{v}/{above}"])
            yield step(VisibleStep, VisibleState, again, **drawn)
        end = f"{chain}{self.k}"
        yield hidden.again(f"{hidden.name}/{end}", [f"{v}/{end}"], [f"{h}/{end}"])
        contrast = hidden.again(f"{hidden.name}/contrast", [v, h, f"{v}/{end}", f"{h}/{end}"], [])
        yield step(ContrastStep, ContrastState, contrast, visible=visible, chains=chains)

    def train_one_batch(self, net: Net) -> list[Step]:
        return [*net.steps("feed"), *net.steps("forward"), *net.steps("backward")]


def _other(graph: Graph, visible: Node, phase: str) -> Node | None:
    """Return the hidden units that are in a circle with visible ones.

    Raises:
        TopologyError: there are none, in phase `train`.
    """
    (_, h), v = visible.bottoms, visible.tops[0]
    for node in graph.nodes:
        if isinstance(node.layer, RBMHiddenLayer) and node.tops == (h,) and node.bottoms == (v,):
            return node
    if phase == "train":
        raise TopologyError(
            f"layer '{visible.name}' (RBMVisible) reads '{h}', which no RBMHidden makes of its top '{v}', so CD cannot "
            "train them",
            f'add a [[layer]] with type = "RBMHidden", bottoms = ["{v}"] and tops = ["{h}"]',
        )
    return None
