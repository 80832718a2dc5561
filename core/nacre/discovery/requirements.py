"""The distributions that a net file requires, and whether they are installed."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable

from ..errors import RegistryError

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^]]*\])?\s*([^;\[\]]*)")
_BOUND = re.compile(r"(==|!=|<=|>=|<|>)(\d+(?:\.\d+)*)|(~=)(\d+(?:\.\d+)+)")
_COMPARISONS: dict[str, Callable[[list[int], list[int]], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "~=": operator.ge,  # and the same release except for the last number
}


def parse_requirements(require: Iterable[str]) -> None:
    """Check requirements like `nacre-swirl>=1.2,<2`, by release numbers alone: 1.2rc1 counts as 1.2.

    Raises RegistryError naming everything that is missing or of another version.
    """
    import importlib_metadata

    wrong: list[str] = []
    unmet: list[str] = []
    for requirement in require:
        parts = _REQUIREMENT.fullmatch(requirement)
        if parts is None:
            raise RegistryError(f"require: {requirement!r} must be like 'nacre-swirl>=1.2'")
        bounds = [bound.replace(" ", "") for bound in parts[2].split(",") if bound.strip()]
        try:
            version = importlib_metadata.version(parts[1])
        except importlib_metadata.PackageNotFoundError:
            version = ""
        met = [_meets(version, bound, requirement) for bound in bounds]  # reads all, to report a wrong one
        if not version or not all(met):
            wrong.append(f"{requirement} ({f'{version} is installed' if version else 'not installed'})")
            unmet.append(f'"{requirement.strip()}"')
    if wrong:
        raise RegistryError(f"requirements that are not met: {', '.join(wrong)}", f"pip install {' '.join(unmet)}")


def bound_of(distribution: str, package: str) -> str:
    """Return the least version of a package that an installed distribution requires, such as ">=1.2"; "" if none."""
    import importlib_metadata

    try:
        required = importlib_metadata.requires(distribution) or []
    except importlib_metadata.PackageNotFoundError:  # a file, or registered by hand
        required = []
    found = (_REQUIREMENT.match(one) for one in required)
    bounds = [part.strip() for one in found if one and one[1] == package for part in one[2].split(",")]
    return next((one.replace(" ", "") for one in bounds if one.startswith(">=")), "")


def _meets(version: str, bound: str, requirement: str) -> bool:
    parts = _BOUND.fullmatch(bound)
    if parts is None:
        raise RegistryError(f"require: {requirement!r}: '{bound}' must be like '>=1.2'")
    sign, wanted = parts[1] or parts[3], _release(parts[2] or parts[4])
    have = _release(version)
    length = max(len(have), len(wanted))
    same = have + [0] * (length - len(have))
    if sign == "~=" and same[: len(wanted) - 1] != wanted[:-1]:
        return False
    return _COMPARISONS[sign](same, wanted + [0] * (length - len(wanted)))


def release(version: str) -> str:
    """Return the release numbers of a version, such as 1.2 for 1.2rc1."""
    numbers = re.match(r"v?(?:\d+!)?(\d+(?:\.\d+)*)", version.strip())
    return numbers[1] if numbers else "0"


def _release(version: str) -> list[int]:
    return [int(number) for number in release(version).split(".")]
