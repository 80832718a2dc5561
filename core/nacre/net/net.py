"""Net: layers wired by the names of their blobs, at work on one backend."""

from __future__ import annotations

import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from functools import cached_property, partial
from numbers import Integral
from typing import TYPE_CHECKING, Any, cast

from ..discovery.kernels import Choice
from ..discovery.settings import held_settings, settings
from ..engine.memory import Memory
from ..engine.ops import HOST, Op, Value, plain_space
from ..engine.parameters import Slot, names_of, place_parameters
from ..engine.schedule import Schedule, compile_steps
from ..engine.setup import set_up
from ..engine.target import Target
from ..errors import BlobError, ConfigError, DataError, NacreError, TopologyError, nearest
from ..fields.outputs import check_places
from ..fields.whole import misfit, number_text
from ..graph.gradients import check_bp_topology, wanted_gradients
from ..graph.wiring import Wiring, sort, wire
from ..protocols.array import Array
from ..protocols.backend import Backend, HostMemory, Step, open_backend
from ..protocols.graph import Graph
from ..protocols.layer import PHASES, Layer, check_outputs, is_identity
from ..protocols.parameter import Storage, fits
from ..protocols.state import SourceState
from ..protocols.view import View
from .finite import bad_records
from .input import InputLayer, InputState
from .parameters import ParameterHandle, Parameters
from .summary import NetSummary, summarise
from .turns import Turns, in_turn

if TYPE_CHECKING:
    import numpy as np

    from ..snapshots.weights import Loaded, Paths


def _checked_layers(name: str, layers: Any) -> tuple[Layer, ...]:
    if not isinstance(layers, Iterable) or isinstance(layers, str):
        raise ConfigError(f"net '{name}': layers={layers!r}, but it must be a list of layers")
    found = tuple(cast("Iterable[Any]", layers))
    for one in found:
        if not isinstance(one, Layer):
            remedy = "make it: ConvolutionLayer(bottoms=...), or registry().open('layer', 'Convolution')(bottoms=...)"
            raise ConfigError(f"net '{name}': layers holds {one!r}, but every entry must be a layer", remedy)
    return found


