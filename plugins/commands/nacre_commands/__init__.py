"""nacre's own commands for inspecting nets, the demo, and the drawings of nets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .drawing import Dot as Dot
    from .drawing import Png as Png
    from .drawing import Svg as Svg

nacre_api = "1"

COMMANDS = {
    "demo": "nacre_commands.demo:command",
    "gradcheck": "nacre_commands.gradcheck:command",
    "graph": "nacre_commands.graph:command",
    "new": "nacre_commands.new:command",
    "sample": "nacre_commands.sample:command",
    "summary": "nacre_commands.summary:command",
    "time": "nacre_commands.time:command",
}
DRAWINGS = {
    "dot": "nacre_commands.drawing:Dot",
    "gv": "nacre_commands.drawing:Dot",
    "png": "nacre_commands.drawing:Png",
    "svg": "nacre_commands.drawing:Svg",
}


@hookimpl
def offer_commands() -> dict[str, str]:
    return COMMANDS


@hookimpl
def offer_components() -> dict[str, dict[str, str]]:
    return {"drawing": DRAWINGS}


__getattr__ = lazy(__name__, DRAWINGS)
