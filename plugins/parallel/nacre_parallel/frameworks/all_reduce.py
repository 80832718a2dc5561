"""AllReduce: each rank has the whole net and a part of every batch; all add up their gradients."""

from __future__ import annotations

from collections.abc import Mapping

from nacre import FrameworkState, Role, Step, Training

from .batches import SharedBatches, adding_up, communicator_of, named, rows_of
from .flat import buffers_of


class AllReduce(SharedBatches):
    """Every rank trains the whole net on its part of each batch; then they add up their gradients, and all update.

    The parameters are the same on all ranks, bit for bit. With ranks r = 0 to n - 1 and batches of b records, rank r
    reads the records r b / n to (r + 1) b / n of each, rounded down, draws the masks and the shifts of these rows of
    the whole, and divides its losses by what counts on all ranks: so n ranks train as one process with the whole batch
    would, but for the order of sums. Batch norm uses the mean and the variance of a rank's own rows; its running ones,
    as all buffers, are the mean over the ranks. SINGA's framework of one worker group and one server group,
    synchronous; Dean and others, "Large scale distributed deep networks", 2012, compare others with it.

    Raises:
        ConfigError: a batch has fewer records than there are ranks, or the gradients of the solver's algorithm do not
            add up.
    """

    uneven = True

    def roles(self, parameters: Mapping[str, int], ranks: int) -> list[Role]:
        sends = {f"gradients, which {named(range(ranks))} add up": sum(parameters.values())}
        return [Role("worker", [*parameters], sends) for _ in range(ranks)]

    def start(self, training: Training) -> FrameworkState:
        return AllReduceState(self, training)


class AllReduceState(FrameworkState):
    """`AllReduce` in one training: it works on the arrays in which all gradients lie."""

    def __init__(self, framework: AllReduce, training: Training) -> None:
        super().__init__(framework, training)
        self.communicator = communicator_of(framework, training)
        self.ordered = training.net.deterministic
        self.buffers = buffers_of(training.net)
        self.weight, self.total = rows_of(training, self.communicator.size)

    def steps(self) -> list[Step]:
        steps = [adding_up(self.training)]
        return [*steps, Step("average", "buffers", self.average)] if self.buffers.arrays else steps

    def average(self) -> None:
        """Replace the buffers by their means over all ranks, each with the weight of its rows."""
        self.buffers.average(self.communicator, ordered=self.ordered, weight=self.weight, total=self.total)
