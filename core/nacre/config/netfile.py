"""NetFile: a net as a TOML file; `load` reads one, `dumps` writes one.

The backend is that of the command line, else the net file's, else that of `NACRE_BACKEND`, else that of `nacre.toml`,
else the best that can be used. A pin in the net file comes before one in `nacre.toml`.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..discovery.pins import PIN, check_pins
from ..discovery.registry import registry
from ..discovery.requirements import parse_requirements
from ..discovery.settings import settings
from ..errors import ConfigError
from ..fields.component import make_component
from ..fields.types import Permission, base_folder, permission
from ..files.remote import is_url
from ..files.table_check import KERNELS, Complaints, check_table
from ..files.toml import read_toml, toml_text
from ..net.options import FILE_OPTIONS, misfits
from ..protocols.algorithm import Algorithm
from ..protocols.making import divided, make_layer, type_of
from .overrides import apply_override, layer_name
from .tables import file_table, requirements

if TYPE_CHECKING:
    from ..net.net import Net
    from ..protocols.layer import Layer, Phase
    from ..protocols.view import Fitted
    from ..training.callback import Callback
    from ..training.solver import Solver


Table = dict[str, Any]


Made = TypeVar("Made")

_TOP: dict[str, tuple[type, str]] = {
    "name": (str, "a string"),
    **FILE_OPTIONS,
    "layer": (list, "an array of tables: [[layer]]"),
    "solver": (dict, "a table: [solver]"),
    "callback": (list, "an array of tables: [[callback]]"),
    "plugins": (dict, "a table: [plugins]"),
}


_PLUGINS: dict[str, tuple[type, str]] = {
    "require": (list, 'a list of strings like "nacre-swirl>=1.2"'),
    "pin": PIN,
    "kernels": KERNELS,
}


@dataclass(frozen=True, eq=False)
class NetFile:
    """A net file that was read and checked: its layers, and how they run and are trained.

    `layers` are the same objects for all nets made here, so that they share their parameters. `table` is the content of
    the file, with the overrides. `permission` is what it may write besides new files in the working folder. `fitted` is
    what is known of the training data, for its nets.
    """

    path: Path
    table: Table
    layers: tuple[Layer, ...]
    pins: dict[str, str] = field(default_factory=dict[str, str])
    permission: Permission = field(default_factory=Permission)
    kernels: tuple[str, ...] = ()
    fitted: Fitted = field(default_factory=dict[str, Any])

    @property
    def name(self) -> str:
        """The net's name; by default the file's name without its ending."""
        return self.table.get("name", self.path.stem)

    @property
    def folder(self) -> Path:
        """The folder that paths in the file start from."""
        return self.path.absolute().parent

    def net(self, phase: Phase = "train", **options: Any) -> Net:
        """Return the net in one phase; `options` are those of `Net`, and replace the file's.

        Raises:
            NacreError: as `Net`.
        """
        from ..net.net import Net
        from ..protocols.backend import Backend, open_backend

        backend = options.pop("backend", None)
        chosen: dict[str, Any] = {key: value for key, value in self.table.items() if key in FILE_OPTIONS}
        with pinned(self.pins, self.kernels):
            if not isinstance(backend, Backend):
                backend = open_backend(self.backend(backend))
            chosen |= {"backend": backend, "phase": phase, "pins": self.pins, "kernels": self.kernels}
            chosen |= {"algorithm": self.algorithm, "fitted": self.fitted, **options}
            return Net(self.name, self.layers, **chosen)

    def without_outputs(self) -> NetFile:
        """Return this file without the layers that only write files, for looking at a net without running it."""
        from ..protocols.layer import is_output

        return replace(self, layers=tuple(layer for layer in self.layers if not is_output(layer)))

    def backend(self, given: str | None = None) -> str:
        """Return the name of the backend: the one given, else the file's, the environment's, the settings', or ""."""
        return given or self.table.get("backend") or os.environ.get("NACRE_BACKEND") or settings().backend

    @property
    def has_solver(self) -> bool:
        """Whether the file has a table [solver]."""
        return "solver" in self.table

    @property
    def algorithm(self) -> Algorithm | None:
        """The algorithm that [solver] names, or None."""
        given = self.table.get("solver", {}).get("algorithm")
        with self._building():
            return None if given is None else make_component(Algorithm, given)

    def solver(self, **fields: Any) -> Solver:
        """Return a new solver with its callbacks; `fields` replace the file's.

        Raises:
            ConfigError: the file has no [solver].
        """
        if not self.has_solver:
            remedy = 'add [solver] with type = "...", the name of a solver, and max_iter = 1000; '
            remedy += registry().lists("solver")
            raise ConfigError(f"{self.path} has no table [solver], so the net cannot be trained", remedy)
        with self._building():
            return _make_solver(self.path, self.table["solver"], self.table.get("callback", []), fields)

    @contextmanager
    def _building(self) -> Generator[None]:
        with pinned(self.pins, self.kernels), based_on(self.folder), _may_write(self.permission):
            yield


