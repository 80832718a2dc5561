"""Finds CuPy and a GPU, and says in one sentence why there is none to use."""

from __future__ import annotations

import ctypes
from importlib import import_module
from importlib.util import find_spec
from typing import Any

INSTALL = "pip install 'nacre[cuda13]' (with a driver older than 580: 'nacre[cuda12]')"
NO_DEVICE, NO_DRIVER, OLD_DRIVER = 100, 34, 35
"""`cudaErrorNoDevice`, `cudaErrorStubLibrary` and `cudaErrorInsufficientDriver` of the runtime's header."""


def cupy() -> Any:
    """Return the module CuPy."""
    return import_module("cupy")


def without_cupy() -> str | None:
    """Return why CuPy cannot be imported, with what to type; None if it can."""
    if find_spec("cupy") is None:
        return f"CuPy is not installed: {INSTALL}"
    try:
        cupy()
    except Exception as error:  # it loads libraries, which may fail in many ways
        return f"CuPy cannot be imported ({str(error).strip().splitlines()[0]}): {INSTALL}"
    return None


def libraries() -> list[str]:
    """Return CuPy, cuDNN and its frontend with their versions, or why one cannot be used, with what to type."""
    of_cupy, of_cudnn = without_cupy(), without_cudnn()
    if of_cupy and of_cudnn:  # the same remedy serves both
        of_cupy = of_cupy.removesuffix(f": {INSTALL}")
    return [
        of_cupy or f"CuPy {cupy().__version__}",
        of_cudnn or f"cuDNN {cudnn().backend_version_string()}, by its frontend {cudnn().__version__}",
    ]


def unusable() -> str | None:
    """Return why no GPU can be used here, with what to type or to do about it; None if one can."""
    if reason := without_cupy():
        return reason
    runtime = cupy().cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        if error.status in (NO_DRIVER, OLD_DRIVER):
            return (
                "there is no driver for a GPU of NVIDIA, or it is too old: install one, then nvidia-smi shows the GPU"
            )
        if error.status != NO_DEVICE:
            return f"CUDA does not start ({error}): nvidia-smi shows whether the driver works"
        count = 0
    return None if count else "there is no GPU of NVIDIA, or CUDA_VISIBLE_DEVICES hides it: nvidia-smi lists them"


OLDEST_FRONTEND = (1, 18)


def cudnn() -> Any:
    """Return the module of cuDNN's frontend."""
    return import_module("cudnn")


def without_cudnn() -> str | None:
    """Return why cuDNN cannot be used, with what to type; None if it can."""
    if find_spec("cudnn") is None:
        return f"cuDNN's frontend is not installed: {INSTALL}"
    try:
        found = cudnn()
        found.backend_version_string()
    except Exception as error:  # it loads libraries, which may fail in many ways
        return f"cuDNN cannot be loaded ({str(error).strip().splitlines()[0]}): {INSTALL}"
    numbers = tuple(int(one) for one in found.__version__.split(".")[:2])
    return None if numbers >= OLDEST_FRONTEND else f"cuDNN's frontend {found.__version__} is too old: {INSTALL}"


_P, _INT, _SIZE, _U64, _I64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_int64
CUBLASLT = {
    "Create": [_P],
    "MatmulDescCreate": [_P, _INT, _INT],
    "MatmulDescSetAttribute": [_P, _INT, _P, _SIZE],
    "MatmulDescDestroy": [_P],
    "MatrixLayoutCreate": [_P, _INT, _U64, _U64, _I64],
    "MatrixLayoutSetAttribute": [_P, _INT, _P, _SIZE],
    "MatrixLayoutDestroy": [_P],
    "MatmulPreferenceCreate": [_P],
    "MatmulPreferenceSetAttribute": [_P, _INT, _P, _SIZE],
    "MatmulPreferenceDestroy": [_P],
    "MatmulAlgoGetHeuristic": [_P, _P, _P, _P, _P, _P, _P, _INT, _P, _P],
    "Matmul": [_P, _P, _P, _P, _P, _P, _P, _P, _P, _P, _P, _P, _P, _P, _SIZE, _P],
}
"""The types of the arguments of cuBLASLt's functions, which all return a status."""


def cublaslt() -> Any:
    """Return cuBLASLt: that of the CUDA that CuPy uses."""
    found = import_module("cuda.pathfinder").load_nvidia_dynamic_lib("cublasLt")
    loaded = ctypes.CDLL(found.abs_path)
    for name, types in CUBLASLT.items():
        getattr(loaded, f"cublasLt{name}").argtypes = types
    return loaded


def devices() -> list[str]:
    """Return the names of the GPUs, in the order of their numbers."""
    runtime = cupy().cuda.runtime
    return [runtime.getDeviceProperties(number)["name"].decode() for number in range(runtime.getDeviceCount())]
