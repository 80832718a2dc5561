"""Finds whose code an exception comes from, by its traceback, and says so in a sentence with what to type.

What raised is the innermost object of a plugin in the traceback: a layer's state, a component, a backend, a function of
the plugin's package. Nothing is noted while all goes well, so this costs nothing then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from types import FrameType, TracebackType
from typing import Any, cast

from ..errors import BlobError, ContractError, NacreError, PluginError
from .guard import ForeignError, described, guarded, is_class, is_ctrl_c, place_text, shown
from .offers import FIRST_PARTY, Provenance, removal
from .registry import registry

LOCAL = "local"
"""The distribution of what was registered by hand (`Registry.register`)."""


@dataclass(frozen=True)
class Thing:
    """An object of a plugin at work: `called` is its name in a sentence, `cls` the class whose code runs."""

    called: str
    cls: type
    kernel: bool = False


class blaming:
    """Turn what code of plugins raises in the block into an error that names the plugin; nacre's own errors stay.

    `thing` is what is to blame if the traceback shows nothing, as where a method is missing.
    """

    def __init__(self, thing: object = None) -> None:
        self._thing = thing

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: TracebackType | None) -> None:
        if error is not None and (found := blamed(error, self._thing)) is not None:
            raise found from error


def blamed(error: BaseException, thing: object = None) -> NacreError | None:
    """Return the error that names the plugin whose code raised; None if it was nacre's own, or says enough already.

    `thing` is the object that nacre had called.
    """
    if is_ctrl_c(error) or isinstance(error, MemoryError):  # which are nobody's mistake
        return None
    if isinstance(error, NacreError) and (error.blamed or not _is_misuse(error)):
        return None
    steps = list(_steps(error.__traceback__))
    found = next((one for one in map(_at, reversed(steps)) if one is not None), None)
    given = thing_of(thing)
    if found is None:
        if given is None or is_own(given.cls):
            return None
        found = given, _owner(given.cls)
    what, whose = found
    if what is None:  # a function of the package: say for which object it works
        around = (one[0] for one in map(_at, reversed(steps)) if one is not None and one[0] is not None)
        if given is not None and not is_own(given.cls):
            around = chain(around, (given,))
        what = next((one for one in around if _owner(one.cls) == whose), None)
    return _error(error, steps, what, whose)


def _is_misuse(error: NacreError) -> bool:
    """Return whether nacre raised an error because code used it wrongly, so that nobody raised it on purpose.

    What is an AttributeError, too, is about a field that was set.
    """
    return isinstance(error, ContractError | BlobError | AttributeError)


def wrong(thing: object, reason: str, remedy: str = "") -> PluginError:
    """Return the error for an object of a plugin that returned or did something wrong: `reason` follows its name."""
    what = thing_of(thing) or Thing(f"an object of {type(thing).__name__}", type(thing))
    whose = _owner(what.cls)
    place = place_text(*place_of_class(what.cls))
    sentence = f"{name_of(what, whose)}: {' '.join(reason.split())} [{place}]"
    made = PluginError(sentence, advice(whose, what, remedy))
    made.blamed = True
    return made


def answered(thing: object, method: str, answer: Any, kind: Any, wanted: str) -> Any:
    """Return what a method of a plugin's object answered. Raises PluginError if it is not of a kind."""
    if not isinstance(answer, kind):
        raise wrong(thing, f"{method} returned {shown(answer)}, but it must return {wanted}")
    return answer


def called(thing: object) -> str:
    """Return what an object of a plugin is called, with its distribution; "" if it is nothing that plugins offer."""
    what = thing_of(thing)
    return "" if what is None else name_of(what, _owner(what.cls))


def foreign(thing: object) -> str:
    """Return what an object of somebody else's class is called, with its distribution; "" for one of nacre's own."""
    what = thing_of(thing)
    return "" if what is None or is_own(what.cls) else name_of(what, _owner(what.cls))


