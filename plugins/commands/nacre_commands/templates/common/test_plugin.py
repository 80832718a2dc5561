"""What the package offers can be used: as `nacre check nacre-new-thing`."""

from __future__ import annotations

from nacre.testing import check_plugin


def test_plugin() -> None:
    """Its light module imports nothing but nacre, and all that it offers opens."""
    check_plugin("nacre-new-thing")
