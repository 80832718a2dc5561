"""The command line: `nacre COMMAND`. Each command is a file; what it needs is imported when it runs."""

from __future__ import annotations


def main() -> None:
    """Run the command that the process was started with, and end the process with its exit code."""
    from .streams import open_closed_streams

    open_closed_streams()
    from .app import nacre

    nacre.main()
