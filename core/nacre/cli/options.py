"""Options that several commands have, and `read_net`, which reads a net file with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .completion import offered, settings, snapshots

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ..config.netfile import NetFile
    from ..discovery.offers import Offer
    from ..errors import NacreError


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _load_plugins(ctx: click.Context, _: click.Parameter, files: tuple[str, ...]) -> None:
    from ..discovery.registry import registry

    for file in files:
        plugin = registry().load_file(file)
        if plugin.status != "active":
            click.echo(f"warning: --plugin {file} is not used: {plugin.status}", err=True)
        elif not any(offer.provenance.file == plugin.provenance.file for offer in _every_offer()):
            reason = "it has no class of a layer or a component, and no hook that offers one"
            click.echo(f"warning: --plugin {file} offers nothing: {reason}", err=True)
        for offer in plugin.offers:
            if offer.kind != "kernel" and (name := registry().name_of(offer)) != offer.name:
                message = f"its {offer.kind.replace('_', ' ')} '{offer.name}' has the name '{name}'"
                click.echo(f"warning: --plugin {file}: {message}, because '{offer.name}' is taken", err=True)


def _every_offer() -> Iterator[Offer]:
    from ..discovery.registry import registry

    for plugin in registry().plugins():
        yield from plugin.offers


plugin_option: Decorator = click.option(
    "--plugin",
    metavar="FILE",
    multiple=True,
    expose_value=False,
    is_eager=True,
    callback=_load_plugins,
    help="Use a Python file as a plugin. May be repeated.",
)


debug_option: Decorator = click.option(
    "--debug", is_flag=True, expose_value=False, help="Show the traceback of an error."
)


def lock_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the switches for `nacre.lock`, which `Nacre.main` has obeyed before it looked for any command."""
    locked = click.option("--locked", is_flag=True, expose_value=False, help="Use only the plugins in nacre.lock.")
    editable = click.option(
        "--allow-editable", is_flag=True, expose_value=False, help="With --locked: also those installed editable."
    )
    return locked(editable(function))


json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def limit_option(help: str) -> Decorator:
    """Return the option for the seconds that each plugin may take."""
    return click.option(
        "--limit", type=click.FloatRange(min=0, min_open=True), default=20.0, metavar="SECONDS", help=help
    )


ranks_option: Decorator = click.option(
    "--ranks",
    metavar="N",
    type=click.IntRange(2),
    help="Show the net as it is divided among so many ranks (partition_dim and location of its layers).",
)


backend_option: Decorator = click.option(
    "--backend", metavar="NAME", shell_complete=offered("backend"), help="Backend on which the net is computed."
)


seed_option: Decorator = click.option(
    "--seed", type=int, metavar="N", help="Seed of the random numbers: first weights, masks, orders."
)


set_option: Decorator = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=settings,
    help="Change the net file for this run: solver.max_iter=100, layer.conv1.n_filter=30. May be repeated.",
)


REMOTE, SHIFTED = "nacre.allow_remote", "nacre.shifted"


def _allow_remote(ctx: click.Context, _: click.Parameter, hosts: tuple[str, ...]) -> None:
    ctx.meta[REMOTE] = hosts


remote_option: Decorator = click.option(
    "--allow-remote",
    metavar="HOST",
    multiple=True,
    expose_value=False,
    callback=_allow_remote,
    help="Allow the net file to read and write at this host, such as data.example.org or s3://bucket. May be repeated.",
)


def allowed_remote() -> tuple[str, ...]:
    """Return the hosts that the command line allows the net file to reach."""
    context = click.get_current_context(silent=True)
    return () if context is None else context.meta.get(REMOTE, ())


