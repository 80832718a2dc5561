"""A net from a TOML file, and back: the net file, overrides from the command line, and settings around it.

Settings come from, in this order: the command line, the environment, the net file, `nacre.toml` in the working folder,
the user's `nacre/nacre.toml` (below `XDG_CONFIG_HOME`, or `~/.config`). None has to exist.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .checks import base_folder
from .errors import ConfigError, NacreError, nearest
from .overrides import apply_override, layer_name
from .registry import parse_requirements, registry
from .tables import file_table
from .tables import table_of as table_of
from .toml import read_toml, toml_text

if TYPE_CHECKING:
    from .layer import Layer
    from .net import Net
    from .solver import Callback, Solver

Table = dict[str, Any]
Made = TypeVar("Made")

_TOP: dict[str, tuple[type, str]] = {
    "name": (str, "a text"),
    "seed": (int, "a whole number"),
    "backend": (str, "a text"),
    "dtype": (str, "a text"),
    "compute": (str, "a text"),
    "fallback": (str, '"warn" or "error"'),
    "deterministic": (bool, "true or false"),
    "insert_splits": (bool, "true or false"),
    "layer": (list, "an array of tables: [[layer]]"),
    "solver": (dict, "a table: [solver]"),
    "callback": (list, "an array of tables: [[callback]]"),
    "plugins": (dict, "a table: [plugins]"),
}
_NET_OPTIONS = ("seed", "dtype", "compute", "fallback", "deterministic", "insert_splits")
_PLUGINS: dict[str, tuple[type, str]] = {
    "require": (list, 'a list of texts like "nacre-swirl>=1.2"'),
    "pin": (dict, 'a table like { "kernel:Pooling@numpy" = "nacre-numba" }'),
}
_SETTINGS: dict[str, tuple[type, str]] = {"backend": (str, "a text"), "plugins": (dict, "a table: [plugins]")}


@dataclass(frozen=True, eq=False)
class NetFile:
    """A net file that was read and checked: the layers, and how they are run and trained.

    `layers` are the same objects for all nets made here, so that they share their parameters. `table` is what the file
    says, overrides included.
    """

    path: Path
    table: Table
    layers: tuple[Layer, ...]
    pins: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def name(self) -> str:
        """The net's name; the file's unless given."""
        return self.table.get("name", self.path.stem)

    @property
    def folder(self) -> Path:
        """The folder that paths in the file start from."""
        return self.path.absolute().parent

    def net(self, phase: str = "train", **options: Any) -> Net:
        """Make the net in one phase; `options` are those of `Net`, and win over the file's.

        Raises:
            NacreError: as `Net` does.
        """
        from .backend import Backend, open_backend
        from .net import Net

        backend = options.pop("backend", None)
        chosen: dict[str, Any] = {key: self.table[key] for key in _NET_OPTIONS if key in self.table}
        with pinned(self.pins):
            if not isinstance(backend, Backend):
                backend = open_backend(self.backend(backend))
            chosen |= {"backend": backend, "phase": phase, "pins": self.pins, **options}
            return Net(self.name, self.layers, **chosen)

    def backend(self, given: str | None = None) -> str:
        """Give the name of the backend: the one given, else the file's, the environment's, the settings', or ""."""
        return given or self.table.get("backend") or os.environ.get("NACRE_BACKEND") or settings().backend

    @property
    def has_solver(self) -> bool:
        """Whether the file says how the net is trained."""
        return "solver" in self.table

    def solver(self, **fields: Any) -> Solver:
        """Make the solver with its callbacks, new ones at every call; `fields` win over the file's.

        Raises:
            ConfigError: the file has no [solver].
        """
        if not self.has_solver:
            raise ConfigError(
                f"{self.path} does not say how the net is trained",
                'add a table [solver] with type = "SGD" and max_iter',
            )
        with self._building():
            return _make_solver(self.path, self.table["solver"], self.table.get("callback", []), fields)

    @contextmanager
    def _building(self) -> Generator[None]:
        with pinned(self.pins), based_on(self.folder):
            yield


