"""NetOptions: the checked arguments of a net, and the ones that a net file may contain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, cast, get_args

from ..calls.handles import Top
from ..calls.lower import handles_in, lower
from ..discovery.settings import settings
from ..engine.target import Target
from ..errors import ConfigError, brief, nearest
from ..fields.component import component_of
from ..fields.types import whole
from ..graph.containers import names_in
from ..protocols.algorithm import Algorithm
from ..protocols.array import DTYPES, Dtype
from ..protocols.backend import Backend, open_backend
from ..protocols.communicator import Communicator, Group
from ..protocols.layer import PHASES, Layer, PartitionDim, Phase, check_outputs, layer_type, refuse_unwired
from ..protocols.view import Fitted
from .fitted import read_fitted

Fallback = Literal["warn", "error"]

CHOICES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "phase": (PHASES, f"one of {', '.join(PHASES)}"),
    "dtype": (DTYPES, " or ".join(DTYPES)),
    "fallback": (get_args(Fallback), '"warn" or "error"'),
}
"""The options with a fixed set of values: the values, and a text that lists them."""

FILE_OPTIONS: Mapping[str, tuple[type, str]] = {
    "seed": (int, "a whole number"),
    "backend": (str, "a string"),
    "dtype": (str, CHOICES["dtype"][1]),
    "compute": (str, "a string"),
    "fallback": (str, CHOICES["fallback"][1]),
    "deterministic": (bool, "true or false"),
    "insert_splits": (bool, "true or false"),
    "partition_dim": (int, "-1, 0 or 1"),
    "freeze": (list, "a list of names of layers"),
}
"""The options that a net file may have: their types in TOML, and a text for each type."""

TYPES: Mapping[str, tuple[Any, str]] = {
    "name": (str, "a string"),
    "backend": (str | Backend | None, "a Backend, the name of one, or None"),
    "keep": (Iterable, 'a list of names of blobs, or "all"'),
    "input_gradients": (Iterable, "a list of names of blobs"),
    "freeze": (Iterable, "a list of names of layers"),
    "kernels": (Iterable, "a list of names of distributions"),
    "plan": ((Mapping, NoneType), "a table, such as the plan of another net, or None"),
    "pins": ((Mapping, NoneType), "a table {what: distribution}, or None"),
    "communicator": (Communicator | None, "a Communicator, or None"),
    "group": (Group | None, "a Group, or None"),
}
"""The types of other arguments of `Net`, and a text for each."""

HANDED_ON = (
    *("algorithm", "backend", "seed", "dtype", "compute", "deterministic", "insert_splits", "pins", "kernels"),
    *("fallback", "rank", "ranks", "partition_dim", "communicator", "group"),
)
"""The options that derived nets take over."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NetOptions:
    """The checked arguments of `Net`; their meaning is described there.

    `backend` is open, `compute` is a type, `keep` is None for "all"; `pins` and `kernels` include the settings'.
    `communicator` is None for a single rank; `group` is None where all ranks of it do everything together.
    `blobs` has the names of the blobs that handles stand for.
    """

    name: str
    layers: tuple[Layer, ...]
    backend: Backend
    phase: Phase
    seed: int
    dtype: Dtype
    compute: str
    deterministic: bool
    keep: tuple[str, ...] | None
    input_gradients: tuple[str, ...]
    insert_splits: bool
    freeze: tuple[str, ...]
    plan: dict[str, Any]
    pins: dict[str, str]
    kernels: tuple[str, ...]
    fallback: Fallback
    algorithm: Algorithm | None
    fitted: Fitted
    initialise: bool
    allocate: bool
    rank: int
    ranks: int
    partition_dim: int
    communicator: Communicator | None
    group: Group | None
    blobs: Mapping[Top, str]

    @property
    def read_outside(self) -> tuple[str, ...]:
        """The names of the blobs that must be readable from outside, in addition to those that always are."""
        return (*(self.keep or ()), *self.input_gradients)

    def target(self) -> Target:
        """Return the target for which the net's states are made."""
        types = self.dtype, self.compute
        known = self.pins, self.kernels, self.fitted
        where = self.rank, self.ranks, self.communicator
        if self.group is not None and self.phase == "train":
            where = self.group.number, self.group.count, self.group.communicator
        return Target(self.backend, self.phase, self.seed, *types, self.deterministic, *known, *where)

    def handed_on(self) -> dict[str, Any]:
        """Return the options of a derived net."""
        return {name: getattr(self, name) for name in HANDED_ON}


