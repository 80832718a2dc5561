"""Writes docs/reference.md and docs/reference/*.md from nacre's own code: python docs/make_reference.py."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

import nacre
from nacre import errors, hooks
from nacre.cli.app import nacre as command_line
from nacre.cli.commands.layers import describe_fields, types_of, written
from nacre.discovery.offers import Offer
from nacre.fields.pages import own_doc
from nacre.protocols.layer import TRAITS
from nacre.testing.suite import Checks

DOCS = Path(__file__).parent
OF_EVERY_LAYER = ("name", "exclude", "partition_dim", "location")
"""The fields that every layer has."""
HEAD = """# Reference

Every layer, component, command, hook and error of nacre, made by `docs/make_reference.py` from the code.
`nacre layers NAME` shows the same for any installed layer or component.

Fields without a default are required. In examples the shapes of blobs follow their names; axis 0 is the batch. If a
field does not fit the shapes of the bottoms, making the net raises a ConfigError with the layer's name. Every layer
also has the fields `name` (by default that of its first top) and `exclude` (the phases in which it is absent). A neuron
is a layer too: its name and its fields, with bottoms and tops, make an `Activation` layer with it.
"""
LAYERS = {
    "sources": "Sources of data",
    "outputs": "Layers that write files",
    "convolution": "Convolution",
    "linear": "Inner products, and other layers with parameters",
    "pooling": "Pooling",
    "normalisation": "Normalisation",
    "elementwise": "Functions of single numbers",
    "shapes": "Shapes and indices",
    "recurrent": "Recurrent layers",
    "containers": "Containers",
    "losses": "Losses",
    "metrics": "Statistics",
    "energy": "Energy models",
}
"""Groups of layers, which are the folders of nacre_layers; all other layers are sources or outputs."""
COMPONENTS = {
    "neuron": "Neurons",
    "pooling": "Pooling functions",
    "elementwise": "Functions of several blobs, element by element",
    "connection": "Connections between the steps of an Unroll",
    "initializer": "Initialisers",
    "regularizer": "Regularisers",
    "constraint": "Constraints",
    "transformer": "Transformers",
    "solver": "Methods of a solver",
    "lr_policy": "Learning-rate policies",
    "momentum_policy": "Momentum policies",
    "algorithm": "Algorithms",
    "communicator": "Communicators",
    "framework": "Frameworks of several ranks",
    "callback": "Callbacks",
    "store": "Stores of records",
    "codec": "Codecs",
    "snapshot_store": "Stores of snapshots",
    "drawing": "Drawings",
}
COMMON = ("plugin", "debug")
PIPE = r"\|"
PICTURES = {
    "neuron": "![The curves of all neurons](../pictures/neurons.svg)",
    "lr-policy": "![The rates of 100 iterations](../pictures/policies.svg)",
}
OTHERS = """
## Everything else

