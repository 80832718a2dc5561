"""Each mistake of tests/mistakes.py gets a sentence with its remedy, never an error of Python's own."""

from __future__ import annotations

import pytest

from mistakes import MISTAKES, Mistake, names
from nacre import NacreError


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.code)
def test_a_mistake_is_told_with_its_remedy(mistake: Mistake) -> None:
    with pytest.raises(NacreError) as caught:
        exec(mistake.code, names())
    assert mistake.says in str(caught.value.args[0])
    assert mistake.remedy in caught.value.remedy


def test_the_table_is_long_and_has_nothing_twice() -> None:
    assert len({mistake.code for mistake in MISTAKES}) == len(MISTAKES) > 40
