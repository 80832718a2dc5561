"""A store whose reader ends its process at some records, as a mistake in a library written in C would."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from nacre import DataError, Field, Reader, Shape, Store, default

SIZE = mmap.PAGESIZE  # of a record, so that a file that is cut lacks whole pages


class Crashing(Store):
    """Records of a page, the first number of which is `x`, in a file that is mapped into memory."""

    endings = (".crash",)
    crash: Annotated[Shape, "numbers of the records at which the process is killed"] = default(())
    fault: Annotated[Shape, "numbers of the records at which it reads where it must not"] = default(())
    leave: Annotated[Shape, "numbers of the records at which it ends by itself"] = default(())
    wrong: Annotated[Shape, "numbers of the records that raise ValueError"] = default(())
    damaged: Annotated[Shape, "numbers of the records that raise DataError"] = default(())

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        return CrashingReader(self, path)


class CrashingReader(Reader):
    """The records of one file."""

    def __init__(self, store: Crashing, path: Path) -> None:
        self.store = store
        self.path = path
        self.fields: Mapping[str, Field] = {"x": Field((), "int64")}
        with path.open("rb") as file:
            self.memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.count = len(self.memory) // SIZE
        print("this is printed, and no answer")

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        for row, number in enumerate(numbers.tolist()):
            if number in self.store.crash:
                os.kill(os.getpid(), signal.SIGKILL)
            if number in self.store.fault:
                ctypes.string_at(0)
            if number in self.store.leave:
                os._exit(3)
            if number in self.store.wrong:
                raise ValueError("a mistake")
            if number in self.store.damaged:
                raise DataError(f"{self.path}: {self.key(number)}: it is damaged", "write it again")
            first = self.memory[number * SIZE : number * SIZE + 8]
            out["x"][row] = np.frombuffer(first, "<i8")[0]

    def key(self, number: int) -> str:
        return f"page {number}"
