"""Component: a configured object of some kind that a field can hold, such as a neuron or an initialiser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Never, TypeVar, cast

from ..arguments import check_class_line
from ..errors import ConfigError, ContractError, RegistryError, brief
from ..text import with_article
from .configured import Configured
from .types import Converted, Reading, is_number

Written = str | Mapping[str, Any]
"""A component as a net file writes it: its name, or a table with `type`.

A kind whose fields take this from Python too says so to type checkers by the `__set__` of its base class.
"""


class Component(Configured, Reading):
    """An object of one kind, named by its class: `class Neuron(Component, kind="neuron")` makes a kind.

    A field of the kind's base class takes an object; in a net file it takes a name, or a table with `type`.
    """

    kinds: ClassVar[dict[str, type[Component]]] = {}

    def __init_subclass__(
        cls,
        *,
        kind: str | None = None,
        version: int | None = None,
        renamed: Mapping[str, str] | None = None,
        **others: Never,
    ) -> None:
        check_class_line(cls, others)
        super().__init_subclass__(version=version, renamed=renamed)
        if kind is not None:
            if not isinstance(kind, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ContractError(f"{cls.__name__}: kind={brief(kind)}, but it must be a string")
            cls.nacre_kind = kind
            cls.wants = f"{with_article(kind)}: an object, a name, or a table with 'type'"
            Component.kinds.setdefault(kind, cls)
        elif not cls.nacre_kind:
            raise ContractError(
                f"{cls.__name__}: a component needs a kind: class {cls.__name__}(Component, kind='...')"
            )

    @classmethod
    def convert(cls, value: Any) -> Component:
        """Return the component for a field: `value` itself, or one made from a name, a table or a number."""
        return value if isinstance(value, cls) else make_component(cls, value)

    @classmethod
    def from_number(cls, number: float) -> Component:
        """Make a component from a number; raise ValueError if this class cannot.

        Called on the class that a plugin offers as `number_of` the kind.
        """
        raise ValueError

    def memory(self) -> Mapping[str, Any]:
        """Return what must survive a restart, as arrays and numbers."""
        return {}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Restore what `memory` returned."""


Kind = TypeVar("Kind", bound=Component)

if TYPE_CHECKING:
    Maybe = Converted[Kind | Written | None, Kind | None]
else:

    class Maybe:
        """`Maybe[Regularizer]` is `Regularizer | None`, for which type checkers accept a name or a table as well.

        Write the default of such a field as `default(None)`.
        """

        def __class_getitem__(cls, kind: type[Component]) -> Any:
            return kind | None


def make_component(kind: type[Kind], value: Any) -> Kind:
    """Make a component from a name, from a table with `type`, or from a number, if a plugin offers one for that.

    The name "" means the class that a plugin offers as `default_of` the kind.

    Raises:
        ValueError: `value` is none of these.
        ConfigError: the table's fields are wrong, or no plugin offers the name.
    """
    if isinstance(value, str):
        value = {"type": value}
    if isinstance(value, Mapping):
        table = {str(key): entry for key, entry in cast("Mapping[Any, Any]", value).items()}
        if "type" not in table:
            raise ValueError
        name = str(table.pop("type"))
        found = _opened(kind.nacre_kind, name) if name else need_default_of(kind.nacre_kind)
        return cast("Kind", found(**table))
    if is_number(value):
        from ..discovery.registry import registry

        offered = registry().offers("number_of", kind.nacre_kind)
        meant = _opened("number_of", kind.nacre_kind) if offered else kind
        return cast("Kind", meant.from_number(value))
    raise ValueError


def component_of(kind: type[Kind], value: Any, name: str) -> Kind:
    """Return the component that is given elsewhere than in a field: an object, or what `make_component` takes.

    Raises:
        ConfigError: it is none of these, or it cannot be made; `name` is what the value is given for.
    """
    try:
        return value if isinstance(value, kind) else make_component(kind, value)
    except ValueError:
        raise ConfigError(f"{name}={brief(value)}, but it must be {kind.wants}") from None


def default_of(kind: str) -> Any:
    """Return the class that a plugin offers for a kind of component, or for a task such as "progress"; None if none."""
    from ..discovery.registry import registry

    return _opened("default_of", kind) if registry().offers("default_of", kind) else None


def need_default_of(kind: str) -> Any:
    """Return the class of `default_of`. Raises ConfigError if no plugin offers one."""
    from ..discovery.registry import registry

    if (found := default_of(kind)) is None:
        remedy = registry().absent(f"name one, or install a plugin that offers a default: `default_of` {kind}")
        raise ConfigError(f"no {kind} is named, and no plugin offers a default one", remedy)
    return found


def _opened(kind: str, name: str) -> Any:
    from ..discovery.registry import registry

    try:
        return registry().open(kind, name)
    except RegistryError as error:
        if _is_number(name) and registry().offers("number_of", kind):
            raise ConfigError(
                f"no {kind} '{name}': it is a text, not a number", f"write {name} without quotes"
            ) from error
        raise ConfigError(str(error.args[0]), error.remedy) from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
