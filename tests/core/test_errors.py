"""What every error can do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nacre import DataError, errors


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


def test_another_thread_may_fetch_a_file_while_a_message_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "_named", {"/copies/a": "https://example.org/a", "/copies/b": "https://example.org/b"})

    class Text(str):
        __slots__ = ()

        def replace(self, *args: Any) -> Text:
            errors.name_in_messages(Path("/copies/c"), "https://example.org/c")
            return Text(super().replace(*args))

    assert errors.as_named(Text("/copies/b: it is cut")) == "https://example.org/b: it is cut"
