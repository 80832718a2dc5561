"""`nacre plugins`: who offers what, and what did not work."""

from __future__ import annotations

from typing import Any

import click

from ..discovery import Plugin, Problem, Provenance
from .options import common, json_option


@click.command()
@json_option
@common
def command(as_json: bool) -> None:
    """List the plugins, what they offer, and what is wrong with them."""
    from .screen import print_json, print_table

    found = plugins()
    if as_json:
        print_json(found)
        return
    print_table(
        ("plugin", "version", "status", "offers"),
        [
            (
                f"{one['distribution']} ({one['module']})" if one["module"] else one["distribution"],
                one["version"],
                one["status"],
                ", ".join(f"{len(names)} {_plural(kind, len(names))}" for kind, names in one["offers"].items()),
            )
            for one in found
        ],
    )
    for one in found:
        if one["problem"]:
            click.echo(f"\n{one['problem']}\n  {one['remedy']}")


def _plural(kind: str, count: int) -> str:
    word = kind.replace("_", " ")
    if count == 1:
        return word
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


def plugins() -> list[dict[str, Any]]:
    """Give every plugin, the disabled and the failed ones too, and what went wrong of which no plugin is known.

    `status` is "active", "disabled" or "failed"; `problem` says what went wrong, or which variable disabled it.
    """
    from ..registry import registry

    here = registry()
    told: set[int] = set()
    found: list[dict[str, Any]] = []
    for plugin in here.plugins():
        problems = [problem for problem in here.problems if id(problem) not in told and _is_of(problem, plugin)]
        told |= {id(problem) for problem in problems}
        found.append(_entry(plugin, problems))
    for problem in here.problems:
        if id(problem) not in told:
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
    told = [f"{plugin.name} is disabled: {rule}"] if rule else []
    variable = rule.rpartition(" ")[2]
    remedies = [f"change the environment variable {variable} to use it"] if rule else []
    return {
        "distribution": whose.distribution,
        "version": whose.version,
        "module": whose.module,
        "file": whose.file,
        "editable": whose.editable,
        "status": status,
        "problem": "\n".join([*told, *map(str, problems)]) or None,
        "remedy": "\n".join(dict.fromkeys([*remedies, *(problem.remedy for problem in problems)])) or None,
        "offers": offers,
    }