class InputFile(click.ParamType):  # pyright: ignore[reportMissingTypeArgument]  older clicks take none
    """A file to read, or its URL; a command gets the path of a file on this machine."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path; fetch the file of a URL."""
        from ..fields.inputs import local_file
        from ..files.remote import is_url

        if isinstance(value, Path):
            return value
        name, _, rest = str(value).partition("=")
        return Path(f"{name}={local_file(rest)}") if is_url(rest) and not is_url(value) else local_file(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Let the shell complete files."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class OutputFile(click.Path):
    """A file to write, or its URL, which stays a text; commands write where `nacre.uploading` says."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a path, or a URL."""
        from ..files.remote import is_url

        return value if isinstance(value, str) and is_url(value) else super().convert(value, param, ctx)


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that every command has."""
    return plugin_option(lock_options(debug_option(command)))


def with_common(command: click.Command) -> click.Command:
    """Return a plugin's command with those of the `common` options that it does not have; a group's own stay."""
    if isinstance(command, click.Group):
        return command
    known = {name for one in command.params for name in one.opts}
    every = click.Command("every")
    common(every)
    missing = [one for one in every.params if not known & {*one.opts}]
    if missing:
        command = copy(command)
        command.params = [*command.params, *missing]
    return command


def net_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that change a net file for one run; the command gets them as `backend`, `sets` and `seed`."""
    for decorate in (common, json_option, set_option, seed_option, _with_device, backend_option):
        command = decorate(command)
    return command


def _with_device(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option for the number of a device, which the command gets as a part of `backend`: "cupy:1"."""

    @click.option(
        "--device", type=click.IntRange(0), metavar="N", help="The backend's device, counted from 0, if it has several."
    )
    @wraps(command)
    def with_device(*arguments: Any, backend: str | None, device: int | None, **options: Any) -> Any:
        chosen = backend if device is None else f"{backend or ''}:{device}"
        return command(*arguments, backend=chosen, **options)

    return with_device


def write_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for files that the net file may write; the command gets them as `writes`, for `read_net`."""

    @click.option(
        "--allow-writes",
        multiple=True,
        metavar="DIR",
        help="Allow the net file to write in this folder too, not only in the working folder. May be repeated.",
    )
    @click.option(
        "--overwrite",
        multiple=True,
        metavar="FILE",
        help="Allow the net file to replace or extend this file or folder, whatever wrote it. May be repeated.",
    )
    @wraps(command)
    def with_writes(*arguments: Any, allow_writes: tuple[str, ...], overwrite: tuple[str, ...], **options: Any) -> Any:
        return command(*arguments, writes={"allow_writes": allow_writes, "overwrite": overwrite}, **options)

    return with_writes


_net: Decorator = click.argument("net", metavar="NET.toml", type=click.Path(path_type=Path))


def net_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the net file, which the command gets as `net`, and the option for the hosts that it may reach."""
    return remote_option(_net(command))


def _snapshot(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Return the snapshot: a saved net is its own, so that what follows it is the first input."""
    from ..snapshots.snapshot import SAVED

    net = ctx.params.get("net")
    if net is not None and net.suffix == SAVED:
        ctx.meta[SHIFTED] = value
        return net
    if value is None and not ctx.resilient_parsing:
        raise without_argument(ctx, "SNAPSHOT", net)
    return value


def without_argument(ctx: click.Context, missing: str, net: Path | None) -> NacreError:
    """Return an error about the snapshot or the inputs that are missing behind a net file, or a saved net."""
    from ..errors import ConfigError
    from ..snapshots.snapshot import SAVED

    saved = net is not None and net.suffix == SAVED
    inputs = any(one.name == "inputs" for one in ctx.command.params)
    words = [f"{net or 'NET.toml'}", *([] if saved else ["latest"]), *(["FILE"] if inputs else [])]
    other = "" if saved else ", or with the path of a snapshot in place of latest"
    return ConfigError(f"Missing argument '{missing}'.", f"write {ctx.command_path} {' '.join(words)}{other}")


def _no_more(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    found = _snapshot(ctx, param, value)
    if (more := ctx.meta.get(SHIFTED)) is not None:
        raise click.UsageError(f"{more} stands behind a saved net, which has its own parameters", ctx)
    return found


def _inputs(ctx: click.Context, param: click.Parameter, value: tuple[Path, ...]) -> tuple[Path, ...]:
    shifted = ctx.meta.get(SHIFTED)
    return value if shifted is None else (InputFile().convert(str(shifted), param, ctx), *value)


def snapshot_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add a snapshot behind the net file: a path, "best" or "latest"; a saved net needs none."""
    return _snapshot_argument(_no_more)(command)


def _snapshot_argument(callback: Callable[..., Path | None]) -> Decorator:
    path = click.Path(path_type=Path)
    return click.argument("snapshot", type=path, required=False, callback=callback, shell_complete=snapshots)


def inputs_arguments(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add a snapshot, as `snapshot_argument`, and behind it files with records."""
    inputs = click.argument("inputs", metavar="INPUT...", nargs=-1, required=False, type=InputFile(), callback=_inputs)
    return _snapshot_argument(_snapshot)(inputs(command))


phase_option: Decorator = click.option(
    "--phase",
    type=click.Choice(["train", "validation", "test", "predict"]),
    default="train",
    show_default=True,
    help="Phase of the net.",
)


def read_net(
    net: Path,
    sets: tuple[str, ...],
    seed: int | None,
    writes: Mapping[str, tuple[str, ...]] | None = None,
    *,
    to_train: bool = True,
) -> NetFile:
    """Return a net file, changed by the options; without `to_train` without its solver and callbacks."""
    import warnings

    from ..config.netfile import load
    from .screen import warn

    overrides = [*sets, *([] if seed is None else [f"seed={seed}"])]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", UserWarning)
        file = load(net, overrides, allow_remote=allowed_remote(), to_train=to_train, **(writes or {}))
    for warning in warned:
        warn(str(warning.message))
    return file
