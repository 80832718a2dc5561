"""The states of a net: for every layer and neuron a kernel or its own state, set up in order and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from ..discovery.blame import accused
from ..discovery.kernels import Choice
from ..discovery.offers import Offer
from ..errors import ConfigError, ContractError, brief
from ..graph.gradients import back_propagates
from ..graph.wiring import Wiring
from ..protocols.backend import Backend, HostMemory
from ..protocols.blob import Blob
from ..protocols.components import Neuron
from ..protocols.graph import Node
from ..protocols.layer import Layer, is_identity, layer_type
from ..protocols.parameter import Parameter
from ..protocols.part import FEATURES, Box
from ..protocols.state import LayerState, SourceState
from ..protocols.view import Fitted, View
from ..text import with_article
from .kernels import check_state_alike, is_foreign
from .ops import Op, Value, call_named, intermediates, plain_space, returned, space_text
from .target import Target

Made = Callable[[Choice, ExitStack], Op]
"""Makes the op of a layer or neuron for a choice; the state's `shutdown` is put on the stack."""

BLOBS = "what backend.blob() returns"


def set_up(target: Target, wiring: Wiring, wanted: Sequence[bool], stack: ExitStack, *, trains: bool) -> list[Op]:
    """Make the state of every layer, and of every neuron that no kernel applies, in order; return their ops.

    `wanted` has for each wire whether its gradient is needed. Each state's `shutdown` is put on the `stack` as soon as
    the state exists; the caller closes the stack if a later state fails.
    """
    ops, values = list[Op](), list[Value]()
    classes = _classes(target.fitted)
    for index, node in enumerate(wiring.nodes):
        inputs = [values[number] for number in wiring.inputs[index]]
        node = call_named(node, _counted, node, classes)
        op = call_named(node, _layer_op, target, node, inputs, stack)
        op.backward = trains and back_propagates(wiring, wanted, index)
        ops.append(op)
        if isinstance(op.state, SourceState):
            classes |= _classes(op.state.fitted)
        for position, number in enumerate(wiring.outputs[index]):
            value = op.outputs[position]
            if trains and wanted[number]:
                value.gradient = Value(value.name, value.shape, value.dtype, value.space)
            after = _neuron_op(target, node, op, value, stack)
            ops += [after] if after else []
            values.append(after.outputs[0] if after else value)
    return ops


def _classes(fitted: Fitted) -> dict[str, Sequence[str]]:
    """Return the names of the classes of blobs, as far as they are known."""
    return {top: names for top, values in fitted.items() if (names := values.get("classes"))}


def _counted(node: Node, classes: Mapping[str, Sequence[str]]) -> Node:
    """Return a node whose layer has numbers of classes where its fields name blobs."""
    layer = node.layer.counted(classes)
    return node if layer is node.layer else replace(node, layer=layer)


def _layer_op(target: Target, node: Node, inputs: list[Value], stack: ExitStack) -> Op:
    layer = node.layer

    def made(choice: Choice, stack: ExitStack) -> Op:
        blobs: list[Any] = [_declared(node, value) for value in inputs]
        diffs: list[Any] = [
            None if value.gradient is None or index in node.without_gradient else Blob(value.shape, value.dtype)
            for index, value in enumerate(inputs)
        ]
        backend, asked = _backend_of(target, choice), len(target.components)
        if choice.kernel is not None:
            state = choice.kernel(layer, target.view(backend, node), blobs, diffs)
        else:
            state = layer.setup(target.view(node=node), blobs, diffs)
            if getattr(type(state), "host_only", False) and not backend.on_host:
                state.backend = target.view(HostMemory.shared(), node)
        check_state(node, state)
        stack.callback(state.shutdown)
        op = Op(node, node.name, state, backend, choice, inputs, blobs, diffs)
        op.in_place, op.is_source, op.components = layer.is_inplace, layer.is_source, target.components[asked:]
        op.outputs = [_declare(target, op, top, blob) for top, blob in zip(node.tops, state.blobs, strict=True)]
        for value, box in zip(op.outputs, node.part.tops if node.part else (), strict=False):
            if value.shape != box.shape:
                raise _other_part(node, value, box)
            value.box = box
        op.intermediates = intermediates(op)
        return op

    return _chosen_op(target, layer, [_declared(node, value) for value in inputs], made, stack)


