"""`nacre doctor`: looks for what is wrong around nacre: plugins, and what killed runs have left."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..options import common, json_option, limit_option

if TYPE_CHECKING:
    from ...discovery.doctor import Finding


@click.command()
@click.option("--remove", is_flag=True, help="Remove the files that killed runs have left, which no process uses.")
@limit_option("Time for each plugin.")
@json_option
@common
def command(remove: bool, limit: float, as_json: bool) -> int:
    """Find what is wrong with plugins, and what killed runs left.

    It has all that `nacre plugins doctor` has, and the libraries that backends look for, too. The exit code is 1 if
    something is found, other than what was removed.
    """
    from ...discovery.doctor import Finding, findings
    from ...text import size
    from ..ranks import communicators
    from ..screen import working

    with working() as show:
        found = findings(os.environ, limit, show)
    removed: list[str] = []
    for communicator in communicators():
        for path in communicator.leftovers():
            held = path.stat().st_size
            if remove:
                path.unlink()
                removed.append(f"{path}: removed, {size(held)}")
            else:
                problem = f"{size(held)} of shared memory, left by a run that was killed; no process uses it"
                found.append(Finding(str(path), problem, "nacre doctor --remove"))
    return tell(found, as_json, removed)


def tell(found: Sequence[Finding], as_json: bool, removed: Sequence[str] = ()) -> int:
    """Print what was found, and lines about what was removed and about libraries; return the exit code."""
    from ..screen import print_json
    from .backends import libraries

    if as_json:
        print_json([{"about": one.about, "problem": one.problem, "remedy": one.remedy} for one in found])
    else:
        for line in removed:
            click.echo(line)
        for backend, known in libraries().items():
            click.echo(f"{backend}: {'; '.join(known)}")
        for one in found:
            click.echo(f"{one.about}: {one.problem}\n  {one.remedy}")
        if not (found or removed):
            click.echo("nothing odd was found")
    return 1 if found else 0
