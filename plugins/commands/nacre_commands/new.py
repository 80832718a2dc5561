"""`nacre new`: the first files of a package with a layer, a kernel, a backend, a store, a source and so on.

The templates are packages that work as they are, under names like `nacre_new_layer` and `NewName`, which are replaced.
"""

from __future__ import annotations

import importlib.util
import io
import keyword
import re
import shlex
import shutil
import tokenize
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import click

from nacre.cli import common

TEMPLATES = Path(__file__).with_name("templates")


class Kind(NamedTuple):
    """What can be begun: its kind in the registry, what a package of it is, and how it is used."""

    kind: str
    summary: str
    use: str


KINDS = {
    "layer": Kind("layer", "The layer NewName, for nacre", 'In a net file it is `type = "NewName"`.'),
    "kernel": Kind("kernel", "A faster layer for nacre", "A net uses it after `nacre plugins enable nacre-new-thing`."),
    "backend": Kind("backend", "The backend new-name, for nacre", "A net computes on it with `--backend new-name`."),
    "store": Kind("store", "Files .newname, for nacre", "The source `Data` and `nacre data` know them."),
    "source": Kind("layer", "The source NewName, for nacre", 'In a net file it is `type = "NewName"`.'),
    "solver": Kind("solver", "The solver NewName, for nacre", 'In a net file it is `type = "NewName"` of `[solver]`.'),
    "command": Kind("command", "The command `nacre new-name`", "`nacre new-name --help` shows its options."),
}


class Named(NamedTuple):
    """The names in a new package: of its class, with dashes ("turn-pairs"), and of its folder and module."""

    cls: str
    plain: str

    @property
    def distribution(self) -> str:
        return f"nacre-{self.plain}"

    @property
    def module(self) -> str:
        return self.distribution.replace("-", "_")


@click.command()
@click.argument("kind", type=click.Choice([*KINDS]))
@click.argument("name")
@click.option("--from", "file", metavar="FILE", type=click.Path(path_type=Path), help="Take the code of this file.")
@common
def command(kind: str, name: str, file: Path | None) -> None:
    """Begin a package of your own: code that works, and its tests.

    NAME is that of the layer, the solver and so on, such as Swirl; the package is nacre-swirl. A kernel has a package
    of its own, such as SwirlFast: it begins with one for nacre's layer GLU, in whose place you put that of your layer.
    """
    named = names(kind, name)
    check_free(kind, named)
    files = texts(kind, named) if file is None else texts_from(kind, named, file)
    write(Path(named.distribution), files)
    for path in files:
        click.echo(f"wrote {named.distribution}/{path}")
    if file is not None:
        click.echo("tests/test_offers.py only looks whether they are found: test what they compute with nacre.testing")
    click.echo(f"next: cd {shlex.quote(named.distribution)} && pip install -e '.[test]' && pytest")


def names(kind: str, given: str) -> Named:
    """Return the names that follow from the one that was given: TurnPairs, turn-pairs or turn_pairs.

    Raises:
        ConfigError: it is no name.
    """
    from nacre import ConfigError

    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*([_-][A-Za-z0-9]+)*", given):
        remedy = "such as Swirl or TurnPairs"
        raise ConfigError(f"{given!r}: a name must be letters and digits, and begin with a letter", remedy)
    short = re.sub("^nacre[_-]", "", given)
    short = re.sub(f"(?i)(?<=.){kind}$", "", short).rstrip("_-") if kind in ("layer", "kernel", "backend") else short
    dashed = short if re.search("[A-Z]{2}", short) else re.sub("(?<=[a-z0-9])(?=[A-Z])", "-", short)
    words = re.split("[_-]", short)
    return Named("".join(word[0].upper() + word[1:] for word in words), dashed.replace("_", "-").lower())


def check_free(kind: str, named: Named) -> None:
    """Raise ConfigError if the names are in use: in nacre, in an installed package, in Python, or in the template."""
    from nacre import ConfigError, registry

    here, remedy = registry(), "choose another name"
    name = named.plain if kind in ("backend", "command") else named.cls
    kinds = [] if kind == "kernel" else [KINDS[kind].kind, *here.also_named(KINDS[kind].kind)]
    offers = [offer for one in kinds for offer in here.offers(one, name)]
    if offers := [offer for offer in offers if offer.provenance.version]:  # a file has none: it may become the package
        raise ConfigError(f"{offers[0].provenance} has the {offers[0].kind} '{name}' already", remedy)
    if kind == "command":
        context = click.get_current_context().find_root()
        if isinstance(context.command, click.Group) and name in context.command.list_commands(context):
            raise ConfigError(f"nacre has the command '{name}' already", remedy)
    if kind == "store":
        ending = f".{named.cls.lower()}"
        for offer in here.offers("store"):
            if ending in here.open_offer(offer).endings:
                raise ConfigError(f"{offer.name} of {offer.provenance} has files {ending} already", remedy)
    if importlib.util.find_spec(named.module) is not None:
        raise ConfigError(f"a package {named.module} is installed already", remedy)
    if keyword.iskeyword(named.cls) or any(named.cls in words(text) for text in template(kind).values()):
        raise ConfigError(f"'{named.cls}' has another meaning in the code of a {kind}", remedy)


