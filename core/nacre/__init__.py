"""nacre: a deep-learning framework in which every part is a plugin.

Importing it imports neither NumPy nor any plugin; a name is looked up when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__ as __version__

if TYPE_CHECKING:
    from .discovery.lazy import lazy as lazy
    from .discovery.registry import register as register
    from .discovery.registry import register_kernel as register_kernel
    from .discovery.registry import registry as registry
    from .errors import BlobError as BlobError
    from .errors import ConfigError as ConfigError
    from .errors import ContractError as ContractError
    from .errors import DataError as DataError
    from .errors import NacreError as NacreError
    from .errors import NotFiniteError as NotFiniteError
    from .errors import PluginError as PluginError
    from .errors import RegistryError as RegistryError
    from .errors import SnapshotError as SnapshotError
    from .errors import TopologyError as TopologyError
    from .fields.checks import Check as Check
    from .fields.checks import as_many_as as as_many_as
    from .fields.checks import at_least as at_least
    from .fields.checks import every as every
    from .fields.checks import exactly as exactly
    from .fields.checks import finite as finite
    from .fields.checks import fraction as fraction
    from .fields.checks import non_negative as non_negative
    from .fields.checks import non_zero as non_zero
    from .fields.checks import one_of as one_of
    from .fields.checks import positive as positive
    from .fields.component import Component as Component
    from .fields.types import Converted as Converted
    from .fields.types import Names as Names
    from .fields.types import OutputPath as OutputPath
    from .fields.types import Pair as Pair
    from .fields.types import Shape as Shape
    from .fields.types import Sizes as Sizes
    from .fields.types import Texts as Texts
    from .fields.types import default as default
    from .fields.types import spread as spread
    from .hooks import hookimpl as hookimpl
    from .net.input import InputLayer as InputLayer
    from .net.net import Net as Net
    from .protocols.array import Array as Array
    from .protocols.backend import Backend as Backend
    from .protocols.backend import HostMemory as HostMemory
    from .protocols.backend import Own as Own
    from .protocols.backend import open_backend as open_backend
    from .protocols.blob import Blob as Blob
    from .protocols.components import ComponentKernel as ComponentKernel
    from .protocols.components import Constraint as Constraint
    from .protocols.components import Identity as Identity
    from .protocols.components import Initializer as Initializer
    from .protocols.components import Neuron as Neuron
    from .protocols.components import Regularizer as Regularizer
    from .protocols.components import Transformer as Transformer
    from .protocols.layer import Layer as Layer
    from .protocols.parameter import Parameter as Parameter
    from .protocols.records import OutputWriter as OutputWriter
    from .protocols.records import RecordReader as RecordReader
    from .protocols.state import LayerState as LayerState
    from .protocols.state import SourceState as SourceState
    from .protocols.view import View as View
    from .training.algorithm import Algorithm as Algorithm
    from .training.callback import Callback as Callback
    from .training.callback import CallbackState as CallbackState
    from .training.method import Method as Method
    from .training.method import MethodState as MethodState
    from .training.policies import LrPolicy as LrPolicy
    from .training.policies import MomentumPolicy as MomentumPolicy
    from .training.solver import Solver as Solver
    from .training.training import Training as Training

_PLACES = {
    "discovery.lazy": "lazy",
    "discovery.registry": "register register_kernel registry",
    "errors": "BlobError ConfigError ContractError DataError NacreError NotFiniteError PluginError RegistryError "
    "SnapshotError TopologyError",
    "fields.checks": "Check as_many_as at_least every exactly finite fraction non_negative non_zero one_of positive",
    "fields.component": "Component",
    "fields.types": "Converted Names OutputPath Pair Shape Sizes Texts default spread",
    "hooks": "hookimpl",
    "net.input": "InputLayer",
    "net.net": "Net",
    "protocols.array": "Array",
    "protocols.backend": "Backend HostMemory Own open_backend",
    "protocols.blob": "Blob",
    "protocols.components": "ComponentKernel Constraint Identity Initializer Neuron Regularizer Transformer",
    "protocols.layer": "Layer",
    "protocols.parameter": "Parameter",
    "protocols.records": "OutputWriter RecordReader",
    "protocols.state": "LayerState SourceState",
    "protocols.view": "View",
    "training.algorithm": "Algorithm",
    "training.callback": "Callback CallbackState",
    "training.method": "Method MethodState",
    "training.policies": "LrPolicy MomentumPolicy",
    "training.solver": "Solver",
    "training.training": "Training",
}
_PLACE = {name: module for module, names in _PLACES.items() for name in names.split()}
__all__ = ["__version__", *sorted(_PLACE)]  # pyright: ignore[reportUnsupportedDunderAll] - from the table above


def __getattr__(name: str) -> Any:
    if name not in _PLACE:
        raise AttributeError(f"module 'nacre' has no attribute '{name}'")
    value = getattr(importlib.import_module(f".{_PLACE[name]}", __name__), name)
    globals()[name] = value
    return value
