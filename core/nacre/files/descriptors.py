"""Descriptors of open files, for child processes."""

from __future__ import annotations

import os


def above_streams(descriptor: int) -> int:
    """Return a descriptor, or a copy instead of one that has the number of a standard stream, which is closed (`<&-`).

    A child process that gets it has its own stream there.
    """
    if descriptor > 2:
        return descriptor
    copy = above_streams(os.dup(descriptor))
    os.close(descriptor)
    return copy