def read_options(given: Mapping[str, Any]) -> NetOptions:
    """Check the arguments of a net, and open its backend.

    Raises:
        ConfigError: names the net, the argument, its value and what it must be.
    """
    net = f"net '{given['name']}'"
    handles = handles_in(net, given["layers"])
    layers = layers_in(net, given["layers"]) if handles is None else ()
    complaints = [*misfits(given), *_other_types(given)]
    communicator = given["communicator"]
    if isinstance(communicator, Communicator):
        given = {**given, "rank": communicator.rank, "ranks": communicator.size}
        if communicator.size == 1 or given["phase"] == "predict":  # which any rank may do by itself
            given |= {"rank": 0, "ranks": 1, "communicator": None, "group": None}
    numbers: dict[str, Any] = {}
    try:
        numbers["seed"] = whole(given["seed"])
    except ValueError:
        complaints.append(f"seed={brief(given['seed'])}, but it must be a whole number")
    try:
        numbers |= {name: whole(given[name]) for name in ("rank", "ranks")}
        if not 0 <= numbers["rank"] < numbers["ranks"]:
            raise ValueError
    except ValueError:
        which = f"rank={brief(given['rank'])} of ranks={brief(given['ranks'])}"
        complaints.append(f"{which}, but it must be a whole number from 0 to ranks - 1")
    try:
        dim = PartitionDim.convert(given["partition_dim"])
        if dim is None:
            raise ValueError
    except ValueError:
        complaints.append(f"partition_dim={brief(given['partition_dim'])}, but it must be {PartitionDim.wants}")
    if complaints:
        raise ConfigError("\n".join(f"{net}: {complaint}" for complaint in complaints))
    if any(isinstance(one, Top) for one in _names(given["keep"])):
        remedy = "give the handle to the net: Net(name, [loss, top])"
        raise ConfigError(f"{net}: keep={brief(given['keep'])}, but it must have names of blobs", remedy)
    keep, blobs = None if given["keep"] == "all" else _names(given["keep"]), dict[Top, str]()
    if handles is not None:
        lowered = lower(net, handles, given["phase"])
        layers, blobs = lowered.layers, lowered.blobs
        keep = None if keep is None else tuple(dict.fromkeys([*keep, *lowered.keep]))
        given = {**given, "insert_splits": given["insert_splits"] or lowered.insert_splits}
    check_outputs(layers)
    freeze = _names(given["freeze"])
    known = set(names_in(layers)) if freeze else set[str]()
    for name in freeze:
        if name not in known:
            raise ConfigError(f"{net}: freeze has '{name}', but no layer has this name{nearest(str(name), known)}")
    backend, settled = open_backend(given["backend"]), settings()
    algorithm = given["algorithm"]
    if algorithm is not None:
        algorithm = component_of(Algorithm, algorithm, f"{net}: algorithm")
    read: dict[str, Any] = {
        "layers": layers,
        "backend": backend,
        "compute": _compute(net, given["compute"], given["dtype"], backend),
        "keep": keep,
        "blobs": blobs,
        "input_gradients": _names(given["input_gradients"]),
        "freeze": freeze,
        "algorithm": algorithm,
        "partition_dim": PartitionDim.convert(given["partition_dim"]),
        "fitted": read_fitted(net, given["fitted"]),
        "plan": deepcopy(dict(given["plan"] or {})),
        "pins": {**settled.pins, **(given["pins"] or {})},
        "kernels": tuple(dict.fromkeys([*settled.kernels, *_names(given["kernels"])])),
    }
    return NetOptions(**{**given, **numbers, **read})


def misfits(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the arguments of a net, or of a net file, that have a fixed set of values."""
    for name, (choices, words) in CHOICES.items():
        if name in given and given[name] not in choices:
            yield f"{name}={brief(given[name])}, but it must be {words}"


def _other_types(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield which arguments of a net are of another type than they must be."""
    for name, (kinds, words) in TYPES.items():
        if not isinstance(given[name], kinds):
            yield f"{name}={brief(given[name])}, but it must be {words}"


def layers_in(net: str, layers: Any) -> tuple[Layer, ...]:
    """Return the layers in a list. Raises ConfigError if it holds anything else; `net` begins the message."""
    if isinstance(layers, Mapping):
        raise ConfigError(
            f"{net}: layers={brief(cast('object', layers))}, but it must be a list",
            "write [layer, ...] or [handle, ...]",
        )
    if not isinstance(layers, Iterable) or isinstance(layers, str):
        one = isinstance(layers, Layer)
        remedy = "put it into a list: [layer]" if one else "write Net(name, [...]) with layers, or with handles"
        raise ConfigError(f"{net}: layers={layers!r}, but it must be a list of layers", remedy)
    found = tuple(cast("Iterable[Any]", layers))
    for one in found:
        if not isinstance(one, Layer):
            remedy = "make a layer of the class: ConvolutionLayer(bottoms=..., tops=..., ...)"
            raise ConfigError(f"{net}: layers holds {one!r}, but every entry must be a layer", remedy)
        refuse_unwired(one, f"{net}: {one.given_name or layer_type(type(one))}")
    return found


def _compute(net: str, compute: str | None, dtype: str, backend: Backend) -> str:
    able = (dtype, *(backend.computes if dtype == "float32" else ()))
    if compute not in (None, *able):
        raise ConfigError(
            f"{net}: compute={compute!r}, but backend '{backend.name}' computes in {', '.join(able)}",
            backend.lacks.get(compute, "leave compute out"),
        )
    return compute or dtype


def _names(names: Any) -> tuple[str, ...]:
    return tuple(cast("Iterable[str]", [names] if isinstance(names, str | Top) else names))
