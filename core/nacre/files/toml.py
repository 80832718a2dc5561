"""Reads TOML from files that may be hostile, and writes it, which Python's library does not."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, cast

from ..errors import ConfigError, brief
from .durable import explained
from .reading import check_file

LARGEST = 4 * 2**20
"""Bytes of the largest net file that is read; a net of a thousand layers needs a thirtieth of it."""


DEEPEST = 16
"""Most parts in a key such as a.b.c: each part makes a table."""


DOTS = 1 << 17
"""Most dots in a whole file, in keys and in numbers."""

WIDTH = 118
"""Characters of the longest line in which a table stands that could stand in several."""

_PART = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_TOO_DEEP = re.compile(rf"(?<![\\A-Za-z0-9_-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{DEEPEST}}}")

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")

_OTHERS = {
    ".py": "this is a program: run it with Python",
    ".prototxt": "this is a net of Caffe: docs/from-caffe.md says how to write it here",
}
"""What files with other endings are, and what to do with them."""

_BEFORE, _POWER, _AFTER = r"(?:^|[=,\[])\s*", r"(?:[eE][+-]?\d+)?", r"(?![\w.])"  # of a number
_POINT = "in TOML a number has digits on both sides of its point"
_HINTS = (
    (r"[\u2018-\u201f]", 'write straight quotes: "'),
    (r"[=,\[]\s*(True|False)\b", "write true and false in small letters"),
    (r"[=,\[]\s*None\b", "leave out what has no value"),
    (r"^\[+([^\[\]]+)\]+$", "write [[{0}]] each time; [{0}] may stand only once"),
    (r"=\s*[A-Za-z_][\w./-]*\s*(#.*)?$", "write a text in quotes, and a number without a unit"),
    (rf"{_BEFORE}([+-]?)(\.\d[\d_]*{_POWER}){_AFTER}", f"write {{0}}0{{1}}: {_POINT}"),
    (rf"{_BEFORE}([+-]?\d[\d_]*\.)({_POWER}){_AFTER}", f"write {{0}}0{{1}}: {_POINT}"),
)
"""Signs of common mistakes in a line that is no TOML, and what to do."""

_TOLD = {
    "Cannot overwrite a value": "a key stands once in its table",
    "Unclosed array": "an array has commas between its entries, and ] at its end",
    "Illegal character '\\n'": "end the text with the quote that it begins with",
}
"""What to do by what Python's parser says."""


SHALLOWER = "use fewer tables, or containers, inside each other"


class TooDeep(ValueError):
    """Raised for TOML whose tables stand deeper inside each other than nacre reads."""


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file. Raises ConfigError naming file, line and reason."""
    try:
        check_file(path, "a TOML file", ConfigError)
        if path.stat().st_size > LARGEST:
            raise ConfigError(f"{path}: larger than {LARGEST // 2**20} MiB, so it is not a net file")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(*explained(path, "cannot be read", error)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text file: {error.reason} at byte {error.start}") from error
    try:
        return parse_toml(text)
    except TooDeep as error:
        raise ConfigError(f"{path}: {error}", SHALLOWER) from error
    except ValueError as error:
        line = _faulty(text, str(error))
        where = f": {brief(line)}" if line else ""
        remedy = _OTHERS.get(path.suffix) or hint(line, str(error))
        raise ConfigError(f"{path}: not TOML: {error}{where}", remedy) from error


def _faulty(text: str, told: str) -> str:
    """Return the line that an error of the parser is about."""
    found = re.search(r"\(at line (\d+)", told)
    lines = text.split("\n")[: int(found[1]) if found else None]
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def hint(line: str, told: str) -> str:
    """Return what to do about a line that the parser refuses, or ""."""
    by_sign = (hint.format(*found.groups()) for sign, hint in _HINTS if (found := re.search(sign, line)))
    return next(chain(by_sign, (hint for start, hint in _TOLD.items() if told.startswith(start))), "")


def parse_toml(text: str) -> dict[str, Any]:
    """Read TOML; refuse a text that would need far more memory than its length, or is too deep.

    Raises:
        TooDeep, ValueError: it is not read; not TOML.
    """
    if found := _TOO_DEEP.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise TooDeep(f"a key has more than {DEEPEST} parts (at line {line})")
    if (dots := text.count(".")) > DOTS:
        raise ValueError(f"it contains {dots:,} dots, but a net file may have at most {DOTS:,}")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise TooDeep("too many tables and lists stand inside each other") from error


def toml_text(table: Mapping[str, Any]) -> str:
    """Return a table as TOML: plain keys, then [tables] and [[arrays]] of tables; deeper tables stay inline.

    An array of tables in these has a line for each of them.
    """
    parts = ["".join(_line(key, value) for key, value in table.items() if not _is_section(value))]
    for key, value in table.items():
        if _is_section(value):
            many = not isinstance(value, Mapping)
            head = f"[[{toml_key(key)}]]" if many else f"[{toml_key(key)}]"
            for entry in cast("list[Mapping[str, Any]]", value if many else [value]):
                parts.append(f"{head}\n" + "".join(_line(name, below) for name, below in entry.items()))
    return "\n".join(part for part in parts if part)


def _is_section(value: Any) -> bool:
    if isinstance(value, list) and value:
        return all(isinstance(entry, Mapping) for entry in cast("list[Any]", value))
    return isinstance(value, Mapping)


def _line(key: str, value: Any) -> str:
    short = len(line := f"{toml_key(key)} = {toml_value(value)}\n") <= WIDTH
    several = isinstance(value, list) and len(cast("list[Any]", value)) > 1 and _is_section(value)
    return line if short and not several else f"{toml_key(key)} = {_spread(value, '')}\n"


def _spread(value: Any, indent: str) -> str:
    """Return a value as TOML, an array of tables with a line for each; so in a table whose line would be too long."""
    deeper = f"{indent}    "
    if isinstance(value, list) and _is_section(value):
        entries = [f"{deeper}{_spread(entry, deeper)},\n" for entry in cast("list[Any]", value)]
        return f"[\n{''.join(entries)}{indent}]"
    if isinstance(value, Mapping) and len(indent) + len(toml_value(value)) > WIDTH:
        pairs = cast("Mapping[str, Any]", value).items()
        return f"{{ {', '.join(f'{toml_key(key)} = {_spread(entry, indent)}' for key, entry in pairs)} }}"
    return toml_value(value)


def toml_key(key: str) -> str:
    """Return a key as TOML, quoted if necessary."""
    return key if _BARE.match(key) else toml_value(key)


def toml_value(value: Any) -> str:
    """Return a value as TOML, on one line.

    Raises:
        ConfigError: TOML has no such value.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but JSON lets DEL stand
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value).items()
        return (
            f"{{ {', '.join(f'{toml_key(key)} = {toml_value(entry)}' for key, entry in entries)} }}" if value else "{}"
        )
    if isinstance(value, Sequence):
        return f"[{', '.join(toml_value(entry) for entry in cast('Sequence[Any]', value))}]"
    raise ConfigError(f"{value!r} cannot be written as TOML")
