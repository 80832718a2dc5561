"""Texts that count how often they are compared: looking one up in a list of many compares it with many."""

from __future__ import annotations


class Counted(str):
    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__
