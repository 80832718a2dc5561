"""What `nacre check` and `nacre.testing.check_plugin` find in a plugin."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import RegistryError, nearest
from .discovery import find_plugins, switch_off
from .isolate import Trial
from .offers import FIRST_PARTY, Plugin, Provenance, normalised


def plugins_of(names: Sequence[str] = ()) -> list[Plugin]:
    """Return the plugins of these names and files, or all of others than nacre that are not disabled.

    Raises:
        RegistryError: a name is not that of a plugin.
    """
    installed, _ = find_plugins(None)
    if not names:
        switch_off(installed, os.environ)
        return [one for one in installed if one.status == "active" and one.provenance.distribution != FIRST_PARTY]
    known = sorted({one.provenance.distribution for one in installed})
    found: list[Plugin] = []
    for name in names:
        if name.endswith(".py"):
            file = Path(name).resolve()
            called = normalised(file.stem)
            found.append(Plugin(called, called, Provenance(called, "", str(file), True, file.stem)))
        elif normalised(name) in known:
            found += [one for one in installed if one.provenance.distribution == normalised(name)]
        else:
            message = f"no plugin '{name}' is installed{nearest(normalised(name), known)}"
            remedy = f"installed: {', '.join(known)}; the name of a file ends in .py"
            if name.endswith(".toml"):
                remedy = f"nacre check is for plugins; nacre summary {name} makes a net, and says what is wrong with it"
            raise RegistryError(message, remedy)
    return found


def faults_of(trial: Trial) -> list[str]:
    """Return what is wrong with a plugin, in sentences."""
    faults = [trial.problem] if trial.problem else []
    if trial.libraries:
        names = ", ".join(trial.libraries)
        faults.append(
            f"its light module imports {names}: every command of nacre would, so import it where it is needed, in the "
            "modules that are offered"
        )
    if not (faults or trial.offers):
        faults.append("it offers nothing")
    return [*faults, *trial.unopened]
