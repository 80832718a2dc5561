"""CodecTests: what every format of bytes that hold a record has to do."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from ..errors import ContractError, DataError
from ..protocols.data_store import Codec, Field
from .close import assert_close
from .components import ComponentTests
from .suite import When, only
from .trial import Example

CHANGES = 200
"""Damaged copies of each record that are tried."""
ROOM = 1 << 22
"""Bytes of memory that any record of a few may need, whatever it says of itself."""
WRITES = When("codecs with `encode`", lambda suite: suite.component.encode is not Codec.encode)


class CodecTests(ComponentTests):
    r"""The tests of a codec.

    An author gives the class, and bytes with what is in them:

        class TestPair(CodecTests):
            component = Pair

            def encoded(self):
                yield b"\x01\x02", {"data": np.array([1, 2], np.uint8)}

    Attributes:
        component: the class.
        exact: whether the numbers come back as they were; a codec with losses may be off by a quarter of the range.
    """

    BASE = Codec
    exact: ClassVar[bool] = True

    def encoded(self) -> Iterable[tuple[bytes, Mapping[str, Any]]]:
        """Yield bytes of records, and the fields that are in each."""
        raise ContractError(f"{type(self).__name__} does not define encoded()")

    def test_decode(self, example: Example) -> None:
        """Every field has the numbers that were put into the bytes."""
        codec = self.make_component(example)
        for data, wanted in self.encoded():
            found = self._decoded(codec, data)
            assert set(found) == set(wanted), f"the fields are {sorted(found)} instead of {sorted(wanted)}"
            for name, array in found.items():
                self._check(array, np.asarray(wanted[name]), f"field '{name}'")

    def test_describe(self, example: Example) -> None:
        """`describe` says the shapes and types that `decode` gives."""
        codec = self.make_component(example)
        for data, _ in self.encoded():
            fields = codec.describe(data)
            for name, array in self._decoded(codec, data).items():
                field = fields[name]
                kind = str(array.dtype)
                assert kind == field.dtype, f"field '{name}' is of type {kind}, but {field.dtype} is declared"
                assert field.shape in (None, array.shape), (
                    f"field '{name}' has the shape {array.shape}, but {field.shape} is declared"
                )

    @only(WRITES)
    def test_encode(self, example: Example) -> None:
        """What `encode` writes is read back."""
        codec = self.make_component(example)
        for _, record in self.encoded():
            arrays = {name: np.asarray(value) for name, value in record.items()}
            data = codec.encode(arrays)
            assert isinstance(data, bytes), f"encode() gives a {type(data).__name__} instead of bytes"
            for name, array in self._decoded(codec, data).items():
                self._check(array, arrays[name], f"field '{name}', written and read")

    def test_truncated(self, example: Example) -> None:
        """Bytes that end too early give a DataError, or numbers of some record; never another error."""
        for data, _ in self.encoded():
            step = max(1, len(data) // CHANGES)
            self._check_damaged(example, (data[:end] for end in range(0, len(data), step)))

    def test_damaged(self, example: Example) -> None:
        """Bytes that were changed, or are not in the format at all, give a DataError or numbers; never another error.

        Neither do they make it take much memory, nor long: sizes are checked before they are believed.
        """
        random = np.random.default_rng(0)
        for data, _ in self.encoded():
            self._check_damaged(example, _damaged(data, random))

    # How it is checked

    def _decoded(self, codec: Any, data: bytes) -> dict[str, np.ndarray]:
        fields: Mapping[str, Field] = codec.describe(data)
        shapes = {name: field.shape for name, field in fields.items() if field.shape is not None}
        return dict(codec.decode(data, shapes))

    def _check(self, found: np.ndarray, wanted: np.ndarray, what: str) -> None:
        if self.exact:
            assert_close(found, wanted, what, 0.0)
            return
        assert found.shape == wanted.shape, f"{what}: the shape is {found.shape} instead of {wanted.shape}"
        off = np.abs(found.astype(np.float64) - wanted).max()
        assert off <= (float(np.ptp(wanted)) or 1.0) / 4, f"{what}: a number is off by {off:.3g}"

    def _check_damaged(self, example: Example, damaged: Iterable[bytes]) -> None:
        codec = self.make_component(example)
        tracemalloc.start()
        try:
            for data in damaged:
                before = tracemalloc.get_traced_memory()[0]
                tracemalloc.reset_peak()
                try:
                    self._decoded(codec, data)
                except DataError:
                    pass
                except Exception as error:
                    told = f"{type(error).__name__}: {error}"
                    raise AssertionError(f"the bytes {data[:40]!r} ({len(data)}) raise {told}") from error
                used = tracemalloc.get_traced_memory()[1] - before
                allowed = ROOM + 100 * len(data)
                assert used <= allowed, f"the bytes {data[:40]!r} ({len(data)}) make it take {used:,} bytes of memory"
        finally:
            tracemalloc.stop()


def _damaged(data: bytes, random: np.random.Generator) -> Iterator[bytes]:
    """Yield copies of bytes with some changed, and others that have nothing to do with them."""
    yield b""
    for _ in range(CHANGES):
        copy = bytearray(data)
        for place in random.integers(0, max(1, len(copy)), random.integers(1, 4)).tolist():
            copy[place : place + 1] = bytes([(0, 0x7F, 0x80, 0xFF, int(random.integers(256)))[random.integers(5)]])
        yield bytes(copy)
    for length in (1, 7, 64, 500):
        yield random.bytes(length)
