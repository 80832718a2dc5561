"""CRC-32C (Castagnoli's polynomial), the checksum of nacre's records and of TFRecord."""

from __future__ import annotations

from functools import cache

import numpy as np

POLYNOMIAL = 0x82F63B78  # its bits reversed
BLOCK = 1024  # bytes whose remainders are looked up at once


def crc32c(data: bytes) -> int:
    """Return the CRC-32C of some bytes.

    NumPy serves where google-crc32c is not installed (pip install "nacre[crc32c]"), which is a hundred times as fast.
    """
    try:
        import google_crc32c
    except ImportError:
        return crc32c_by_tables(data)
    return google_crc32c.value(data)


def crc32c_by_tables(data: bytes) -> int:
    """Return the CRC-32C, computed with NumPy.

    A remainder is linear in the bytes: that of a block is the XOR of what each byte adds at its place.
    """
    places = _places()
    numbers = np.frombuffer(data, np.uint8)
    head = len(numbers) % BLOCK
    remainder = 0xFFFFFFFF
    for number in numbers[:head].tolist():
        remainder = int(places[-1, (remainder ^ number) & 255]) ^ (remainder >> 8)
    blocks = numbers[head:].reshape(-1, BLOCK)
    for block in np.bitwise_xor.reduce(places[np.arange(BLOCK), blocks], axis=1).tolist():
        shifted = [int(places[place, remainder >> 8 * place & 255]) for place in range(4)]
        remainder = block ^ shifted[0] ^ shifted[1] ^ shifted[2] ^ shifted[3]
    return remainder ^ 0xFFFFFFFF


@cache
def _places() -> np.ndarray:
    """Return what each value of a byte adds to the remainder of a block, for each place in the block."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(POLYNOMIAL), table >> 1)
    places = [table]
    while len(places) < BLOCK:
        places.append(table[places[-1] & 255] ^ (places[-1] >> 8))
    return np.stack(places[::-1])
