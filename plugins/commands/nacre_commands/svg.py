"""What the pictures have in common: the document of an SVG, and its texts."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML cannot hold: control characters, and the halves of characters in names that are not UTF-8."""


def document(title: str, width: float, height: float, parts: Iterable[str], font: int = 12) -> str:
    """Return the SVG of these parts on white; sizes are in pixels."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="{font}">',
        f"<title>{html.escape(shown(title))}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
    )
    return "\n".join([*head, *parts, "</svg>", ""])


def text(x: float, y: float, content: str, style: str) -> str:
    """Return a text whose line begins at a place, unless its style says something else."""
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{html.escape(shown(content))}</text>'


def shown(content: str) -> str:
    """Return a text in which what XML cannot hold is escaped with a backslash."""
    return NO_XML.sub(lambda found: repr(found[0])[1:-1], content)
