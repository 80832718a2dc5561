"""Distributions that are known to offer a name: an unknown name then says what to install."""

from __future__ import annotations

KNOWN = {
    "nacre-forward-twice": ("algorithm/ForwardTwice",),
    "nacre-parquet": ("store/Parquet", "ending/.parquet"),
    "nacre-serve": ("command/serve",),
    "nacre-swirl": ("layer/Swirl",),
    "nacre-torch": (
        "layer/Torch",
        "torch_module/BatchNorm2d",
        "torch_module/Conv2d",
        "torch_module/LSTM",
        "torch_module/Linear",
    ),
    "nacre-transformer": ("layer/Attention", "layer/DotProductAttention", "layer/Positions", "layer/TransformerBlock"),
}
"""What each offers besides kernels, as "kind/Name"; also the endings of the files that its stores read."""


def known_distribution(kind: str, name: str) -> str:
    """Return which known distribution offers a name, or ""."""
    whose, _, short = name.rpartition(":")
    return next((one for one, offers in KNOWN.items() if f"{kind}/{short}" in offers and whose in ("", one)), "")
