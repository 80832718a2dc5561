"""What every error can do."""

from __future__ import annotations

from nacre import DataError


class SlowError(DataError):
    """An error that knows more than its message, and is made of other arguments."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"it took {seconds} s", "wait")
        self.seconds = seconds


def test_an_error_with_another_message_keeps_the_rest() -> None:
    first = SlowError(3)
    other = first.reworded(f"x.csv: {first.args[0]}")
    assert type(other) is SlowError
    assert (str(other), other.remedy, other.seconds) == ("x.csv: it took 3 s\n  wait", "wait", 3)
    assert str(first) == "it took 3 s\n  wait"