def _declared(node: Node, value: Value) -> Blob:
    """Return an input as a node's state sees it in `setup`."""
    blob = value.declared()
    if node.micro is not None and blob.shape:
        blob.box = node.micro.box(blob.box or Box(blob.shape, (0,) * blob.ndim, blob.shape))
    return blob


def _chosen_op(target: Target, thing: Layer | Neuron, inputs: list[Blob], made: Made, stack: ExitStack) -> Op:
    """Choose the kernel of a layer or neuron, and return its op.

    A stranger's kernel is compared with the own state, except for a source, whose data this would open once more.
    """
    opens = isinstance(thing, Layer) and thing.is_source
    choice = target.choose_kernel(thing, inputs, _cannot_tell if opens else partial(_adds_copies, target, made))
    op = made(choice, stack)
    if is_foreign(choice) and not opens:
        with ExitStack() as trial:
            check_state_alike(op.name, choice, op.state, made(_own(target), trial).state)
    return op


def _own(target: Target) -> Choice:
    """Return the choice of the own state of a layer or neuron."""
    return Choice("", target.backend.name, "")


def _backend_of(target: Target, choice: Choice) -> Backend:
    return target.backend if choice.kernel is None else target.backend_of(choice)


def _adds_copies(target: Target, made: Made, kernel: Any, offer: Offer) -> str | None:
    """Return why a kernel may need copies that the layer's own state would not need, or None.

    It needs the same ones if it has each blob in the same memory; where that differs, they depend on the layers above.
    """
    with ExitStack() as trial:
        own = made(_own(target), trial)
        other = made(Choice("", offer.name.rpartition("@")[2], "", kernel, offer), trial)
        for here, there in zip((*other.inputs, *other.outputs), (*own.inputs, *own.outputs), strict=True):
            if (space := other.space(here)) != (usual := own.space(there)):
                whose = f"{space_text(space)}, the layer's own code in {space_text(usual)}"
                return f"it may add copies: it needs '{here.name}' in {whose}"
    return None


def _cannot_tell(kernel: Any, offer: Offer) -> str:
    return "it may add copies, which cannot be known before its data are open"


def _declare(target: Target, op: Op, name: str, blob: Any) -> Value:
    """Return the value of a top: for a declared blob, or for a plain array that the state made itself."""
    if not isinstance(blob, Blob):
        value = Value(name, tuple(blob.shape), str(blob.dtype), plain_space(target.backend))
        value.group.fixed = blob
        return value
    value = Value(name, blob.shape, blob.dtype, ("", ""))
    value.space = op.space(value)
    value.fed_by = op.state if isinstance(op.state, SourceState) else blob.fed_by
    if blob.of is not None:
        index = next((index for index, given in enumerate(op.input_arrays) if given is blob.of), None)
        if index is None:
            raise ContractError(f"{op.name}: top '{name}' is an alias of a blob that is not one of the layer's inputs")
        op.aliases.append((index, value))
    return value


def _other_part(node: Node, value: Value, box: Box) -> ContractError:
    """Return the error of a layer whose part makes something else than that part of the whole's tops."""
    part, which = node.part, "features" if node.part and node.part.dim == FEATURES else "records"
    assert part is not None
    return ContractError(
        f"{node.name}: of the {which} {part.start} to {part.stop} of {part.length} it makes top '{value.name}' of "
        f"shape {value.shape}, but that part of {box.whole} has the shape {box.shape}"
    )


def _neuron_op(target: Target, node: Node, op: Op, value: Value, stack: ExitStack) -> Op | None:
    """Return the op of a layer's neuron for one top, or None if there is no neuron or a kernel applies it."""
    if not node.layer.has_neuron:
        return None
    neuron: Neuron = node.layer.neuron
    if is_identity(neuron) or (op.kernel and op.state.fuses_neuron(neuron)):
        return None
    if "float" not in value.dtype:
        raise ConfigError(
            f"{node.name}: '{value.name}' holds whole numbers ({value.dtype}), but the neuron "
            f"{type(neuron).__name__} is computed in a floating type",
            "leave the neuron out, or give the Input that the numbers come from a floating type",
        )
    wanted, name = value.gradient is not None, f"{node.name}/{type(neuron).__name__}"

    def made(choice: Choice, stack: ExitStack) -> Op:
        blobs: list[Any] = [Blob(value.shape, value.dtype)]
        diffs: list[Any] = [Blob(value.shape, value.dtype) if wanted else None]
        backend = _backend_of(target, choice)
        state: LayerState = (choice.kernel or NeuronState)(neuron, target.view(backend), blobs, diffs)
        stack.callback(state.shutdown)
        after = Op(node, name, state, backend, choice, [value], blobs, diffs)
        after.in_place, after.backward, after.neuron = True, wanted, neuron
        after.intermediates = intermediates(after)
        after.outputs = [_declare(target, after, value.name, state.blobs[0])]
        after.outputs[0].box = value.box
        return after

    after = _chosen_op(target, neuron, [Blob(value.shape, value.dtype)], made, stack)
    if wanted:
        (top,) = after.outputs
        top.gradient = Value(top.name, top.shape, top.dtype, top.space)
    return after


