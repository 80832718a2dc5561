"""The command line: `nacre COMMAND`. Each command is a file; what it needs is imported when it runs."""

from __future__ import annotations


def main() -> None:
    """Run the command that the process was started with, and end the process with its exit code."""
    from .app import nacre

    nacre.main()
