"""Every kernel of the cupy backend compiles for a GPU that is not there, and its registers do."""

from __future__ import annotations

import re

import pytest

import nvrtc
from cuda_expressions import EXPRESSIONS
from nacre_cupy.kernels.launch import FOLDER, OPTIONS, source

if reason := nvrtc.missing():
    pytest.skip(reason, allow_module_level=True)


def test_every_file_is_compiled() -> None:
    assert {path.stem for path in FOLDER.glob("*.cu")} == set(EXPRESSIONS)


def check(file: str, expressions: list[str], arch: str, major: int = nvrtc.NEWER) -> None:
    needs = nvrtc.compiled(source(file), expressions, arch, OPTIONS, major)
    spilled = {name: one for name, one in needs.items() if one.stack}
    assert not spilled
    assert all(0 < one.registers <= 128 for one in needs.values()), needs


def narrow(file: str) -> list[str]:
    """Return the hot kernels of a file in the type that trainings on GPUs use, of parameters float32."""
    kinds = [
        one
        for one in EXPRESSIONS[file]
        if re.search("float" if file in ("dot", "random", "recurrent", "update") else r"bf16|^\w+$", one)
    ]
    some = {"elementwise": "ReLU|Identity|, GELU|Tanh", "chain": "Two"}.get(file, "")
    return [one for one in kinds if re.search(some, one)]


@pytest.mark.parametrize("file", EXPRESSIONS)
def test_it_compiles_for_hopper_without_spills(file: str) -> None:
    check(file, narrow(file), "sm_90")


@pytest.mark.parametrize("file", EXPRESSIONS)
def test_it_compiles_for_ampere_without_spills(file: str) -> None:
    check(file, list({one.partition("<")[0]: one for one in narrow(file)}.values()), "sm_80")  # one of each


@pytest.mark.parametrize("file", EXPRESSIONS)
def test_the_oldest_compiler_takes_it(file: str) -> None:
    """With CuPy's own options, of which it takes none twice."""
    check(file, narrow(file)[:1], "sm_80", nvrtc.OLDEST)


@pytest.mark.long
@pytest.mark.parametrize(
    ("arch", "major"),
    [
        *((one, nvrtc.NEWER) for one in ("sm_80", "sm_90", "sm_100", "sm_120")),
        ("sm_80", nvrtc.OLDEST),
        ("sm_90", nvrtc.OLDEST),
    ],
)
@pytest.mark.parametrize("file", EXPRESSIONS)
def test_all_of_it_compiles_without_spills(file: str, arch: str, major: int) -> None:
    check(file, EXPRESSIONS[file], arch, major)


def test_a_spill_is_seen() -> None:
    code = "__global__ void far(float *x, int i) { float held[512]; for (int n = 0; n < 512; n++) held[n] = x[n] * 2; "
    needs = nvrtc.compiled(code + "x[0] = held[i]; }", ["far"], "sm_90")
    assert needs["far"].stack >= 512
    with pytest.raises(ValueError, match="identifier"):
        nvrtc.compiled("__global__ void wrong() { nothing(); }", ["wrong"], "sm_90")
