"""A stand-in for CuPy over NumPy, for tests: see README.md beside this folder."""

import numpy as _np

from . import _functions, _machine
from . import cuda as cuda
from ._arrays import ndarray
from ._arrays import ufunc as ufunc
from ._interface import INTERFACE as _INTERFACE
from ._interface import held as _held
from ._machine import machine as machine
from ._machine import shared as shared

__version__ = _INTERFACE["version"]


def get_default_memory_pool():
    """Return the pool that arrays come from where no other is chosen."""
    return _machine.default_pool


def get_array_module(*args):
    """Return this module if an argument is one of its arrays, else NumPy."""
    import sys

    return sys.modules[__name__] if any(isinstance(one, ndarray) for one in args) else _np


def _twice(options):
    """Return the first of the options that CuPy gives the compiler itself; those of CUDA 12.0 to 12.8 refuse two."""
    own = "-default-device", "--device-as-default-execution-space", "-ftz", "--ftz", "-arch", "--gpu-architecture"
    return next((one for one in options if one.partition("=")[0] in own), None)


@_held("RawModule")
class RawModule:
    """Kernels in CUDA C++, compiled for the processor by `shared.kernels`."""

    def __init__(
        self,
        code=None,
        *,
        path=None,
        options=(),
        backend="nvrtc",
        translate_cucomplex=False,
        enable_cooperative_groups=False,
        name_expressions=None,
        jitify=False,
    ):
        if twice := _twice(options):
            raise RuntimeError(
                f"nvrtc: error: argument {twice} was given, which CuPy gives too: defined more than once"
            )
        if _machine.shared.kernels is None:
            raise NotImplementedError("the stand-in for CuPy compiles no CUDA C++ unless shared.kernels does")
        self._functions = _machine.shared.kernels(code, options)

    def get_function(self, name):
        return RawKernel._of(self._functions[name])


class RawKernel:
    """One kernel: called with a grid, a block and its arguments, arrays and numbers of NumPy's types."""

    def __init__(self, code, name, options=(), backend="nvrtc", **_):
        self._function = RawModule(code, options=options).get_function(name)._function

    @classmethod
    def _of(cls, function):
        made = object.__new__(cls)
        made._function = function
        return made

    def __call__(self, grid, block, args, *, shared_mem=0):
        function, given = self._function, tuple(one._raw if isinstance(one, ndarray) else one for one in args)
        _machine.launch(lambda: function(grid, block, given, shared_mem))


def __getattr__(name):
    if name in _INTERFACE["numpys"]:
        return getattr(_np, name)
    found = _functions.find(name)
    if found is None:
        raise AttributeError(f"module 'cupy' has no attribute '{name}'")
    return found
