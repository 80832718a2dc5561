"""`nacre data`: commands for files of records, in every format that a store reads."""

from __future__ import annotations

import importlib

import click

from nacre.cli import common

COMMANDS = ("convert", "mean", "show", "split", "verify")


class Commands(click.Group):
    """A group whose commands are files here, imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return importlib.import_module(f".{cmd_name}", __package__).command if cmd_name in COMMANDS else None


@click.command(cls=Commands, invoke_without_command=True)
@common
@click.pass_context
def command(ctx: click.Context) -> None:
    """Convert, look at, check and split files of records."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
