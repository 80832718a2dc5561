"""Transformers: what changes a batch on its way into the net, on the host and in the net's type."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from nacre import ConfigError, Transformer, finite, non_negative


class Scale(Transformer):
    """Multiplies every number by `scale`, in every phase."""

    scale: Annotated[float, finite, "factor"] = 1.0

    def transform(self, batch: np.ndarray, random: Any, phase: str) -> None:
        np.multiply(batch, self.scale, out=batch)


class RandomShift(Transformer):
    """In phase `train`, moves each image by whole pixels, drawn uniformly from -pixels..pixels for rows and columns.

    The batch is (images, channels, height, width). What comes into view is 0. The shift of image i is a function of the
    seed, the layer's name and the iteration: with Philox uniforms u (`nacre.random`, float32) the rows move down by
    pixels - floor(u[0, i] n), the columns right by pixels - floor(u[1, i] n), where n = 2 pixels + 1.
    """

    pixels: Annotated[int, non_negative, "largest shift, in pixels"] = 1

    def _complete(self) -> None:
        object.__setattr__(self, "_scratch", {})  # memory of the last shape that was seen; nothing is kept in it

    def transform(self, batch: np.ndarray, random: Any, phase: str) -> None:
        """Move the images; raise ConfigError if the batch has none."""
        if batch.ndim != 4:
            raise ConfigError(f"RandomShift: images are (images, channels, height, width), not of shape {batch.shape}")
        if phase != "train" or not self.pixels:
            return
        inner, windows, uniform, starts = self._memory(batch)
        random.uniform(uniform)
        np.multiply(uniform, 2 * self.pixels + 1, out=uniform)
        np.copyto(starts, uniform, casting="unsafe")  # rounds down
        np.copyto(inner, batch)
        for image, window, row, column in zip(batch, windows, *starts.tolist(), strict=True):
            image[...] = window[row, column]

    def _memory(self, batch: np.ndarray) -> tuple[np.ndarray, ...]:
        """Give the inside of a batch with a border of zeros, its views under every shift, and room for the shifts."""
        scratch: dict[Any, Any] = vars(self)["_scratch"]
        key = batch.shape, batch.dtype
        if key not in scratch:
            scratch.clear()
            images, channels, height, width = batch.shape
            border = self.pixels
            padded = np.zeros((images, channels, height + 2 * border, width + 2 * border), batch.dtype)
            inner = padded[:, :, border : border + height, border : border + width]
            windows = sliding_window_view(padded, (height, width), (2, 3)).transpose(0, 2, 3, 1, 4, 5)
            scratch[key] = inner, windows, np.empty((2, images), np.float32), np.empty((2, images), np.intp)
        return scratch[key]
