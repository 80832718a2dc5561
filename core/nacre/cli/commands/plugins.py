"""`nacre plugins`: the plugins, what they offer, and their errors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ...discovery.discovery import EDITABLE, LOCK, LOCKED, find_plugins, is_on, switch_off
from ...discovery.offers import ABOUT_OTHERS, Plugin, Problem, Provenance
from ..options import common, json_option, limit_option
from .doctor import tell


@click.group(invoke_without_command=True)
@click.option(
    "--isolate", is_flag=True, help="Try each plugin in a process of its own, to find those that crash or hang."
)
@limit_option("Time for each plugin with --isolate.")
@json_option
@common
@click.pass_context
def command(ctx: click.Context, isolate: bool, limit: float, as_json: bool) -> int:
    """List the plugins, what they offer, and what is wrong with them."""
    if ctx.invoked_subcommand is not None:
        return 0
    if isolate:
        return _isolate(limit, as_json)
    from ..screen import print_json, print_table

    found = plugins()
    if as_json:
        print_json(found)
        return 0
    print_table(
        ("plugin", "version", "status", "offers"),
        [
            (
                f"{one['distribution']} ({one['module']})" if one["module"] else one["distribution"],
                one["version"],
                one["status"],
                ", ".join(
                    f"{len(names)} {_plural(kind, len(names))}"
                    for kind, names in one["offers"].items()
                    if kind not in ABOUT_OTHERS
                ),
            )
            for one in found
        ],
    )
    for one in found:
        if one["problem"]:
            click.echo(f"\n{one['problem']}\n  {one['remedy']}")
    return 0


@command.command()
@click.argument("name")
@common
def enable(name: str) -> None:
    """Enable the kernels and the backend of plugin NAME in this folder.

    NAME is a distribution; it is added to nacre.toml.
    """
    from ...discovery.offers import FIRST_PARTY, normalised
    from ...discovery.settings import FILE, enable
    from ...errors import RegistryError, nearest

    plugins, _ = find_plugins(None)  # from the list of installed packages: nothing is imported, so they may be broken
    known = sorted({plugin.provenance.distribution for plugin in plugins} - {FIRST_PARTY})
    if normalised(name) not in known:
        message = f"no plugin '{name}' is installed{nearest(normalised(name), known)}"
        raise RegistryError(message, f"installed: {', '.join(known)}" if known else f"pip install {name}")
    new = enable(normalised(name))
    click.echo(f"{FILE}: {normalised(name)} is {'now enabled in this folder' if new else 'already enabled'}")


@command.command()
@click.argument("name")
@common
def disable(name: str) -> None:
    """Take back what `nacre plugins enable NAME` did in this folder.

    The plugin's layers stay as they are. NACRE_DISABLE_PLUGINS=NAME keeps nacre from importing any of it.
    """
    from ...discovery.offers import normalised
    from ...discovery.settings import FILE, disable

    was = disable(normalised(name))
    click.echo(f"{FILE}: {normalised(name)} is {'not enabled any more' if was else 'not enabled in this folder'}")


@command.command()
@click.option(
    "--requirements", metavar="FILE", type=click.Path(path_type=Path), help="Also write them as requirements for pip."
)
@common
def lock(requirements: Path | None) -> None:
    """Write nacre.lock: the plugins that may be used with --locked.

    These are all that are installed now and not disabled, with their versions and the hashes of their files. Where two
    of them offer one name, a pin is added to nacre.toml: change it if you mean the other one.
    """
    from ...discovery.lock import entries_of, lock_text
    from ...discovery.registry import Registry
    from ...discovery.settings import FILE, pin, settings
    from ...discovery.typos import clashes
    from ...errors import NacreError
    from ...files.durable import atomic_write

    plugins, _ = find_plugins(None)
    switch_off(plugins, os.environ)
    used = [plugin for plugin in plugins if plugin.status == "active"]
    entries = entries_of(used, allow_editable=is_on(os.environ, EDITABLE))
    atomic_write(Path(LOCK), lock_text(entries).encode(), NacreError)
    names = [f"{name} {entry.version}" for name, entry in entries.items()]
    click.echo(f"{LOCK}: {', '.join(names)}")
    unlocked = {name: value for name, value in os.environ.items() if name != LOCKED}  # the old lock is none any more
    for key, (first, *others) in clashes(Registry(environ=unlocked), settings().pins):
        pin(key, first)
        click.echo(
            f"{FILE}: pin '{key}' = '{first}', because {' and '.join(others)} offers it too: change it if needed"
        )
    if requirements is not None:
        lines = "".join(f"{name}=={entry.version}\n" for name, entry in entries.items())
        atomic_write(requirements, lines.encode(), NacreError)
        click.echo(f"next: pip install -r {requirements}")


@command.command()
@limit_option("Time for each plugin.")
@json_option
@common
def doctor(limit: float, as_json: bool) -> int:
    """Look for everything that is odd about the plugins and their settings.

    Each plugin is imported in a process of its own, so this works whatever a plugin does. The exit code is 1 if
    something is found: plugins that fail, crash, hang or import libraries too early, packages that are installed twice,
    names that two of them offer, pins and kernels that have no effect, and differences to nacre.lock. Libraries that
    backends look for are listed with their versions, or with what to type where one is missing.
    """
    from ...discovery.doctor import findings
    from ..screen import working

    with working() as show:
        found = findings(os.environ, limit, show)
    return tell(found, as_json)


def _isolate(limit: float, as_json: bool) -> int:
    """Try each plugin in a process of its own, and print the results; return the exit code."""
    from ...discovery.isolate import Trial, tried
    from ..screen import print_json, print_table, working

    plugins, _ = find_plugins(None)
    switch_off(plugins, os.environ)
    trials: list[Trial] = []
    with working() as show:
        for plugin in plugins:
            if plugin.status == "active":
                show(plugin.name)
                trials.append(tried(plugin, limit))
    if as_json:
        print_json(
            [
                {
                    "distribution": one.plugin.provenance.distribution,
                    "version": one.plugin.provenance.version,
                    "module": one.plugin.provenance.module,
                    "offers": one.offers,
                    "problem": one.problem or None,
                    "remedy": one.remedy or None,
                }
                for one in trials
            ]
        )
    else:
        rows = [
            (one.plugin.name, one.plugin.provenance.version, "broken" if one.problem else "works", str(one.offers))
            for one in trials
        ]
        print_table(("plugin", "version", "by itself", "offers"), rows, (3,))
        for one in trials:
            if one.problem:
                click.echo(f"\n{one.plugin.provenance}: {one.problem}\n  {one.remedy}")
    return 1 if any(one.problem for one in trials) else 0


def _plural(kind: str, count: int) -> str:
    word = kind.replace("_", " ")
    if count == 1:
        return word
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


def plugins() -> list[dict[str, Any]]:
    """Return every plugin, including disabled and failed ones, and problems of which the plugin is not known.

    `status` is "active", "disabled" or "failed"; `problem` is what went wrong, or the variable that disabled it.
    """
    from ...discovery.registry import registry

    here = registry()
    shown: set[int] = set()
    found: list[dict[str, Any]] = []
    for plugin in here.plugins():
        problems = [problem for problem in here.problems if id(problem) not in shown and _is_of(problem, plugin)]
        shown |= {id(problem) for problem in problems}
        found.append(_entry(plugin, problems))
    for problem in here.problems:
        if id(problem) not in shown:
            whose = Provenance(problem.distribution, problem.version, problem.file, False, "")
            found.append(_entry(Plugin(problem.distribution, "", whose, "failed"), [problem]))
    return found


def _is_of(problem: Problem, plugin: Plugin) -> bool:
    whose = plugin.provenance
    same_file = plugin.status == "failed" or problem.file in ("", whose.file)
    return problem.distribution == whose.distribution and same_file


def _entry(plugin: Plugin, problems: list[Problem]) -> dict[str, Any]:
    whose = plugin.provenance
    status, _, rule = plugin.status.partition(": ")
    offers: dict[str, list[str]] = {}
    for offer in plugin.offers:
        offers.setdefault(offer.kind, []).append(offer.name)
    reasons = [f"{plugin.name} is disabled: {rule}"] if rule else []
    variable = rule.rpartition(" ")[2]
    change = f"change the environment variable {variable}" if variable.startswith("NACRE_") else "nacre plugins lock"
    remedies = [f"to use it: {change}"] if rule else []
    return {
        "distribution": whose.distribution,
        "version": whose.version,
        "module": whose.module,
        "file": whose.file,
        "editable": whose.editable,
        "status": status,
        "problem": "\n".join([*reasons, *map(str, problems)]) or None,
        "remedy": "\n".join(dict.fromkeys([*remedies, *(problem.remedy for problem in problems)])) or None,
        "offers": offers,
    }
