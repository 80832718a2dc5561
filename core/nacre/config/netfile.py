"""NetFile: a net as a TOML file; `load` reads one, `dumps` writes one.

The backend is that of the command line, else the net file's, else that of `NACRE_BACKEND`, else that of `nacre.toml`,
else the best that can be used. A pin in the net file comes before one in `nacre.toml`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..arguments import how_to_call, path_of, paths_of, texts_of
from ..discovery.blame import blaming
from ..discovery.pins import PIN, check_pins
from ..discovery.registry import following, registry
from ..discovery.requirements import parse_requirements
from ..discovery.settings import held_settings, settings
from ..discovery.typos import typos
from ..errors import ConfigError, NacreError, brief
from ..fields.component import component_of, make_component, need_default_of
from ..fields.configured import Configured
from ..fields.outputs import real_path
from ..fields.types import Permission, base_folder, net_file, permission
from ..files.table_check import KERNELS, Complaints, check_table
from ..files.toml import read_toml, toml_text
from ..net.options import FILE_OPTIONS, misfits
from ..protocols.algorithm import Algorithm
from ..protocols.backend import with_device
from ..protocols.making import divided, make_layer, type_of
from ..snapshots.snapshot import SAVED
from .overrides import apply_override, layer_name
from .savedfile import read_saved, table_in, usable_backend
from .tables import file_table, requirements

if TYPE_CHECKING:
    from ..net.net import Net
    from ..protocols.layer import Layer, Phase
    from ..protocols.view import Fitted
    from ..snapshots.snapshot import Snapshot
    from ..training.callback import Callback
    from ..training.framework import Framework
    from ..training.solver import Solver


Table = dict[str, Any]


Made = TypeVar("Made")

_TOP: dict[str, tuple[type, str]] = {
    "name": (str, "a string"),
    **FILE_OPTIONS,
    "layer": (list, "an array of tables: [[layer]]"),
    "solver": (dict, "a table: [solver]"),
    "cluster": (dict, "a table: [cluster]"),
    "callback": (list, "an array of tables: [[callback]]"),
    "plugins": (dict, "a table: [plugins]"),
}


_PLUGINS: dict[str, tuple[type, str]] = {
    "require": (list, 'a list of strings like "nacre-swirl>=1.2"'),
    "pin": PIN,
    "kernels": KERNELS,
}


@dataclass(frozen=True, eq=False, repr=False)
class NetFile:
    """A net file that was read and checked: its layers, and how they run and are trained.

    `layers` are the same objects for all nets made here, so that they share their parameters. `table` is the content of
    the file, with the overrides. `permission` is what it may write besides new files in the working folder. `fitted` is
    what is known of the training data, for its nets. `saved` is the content of a saved net (`Net.save`), else None.
    One that is not `to_train` was read without its solver and callbacks, whose plugins need not be installed.
    """

    path: Path
    table: Table
    layers: tuple[Layer, ...]
    pins: dict[str, str] = field(default_factory=dict[str, str])
    permission: Permission = field(default_factory=Permission)
    kernels: tuple[str, ...] = ()
    fitted: Fitted = field(default_factory=dict[str, Any])
    saved: Snapshot | None = None
    to_train: bool = True

    def __repr__(self) -> str:
        return f"<NetFile {self.path}: net '{self.name}', {len(self.layers)} layers>"

    @property
    def name(self) -> str:
        """The net's name; by default the file's name without its ending."""
        return self.table.get("name", self.path.stem)

    @property
    def folder(self) -> Path:
        """The folder that paths in the file start from."""
        return self.path.absolute().parent

    @how_to_call("file.net(phase, backend=..., ...)")
    def net(self, phase: Phase = "train", **options: Any) -> Net:
        """Return the net in one phase; `options` are those of `Net`, and replace the file's.

        Raises:
            NacreError: as `Net`.
        """
        from ..net.net import Net
        from ..protocols.backend import Backend, open_backend

        backend = options.pop("backend", None)
        named = bool(backend) or "backend" in self.table
        chosen: dict[str, Any] = {key: value for key, value in self.table.items() if key in FILE_OPTIONS}
        with following(self.pins, self.kernels):
            if not isinstance(backend, Backend):
                backend = open_backend(self.backend(backend))
            chosen |= {"backend": backend, "phase": phase, "pins": self.pins, "kernels": self.kernels}
            chosen |= {"algorithm": self.algorithm, "fitted": self.fitted, **options}
            made = Net(self.name, self.layers, **chosen)
            made.backend_named = named
            return made

    def without_outputs(self) -> NetFile:
        """Return this file without the layers that only write files, for looking at a net without running it."""
        from ..protocols.layer import is_output

        return replace(self, layers=tuple(layer for layer in self.layers if not is_output(layer)))

    def backend(self, given: str | None = None) -> str:
        """Return the name of the backend: the one given, else the file's, the environment's, the settings', or "".

        That of a saved net is only used where it can be: it may come from another machine.
        """
        own = self.table.get("backend", "")
        if own and not given and self.saved is not None:
            own = usable_backend(own, str(self.path))
        name, device = with_device(given or "", own or os.environ.get("NACRE_BACKEND") or settings().backend)
        return f"{name}:{device}" if device else name

    @property
    def divides(self) -> bool:
        """Whether several ranks would not just divide the records of each batch among themselves."""
        from ..graph.containers import expand
        from ..graph.partition import is_divided
        from ..protocols.graph import Graph

        return is_divided(expand(Graph.of(self.layers), "train").nodes, self.table.get("partition_dim", 0))

    @property
    def has_solver(self) -> bool:
        """Whether the file has a table [solver]."""
        return "solver" in self.table

    @property
    def algorithm(self) -> Algorithm | None:
        """The algorithm that [solver] names, or None; also if no plugin offers it, in a file that is not to train."""
        given = self.table.get("solver", {}).get("algorithm")
        if self.saved is not None:
            given = self.saved.state.get("options", {}).get("algorithm")
        elif not self.to_train and isinstance(given, str) and not registry().offers("algorithm", given):
            return None
        with self.building():
            return None if given is None else component_of(Algorithm, given, f"{self.path}: [solver] algorithm")

    @how_to_call("file.solver(max_iter=..., ...)")
    def solver(self, **fields: Any) -> Solver:
        """Return a new solver with its callbacks; `fields` replace the file's.

        Raises:
            ConfigError: the file has no [solver].
        """
        if not self.has_solver and self.saved is not None:
            remedy = f"train its net file, and begin with these parameters: nacre train NET.toml --weights {self.path}"
            raise ConfigError(f"{self.path} is a saved net, which has no solver", remedy)
        if not self.has_solver:
            remedy = 'add [solver] with type = "...", the name of a solver, and max_iter = 1000; '
            remedy += registry().lists("solver")
            raise ConfigError(f"{self.path} has no table [solver], so the net cannot be trained", remedy)
        with self.building():
            cluster = self.table.get("cluster")
            return _make_solver(self.path, self.table["solver"], self.table.get("callback", []), cluster, fields)

    @how_to_call("file.snapshot(path)")
    def snapshot(self, path: str | os.PathLike[str] = "latest") -> Snapshot:
        """Return a snapshot of this file's training: "latest" or "best" in its callback's folder, or that of a path.

        Raises:
            SnapshotError: there is none, or it cannot be read.
        """
        from ..snapshots.folder import load_snapshot, meant

        place = self.snapshot_place()
        with following(self.pins):
            return load_snapshot(meant(os.fspath(path_of(path)), place), place[1] if place else "")

    def snapshot_place(self) -> tuple[str, str] | None:
        """Return the folder of the first callback that saves snapshots, and the name of its store.

        Callbacks that cannot be made are passed over: their plugins may be missing where nobody trains.
        """
        from ..training.callback import snapshot_place

        made = [one for one in self._callbacks() if not isinstance(one, NacreError)]
        return next((place for one in made if (place := snapshot_place(one))), None)

    def unmade(self) -> list[str]:
        """Return why callbacks cannot be made: perhaps one of them saved the snapshots that are looked for."""
        return [str(one.args[0]) for one in self._callbacks() if isinstance(one, NacreError)]

    def _callbacks(self) -> Iterator[Callback | NacreError]:
        """Yield the callbacks, or the error of one that cannot be made."""
        for entry in self.table.get("callback", []):
            with self.building():
                try:
                    made: Callback | NacreError = _make_callback(entry)
                except NacreError as error:
                    made = error
            yield made

    @contextmanager
    def building(self) -> Generator[None]:
        """Make layers and components as those of this file, in the block."""
        here = based_on(self.folder), _may_write(self.permission), named_after(self.path)
        with following(self.pins, self.kernels), here[0], here[1], here[2], blaming():
            yield


@how_to_call("load(path, overrides, allow_writes=..., ...)")
@held_settings()
def load(
    path: str | os.PathLike[str],
    overrides: str | Sequence[str] = (),
    *,
    allow_writes: Sequence[str | os.PathLike[str]] = (),
    overwrite: Sequence[str | os.PathLike[str]] = (),
    allow_remote: Sequence[str] = (),
    to_train: bool = True,
) -> NetFile:
    """Read a net file, apply `overrides` ("solver.max_iter=100"), and make its layers.

    Paths to write to must lie in the working folder, in one of `allow_writes`, or in one that the user's own settings
    allow. An existing file is replaced or appended to only if the same writer wrote it, or if it is one of `overwrite`.
    URLs must be on hosts of `allow_remote`, or on those that the settings allow: "data.example.org", or "s3://bucket".
    Without `to_train` the solver and the callbacks are not made, so that their plugins need not be installed.

    Raises:
        ConfigError: the file cannot be read, has invalid values, or requires what is not installed. One message
            contains all mistakes.
    """
    path = path_of(path, remedy='write load("net.toml")')
    overrides = texts_of(overrides, "overrides", '["solver.max_iter=100"]')
    saved = read_saved(path) if path.suffix == SAVED else None
    table = read_toml(path) if saved is None else table_in(saved, str(path))
    writes = (paths_of(allow_writes, "allow_writes"), paths_of(overwrite, "overwrite"))
    may = (*writes, texts_of(allow_remote, "allow_remote", '["data.example.org"]'))
    file = checked(path, table, overrides, *may, saved=saved, to_train=to_train)
    for sentence in typos(registry(), file.pins, file.kernels):
        warnings.warn(f"{path}: {sentence}", stacklevel=2)
    return file


def checked(
    path: Path,
    table: Table,
    overrides: Sequence[str] = (),
    allow_writes: Sequence[str | os.PathLike[str]] = (),
    overwrite: Sequence[str | os.PathLike[str]] = (),
    allow_remote: Sequence[str] = (),
    *,
    saved: Snapshot | None = None,
    to_train: bool = True,
) -> NetFile:
    """Return the net file with this content, which stands at a path; see `load`."""
    for override in overrides:
        apply_override(table, override)
    complaints = Complaints(str(path))
    complaints.about(check_table(table, _TOP, places=_places(table)))
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
    pins = {**settled.pins, **plugins.get("pin", {})}
    file = NetFile(path, table, (), pins, granted, kernels, saved=saved, to_train=to_train)
    layers: list[Layer] = []
    with file.building():
        for number, layer in enumerate(table.get("layer", [])):
            made = complaints.attempt(partial(make_layer, layer), _called(layer, number), str(layer.get("type")))
            layers += [made] if made is not None else []
    if file.has_solver and to_train:
        complaints.attempt(file.solver)
    if not table.get("layer"):
        complaints.about([("it has no layers: there is no [[layer]]", 'add one: [[layer]], and below it type = "..."')])
    if saved is not None:
        complaints.about(_strange(layers))
    complaints.end()
    object.__setattr__(file, "layers", tuple(layers))
    if saved is not None:
        object.__setattr__(file, "fitted", saved.fitted())
    return file


def _strange(layers: Iterable[Layer]) -> Iterator[tuple[str, str]]:
    """Yield complaints about layers that `Net.save` never writes: a stranger's file would read or write others."""
    from ..protocols.layer import is_output, layer_type

    for layer in layers:
        if is_output(layer) or (layer.is_source and layer.needs_data):
            does = "writes files" if is_output(layer) else "reads data"
            message = f"layer '{layer.name}' ({layer_type(type(layer))}) {does}, which no layer of a saved net does"
            yield message, "do not trust this file"


