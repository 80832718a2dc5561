"""The example on the page of a layer: its text, the shapes that it says, and sources for its bottoms."""

import ast
import inspect
import re
import textwrap

from nacre import InputLayer


def example_of(cls):
    """Return the table that the docstring of a layer shows, as text."""
    found = re.search(r"^Example:\n((?:    .*\n|\n)*)", inspect.cleandoc(cls.__doc__) + "\n", re.M)
    assert found, f"{cls.__name__} has no example: end its docstring with 'Example:' and a [[layer]]"
    return textwrap.dedent(found[1]).strip()


def shapes_of(text, key):
    """Return {blob: shape} from lines such as `bottoms = ["a", "b"]  # (8, 3), (8,)`."""
    found = {}
    for line, names, shapes in re.findall(rf"^({key} = (\[.*?\]) *#? *(.*))$", text, re.M):
        names, shapes = ast.literal_eval(names), ast.literal_eval(f"[{shapes}]")
        assert len(names) == len(shapes), f"{line}: tell the shape of each behind it"
        found.update(zip(names, shapes, strict=True))
    return found


def fed(text, layers):
    """Return a source for each bottom that none of the layers writes."""
    return [
        InputLayer(name=f"input-{name}", tops=[name], shape=shape[1:], batch_size=shape[0])
        for name, shape in shapes_of(text, "bottoms").items()
        if not any(name in getattr(layer, "tops", ()) for layer in layers)
    ]
