"""NumPy's files whose header says odd things: an array comes out, or a sentence."""

import random
import struct
import warnings
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from forging import trials
from nacre import NacreError
from record_files import read_records

ODD = (
    *("-1", "0", "2**3", "1.5", "True", "None", "'x'", "[4,3]", "(4,3", "(1e3,)", "(4L,3L)", "{'a':1}", "((4,3),)"),
    *("()", "(1,)", "(4,3)", "(4,-3)", "(True,3)", "(9223372036854775807,4)", "(9223372036854775808,)"),
    *("(0,9223372036854775807,9223372036854775807)", "(" * 300 + ")" * 300, "(" + "1," * 70 + ")"),
    *("'<f4'", "'>f8'", "'|O'", "'|V4'", "'<U3'", "'<M8[s]'", "'|b1'", "'<c8'", "'f'", "'os:system'", "'\\x00'"),
    *("[('a','<f4')]", "'<f4,<f4'", "'(2,3)<f4'", "'" + "<f" * 1000 + "'"),
)


USUAL = {"descr": "'<f4'", "fortran_order": "False", "shape": "(4, 3)"}


def file_of(fields: dict[str, str], dice: random.Random) -> tuple[bytes, str]:
    """Return the bytes of an array's file with these fields in its header, and the header."""
    text = "{" + ", ".join(f"'{key}': {value}" for key, value in fields.items()) + "}"
    header, version = text.encode().ljust(54) + b"\n", dice.choice((1, 1, 1, 2, 3, 0, 9))
    length = dice.choice([len(header)] * 8 + [0, 10, 65535, 2**31])
    size = struct.pack("<H", length % 65536) if version == 1 else struct.pack("<I", length)
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + bytes(dice.choice((48, 0, 96, 7))), text


def odd_file(number: int) -> tuple[bytes, str]:
    """Return a file whose header is not as it should be, and the header."""
    dice, fields = random.Random(number), dict(USUAL)
    for _ in range(dice.choice((1, 1, 2))):
        fields[dice.choice([*fields, "more"])] = dice.choice(ODD)
    if dice.random() < 0.05:
        del fields[dice.choice(list(fields))]
    return file_of(fields, dice)


def try_all(path: Path, files: Iterable[tuple[bytes, str]]) -> int:
    """Read such files; return how many had an array in them."""
    bugs, read = list[str](), 0
    for data, text in files:
        path.write_bytes(data)
        try:
            with warnings.catch_warnings(action="error"):
                read += isinstance(read_records(path, "x"), np.ndarray)
        except NacreError:
            pass
        except Exception as error:
            bugs.append(f"{text:.100}: {type(error).__name__}: {error}")
    assert not bugs, "\n".join(bugs)
    return read


def test_whatever_a_header_says_ends_in_a_sentence(tmp_path: Path) -> None:
    assert 0 < try_all(tmp_path / "odd.npy", map(odd_file, range(1000))) < 500


def test_whatever_type_a_header_says_with_whatever_shape(tmp_path: Path) -> None:
    dice = random.Random(0)
    pairs = (file_of({**USUAL, "descr": one, "shape": other}, dice) for one in ODD for other in ODD)
    assert 0 < try_all(tmp_path / "odd.npy", pairs) < 500


@pytest.mark.long
def test_whatever_many_headers_say_ends_in_a_sentence(tmp_path: Path) -> None:
    try_all(tmp_path / "odd.npy", map(odd_file, range(1000, trials(3000, 30_000))))
