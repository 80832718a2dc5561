"""nacre: a deep-learning framework in which every part is a plugin.

Importing it imports neither NumPy nor any plugin; a name is looked up when it is first used.
"""

from __future__ import annotations

import importlib

from ._version import __version__ as __version__

TYPE_CHECKING = not __name__  # typing, which has it, takes as long as Python to start; Jedi does not look behind False

if TYPE_CHECKING:
    from typing import Any

    from . import cli as cli
    from . import config as config
    from . import files as files
    from . import hooks as hooks
    from . import random as random
    from . import testing as testing
    from .calls.feed import feed as feed
    from .calls.handles import Call as Call
    from .calls.handles import Top as Top
    from .calls.shelf import L as L
    from .config.saved import load as load
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
    from .errors import RankError as RankError
    from .errors import RegistryError as RegistryError
    from .errors import SnapshotError as SnapshotError
    from .errors import TopologyError as TopologyError
    from .errors import as_named as as_named
    from .errors import nearest as nearest
    from .errors import where_it_is as where_it_is
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
    from .fields.checks import same_numbers as same_numbers
    from .fields.component import Component as Component
    from .fields.component import Maybe as Maybe
    from .fields.component import Written as Written
    from .fields.component import make_component as make_component
    from .fields.configured import Configured as Configured
    from .fields.inputs import local_file as local_file
    from .fields.outputs import check_replaceable as check_replaceable
    from .fields.outputs import claim_folder as claim_folder
    from .fields.outputs import may_overwrite as may_overwrite
    from .fields.outputs import may_reach as may_reach
    from .fields.outputs import open_to_append as open_to_append
    from .fields.outputs import output_place as output_place
    from .fields.outputs import own_output as own_output
    from .fields.outputs import replace_output as replace_output
    from .fields.outputs import uploading as uploading
    from .fields.tables import table_of as table_of
    from .fields.tables import type_name as type_name
    from .fields.types import URL as URL
    from .fields.types import ClassCount as ClassCount
    from .fields.types import Converted as Converted
    from .fields.types import Names as Names
    from .fields.types import OutputFile as OutputFile
    from .fields.types import OutputPath as OutputPath
    from .fields.types import Pair as Pair
    from .fields.types import Paths as Paths
    from .fields.types import PerNet as PerNet
    from .fields.types import Shape as Shape
    from .fields.types import Sizes as Sizes
    from .fields.types import Texts as Texts
    from .fields.types import default as default
    from .fields.types import spread as spread
    from .fields.types import whole as whole
    from .fields.types import wholes as wholes
    from .fields.whole import copy_numbers as copy_numbers
    from .fields.whole import count_in as count_in
    from .fields.whole import misfit as misfit
    from .fields.whole import number_text as number_text
    from .fields.whole import too_large as too_large
    from .hooks import hookimpl as hookimpl
    from .net.at_work import AtWork as AtWork
    from .net.classes import class_numbers as class_numbers
    from .net.classes import class_order as class_order
    from .net.classes import renumbered as renumbered
    from .net.columns import check_columns as check_columns
    from .net.columns import check_own_column as check_own_column
    from .net.input import Input as Input
    from .net.input import InputLayer as InputLayer
    from .net.net import Net as Net
    from .net.parameters import load_parameters as load_parameters
    from .net.predict import Wanted as Wanted
    from .net.predict import wanted as wanted
    from .net.records import open_records as open_records
    from .net.records import store_of as store_of
    from .net.records import store_to_write as store_to_write
    from .net.summary import BlobSummary as BlobSummary
    from .net.summary import Curve as Curve
    from .net.summary import Drawing as Drawing
    from .net.summary import LayerSummary as LayerSummary
    from .net.summary import NetSummary as NetSummary
    from .protocols.algorithm import Algorithm as Algorithm
    from .protocols.algorithm import AlgorithmState as AlgorithmState
    from .protocols.array import Array as Array
    from .protocols.backend import Backend as Backend
    from .protocols.backend import HostMemory as HostMemory
    from .protocols.backend import Own as Own
    from .protocols.backend import Step as Step
    from .protocols.backend import open_backend as open_backend
    from .protocols.blob import Blob as Blob
    from .protocols.communicator import Communicator as Communicator
    from .protocols.communicator import Group as Group
    from .protocols.communicator import Launch as Launch
    from .protocols.communicator import Request as Request
    from .protocols.communicator import check_op as check_op
    from .protocols.communicator import flat_view as flat_view
    from .protocols.communicator import reduce_into as reduce_into
    from .protocols.components import Blocks as Blocks
    from .protocols.components import ComponentKernel as ComponentKernel
    from .protocols.components import Constraint as Constraint
    from .protocols.components import Identity as Identity
    from .protocols.components import Initializer as Initializer
    from .protocols.components import Neuron as Neuron
    from .protocols.components import Regularizer as Regularizer
    from .protocols.components import Transformer as Transformer
    from .protocols.data_store import Codec as Codec
    from .protocols.data_store import Field as Field
    from .protocols.data_store import FileKey as FileKey
    from .protocols.data_store import Reader as Reader
    from .protocols.data_store import ReaderWrapper as ReaderWrapper
    from .protocols.data_store import Store as Store
    from .protocols.data_store import Writer as Writer
    from .protocols.data_store import blocks as blocks
    from .protocols.functions import FloatingFunction as FloatingFunction
    from .protocols.functions import HostFunctions as HostFunctions
    from .protocols.graph import Graph as Graph
    from .protocols.graph import Node as Node
    from .protocols.layer import Inner as Inner
    from .protocols.layer import Layer as Layer
    from .protocols.layer import Phase as Phase
    from .protocols.layer import about_statistic as about_statistic
    from .protocols.layer import is_identity as is_identity
    from .protocols.layer import is_of_class as is_of_class
    from .protocols.layer import tops_of as tops_of
    from .protocols.making import Layers as Layers
    from .protocols.making import fresh as fresh
    from .protocols.making import layer_maker as layer_maker
    from .protocols.parameter import Parameter as Parameter
    from .protocols.parameter import Storage as Storage
    from .protocols.part import Box as Box
    from .protocols.part import Cut as Cut
    from .protocols.part import Micro as Micro
    from .protocols.part import Part as Part
    from .protocols.part import part_of as part_of
    from .protocols.state import LayerState as LayerState
    from .protocols.state import SourceState as SourceState
    from .protocols.view import Fitted as Fitted
    from .protocols.view import Scalars as Scalars
    from .protocols.view import View as View
    from .snapshots.environment import environment as environment
    from .snapshots.folder import SnapshotFolder as SnapshotFolder
    from .snapshots.folder import load_snapshot as load_snapshot
    from .snapshots.folder import open_snapshot_store as open_snapshot_store
    from .snapshots.snapshot import Snapshot as Snapshot
    from .threads import after_fork as after_fork
    from .threads import interruptible as interruptible
    from .threads import number_of_threads as number_of_threads
    from .threads import process_lock as process_lock
    from .training.callback import Callback as Callback
    from .training.callback import CallbackState as CallbackState
    from .training.callback import Score as Score
    from .training.framework import Framework as Framework
    from .training.framework import FrameworkState as FrameworkState
    from .training.framework import Role as Role
    from .training.method import Method as Method
    from .training.method import MethodState as MethodState
    from .training.policies import LrPolicy as LrPolicy
    from .training.policies import LrState as LrState
    from .training.policies import MomentumPolicy as MomentumPolicy
    from .training.policies import MomentumState as MomentumState
    from .training.solver import Solver as Solver
    from .training.spans import Span as Span
    from .training.training import Training as Training

