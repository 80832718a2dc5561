"""`nacre backends`: the backends on which nets can be computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..options import common, json_option

if TYPE_CHECKING:
    from ...errors import NacreError
    from ...protocols.backend import Backend


@click.command()
@json_option
@common
def command(as_json: bool) -> None:
    """List the backends, and what each computes with."""
    from ..screen import print_json, print_table

    found = backends()
    if as_json:
        print_json(found)
        return
    print_table(
        ("backend", "usable", "from", "computes with"),
        [
            (
                one["name"],
                "yes" if one["usable"] else "no",
                f"{one['distribution']} {one['version']}",
                one["reason"] or ", ".join(f"{name}: {value}" for name, value in one["environment"].items()),
            )
            for one in found
        ],
    )


def backends() -> list[dict[str, Any]]:
    """Return every backend that is offered; for a broken one, with the reason."""
    from ...discovery.guard import ForeignError, described, guarded
    from ...discovery.registry import registry
    from ...errors import NacreError

    here = registry()
    found: list[dict[str, Any]] = []
    for offer in here.offers("backend"):
        environment: dict[str, Any] = {}
        try:
            reason, environment = guarded(_asked, here.open_offer(offer))
        except NacreError as error:
            reason = _in_one_line(error)
        except ForeignError as failure:
            error = failure.error
            reason = _in_one_line(error) if isinstance(error, NacreError) else f"checking it raised {described(error)}"
        found.append(
            {
                "name": here.name_of(offer),
                "usable": reason is None,
                "reason": reason,
                "environment": environment,
                "distribution": offer.distribution,
                "version": offer.provenance.version,
            }
        )
    return found


def libraries() -> dict[str, list[str]]:
    """Return what nacre's own backends say of the libraries that they look for; no other plugin is imported."""
    import os

    from ...discovery.registry import Registry

    here = Registry(environ={**os.environ, "NACRE_NO_PLUGINS": "1"})
    said = {here.name_of(offer): list(here.open_offer(offer).libraries()) for offer in here.offers("backend")}
    return {name: some for name, some in said.items() if some}


def _in_one_line(error: NacreError) -> str:
    """Return an error's sentence and its remedy."""
    return "; ".join(part for part in (str(error.args[0]), error.remedy) if part)


def _asked(backend: type[Backend]) -> tuple[str | None, dict[str, Any]]:
    """Return why a backend cannot be used here (or None), and what it computes with."""
    reason = backend.unusable()
    return reason, {} if reason else backend().environment()
