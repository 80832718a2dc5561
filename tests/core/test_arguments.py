"""How wrong arguments of what people call are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nacre import (
    Callback,
    CallbackState,
    ConfigError,
    ContractError,
    Layer,
    LayerState,
    Method,
    MethodState,
    load,
    load_snapshot,
    open_records,
)
from nacre.arguments import check_count, how_to_call, path_of, paths_of, texts_of


@how_to_call(speed="rate")
def drive(where: str, *, rate: float = 1.0, limit: int = 3) -> str:
    return where + limit  # type: ignore[operator]


def test_parameters_are_told_and_names_of_others_are_known() -> None:
    with pytest.raises(ConfigError, match="drive: missing a required argument: 'where'") as caught:
        drive()  # type: ignore[call-arg]
    assert caught.value.remedy == "write drive(where, rate=..., limit=...)"
    with pytest.raises(ConfigError, match=r"unexpected keyword argument 'speed' \(did you mean 'rate'\?\)"):
        drive("home", speed=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("line", "message", "remedy"),
    [
        ("Layer, is_sourc=True", "is_sourc=True.*did you mean 'is_source'", "it may have is_source, is_sink"),
        ("LayerState, off=Layer", "off=.*did you mean 'of'", "it may have of, reads"),
        ("Method, knd='x'", "knd='x'.*did you mean 'kind'", "it may have kind, version, renamed"),
        ("CallbackState, of=Callback", "of=", "leave it out: start(training) of the callback returns its state"),
        ("MethodState, of=Method", "of=", "leave it out: setup(backend, spans) of the method returns its state"),
    ],
)
def test_a_class_line_with_an_unknown_argument(line: str, message: str, remedy: str) -> None:
    names = {one.__name__: one for one in (Callback, CallbackState, Layer, LayerState, Method, MethodState)}
    with pytest.raises(ContractError, match=f"Mine: its class line has {message}") as caught:
        exec(f"class Mine({line}): pass", names)
    assert caught.value.remedy.startswith(remedy)


def test_a_type_error_of_the_function_itself_stays_one() -> None:
    with pytest.raises(TypeError, match="concatenate"):
        drive("home")


def test_paths_and_texts_may_be_alone() -> None:
    assert path_of("a/b") == Path("a/b")
    assert paths_of("a", "files") == ["a"]
    assert paths_of([Path("a"), "file:///b"], "files") == [Path("a"), "file:///b"]
    assert texts_of("a", "words", '["a"]') == texts_of(("a",), "words", '["a"]') == ["a"]
    assert texts_of([], "words", '["a"]') == paths_of((), "files") == []


@pytest.mark.parametrize("wrong", [None, 3, [3], Path, b"a", "a\0b"])
def test_what_is_no_path(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"file=.*, but it must be a path"):
        path_of(wrong, "file")
    with pytest.raises(ConfigError, match=r"files=.*, but it must be a path, or a list of paths"):
        paths_of(wrong, "files")
    if not isinstance(wrong, str):
        with pytest.raises(ConfigError, match=r"words=.*, but it must be a list of texts, such as \[\"a\"\]"):
            texts_of(wrong, "words", '["a"]')
    with pytest.raises(ConfigError, match=r"files=\[\], but"):
        paths_of([], "files", 1)


def test_paths_with_a_nul_are_told() -> None:
    reads: list[Callable[[str], object]] = [load, load_snapshot, open_records]
    for read in reads:
        with pytest.raises(ConfigError, match=r"'a\\x00b.nacre', but it must be a path"):
            read("a\0b.nacre")


@pytest.mark.parametrize("wrong", [True, 1.0, "1", None, 0])
def test_what_is_no_count(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"epochs=.*, but it must be a whole number, 1 or more"):
        check_count("epochs", wrong, 1)
