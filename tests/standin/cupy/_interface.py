"""What the real CuPy has, as `record.py` has found it, and what its functions take."""

import functools
import inspect
import json
import operator
from pathlib import Path

INTERFACE = json.loads((Path(__file__).parents[1] / "interface.json").read_text(encoding="utf-8"))
OF_C = ("int", "unsigned int", "size_t", "intptr_t", "ptrdiff_t", "Py_ssize_t")
OF_PYTHON = {"bytes": bytes, "str": str, "tuple": tuple, "list": list, "dict": dict}


def held(path):
    """Return a decorator: a function, or a class with its methods, takes only what CuPy's of this name takes."""
    signatures = INTERFACE["signatures"]

    def hold(thing):
        if not isinstance(thing, type):
            return _checked(path, thing, signatures[path])
        for name, method in vars(thing).copy().items():
            key = path if name == "__init__" else f"{path}.{name}"
            if key in signatures and inspect.isfunction(method):
                setattr(thing, name, _checked(key, method, ["self", *signatures[key]]))
        return thing

    return hold


def _checked(path, function, parameters):
    """Return a function that refuses what the one with these parameters would refuse."""
    kinds, made, kind = {}, [], inspect.Parameter.POSITIONAL_OR_KEYWORD
    for one in parameters:
        *words, name = one.rstrip("=").split(" ")
        if name == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
        elif name.startswith("*"):
            several = inspect.Parameter.VAR_KEYWORD if name.startswith("**") else inspect.Parameter.VAR_POSITIONAL
            made.append(inspect.Parameter(name.lstrip("*"), several))
        else:
            default = None if one.endswith("=") else inspect.Parameter.empty
            made.append(inspect.Parameter(name, kind, default=default))
            kinds[name] = " ".join(words)
    signature = inspect.Signature(made)

    @functools.cache
    def places(count, names):
        """Return where the values of parameters with a type stand in a call: at which place, or by which name."""
        given = signature.bind(*range(count), **{name: name for name in names}).arguments
        return [(name, place) for name, place in given.items() if kinds.get(name)]

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            typed = places(len(args), tuple(kwargs))
        except TypeError as error:
            raise TypeError(f"{path}(): {error}") from None
        for name, place in typed:
            _check_type(path, name, kinds[name], args[place] if isinstance(place, int) else kwargs[place])
        return function(*args, **kwargs)

    return call


def _check_type(path, name, kind, value):
    """Raise what Cython raises for an argument of another type."""
    if kind in OF_C:
        if operator.index(value) < 0 and kind in ("size_t", "unsigned int"):
            raise OverflowError(f"{path}(): {name}={value}, but it has the type {kind}")
    elif kind in OF_PYTHON and value is not None and not isinstance(value, OF_PYTHON[kind]):
        expected = f"expected {kind}, got {type(value).__name__}"
        raise TypeError(f"{path}(): Argument '{name}' has incorrect type ({expected})")