_PLACES = {
    "calls.feed": "feed",
    "calls.handles": "Call Top",
    "calls.shelf": "L",
    "config.saved": "load",
    "discovery.lazy": "lazy",
    "discovery.registry": "register register_kernel registry",
    "errors": "BlobError ConfigError ContractError DataError NacreError NotFiniteError PluginError RankError "
    "RegistryError SnapshotError TopologyError as_named nearest where_it_is",
    "fields.checks": "Check as_many_as at_least every exactly finite fraction non_negative non_zero one_of positive "
    "same_numbers",
    "fields.component": "Component Maybe Written make_component",
    "fields.configured": "Configured",
    "fields.inputs": "local_file",
    "fields.outputs": "check_replaceable claim_folder may_overwrite may_reach open_to_append output_place "
    "own_output replace_output uploading",
    "fields.tables": "table_of type_name",
    "fields.types": "URL ClassCount Converted Names OutputFile OutputPath Pair Paths PerNet Shape Sizes Texts default "
    "spread whole wholes",
    "fields.whole": "copy_numbers count_in misfit number_text too_large",
    "hooks": "hookimpl",
    "net.at_work": "AtWork",
    "net.classes": "class_numbers class_order renumbered",
    "net.columns": "check_columns check_own_column",
    "net.input": "Input InputLayer",
    "net.net": "Net",
    "net.parameters": "load_parameters",
    "net.predict": "Wanted wanted",
    "net.records": "open_records store_of store_to_write",
    "net.summary": "BlobSummary Curve Drawing LayerSummary NetSummary",
    "protocols.algorithm": "Algorithm AlgorithmState",
    "protocols.array": "Array",
    "protocols.backend": "Backend HostMemory Own Step open_backend",
    "protocols.blob": "Blob",
    "protocols.communicator": "Communicator Group Launch Request check_op flat_view reduce_into",
    "protocols.components": "Blocks ComponentKernel Constraint Identity Initializer Neuron Regularizer Transformer",
    "protocols.data_store": "Codec Field FileKey Reader ReaderWrapper Store Writer blocks",
    "protocols.functions": "FloatingFunction HostFunctions",
    "protocols.graph": "Graph Node",
    "protocols.layer": "Inner Layer Phase about_statistic is_identity is_of_class tops_of",
    "protocols.making": "Layers fresh layer_maker",
    "protocols.parameter": "Parameter Storage",
    "protocols.part": "Box Cut Micro Part part_of",
    "protocols.state": "LayerState SourceState",
    "protocols.view": "Fitted Scalars View",
    "snapshots.environment": "environment",
    "snapshots.folder": "SnapshotFolder load_snapshot open_snapshot_store",
    "snapshots.snapshot": "Snapshot",
    "threads": "after_fork interruptible number_of_threads process_lock",
    "training.callback": "Callback CallbackState Score",
    "training.framework": "Framework FrameworkState Role",
    "training.method": "Method MethodState",
    "training.policies": "LrPolicy LrState MomentumPolicy MomentumState",
    "training.solver": "Solver",
    "training.spans": "Span",
    "training.training": "Training",
}
_DOORS = ("cli", "config", "files", "hooks", "random", "testing")
"""The modules that are used by their own names."""
_PLACE = {name: module for module, names in _PLACES.items() for name in names.split()}
__all__ = ["__version__", *sorted(_PLACE)]  # pyright: ignore[reportUnsupportedDunderAll] - from the table above


def __getattr__(name: str) -> Any:
    if name in _DOORS:
        return importlib.import_module(f".{name}", __name__)
    if name not in _PLACE:
        from .discovery.lazy import absent

        raise absent(__name__, name, _PLACE)
    value = getattr(importlib.import_module(f".{_PLACE[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    own = (name for name in globals() if name.startswith("__"))
    return sorted({*own, *_PLACE, *_DOORS})
