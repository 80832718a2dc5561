"""Whatever code of others raises is told, wherever it is called; only Ctrl-C ends nacre."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from nacre.discovery.guard import ForeignError, described, guarded, place_of, place_of_function, shown
from nacre.discovery.registry import Registry
from nacre.errors import PluginError, RegistryError
from nacre.testing.plugin import FakeDistribution
from registries import NewRegistry

HARM = {
    "BaseException": "raise BaseException('panicked')",
    "a panic": "class PanicException(BaseException): pass\nraise PanicException('panicked')",
    "GeneratorExit": "raise GeneratorExit",
    "SystemExit": "raise SystemExit(7)",
    "a text that raises": "class Dumb(Exception):\n    def __str__(self): raise BaseException\nraise Dumb",
    "a text that is none": "class Dumb(Exception):\n    def __str__(self): return 7\nraise Dumb",
    "a class without a name": """
        class Meta(type):
            @property
            def __name__(cls): raise BaseException
        class Odd(Exception, metaclass=Meta): pass
        raise Odd""",
    "an odd SyntaxError": "raise SyntaxError('bad', (b'x', 'y', 0, 0))",
    "an odd ModuleNotFoundError": "raise ModuleNotFoundError('no', name=7)",
    "an odd module's name": "__name__ = 7\nraise ValueError('bad')",
}
HARM = {name: textwrap.dedent(text).strip() for name, text in HARM.items()}
LIGHT = 'from nacre.hooks import hookimpl\nnacre_api = "1"\n'
GOOD = LIGHT + "@hookimpl\ndef offer_layers():\n    return {'Calm': 'calm_layers:CalmLayer'}\n"
MODULES = {  # light modules that import well, and are odd
    "None in sys.modules": "import sys\nsys.modules[__name__] = None\n" + GOOD,
    "an object in sys.modules": "import sys\nsys.modules[__name__] = 7\n" + GOOD,
    "no __file__": GOOD.replace("offer_layers()", "offer_layers(net)") + "del __file__\n",
    "__getattr__ raises": "def __getattr__(name): raise BaseException\nfrom nacre.hooks import hookimpl\n",
    "__getattr__ gives all": "class Odd:\n    def __getattr__(self, name): raise BaseException\n"
    "def __getattr__(name): return Odd()\nfrom nacre.hooks import hookimpl\n",
    "__dir__ raises": GOOD + "def __dir__(): raise BaseException('not for you')\n",
    **{
        f"nacre_api = {value}": "class Odd:\n    def __repr__(self): raise BaseException\n    __str__ = __repr__\n"
        f"{GOOD}nacre_api = {value}\n"
        for value in ("None", "1", "1.0", "('1',)", "Odd()", "Odd", "''", "'1' * 5000", "'²'", "b'1'", "'9.9'")
    },
    "an unmarked hook that is odd": "class Odd:\n    def __getattr__(self, name): raise BaseException\n"
    "    def __call__(self): pass\noffer_layers = Odd()\n",
}
OFFERS = {  # what a hook may give in place of {"Calm": "calm_layers:CalmLayer"}
    "odd text": "{Text('Calm'): Text('calm_layers:CalmLayer')}",
    "odd key": "{Odd(): 'x:Y'}",
    "odd value": "{'A': Odd()}",
    "odd class": "{'A': OddClass}",
    "odd dict": "OddDict(A='x:Y')",
    "generator": "(1 / 0 for _ in 'a')",
}
ODD = """
class Odd:
    def __repr__(self): raise BaseException
    def __getattribute__(self, name): raise BaseException
class Text(str):
    def __hash__(self): return 7
    def __eq__(self, other): raise BaseException
    def __str__(self): raise BaseException
    __repr__ = __format__ = __str__
class Meta(type):
    def __getattribute__(cls, name): raise BaseException
class OddClass(metaclass=Meta): pass
class OddDict(dict):
    def items(self): raise BaseException
"""

Install = Callable[..., Path]


@pytest.fixture
def install(fake_distribution: FakeDistribution) -> Install:
    """Write distributions into a folder of `sys.path`; a light module is called as its distribution."""

    def make(name: str, text: str) -> Path:
        return fake_distribution({f"{name}_light.py": text}, {name: f"{name}_light"}, folder=".") / f"{name}_light.py"

    return make


def failed(registry: Registry) -> str:
    """Return what is told of the distribution `faulty`; another one, and nacre's own, must work."""
    assert registry.names("layer").count("Fine") == registry.names("layer").count("Convolution") == 1
    assert registry.open("layer", "Convolution").__name__ == "ConvolutionLayer"
    told = [problem for problem in registry.problems if problem.distribution == "faulty"]
    assert told and told == registry.problems
    with pytest.raises(RegistryError) as caught:
        registry.open("layer", "Convolutoin")
    assert str(told[0]) in str(caught.value) and "NACRE_DISABLE_PLUGINS=faulty" in str(caught.value)
    return str(told[0])


def giving(offer: str) -> str:
    """Return the text of a hook that gives odd things."""
    return f"@hookimpl\ndef offer_layers():\n{textwrap.indent(ODD, '    ')}\n    return {OFFERS[offer]}\n"


