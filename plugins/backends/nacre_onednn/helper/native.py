"""The helper as Python sees it: its operations by name, and its library where it was compiled.

The names are those of operations.h, which is read here; hatch_build.py compiles the C files beside it.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from nacre import NacreError

from ..dnnl.library import OPENMP, find, library

MISSING = "needs the native helper, which was not compiled when nacre was built"
FOLDER = Path(__file__).parent


def read_constants(text: str) -> dict[str, int]:
    """Return the constants of all enums of a header, by name; a value that is given must be a number."""
    found: dict[str, int] = {}
    for body in re.findall(r"\benum\b[^{;]*\{(.*?)\}", text, re.DOTALL):
        number = 0
        for name, given in re.findall(r"(\w+)(?:\s*=([^,]*))?", body):
            number = int(given or number)
            found[name] = number
            number += 1
    return found


def read_structures(text: str) -> dict[str, type[ctypes.Structure]]:
    """Return the structs of a header, by name, with fields of 8 bytes: pointers, double and int64_t."""
    found: dict[str, type[ctypes.Structure]] = {}
    for name, body in re.findall(r"\bstruct (\w+) \{(.*?)\}", text, re.DOTALL):
        fields: list[tuple[str, Any]] = []
        for line in body.split(";"):
            number = ctypes.c_double if line.split()[:1] == ["double"] else ctypes.c_int64
            for pointer, field in re.findall(r"(\*?)(\w+)\s*(?:,|$)", line):
                fields.append((field, ctypes.c_void_p if pointer else number))
        found[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    return found


_HEADER = re.sub(r"/\*.*?\*/", "", (FOLDER / "operations.h").read_text("utf-8"), flags=re.DOTALL)
CONSTANTS = read_constants(_HEADER)
STRUCTURES = read_structures(_HEADER)
VERSION = CONSTANTS["HELPER_VERSION"]
PRIMITIVE = CONSTANTS["PRIMITIVE"]
LANES = CONSTANTS["LANES"]


class Operands(ctypes.Union):
    """The operands of an operation: one of the structures."""

    _fields_ = tuple(STRUCTURES.items())


class Operation(ctypes.Structure):
    """What the helper does next; `workers` is the number of threads that there is scratch memory for, or 0.

    `together` is the helper's own.
    """

    _fields_ = (*((name, ctypes.c_int64) for name in ("kind", "workers", "together")), ("operands", Operands))


def operands_of(kind: str) -> str:
    """Return the name of the structure that has the operands of a kind, such as "lrn" for "lrn_gradient"."""
    return kind if kind in STRUCTURES else kind.rpartition("_")[0]


def operation(kind: str, operands: Mapping[str, float | None], workers: int = 0) -> Operation:
    """Return an operation. Operands are addresses and numbers by name; those that are not given are NULL and 0.

    Raises:
        NacreError: a number does not fit into the 64 bits that it has.
    """
    for name, number in operands.items():
        if isinstance(number, int) and not -(1 << 63) <= number < 1 << 63:
            raise NacreError(f"{kind}: {name}={number} is more than a processor can count")
    structure = STRUCTURES[operands_of(kind)]
    unknown = operands.keys() - {name for name, *_ in structure._fields_}
    assert not unknown, f"{kind} has no operands {unknown}"
    made = Operation(CONSTANTS[kind.upper()], workers)
    setattr(made.operands, operands_of(kind), structure(**operands))
    return made


@cache
def helper() -> Any:
    """Return the helper's library, or None if there is none. Python's other threads run during its calls."""
    try:
        found = ctypes.CDLL(str(FOLDER / "_helper.so"))
        for function in (found.nacre_helper_version, found.nacre_run, found.nacre_use):
            function.restype = ctypes.c_int64
        found.nacre_prepare.restype = None
    except (OSError, AttributeError):
        return None
    if found.nacre_helper_version() != VERSION:
        return None
    found.nacre_use(ctypes.c_int64(most_instructions()))
    return found


def most_instructions() -> int:
    """Return the helper's number of the instructions that oneDNN uses, which ONEDNN_MAX_CPU_ISA may limit."""
    here, _ = find()
    if here is None:
        return CONSTANTS["ANY"]
    if here.wide:
        return CONSTANTS["AMX" if here.amx else "AVX512"]
    return CONSTANTS["AVX2" if here.instructions == "AVX2" else "ANY"]


@cache
def _used() -> int:
    """Return the helper's number of the instructions that it uses."""
    native = helper()
    return native.nacre_use(ctypes.c_int64(most_instructions())) if native is not None else CONSTANTS["ANY"]


def lanes() -> int:
    """Return how many numbers of float32 fill a register of the helper's convolutions; 0 if they cannot be used."""
    return {CONSTANTS["AMX"]: LANES, CONSTANTS["AVX512"]: LANES, CONSTANTS["AVX2"]: LANES // 2}.get(_used(), 0)


def has_avx512() -> bool:
    """Return whether there is a helper, and its kernels that need AVX-512 may be used."""
    return lanes() == LANES


def has_amx() -> bool:
    """Return whether there is a helper, and its kernels that need AMX may be used."""
    return _used() == CONSTANTS["AMX"]


def machine(threads: int) -> ctypes.Structure:
    """Return the functions that the helper calls, and the number of threads."""
    here = library()
    team = {
        "parallel": here.address("GOMP_parallel"),
        "thread": here.address("omp_get_thread_num"),
        "team": here.address("omp_get_num_threads"),
    }
    most = {"most": here.address("omp_get_max_threads"), "set_most": here.address("omp_set_num_threads")}
    own = threads
    if here.runtime != OPENMP:
        team, most, own = {}, {}, 1
    elif not all(team.values()):
        team, own = {}, 1
    execute = here.address("dnnl_primitive_execute")
    known = {"execute": execute, "stream": here.stream, "threads": own, "of_primitives": threads}
    return STRUCTURES["machine"](**known, **team, **most)
