"""ComponentTests: what every component has to do, whatever its kind."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from ..errors import ConfigError, ContractError
from ..fields.component import Component
from ..fields.tables import table_of
from ..text import with_article
from .outside import refusal
from .suite import Checks, gives, only
from .trial import Example


class ComponentTests(Checks):
    """The tests of a component of any kind, also of one of your own: of its fields, and of what net files write.

        class TestTriangle(ComponentTests):
            component = Triangle
            wrong = ({"height": 0},)

            def examples(self):
                yield Example({"height": 2.0})

    `NeuronTests`, `InitializerTests`, `RegularizerTests`, `ConstraintTests`, `TransformerTests` and `CodecTests` test
    what a component of their kind computes, too. A pooling function, an operation of `ElementWise` or a connection is
    tested by `LayerTests` of the layer that it works in.

    Attributes:
        component: the class.
        wrong: fields that must be refused.
    """

    SUBJECT = "component"
    component: ClassVar[type[Any]]
    BASE: ClassVar[type[Component]] = Component
    wrong: ClassVar[Sequence[Mapping[str, Any]]] = ()

    @classmethod
    def check_subject(cls) -> None:
        if not issubclass(cls.component, cls.BASE):
            kind = cls.BASE.nacre_kind or "component"
            raise ContractError(
                f"{cls.__name__}: component={cls.component.__name__}, but it must be {with_article(kind)}"
            )

    def examples(self) -> Iterable[Example]:
        """Return the fields that are tried; by default none."""
        yield Example()

    def make_component(self, example: Example) -> Any:
        """Make the component of an example."""
        return self.component(**example.fields)

    def test_file(self, example: Example) -> None:
        """What a net file writes of it makes the same again."""
        made = self.make_component(example)
        table = json.loads(json.dumps(table_of(made)))
        again = type(made)(**{name: value for name, value in table.items() if name != "type"})
        assert table_of(again) == table_of(made), f"written as {table}, and read as {table_of(again)}"
        for name, value in made.given().items():
            kinds = type(value).__name__, type(getattr(again, name)).__name__
            assert kinds[0] == kinds[1], f"{name} is of type {kinds[0]}, but read from a file of type {kinds[1]}"

    def test_numbers_in_fields(self, example: Example) -> None:
        """A field that is a number refuses NaN, in a sentence that names it."""
        made = self.make_component(example)
        for field in made.fields():
            if not isinstance(getattr(made, field.name), float):
                continue
            told = refusal(ConfigError, partial(replace, made, **{field.name: float("nan")}))
            assert told, f"{field.name}=nan is accepted: declare what it must be, such as `finite`"
            assert field.name in told, f"{field.name}=nan is refused, but the error does not name it: {told}"

    @only(gives("wrong"))
    def test_wrong_fields(self) -> None:
        """What is wrong is refused by a ConfigError that names a field, when the component is made."""
        for fields in self.wrong:
            told = refusal(ConfigError, lambda fields=fields: self.component(**fields))
            assert told, f"{fields} is accepted"
            assert any(name in told for name in fields), f"{fields}: the error names no field: {told}"
