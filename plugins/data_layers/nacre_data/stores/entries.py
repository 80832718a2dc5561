"""Where the values of a file are, and their keys, in little memory."""

from __future__ import annotations

from array import array


class Entries:
    """An index of keys and values.

    Attributes:
        starts: where each value begins in the file.
        sizes: bytes of each value.
    """

    def __init__(self) -> None:
        self.starts, self.sizes = array("q"), array("q")
        self.keys, self.ends = bytearray(), array("q")

    def __len__(self) -> int:
        return len(self.starts)

    def add(self, key: bytes, start: int, size: int) -> None:
        """Add a key and the place of its value."""
        self.keys += key
        self.ends.append(len(self.keys))
        self.starts.append(start)
        self.sizes.append(size)

    def key(self, number: int) -> bytes:
        """Return a key."""
        return bytes(self.keys[self.ends[number - 1] if number else 0 : self.ends[number]])

    def have_names(self, first: int = 0) -> bool:
        """Return whether keys from number `first` on are names, and not only numbers."""
        keys = self.keys[self.ends[first - 1] if first else 0 :]
        return bool(keys) and not keys.isdigit()
