"""The suites of nacre's own layers, to be run on other backends."""

import importlib.util
from pathlib import Path

from nacre.testing.layers import LayerTests

LAYERS = Path(__file__).parent / "layers"


def suites():
    """Yield the suites under tests/layers, but those of sources."""
    for file in sorted(LAYERS.rglob("test_*.py")):
        if file.stem in ("test_foreign_memory", "test_on_cupy"):
            continue
        spec = importlib.util.spec_from_file_location(f"again_{file.stem}", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for thing in vars(module).values():
            is_suite = isinstance(thing, type) and issubclass(thing, LayerTests) and thing.__module__ == module.__name__
            if is_suite and not thing.layer.is_source:
                yield thing
