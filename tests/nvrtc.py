"""NVIDIA's run-time compiler without a GPU: what a .cu file becomes for one, and what each kernel needs there."""

from __future__ import annotations

import ctypes
import struct
import sysconfig
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

LINE = "make nvrtc"
NEWER, OLDEST = 13, 12
"""Major versions of CUDA whose compilers are installed: of the latter the oldest that nacre[cuda12] admits."""
BY_CUPY = ("-ftz=true", "--device-as-default-execution-space")
"""What CuPy gives the compiler besides the options of a kernel, and the processor."""


@dataclass(frozen=True)
class Needs:
    """What a compiled kernel needs: registers of a thread, and bytes of memory where it has too few of them."""

    registers: int
    stack: int


@cache
def library(major: int = NEWER) -> Any:
    """Return the compiler's library of a version of CUDA, or None if there is none."""
    folders = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    found = sorted(path for folder in folders for path in Path(folder, "nvidia").glob(f"**/libnvrtc.so.{major}"))
    if not found:
        return None
    for beside in found[-1].parent.glob("libnvrtc-builtins.so.*"):  # which it looks for by its name alone
        ctypes.CDLL(str(beside))
    return ctypes.CDLL(str(found[-1]))


def missing() -> str:
    """Return why nothing can be compiled here, or ""."""
    here = library(NEWER) is not None and library(OLDEST) is not None
    return "" if here else f"there is no NVRTC of CUDA {OLDEST} and {NEWER}: {LINE}"


def compiled(
    code: str, expressions: Sequence[str], arch: str, options: Sequence[str] = (), major: int = NEWER
) -> dict[str, Needs]:
    """Compile a text as CuPy does, for a processor such as "sm_90"; return what each of its kernels needs.

    Raises:
        ValueError: it does not compile; the message is the compiler's.
    """
    with _same_locale():
        return _compiled(library(major), code, expressions, [*options, *BY_CUPY, f"-arch={arch}"])


@contextmanager
def _same_locale() -> Generator[None]:
    """Keep the thread's locale, and so the encoding of text files: the compiler of CUDA 12.0 leaves that of C there."""
    uselocale = ctypes.CDLL(None).uselocale
    uselocale.restype, uselocale.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    before = uselocale(None)
    try:
        yield
    finally:
        uselocale(before)


def _compiled(nvrtc: Any, code: str, expressions: Sequence[str], given: Sequence[str]) -> dict[str, Needs]:
    program = ctypes.c_void_p()
    _check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), code.encode(), b"kernels.cu", 0, None, None))
    try:
        for one in expressions:
            _check(nvrtc.nvrtcAddNameExpression(program, one.encode()))
        status = nvrtc.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*map(str.encode, given)))
        if status:
            raise ValueError(_text(nvrtc, program))
        size, name = ctypes.c_size_t(), ctypes.c_char_p()
        _check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
        binary = ctypes.create_string_buffer(size.value)
        _check(nvrtc.nvrtcGetCUBIN(program, binary))
        needs, found = needs_of(binary.raw), {}
        for one in expressions:
            _check(nvrtc.nvrtcGetLoweredName(program, one.encode(), ctypes.byref(name)))
            found[one] = needs[name.value.decode()]
        return found
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _check(status: int) -> None:
    if status:
        text = library().nvrtcGetErrorString
        text.restype = ctypes.c_char_p
        raise ValueError(text(status).decode())


def _text(nvrtc: Any, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    _check(nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    _check(nvrtc.nvrtcGetProgramLog(program, text))
    return text.value.decode()


# What a compiled text says of its kernels: an ELF file with a section for each

FRAME_SIZE, REGISTERS = 0x11, 0x2F
"""Attributes in the section .nv.info: a kernel's bytes of stack, where spilled registers lie, and its registers."""


def needs_of(binary: bytes) -> dict[str, Needs]:
    """Return what each kernel of a compiled text needs, by its name there."""
    sections = dict(_sections(binary))
    symbols = _symbols(sections[".symtab"], sections[".strtab"])
    found: dict[int, dict[str, int]] = {FRAME_SIZE: {}, REGISTERS: {}}
    for attribute, body in _attributes(sections[".nv.info"]):
        if attribute in found:
            symbol, value = struct.unpack("<II", body)
            found[attribute][symbols[symbol]] = value
    return {name: Needs(registers, found[FRAME_SIZE][name]) for name, registers in found[REGISTERS].items()}


def _sections(binary: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the contents of each section of a 64-bit ELF file."""
    (offset,) = struct.unpack_from("<Q", binary, 0x28)
    size, count, names = struct.unpack_from("<HHH", binary, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", binary, offset + size * number) for number in range(count)]
    start = headers[names][4]
    for name, _, _, _, at, length, *_ in headers:
        yield _name(binary, start + name), binary[at : at + length]


def _symbols(table: bytes, names: bytes) -> list[str]:
    return [_name(names, struct.unpack_from("<I", table, at)[0]) for at in range(0, len(table), 24)]


def _name(binary: bytes, start: int) -> str:
    return binary[start : binary.index(b"\0", start)].decode()


def _attributes(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the attributes in a section .nv.info, with what they hold: only those of kind 4 have more than a word."""
    at = 0
    while at < len(body):
        kind, attribute, size = struct.unpack_from("<BBH", body, at)
        held = size if kind == 4 else 0
        yield attribute, body[at + 4 : at + 4 + held]
        at += 4 + held
