"""Algorithm: how a net is trained on one batch; it may rewrite the net's graph, and has a state in each training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Never

from ..arguments import check_class_line
from ..discovery.blame import answered
from ..discovery.fitting import required
from ..fields.component import Component

if TYPE_CHECKING:
    from ..net.net import Net
    from .backend import Step
    from .graph import Graph


class Algorithm(Component, kind="algorithm"):
    """Trains one batch: defines the passes of a net in an iteration.

    Attributes:
        adds_up: whether it can train on several ranks though it rewrites graphs: its gradients for the rows of each are
            divided by the rows of all (`View.together`), so that their sum is the gradient for the whole batch.
    """

    adds_up: ClassVar[bool] = False

    def rewrite(self, graph: Graph, phase: str) -> Graph:
        """Return the graph that this algorithm trains, in place of the one that the user wrote.

        Called for each net, `Net(..., algorithm=)`, before its layers are sorted: it may take a circle apart, of layers
        that wait for each other's blobs. `Node.again` is a layer once more, with the same parameters.
        """
        return graph

    def rewritten(self, graph: Graph, phase: str) -> Graph:
        """Return what `rewrite` returns. Raises PluginError if it is no graph."""
        from .graph import Graph

        return answered(self, "rewrite", self.rewrite(graph, phase), Graph, "a Graph, such as the one that it got")

    def start(self, net: Net) -> AlgorithmState:
        """Return the state of this algorithm in a training of `net`."""
        return AlgorithmState(self, net)

    @required("start")
    def train_one_batch(self, net: Net) -> list[Step]:
        """Return the steps that compute the gradients of one batch: `net.steps("feed")`, `"forward"`, `"backward"`.

        Called once; the solver compiles the steps together with its own.
        """
        raise NotImplementedError


class AlgorithmState:
    """An algorithm at work in one training; a subclass has what it keeps from batch to batch."""

    acts_for: ClassVar[str] = "algorithm"

    def __init_subclass__(cls, **others: Never) -> None:
        check_class_line(cls, others, "start(net) of the algorithm returns its state")
        super().__init_subclass__()

    def __init__(self, algorithm: Algorithm, net: Net) -> None:
        self.algorithm = algorithm
        self.net = net

    def train_one_batch(self) -> list[Step]:
        """Return the steps of a batch; by default those of `Algorithm.train_one_batch`."""
        return self.algorithm.train_one_batch(self.net)

    def memory(self) -> Mapping[str, Any]:
        """Return what must survive a restart, as arrays, numbers and strings."""
        return self.algorithm.memory()

    def remember(self, memory: Mapping[str, Any]) -> str | None:
        """Restore what `memory` returned; return a sentence that a person should read, or None."""
        return self.algorithm.remember(memory)