* In Python: [Net](reference/net.md), [Solver](reference/the-solver.md), [Training](reference/training.md)
* [Types of fields](reference/types.md): what may be written in each
* [Commands](reference/commands.md) of the command line, with their options
* [Hooks](reference/hooks.md): what a plugin can offer
* [Checks](reference/checks.md): what the suites of `nacre.testing` check, and to what each check applies
* [Errors](reference/errors.md), and exit codes
"""


def pages() -> dict[str, str]:
    """Return the text of every page, by its path below docs/."""
    made = {f"layers-{name}": _page(f"Layers: {LAYERS[name]}", _entries(found)) for name, found in _groups().items()}
    made |= {_file(kind): _page(title, _entries(_own(kind))) for kind, title in COMPONENTS.items()}
    made |= {name: made[name].replace("\n\n", f"\n\n{picture}\n\n", 1) for name, picture in PICTURES.items()}
    made |= {"the-solver": _page("The solver", [_doc(nacre.Solver), *_table(nacre.Solver), *_methods(nacre.Solver)])}
    made |= {"net": _page("Net", [_doc(nacre.Net), *_methods(nacre.Net)])}
    made |= {"training": _page("Training", [_doc(nacre.Training), *_methods(nacre.Training)])}
    made |= {"types": _types(), "commands": _page("Commands", _commands(command_line, "nacre"))}
    made |= {"hooks": _page("Hooks", _hooks()), "errors": _page("Errors", _errors())}
    made |= {"checks": _page("The checks of the conformance kit", _checks())}
    return {"reference.md": _index(), **{f"reference/{name}.md": text for name, text in made.items()}}


def _checks() -> Iterator[str]:
    """Return a table for each suite of the conformance kit."""
    yield "How to use them: [Test what you wrote](../conformance.md). A check that applies and does not run fails.\n"
    for name in nacre.testing.__all__:
        suite = getattr(nacre.testing, name)
        if isinstance(suite, type) and issubclass(suite, Checks) and (table := suite.table()):
            yield f"## {name}\n\n{_first(suite)}\n\n| check | what must hold | applies to |\n|---|---|---|"
            yield from (
                f"| `{one.name}` | {one.promise.replace('|', PIPE)} | {one.applies or 'all'} |" for one in table
            )
            yield ""


def _first(cls: type) -> str:
    return (cls.__doc__ or "").partition("\n")[0]


def _own(kind: str) -> list[Offer]:
    return [offer for offer in nacre.registry().offers(kind) if offer.distribution == "nacre"]


def _groups() -> dict[str, list[Offer]]:
    """Return the offers of each group of layers."""
    found: dict[str, list[Offer]] = {name: [] for name in LAYERS}
    for offer in _own("layer"):
        cls: Any = nacre.registry().open_offer(offer)
        package, folder, *_ = cls.__module__.split(".")
        found[folder if package == "nacre_layers" else "outputs" if cls.is_sink else "sources"].append(offer)
    return found


def _file(kind: str) -> str:
    return kind.replace("_", "-")


def _index() -> str:
    layers = [_listed(f"layers-{name}", LAYERS[name], offers) for name, offers in _groups().items()]
    components = [_listed(_file(kind), title, _own(kind)) for kind, title in COMPONENTS.items()]
    return "\n".join([HEAD, "## Layers\n", *layers, "\n## Components\n", *components, OTHERS])


def _listed(page: str, title: str, offers: Iterable[Offer]) -> str:
    links = [f"[{offer.name}](reference/{page}.md#{offer.name.lower()})" for offer in offers]
    return f"* [{title}](reference/{page}.md): {', '.join(links)}"


def _page(title: str, parts: Iterable[str]) -> str:
    return "\n".join([f"# {title}\n", *parts])


def _entries(offers: Iterable[Offer]) -> Iterator[str]:
    """Yield the entries of layers or components, each with all names of its class."""
    names: dict[type, list[str]] = {}
    for offer in offers:
        names.setdefault(nacre.registry().open_offer(offer), []).append(offer.name)
    for cls, called in names.items():
        main = cls.__name__ if cls.__name__ in called else called[0]
        yield from (f"## {name}\n\nAnother name of [{main}](#{main.lower()}).\n" for name in called if name != main)
        yield f"## {main}\n"
        yield _doc(cls)
        if issubclass(cls, nacre.Layer):
            traits = [f"`{trait}`" for trait in TRAITS if getattr(cls, trait, False)]
            yield f"Traits: {', '.join(traits) or 'none'}\n"
        yield from _table(cls)


def _doc(cls: type) -> str:
    """Return the docstring of a class as Markdown, its example as code."""
    doc, _, example = inspect.cleandoc(own_doc(cls)).partition("\nExample:\n")
    code = textwrap.dedent(example).strip()
    language = "toml" if code.startswith("[[") else "python"
    return f"{_markdown(doc)}\n```{language}\n{code}\n```\n" if code else f"{_markdown(doc)}\n"


def _markdown(doc: str) -> str:
    """Return a docstring with lists of arguments and of errors as lists, and its formula as a quotation."""
    doc = re.sub(r"^    (\S)", r"* \1", doc, flags=re.M)
    doc = re.sub(r"^(Args|Returns|Raises|Attributes):\n", r"\1:\n\n", doc, flags=re.M)
    return re.sub(r"(?<=\n\n)(\w+(\[[^\]\n]*\])* = .*)", r"> \1", doc)


def _fields(cls: type) -> list[dict[str, Any]]:
    """Return the fields of a class, without those that every layer has."""
    fields = describe_fields(cls) if hasattr(cls, "fields") else []
    return [field for field in fields if not (issubclass(cls, nacre.Layer) and field["name"] in OF_EVERY_LAYER)]


def _table(cls: type) -> Iterator[str]:
    if rows := [_row(field) for field in _fields(cls)]:
        yield "\n".join(["| field | type | default | meaning |", "|---|---|---|---|", *rows, ""])


def _row(field: dict[str, Any]) -> str:
    default = "" if field["required"] else f"`{written(field['default'])}`"
    return f"| `{field['name']}` | {field['type'].replace(' | ', ' or ')} | {default} | {field['help']} |"


def _methods(cls: type) -> Iterator[str]:
    """Yield the methods and properties that a class has for everybody."""
    inherited = {name for base in (nacre.Component, nacre.Configured) for name in vars(base)}
    for name, member in sorted(inspect.getmembers_static(cls)):
        function = member.fget if isinstance(member, property) else member
        if inspect.isfunction(function) and not name.startswith("_") and name not in inherited:
            signature = "" if isinstance(member, property) else str(inspect.signature(function))
            signature = re.sub(r"(: |-> )'([^']*)'", r"\1\2", signature)  # annotations without quotes
            yield f"## {name}\n\n`{name}{re.sub(r'^.self(, )?', '(', signature)}`\n"
            yield f"{_markdown(inspect.getdoc(function) or '')}\n"


def _types() -> str:
    classes = [nacre.registry().open_offer(offer) for kind in ("layer", *COMPONENTS) for offer in _own(kind)]
    wanted = types_of([field for cls in [nacre.Solver, *classes] for field in _fields(cls)])
    rows = [f"| {name.replace(' | ', ' or ')} | {words} |" for name, words in sorted(wanted.items())]
    return _page("Types of fields", ["| type | allowed values |", "|---|---|", *rows, ""])


def _commands(command: click.Command, name: str) -> Iterator[str]:
    """Yield the help of a command, and of the commands below it; options that all have stand at the first."""
    yield f"## {name}\n"
    yield inspect.cleandoc(command.help or "").replace("\b\n", "") + "\n"
    context = click.Context(command, info_name=name)
    arguments = [one.make_metavar(context) for one in command.params if isinstance(one, click.Argument)]
    below = ["COMMAND"] if isinstance(command, click.Group) else []
    yield f"`{' '.join([name, '[OPTIONS]', *arguments, *below])}`\n"
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    if rows := [_option(one) for one in options if name == "nacre" or one.name not in COMMON]:
        yield "\n".join(["| option | meaning |", "|---|---|", *rows, ""])
    if isinstance(command, click.Group):
        for one in command.list_commands(context):
            if found := command.get_command(context, one):
                yield from _commands(found, f"{name} {one}")


def _option(option: click.Option) -> str:
    names = ", ".join(f"`{one}`" for one in [*option.opts, *option.secondary_opts])
    choices = "|".join(option.type.choices) if isinstance(option.type, click.Choice) else option.type.name.upper()
    value = "" if option.is_flag or option.count else f" {option.metavar or choices}"
    return f"| {names}{value.replace('|', PIPE)} | {option.help or ''} |"


def _hooks() -> Iterator[str]:
    _, _, intro = inspect.cleandoc(hooks.__doc__ or "").partition("\n\n")
    code = re.compile(r"(^    .*\n|\n(?=    ))+", re.M)
    yield code.sub(lambda found: f"\n```python{textwrap.dedent(found[0]).rstrip()}\n```\n", intro) + "\n"
    for name, hook in vars(hooks).items():
        if name.startswith("offer_"):
            yield f"## {name}\n\n{inspect.getdoc(hook)}\n"


def _errors() -> Iterator[str]:
    yield f"{inspect.getdoc(errors.NacreError)}\n"
    rows = [
        f"| `{one.__name__}` | {' '.join((inspect.getdoc(one) or '').split())} |"
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, errors.NacreError) and one is not errors.NacreError
    ]
    yield "\n".join(["| error | when |", "|---|---|", *rows, ""])
    yield "All of them are subclasses of `NacreError`, and names of `nacre`. Exit codes of the command line:\n"
    yield EXIT_CODES


EXIT_CODES = """\
| code | meaning |
|---|---|
| 0 | done |
| 1 | a bug, in nacre or in a plugin: please report it |
| 2 | bad input: the message says what is wrong, and what to do |
| 129, 130, 143 | stopped by SIGHUP, SIGINT (Ctrl-C) or SIGTERM |
"""


if __name__ == "__main__":
    (DOCS / "reference").mkdir(exist_ok=True)
    for path, text in pages().items():
        (DOCS / path).write_text(text, encoding="utf-8")