def load(
    path: str | os.PathLike[str],
    overrides: Sequence[str] = (),
    *,
    allow_writes: Sequence[str | os.PathLike[str]] = (),
    overwrite: Sequence[str | os.PathLike[str]] = (),
    allow_remote: Sequence[str] = (),
) -> NetFile:
    """Read a net file, apply `overrides` ("solver.max_iter=100"), and make its layers.

    Paths to write to must lie in the working folder, in one of `allow_writes`, or in one that the user's own settings
    allow. An existing file is replaced or appended to only if the same writer wrote it, or if it is one of `overwrite`.
    URLs must be on hosts of `allow_remote`, or on those that the settings allow: "data.example.org", or "s3://bucket".

    Raises:
        ConfigError: the file cannot be read, has invalid values, or requires what is not installed. One message
            contains all mistakes.
    """
    path = Path(path)
    table = read_toml(path)
    for override in overrides:
        apply_override(table, override)
    complaints = Complaints(str(path))
    complaints.about(check_table(table, _TOP))
    options = {key: value for key, value in table.items() if key in FILE_OPTIONS}
    complaints.about((misfit, "") for misfit in misfits(options))
    complaints.end()
    plugins: Table = table.get("plugins", {})
    complaints.about(check_table(plugins, _PLUGINS, "plugins."))
    complaints.about(check_pins(plugins))
    complaints.end()
    complaints.attempt(partial(parse_requirements, plugins.get("require", ())))
    complaints.end()
    settled = settings()
    granted = Permission(
        _real(*settled.allow_writes, *allow_writes), _real(*overwrite), (*settled.allow_remote, *allow_remote)
    )
    kernels = tuple(dict.fromkeys([*settled.kernels, *plugins.get("kernels", ())]))
    file = NetFile(path, table, (), {**settled.pins, **plugins.get("pin", {})}, granted, kernels)
    layers: list[Layer] = []
    with pinned(file.pins, file.kernels), based_on(file.folder), _may_write(granted):
        for number, layer in enumerate(table.get("layer", [])):
            made = complaints.attempt(partial(make_layer, layer), _called(layer, number), str(layer.get("type")))
            layers += [made] if made is not None else []
    if file.has_solver:
        complaints.attempt(file.solver)
    if not table.get("layer"):
        complaints.about([("it has no layers: there is no [[layer]]", 'add one: [[layer]], and below it type = "..."')])
    complaints.end()
    object.__setattr__(file, "layers", tuple(layers))
    return file


