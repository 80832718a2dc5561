"""The operations of the helper: Python reads their names and fields from the header that C is compiled with."""

from __future__ import annotations

import shutil
import subprocess
from ctypes import sizeof
from pathlib import Path

import pytest

from nacre_onednn.helper.native import (
    CONSTANTS,
    FOLDER,
    STRUCTURES,
    Operands,
    Operation,
    operands_of,
    operation,
    read_constants,
    read_structures,
)

_, ENUM, REST = (FOLDER / "operations.h").read_text().partition("enum kind {")
KINDS = [name.lower() for name in read_constants(ENUM + REST.partition("}")[0] + "}")]


def test_a_header_is_read() -> None:
    constants = read_constants("enum { A = 7, B };\nenum kind { C, D,\n E = 16, F };")
    assert constants == {"A": 7, "B": 8, "C": 0, "D": 1, "E": 16, "F": 17}
    found = read_structures("struct one { const float *x, *y; void *z; int64_t size, rows; double a, b; };")
    kinds = [(field[0], field[1].__name__) for field in found["one"]._fields_]
    pointers, numbers = [(name, "c_void_p") for name in "xyz"], [("size", "c_long"), ("rows", "c_long")]
    assert kinds == [*pointers, *numbers, ("a", "c_double"), ("b", "c_double")]


def test_c_and_python_agree(tmp_path: Path) -> None:
    if (compiler := shutil.which("cc") or shutil.which("gcc")) is None:
        pytest.skip("there is no C compiler")
    lines = ["#include <stddef.h>", f'#include "{FOLDER / "helper.h"}"']
    facts = [f"{name} == {value}" for name, value in CONSTANTS.items()]
    facts += [f"sizeof(struct {name}) == {sizeof(one)}" for name, one in STRUCTURES.items()]
    facts += [
        f"offsetof(struct {name}, {field}) == {getattr(one, field).offset}"
        for name, one in STRUCTURES.items()
        for field, *_ in one._fields_
    ]
    facts += [f"sizeof(struct operation) == {sizeof(Operation)}"]
    facts += [f"offsetof(struct operation, workers) == {Operation.workers.offset}"]
    facts += [f"offsetof(struct operation, {operands_of(kind)}) == {Operation.operands.offset}" for kind in KINDS]
    assert len(facts) > 200
    source = tmp_path / "facts.c"
    source.write_text("\n".join([*lines, *(f'_Static_assert({fact}, "");' for fact in facts)]))
    done = subprocess.run([compiler, "-std=gnu11", "-fsyntax-only", str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_kinds_share_operands() -> None:
    assert len(KINDS) == 56 and set(map(operands_of, KINDS)) < set(STRUCTURES)
    assert operands_of("direct") == operands_of("direct_weights") == "direct"
    assert operands_of("direct_filters") == "direct_filters"


def test_operands_have_names() -> None:
    made = operation("lrn_gradient", {"x": 8, "rows": 3, "power": 0.75}, workers=2)
    lrn = made.operands.lrn
    assert (made.kind, made.workers) == (CONSTANTS["LRN_GRADIENT"], 2)
    assert (lrn.x, lrn.dy, lrn.rows, lrn.columns, lrn.power) == (8, None, 3, 0, 0.75)
    assert sizeof(Operands) == max(map(sizeof, STRUCTURES.values()))
    with pytest.raises(AssertionError, match=r"lrn has no operands .*row"):
        operation("lrn", {"row": 3})