@how_to_call()
def dumps(thing: NetFile | Net, folder: str | os.PathLike[str] | None = None) -> str:
    """Return the TOML text of a net file or a net; reading it gives equal layers.

    Paths below `folder`, the folder of the new file (by default the net file's own), become relative to it. [plugins]
    requires the distributions other than nacre whose layers and components are used. The backend is named if somebody
    has named it.

    Raises:
        ConfigError: a layer holds an array, or is of a class that no plugin offers, so that no file can name it.
    """
    from ..net.net import Net

    if not isinstance(thing, NetFile | Net):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"dumps: thing={brief(thing)}, but it must be a net, or what load(path) returns")
    base = None if folder is None else path_of(folder, "folder")
    if isinstance(thing, NetFile):
        head = {key: value for key, value in thing.table.items() if "table" not in _TOP[key][1]}
        head = {"name": thing.name, **head}
        tail = {key: value for key, value in thing.table.items() if key in ("solver", "cluster", "callback") and value}
        plugins = dict(thing.table.get("plugins", {}))
        base = thing.folder if base is None else base
        parts = [*thing.layers, *([thing.solver()] if thing.has_solver else [])]
        pins = thing.pins
    else:
        return net_text(thing, thing.layers, Path() if base is None else base, with_backend=thing.backend_named)
    return _text(head, thing.layers, base, parts, pins, plugins, tail)


