"""The conformance kit: what an author of a plugin tests it with.

`from nacre.testing import Example, LayerTests`: examples and a naive reference, and the kit does the rest. Importing
this package imports neither pytest nor NumPy; the suites need pytest (`pip install pytest`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backend import BackendTests as BackendTests
    from .close import TOLERANCES as TOLERANCES
    from .close import assert_close as assert_close
    from .close import assert_near as assert_near
    from .codecs import CodecTests as CodecTests
    from .commands import CommandTests as CommandTests
    from .communicators import CommunicatorTests as CommunicatorTests
    from .components import ComponentTests as ComponentTests
    from .distributions import check_plugin as check_plugin
    from .frameworks import FrameworkTests as FrameworkTests
    from .gradients import check_net_gradients as check_net_gradients
    from .gradients import numerical_gradient as numerical_gradient
    from .gradients import worst_error as worst_error
    from .initializers import InitializerTests as InitializerTests
    from .kernels import KernelTests as KernelTests
    from .layers import LayerTests as LayerTests
    from .neurons import NeuronTests as NeuronTests
    from .penalties import ConstraintTests as ConstraintTests
    from .penalties import RegularizerTests as RegularizerTests
    from .solvers import SolverTests as SolverTests
    from .sources import SourceTests as SourceTests
    from .stores import StoreTests as StoreTests
    from .transformers import TransformerTests as TransformerTests
    from .trial import Example as Example
    from .trial import Trial as Trial
    from .trial import backends as backends
    from .trial import with_kernel as with_kernel
    from .trial import without_kernels as without_kernels

_PLACES = {
    "backend": "BackendTests",
    "close": "TOLERANCES assert_close assert_near",
    "codecs": "CodecTests",
    "commands": "CommandTests",
    "communicators": "CommunicatorTests",
    "components": "ComponentTests",
    "distributions": "check_plugin",
    "frameworks": "FrameworkTests",
    "gradients": "check_net_gradients numerical_gradient worst_error",
    "initializers": "InitializerTests",
    "kernels": "KernelTests",
    "layers": "LayerTests",
    "neurons": "NeuronTests",
    "penalties": "ConstraintTests RegularizerTests",
    "solvers": "SolverTests",
    "sources": "SourceTests",
    "stores": "StoreTests",
    "transformers": "TransformerTests",
    "trial": "Example Trial backends with_kernel without_kernels",
}
_PLACE = {name: module for module, names in _PLACES.items() for name in names.split()}
__all__ = sorted(_PLACE)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _PLACE:
        raise AttributeError(f"module 'nacre.testing' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_PLACE[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})  # so that help() shows what is only imported when it is used
