"""`nacre demo`: a first net, from real data to its learning curve."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nacre.cli import backend_option, common, remote_option, seed_option, set_option, write_options

FOLDER = Path("nacre-demo")
FILES = ("lenet.toml", "train.h5", "test.h5")


@click.command()
@backend_option
@seed_option
@set_option
@remote_option
@write_options
@common
def command(backend: str | None, seed: int | None, sets: tuple[str, ...], writes: dict[str, tuple[str, ...]]) -> int:
    """Begin here: train a small net on real handwritten digits.

    All files are in ./nacre-demo/, including the net file: change it, and run the demo again.
    """
    from nacre.cli import command_line, exit_code, print_end, read_net, read_trained, run_test, statistic_text, train

    copy_files()
    net = FOLDER / "lenet.toml"
    sets = (*_places(net), *sets)
    file = read_net(net, sets, seed, writes)
    training = train(file, backend)
    if exit_code(training):
        print_end(file, training, backend, seed, sets, writes)
        return exit_code(training)
    click.echo(f"trained {training.iteration} iterations, {training.images_per_second:,.0f} records/s")
    if not training.snapshot_path:
        print_end(file, training, backend, seed, sets, writes)
        return 0
    file, saved = read_trained(net, sets, seed, training.snapshot_path, writes)
    tested = run_test(file, saved, "test", backend)
    click.echo(f"snapshot: {training.snapshot_path}")
    for name, values in tested["statistics"].items():
        click.echo(f"test {statistic_text(name, values, tested['units'].get(name, {}))}")
    if training.info.get("curve"):
        click.echo(f"learning curve: {training.info['curve']}")
    folder = Path(training.snapshot_path).parent
    predict = command_line("predict", str(net), str(folder), str(FOLDER / "test.h5"), "--top", "3")
    click.echo(f"next: {predict}")
    return 0


def copy_files() -> None:
    """Copy net file and data to ./nacre-demo/; a net file that was changed stays as it is.

    Raises:
        DataError: the folder or a file cannot be made; existing files are unchanged.
    """
    from nacre import DataError
    from nacre.files import atomic_write, make_folder, os_errors

    source = demo_folder()
    if FOLDER.exists() and not FOLDER.is_dir():
        raise DataError(f"{FOLDER}: not a folder", "rename that file, or run the demo in another folder")
    with os_errors(FOLDER, "cannot be made", DataError):
        make_folder(FOLDER)
    for name in FILES:
        content, copy = (source / name).read_bytes(), FOLDER / name
        if not copy.exists():
            atomic_write(copy, content, DataError)
        elif copy.read_bytes() != content:
            if name.endswith(".toml"):
                click.echo(f"{copy} was changed, and is used as it is (remove it to get the original again)")
            else:
                atomic_write(copy, content, DataError)


def demo_folder() -> Path:
    """Return the folder with the demo's files: in this package if nacre is installed, examples/digits in a checkout."""
    from nacre import DataError

    package = Path(__file__).resolve().parent
    for folder in (package / "digits", package.parents[2] / "examples" / "digits"):
        if all((folder / name).is_file() for name in FILES):
            return folder
    raise DataError(
        "the demo's files are missing in this installation", "install it again: pip install --force-reinstall nacre"
    )


def _places(net: Path) -> list[str]:
    """Return overrides that make callbacks write into ./nacre-demo/, if the net file has no path for them."""
    from nacre import registry
    from nacre.config import load

    callbacks: list[dict[str, Any]] = load(net).table.get("callback", [])
    types = [entry["type"] for entry in callbacks]
    overrides: list[str] = []
    for entry in callbacks:
        cls = registry().open("callback", entry["type"])
        defaults = {field.name: field.default for field in cls.fields()}
        for key in cls.outputs:
            if key not in entry and types.count(entry["type"]) == 1:
                overrides.append(f"callback.{entry['type']}.{key}={(FOLDER / str(defaults[key])).as_posix()}")
    return overrides
