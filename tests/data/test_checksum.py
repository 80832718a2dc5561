"""CRC-32C: known values, and the library against NumPy's tables."""

import numpy as np
import pytest

from nacre_data.checksum import crc32c, crc32c_by_tables

KNOWN = {
    b"": 0,
    bytes(32): 0x8A9136AA,  # this and the next ones: RFC 3720, B.4
    b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
    bytes(range(31, -1, -1)): 0x113FDB5C,
    b"123456789": 0xE3069283,
}


@pytest.mark.parametrize("data", KNOWN, ids=len)
def test_known_values(data):
    assert crc32c(data) == crc32c_by_tables(data) == KNOWN[data]


def test_the_library_and_the_tables_agree():
    library = pytest.importorskip("google_crc32c")
    random = np.random.default_rng(0)
    for size in (1, 2, 3, 4, 5, 1023, 1024, 1025, 2047, 2048, 2049, 100_000):
        data = random.bytes(size)
        assert crc32c_by_tables(data) == library.value(data), size
