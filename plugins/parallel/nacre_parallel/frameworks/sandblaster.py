"""Sandblaster: servers update the parameters, for workers that train each batch together."""

from __future__ import annotations

from .servers import Served


class Sandblaster(Served):
    """The last ranks are servers, which update the parameters; all others are workers, which train each batch together.

    The workers divide each batch among themselves and add up their gradients, as with `AllReduce`; each server updates
    its parameters by them, and sends the workers the new values. So the numbers are those of one process with the whole
    batch, but for the order of sums, and a worker needs no memory for the histories of the method. SINGA's framework of
    one worker group and one server group, apart from each other; a synchronous form of the one for batch methods in
    Dean and others, "Large scale distributed deep networks", 2012.

    Raises:
        ConfigError: there are no workers; a batch has fewer records than there are; or the gradients of the solver's
            algorithm do not add up.
    """

    uneven = True
