"""One arena (a large array) for many arrays: those whose lifetimes do not overlap may use the same memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from ..protocols.backend import ALIGNMENT


class Lifetime(Protocol):
    """Anything that lives from `first` to `last`, both included; always, if it is `pinned`."""

    first: float
    last: float
    pinned: bool


Tenant = TypeVar("Tenant", bound=Lifetime)


def lay_out(tenants: Sequence[Tenant], bytes_of: Callable[[Tenant], int]) -> tuple[dict[Tenant, int], int]:
    """Return an address for each tenant in one arena, and the arena's bytes; tenants of different times may overlap.

    The largest come first: each gets the lowest gap that is free in its whole lifetime.
    """
    taken = _Taken(tenants)
    addresses: dict[Tenant, int] = {}
    total = 0
    for count, one in sorted(((bytes_of(one), one) for one in tenants), key=lambda pair: (-pair[0], pair[1].first)):
        size = -(-count // ALIGNMENT) * ALIGNMENT
        addresses[one] = taken.take(one, size)
        total = max(total, addresses[one] + size)
    return addresses, total


def sharers(addresses: Mapping[Tenant, int], bytes_of: Callable[[Tenant], int]) -> set[Tenant]:
    """Return the tenants whose memory another tenant uses at another time."""
    ranges = [(start, start + bytes_of(one), one) for one, start in addresses.items()]
    ranges = sorted((one for one in ranges if one[0] < one[1]), key=lambda one: one[0])
    found: set[Tenant] = set()
    furthest, furthest_end = None, 0
    for start, end, one in ranges:
        if furthest is not None and start < furthest_end:  # if an earlier one reaches into it, then this one does
            found |= {furthest, one}
        if end > furthest_end:
            furthest, furthest_end = one, end
    return found


def most_at_once(lives: Iterable[tuple[Lifetime, int]]) -> int:
    """Return the most bytes that are in use at one time, of tenants with their bytes: no plan needs less."""
    lives = list(lives)
    most = now = sum(size for one, size in lives if one.pinned)
    others = [(one, size) for one, size in lives if not one.pinned]
    begins, ends = [(one.first, 0, size) for one, size in others], [(one.last, 1, -size) for one, size in others]
    for _, _, change in sorted(begins + ends):  # at the same time, lives begin before others end
        now += change
        most = max(most, now)
    return most


class _Taken:
    """The addresses that are taken, by time: a binary tree over the times at which lifetimes begin and end.

    Node 1 is the whole time; the nodes 2n and 2n + 1 are the halves of node n. A lifetime consists of few nodes: in
    these, and in all below them, its addresses are taken all the time.
    """

    def __init__(self, tenants: Iterable[Lifetime]) -> None:
        times = sorted({time for one in tenants if not one.pinned for time in (one.first, one.last)})
        self.number = {time: number for number, time in enumerate(times)}
        self.leaves = 1 << max(len(times) - 1, 0).bit_length()
        self.throughout: dict[int, _Ranges] = {}  # by node
        self.at_some_time: dict[int, _Ranges] = {}

    def take(self, one: Lifetime, size: int) -> int:
        """Take `size` bytes that are free in the whole lifetime of `one`, at the lowest address; return it."""
        nodes, above = self._nodes(one)
        found = [self.at_some_time.get(node) for node in nodes] + [self.throughout.get(node) for node in above]
        ranges = [one for one in found if one is not None]
        address, before = 0, -1
        while address > before:
            before = address
            for each in ranges:
                address = each.free(address, size)
        if size == 0:
            return address
        for node in nodes:
            self.throughout.setdefault(node, _Ranges()).add(address, address + size)
        for node in (*nodes, *above):
            self.at_some_time.setdefault(node, _Ranges()).add(address, address + size)
        return address

    def _nodes(self, one: Lifetime) -> tuple[list[int], set[int]]:
        """Return the nodes of which a lifetime consists, and all nodes above these."""
        if one.pinned:
            return [1], set()
        nodes: list[int] = []
        low, high = self.number[one.first] + self.leaves, self.number[one.last] + self.leaves + 1
        while low < high:
            if low & 1:
                nodes.append(low)
                low += 1
            if high & 1:
                high -= 1
                nodes.append(high)
            low, high = low >> 1, high >> 1
        above: set[int] = set()
        for node in nodes:
            while (node := node >> 1) and node not in above:
                above.add(node)
        return nodes, above


class _Ranges:
    """A set of addresses as sorted ranges that do not touch."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def free(self, address: int, size: int) -> int:
        """Return the lowest address from `address` on where `size` bytes are not in the set."""
        number = bisect_right(self.ends, address)
        while number < len(self.starts) and self.starts[number] < address + size:
            address = self.ends[number]
            number += 1
        return address

    def add(self, start: int, end: int) -> None:
        """Add the addresses from `start` to `end`, without `end`."""
        low, high = bisect_left(self.ends, start), bisect_right(self.starts, end)
        if low < high:
            start, end = min(start, self.starts[low]), max(end, self.ends[high - 1])
        self.starts[low:high], self.ends[low:high] = [start], [end]