def accused(error: ContractError, thing: object, cls: type) -> ContractError:
    """Return an error about a class that works for an object, such as a state: with distribution, place and remedy."""
    what = thing_of(thing)
    if what is None or is_own(cls) or error.blamed:
        return error
    whose, place = _owner(cls) or _owner(what.cls), place_text(*place_of_class(cls))
    made = type(error)(f"{name_of(what, whose)}: {error.args[0]} [{place}]", advice(whose, what, error.remedy))
    made.blamed = True
    return made


def is_own(cls: type) -> bool:
    """Return whether a class is nacre's own."""
    package = _text(getattr(cls, "__module__", "")).partition(".")[0]
    return package == FIRST_PARTY or ((whose := plugin_of(package)) is not None and whose.distribution == FIRST_PARTY)


def thing_of(value: Any) -> Thing | None:
    """Return what an object, or a class, of a plugin is called; None if it is nothing that plugins offer."""
    try:
        return guarded(_thing_of, value)
    except ForeignError:
        return None


def _thing_of(value: Any) -> Thing | None:
    if is_class(value):
        acts_for, kernel = _text(getattr(value, "acts_for", "")), bool(registry().offers_of(value, "kernel"))
        kind = _kind(value) or ("kernel" if kernel else f"{acts_for}'s state" if acts_for else "")
        return Thing(f"{kind} '{value.__name__}'", value, kernel) if kind else None
    cls = cast("type[Any]", type(value))
    if kind := _kind(cls):
        return Thing(_called(kind, value), cls)
    if attribute := _text(getattr(cls, "acts_for", "")):
        served: Any = getattr(value, attribute, None)
        kind = _kind(cast("type[Any]", type(served)))
        name = _called(kind, served, getattr(value, "backend", None)) if kind else cls.__name__
        if attribute != "layer" and is_own(cls):  # nacre's own state of somebody's component
            cls = cast("type[Any]", type(served))
        kernel = bool(registry().offers_of(cls, "kernel"))
        return Thing(f"{name}: its kernel {cls.__name__}" if kernel else name, cls, kernel)
    return None


def _kind(cls: type) -> str:
    return _text(getattr(cls, "nacre_kind", ""))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _called(kind: str, value: Any, view: Any = None) -> str:
    name = type(value).__name__
    if kind == "layer":
        own = _text(getattr(value, "name", ""))
        full = view.full_name(own) if view is not None and hasattr(view, "full_name") else own
        return f"layer '{full}' ({name.removesuffix('Layer') or name})"
    if kind == "backend":
        return f"backend '{_text(getattr(value, 'name', '')) or name}'"
    return f"{kind} '{name}'"


def plugin_of(module: str) -> Provenance | None:
    """Return the plugin that a module belongs to: of those in its package, the one whose own name has most in common.

    None if there is none, or if it may be that of several distributions.
    """
    parts, most, found = module.split("."), 0, list[Provenance]()
    for plugin in registry().plugins():
        shared = _shared(parts, plugin.provenance.module.split("."))
        if shared and shared >= most:
            found = [plugin.provenance] if shared > most else [*found, plugin.provenance]
            most = shared
    if not found:
        targets = [offer for plugin in registry().plugins() for offer in plugin.offers]
        found = [one.provenance for one in targets if _shared(parts, one.target.partition(":")[0].split("."))]
    return found[0] if len({one.distribution for one in found}) == 1 else None


def _shared(one: list[str], other: list[str]) -> int:
    """Return how many parts two dotted names have in common at their beginning."""
    count = 0
    for here, there in zip(one, other, strict=False):
        if here != there:
            break
        count += 1
    return count


def _owner(cls: type) -> Provenance | None:
    try:
        return guarded(registry().owner, cls) or plugin_of(_text(getattr(cls, "__module__", "")))
    except ForeignError:
        return None


