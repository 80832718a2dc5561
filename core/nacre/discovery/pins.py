"""Pins: fixed choices of names and kernels, as net files and `nacre.toml` contain them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from ..errors import brief

_PIN_KEYS = re.compile(r"kernel:[^@:]+(:[^@:]+)?@[^@:]+|(?!kernel:)[a-z_]+:[^@:]+(:[^@:]+)?")
PIN = (dict, 'a table like { "kernel:Pooling@numpy" = "nacre-numba" }')


def check_pins(plugins: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a message and a remedy for each pin in a table [plugins] whose key or distribution is not valid."""
    pins: Any = plugins.get("pin", {})
    if isinstance(pins, dict):
        for key, value in cast("dict[str, Any]", pins).items():
            if not _PIN_KEYS.fullmatch(key):
                remedy = 'write a key like "layer:Gain", "kernel:Pooling@numpy" or "kernel:neuron/ReLU@numpy"'
                yield f"plugins.pin: '{key}' is not a valid key: it must be kind:Name or kernel:Name@backend", remedy
            if not isinstance(value, str):
                yield f"plugins.pin: '{key}'={brief(value)}, but it must be the name of a distribution", ""


def pin_line(key: str, distribution: str) -> str:
    """Return the line of a file that pins a name to a distribution."""
    return f'pin = {{ "{key}" = "{distribution}" }} under [plugins] in the net file or in nacre.toml'


def enabling(distribution: str) -> str:
    """Return the line that enables a distribution's kernels, and the command that writes it."""
    line = f'kernels = ["{distribution}"] under [plugins] in the net file or in nacre.toml'
    return f"{line} (nacre plugins enable {distribution})"
