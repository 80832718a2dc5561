"""Net: layers connected by the names of their blobs, and run on one backend."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ..arguments import check_count, how_to_call
from ..calls.handles import Handle, Top
from ..discovery.blame import answered, blaming
from ..discovery.kernels import Choice
from ..discovery.registry import registry
from ..discovery.settings import held_settings
from ..engine.collectives import Collectives
from ..engine.joining import join
from ..engine.memory import Memory, Need, enough_memory, too_large
from ..engine.ops import members, working
from ..engine.parameters import initialise, names_of, place_parameters
from ..engine.schedule import Schedule
from ..engine.setup import set_up
from ..engine.shares import Shares
from ..errors import ConfigError, NacreError, TopologyError, brief
from ..fields.component import Written
from ..fields.outputs import check_places
from ..fields.types import whole
from ..graph.containers import expand
from ..graph.gradients import wanted_gradients, why_no_backward
from ..graph.partition import is_divided
from ..graph.wiring import check_names, results, sort, wire
from ..protocols.algorithm import Algorithm
from ..protocols.array import Dtype
from ..protocols.backend import Backend, Step
from ..protocols.communicator import Communicator, Group
from ..protocols.graph import Graph
from ..protocols.layer import Layer, Phase
from ..protocols.parameter import Storage
from ..protocols.view import Fitted, View, bytes_wanted, joined_rows
from .access import NetAccess
from .blobs import Blobs
from .carried import Carried
from .division import Division, divide, part_of_batches, refuse_across_records
from .finite import Watch
from .options import Fallback, NetOptions, layers_in, read_options
from .parameters import Parameters
from .passes import Passes
from .sources import Sources
from .statistics import Statistics
from .summary import NetSummary, summarise
from .team import Team
from .turns import Turns, in_turn

if TYPE_CHECKING:
    from ..protocols.communicator import Communicator
    from ..snapshots.weights import Loaded, Paths
    from ..training.training import Training


class Net(NetAccess):
    """A net of layers in one phase, on one backend.

    Args:
        name: a name for messages.
        layers: in any order; those that exclude the phase are left out. Or what calls of layers returned: then the net
            is made of all that these handles need, and the tops among them stay readable.
        backend: a `Backend`, its name, or None. With None it is that of NACRE_BACKEND, else that of `nacre.toml`, else
            the usable backend with the highest preference.
        phase: train, validation, test or predict.
        seed: of the first weights, masks and orders; see `nacre.random`.
        dtype: float32 or float64, for all blobs that declare no type themselves.
        compute: a narrower type to compute in, such as "bf16", if the backend has it. Parameters, their gradients and
            updates, losses, and layers without a kernel still use `dtype`.
        deterministic: use only code whose results have the same bits in every run.
        keep: names of blobs that stay readable after a step; "all" keeps all, and switches off sharing and rewriting.
        input_gradients: names of blobs of sources whose gradients are computed too.
        insert_splits: let the net add up the gradients of a blob that feeds several layers.
        freeze: names of layers that are frozen from the start, as with the method `freeze`.
        share: another net on this backend; layers of the same name use its parameters.
        plan: decisions of a backend for an earlier net, to be followed (`net.plan`).
        pins: fixed choices of the registry, such as {"kernel:Pooling@numpy": "nacre-numba"}; they have priority over
            those of `nacre.toml`.
        kernels: distributions whose kernels may be used although they own neither the layer nor the backend, such as
            ["nacre-fast"]; those of `nacre.toml` are added.
        fallback: "warn" runs layers without a kernel through their own state; "error" refuses the copies between
            memories that this needs.
        algorithm: the one that will train the net, if it rewrites the graph, such as one for layers in a circle; a net
            file gives that of [solver].
        fitted: what sources learned from the training data, {top: {key: value}}: that of the training net
            (`net.fitted`) or of a snapshot (`snapshot.fitted()`). It is used as it is; only a net in phase `train`
            learns what is missing.
        initialise: False leaves new parameters 0, for callers that write all of them next.
        allocate: False only plans: shapes, parameters and bytes are known, but nothing can run.
        rank, ranks: this process's number and how many there are, of several that compute parts of the same batches:
            sources feed its part of them.
        communicator: connects these processes, whose `rank` and `ranks` are then its own. Every pass is one of all of
            them: losses are divided by what counts on all ranks, and `count_losses` and `statistics` are of all.
        group: which of them train a batch together, if not all do: what the training's `Framework.group` returns.
        partition_dim: how layers are divided among the ranks that do not say it themselves: -1 or "whole" (on one
            rank), 0 or "batch", 1 or "features".

    Raises:
        TopologyError: the layers cannot be connected.
        ConfigError, ContractError, RegistryError: a layer cannot be set up.
    """

    @how_to_call("Net(name, layers, backend=..., phase=..., seed=..., ...)")
    @held_settings()
    def __init__(
        self,
        name: str,
        layers: Iterable[Layer | Handle] | Handle,
        *,
        backend: str | Backend | None = None,
        phase: Phase = "train",
        seed: int = 0,
        dtype: Dtype = "float32",
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
        fallback: Fallback = "warn",
        algorithm: Algorithm | Written | None = None,
        fitted: Fitted | None = None,
        initialise: bool = True,
        allocate: bool = True,
        rank: int = 0,
        ranks: int = 1,
        partition_dim: int | str = 0,
        communicator: Communicator | None = None,
        group: Group | None = None,
    ) -> None:
        options = read_options({key: value for key, value in locals().items() if key not in ("self", "share")})
        self.name, self.layers, self.backend = options.name, options.layers, options.backend
        self.phase: Phase = options.phase
        self.dtype: Dtype = options.dtype
        self.compute_dtype, self.seed, self.deterministic = options.compute, options.seed, options.deterministic
        self.pins, self.kernels, self.algorithm = options.pins, options.kernels, options.algorithm
        self.insert_splits, self._handles = options.insert_splits, options.blobs
        self.partition_dim = options.partition_dim
        self.plan, self.given_plan = options.plan, deepcopy(options.plan)
        self.target = options.target()
        self.scalars = self.target.scalars
        self.turns = Turns(self.name)
        self.frozen: set[str] = set()
        self.trainings: weakref.WeakSet[Any] = weakref.WeakSet()
        self.allocated = False
        self.division: Division | None = None
        self._options = options
        self.backend_named = bool(backend)
        self._predictors: dict[Any, Team] = {}
        self._closed = False
        given = _parameters_of(share, options)
        if not self.layers:
            raise ConfigError(f"net '{name}': layers is empty", "write Net(name, [loss, ...]) with layers or handles")
        with blaming():
            self._make(options, given)
        known = self._layer_names() if self.trains and options.freeze else ()
        if here := [name for name in options.freeze if name in known]:
            self.freeze(*here)

    def _make(self, options: NetOptions, given: Mapping[str, Storage]) -> None:
        """Make the net: from layers to calls, downwards. docs/inside.md has a picture of it."""
        # layers -> graph: without containers, rewritten by the algorithm, sorted, and rewritten by the backend
        here = Graph.of((one for one in self.layers if self.phase not in one.exclude), options.read_outside)
        graph = sort(expand(here, self.phase, self.algorithm), self.layers, self.phase)
        if options.ranks > 1:
            graph = self._divide(graph, options)
        read_outside = graph.keep
        if options.keep is not None:
            rewritten = self.backend.rewrite(graph)
            graph = sort(answered(self.backend, "rewrite", rewritten, Graph, "a Graph, such as the one it got"))

        # graph -> wiring: which layers write and read each version of a blob, and which gradients are needed
        self.wiring = wire(graph)
        check_names(self.name, self.wiring, read_outside)
        wanted = wanted_gradients(self.wiring, options.input_gradients)
        if self.division is None:
            bp_problem = why_no_backward(self.name, self.phase, self.wiring, wanted, options.insert_splits)
        else:
            bp_problem = self.division.problem
        self.trains = bp_problem is None

        with self.enough_memory(), ExitStack() as stack:  # a source may hold a file open when a later layer fails
            # wiring -> ops: the states of layers and neurons
            self.ops = set_up(self.target, self.wiring, wanted, stack, trains=self.trains)
            refuse_across_records(self.ops, self.layers)
            keep = None if options.keep is None else {*read_outside, *results(self.wiring)}
            self.ops = join(self.ops, keep if self.division is None else None, stack)
            self.node_ops = {op.name: op for op in members(self.ops) if op.neuron is None}

            # ops -> lifetimes, and memory for the parameters
            self.memory = Memory(self.ops, self.backend, keep)
            how = {"trains": self.trains, "initialise": options.initialise, "allocate": options.allocate}
            self.slots = place_parameters(self.target, self.ops, given, **how)
            self._make_accessors(options)

            # lifetimes -> steps, with the copies between memories
            shares = self._shares if self._collectives is None else self._collectives
            self.schedule = Schedule(self.memory, self.slots, shares)
            known = self.schedule, self.target, self._sources.rows_step(), bp_problem
            self._passes = Passes(self.name, *known, self._too_large, self._collectives)
            if options.fallback == "error":
                self.schedule.refuse_copies()

            # lifetimes -> memory, steps -> calls
            if options.allocate:
                self._allocate()
            stack.pop_all()  # no error: from here on `shutdown` closes the states

    def _divide(self, graph: Graph, options: NetOptions) -> Graph:
        """Return this rank's graph of a net that is divided among ranks, or whose batches are."""
        if not is_divided(graph.nodes, options.partition_dim):
            self.target = replace(self.target, part=part_of_batches(self.name, graph))
            return graph
        if options.group is not None:
            message = f"net '{self.name}' is divided among all ranks, so these cannot train it in groups"
            raise ConfigError(message, "leave the framework out, or do not divide it")
        given = options.ranks, options.partition_dim, options.input_gradients
        self.division = divide(self.name, self.target, graph, *given, insert_splits=options.insert_splits)
        self.target = replace(self.target, whole=self.division.parameters, between=options.communicator)
        here = self.division.partition.graphs[options.rank]
        tops = {top for node in here.nodes for top in node.tops}
        return sort(replace(here, keep=graph.keep & tops))

    def _allocate(self) -> None:
        self.memory.allocate(self.plan)
        self.allocated = True
        for op in self.ops:
            check_places(op.layer)
            op.ready()
        self._sources.note_first()
        self._passes.compile_all()

    def allocate(self) -> None:
        """Give a net that was only planned (`allocate=False`) its memory, so that it can run.

        Raises:
            ConfigError: it has parameters, or it has its memory already.
        """
        if self.slots or self.allocated:
            has = "its memory already" if self.allocated else f"parameters ({self.slots[0].name})"
            raise ConfigError(f"net '{self.name}' has {has}", "make it without allocate=False")
        with self.enough_memory():
            self._allocate()

    def reallocate(self) -> None:
        """Move all blobs to other memory; parameters stay where they are. What blobs held is lost."""
        self._need_memory()
        for op in self.ops:
            op.release()
        self._passes.done.clear()
        self._passes.arrange()  # steps may have kept arrays
        with self.enough_memory():
            self._allocate()

    def enough_memory(self) -> AbstractContextManager[None]:
        """Return a context in which a MemoryError becomes one that says what this net needs."""
        return enough_memory(self.name, self._free_memory(), self._need)

    def _need(self, more: int = 0) -> Need | None:
        """Return what this net needs, and so many bytes more; None before its memory was planned."""
        own = sum(bytes_wanted(view) for view in self.target.views.values()) + self.backend.held_memory()
        return Need.of(self.memory, own + more) if hasattr(self, "memory") else None

    def _free_memory(self) -> tuple[int, int] | None:
        """Return how much memory of a device would be free without this net, and how much it has."""
        free = self.backend.free_memory()
        need = self._need() if self.allocated and free is not None else None
        return free if free is None or need is None else (min(free[0] + need.every, free[1]), free[1])

    def _too_large(self, error: MemoryError) -> NacreError | None:
        """Return the error of a pass for which a device has too little memory; None where there is no device."""
        free = self._free_memory()
        return free and too_large(self.name, error, free, self._need(getattr(error, "size", 0)), runs=True)

    def _make_accessors(self, options: NetOptions) -> None:
        """Make the objects that read and write blobs, sources, statistics and parameters."""
        self.communicator = options.communicator
        self._shares = self._collectives = None
        self.group = options.group if self.phase == "train" else None
        if self.communicator is not None:
            if self.division is None:
                if self.target.communicator is not None:
                    self._shares = Shares(self.target.communicator, self.ops, self.view())
            else:
                known = self.view(), self.ops, self.slots
                self._collectives = Collectives(
                    self.name, self.communicator, *known, self.division.losses, self.division.counting
                )
        self._blobs = Blobs(self.name, self.memory, trains=self.trains)
        self._sources = Sources(
            self.name, self.phase, self.memory, self.scalars, self._blobs, self._shares, self._collectives
        )
        between = self.communicator if self.division is None else None
        self._statistics = Statistics(
            self.node_ops.values(), self.scalars, self._shares, self._collectives, between, apart=self.group is not None
        )
        self._carried = Carried(op.state for op in self.node_ops.values())
        others = {} if self.division is None else self.division.elsewhere(self.slots)
        known = self._read, self._write_array, others, self.communicator if self.division is not None else None
        self.parameters = Parameters(self.name, self.slots, *known)

    @property
    def rank(self) -> int:
        """This process's number among `ranks` of them."""
        return self._options.rank

    @property
    def ranks(self) -> int:
        """How many processes there are."""
        return self._options.ranks

    @property
    def rows(self) -> int:
        """How many records of the last batch are real, on all ranks together."""
        return self._sources.rows if self.group is None else joined_rows(self.view(), int(self.scalars["rows"]))[1]

    def layers_in(self, phase: str) -> dict[str, Layer]:
        """Return the layers that run in a phase by their names, those of containers by their full names."""
        here = Graph.of(layer for layer in self.layers if phase not in layer.exclude)
        return {node.name: node.layer for node in expand(here, phase, self.algorithm).nodes}

    def view(self, backend: Backend | None = None) -> View:
        """Return this net's view of a backend; by default of its own."""
        return self.target.view(backend)

    # Passes

    @how_to_call("net.steps(name)")
    def steps(self, name: str) -> list[Step]:
        """Return the steps of a pass, for an algorithm: "feed" (the sources), "forward" or "backward".

        Raises:
            ConfigError: there is no such pass.
            TopologyError: back-propagation is not possible in this net.
        """
        return self._passes.steps(name)

    def in_phase(self, phase: str, steps: Iterable[Step]) -> list[Step]:
        """Return the steps of a pass in which states see another phase, such as an algorithm's own phase "positive".

        Where that is not "train", layers do what they do outside of training. Sources stay in the net's phase: their
        batches may have been made before.
        """
        return self._passes.in_phase(phase, steps)

    @property
    def step(self) -> int:
        """The iteration for which masks and shifts are drawn; a solver counts it, a loop of your own must set it.

        What is set is also the number of iterations that a saved net tells; after a training it tells the solver's.
        """
        return int(self.scalars["step"])

    @step.setter
    def step(self, step: int) -> None:
        check_count("step", step, 0)
        self.scalars["step"] = self.parameters.iterations = int(step)

    @how_to_call(
        'net.compile(steps), which authors of algorithms use; net.fit(x, y, solver="Adam", lr=0.001) needs none'
    )
    def compile(self, steps: Sequence[Step]) -> Callable[[], None]:
        """Return one function that runs a list of steps."""
        if not isinstance(steps, Sequence) or not all(isinstance(step, Step) for step in steps):  # pyright: ignore[reportUnnecessaryIsInstance]
            remedy = 'give net.steps("forward"); net.fit(x, y, solver="Adam", lr=0.001) needs no compile before'
            raise ConfigError(
                f"net.compile: steps={brief(steps)}, but it must be a list of the steps of passes", remedy
            )
        return self._passes.compile(steps)

    def compile_ahead(self, steps: Sequence[Step]) -> Callable[[], None]:
        """Return what `compile` returns, but one that waits for no device.

        Whether the bottoms were what layers require is to be looked at later, by `send_required` of the net's target.
        """
        return self._passes.compile(steps, checked=False)

    @in_turn("alone")
    def feed(self) -> None:
        """Run the sources, which write the next batch; blobs written by hand since the last pass stay as written."""
        self._need_memory()
        self._sources.feed(self._passes.calls)

    @in_turn("alone", "net.forward(), after net.write(name, array) for each Input")
    def forward(self) -> float:
        """Run the sources and the layers on the next batch; return the loss (0 if there is none)."""
        self._need_memory()
        if self._blobs.fresh:
            self._sources.feed(self._passes.calls)
            self._passes.calls["forward"]()
        else:
            self._passes.calls["feed and forward"]()
        return self._statistics.count_losses()

    @property
    def computes_alone(self) -> bool:
        """Whether in `forward` only code of the backend computes that may run beside other passes.

        None of a layer's own state or of another backend, nor of kernels that the backend calls alone.
        """
        return self._passes.computes_alone

    @in_turn("alone")
    def backward(self) -> None:
        """Compute the gradients of the loss of the last `forward`.

        Raises:
            TopologyError: back-propagation is not possible in this net.
        """
        self._need_memory()
        self._passes.need_backward()
        self._passes.calls["backward"]()

    @in_turn("training")
    def find_nan(self) -> None:
        """Run all passes step by step from now on, and stop at the first number that is not finite.

        The error names the layer that wrote it. Passes take much longer.

        Raises:
            NotFiniteError: from any pass, and from a training that starts after this.
            NacreError: the net is being trained.
        """
        self._refuse_trained("its passes cannot be run in another way")
        self._passes.watch = Watch(self.memory, self.slots, self.scalars)
        if self.allocated:
            self._passes.compile_all()

    def agree_on_epoch(self) -> None:
        """Let the ranks of a divided net agree on how many passes over the data are complete; collective."""
        if self._collectives is not None:
            self._collectives.agree_on_epoch()

    def advance(self) -> None:
        """Let states take over what the last `forward` has left for the next batch, such as the states of sequences.

        A training does so after every batch, and so do passes over the data and `predict`.
        """
        if self._carried.advances:  # most nets carry nothing, and a training asks after every batch
            self._advance()

    @in_turn("alone")
    def _advance(self) -> None:
        self._carried.advance()

    @property
    def carries(self) -> bool:
        """Whether a state carries something from batch to batch."""
        return bool(self._carried)

    @in_turn("alone")
    def rewind(self) -> None:
        """Let states forget earlier batches, so that the next one is the first; sources stay where they are."""
        self._carried.rewind()

    @in_turn("training")
    def forward_epoch(
        self, warn: Callable[[str], object] | None = None, each: Callable[[], object] | None = None
    ) -> float:
        """Run forward over every record of the sources once; return the mean loss per record.

        Of a loss that ignores labels it is the mean over those that it does not ignore, whatever the batches.
        Statistics are not reset before. The sources begin their first pass again, with the order and the random numbers
        of that one: with the same parameters every call finds the same, whatever ran before. `warn` is called with a
        message about records with numbers that are not finite, because layers may hide these; by default it is a Python
        warning. `each` is called after each batch, whose blobs can then be read.

        Raises:
            DataError: no source of this net has an end, an `Input` blob has not been written, or the net is in phase
                `train`, where a pass begins inside a batch.
        """
        self._need_memory()
        return self._sources.forward_epoch(self._passes.calls, self._statistics, self._carried, warn, each)

    # Parameters of other nets

    @in_turn("training")
    def load(self, path: Paths, *, strict: bool = True, rename: Mapping[str, str] | None = None) -> Loaded:
        """Load parameters and buffers from trained nets, by the names of their layers and parameters.

        Args:
            path: a snapshot's file, a saved net's, or a folder, which means its newest snapshot; or several, of which
                later ones win.
            strict: whether every parameter must be found, and every value used; else only what fits is loaded.
            rename: {name there: name here}, of layers ("ip1") or parameters ("ip1/weight"); "" skips them.

        Returns:
            What was loaded, missing, unused or of another shape; printed, it is a table.

        Raises:
            SnapshotError: nothing fits, or with `strict` not all of it, or a file cannot be read; the net is unchanged.
        """
        from ..snapshots.weights import match_weights

        self._need_memory()
        known = self.parameters
        names = known.sharers(), known.former
        loaded, values = match_weights(self.name, known.shapes(), *names, path, strict=strict, rename=rename)
        known.write(values)
        if loaded.iterations is not None:
            known.iterations = loaded.iterations
        return loaded

    # Nets as values

    @in_turn("whole")
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write this net into one file, which `nacre.load` reads: layers, parameters, and what is known of the data.

        Inputs stand for the sources; what these do to records is in the file, their data are not, nor is a solver.

        Args:
            path: the file, whose name ends in .nacre; one that is there is replaced.

        Raises:
            ConfigError: the name ends otherwise, or the file cannot hold something: an object in a field, for example.
            SnapshotError: the file cannot be written.
        """
        from ..config.saved import save

        save(self, path)

    @in_turn("whole")
    def __reduce__(self) -> tuple[Any, ...]:
        from ..config.saved import encoded, unpickled

        return unpickled, (encoded(self),)

    @in_turn("whole")
    def __deepcopy__(self, memo: dict[int, Any]) -> Net:
        from ..config.saved import copied

        return copied(self)

    def readable(self) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        """Return the blobs that were named in `keep`, None for "all", and those in `input_gradients`."""
        return self._options.keep, self._options.input_gradients

    # What snapshots record

    def backends(self) -> list[Backend]:
        """Return the backends that compute in this net: its own, and those of its kernels."""
        return list(dict.fromkeys([self.backend, *(op.backend for op in self.ops)]))

    def storages(self) -> dict[str, Storage]:
        """Return the memory of every parameter, under each of its names."""
        return {name: slot.storage for name, slot in names_of(self.slots).items()}

    def owners(self) -> dict[str, Any]:
        """Return the states of the layers, under their names in snapshots."""
        return {f"layer.{op.name}": op.state for op in self.node_ops.values()}

    def working(self) -> dict[str, tuple[Any, Choice | None]]:
        """Return the layers and neurons of the net, each with its kernel choice; a neuron may have its layer's."""
        return working(self.ops)

    # Derived nets

    @how_to_call("net.derive(phase, layers=..., name=..., ...)")
    def derive(self, phase: Phase, layers: Iterable[Layer] | None = None, *, name: str = "", **options: Any) -> Net:
        """Return a net of another phase that shares this one's parameters; threads take turns in both together.

        It also has this net's options, if `options` has no others; but not those about this net's own blobs, plan and
        first values: `keep`, `input_gradients`, `plan` and `initialise`.

        Args:
            phase: train, validation, test or predict.
            layers: by default this net's layers.
            name: a name for messages; by default this net's name and the phase.
            options: other arguments of `Net`.
        """
        chosen = self.layers if layers is None else layers_in(f"net '{self.name}'", layers)
        names = {layer.name for layer in chosen}
        ours = self._options.handed_on()
        frozen = sorted(name for name in self.frozen if name.partition("/")[0] in names)
        ours |= {"freeze": frozen, "share": self, "allocate": self.allocated, "fitted": self.fitted}
        net = Net(name or f"{self.name} ({phase})", chosen, phase=phase, **ours | options)
        net.turns = self.turns
        net.parameters.iterations, net.backend_named = self.parameters.iterations, self.backend_named
        if self._passes.watch is not None:
            net.find_nan()
        return net

    @in_turn("whole", "net.predict(data, output=...)")
    def predict(
        self,
        data: Any,
        output: str | Top | Sequence[str | Top] | None = "",
        *,
        batch_size: int = 0,
        classes: bool = False,
    ) -> Any:
        """Run any number of records through the layers that `output` needs, in phase `predict`.

        `data` replaces the sources, and goes through the same transformers; parameters are shared.

        Args:
            data: an array (records, ...), or several in a tuple or as {blob: array} if the net needs several. For each
                also a file or folder with records, or a list of such, which are read as the source reads its own; a
                list of pictures of any size, which are scaled and cut as the source does, if its codec can; and names
                of classes, if they are known since training.
            output: name of a blob, or its handle, or several; by default the blobs that no layer reads.
            batch_size: records at a time; by default as in this net, and of Inputs with a batch of 1 up to 256.
            classes: return for each record the name of the class with the largest number, or the number of the class
                if the net knows no names. Where a loss tells two classes apart by each number, such as
                SigmoidCrossEntropyLoss, whether it is of the second: a row of 0 and 1 for several.

        Returns:
            A NumPy array with one row for each record; {blob: array} for several outputs.

        Raises:
            DataError: the data do not fit the net.
            TopologyError: no layer writes the output in phase `predict`.
        """
        from .predict import predict

        self._need_memory()
        check_count("batch_size", batch_size, 0)
        return predict(self, data, self._outputs(output), batch_size, self._predictors, classes=classes)

    def _outputs(self, given: Any) -> str | list[str]:
        """Return the names of blobs that are given by names or handles: one, or several in a list; "" for none."""
        if isinstance(given, str | Top):
            return self._named(given) if given else ""
        array = hasattr(given, "shape")
        if isinstance(given, Iterable) and not array:
            return [self._named(one) for one in cast("Iterable[Any]", given)] or ""
        what = brief(cast("object", given))
        raise ConfigError(
            f"output={what}, but it must be the name of a blob, the handle of a top, or a list of these",
            "arrays for several blobs are given in a tuple: net.predict((a, b))" if array else "",
        )

    # Arrays

    @how_to_call(
        "net.fit(x, y, epochs=..., batch_size=..., solver=..., lr=..., validation=..., ...)",
        learning_rate="lr",
        optimizer="solver",
        verbose="quiet",
        patience="early_stopping",
        validation_data="validation",
        validation_split="validation",
        max_epoch="epochs",
    )
    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        epochs: int | None = None,
        batch_size: int = 32,
        solver: Any = "Adam",
        lr: Any = None,
        validation: Any = None,
        class_weight: Any = None,
        sample_weight: Any = None,
        early_stopping: int = 0,
        callbacks: Sequence[Any] = (),
        quiet: bool = False,
    ) -> Training:
        """Train a net with `Input`s on arrays; return the training, with its `history`.

        The parameters that the net has are where the training begins, the method begins anew: to begin with new
        parameters, call `reset` before. Labels may be names of classes, which `predict(classes=True)` gives back.

        Args:
            x: an array (records, ...) for the Input that layers read: of NumPy, or what NumPy can read, such as lists,
                tensors and data frames. A tuple of arrays, in the order of the Inputs, if they are several, or {name:
                array} for all. Or a file, or a list of files, with the records of all Inputs.
            y: likewise, for the Inputs that only losses and statistics read.
            epochs: passes over the data; by default 10.
            batch_size: records of an update; fewer if the data have not so many.
            solver: the method, by its name or as an object; or a `Solver`, which has its own rate and may have
                `max_epoch` or `max_iter` in place of `epochs`.
            lr: the learning rate, or a policy of it; by default 0.001.
            validation: (x, y), a file, or a fraction of the records, drawn at random, of each class alike: loss and
                statistics of these records are computed after each pass.
            class_weight: "balanced", or {class: weight}, or {loss: either}: multiplies the loss of the records of a
                class, in validations too. "balanced" gives all classes the same weight in sum.
            sample_weight: multiplies the loss of each record: an array of one number for each.
            early_stopping: end the training after so many validations that were not better than the best, and give the
                net back its best parameters; 0 for never.
            callbacks: further callbacks.
            quiet: show nothing.

        Raises:
            DataError: an array or a file does not fit the Inputs.
            ConfigError: the net has no Inputs or no loss, or an argument is not valid.
            NotFiniteError: a loss, a gradient or a parameter is not finite.
        """
        from ..training.fit import fit

        self._need_memory()
        return fit(
            self,
            x,
            y,
            epochs=epochs,
            batch_size=batch_size,
            solver=solver,
            lr=lr,
            validation=validation,
            class_weight=class_weight,
            sample_weight=sample_weight,
            early_stopping=early_stopping,
            callbacks=callbacks,
            quiet=quiet,
        )

    @how_to_call("net.evaluate(x, y, batch_size=...)")
    def evaluate(self, x: Any, y: Any = None, *, batch_size: int = 256) -> dict[str, float]:
        """Return the loss and the statistics on arrays, or on files: {"loss": .., "layer/statistic": ..}.

        Arrays are those of `fit`, for a net with `Input`s. A file or folder with records and their labels, or a list of
        such, replaces the data of sources, too, and is read as these read their own, in batches of their size. Each
        record counts once.

        Raises:
            DataError: an array or a file does not fit the net.
            ConfigError: the net has no Inputs for arrays, or a source reads no files.
        """
        from .evaluate import evaluate

        self._need_memory()
        return evaluate(self, x, y, batch_size)

    @in_turn("training")
    def reset(self, seed: int | None = None) -> None:
        """Give all parameters the first values of the net's seed, or those of another seed.

        What `fit` learned of its data, such as names of classes, is forgotten, too; what came with a saved net stays.

        Raises:
            ConfigError: the seed is no whole number.
        """
        try:
            seed = None if seed is None else whole(seed)
        except ValueError:
            raise ConfigError(f"seed={brief(seed)}, but it must be a whole number") from None
        self._need_memory()
        initialise(self.target, self.slots, seed)
        self.learned, self.step = {}, 0

    # Showing and ending

    @in_turn("whole")
    def shutdown(self) -> None:
        """Shut down every state; the net cannot run any more. May be called twice.

        Its parameters stay with the layers, and with the other nets that use them.
        """
        self._closed = True
        with ExitStack() as all_of_it:  # an error in one must not leave the others open
            for op in dict.fromkeys([*members(self.ops), *self.ops]):
                all_of_it.callback(op.state.shutdown)
            for team in self._predictors.values():
                all_of_it.callback(team.shutdown)

    @property
    def closed(self) -> bool:
        """Whether it was shut down."""
        return self._closed

    def __enter__(self) -> Net:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    @how_to_call("net.summary()")
    def summary(self) -> NetSummary:
        """Return a summary of this net; nothing is allocated for it."""
        return summarise(self.name, self.target, self.wiring, self.schedule, trains=self.trains)

    def __str__(self) -> str:
        return str(self.summary())

    def _repr_svg_(self) -> str | None:
        """Return the drawing that notebooks show, or None if no plugin offers one."""
        if not registry().offers("drawing", "svg"):
            return None
        drawn: str | bytes = registry().open("drawing", "svg", self.pins)().draw(self.summary())
        return drawn if isinstance(drawn, str) else drawn.decode()

    def _repr_html_(self) -> str:
        """Return what notebooks show: the drawing, if a plugin offers one, and below it the summary."""
        return f"<div>{self._repr_svg_() or ''}</div>{self.summary().html()}"

    def __repr__(self) -> str:
        return f"<Net '{self.name}', {len(self.wiring.nodes)} layers, {self.phase}, on {self.backend.name}>"


def _parameters_of(share: Net | None, options: NetOptions) -> Mapping[str, Storage]:
    """Return the parameters that another net shares with a new one, by name."""
    if share is None:
        return {}
    if not isinstance(share, Net):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(
            f"net '{options.name}': share={share!r}, but it must be another Net", "leave share out, or give a net"
        )
    if share.backend.parameters is not options.backend.parameters:
        raise TopologyError(
            f"net '{options.name}' on backend '{options.backend.name}' cannot share the parameters of net "
            f"'{share.name}', which is on backend '{share.backend.name}'",
            "make both nets on one backend",
        )
    return share.storages()