class NeuronState(LayerState, reads="blobs", elementwise=True):
    """The state of a neuron for one top; it calls the neuron's own `forward` and `backward`."""

    def __init__(self, layer: Neuron, backend: View, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.blob(inputs[0].shape, inputs[0].dtype)]
        self.capturable = layer.capturable
        if layer.needs_input:
            self.reads = "inputs blobs"

    def forward(self, inputs: list[Any]) -> None:
        if (result := self.layer.forward(self.backend, inputs[0], self.blobs[0])) is not None:
            raise returned(self.layer, "forward", result, "y")

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        x = inputs[0] if self.layer.needs_input else None
        if (result := self.layer.backward(self.backend, x, self.blobs[0], self.blobs_diff[0], diffs[0])) is not None:
            raise returned(self.layer, "backward", result, "dx")


def check_state(node: Node, state: Any) -> None:
    """Check that a state has what the traits of its layer require.

    Raises:
        ContractError: names the layer, the class, the trait and what is missing.
    """
    try:
        _check_state(node, state)
    except ContractError as error:
        layer = node.layer
        raise accused(error, layer, type(state if isinstance(state, LayerState) else layer)) from error


def _check_state(node: Node, state: Any) -> None:
    layer, kind = node.layer, type(state).__name__
    if not isinstance(state, LayerState):
        raise ContractError(f"{layer_type(type(layer))}.setup must return a LayerState, not {with_article(kind)}")
    if not hasattr(state, "blobs") or not hasattr(state, "parameters"):
        raise ContractError(f"{kind} does not call super().__init__(layer, backend, inputs, diffs)")
    base: type = SourceState if isinstance(state, SourceState) else LayerState
    for method in ("forward", "backward"):
        if getattr(type(state), method) is getattr(LayerState, method):
            raise ContractError(f"{kind} does not define {method}, but a state needs both forward and backward")
    if layer.is_source and base is not SourceState:
        raise ContractError(f"{kind} is the state of a source, so it must be a SourceState")
    for name, wanted in (("blobs", BLOBS), ("intermediates", BLOBS), ("parameters", "Parameters")):
        if not isinstance(declared := getattr(state, name), list | tuple):
            raise ContractError(f"{kind}.{name} is {brief(declared)}, but must be a list of {wanted}")
    if len(state.blobs) != len(node.tops):
        raise ContractError(f"{kind} declares {len(state.blobs)} blobs for {len(node.tops)} tops")
    for one in state.blobs:
        if not hasattr(one, "shape") or not hasattr(one, "dtype"):  # a state may have made an array itself
            raise ContractError(f"{kind}.blobs has {with_article(type(one).__name__)}, but must have only {BLOBS}")
    if state.parameters and not layer.has_param:
        raise ContractError(f"{kind} has parameters, but {type(layer).__name__} does not declare has_param")
    if layer.has_loss and not hasattr(state, "loss"):
        raise ContractError(f"the class declares has_loss, but {kind} has no 'loss'")
    if layer.has_stats:
        for method in ("dump_statistics", "reset_statistics"):
            if getattr(type(state), method) is getattr(LayerState, method):
                raise ContractError(f"the class declares has_stats, but {kind} does not define {method}")
    for one in state.intermediates:
        if not isinstance(one, Blob) or one.of is not None:
            found = "an alias" if isinstance(one, Blob) else with_article(type(one).__name__)
            raise ContractError(f"{kind}.intermediates has {found}, but must have only {BLOBS}")
    names = set[str]()
    for parameter in state.parameters:
        if not isinstance(parameter, Parameter):  # pyright: ignore[reportUnnecessaryIsInstance]
            found = with_article(type(parameter).__name__)
            raise ContractError(f"{kind}.parameters has {found}, but must have only Parameters")
        if parameter.name in names:
            raise ContractError(f"{kind}.parameters has two of the name '{parameter.name}'")
        names.add(parameter.name)