def dumps(thing: NetFile | Net, folder: str | os.PathLike[str] | None = None) -> str:
    """Return the TOML text of a net file or a net; reading it gives equal layers.

    Paths below `folder`, the folder of the new file (by default the net file's own), become relative to it. [plugins]
    requires the distributions other than nacre whose layers and components are used.

    Raises:
        ConfigError: a layer holds an array, or is of a class that no plugin offers, so that no file can name it.
    """
    if isinstance(thing, NetFile):
        head = {key: value for key, value in thing.table.items() if "table" not in _TOP[key][1]}
        head = {"name": thing.name, **head}
        tail = {key: value for key, value in thing.table.items() if key in ("solver", "callback") and value}
        plugins = dict(thing.table.get("plugins", {}))
        base = Path(folder) if folder is not None else thing.folder
        parts = [*thing.layers, *([thing.solver()] if thing.has_solver else [])]
        pins = thing.pins
    else:
        head: Table = {"name": thing.name, "seed": thing.seed, "backend": thing.backend.name, "dtype": thing.dtype}
        head |= {"compute": thing.compute_dtype} if thing.compute_dtype != thing.dtype else {}
        head |= {"insert_splits": True} if thing.insert_splits else {}
        head |= {"freeze": sorted(thing.frozen)} if thing.frozen else {}
        settled = {"pin": thing.pins, "kernels": list(thing.kernels)}
        tail, plugins, pins = {}, {key: value for key, value in settled.items() if value}, thing.pins
        base = Path(folder) if folder is not None else Path()
        parts = [*thing.layers]
    with pinned(pins):  # a name means here what it will mean there
        layers = [file_table(layer, base.absolute()) for layer in thing.layers]
    if require := requirements(plugins.get("require", ()), parts):
        plugins = {**plugins, "require": require}
    return toml_text({**head, "layer": layers, **tail, **({"plugins": plugins} if plugins else {})})


# Making objects from tables


@contextmanager
def pinned(pins: Mapping[str, str], kernels: Sequence[str] = ()) -> Generator[None]:
    """Use these pins, and enable these distributions' kernels, in the block.

    Components in fields and backends are opened without arguments for pins.
    """
    here = registry()
    before = here.pins, here.kernels
    here.pins, here.kernels = {**here.pins, **pins}, (*here.kernels, *kernels)
    try:
        yield
    finally:
        here.pins, here.kernels = before


@contextmanager
def based_on(folder: Path) -> Generator[None]:
    """Make relative paths in fields start from a folder, in the block."""
    token = base_folder.set(folder)
    try:
        yield
    finally:
        base_folder.reset(token)


@contextmanager
def _may_write(what: Permission) -> Generator[None]:
    """Give paths to write to the permission of a net file, in the block."""
    token = permission.set(what)
    try:
        yield
    finally:
        permission.reset(token)


def _real(*paths: str | os.PathLike[str]) -> tuple[str, ...]:
    return tuple(path if isinstance(path, str) and is_url(path) else os.path.realpath(path) for path in paths)


def _called(table: Mapping[str, Any], number: int) -> str:
    return layer_name(table) or f"layer {number + 1} ({table.get('type', 'without type')})"


def _make_solver(path: Path, table: Table, callbacks: Iterable[Table], given: Mapping[str, Any]) -> Solver:
    from ..training.solver import Solver

    complaints = Complaints(str(path))
    own = {known.name for known in Solver.fields()} - {"method", "callbacks"}

    def method() -> tuple[Any, Table]:
        cls = registry().open("solver", type_of(table, "solver"))
        fields, parts = divided({key: value for key, value in table.items() if key != "type"}, own, cls)
        return cls(**parts), fields

    made_method = complaints.attempt(method, "[solver]", str(table.get("type")))
    made: list[Callback] = []
    for number, entry in enumerate(callbacks):
        kind = str(entry.get("type", number + 1))
        one = complaints.attempt(partial(_make_callback, entry), f"[[callback]] {kind}", kind)
        made += [one] if one is not None else []
    complaints.end()
    assert made_method is not None
    fields: Table = {"callbacks": made, **made_method[1], **given}
    solver = complaints.attempt(partial(Solver, made_method[0], **fields), "[solver]", "Solver")
    complaints.end()
    assert solver is not None
    return solver


def _make_callback(table: Mapping[str, Any]) -> Callback:
    cls = registry().open("callback", type_of(table, "callback"))
    return cls(**{key: value for key, value in table.items() if key != "type"})