def net_text(
    net: Net, layers: Sequence[Layer], base: Path, arrays: list[Any] | None = None, *, with_backend: bool = True
) -> str:
    """Return the text of a net file in a folder with a net's options and these layers, whose arrays go to `arrays`."""
    named = {"backend": net.backend.name} if with_backend else {}
    head: Table = {"name": net.name, "seed": net.seed, **named, "dtype": net.dtype}
    head |= {"compute": net.compute_dtype} if net.compute_dtype != net.dtype else {}
    head |= {"deterministic": True} if net.deterministic else {}
    head |= {"insert_splits": True} if net.insert_splits else {}
    head |= {"partition_dim": net.partition_dim} if net.partition_dim else {}
    head |= {"freeze": sorted(net.frozen)} if net.frozen else {}
    plugins = {key: value for key, value in {"pin": net.pins, "kernels": list(net.kernels)}.items() if value}
    return _text(head, layers, base, layers, net.pins, plugins, {}, arrays)


def _text(
    head: Table,
    layers: Sequence[Layer],
    base: Path,
    parts: Sequence[Configured],
    pins: Mapping[str, str],
    plugins: Table,
    tail: Table,
    arrays: list[Any] | None = None,
) -> str:
    with following(pins):  # a name means here what it will mean there
        tables = [file_table(layer, base.absolute(), (), arrays) for layer in layers]
    if require := requirements(plugins.get("require", ()), parts):
        plugins = {**plugins, "require": require}
    return toml_text({**head, "layer": tables, **tail, **({"plugins": plugins} if plugins else {})})