def load(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> NetFile:
    """Read a net file, override what `overrides` say ("solver.max_iter=100"), and make its layers.

    Raises:
        ConfigError: the file cannot be read, says something that cannot be, or requires what is not installed. All
            complaints in one message.
    """
    path = Path(path)
    table = read_toml(path)
    for override in overrides:
        apply_override(table, override)
    complaints = Complaints(str(path))
    complaints.about(_check_table(table, _TOP, ""))
    complaints.end()
    plugins: Table = table.get("plugins", {})
    complaints.about(_check_table(plugins, _PLUGINS, "plugins."))
    complaints.about(_check_pins(plugins))
    complaints.end()
    complaints.attempt(partial(parse_requirements, plugins.get("require", ())))
    complaints.end()
    file = NetFile(path, table, (), {**settings().pins, **plugins.get("pin", {})})
    layers: list[Layer] = []
    with pinned(file.pins), based_on(file.folder):
        for number, layer in enumerate(table.get("layer", [])):
            made = complaints.attempt(partial(_make_layer, layer), _called(layer, number), str(layer.get("type")))
            layers += [made] if made is not None else []
    if file.has_solver:
        complaints.attempt(file.solver)
    if not table.get("layer"):
        complaints.about(["it has no layers: there is no [[layer]]"])
    complaints.end()
    object.__setattr__(file, "layers", tuple(layers))
    return file


@dataclass(frozen=True)
class Settings:
    """What holds for every net: `backend`, or "" where none is chosen, and pins."""

    backend: str = ""
    pins: dict[str, str] = field(default_factory=dict[str, str])


def settings() -> Settings:
    """Give what `nacre.toml` in the working folder and the user's own say together.

    Raises:
        ConfigError: one of them cannot be read, or says something unknown.
    """
    home = os.environ.get("XDG_CONFIG_HOME")
    user = (Path(home) if home else Path("~/.config").expanduser()) / "nacre" / "nacre.toml"
    merged = Settings()
    for path in (user, Path("nacre.toml")):
        if path.is_file():
            table = read_toml(path)
            complaints = Complaints(str(path))
            complaints.about(_check_table(table, _SETTINGS, ""))
            complaints.end()
            plugins: Table = table.get("plugins", {})
            complaints.about(_check_table(plugins, {"pin": _PLUGINS["pin"]}, "plugins."))
            complaints.about(_check_pins(plugins))
            complaints.end()
            merged = Settings(table.get("backend", merged.backend), {**merged.pins, **plugins.get("pin", {})})
    return merged


def dumps(thing: NetFile | Net, folder: str | os.PathLike[str] | None = None) -> str:
    """Write a net file's, or a net's, TOML text; read again it gives equal layers.

    Paths below `folder`, where the text will lie (a net file's own folder unless given), are written relative to it.

    Raises:
        ConfigError: a layer holds an array, or is of a class that no plugin offers, so that no file can name it.
    """
    if isinstance(thing, NetFile):
        head = {key: value for key, value in thing.table.items() if not isinstance(value, list | dict)}
        head = {"name": thing.name, **head}
        tail = {key: value for key, value in thing.table.items() if key in ("solver", "callback", "plugins") and value}
        base = Path(folder) if folder is not None else thing.folder
    else:
        head = {"name": thing.name, "seed": thing.seed, "backend": thing.backend.name, "dtype": thing.dtype}
        tail = {"plugins": {"pin": thing.pins}} if thing.pins else {}
        base = Path(folder) if folder is not None else Path()
    return toml_text({**head, "layer": [file_table(layer, base.absolute()) for layer in thing.layers], **tail})


# Complaints, all in one message


class Complaints:
    """Gathers what is wrong with a file."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._errors: list[tuple[str, str]] = []

    def about(self, sentences: Iterable[str]) -> None:
        """Add sentences about the file."""
        self._errors += [(sentence, "") for sentence in sentences]

    def attempt(self, make: Callable[[], Made], called: str = "", itself: str = "") -> Made | None:
        """Make something; keep what is wrong with it and give None.

        A complaint begins with what the thing is `called` here, instead of what it calls `itself`.
        """
        try:
            return make()
        except NacreError as error:
            for line in str(error.args[0]).split("\n"):
                told = line.removeprefix(f"{itself}: ") if itself else line
                self._errors.append(
                    (told if told.startswith(f"{called}: ") or not called else f"{called}: {told}", error.remedy)
                )
            return None

    def end(self) -> None:
        """Raise ConfigError if there was anything."""
        if self._errors:
            sentences = [s if s.startswith(f"{self._where}: ") else f"{self._where}: {s}" for s, _ in self._errors]
            remedies = dict.fromkeys(remedy for _, remedy in self._errors if remedy)
            raise ConfigError("\n".join(dict.fromkeys(sentences)), "\n  ".join(remedies))


def _check_table(table: Mapping[str, Any], known: Mapping[str, tuple[type, str]], start: str) -> Iterator[str]:
    """Complain about unknown keys, and about values of another type."""
    for key, value in table.items():
        if key not in known:
            yield f"unknown key '{start}{key}'{nearest(key, known)}; known: {', '.join(known)}"
            continue
        kind, words = known[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            yield f"{start}{key}={value!r}, but it must be {words}"
        elif isinstance(value, list):
            wanted = str if key == "require" else dict
            if not all(isinstance(one, wanted) for one in cast("list[Any]", value)):
                yield f"{start}{key} must be {words}"
    if table.get("fallback", "warn") not in ("warn", "error"):
        yield f"fallback={table['fallback']!r}, but it must be {_TOP['fallback'][1]}"


def _check_pins(plugins: Table) -> Iterator[str]:
    pins: Any = plugins.get("pin", {})
    if isinstance(pins, dict):
        for key, value in cast("Table", pins).items():
            if not isinstance(value, str):
                yield f"plugins.pin: '{key}'={value!r}, but it must be the name of a distribution"


# Making what the file says


@contextmanager
def pinned(pins: Mapping[str, str]) -> Generator[None]:
    """Settle names by these pins as long as this lasts: a component in a field is opened without being told of pins."""
    here = registry()
    before = here.pins
    here.pins = {**before, **pins}
    try:
        yield
    finally:
        here.pins = before


@contextmanager
def based_on(folder: Path) -> Generator[None]:
    """Let relative paths in fields start from a folder."""
    token = base_folder.set(folder)
    try:
        yield
    finally:
        base_folder.reset(token)


def _called(table: Mapping[str, Any], number: int) -> str:
    return layer_name(table) or f"layer {number + 1} ({table.get('type', 'without type')})"


def _type_of(table: Mapping[str, Any], kind: str) -> str:
    if not isinstance(table.get("type"), str):
        example = {"layer": "InnerProduct", "solver": "SGD"}.get(kind, "Snapshot")
        raise ConfigError(f'type is missing: which {kind} it is, such as type = "{example}"')
    return table["type"]


def _make_layer(table: Mapping[str, Any]) -> Layer:
    """Make a layer; the name of a neuron that is no layer's means an Activation layer with it."""
    type_name = _type_of(table, "layer")
    fields = {key: value for key, value in table.items() if key != "type"}
    here = registry()
    if here.offers("layer", type_name) or not here.offers("neuron", type_name):
        return _with_none(here.open("layer", type_name), fields)
    activation = here.open("layer", "Activation")
    own = {known.name for known in activation.fields()} - {"neuron"}
    neuron_class = here.open("neuron", type_name)
    known = [known.name for known in neuron_class.fields()]
    for key in fields:
        if key not in own and key not in known:
            raise ConfigError(f"unknown field '{key}'{nearest(key, [*own, *known])}")
    neuron = neuron_class(**{key: value for key, value in fields.items() if key not in own})
    return activation(**{key: value for key, value in fields.items() if key in own}, neuron=neuron)


def _with_none(cls: Any, fields: Mapping[str, Any]) -> Any:
    """Make an object of `cls`, where the text "none" means None in fields that may be None: TOML has no word for it."""
    nullable = {known.name for known in cls.fields() if "None" in known.type.split(" | ") and "str" not in known.type}
    return cls(**{key: None if value == "none" and key in nullable else value for key, value in fields.items()})


def _make_solver(path: Path, table: Mapping[str, Any], callbacks: Iterable[Table], given: Mapping[str, Any]) -> Solver:
    from .solver import Method, Solver

    complaints = Complaints(str(path))
    own = {known.name for known in Solver.fields()} - {"method", "callbacks"}
    keys = set(table) - {"type"}

    def method() -> Method:
        cls = registry().open("solver", _type_of(table, "solver"))
        known = [known.name for known in cls.fields()]
        for key in sorted(keys - own - set(known)):
            raise ConfigError(f"unknown field '{key}'{nearest(key, [*own, *known])}")
        return _with_none(cls, {key: table[key] for key in table if key in known})

    made_method = complaints.attempt(method, "[solver]", str(table.get("type")))
    made: list[Callback] = []
    for number, entry in enumerate(callbacks):
        kind = str(entry.get("type", number + 1))
        one = complaints.attempt(partial(_make_callback, entry), f"[[callback]] {kind}", kind)
        made += [one] if one is not None else []
    complaints.end()
    assert made_method is not None
    fields: Table = {"callbacks": made, **{key: table[key] for key in table if key in own}, **given}
    solver = complaints.attempt(partial(Solver, made_method, **fields), "[solver]", "Solver")
    complaints.end()
    assert solver is not None
    return solver


def _make_callback(table: Mapping[str, Any]) -> Callback:
    cls = registry().open("callback", _type_of(table, "callback"))
    return _with_none(cls, {key: value for key, value in table.items() if key != "type"})
