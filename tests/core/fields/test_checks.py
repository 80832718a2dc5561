from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pytest

from nacre import (
    Check,
    Component,
    ConfigError,
    ContractError,
    Converted,
    Initializer,
    Names,
    Pair,
    Regularizer,
    Shape,
    Sizes,
    Texts,
    as_many_as,
    at_least,
    default,
    exactly,
    finite,
    fraction,
    non_negative,
    non_zero,
    one_of,
    positive,
    spread,
)
from nacre.errors import brief


class Thing(Component, kind="test_thing"):
    whole: int = 1
    number: float = 1.0
    text: str = ""
    flag: bool = False
    pair: Pair = default(1)
    sizes: Sizes = default(1)
    shape: Shape = default(())
    names: Names = default(())
    texts: Texts = default(())
    maybe: Names | None = None
    either: int | str = 0
    choice: Literal["a", "b"] = "a"
    entries: list[int] = dataclasses.field(default_factory=list)
    table: dict[str, int] = dataclasses.field(default_factory=dict)
    call: Callable[[int], int] = abs
    anything: Any = None
    penalty: Regularizer | None = None


@pytest.mark.parametrize(
    ("field", "given", "read"),
    [
        ("whole", np.int64(3), 3),
        ("number", 3, 3.0),
        ("number", np.float32(0.5), 0.5),
        ("pair", 3, (3, 3)),
        ("pair", [1, 2], (1, 2)),
        ("pair", (4,), (4, 4)),
        ("sizes", [1, 2, 3], (1, 2, 3)),
        ("shape", 5, (5,)),
        ("shape", (), ()),
        ("names", "conv1", ("conv1",)),
        ("names", ["a", "b.c_d-1"], ("a", "b.c_d-1")),
        ("texts", Path("a b"), ("a b",)),
        ("texts", ["x", Path("y")], ("x", "y")),
        ("maybe", None, None),
        ("maybe", "a", ("a",)),
        ("either", "text", "text"),
        ("entries", [1], [1]),
        ("call", len, len),
    ],
)
def test_what_is_given_and_what_is_read(field: str, given: Any, read: Any) -> None:
    value = getattr(Thing(**{field: given}), field)
    assert value == read
    assert type(value) is type(read)