# Making objects from tables


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


@contextmanager
def named_after(path: Path) -> Generator[None]:
    """Put the name of a net file into default paths, in the block."""
    token = net_file.set(path.stem)
    try:
        yield
    finally:
        net_file.reset(token)


def _real(*paths: str | os.PathLike[str]) -> tuple[str, ...]:
    return tuple(map(real_path, paths))


def _places(table: Table) -> Mapping[str, str]:
    """Return for keys of a file that are fields of its solver what to write instead."""
    if all(key in _TOP for key in table):
        return {}
    from ..training.solver import Solver

    names = {**{field.name: field.name for field in Solver.fields()}, **Solver.elsewhere}
    return {key: f"write {name} below [solver], or --set solver.{name}=..." for key, name in names.items()}


def _called(table: Mapping[str, Any], number: int) -> str:
    return layer_name(table) or f"layer {number + 1} ({table.get('type', 'without type')})"


def _make_solver(
    path: Path, table: Table, callbacks: Iterable[Table], cluster: Table | None, given: Mapping[str, Any]
) -> Solver:
    from ..training.solver import Solver

    complaints = Complaints(str(path))
    own = {known.name for known in Solver.fields()} - {"method", "callbacks"}

    def method() -> tuple[Any, Table]:
        cls = registry().open("solver", type_of(table, "solver"))
        fields, parts = divided(
            {key: value for key, value in table.items() if key != "type"}, own, cls, Solver.elsewhere
        )
        return cls(**parts), fields

    made_method = complaints.attempt(method, "[solver]", str(table.get("type")))
    made: list[Callback] = []
    for number, entry in enumerate(callbacks):
        kind = str(entry.get("type", number + 1))
        one = complaints.attempt(partial(_make_callback, entry), f"[[callback]] {kind}", kind)
        made += [one] if one is not None else []
    framework: Table = {}
    if cluster is not None:
        if "framework" in table:
            complaints.about([("both [cluster] and [solver] have a framework", "leave one of them out")])
        found = complaints.attempt(partial(_make_cluster, cluster), "[cluster]", str(cluster.get("type", "")))
        framework = {} if found is None else {"framework": found}
    complaints.end()
    assert made_method is not None
    fields: Table = {"callbacks": made, **made_method[1], **framework, **given}
    solver = complaints.attempt(partial(Solver, made_method[0], **fields), "[solver]", "Solver")
    complaints.end()
    assert solver is not None
    return solver


def _make_cluster(table: Mapping[str, Any]) -> Framework:
    """Make the framework of a table [cluster]: the one of its type, or the one that a plugin offers for such tables."""
    from ..training.framework import Framework

    if "type" in table:
        return make_component(Framework, table)
    return need_default_of("cluster")(**table)


def _make_callback(table: Mapping[str, Any]) -> Callback:
    cls = registry().open("callback", type_of(table, "callback"))
    return cls(**{key: value for key, value in table.items() if key != "type"})
