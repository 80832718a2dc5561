"""Deconvolution by cuDNN, as the gradient of a convolution's images; see ../convolutions.py."""

from __future__ import annotations

from typing import ClassVar

from nacre import Own
from nacre_layers.convolution.geometry import Transposed

from ..convolutions import Way
from .filters import FilterKernel


class DeconvolutionKernel(FilterKernel, reads="inputs"):
    """Deconvolution; the bias and ReLU are a kernel of their own."""

    kind_of_geometry = Transposed
    to_top: ClassVar[Way] = "data"
    to_bottom: ClassVar[Way] = "forward"

    def _ends(self, bottom: Own, top: Own) -> dict[str, Own]:
        return {"x": top, "y": bottom}

    def forward(self, inputs: list[Own]) -> None:
        y, (weight, *biases) = self.blobs[0], self.parameters
        bias = biases[0].blob if biases else None
        x = self._read(inputs[0])
        self._lay_filters()
        if self.computations["data"] is None:
            assert self.products is not None
            self.products.run("data", x, weight.blob, y, bias, relu=self.relu)
            return
        made = self._room(y, 3)
        self._enqueue("data", self._ends(x, made), w=self._laid())
        self._finish(made)
        self._put(made, y)
