"""RBMVisible: the visible units of a restricted Boltzmann machine."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Annotated, Any

from nacre import Array, ConfigError, LayerState, Names, Parameter, exactly

from ..fields import Biased
from .units import Units, sample, to_means

STATISTICS = {"reconstruction_error": ("lower", ""), "pseudo_likelihood": ("higher", "")}


class RBMVisibleLayer(Biased, has_param=True, has_loss=True, statistics=STATISTICS):
    """The means of the visible units of a restricted Boltzmann machine, given the hidden ones.

    v = σ(h W + b), or of Gaussian units, which have variance 1, v = h W + b.

    Bottoms are the data, of any shape, and the hidden units; both are read as (images, features), and so is the top,
    (images, visible units). W is the weight of the `RBMHidden` that is `tied`. If that layer reads this one's top, as
    in SINGA, the two wait for each other: then the net needs the algorithm `CD`, for which the top is the data, and
    'top/1' what is reconstructed from them.

    The loss is the squared error of reconstruction, Σ (data - mean)² / N over the N rows that count. It is there to be
    watched: `CD` follows another gradient. The statistics are this `reconstruction_error`, and of binary units the
    `pseudo_likelihood` (with `CD`): the mean of D ln p(vᵢ | all others), for one number of the D numbers of each image,
    drawn anew, which must be 0 or 1. After SINGA's `RBMVis`.

    Raises:
        TopologyError: the net has no layer `tied`, or its weight has another shape.

    Example:
        [[layer]]
        type = "RBMHidden"
        bottoms = ["vis"]  # (8, 784)
        tops = ["hid"]  # (8, 500)
        output_dim = 500

        [[layer]]
        type = "RBMVisible"
        bottoms = ["data", "hid"]  # (8, 1, 28, 28), (8, 500)
        tops = ["vis"]  # (8, 784)
    """

    bottoms: Annotated[Names, exactly(2), "the data and the hidden units"]
    tops: Annotated[Names, exactly(1), "the visible units"]
    tied: Annotated[str, "name of the RBMHidden whose weight is used; by default that of the second bottom"] = ""
    units: Annotated[Units, "binary, or gaussian with variance 1"] = "binary"

    needs_algorithm = "CD"


class VisibleState(LayerState, reads=""):
    """The means of visible units given hidden ones. Where `CD` trains, `draws` says that the hidden units are drawn by
    their means before, and `samples` that the visible ones are drawn by theirs afterwards.

    `tied` and `hidden_units` are the full name and the units of the layer with the hidden units.
    """

    def __init__(
        self,
        layer: RBMVisibleLayer,
        backend: Any,
        inputs: list[Any],
        diffs: list[Any],
        *,
        tied: str = "",
        hidden_units: Units | None = None,
        draws: bool = False,
        samples: bool = False,
    ) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.hidden_units, self.draws, self.samples = hidden_units, draws, samples
        self.random = backend.random(layer.name)
        sizes = [tuple(one.shape) for one in inputs]
        if sizes[0][0] != sizes[1][0]:
            raise ConfigError(
                f"{layer.name}: bottom '{layer.bottoms[1]}' of shape {sizes[1]} has not as many images as "
                f"'{layer.bottoms[0]}' of shape {sizes[0]}"
            )
        self.visible, self.hidden = (prod(shape[1:]) for shape in sizes)
        name = f"{tied or layer.tied or layer.bottoms[1]}/weight"
        self.parameters = [Parameter("weight", (self.hidden, self.visible), tied=name)]
        if layer.bias:
            self.parameters.append(Parameter.of(layer, "bias", (self.visible,)))
        self.blobs = [backend.blob((sizes[0][0], self.visible))]

    def forward(self, inputs: list[Array]) -> None:
        xp, v, h = self.backend.xp, self.blobs[0], inputs[1].reshape(-1, self.hidden)
        if self.hidden_units and self.draws:
            drawn = self.backend.scratch(tuple(h.shape), slot=8)
            sample(self.backend, self.random, self.hidden_units, h, drawn, 0)
            h = drawn
        xp.matmul(h, self.parameters[0].blob, out=v)
        for bias in self.parameters[1:]:
            xp.add(v, bias.blob, out=v)
        to_means(self.backend, self.layer.units, v)
        self.measure(inputs)
        if self.samples:
            sample(self.backend, self.random, self.layer.units, v, v, 1)

    def measure(self, inputs: list[Array]) -> None:
        """Look at the means in the top, before units are drawn by them."""

    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None:
        """Do nothing: no loss reaches it, and CD's gradients are those of `Contrast`."""


class RBMVisibleState(VisibleState, of=RBMVisibleLayer, reads=""):
    """`RBMVisibleLayer` on any backend: what is reconstructed, with its loss and statistics."""

    def __init__(self, layer: RBMVisibleLayer, backend: Any, inputs: list[Any], diffs: list[Any], **role: Any) -> None:
        super().__init__(layer, backend, inputs, diffs, **role)
        self.loss: Any = 0.0
        self.reset_statistics()

    def measure(self, inputs: list[Array]) -> None:
        xp, means = self.backend.xp, self.blobs[0]
        images = means.shape[0]
        rows = min(self.backend.rows, images)
        x, h = (one.reshape(images, -1)[:rows] for one in inputs)
        part = self.backend.scratch(tuple(x.shape))
        xp.subtract(x, means[:rows], out=part)
        xp.multiply(part, part, out=part)
        error = xp.sum(part, dtype="float64")
        self.loss = error / max(rows, 1)
        self.error, self.rows = self.error + error, self.rows + rows
        if self.hidden_units and self.layer.units == "binary":
            self.likelihood = self.likelihood + self._pseudo_likelihood(x, h)

    def _pseudo_likelihood(self, x: Array, h: Array) -> Array:
        """Return Σ D ln p(vᵢ | all others) of images: by how much their free energy grows if vᵢ is turned over."""
        xp, rows = self.backend.xp, x.shape[0]
        uniform = self.backend.scratch((self.blobs[0].shape[0],), "float32")
        self.random.uniform(uniform, 2)
        chosen = xp.minimum((uniform[:rows] * self.visible).astype("int64"), self.visible - 1)
        turned = 1 - 2.0 * x[xp.arange(rows), chosen]
        grows = xp.zeros((rows,))
        for bias in self.parameters[1:]:
            grows = grows - bias.blob[chosen] * turned
        w = self.parameters[0].blob.T[chosen] * turned[:, None]  # what is added to the input of each hidden unit
        if self.hidden_units == "binary":  # softplus(a + w) - softplus(a), where h = σ(a)
            terms = xp.log1p(xp.maximum(h * xp.expm1(xp.minimum(w, 80)), -1 + 1e-7))
        else:
            terms = w * (h + w / 2)
        grows = grows - xp.sum(terms, axis=1, dtype="float64")
        return -self.visible * xp.sum(xp.logaddexp(0, -grows))

    def reset_statistics(self) -> None:
        self.error, self.likelihood, self.rows = 0.0, 0.0, 0

    def collected(self) -> dict[str, float]:
        return {"error": float(self.error), "likelihood": float(self.likelihood), "rows": self.rows}

    def join(self, other: Mapping[str, Any]) -> None:
        self.error, self.likelihood = self.error + float(other["error"]), self.likelihood + float(other["likelihood"])
        self.rows += int(other["rows"])

    def dump_statistics(self) -> dict[str, float]:
        found = {"reconstruction_error": float(self.error) / max(self.rows, 1)}
        if self.hidden_units and self.layer.units == "binary":
            found["pseudo_likelihood"] = float(self.likelihood) / max(self.rows, 1)
        return found
