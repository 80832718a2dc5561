"""check_plugin: whether all that a distribution offers can be used."""

from __future__ import annotations

from ..discovery.checked import faults_of, plugins_of
from ..discovery.isolate import tried


def check_plugin(distribution: str, limit: float = 60.0) -> None:
    """Check a distribution as `nacre check` does: its light module, its hooks, and everything that it offers.

        def test_plugin():
            check_plugin("nacre-swirl")

    It is tried in a process of its own, for at most `limit` seconds.

    Raises:
        RegistryError: no plugin of this name is installed.
        AssertionError: something is wrong; the message has all of it.
    """
    faults = [fault for plugin in plugins_of([distribution]) for fault in faults_of(tried(plugin, limit, opening=True))]
    assert not faults, f"{distribution}:\n" + "\n".join(faults)