@pytest.mark.parametrize(
    ("field", "given", "wanted"),
    [
        ("whole", True, "a whole number"),
        ("whole", 1.0, "a whole number"),
        ("whole", "1", "a whole number"),
        ("number", True, "a number"),
        ("number", "0.5", "a number"),
        ("number", b"0.5", "a number"),
        ("number", None, "a number"),
        ("number", 10**400, "a number"),
        ("text", 1, "a string"),
        ("flag", 1, "true or false"),
        ("flag", "true", "true or false"),
        ("pair", (1, 2, 3), "a whole number, or two: (rows, columns)"),
        ("pair", (1, True), "a whole number, or two: (rows, columns)"),
        ("pair", 1.5, "a whole number, or two: (rows, columns)"),
        ("pair", "12", "a whole number, or two: (rows, columns)"),
        ("pair", b"12", "a whole number, or two: (rows, columns)"),
        ("sizes", (), "a whole number, or one for each direction"),
        ("shape", "5", "a list of whole numbers"),
        ("names", 3, "a name, or a list of names (letters, digits, '_', '-' and '.')"),
        ("names", {"a", "b"}, "a name, or a list of names (letters, digits, '_', '-' and '.')"),
        ("names", {"a": 1}, "a name, or a list of names (letters, digits, '_', '-' and '.')"),
        ("names", ["a", ""], "a name, or a list of names (letters, digits, '_', '-' and '.')"),
        ("texts", 3, "a string, or a list of strings"),
        ("either", 1.5, "a whole number or a string"),
        ("choice", "c", "one of 'a', 'b'"),
        ("entries", 3, "a list"),
        ("table", [], "a dict"),
        ("call", 3, "a Callable"),
    ],
)
def test_a_value_of_a_wrong_type_names_field_and_value(field: str, given: Any, wanted: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Thing(**{field: given})
    assert str(caught.value) == f"Thing: {field}={brief(given)}, but it must be {wanted}"


@pytest.mark.parametrize("name", ["a/b", "a@last", "a:b", "a#1", "a b", "é", "a\n", ""])
def test_reserved_characters_in_names(name: str) -> None:
    with pytest.raises(ConfigError, match="names="):
        Thing(names=name)


def test_all_complaints_come_in_one_message() -> None:
    class Two(Component, kind="test_two"):
        size: Annotated[int, "pixels of a side"]
        rate: float = 0.1

    with pytest.raises(ConfigError) as caught:
        Two(rate="fast", siz=3)  # type: ignore[call-arg, arg-type]
    assert str(caught.value.args[0]).splitlines() == [
        "Two: unknown field 'siz' (did you mean 'size'?)",
        "Two: size is missing: pixels of a side",
        "Two: rate='fast', but it must be a number",
    ]
    assert caught.value.remedy == "the fields of Two are size, rate"


def test_an_unknown_field_that_is_like_no_other() -> None:
    with pytest.raises(ConfigError, match=r"^Thing: unknown field 'zzzz'\n"):
        Thing(zzzz=1)  # type: ignore[call-arg]


class Checked(Component, kind="test_checked"):
    positive: Annotated[Pair, positive] = default(1)
    single: Annotated[float, positive] = 1.0
    non_negative: Annotated[float, non_negative] = 0.0
    non_zero: Annotated[int, non_zero] = 1
    fraction: Annotated[float, fraction] = 0.0
    finite: Annotated[float, finite] = 0.0
    some: Annotated[Names, at_least(1)] = default("a")
    as_many: Annotated[Names, as_many_as("some")] = default("a")
    one: Annotated[Names, exactly(1)] = default("a")
    choice: Annotated[str, one_of("ceil", "floor")] = "ceil"
    perhaps: Annotated[float | None, positive] = None


@pytest.mark.parametrize(
    ("field", "given", "complaint"),
    [
        ("positive", (0, 2), "positive=(0, 2), but every number must be above 0"),
        ("single", 0, "single=0.0, but it must be above 0"),
        ("single", float("nan"), "single=nan, but it must be above 0"),
        ("non_negative", -0.1, "non_negative=-0.1, but it must be 0 or more"),
        ("non_zero", 0, "non_zero=0, but it must be different from 0"),
        ("fraction", 1, "fraction=1.0, but it must be 0 or more, and below 1"),
        ("finite", float("inf"), "finite=inf, but it must be finite"),
        ("finite", float("nan"), "finite=nan, but it must be finite"),
        ("some", (), "some=(), but at least 1 must be given"),
        ("as_many", ("a", "b"), "as_many=('a', 'b'), but there must be as many as some, 1"),
        ("one", ("a", "b"), "one=('a', 'b'), but exactly 1 must be given"),
        ("choice", "round", "choice='round', but it must be one of 'ceil', 'floor'"),
        ("perhaps", -1, "perhaps=-1.0, but it must be above 0"),
    ],
)
def test_checks(field: str, given: Any, complaint: str) -> None:
    Checked()
    with pytest.raises(ConfigError) as caught:
        Checked(**{field: given})
    assert f"Checked: {complaint}" in str(caught.value).splitlines()


def test_spread() -> None:
    assert spread((3,), 2, "x: kernel") == (3, 3)
    assert spread((1, 2), 2, "x: kernel") == (1, 2)
    with pytest.raises(ConfigError, match=r"x: kernel=\(1, 2\), but there are 3 directions"):
        spread((1, 2), 3, "x: kernel")


def test_help_is_the_text_beside_the_field() -> None:
    class Helped(Component, kind="test_helped"):
        size: Annotated[Pair, positive, "window,", "in pixels"]
        other: int = 3

    size, other = Helped.fields()
    assert (size.name, size.type, size.doc, size.required) == ("size", "Pair", "window, in pixels", True)
    assert (other.name, other.type, other.doc, other.default, other.required) == ("other", "int", "", 3, False)
    assert len(size.checks) == 1


def test_what_is_neither_text_nor_check_is_an_error_and_not_skipped() -> None:
    class Wrong(Component, kind="test_wrong"):
        size: Annotated[int, positive.complain] = 1

    with pytest.raises(ContractError, match=r"Wrong: .*'size'.*Check"):
        Wrong()


def test_public_names_are_no_modules() -> None:
    import nacre

    modules = {path.stem for path in Path(nacre.__file__).parent.iterdir()}
    assert not modules & set(nacre.__all__), "importing such a module puts it in the place of the public name"


def test_annotations_may_name_what_stands_in_the_function() -> None:
    Small = Annotated[int, one_of(1, 2)]

    class Local(Component, kind="test_local"):
        size: Small = 1

    with pytest.raises(ConfigError, match="size=3, but it must be one of 1, 2"):
        Local(size=3)


def test_annotations_in_text_within_a_nested_function() -> None:
    Size = Annotated[int, positive]

    def inner() -> Any:
        Half = Annotated[float, fraction]

        class Local(Component, kind="test_nested"):
            size: Size = 1
            half: Half = 0.5

        return Local

    with pytest.raises(ConfigError, match=r"half=1.0"):
        inner()(half=1)
    with pytest.raises(ConfigError, match="size=0"):
        inner()(size=0)


def test_names_of_a_caller_do_not_reach_an_annotation() -> None:
    def make() -> Any:
        return type("Made", (Component,), {"__annotations__": {"size": "int"}, "size": 1}, kind="test_made")

    def caller() -> Any:
        int = str  # a local name of a function that only calls  # noqa: F841
        made = make()
        assert made(size=3).size == 3
        return made

    with pytest.raises(ConfigError, match="it must be a whole number"):
        caller()(size="3")


def test_names_of_a_function_that_only_calls_another() -> None:
    def outer() -> Any:
        def inner() -> Any:
            class Local(Component, kind="test_returned"):
                size: int = 1

            return Local

        return inner

    def caller(inner: Any) -> Any:
        int = str  # noqa: F841
        return inner()

    assert caller(outer())(size=3).size == 3


def test_a_union_goes_on_where_a_conversion_fails() -> None:
    class Length(Converted[str, int]):
        wants = "something with a length"

        @staticmethod
        def convert(value: Any) -> int:
            return len(float(value) if isinstance(value, int) else value)  # type: ignore[arg-type]

    class Measured(Component, kind="test_measured"):
        length: Length | None = None

    assert Measured(length=None).length is None
    assert Measured(length="abc").length == 3  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="length=3, but it must be something with a length or none"):
        Measured(length=3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"length=1000.*, but it must be something with a length or none"):
        Measured(length=10**400)  # type: ignore[arg-type]


