"""Imports what a plugin offers; an error names the plugin, the place, the reason and a remedy."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import PluginError
from .guard import ForeignError, described, guarded, place_of, place_text, prints_aside
from .offers import Offer, normalised, removal


def import_offer(offer: Offer) -> Any:
    """Import what an offer names. Raises PluginError."""
    module, _, attribute = offer.target.partition(":")
    try:
        with prints_aside():
            return guarded(_import, module, attribute)
    except ForeignError as failure:
        error = failure.error
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        package = missing.partition(".")[0] if isinstance(missing, str) else ""
        if package and package != module.partition(".")[0]:
            who = f"{offer.kind} '{offer.name}' of {offer.provenance} ({offer.provenance.file})"
            reason = f"{who} cannot be used here: it needs the package '{package}'"
            raise PluginError(reason, _installing(offer.distribution, package)) from error
        raise unusable(offer, described(error), place_of(error, module)) from error


def _import(module: str, attribute: str) -> Any:
    thing: Any = importlib.import_module(module)
    for part in attribute.split("."):
        thing = getattr(thing, part)
    return thing


def unusable(offer: Offer, reason: str, place: tuple[str, int] = ("", 0)) -> PluginError:
    """Return the error for an offer that cannot be used, with the place of the mistake and how to remove the plugin."""
    where = place_text(*place) if place[0] else offer.provenance.file
    who = f"{offer.kind} '{offer.name}' of {offer.provenance}"
    return PluginError(f"{who} cannot be opened: {reason} [{where}]", removal(offer.provenance))


def _installing(distribution: str, package: str) -> str:
    """Return how to install an optional package: by the distribution's extras that include it, if there are any."""
    import importlib_metadata

    try:
        requirements = importlib_metadata.requires(distribution) or []
    except importlib_metadata.PackageNotFoundError:
        requirements = []
    extras: list[str] = []
    for requirement in requirements:
        name, _, marker = requirement.partition(";")
        extra = re.search(r"extra == ['\"]([^'\"]+)", marker)
        # cupy comes as cupy-cuda12x and cupy-cuda13x
        if extra and re.match(rf"{normalised(package)}(?![a-z0-9])", normalised(name)):
            extras.append(f'pip install "{distribution}[{extra[1]}]"')
    return " or ".join(extras) if extras else f"install the package that provides '{package}'"


def import_file(file: Path) -> ModuleType:
    """Import a Python file as a module whose name no installed module has. Raises PluginError with file and line."""
    import zlib
    from importlib.machinery import SourceFileLoader
    from importlib.util import module_from_spec, spec_from_loader

    name = f"nacre_file_{re.sub(r'[^A-Za-z0-9_]', '_', file.stem)}_{zlib.crc32(str(file).encode()):08x}"
    spec = spec_from_loader(name, SourceFileLoader(name, str(file)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look there
    try:
        with prints_aside():
            guarded(spec.loader.exec_module, module)
    except ForeignError as failure:
        sys.modules.pop(name, None)
        place, line = place_of(failure.error, name)
        raise PluginError(f"{place_text(place or file, line)}: {described(failure.error)}") from failure.error
    return module
