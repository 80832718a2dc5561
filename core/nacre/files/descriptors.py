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


def anonymous_file(name: str) -> int:
    """Return the descriptor of an empty file, in memory where a system has that, which is gone when nobody has it open.

    It may be given to child processes, as `above_streams` says; `name` is for lists of a process's open files.
    """
    if hasattr(os, "memfd_create"):
        return above_streams(os.memfd_create(name))
    from tempfile import TemporaryFile

    with TemporaryFile() as file:
        return above_streams(os.dup(file.fileno()))