def test_a_class_that_mentions_itself_and_one_that_comes_later() -> None:
    class Chain(Component, kind="test_chain"):
        next: Chain | None = None
        later: Later | None = None

    assert Chain(next=Chain()).next.next is None  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="next=3, but it must be"):
        Chain(next=3)  # type: ignore[arg-type]


class Later(Component, kind="test_later"):
    """Stands behind what mentions it."""


def test_quotes_within_an_annotation() -> None:
    class Quoted(Component, kind="test_quoted"):
        size: Annotated[Pair, positive] = default(1)

    Quoted.__annotations__["size"] = Annotated["Pair", positive]
    assert Quoted(size=2).size == (2, 2)


def test_an_annotation_that_cannot_be_read_is_an_error() -> None:
    class Unreadable(Component, kind="test_unreadable"):
        size: Nowhere = 1  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ContractError, match=r"Unreadable: an annotation cannot be read: name 'Nowhere'"):
        Unreadable()


def test_class_variables_are_no_fields() -> None:
    class Constants(Component, kind="test_constants"):
        limit: ClassVar[int] = 3
        size: int = 1

    assert [field.name for field in Constants.fields()] == ["size"]


def test_the_locals_of_a_function_do_not_live_with_its_classes() -> None:
    class Big:
        pass

    def make() -> tuple[Any, Any]:
        big = Big()

        class Local(Component, kind="test_memory"):
            size: int = 1

        return Local, weakref.ref(big)

    made, big = make()
    made()
    gc.collect()
    assert big() is None


def test_default_factories() -> None:
    assert Thing().entries == []


def test_errors_of_a_component_name_the_field() -> None:
    class User(Component, kind="test_user"):
        init: Initializer = default(0)

    with pytest.raises(ConfigError) as caught:
        User(init={"type": "Uniform", "low": "x"})  # type: ignore[arg-type]
    assert "User: init: Uniform: low='x', but it must be a number" in str(caught.value)
    with pytest.raises(ConfigError, match=r"User: init: .*Unifrom") as caught:
        User(init="Unifrom")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="an initializer"):
        User(init=[])  # type: ignore[arg-type]


def test_frozen_and_compared_by_identity() -> None:
    one, other = Thing(whole=2), Thing(whole=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.whole = 3  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError) as caught:
        del one.whole
    assert isinstance(caught.value, ConfigError) and "whole cannot be deleted" in str(caught.value)
    assert one != other
    assert len({one, other}) == 2


def test_replace_checks_again() -> None:
    assert dataclasses.replace(Checked(single=2.0), positive=(1, 2)).single == 2.0
    with pytest.raises(ConfigError, match="positive="):
        dataclasses.replace(Checked(), positive=0)


def test_given_and_repr_leave_defaults_out() -> None:
    assert repr(Thing()) == "Thing()"
    assert repr(Thing(pair=2, text="x")) == "Thing(text='x', pair=(2, 2))"
    assert Thing(pair=1).given() == {}


def test_complaints_of_the_fields_together() -> None:
    class Range(Component, kind="test_range"):
        low: float = 0.0
        high: float = 1.0

        def complaints(self) -> Any:
            if self.low > self.high:
                yield f"low={self.low}, but high={self.high}"

    with pytest.raises(ConfigError, match=r"^Range: low=2.0, but high=1.0$"):
        Range(low=2)


def test_a_check_sees_the_whole_object() -> None:
    below = Check(lambda value, thing: None if value < thing.high else f"it must be below {thing.high}")

    class Range(Component, kind="test_check"):
        low: Annotated[float, below] = 0.0
        high: float = 1.0

    with pytest.raises(ConfigError, match=r"low=2.0, but it must be below 1.0"):
        Range(low=2)


def test_help_tells_what_a_field_must_be() -> None:
    silent = Check(lambda value, _: None)

    class Helped(Component, kind="test_help"):
        rate: Annotated[float, positive, finite, "how fast"] = 0.1
        mode: Annotated[str, one_of("up", "down"), "whither"] = "up"
        bottoms: Annotated[Names, at_least(1), "from"]
        tops: Annotated[Names, as_many_as("bottoms"), "to"]
        both: Annotated[Names, exactly(2), "two"]
        free: Annotated[int, silent, "anything"] = 0

    assert [field.help for field in Helped.fields()] == [
        "how fast (above 0, finite)",
        "whither (one of 'up', 'down')",
        "from (at least 1)",
        "to (as many as bottoms)",
        "two (exactly 2)",
        "anything",
    ]