@pytest.fixture
def beside(install: Install) -> None:
    install("zz", GOOD.replace("Calm", "Fine"))


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("stage", ["import", "hook"])
def test_what_a_light_module_raises_is_recorded(install: Install, beside: None, harm: str, stage: str) -> None:
    text = LIGHT + (HARM[harm] if stage == "import" else "")
    if stage == "hook":
        text += "@hookimpl\ndef offer_layers():\n" + textwrap.indent(HARM[harm], "    ") + "\n"
        text = text.replace("    __name__ =", "    global __name__\n    __name__ =")
    install("faulty", text)
    assert f"faulty 1.0 ({stage})" in failed(Registry())


@pytest.mark.parametrize("module", MODULES)
def test_an_odd_light_module_is_recorded(install: Install, beside: None, module: str) -> None:
    install("faulty", MODULES[module])
    assert failed(Registry()).startswith("faulty 1.0 (")


@pytest.mark.parametrize("offer", OFFERS)
def test_odd_offers_are_recorded(install: Install, beside: None, offer: str) -> None:
    good = "@hookimpl\ndef offer_backends():\n    return {'calm': 'calm:Calm'}\n"
    install("faulty", LIGHT + giving(offer) + good)
    registry = Registry()
    if offer == "odd text":  # is a text all the same
        assert registry.problems == []
        assert "Calm" in registry.names("layer")
    else:
        assert failed(registry).startswith("faulty 1.0 (")
    assert "calm" in registry.names("backend")


@pytest.mark.parametrize("harm", HARM)
def test_what_an_offered_module_raises_is_a_plugin_error(install: Install, tmp_path: Path, harm: str) -> None:
    install("faulty", GOOD)
    (tmp_path / "calm_layers.py").write_text(HARM[harm])
    with pytest.raises(PluginError, match=r"layer 'Calm' of faulty 1\.0") as caught:
        Registry().open("layer", "Calm")
    assert "NACRE_DISABLE_PLUGINS=faulty" in str(caught.value)


@pytest.mark.parametrize("thing", ["Odd()", "OddClass()", "Text('x')"])
def test_an_odd_thing_that_is_offered_is_a_plugin_error(install: Install, tmp_path: Path, thing: str) -> None:
    install("faulty", GOOD)
    (tmp_path / "calm_layers.py").write_text(f"{ODD}\nCalmLayer = {thing}\n")
    with pytest.raises(PluginError, match="layer 'Calm' of faulty"):
        Registry().open("layer", "Calm")


@pytest.mark.parametrize("harm", HARM)
def test_what_a_file_raises_is_a_plugin_error(tmp_path: Path, harm: str) -> None:
    file = tmp_path / "faulty.py"
    file.write_text(HARM[harm])
    registry = Registry(discover=False)
    with pytest.raises(PluginError, match=r"faulty\.py"):
        registry.load_file(file)
    assert registry.plugins() == []


@pytest.mark.parametrize(
    "text",
    [
        *(LIGHT + giving(offer) for offer in OFFERS if offer != "odd text"),
        LIGHT + ODD + "thing = Odd()\n",
        "class Meta(type):\n    def __getattr__(cls, name): raise BaseException\nclass A(metaclass=Meta): pass\n",
        GOOD + "nacre_api = '9'\n",
    ],
)
def test_a_file_of_odd_things_is_told(tmp_path: Path, text: str) -> None:
    file = tmp_path / "faulty.py"
    file.write_text(text)
    registry = Registry(discover=False)
    with pytest.raises(PluginError, match=r"faulty\.py"):
        registry.load_file(file)
    assert registry.plugins() == []


def test_registering_what_raises_is_a_registry_error() -> None:
    class Meta(type):
        @property
        def nacre_kind(cls) -> str:
            raise BaseException("not for you")

    with pytest.raises(RegistryError, match="cannot be registered: BaseException: not for you"):
        Registry(discover=False).register(Meta("A", (), {}))


def test_ctrl_c_ends_the_search_and_the_next_question_begins_anew(install: Install) -> None:
    install("slow", "import builtins\nif not hasattr(builtins, 'again'):\n    raise KeyboardInterrupt\n" + GOOD)
    registry = Registry()
    with pytest.raises(KeyboardInterrupt):
        registry.names("layer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.again", True, raising=False)
        assert {"Calm", "Convolution"} <= set(registry.names("layer"))
    assert registry.problems == []


def test_what_a_light_module_registers_is_its_own(install: Install, new_registry: NewRegistry) -> None:
    text = "import nacre\nnacre.register_kernel(type('Fast', (), {}), 'AbsVal', 'numpy')\n"
    install("sly", text + "nacre.register(type('ReLU', (nacre.Neuron,), {}))\n" + GOOD)
    registry = new_registry()
    choice = registry.explain("neuron/ReLU", "numpy")
    assert choice.offer is not None and choice.offer.distribution == "nacre"
    (kernel,) = registry.offers("kernel", "AbsVal@numpy")
    assert (kernel.distribution, registry.is_enabled(kernel)) == ("sly", False)
    assert "sly:ReLU" in registry.names("neuron")


def test_what_is_guarded() -> None:
    assert guarded(max, 1, 2) == 2
    with pytest.raises(KeyboardInterrupt):
        guarded(lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(ForeignError) as caught:
        guarded(int, "x")
    assert isinstance(caught.value.error, ValueError)
    assert described(caught.value.error).startswith("ValueError: invalid literal")
    assert place_of(ValueError(), "x") == place_of_function(7) == ("", 0)
    assert shown("x" * 1000).endswith("...") and len(shown("x" * 1000)) < 300