class Net:
    """A net of layers in one phase, on one backend.

    Args:
        name: for people.
        layers: in any order; those that exclude the phase are left out.
        backend: a `Backend`, its name, or None for NACRE_BACKEND, else that of `nacre.toml`, else the first usable of
            onednn, numpy.
        phase: train, validation, test or predict.
        seed: of the first weights, masks and orders; see `nacre.random`.
        dtype: float32 or float64, of all blobs that do not say otherwise.
        compute: a narrower type to compute in, where the backend has one, such as "bf16": parameters, their gradients
            and updates, losses, and what layers without a kernel compute stay in `dtype`.
        deterministic: refuse whatever gives other bits from run to run.
        keep: names of blobs that stay readable after a step; "all" keeps all, and switches off sharing and rewriting.
        input_gradients: names of blobs of sources whose gradients are wanted.
        insert_splits: let the net add up the gradients of a blob that feeds several layers.
        freeze: names of layers that keep their parameters from the start, as by `freeze`.
        share: another net on this backend, whose parameters are taken for layers of the same name.
        plan: what an earlier `compile` decided, to be followed.
        pins: settled choices of the registry, such as {"kernel:Pooling@numpy": "nacre-numba"}; they win over those of
            `nacre.toml`.
        kernels: distributions whose kernels may serve though they own neither the layer nor the backend, such as
            ["nacre-fast"], beside those of `nacre.toml`.
        fallback: "warn" runs layers without a kernel through their own state; "error" refuses the copies between
            memories that this costs.
        initialise: False leaves new parameters 0, for whoever puts values into all of them next.
        allocate: False only plans: shapes, parameters and bytes are known, nothing can run.

    Raises:
        TopologyError: the layers cannot be wired.
        ConfigError, ContractError, RegistryError: a layer cannot be set up.
    """

    def __init__(
        self,
        name: str,
        layers: Iterable[Layer],
        *,
        backend: str | Backend | None = None,
        phase: str = "train",
        seed: int = 0,
        dtype: str = "float32",
        compute: str | None = None,
        deterministic: bool = False,
        keep: str | Sequence[str] = (),
        input_gradients: Sequence[str] = (),
        insert_splits: bool = False,
        freeze: Sequence[str] = (),
        share: Net | None = None,
        plan: Mapping[str, Any] | None = None,
        pins: Mapping[str, str] | None = None,
        kernels: Sequence[str] = (),
        fallback: str = "warn",
        initialise: bool = True,
        allocate: bool = True,
    ) -> None:
        self.layers = _checked_layers(name, layers)
        for argument, value, kind, words in (
            ("backend", backend, str | Backend | None, "a Backend, the name of one, or None"),
            ("seed", seed, Integral, "a whole number"),
            ("share", share, Net | None, "another Net"),
        ):
            if not isinstance(value, kind):
                raise ConfigError(f"net '{name}': {argument}={value!r}, but it must be {words}")
        if phase not in PHASES:
            raise ConfigError(f"net '{name}': phase={phase!r}, but it must be one of {', '.join(PHASES)}")
        if dtype not in ("float32", "float64"):
            raise ConfigError(f"net '{name}': dtype={dtype!r}, but it must be float32 or float64")
        self.name = name
        self.turns = Turns(name)
        check_outputs(self.layers)
        self.backend = open_backend(backend)
        able = (dtype, *(self.backend.computes if dtype == "float32" else ()))
        if compute not in (None, *able):
            raise ConfigError(
                f"net '{name}': compute={compute!r}, but backend '{self.backend.name}' computes in {', '.join(able)}",
                self.backend.lacks.get(compute, "leave compute out"),
            )
        self.compute_dtype = compute or dtype
        self.phase = phase
        self.seed = seed
        self.dtype = dtype
        self.deterministic = deterministic
        self.initialise = initialise
        settled = settings()
        self.pins = {**settled.pins, **(pins or {})}
        self.kernels = tuple(dict.fromkeys([*settled.kernels, *kernels]))
        if share is not None and share.backend is not self.backend:
            raise TopologyError(
                f"net '{name}' on backend '{self.backend.name}' cannot share the parameters of net '{share.name}', "
                f"which is on backend '{share.backend.name}'"
            )
        self.plan: dict[str, Any] = deepcopy(dict(plan or {}))
        self.given_plan = deepcopy(self.plan)
        self.target = Target(
            self.backend, phase, seed, dtype, self.compute_dtype, deterministic, self.pins, self.kernels
        )
        self.scalars = self.target.scalars
        self.frozen: set[str] = set()
        self.trainings: weakref.WeakSet[Any] = weakref.WeakSet()
        self.allocated = False
        self._keep = keep
        self._input_gradients = tuple(input_gradients)
        self._insert_splits = insert_splits
        self._fallback = fallback
        self._written: set[str] = set()
        self._pending: dict[str, tuple[np.ndarray, int]] = {}
        self._predictors: dict[Any, Net] = {}
        self._closed = False

        kept = () if keep == "all" else (*self._names(keep), *self._input_gradients)
        graph = sort(Graph.of((layer for layer in self.layers if phase not in layer.exclude), kept))
        if keep != "all":
            graph = sort(self.backend.rewrite(graph))
        self.wiring: Wiring = wire(graph)
        self._check_names()
        wanted = wanted_gradients(self.wiring, self._input_gradients)
        self._bp_problem = self._why_no_backward(wanted)
        self.trains = self._bp_problem is None
        stack = ExitStack()  # a source that is set up may hold a file when another layer fails
        try:
            with held_settings():
                self.ops = set_up(self.target, self.wiring, wanted, stack, trains=self.trains)
            self.node_ops = {op.name: op for op in self.ops if op.neuron is None}
            self._loss_ops = [op for op in self.node_ops.values() if op.layer.has_loss]
            self._loss_totals, self._loss_rows = [0.0] * len(self._loss_ops), 0
            self._schedule(share, allocate)
        except BaseException as error:
            stack.close()
            if isinstance(error, MemoryError):
                message = f"net '{name}' needs more memory than there is: {error}"
                raise NacreError(message, "make the batch or the largest layer smaller") from error
            raise
        self._freeze_first(freeze)

    # Making the net

    def _check_names(self) -> None:
        known = {wire.name for wire in self.wiring.wires}
        for name in (*(() if self._keep == "all" else self._names(self._keep)), *self._input_gradients):
            if name not in known:
                raise TopologyError(f"net '{self.name}' has no blob '{name}'{nearest(name, known)}")

    @staticmethod
    def _names(names: str | Sequence[str]) -> tuple[str, ...]:
        return (names,) if isinstance(names, str) else tuple(names)

    def _why_no_backward(self, wanted: list[bool]) -> NacreError | None:
        if self.phase != "train":
            return TopologyError(f"net '{self.name}' is in phase '{self.phase}', so it goes forward only")
        try:
            check_bp_topology(self.wiring, wanted, insert_splits=self._insert_splits)
        except TopologyError as error:
            return error
        return None

    def view(self, backend: Backend | None = None) -> View:
        """Return this net's view of a backend; of its own unless given."""
        return self.target.view(backend)

    def _schedule(self, share: Net | None, allocate: bool) -> None:
        final = {wire.name: wire for wire in self.wiring.wires}
        losses = {name for node in self.wiring.nodes if node.layer.has_loss for name in node.bottoms}
        unread = {name for name, wire in final.items() if not wire.consumers}
        keep = None if self._keep == "all" else {*self._names(self._keep), *losses, *unread, *self._input_gradients}
        self.memory = Memory(self.ops, self.backend, keep)
        given = {} if share is None else share.storages()
        options = {"trains": self.trains, "initialise": self.initialise, "allocate": allocate}
        self.slots: list[Slot] = place_parameters(self.target, self.ops, given, **options)
        self.schedule = Schedule(self.memory, self.slots)
        handles = [
            ParameterHandle(slot, self._read, self._write_array)
            for slot in sorted(self.slots, key=lambda one: one.order)
        ]
        names = {name: slot.name for name, slot in names_of(self.ops, self.slots).items()}
        self.parameters = Parameters(handles, names, self.name)
        self._make_steps()
        if self._fallback == "error":
            self.schedule.refuse_copies()
        if allocate:
            self._allocate()

    def _make_steps(self) -> None:
        self._steps = self.schedule.passes(trains=self.trains)
        self._steps["feed"].append(Step("rows", self.name, self._count_rows))

    def _allocate(self) -> None:
        self.memory.allocate(self.plan)
        self.allocated = True
        for op in self.ops:
            check_places(op.layer)
            op.state.ready()
        self._compile_passes()

    def _compile_passes(self) -> None:
        self._calls = {name: self.compile(steps) for name, steps in self._steps.items()}
        self._calls["feed and forward"] = self.compile([*self._steps["feed"], *self._steps["forward"]])
        self._calls["spread"] = self.compile([step for step in self._steps["feed"] if step.kind == "copy"])

    def _count_rows(self) -> None:
        counts = [(op.state.rows, op.outputs[0].shape[0]) for op in self.ops if isinstance(op.state, SourceState)]
        if counts:
            # Sources may have batches of different sizes; what counts is the one that is not full.
            short = [rows for rows, batch in counts if rows < batch]
            self.scalars["rows"] = min(short) if short else self._largest_batch

    @cached_property
    def _largest_batch(self) -> int:
        """The rows of the largest blob that sources feed, maybe by way of a layer that joins their batches."""
        fed: dict[int, Value] = {}
        for op in self.ops:
            if isinstance(op.state, SourceState) or any(id(value) in fed for value in op.inputs):
                fed |= {id(value): value for value in op.outputs}
        return max(value.shape[0] for value in fed.values() if value.shape)

    # Passes

    def steps(self, name: str) -> list[Step]:
        """Return the steps of a pass, for an algorithm: "feed" (the sources), "forward" or "backward".

        Raises:
            TopologyError: back-propagation cannot go through this net.
        """
        if name == "backward" and self._bp_problem is not None:
            raise self._bp_problem
        return list(self._steps[name])

    def in_phase(self, phase: str, steps: Iterable[Step]) -> list[Step]:
        """Return the steps of a pass that states run in another phase, one of an algorithm's own ("positive", say)."""

        def turn(to: str) -> Callable[[], None]:
            def call() -> None:
                for view in self.target.views.values():
                    view.phase = to

            return call

        return [Step("phase", phase, turn(phase)), *steps, Step("phase", self.phase, turn(self.phase))]

    @property
    def step(self) -> int:
        """The iteration that masks and shifts are drawn for; a solver counts it, and so must a loop by hand."""
        return int(self.scalars["step"])

    @step.setter
    def step(self, step: int) -> None:
        self.scalars["step"] = step

    def compile(self, steps: Sequence[Step]) -> Callable[[], None]:
        """Make one call of a list of steps."""
        return self.backend.wrap(compile_steps(steps))

    @in_turn("alone")
    def feed(self) -> None:
        """Let the sources give the next batch; blobs written by hand since the last pass stay as written."""
        self._need_memory()
        self._calls["feed"]()
        if self._pending:
            for name, (array, rows) in self._pending.items():
                self._put(name, array)
                if rows < len(array):
                    self.scalars["rows"] = min(self.scalars["rows"], rows)
            self._pending.clear()
            self._calls["spread"]()

    @in_turn("alone")
    def forward(self) -> float:
        """Run the sources and the layers on the next batch; give the loss (0 where there is none)."""
        self._need_memory()
        if self._pending:
            self.feed()
            self._calls["forward"]()
        else:
            self._calls["feed and forward"]()
        return self.count_losses()

    @in_turn("alone")
    def backward(self) -> None:
        """Compute the gradients of the loss of the last `forward`.

        Raises:
            TopologyError: back-propagation cannot go through this net.
        """
        self._need_memory()
        if self._bp_problem is not None:
            raise self._bp_problem
        self._calls["backward"]()

    def loss(self) -> float:
        """Fetch the sum of the losses of the last forward pass."""
        return sum(self.losses().values())

    def losses(self) -> dict[str, float]:
        """Fetch the loss of each loss layer, by layer name, weighted as in the sum."""
        return {op.name: float(op.state.loss) for op in self._loss_ops}

    def count_losses(self) -> float:
        """Fetch the sum of the losses of the last forward pass, and count them for `statistics` if they are several."""
        losses = list(self.losses().values())
        if len(losses) > 1:
            rows = int(self.scalars["rows"])
            self._loss_rows += rows
            self._loss_totals = [total + rows * one for total, one in zip(self._loss_totals, losses, strict=True)]
        return sum(losses)

    @in_turn("training")
    def forward_epoch(self, warn: Callable[[str], object] | None = None) -> float:
        """Run forward over every record of the sources once; give the mean loss a record.

        Statistics are not reset before; the sources begin a new pass. `warn` is told of records whose numbers are not
        all finite, which a layer may pass over without a sign; a Python warning unless given.

        Raises:
            DataError: no source of this net has an end, an `Input` blob has not been written, or the net trains: then
                a pass begins inside a batch.
        """
        self._need_memory()
        if self.phase == "train":
            raise DataError(f"net '{self.name}' is in phase 'train', where a pass over the data begins inside a batch")
        sources = [op.state for op in self.ops if isinstance(op.state, SourceState) and not op.state.endless]
        if not sources:
            raise DataError(f"net '{self.name}' has no source with an end, so it has no passes over its data")
        self.refuse_unwritten()
        for source in sources:
            source.rewind()
        start, total, rows, batches = sources[0].epoch, 0.0, 0, 0
        bad = Counter[str]()
        while sources[0].epoch == start:
            try:
                self.feed()
                bad.update(bad_records(self.memory))
                self._calls["forward"]()
            except DataError as error:
                self.tell(error, f"phase '{self.phase}', batch {batches}")
                raise
            batches += 1
            total += self.count_losses() * int(self.scalars["rows"])
            rows += int(self.scalars["rows"])
        for blob, count in bad.items():
            message = f"{blob}: not all numbers of {count} of {rows} records are finite"
            (warn or partial(warnings.warn, stacklevel=2))(f"{message}, so loss and statistics mean little")
        return total / rows

    def tell(self, error: DataError, when: str) -> None:
        """Let an error about a batch say when it was, and who gave it."""
        names = [f"'{op.name}'" for op in self.ops if op.is_source]
        error.args = (f"{when} of layer{'s' * (len(names) > 1)} {', '.join(names)}: {error.args[0]}",)

    @property
    def epoch(self) -> int:
        """How many passes over its data the first source that has an end has ended."""
        ended = (op.state.epoch for op in self.ops if isinstance(op.state, SourceState) and not op.state.endless)
        return next(ended, 0)

    def statistics(self) -> dict[str, dict[str, float]]:
        """Return the statistics since the last reset: {layer: {statistic: value}}.

        Where there are several loss layers, each has the statistic "loss" too: the mean loss a record.
        """
        found = {op.name: op.state.dump_statistics() for op in self.ops if op.neuron is None and op.layer.has_stats}
        if len(self._loss_ops) > 1:
            for op, total in zip(self._loss_ops, self._loss_totals, strict=True):
                found[op.name] = {"loss": total / max(self._loss_rows, 1), **found.get(op.name, {})}
        return found

    def reset_statistics(self) -> None:
        """Start all statistics anew."""
        self._loss_totals, self._loss_rows = [0.0] * len(self._loss_ops), 0
        for op in self.ops:
            if op.neuron is None and op.layer.has_stats:
                op.state.reset_statistics()

    # Blobs and parameters from outside

    @in_turn("alone")
    def blob(self, name: str) -> np.ndarray:
        """Return a read-only copy of a blob as the last pass left it.

        Raises:
            BlobError: the net has no such blob, or does not keep it.
        """
        value = self._known(name)
        if not value.pinned:
            raise BlobError(
                f"blob '{name}' is not kept after a step: its memory may hold something else by now",
                f"make the net with keep=('{name}',), or keep='all'",
            )
        return self._read(self.memory.array(value, plain_space(self.backend)))

    @in_turn("alone")
    def gradient(self, name: str) -> np.ndarray:
        """Return a read-only copy of the gradient of a blob, as the last backward pass left it.

        Of a source's blob it is the gradient of what the source gave, before any layer changed it in place.

        Raises:
            BlobError: the blob has no gradient, or the net does not keep it.
        """
        op, first = self._first(name)
        value = first if op.is_source else self.memory.final[name]
        if value.gradient is None:
            hint = f"make the net with input_gradients=('{name}',)" if self.trains else ""
            raise BlobError(f"nobody wants the gradient of blob '{name}', so it is not computed", hint)
        if not value.gradient.pinned:
            raise BlobError(
                f"the gradient of blob '{name}' is not kept after a step: its memory may hold something else by now",
                f"make the net with keep=('{name}',), or keep='all'",
            )
        return self._read(self.memory.array(value.gradient, plain_space(self.backend)))

    @in_turn("alone")
    def write(self, name: str, array: Any) -> None:
        """Write a blob of a source, for the next forward pass; fewer rows than the batch are filled up with the last.

        Raises:
            BlobError: no source of the net writes this blob.
            DataError: the shape does not fit.
        """
        import numpy as np

        op, value = self._first(name)
        if not op.is_source:
            raise BlobError(f"blob '{name}' is computed by layer '{op.name}'; only blobs of sources can be written")
        given = np.asarray(array)
        rows = given.shape[0] if given.ndim else 0
        if given.shape[1:] != value.shape[1:] or not 0 < rows <= value.shape[0]:
            raise DataError(f"blob '{name}' has the shape {value.shape}, but the array written has {given.shape}")
        if given.dtype.kind not in "fiub":
            raise DataError(f"blob '{name}' takes numbers, but the array written is of {given.dtype}")
        full = np.empty(value.shape, value.dtype)
        if (place := misfit(given, full.dtype)) is not None:
            told = f"{number_text(given.reshape(-1)[place])} in row {place // (given.size // rows)}"
            raise DataError(f"blob '{name}' takes whole numbers ({value.dtype}), but others were written: {told}")
        full[:rows] = given
        full[rows:] = given[-1]
        if isinstance(op.layer, InputLayer):
            op.state.rows = rows  # pyright: ignore[reportAttributeAccessIssue] (an InputLayer's is a SourceState)
        self._pending[name] = (full, rows)
        self._written.add(name)
        self._put(name, full)

    def unwritten(self) -> list[str]:
        """Return the blobs of `Input` layers that nobody has written yet: they are zero."""
        tops = [top for op in self.ops if isinstance(op.state, InputState) for top in op.layer.tops]
        return [top for top in tops if top not in self._written]

    def refuse_unwritten(self) -> None:
        """Raise a DataError if the net would be trained or tested on the zeros of a blob that nobody has written."""
        read = {value.name for op in self.ops for value in op.inputs}
        if blobs := [blob for blob in self.unwritten() if blob in read]:
            raise DataError(
                f"net '{self.name}' has no data: nobody has written {', '.join(map(repr, blobs))}, which its Input "
                "layers give",
                f"write them before (net.write({blobs[0]!r}, x)), or take a source with data, such as HDF5Data",
            )

    def _put(self, name: str, full: np.ndarray) -> None:
        """Write a blob where its source writes it."""
        value = self._first(name)[1]
        array = self.memory.array(value, value.space)
        owner = HostMemory.shared() if value.space == HOST else self.backend
        owner.from_host(full, array)

    def _first(self, name: str) -> tuple[Op, Value]:
        """Return a blob as its first writer leaves it: in-place layers and neurons make later versions."""
        self._known(name)
        return next((op, value) for op in self.ops for value in op.outputs if value.name == name)

    def _known(self, name: str) -> Value:
        self._need_memory()
        if name not in self.memory.final:
            raise BlobError(f"net '{self.name}' has no blob '{name}'{nearest(name, self.memory.final)}")
        return self.memory.final[name]

    def _need_memory(self) -> None:
        if not self.allocated:
            raise BlobError(f"net '{self.name}' was made with allocate=False: it has shapes, but no memory")
        if self._closed:
            raise BlobError(f"net '{self.name}' is shut down")

    @in_turn("whole")
    def _read(self, array: Array) -> np.ndarray:
        host = self.backend.to_host(array)
        host.flags.writeable = False
        return host

    @in_turn("alone")
    def _write_array(self, value: Any, array: Array, where: str) -> None:
        import numpy as np

        try:
            host = np.asarray(value, dtype=str(array.dtype))
        except (TypeError, ValueError) as error:
            raise DataError(f"{where} takes numbers of shape {tuple(array.shape)}, not {value!r:.60}") from error
        if not fits(host.shape, tuple(array.shape)):
            raise DataError(f"{where} has the shape {tuple(array.shape)}, but the array written has {host.shape}")
        self.backend.from_host(np.ascontiguousarray(host.reshape(array.shape)), array)

    @in_turn("training")
    def freeze(self, *names: str) -> None:
        """Let layers keep their parameters: their gradients are not computed, and the solver leaves them.

        Raises:
            TopologyError: the net has no such layer.
            NacreError: the net is being trained.
        """
        self._set_frozen(self.frozen | self._owners(names))

    def _freeze_first(self, names: Sequence[str]) -> None:
        known = {layer.name for layer in self.layers}
        for name in names:
            if name not in known:
                near = nearest(str(name), known)
                raise ConfigError(f"net '{self.name}': freeze names '{name}', which is no layer{near}")
        here = [name for name in names if name in self.node_ops]
        if here and self.trains:
            self.freeze(*here)

    @in_turn("training")
    def unfreeze(self, *names: str) -> None:
        """Let frozen layers learn again."""
        self._set_frozen(self.frozen - self._owners(names))

    def _set_frozen(self, frozen: set[str]) -> None:
        if self.trainings:
            raise NacreError(f"net '{self.name}' is being trained; freeze layers before the training starts")
        self.frozen = frozen
        for slot in self.slots:
            slot.freeze(slot.layer in frozen)
        if self.allocated:
            for op in self.ops:
                if op.state.parameters:
                    op.state.ready()
            self._make_steps()
            self._compile_passes()

    def _owners(self, names: Sequence[str]) -> set[str]:
        """Return the layers, and those by whose names their shared parameters go."""
        for name in names:
            if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TopologyError(f"layers are named by texts, not by {name!r}", "net.freeze('conv1', 'conv2')")
            if name not in self.node_ops:
                raise TopologyError(f"net '{self.name}' has no layer '{name}'{nearest(name, self.node_ops)}")
        shared = [
            (slot.layer, self.ops[one.order].name) for slot in self.slots for one in slot.parameters if not one.tied
        ]
        return {*names, *(owner for owner, name in shared if name in names)}

    @in_turn("training")
    def load(self, path: Paths, *, strict: bool = True, rename: Mapping[str, str] | None = None) -> Loaded:
        """Take parameters and buffers from trained nets, by the names of their layers and parameters.

        Args:
            path: a snapshot's file, or a folder for the newest in it; or several, of which a later one wins.
            strict: whether every parameter must be found, and every value used; else what fits is taken.
            rename: {name there: name here}, of layers ("ip1") or parameters ("ip1/weight"); "" passes them over.

        Returns:
            What was loaded, missing, left over or of another shape; printed, it is a table.

        Raises:
            SnapshotError: nothing fits, or with `strict` not all; the net is as it was then. Or a file cannot be read.
        """
        from ..snapshots.weights import match_weights

        self._need_memory()
        shapes, sharers = self.parameters.shapes(), self.parameters.sharers()
        loaded, values = match_weights(self.name, shapes, sharers, path, strict=strict, rename=rename)
        for name, value in values.items():
            self.parameters[name].value = value
        return loaded

    # What snapshots record

    def backends(self) -> list[Backend]:
        """Return the backends that compute in this net: its own, and those of its kernels."""
        return list(dict.fromkeys([self.backend, *(op.backend for op in self.ops)]))

    def storages(self) -> dict[str, Storage]:
        """Return the memory of every parameter, by each name that it has."""
        return {name: slot.storage for name, slot in names_of(self.ops, self.slots).items()}

    def owners(self) -> dict[str, Any]:
        """Return the states of the layers, which may have a memory, by the names that snapshots give them."""
        return {f"layer.{op.name}": op.state for op in self.node_ops.values()}

    def working(self) -> dict[str, tuple[Any, Choice | None]]:
        """Return the layers and neurons at work, and the choice of a kernel for each; a neuron's may be its layer's."""
        found: dict[str, tuple[Any, Choice | None]] = {}
        for op in self.ops:
            if op.neuron is not None:
                found[f"neuron.{op.name.rpartition('/')[0]}"] = (op.neuron, op.choice)
                continue
            found[f"layer.{op.name}"] = (op.layer, op.choice)
            layer = op.state.layer  # after a rewrite
            if op.kernel and layer.has_neuron and not is_identity(layer.neuron) and op.state.fuses_neuron(layer.neuron):
                found[f"neuron.{op.name}"] = (layer.neuron, op.choice)
        return found

    # Derived nets

    def derive(self, phase: str, layers: Iterable[Layer] | None = None, *, name: str = "", **options: Any) -> Net:
        """Make a net of another phase that shares this one's parameters, and its turns where there are several threads.

        It has this net's options too, unless others are given; but not those that speak of this net's own blobs, plan
        and first values: `keep`, `input_gradients`, `plan` and `initialise`.

        Args:
            phase: train, validation, test or predict.
            layers: this net's layers, unless given.
            name: for people; this net's name and the phase unless given.
            options: other arguments of `Net`.
        """
        chosen = self.layers if layers is None else tuple(layers)
        names = {layer.name for layer in chosen}
        handed_on: dict[str, Any] = {
            "backend": self.backend,
            "seed": self.seed,
            "dtype": self.dtype,
            "compute": self.compute_dtype,
            "deterministic": self.deterministic,
            "insert_splits": self._insert_splits,
            "freeze": sorted(self.frozen & names),
            "share": self,
            "pins": self.pins,
            "kernels": self.kernels,
            "fallback": self._fallback,
            "allocate": self.allocated,
        }
        net = Net(name or f"{self.name} ({phase})", chosen, phase=phase, **handed_on | options)
        net.turns = self.turns
        return net

    @in_turn("whole")
    def predict(self, data: Any, output: str | Sequence[str] = "", *, batch_size: int = 0) -> Any:
        """Run any number of records through the layers that `output` needs, in phase `predict`.

        Sources are replaced by `data`, which passes the same transformers; parameters are shared.

        Args:
            data: an array (records, ...), or {blob: array} where the net needs several.
            output: name of a blob, or several; the blobs that nobody reads unless given.
            batch_size: records at a time; as in this net unless given.

        Returns:
            A NumPy array with one row for each record; {blob: array} for several outputs.

        Raises:
            DataError: the data do not fit the net.
            TopologyError: no layer writes the output in phase `predict`.
        """
        from .predict import predict

        self._need_memory()
        return predict(self, data, output, batch_size, self._predictors)

    # Showing and ending

    @in_turn("whole")
    def shutdown(self) -> None:
        """Shut down every state; the net cannot run any more. May be called twice.

        Its parameters stay with the layers, and with the other nets that have them.
        """
        self._closed = True
        with ExitStack() as all_of_it:  # one that raises keeps none of the others open
            for op in self.ops:
                all_of_it.callback(op.state.shutdown)
            for net in self._predictors.values():
                all_of_it.callback(net.shutdown)

    @property
    def closed(self) -> bool:
        """Whether it was shut down."""
        return self._closed

    def __enter__(self) -> Net:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def summary(self) -> NetSummary:
        """Return what there is to know of this net; nothing is allocated for it."""
        return summarise(self.name, self.target, self.wiring, self.schedule, trains=self.trains)

    def __str__(self) -> str:
        return str(self.summary())

    def _repr_svg_(self) -> str:
        """Return the drawing that notebooks show."""
        from .drawing import svg

        return svg(self.summary())

    def __repr__(self) -> str:
        return f"<Net '{self.name}', {len(self.wiring.nodes)} layers, {self.phase}, on {self.backend.name}>"
