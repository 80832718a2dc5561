from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import nacre
import nacre_layers
from nacre import lazy


def test_classes_come_from_the_strings_that_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "light_example"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from nacre import lazy\n"
        "LAYERS = {'One': 'light_example.one:OneLayer', 'Two': 'light_example.two:TwoLayer'}\n"
        "NEURONS = {'Bend': 'light_example.one:Bend'}\n"
        "__getattr__ = lazy(__name__, LAYERS, NEURONS)\n"
    )
    (package / "one.py").write_text("class OneLayer: pass\nclass Bend: pass\n")
    (package / "two.py").write_text("raise ImportError('two is heavy')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import light_example  # type: ignore[import-not-found]

    try:
        assert "light_example.one" not in sys.modules
        assert light_example.OneLayer.__name__ == "OneLayer"
        assert light_example.Bend.__module__ == "light_example.one"
        with pytest.raises(ImportError, match="two is heavy"):
            _ = light_example.TwoLayer
        with pytest.raises(AttributeError, match="module 'light_example' has no attribute 'Three'"):
            _ = light_example.Three
        assert not hasattr(light_example, "one_layer")
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "light_example"]:
            del sys.modules[name]


def test_all_names_are_listed_and_can_be_imported_at_once() -> None:
    assert {"ConvolutionLayer", "ReLU", "hookimpl"} <= set(dir(nacre_layers))
    assert {"Net", "Solver", "L", "config", "files", "testing"} <= set(dir(nacre))
    names: dict[str, object] = {}
    exec("from nacre_layers import *", names)
    assert names["ConvolutionLayer"] is nacre_layers.ConvolutionLayer
    assert nacre.config.load is not None


@pytest.mark.parametrize(
    ("line", "problem", "remedy"),
    [
        ("from nacre_layers import RandomNormalLayer", "nacre_layers has no 'RandomNormalLayer': it is in nacre_data",
         "from nacre_data import RandomNormalLayer"),
        ("import nacre; nacre.ReLU", "nacre has no 'ReLU': it is in nacre_layers", "from nacre_layers import ReLU"),
        ("from nacre import Adam", "nacre has no 'Adam': it is in nacre_solvers", "from nacre_solvers import Adam"),
        ("from nacre_layers import Pooling", "nacre_layers has no 'Pooling'",
         "the layer is called PoolingLayer, or L.Pooling"),
        ("from nacre_layers import Net", "nacre_layers has no 'Net': it is in nacre", "from nacre import Net"),
        ("import nacre_data; nacre_data.Solver", "nacre_data has no 'Solver': it is in nacre",
         "from nacre import Solver"),
        ("from nacre import Pooling", "nacre has no 'Pooling': PoolingLayer is in nacre_layers",
         "from nacre_layers import PoolingLayer"),
    ],
)  # fmt: skip
def test_a_class_of_another_package_says_where_it_is(line: str, problem: str, remedy: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(line, {})
    assert isinstance(caught.value, nacre.NacreError)
    assert str(caught.value) == f"{problem}\n  {remedy}"


def test_other_names_are_missing_as_usual() -> None:
    assert not hasattr(nacre, "no_such_name")
    assert not hasattr(nacre_layers, "NoSuchName")


def test_offers_are_looked_up_when_a_name_is_asked_for() -> None:
    find = lazy("example", {"Join": "os.path:join"}, {})
    assert find("join").__name__ == "join"
    with pytest.raises(AttributeError, match="module 'example' has no attribute 'Join'"):
        find("Join")


def test_importing_nacre_imports_no_library() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(nacre.__file__).parents[1])!r}); import nacre; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "pluggy", "typing", "dataclasses"} & {*done.stdout.split()}
