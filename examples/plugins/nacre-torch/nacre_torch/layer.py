"""Torch: a torch.nn.Module as a layer."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

from nacre import (
    ConfigError,
    Converted,
    Layer,
    LayerState,
    Names,
    RegistryError,
    View,
    at_least,
    registry,
)

KIND = "torch_module"


class AnyModule(Converted[Any, Any]):
    """A module, or the name under which a plugin offers its class, alone or in a table with its arguments."""

    wants = "a torch.nn.Module, the name of one that a plugin offers, or a table with 'type' and its arguments"

    @staticmethod
    def convert(value: Any) -> Any:  # type: ignore[override]  # mypy takes the base's attribute for a method
        """Return a module as it is, and a name as a table. Raises ConfigError if no plugin offers the name."""
        if isinstance(value, str):
            value = {"type": value}
        if not isinstance(value, Mapping):
            if "torch" not in sys.modules or not isinstance(value, sys.modules["torch"].nn.Module):
                raise ValueError
            return value
        if not isinstance(value.get("type"), str):
            raise ValueError
        try:
            registry().find(KIND, value["type"])
        except RegistryError as error:
            raise ConfigError(str(error.args[0]), error.remedy) from error
        return dict(value)


class TorchLayer(Layer, has_param=True, can_do_bp=True):
    """tops = module(*bottoms): a torch.nn.Module, with its parameters in the net's memory.

    The tops are the tensors that the module returns, in order; those inside of tuples are counted too, and the last
    ones may be left out: an `LSTM` has one top for its output, or three with the last states. Parameters and buffers
    have the module's names. The module trains in phase `train`, unless its buffers are frozen with the layer, and is in
    its mode `eval` in all others. What it draws by torch's generator is a function of the net's seed, the layer's name
    and the step.

    Example:
        [[layer]]
        type = "Torch"
        bottoms = ["x"]  # (8, 20)
        tops = ["h"]  # (8, 30)
        module = { type = "Linear", in_features = 20, out_features = 30 }
    """

    bottoms: Annotated[Names, at_least(1), "what the module is called with"]
    tops: Annotated[Names, at_least(1), "the tensors that it returns"]
    module: Annotated[AnyModule, "the module; in a net file the name of one that a plugin offers, and its arguments"]

    def setup(self, backend: View, inputs: list[Any], diffs: list[Any]) -> LayerState:
        """Return the state; torch is needed from here on."""
        from .state import TorchState

        return TorchState(self, backend, inputs, diffs)
