"""What is printed of a record."""

from __future__ import annotations

import pytest

from nacre.cli.outputs import error_text, figure


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (3.0, "3"),
        (0.123456, "0.12346"),
        (12.3456, "12.346"),
        (-12345.6, "-12346"),
        (99999.6, "100000"),
        (297523.42, "297523"),
        (-297523.42, "-297523"),
        (999999999.0, "999999999"),
        (1.5e9, "1.5e+09"),
        (0.000012345, "1.2345e-05"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
)
def test_numbers_have_all_digits_before_the_point_and_at_least_five(value: float, text: str) -> None:
    assert figure(value) == text


def test_an_error_is_one_line_without_the_key_again() -> None:
    assert error_text("b.jpg", "pets: b.jpg: it is broken", "write it again") == "error: it is broken; write it again"
    assert error_text("3", "a.h5: record 3: damaged", "") == "error: a.h5: record 3: damaged"
    assert error_text("3", "it has 3: more", "") == "error: it has 3: more"