def texts(kind: str, named: Named) -> dict[str, str]:
    """Return the files of a new package: {path: text}."""
    return filled(kind, named, {**common_texts(), **template(kind)})


def words(text: str) -> set[str]:
    """Return the names in a Python file."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME}


def template(kind: str) -> dict[str, str]:
    """Return the files of a template, without those that every package has."""
    paths = sorted(path for path in (TEMPLATES / kind).rglob("*.py") if path.parent.name != "__pycache__")
    return {path.relative_to(TEMPLATES / kind).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def common_texts() -> dict[str, str]:
    """Return the files that every package has."""
    places = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        "ci.yml": ".github/workflows/test.yml",
        "test_plugin.py": "tests/test_plugin.py",
    }
    return {place: (TEMPLATES / "common" / name).read_text(encoding="utf-8") for name, place in places.items()}


def filled(kind: str, named: Named, files: Mapping[str, str]) -> dict[str, str]:
    """Return files with the names of a new package in place of the template's."""
    from nacre import __version__

    new = {
        "NewSummary": KINDS[kind].summary,
        "NewUse": KINDS[kind].use,
        r"(?<=nacre[=>]=)0\.0": ".".join(__version__.split(".")[:2]),
        f"nacre_new_(?:{kind}|thing|file)": named.module,
        "nacre-new-thing": named.distribution,
        "new-(?:name|thing)": named.plain,
        "newname": named.cls.lower(),
        "NewName": named.cls,
    }

    def fill(text: str) -> str:
        for word, instead in new.items():
            text = re.sub(word, instead, text)
        return text

    return {fill(path): fill(text) for path, text in files.items()}


def texts_from(kind: str, named: Named, file: Path) -> dict[str, str]:
    """Return the files of a new package whose code is a file that was used with `--plugin`.

    Raises:
        ConfigError: it offers nothing of this kind, or by itself.
    """
    from nacre import ConfigError, registry

    offers = registry().load_file(file).offers
    text = file.read_text(encoding="utf-8")
    if re.search(r"\bhookimpl\b|\bregister(_kernel)?\b", text):
        raise ConfigError(
            f"{file}: it offers its classes by itself (hookimpl or register), which the package is to do",
            "remove that from the file",
        )
    if not any(offer.kind == KINDS[kind].kind for offer in offers):
        found = ", ".join(f"{offer.kind} '{offer.name}'" for offer in offers) or "nothing"
        raise ConfigError(f"{file}: it has no class of a {kind}; it offers {found}", "name its kind: nacre new KIND")
    table: dict[str, dict[str, str]] = {}
    for offer in offers:
        table.setdefault(offer.kind, {})[offer.name] = f"{named.module}.{kind}:{offer.target.partition(':')[2]}"
    rows = [f'    "{key}": {{{", ".join(map(_entry, names.items()))}}},' for key, names in table.items()]
    files = filled(kind, named, {**common_texts(), **template("file")})
    light = f"{named.module}/__init__.py"
    files[light] = re.sub(r"(?<=^OFFERS = \{\n).*\n(?=\}$)", "\n".join([*rows, ""]), files[light], flags=re.M)
    return {**files, f"{named.module}/{kind}.py": text}


def _entry(entry: tuple[str, str]) -> str:
    name, target = entry
    return f'"{name}": "{target}"'


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write a new folder with these files: all of them, or nothing.

    Raises:
        DataError: there is such a folder or file already, or it cannot be written.
    """
    from nacre import DataError
    from nacre.files import os_errors

    if folder.exists():
        raise DataError(f"{folder}: there is such a folder or file already", "move it away, or work elsewhere")
    with os_errors(folder, "cannot be written", DataError):
        made = folder.with_name(f".{folder.name}.tmp")  # until it is complete
        made.mkdir()
        try:
            for path, text in files.items():
                (made / path).parent.mkdir(parents=True, exist_ok=True)
                (made / path).write_text(text, encoding="utf-8")
            made.rename(folder)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