def _steps(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames of a traceback with their lines, the outermost first."""
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _at(step: tuple[FrameType, int]) -> tuple[Thing | None, Provenance | None] | None:
    """Return what of a plugin, and whose, runs in a frame; None if only nacre's own or other libraries' code does."""
    frame, _ = step
    thing = _here(frame)
    if thing is not None and not is_own(thing.cls):
        return thing, _owner(thing.cls)
    whose = plugin_of(_module(frame))
    return (None, whose) if whose is not None and whose.distribution != FIRST_PARTY else None


def _here(frame: FrameType) -> Thing | None:
    """Return the object whose method a frame runs, if plugins offer such objects."""
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    return thing_of(frame.f_locals[names[0]]) if names[:1] and names[0] in frame.f_locals else None


def _module(frame: FrameType) -> str:
    return _text(frame.f_globals.get("__name__"))


def _error(
    error: BaseException, steps: list[tuple[FrameType, int]], what: Thing | None, whose: Provenance | None
) -> NacreError:
    mine = [step for step in steps if what is not None and _here(step[0]) == what]
    package = _module(mine[-1][0]) if mine and what is None else _text(what.cls.__module__) if what else ""
    package = (package or (whose.module if whose else "")).partition(".")[0]
    inside = [step for step in steps if _module(step[0]).partition(".")[0] == package]
    place = (inside[-1][0].f_code.co_filename, inside[-1][1]) if inside else ("", 0)
    if not inside and what is not None:
        place = place_of_class(what.cls)
    called = [step for step in mine or inside if _module(step[0]).partition(".")[0] == package]
    if not called and what is not None:  # nacre's own code for it, of which only methods have names that authors know
        called = [step for step in mine if hasattr(what.cls, step[0].f_code.co_name)]
    method = called[0][0].f_code.co_name if called else ""
    doing = method if method.isidentifier() else ""  # and not <module> or <lambda>
    missing = _missing(error, steps, what)
    own_words = isinstance(error, NacreError)
    said = str(error.args[0]) if own_words else f"raised {described(error)}"
    said = missing or (f"{doing}: {said}" if own_words and doing else f"{doing} {said}".strip())
    kind = type(error) if own_words else PluginError
    where = place_text(*place)
    remedy = error.remedy if own_words else ""
    made = kind(f"{name_of(what, whose)}: {said} [{where}]", advice(whose, what, remedy))
    made.blamed = True
    return made


def _missing(error: BaseException, steps: list[tuple[FrameType, int]], what: Thing | None) -> str:
    """Return which method a class lacks, if that is why nacre's own code raised; else ""."""
    if what is None or not steps or _module(steps[-1][0]).partition(".")[0] != FIRST_PARTY:
        return ""
    if isinstance(error, NotImplementedError):
        return f"{what.cls.__name__} does not define {steps[-1][0].f_code.co_name}"
    if isinstance(error, AttributeError) and type(error.obj) is what.cls:
        return f"{what.cls.__name__} does not define {error.name}"
    return ""


def name_of(what: Thing | None, whose: Provenance | None) -> str:
    """Return a plugin's object with its distribution: `layer 'a' (Swirl of nacre-swirl 1.2.0)`."""
    if what is None:
        return str(whose)
    if whose is None or whose.distribution == LOCAL:
        return what.called
    return f"{what.called[:-1]} of {whose})" if what.called.endswith(")") else f"{what.called} of {whose}"


def advice(whose: Provenance | None, what: Thing | None, remedy: str = "") -> str:
    """Return what to type about a plugin that does not work; `remedy` is what its author should do."""
    if whose is None:
        return remedy or "correct it there"
    if whose.distribution == FIRST_PARTY:
        return remedy or "this is a bug in nacre: please report it, with the traceback (--debug)"
    if whose.distribution == LOCAL:
        return remedy or "correct it there"
    away = removal(whose)
    if what is not None and what.kernel:
        away = f"do not use its kernels (remove it from `kernels` and `pin` under [plugins]), or {away}"
    return f"{remedy}, or {away}" if remedy else away


def place_of_class(cls: type) -> tuple[str, int]:
    """Return file and line of a class, or its module and 0."""
    import inspect

    try:
        lines = guarded(inspect.getsourcelines, cls)
        return guarded(inspect.getsourcefile, cls) or "", lines[1]
    except ForeignError:
        return _text(getattr(cls, "__module__", "")), 0
