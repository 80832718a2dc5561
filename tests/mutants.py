"""Damaged files: how bytes are changed by somebody who knows where a format has its numbers, names and checksums."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

Place = tuple[int, str]
"""Where a number stands, and in which form of `struct`."""
Repair = Callable[[bytes], bytes]

ODD_NAMES = (b"..", b"../../x", b"/etc/passwd", b"a\0b", b"\0", b"a/../b", b".", b"\xff\xfe", b"", b"a" * 300, b"data")
ODD_TEXTS = (
    *(
        b"0",
        b"-1",
        b"1",
        b"2",
        b"255",
        b"256",
        b"1e999",
        b"-1e999",
        b"nan",
        b"NaN",
        b"Infinity",
        b"inf",
        b"1_0",
        b"0x10",
    ),
    *(
        b"9" * 30,
        b"9" * 5000,
        b"-9223372036854775808",
        b"9223372036854775808",
        b"1.5",
        b"1,5",
        b".",
        b"-",
        b"1e",
        b"1e-400",
    ),
    *(b'"', b'""', b'"a', b"'", b"", b" ", b"\t", b",", b";", b"\n", b"\r", b"\r\n", b"\0", b"\xff", b"\xef\xbb\xbf"),
    *(
        "１".encode(),
        "é\u202e".encode(),
        b"\xed\xa0\x80",
        b'"\\ud800"',
        b"null",
        b"true",
        b"[]",
        b"{}",
        b"[1, [2]]",
        b"[[1], [2]]",
    ),
    *(
        b"[" * 5000,
        b'{"a":' * 3000,
        b'{"x": 1, "x": 2}',
        b'"x"',
        b"x",
        b"a" * 3000,
        b"(",
        b")",
        b"-0",
        b"None",
        b"'O'",
        b"10" * 9,
    ),
)


@dataclass(frozen=True)
class Known:
    """What is known of a format's bytes.

    Attributes:
        places: where its numbers are.
        blocks: where its parts begin and end, such as chunks or lines.
        tokens: what texts are made of.
        fixed: whether a text has its place, so that another one must be as long.
        inner: changes what the parts contain, with right lengths around it.
        repair: makes checksums right.
    """

    places: Callable[[bytes], Sequence[Place]] = lambda _: ()
    blocks: Callable[[bytes], Sequence[tuple[int, int]]] = lambda _: ()
    tokens: bytes = b""
    fixed: bool = False
    inner: Callable[[bytes, Random], bytes] | None = None
    repair: Repair | None = None

    def changed(self, data: bytes, dice: Random) -> bytes:
        """Return other bytes: with wrong numbers, texts, order or length; mostly with right checksums."""
        kinds = [
            *[_number] * 6 * bool(self.places(data)),
            *[_text] * 6 * bool(self.tokens),
            *[_block] * bool(self.blocks(data)),
            *[_inner] * 6 * (self.inner is not None),
            _flip,
            _cut,
        ]
        before = data
        while data == before:
            for _ in range(dice.choice((1, 1, 2, 3))):
                data = dice.choice(kinds)(self, data, dice)
            if self.repair and dice.random() < 0.9:
                data = self.repair(data)
        return data


def odd_number(old: int, bits: int, dice: Random) -> int:
    """Return a number that is not `old`: near it, near a limit, or any."""
    near = (old + 1, old - 1, 2 * old, old // 2, -old, old ^ 1 << dice.randrange(bits), old + 4096, 0, 1, 2, -1, -2)
    limits = [sign + (1 << power) for power in (7, 8, 15, 16, 24, 31, 32, 48, 62, 63, 64) for sign in (-1, 0, 1)]
    return dice.choice((*near, *near, *limits, dice.getrandbits(bits))) % (1 << bits)


def _number(known: Known, data: bytes, dice: Random) -> bytes:
    places = [(place, form) for place, form in known.places(data) if place + struct.calcsize(form) <= len(data)]
    if not places:
        return data
    place, form = dice.choice(places)
    size = struct.calcsize(form)
    old = struct.unpack_from(form, data, place)[0]
    return replaced(data, place, struct.pack(form, odd_number(old, 8 * size, dice)))


def _text(known: Known, data: bytes, dice: Random) -> bytes:
    found = [*re.finditer(known.tokens, data)]
    if not found:
        return data
    one = dice.choice(found)
    new = dice.choice((*ODD_TEXTS, *ODD_TEXTS, *ODD_NAMES, dice.choice(found)[0]))
    if known.fixed:
        new = new[: len(one[0])].ljust(len(one[0]), b"\0")
    return data[: one.start()] + new + data[one.end() :]


def _block(known: Known, data: bytes, dice: Random) -> bytes:
    blocks = known.blocks(data)
    if not blocks:
        return data
    parts = [data[begin:end] for begin, end in blocks]
    first, second = dice.randrange(len(parts)), dice.randrange(len(parts))
    match dice.randrange(3):
        case 0:
            parts[first], parts[second] = parts[second], parts[first]
        case 1:
            parts.insert(first, parts[second])
        case _:
            del parts[first]
    return data[: blocks[0][0]] + b"".join(parts) + data[blocks[-1][1] :]


def _inner(known: Known, data: bytes, dice: Random) -> bytes:
    assert known.inner is not None
    return known.inner(data, dice)


def _flip(_: Known, data: bytes, dice: Random) -> bytes:
    for _ in range(dice.choice((1, 1, 2, 8)) if data else 0):
        place = dice.randrange(len(data))
        data = replaced(data, place, bytes([data[place] ^ dice.randrange(1, 256)]))
    return data


def _cut(_: Known, data: bytes, dice: Random) -> bytes:
    return data[: dice.randrange(len(data) + 1)] + bytes(dice.choice((0, 0, 0, 1, 600)))


def replaced(data: bytes, place: int, new: bytes) -> bytes:
    """Return bytes with others from a place on; their number stays."""
    return data[:place] + new + data[place + len(new) :]


# Messages of protobuf, whose descriptions nobody needs for this


def message_fields(data: bytes) -> list[tuple[int, int, int | bytes]] | None:
    """Return number, kind and value of each field; None if this is no message."""
    from nacre import DataError
    from nacre_data.codecs.wire import fields_of

    try:
        return [*fields_of(data)]
    except DataError:
        return None


def packed_fields(fields: Sequence[tuple[int, int, int | bytes]]) -> bytes:
    """Return the message."""
    from nacre_data.codecs.wire import varint

    parts: list[bytes] = []
    for number, kind, value in fields:
        parts.append(varint(number << 3 | kind))
        parts.append(varint(value % (1 << 64)) if isinstance(value, int) else varint(len(value)) * (kind == 2) + value)
    return b"".join(parts)


def changed_message(data: bytes, dice: Random) -> bytes:
    """Return another message: a field has another number, kind or value, stands twice, or is gone."""
    fields = message_fields(data)
    if not fields:
        return Known().changed(data, dice)
    place = dice.randrange(len(fields))
    number, kind, value = fields[place]
    what = dice.choice(("number", "kind", "twice", "gone", "order", *["value"] * 8))
    if what == "number":
        fields[place] = (dice.choice((0, 1, 2, 3, 4, 5, 6, 7, 1 << 28)), kind, value)
    elif what == "kind":
        fields[place] = (number, 0, 1) if isinstance(value, bytes) else (number, 2, dice.randbytes(dice.randrange(12)))
    elif what == "twice":
        fields.insert(place, fields[place])
    elif what == "gone":
        del fields[place]
    elif what == "order":
        dice.shuffle(fields)
    elif isinstance(value, int):
        fields[place] = (number, kind, odd_number(value, 64, dice))
    else:
        inside = message_fields(value) if kind == 2 else None
        fields[place] = (number, kind, (changed_message if inside else Known().changed)(value or b"x", dice))
    return packed_fields(fields)


def message_places(data: bytes, begin: int = 0, deep: int = 4) -> Iterator[Place]:
    """Yield each byte of tags, lengths and varints of a message, and of those in it."""
    from nacre_data.codecs.wire import varint

    fields = message_fields(data) if deep else None
    for number, kind, value in fields or ():
        head = len(varint(number << 3 | kind))
        size = len(varint(value)) if isinstance(value, int) else len(varint(len(value))) * (kind == 2)
        yield from ((begin + place, "B") for place in range(head + size))
        begin += head + size
        if isinstance(value, bytes):
            if kind == 2:
                yield from message_places(value, begin, deep - 1)
            begin += len(value)
