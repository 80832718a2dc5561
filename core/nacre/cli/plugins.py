"""`nacre plugins`: who offers what, and what did not work."""

from __future__ import annotations

from typing import Any

import click

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
    """Give every plugin, the disabled and the failed ones too, and what went wrong of which no plugin is known."""
    from ..registry import registry

    here = registry()
    told: set[int] = set()
    found: list[dict[str, Any]] = []
    for plugin in here.plugins():
        whose = plugin.provenance
        problems = [
            problem
            for problem in here.problems
            if problem.distribution == whose.distribution
            and (plugin.status == "failed" or problem.file in ("", whose.file))
            and id(problem) not in told
        ]
        told |= {id(problem) for problem in problems}
        offers: dict[str, list[str]] = {}
        for offer in plugin.offers:
            offers.setdefault(offer.kind, []).append(offer.name)
        found.append(
            {
                "distribution": whose.distribution,
                "version": whose.version,
                "module": whose.module,
                "file": whose.file,
                "editable": whose.editable,
                "status": plugin.status,
                "problem": "\n".join(map(str, problems)) or None,
                "remedy": "\n".join(dict.fromkeys(problem.remedy for problem in problems)) or None,
                "offers": offers,
            }
        )
    for problem in here.problems:
        if id(problem) not in told:
            found.append(
                {
                    "distribution": problem.distribution,
                    "version": problem.version,
                    "module": "",
                    "file": problem.file,
                    "editable": False,
                    "status": "problem",
                    "problem": str(problem),
                    "remedy": problem.remedy,
                    "offers": {},
                }
            )
    return found
