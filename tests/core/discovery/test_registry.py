"""The registry's promises, each with made-up distributions in folders on `sys.path`."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import importlib_metadata
import pluggy  # noqa: F401 - imported before sys.path is cut down to the made-up distributions
import pytest

import nacre.hooks
from nacre import __version__
from nacre.discovery.kernels import Choice
from nacre.discovery.offers import API, Problem
from nacre.discovery.registry import Registry, following
from nacre.discovery.requirements import parse_requirements
from nacre.errors import PluginError, RegistryError
from nacre.testing.plugin import FakeDistribution
from registries import NewRegistry, use_registry

Install = Callable[..., Path]


@pytest.fixture
def install(fake_distribution: FakeDistribution, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Write a distribution to a folder of `sys.path`, on which there is nothing else but the standard library."""
    standard = [path for path in sys.path if path.startswith(sys.base_prefix) and "site-packages" not in path]
    monkeypatch.setattr(sys, "path", standard)

    def make(
        name: str,
        modules: dict[str, str],
        version: str = "1.0",
        entries: dict[str, str] | None = None,
        folder: str = "",
        metadata: str = "",
    ) -> Path:
        files = {f"{module.replace('.', '/')}.py": text for module, text in modules.items()}
        entries = entries or {name: next(iter(modules))}
        more = {"name": name, "version": version, "metadata": metadata, "folder": folder or name}
        return fake_distribution(files, entries, **more)

    return make


def offering(**hooks: str) -> str:
    """Return the text of a light module: hook -> what it returns, as Python text."""
    functions = [f"@hookimpl\ndef {hook}():\n    return {given}\n" for hook, given in hooks.items()]
    return "\n".join(["from nacre.hooks import hookimpl", 'nacre_api = "1"', *functions])


def layers(**names: str) -> str:
    return offering(offer_layers=repr(names))


def problems(registry: Registry) -> list[tuple[str, str]]:
    return [(problem.distribution, problem.stage) for problem in registry.problems]


def report(registry: Registry) -> list[str]:
    lines = [f"{plugin.name}: {plugin.status}: {len(plugin.offers)}" for plugin in registry.plugins()]
    lines += [str(problem) for problem in registry.problems]
    for kind in registry.kinds():
        lines += [f"{kind} {offer.qualified} {offer.target}" for offer in registry.offers(kind)]
    return lines


CLASSES = "class {0}Layer:\n    nacre_kind = 'layer'\n"


@pytest.fixture
def six(install: Install) -> dict[str, Path]:
    return {
        "acme-layers": install(
            "acme-layers", {"acme": layers(Swirl="acme_swirl:SwirlLayer"), "acme_swirl": CLASSES.format("Swirl")}
        ),
        "metal": install(
            "metal",
            {
                "metal": offering(offer_backends="{'metal': 'metal_backend:MetalBackend'}"),
                "metal_backend": "class MetalBackend:\n    lineage = ('metal', 'numpy')\n",
            },
        ),
        "glue-one": install(
            "glue-one",
            {
                "glue_one": offering(offer_kernels="{('Swirl', 'metal'): 'glue_one_swirl:Kernel'}"),
                "glue_one_swirl": "class Kernel: pass\n",
            },
        ),
        "glue-two": install(
            "glue-two",
            {
                "glue_two": offering(offer_kernels="{('acme-layers:Swirl', 'metal'): 'glue_two_swirl:Kernel'}"),
                "glue_two_swirl": "class Kernel: pass\n",
            },
        ),
        "broken": install("broken", {"broken": "import os\nimport no_such_module\n"}, version="3.0"),
        "raising": install(
            "raising",
            {
                "raising": offering(offer_commands="{'serve': 'serve:command'}")
                + "\n@hookimpl\ndef offer_layers():\n    raise ValueError('bad day\\nmore')\n"
            },
        ),
    }


def test_six_distributions_are_reported_exactly(six: dict[str, Path]) -> None:
    assert report(Registry()) == [
        "acme-layers: active: 1",
        "broken: failed: 0",
        "glue-one: active: 1",
        "glue-two: active: 1",
        "metal: active: 1",
        "raising: active: 1",
        "broken 3.0 (import): ModuleNotFoundError: No module named 'no_such_module' "
        + f"[{six['broken']}/broken.py:2]",
        "raising 1.0 (hook): offer_layers raised ValueError: bad day more " + f"[{six['raising']}/raising.py:9]",
        "backend metal:metal metal_backend:MetalBackend",
        "command raising:serve serve:command",
        "kernel glue-one:Swirl@metal glue_one_swirl:Kernel",
        "kernel glue-two:acme-layers:Swirl@metal glue_two_swirl:Kernel",
        "layer acme-layers:Swirl acme_swirl:SwirlLayer",
    ]


def test_the_remedy_names_the_uninstall_command_and_the_switch(six: dict[str, Path]) -> None:
    remedy = Registry().problems[0].remedy
    assert "pip uninstall broken" in remedy
    assert "NACRE_DISABLE_PLUGINS=broken" in remedy


def test_listing_imports_nothing_heavy(six: dict[str, Path]) -> None:
    registry = Registry()
    assert registry.names("layer") == ["Swirl"]
    assert registry.names("backend") == ["metal"]
    assert not {"acme_swirl", "metal_backend", "glue_one_swirl", "glue_two_swirl"} & set(sys.modules)
    assert registry.open("layer", "Swirl") is sys.modules["acme_swirl"].SwirlLayer
    assert "metal_backend" not in sys.modules


def test_a_lazy_package_that_lists_its_names_is_not_made_to_open_them(install: Install) -> None:
    text = layers(Swirl="lazy_heavy:SwirlLayer") + textwrap.dedent("""
        def __getattr__(name):
            import lazy_heavy
            return lazy_heavy.SwirlLayer
        def __dir__():
            return [*globals(), "SwirlLayer"]
        """)
    install("lazy", {"lazy_light": text, "lazy_heavy": CLASSES.format("Swirl")})
    assert Registry().names("layer") == ["Swirl"]
    assert "lazy_heavy" not in sys.modules


def test_folder_order_changes_nothing(six: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    first = report(Registry())
    monkeypatch.setattr(sys, "path", sys.path[::-1])
    assert report(Registry()) == first


def test_a_distribution_seen_twice_counts_once_and_the_first_wins(install: Install) -> None:
    install("Acme.Layers", {"acme_old": layers(Swirl="acme_old:Swirl")}, folder="later")
    install("acme-layers", {"acme_new": layers(Swirl="acme_new:Swirl")}, version="2.0", folder="first")
    registry = Registry()
    assert [str(plugin.provenance) for plugin in registry.plugins()] == ["acme-layers 2.0"]
    assert registry.problems == []
    found = list(importlib_metadata.entry_points(group="nacre.plugins"))
    assert len(Registry(entry_points=found * 2).plugins()) == 1


def test_several_entry_points_of_one_distribution(install: Install) -> None:
    modules = {"acme_a": layers(A="x:A"), "acme_b": layers(B="x:B", A="y:A")}
    install("acme", modules, entries={"one": "acme_a", "two": "acme_b"})
    registry = Registry()
    assert [plugin.name for plugin in registry.plugins()] == ["acme:one", "acme:two"]
    assert registry.names("layer") == ["A", "B"]
    assert registry.find("layer", "A").target == "x:A"
    assert "layer 'A' is offered twice" in registry.problems[0].reason


def test_an_unreadable_entry_point_file_hurts_only_its_own(install: Install) -> None:
    install("good", {"good": layers(Swirl="x:Swirl")})
    root = install("spoilt", {"spoilt": ""})
    (root / "spoilt-1.0.dist-info" / "entry_points.txt").write_bytes(b"[nacre.plugins]\n\xff\xfe = x\n")
    registry = Registry()
    assert registry.names("layer") == ["Swirl"]
    assert problems(registry) == [("spoilt", "find")]
    (root / "spoilt-1.0.dist-info" / "METADATA").unlink()  # now its folder alone has its name
    assert problems(Registry()) == [("spoilt", "find")]


# What a light module can do wrong


@pytest.mark.parametrize(
    ("text", "stage", "words"),
    [
        (offering(offer_layer="{'Swirl': 'x:Swirl'}"), "hook", "no hook offer_layer (did you mean 'offer_layers'?)"),
        ("def offer_layers():\n    return {}\n", "hook", "offer_layers is not marked @hookimpl"),
        ("x = 1\n", "hook", "no function marked @hookimpl"),
        (layers(A="x:A") + "\nnacre_api = '1.7'\n", "api", f'nacre_api = "1.7", but nacre {__version__} has {API}'),
        (layers(A="x:A") + "\nnacre_api = '2'\n", "api", "needs a newer nacre"),
        (layers(A="x:A") + "\nnacre_api = '2.0'\n", "api", "needs a newer nacre"),
        (
            layers(A="x:A") + "\nnacre_api = '0.9'\n",
            "api",
            'is for an older nacre: it says nacre_api = "0.9", but nacre',
        ),
        (layers(A="x:A") + "\nnacre_api = 'new'\n", "api", 'like "1" or "1.2"'),
        (layers(A="x:A") + "\nnacre_libraries = 'h5py'\n", "api", "nacre_libraries = 'h5py', but it must be a tuple"),
        ("from nacre.hooks import hookimpl\n@hookimpl\ndef offer_layers(net):\n    return {}\n", "hook", "net"),
        (offering(offer_layers="['Swirl']"), "offer", "returned list"),
        (offering(offer_layers="{'no name': 'x:Swirl'}"), "offer", "'no name'"),
        (offering(offer_layers="{'Swirl': 'x.Swirl'}"), "offer", "'x.Swirl'"),
        (offering(offer_layers="{'Swirl': 7}"), "offer", "must be a class"),
        (offering(offer_kernels="{'Swirl': 'x:Kernel'}"), "offer", "two strings"),
        (offering(offer_kernels="{('Swirl', ''): 'x:Kernel'}"), "offer", "'Swirl@'"),
        (offering(offer_components="{'neuron': 'x:Y'}"), "offer", "must be a dict"),
        (offering(offer_components="{'Neuron!': {'A': 'x:Y'}}"), "offer", "lower-case"),
        (offering(offer_names_elsewhere="['Vortex']"), "offer", "returned list"),
        (offering(offer_names_elsewhere="{'layer/Swirl': ['Vortex']}"), "offer", 'must be like "layer/InnerProduct"'),
        (offering(offer_names_elsewhere="{'layer/Swirl': 'Vortex'}"), "offer", "it offers no layer/Swirl"),
        ("if True\n", "import", "SyntaxError"),
    ],
)
def test_a_faulty_light_module_is_recorded_and_offers_nothing(
    install: Install, text: str, stage: str, words: str
) -> None:
    root = install("faulty", {"faulty": text})
    registry = Registry()
    assert problems(registry) == [("faulty", stage)]
    problem = registry.problems[0]
    assert words in problem.reason
    assert problem.file == str(root / "faulty.py")
    assert [plugin.status for plugin in registry.plugins()] == ["failed"]
    assert registry.kinds() == []


def test_too_new_an_api_keeps_the_hooks_from_running_and_says_what_to_upgrade(install: Install) -> None:
    text = "nacre_api = '1.9'\nfrom nacre.hooks import hookimpl\n@hookimpl\ndef offer_layers():\n    raise SystemExit\n"
    install("eager", {"eager": text})
    (problem,) = Registry().problems
    assert problem.reason.startswith("eager 1.0 needs")
    assert problem.remedy.startswith("pip install --upgrade nacre, or")


def test_too_new_an_api_names_the_nacre_that_its_package_requires(install: Install) -> None:
    required = "Requires-Dist: numpy>=1.26\nRequires-Dist: nacre-swirl>=9\nRequires-Dist: nacre<3,>=1.4\n"
    install("ahead", {"ahead": "nacre_api = '1.9'\n"}, metadata=required)
    (problem,) = Registry().problems
    assert (
        problem.reason == f'ahead 1.0 needs nacre ≥ 1.4: it says nacre_api = "1.9", but nacre {__version__} has {API}'
    )
    assert problem.remedy.startswith('pip install --upgrade "nacre>=1.4", or')


def test_too_old_an_api_says_to_upgrade_the_plugin_also_where_it_is_used(install: Install) -> None:
    install("eager", {"eager": layers(Swirl="x:Swirl") + "\nnacre_api = '0.9'\n"})
    registry = Registry()
    (problem,) = registry.problems
    assert problem.remedy.startswith("pip install --upgrade eager, or pip uninstall eager")
    with pytest.raises(RegistryError, match=r"eager 1\.0 is for an older nacre"):
        registry.open("layer", "Swirl")


def test_an_entry_point_that_names_an_object_in_a_module_is_refused(install: Install) -> None:
    text = layers(Swirl="x:Swirl") + "\nclass plugin:\n    pass\n"
    install("acme", {"acme_light": text}, entries={"swirl": "acme_light:plugin"})
    install("good", {"good": layers(Calm="x:Calm")}, entries={"good": "good [fast]"})  # an extra is no object
    registry = Registry()
    assert registry.names("layer") == ["Calm"]
    (problem,) = registry.problems
    assert problem.reason == (
        "its entry point names 'plugin' in acme_light, but must name the module alone: swirl = \"acme_light\""
    )
    assert (problem.distribution, problem.stage) == ("acme", "find")
    assert [plugin.status for plugin in registry.plugins()] == ["failed", "active"]
    assert "acme_light" not in sys.modules
    assert Registry(environ={"NACRE_DISABLE_PLUGINS": "acme"}).problems == []


def test_bad_items_are_dropped_singly(install: Install) -> None:
    install("mixed", {"mixed": offering(offer_layers="{'Good': 'x:Good', '1bad': 'x:Bad'}", offer_layer="{}")})
    registry = Registry()
    assert registry.names("layer") == ["Good"]
    assert sorted(problems(registry)) == [("mixed", "hook"), ("mixed", "offer")]
    assert registry.plugins()[0].status == "active"


def test_any_kind_of_component_may_be_offered(install: Install) -> None:
    install("kinds", {"kinds": offering(offer_components="{'neuron': {'A': 'x:A'}, 'brand_new': {'B': 'x:B'}}")})
    assert Registry().kinds() == ["brand_new", "neuron"]


# Switches


@pytest.mark.parametrize(
    ("environ", "status"),
    [
        ({}, ["active", "active", "active", "active"]),
        ({"NACRE_NO_PLUGINS": "0", "NACRE_PLUGINS": ""}, ["active", "active", "active", "active"]),
        (
            {"NACRE_NO_PLUGINS": "1"},
            ["disabled: NACRE_NO_PLUGINS", "disabled: NACRE_NO_PLUGINS", "active", "active"],
        ),
        ({"NACRE_PLUGINS": "Acme"}, ["active", "disabled: not in NACRE_PLUGINS", "active", "active"]),
        ({"NACRE_PLUGINS": "b-entry"}, ["disabled: not in NACRE_PLUGINS", "active", "active", "active"]),
        ({"NACRE_DISABLE_PLUGINS": "beta, two"}, ["active", "off", "active", "off"]),
        ({"NACRE_DISABLE_PLUGINS": "own_two"}, ["active", "active", "active", "off"]),
        ({"NACRE_DISABLE_PLUGINS": "nacre:two"}, ["active", "active", "active", "off"]),
    ],
)
def test_switches(install: Install, environ: dict[str, str], status: list[str]) -> None:
    install("acme", {"acme_light": layers(A="x:A")})
    install("beta", {"beta_light": layers(B="x:B")}, entries={"b-entry": "beta_light"})
    install(
        "nacre", {"own_one": layers(C="x:C"), "own_two": layers(D="x:D")}, entries={"one": "own_one", "two": "own_two"}
    )
    registry = Registry(environ=environ)
    expected = ["disabled: NACRE_DISABLE_PLUGINS" if one == "off" else one for one in status]
    assert [plugin.status for plugin in registry.plugins()] == expected
    modules = ["acme_light", "beta_light", "own_one", "own_two"]
    assert [module in sys.modules for module in modules] == [one == "active" for one in expected]
    assert registry.problems == []


@pytest.mark.parametrize("variable", ["NACRE_PLUGINS", "NACRE_DISABLE_PLUGINS"])
def test_an_unknown_name_in_a_switch_is_recorded(install: Install, variable: str) -> None:
    install("acme", {"acme_light": layers(A="x:A")})
    (problem,) = Registry(environ={variable: "acmee"}).problems
    assert problem.stage == "switch"
    assert f"{variable} names 'acmee'" in problem.reason
    assert "did you mean 'acme'?" in problem.reason


def test_an_entry_point_cannot_slip_in_under_the_name_of_a_distribution(install: Install) -> None:
    install("acme", {"acme_light": layers(A="x:A")})
    install("evil", {"evil_light": layers(B="x:B")}, entries={"acme": "evil_light"})
    registry = Registry(environ={"NACRE_PLUGINS": "acme"})
    assert [plugin.status for plugin in registry.plugins()] == ["active", "disabled: not in NACRE_PLUGINS"]


# Names


@pytest.fixture
def two(install: Install) -> None:
    install("acme", {"acme": layers(Swirl="acme_swirl:SwirlLayer"), "acme_swirl": CLASSES.format("Swirl")})
    install(
        "beta", {"beta": layers(Swirl="beta_swirl:SwirlLayer", Only="x:Only"), "beta_swirl": CLASSES.format("Swirl")}
    )


def test_two_offers_of_one_name(two: None) -> None:
    registry = Registry()
    assert registry.names("layer") == ["Only", "acme:Swirl", "beta:Swirl"]
    assert [offer.distribution for offer in registry.offers("layer", "Swirl")] == ["acme", "beta"]
    with pytest.raises(RegistryError, match=r"'Swirl' is offered by acme 1\.0 and beta 1\.0") as caught:
        registry.open("layer", "Swirl")
    assert 'pin = { "layer:Swirl" = "acme" }' in str(caught.value)
    assert "'acme:Swirl' or 'beta:Swirl'" in str(caught.value)
    assert registry.open("layer", "Acme:Swirl").__module__ == "acme_swirl"


def test_a_pin_settles_it_and_the_argument_wins(two: None) -> None:
    registry = Registry(pins={"layer:Swirl": "beta"})
    assert registry.open("layer", "Swirl").__module__ == "beta_swirl"
    assert registry.open("layer", "Swirl", pins={"layer:Swirl": "acme"}).__module__ == "acme_swirl"
    assert registry.open("layer", "acme:Swirl").__module__ == "acme_swirl"
    with pytest.raises(RegistryError, match="pinned to 'acme', which offers no such layer"):
        registry.open("layer", "Only", pins={"layer:Only": "acme"})


def test_threads_follow_their_own_net_files() -> None:
    """Two blocks in which a net file is followed may overlap, and end in any order."""
    registry = Registry(discover=False)
    first_in, second_in, first_out = (Event() for _ in range(3))
    found: list[str] = []

    def first() -> None:
        with following({"layer:Swirl": "acme"}):
            first_in.set()
            second_in.wait()
        first_out.set()

    def second() -> None:
        first_in.wait()
        with following({"layer:Fade": "beta"}):
            second_in.set()
            first_out.wait()
            found.extend(registry.pinned([key]) for key in ("layer:Swirl", "layer:Fade"))

    threads = [Thread(target=one) for one in (first, second)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == ["", "beta"]
    assert not registry.pinned(["layer:Swirl", "layer:Fade"])


def test_an_unknown_name_tells_the_nearest_and_what_failed(six: dict[str, Path]) -> None:
    registry = Registry(environ={"NACRE_DISABLE_PLUGINS": "glue-one"})
    with pytest.raises(RegistryError) as caught:
        registry.open("layer", "Swril")
    text = str(caught.value)
    assert text.startswith("no layer 'Swril' (did you mean 'Swirl'?); installed: Swirl\n")
    assert "broken 3.0 (import): ModuleNotFoundError" in text
    assert "pip uninstall broken" in text
    assert "glue-one is disabled: NACRE_DISABLE_PLUGINS" in text


VORTEX = {"offer_layers": "{'Swirl': 'x:Swirl'}", "offer_names_elsewhere": "{'layer/Swirl': 'Vortex Whirlpool'}"}


def test_a_plugin_says_what_others_call_what_it_offers(install: Install, tmp_path: Path) -> None:
    install("acme", {"acme": offering(**VORTEX)})
    with pytest.raises(RegistryError, match=r"no layer 'whirlpool' \(did you mean 'Swirl'\?\); installed: Swirl\n"):
        Registry().find("layer", "whirlpool")
    with pytest.raises(RegistryError, match="no neuron 'Vortex': nothing of this kind is installed"):
        Registry().find("neuron", "Vortex")
    install("aaa", {"aaa": layers(Swirl="y:Swirl")})
    with pytest.raises(RegistryError, match=r"'Vortex' \(did you mean 'acme:Swirl'\?\); installed: aaa:Swirl, acme:"):
        Registry().find("layer", "Vortex")
    file = tmp_path / "mine.py"
    file.write_text(offering(**VORTEX))
    registry = Registry(discover=False)
    registry.load_file(file)
    assert registry.suggested("Vortex", ["layer"]) == " (did you mean 'Swirl'?)"


def test_what_nacre_says_of_a_name_elsewhere_comes_first(install: Install) -> None:
    for distribution, name in (("aaa", "Swirl"), ("nacre", "Twirl"), ("zzz", "Curl")):
        hooks = {hook: given.replace("Swirl", name) for hook, given in VORTEX.items()}
        install(distribution, {f"light_{distribution}": offering(**hooks)})
    assert Registry().suggested("Vortex", ["layer"]) == " (did you mean 'Twirl'?)"


def test_a_typo_is_told_also_where_names_elsewhere_cannot_be_read(install: Install) -> None:
    install("acme", {"acme": offering(**VORTEX | {"offer_names_elsewhere": "1 / 0"})})
    with pytest.raises(RegistryError, match=r"no layer 'Swril' \(did you mean 'Swirl'\?\); installed: Swirl") as caught:
        Registry().find("layer", "Swril")
    assert "failed: acme 1.0 (hook): offer_names_elsewhere raised ZeroDivisionError" in caught.value.remedy
    assert "set NACRE_DISABLE_PLUGINS=acme" in caught.value.remedy


def test_an_unknown_kind_tells_the_nearest(two: None) -> None:
    with pytest.raises(RegistryError, match=r"nothing of this kind is installed \(did you mean 'layer'\?\)"):
        Registry().open("layr", "Swirl")


def test_many_names_are_told_shortly() -> None:
    registry = Registry(discover=False)
    for number in range(20):
        registry.register(type(f"Thing{number}", (), {"nacre_kind": "neuron"}))
    with pytest.raises(RegistryError, match="and 8 more"):
        registry.open("neuron", "Zebra")


def test_many_failures_are_told_shortly(install: Install) -> None:
    for number in range(7):
        install(f"broken{number}", {f"broken{number}": "1 / 0\n"})
    with pytest.raises(RegistryError, match=r"and 2 more: nacre plugins$") as caught:
        Registry().open("layer", "Swirl")
    assert str(caught.value).count("ZeroDivisionError") == 5


# Opening


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("op_heavy:Missing", ["Missing", "op_heavy"]),
        ("op_nowhere:Thing", ["No module named 'op_nowhere'"]),
        ("op_heavy:number", ["must be a class, but is 7"]),
        ("op_raising:Thing", ["RuntimeError: no device", "op_raising.py:2"]),
    ],
)
def test_what_cannot_be_opened_says_whose_it_is_and_what_would_do(
    install: Install, target: str, words: list[str]
) -> None:
    modules = {
        "op": layers(Thing=target),
        "op_heavy": "number = 7\n",
        "op_raising": "import os\nraise RuntimeError('no device')\n",
    }
    install("op", modules, version="2.1")
    registry = Registry()
    with pytest.raises(PluginError) as caught:
        registry.open("layer", "Thing")
    for word in ["layer 'Thing' of op 2.1 cannot be opened", "NACRE_DISABLE_PLUGINS=op", ".py", *words]:
        assert word in str(caught.value)
    assert registry.names("layer") == ["Thing"]


def test_a_missing_optional_library_is_named_with_the_extra_that_brings_it(install: Install) -> None:
    extras = """\
        Provides-Extra: cuda12
        Requires-Dist: nocupy-cuda12x>=13; extra == "cuda12"
        Requires-Dist: nocupy-cuda13x>=14; extra == "cuda13"
        Requires-Dist: nocupyish; extra == "other"
        """
    modules = {
        "opt": offering(offer_backends="{'a': 'opt_a:A', 'b': 'opt_b:B'}"),
        "opt_a": "import nocupy.cuda\n",
        "opt_b": "import nolmdb\n",
    }
    install("opt", modules, metadata=textwrap.dedent(extras))
    registry = Registry()
    with pytest.raises(PluginError, match=r"backend 'a' of opt .*package 'nocupy'") as caught:
        registry.open("backend", "a")
    assert caught.value.remedy == 'pip install "opt[cuda12]" or pip install "opt[cuda13]"'
    with pytest.raises(PluginError, match=r"package 'nolmdb'\n  install .*'nolmdb'"):
        registry.open("backend", "b")


def test_a_command_need_not_be_a_class(install: Install) -> None:
    light = offering(offer_commands="{'serve': 'serve_heavy:command'}")
    install("serve", {"serve_light": light, "serve_heavy": "def command(): pass\n"})
    assert Registry().open("command", "serve").__name__ == "command"


def test_provenance(install: Install) -> None:
    root = install("acme", {"acme": layers(Swirl="acme_swirl:SwirlLayer"), "acme_swirl": CLASSES.format("Swirl")})
    (root / "acme-1.0.dist-info" / "direct_url.json").write_text('{"url": "file:///x", "dir_info": {"editable": true}}')
    registry = Registry()
    provenance = registry.owner(registry.open("layer", "Swirl"))
    assert provenance is not None
    assert str(provenance) == "acme 1.0"
    assert provenance.file == str(root / "acme.py")
    assert provenance.module == "acme"
    assert provenance.editable
    assert registry.owner(int) is None


# Kernels. The layer Pool is of `own`, the backend cpu of `dev`; a kernel's class is called as its distribution.


class Kernels:
    """A registry with made-up things, each under the distribution that is said."""

    def __init__(self) -> None:
        self.registry = Registry(discover=False)
        self.layer = self.thing("PoolLayer", "layer", "own")
        cpu = self.thing("CpuBackend", "backend", "dev", "cpu")
        cpu.lineage = ("cpu", "base")  # type: ignore[attr-defined] - made by type()
        self.thing("BaseBackend", "backend", "dev", "base")

    def thing(self, name: str, kind: str, whose: str, short: str | None = None) -> type:
        cls = type(name, (), {"nacre_kind": kind})
        self.registry.register(cls, short, distribution=whose)
        return cls

    def kernel(self, whose: str, thing: str = "Pool", backend: str = "cpu") -> None:
        self.registry.register_kernel(type(whose, (), {}), thing, backend, distribution=whose)

    def choose(self, *declining: str, pins: dict[str, str] | None = None, cls: type | None = None) -> Choice:
        def accept(kernel: type, offer: object) -> str | None:
            return "not today" if kernel.__name__ in declining else None

        return self.registry.choose(cls or self.layer, "layer", ("cpu", "base"), accept, pins)


@pytest.fixture
def kernels() -> Kernels:
    return Kernels()


def outcome(choice: Choice) -> tuple[str | None, str, list[str], list[str]]:
    chosen = choice.kernel.__name__ if choice.kernel else None
    lost, declined = ([offer.distribution for offer, _ in reasons] for reasons in (choice.lost, choice.declined))
    return chosen, choice.ancestor, lost, declined


def test_no_kernel_means_its_own_state(kernels: Kernels) -> None:
    assert outcome(kernels.choose()) == (None, "cpu", [], [])
    assert "no kernel serves it on cpu, base" in kernels.choose().why


def test_a_strangers_kernel_serves_only_where_it_is_enabled_or_pinned(kernels: Kernels) -> None:
    kernels.kernel("alien")
    kernels.kernel("martian")
    choice = kernels.choose("martian")
    assert outcome(choice) == (None, "cpu", [], [])
    assert [offer.distribution for offer, _ in choice.not_enabled] == ["alien", "martian"]
    line = 'kernels = ["alien"] under [plugins] in the net file or in nacre.toml (nacre plugins enable alien)'
    assert choice.not_enabled[0][1] == f"to enable it: {line}"
    assert f"not enabled: {__name__}:alien (alien): to enable it: {line}" in str(choice)
    assert choice.as_dict()["not_enabled"][1]["from"] == "martian"
    given = kernels.registry.choose(kernels.layer, "layer", ("cpu", "base"), kernels=["Alien"])
    assert (outcome(given)[0], given.why) == ("alien", "alien is enabled, and no owner's kernel serves")
    assert outcome(kernels.choose(pins={"kernel:Pool@cpu": "martian"})) == ("martian", "cpu", ["alien"], [])
    kernels.kernel("dev")  # what an owner's kernel serves, only a pin gives to another
    choice = kernels.choose()
    assert outcome(choice) == ("dev", "cpu", ["alien", "martian"], [])
    assert choice.not_enabled == []


def test_what_is_registered_in_the_process_is_enabled(kernels: Kernels) -> None:
    kernels.registry.register_kernel(type("mine", (), {}), "Pool", "cpu")
    assert outcome(kernels.choose())[0] == "mine"


def test_kernel_ranks(kernels: Kernels) -> None:
    kernels.registry.kernels = ("alien",)
    kernels.kernel("alien")
    assert outcome(kernels.choose()) == ("alien", "cpu", [], [])
    kernels.kernel("own")
    assert outcome(kernels.choose()) == ("own", "cpu", ["alien"], [])
    kernels.kernel("dev")
    choice = kernels.choose()
    assert outcome(choice) == ("dev", "cpu", ["own", "alien"], [])
    assert choice.why == "dev owns the backend cpu"
    assert 'pin = { "kernel:Pool@cpu" = "alien" }' in choice.lost[1][1]
    assert outcome(kernels.choose("dev")) == ("own", "cpu", ["alien"], ["dev"])
    assert outcome(kernels.choose("dev", "own")) == ("alien", "cpu", [], ["dev", "own"])
    assert outcome(kernels.choose("dev", "own", "alien")) == (None, "cpu", [], ["dev", "own", "alien"])


def test_two_enabled_strangers_clash_until_a_pin_chooses_or_one_declines(kernels: Kernels) -> None:
    kernels.registry.kernels = ("alien", "martian")
    kernels.kernel("alien")
    kernels.kernel("martian")
    with pytest.raises(RegistryError, match=r"\(alien\) and .*\(martian\)") as caught:
        kernels.choose()
    assert 'pin = { "kernel:Pool@cpu" = "alien" }' in str(caught.value)
    assert 'pin = { "kernel:Pool@cpu" = "martian" }' in str(caught.value)
    assert outcome(kernels.choose("alien")) == ("martian", "cpu", [], ["alien"])
    assert outcome(kernels.choose(pins={"kernel:Pool@cpu": "martian"})) == ("martian", "cpu", ["alien"], [])
    kernels.kernel("dev")
    assert outcome(kernels.choose()) == ("dev", "cpu", ["alien", "martian"], [])


def test_pins_of_kernels(kernels: Kernels) -> None:
    kernels.kernel("dev")
    kernels.kernel("alien")
    for key in ("kernel:Pool@cpu", "kernel:own:Pool@cpu"):
        choice = kernels.choose(pins={key: "Alien"})
        assert outcome(choice) == ("alien", "cpu", ["dev"], [])
        assert choice.why == "alien is pinned"
    assert outcome(kernels.choose("alien", pins={"kernel:Pool@cpu": "alien"})) == ("dev", "cpu", [], ["alien"])
    kernels.registry.pins["kernel:Pool@cpu"] = "alien"
    assert outcome(kernels.choose())[0] == "alien"
    with pytest.raises(RegistryError, match="pinned to 'nobody', which offers no such kernel"):
        kernels.choose(pins={"kernel:Pool@cpu": "nobody"})


def test_the_lineage_is_asked_in_order(kernels: Kernels) -> None:
    kernels.registry.kernels = ("alien",)
    kernels.kernel("dev", backend="base")
    assert outcome(kernels.choose()) == ("dev", "base", [], [])
    kernels.kernel("alien")
    assert outcome(kernels.choose()) == ("alien", "cpu", [], [])
    assert outcome(kernels.choose("alien")) == ("dev", "base", [], ["alien"])


def test_only_an_enabled_stranger_with_a_kernel_for_an_ancestor_is_asked_for_copies(kernels: Kernels) -> None:
    kernels.registry.kernels = ("alien",)
    asked: list[str] = []

    def adds_copies(kernel: type, offer: object) -> str:
        asked.append(kernel.__name__)
        return "it adds copies"

    def choose(pins: dict[str, str] | None = None) -> Choice:
        return kernels.registry.choose(kernels.layer, "layer", ("cpu", "base"), None, pins, adds_copies=adds_copies)

    kernels.kernel("alien", backend="base")
    choice = choose()
    assert outcome(choice) == (None, "cpu", [], ["alien"])
    pin = 'pin = { "kernel:Pool@base" = "alien" } under [plugins] in the net file or in nacre.toml'
    assert choice.declined[0][1] == f"it adds copies; to choose it: {pin}"
    assert asked == ["alien"]
    assert outcome(choose({"kernel:Pool@base": "alien"})) == ("alien", "base", [], [])
    kernels.kernel("own", backend="base")
    assert outcome(choose()) == ("own", "base", ["alien"], [])
    kernels.kernel("alien")
    assert outcome(choose()) == ("alien", "cpu", [], [])
    assert asked == ["alien"]


def test_a_kernel_serves_exactly_its_class(kernels: Kernels) -> None:
    kernels.kernel("dev")
    assert outcome(kernels.choose(cls=type("PoolLayer", (kernels.layer,), {})))[0] is None
    assert outcome(kernels.choose(cls=type("PoolLayer", (), {})))[0] is None
    assert "no plugin offers it" in kernels.choose(cls=type("PoolLayer", (), {})).why
    derived = kernels.thing("DerivedLayer", "layer", "own")
    assert outcome(kernels.choose(cls=derived))[0] is None


def test_a_short_name_in_an_offer_means_the_own_thing_else_nacres_else_the_only_one(kernels: Kernels) -> None:
    kernels.registry.kernels = ("alien",)
    kernels.kernel("dev")
    other = kernels.thing("PoolLayer", "layer", "other")
    kernels.kernel("other")
    assert outcome(kernels.choose(cls=other)) == ("other", "cpu", [], ["dev"])
    choice = kernels.choose()
    assert outcome(choice) == (None, "cpu", [], ["dev"])
    assert "'other:Pool' or 'own:Pool'" in choice.declined[0][1]
    kernels.kernel("alien", "own:Pool")
    assert outcome(kernels.choose())[0] == "alien"
    assert choice.thing == "own:Pool"
    built_in = kernels.thing("PoolLayer", "layer", "nacre")
    assert outcome(kernels.choose(cls=built_in)) == ("dev", "cpu", [], [])


def test_kernels_for_components(kernels: Kernels) -> None:
    relu = kernels.thing("ReLU", "neuron", "own")
    kernels.thing("ReLU", "layer", "own")
    kernels.kernel("dev", "neuron/ReLU")
    kernels.kernel("alien", "neuron/own:ReLU")
    choice = kernels.registry.choose(relu, "neuron", ("cpu",))
    assert outcome(choice) == ("dev", "cpu", ["alien"], [])
    assert 'pin = { "kernel:neuron/ReLU@cpu" = "alien" }' in choice.lost[0][1]
    pinned = kernels.registry.choose(relu, "neuron", ("cpu",), pins={"kernel:neuron/ReLU@cpu": "alien"})
    assert outcome(pinned)[0] == "alien"


def test_a_kernel_that_does_not_open_declines_and_a_loser_is_not_imported(install: Install) -> None:
    kernel = "offer_kernels", "{{('Pool', 'cpu'): '{}:Kernel'}}"
    install("own", {"own": layers(Pool="own_pool:PoolLayer"), "own_pool": CLASSES.format("Pool")})
    install(
        "dev",
        {
            "dev": offering(offer_backends="{'cpu': 'dev_cpu:Cpu'}", **{kernel[0]: kernel[1].format("dev_kernel")}),
            "dev_kernel": "import no_device_library\n",
        },
    )
    install("glue", {"glue": offering(**{kernel[0]: kernel[1].format("glue_k")}), "glue_k": "class Kernel: pass\n"})
    assert outcome(Registry().explain("Pool", "cpu")) == (None, "cpu", [], ["dev"])
    assert "glue_k" not in sys.modules  # a stranger's that is not enabled
    registry = Registry(kernels=["glue"])
    choice = registry.choose(registry.open("layer", "Pool"), "layer", ("cpu",))
    assert choice.offer is not None
    assert choice.offer.distribution == "glue"
    assert "needs the package 'no_device_library'" in choice.declined[0][1]
    registry.register_kernel(type("Kernel", (), {}), "Pool", "cpu", distribution="own")
    del sys.modules["glue_k"]
    choice = Registry(pins={"kernel:Pool@cpu": "dev"}).explain("Pool", "cpu")
    assert outcome(choice)[3] == ["dev"]
    fresh = Registry(kernels=["glue"])
    fresh.register_kernel(type("Kernel", (), {}), "Pool", "cpu", distribution="own")
    sys.modules.pop("glue_k", None)
    assert [offer.distribution for offer, _ in fresh.explain("Pool", "cpu").lost] == ["glue"]
    assert "glue_k" not in sys.modules


def test_explain_prints_and_gives_data(kernels: Kernels) -> None:
    kernels.kernel("dev", backend="base")
    kernels.kernel("alien", backend="base")
    choice = kernels.registry.explain("Pool", "cpu")
    lines = str(choice).splitlines()
    assert lines[0].startswith("Pool on base: ")
    assert lines[0].endswith("because dev owns the backend base")
    assert lines[1].startswith("  lost: ")
    told = choice.as_dict()
    assert (told["thing"], told["backend"], told["from"]) == ("Pool", "base", "dev")
    assert told["lost"][0]["from"] == "alien"
    assert kernels.registry.explain(kernels.layer, "cpu").as_dict() == told


# Without a distribution


def test_register_takes_the_name_of_the_class() -> None:
    registry = Registry(discover=False)

    @registry.register
    class SwirlLayer:
        nacre_kind = "layer"

    class GELU:
        nacre_kind = "neuron"

    registry.register(GELU)
    registry.register(GELU, "Gelu")
    assert registry.open("layer", "Swirl") is SwirlLayer
    assert registry.open("neuron", "local:Gelu") is GELU
    assert registry.names("neuron") == ["GELU", "Gelu"]
    assert [len(plugin.offers) for plugin in registry.plugins()] == [3]
    assert registry.problems == []
    owner = registry.owner(GELU)
    assert owner is not None
    assert owner.distribution == "local"
    assert owner.file == __file__


def test_registering_a_name_again_replaces_the_class() -> None:
    registry = Registry(discover=False)
    first, second = (type("A", (), {"nacre_kind": "neuron"}) for _ in range(2))
    registry.register(first)
    assert registry.open("neuron", "A") is first
    registry.register(second)
    assert registry.open("neuron", "A") is second
    assert registry.owner(first) is None
    assert registry.problems == []


def test_register_refuses_what_has_no_kind_or_a_bad_name() -> None:
    registry = Registry(discover=False)
    with pytest.raises(RegistryError, match="kind="):
        registry.register(int)
    with pytest.raises(RegistryError, match="'no name'"):
        registry.register(int, "no name", kind="neuron")
    with pytest.raises(RegistryError, match="must be a class"):
        registry.register(7, "Seven", kind="neuron")


def test_a_light_module_may_register_while_plugins_are_discovered(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from nacre import register\nregister(type('A', (), {'nacre_kind': 'neuron'}))\n" + layers(B="x:B")
    install("acme", {"acme": text})
    use_registry(monkeypatch, None)
    process = nacre.discovery.registry.registry()
    assert process.names("layer") == ["B"]
    assert process.names("neuron") == ["A"]
    assert nacre.discovery.registry.registry() is process


def test_what_a_module_registers_when_it_is_opened_is_its_plugins_and_not_enabled(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = CLASSES.format("Swirl") + "import nacre\nnacre.register_kernel(type('K', (), {}), 'Pool', 'cpu')\n"
    install("acme", {"acme": layers(Swirl="acme_swirl:SwirlLayer"), "acme_swirl": opened})
    install("own", {"own": layers(Pool="own_pool:PoolLayer"), "own_pool": CLASSES.format("Pool")})
    install("cpu", {"cpu": offering(offer_backends="{'cpu': 'cpu_backend:Cpu'}")})
    use_registry(monkeypatch, registry := Registry(environ={}))
    registry.open("layer", "Swirl")
    assert [offer.distribution for offer in registry.offers("kernel")] == ["acme"]
    choice = registry.choose(registry.open("layer", "Pool"), "layer", ("cpu",))
    assert (choice.kernel, [offer.distribution for offer, _ in choice.not_enabled]) == (None, ["acme"])


def test_a_file_is_a_plugin_of_its_name(tmp_path: Path) -> None:
    file = tmp_path / "my_layers.py"
    file.write_text("class SwirlLayer:\n    nacre_kind = 'layer'\nclass _Base(SwirlLayer): pass\nclass State: pass\n")
    registry = Registry(discover=False)
    plugin = registry.load_file(file)
    assert (plugin.name, plugin.status) == ("my-layers", "active")
    assert [offer.name for offer in plugin.offers] == ["Swirl"]
    first = registry.open("layer", "my_layers:Swirl")
    assert registry.owner(first) == plugin.offers[0].provenance
    assert "my_layers" not in sys.modules
    registry.load_file(file)
    assert registry.names("layer") == ["Swirl"]
    assert registry.open("layer", "Swirl") is not first
    assert len(registry.plugins()) == 1


def test_a_file_with_hooks_offers_what_they_say(tmp_path: Path) -> None:
    file = tmp_path / "hooked.py"
    text = offering(offer_layers="{'Swirl': 'hooked:A', 'Twirl': A}", offer_kernels="{('Swirl', 'cpu'): 'hooked:K'}")
    file.write_text(text + "\nclass A: nacre_kind = 'layer'\nclass K: pass\n")
    registry = Registry(discover=False)
    registry.load_file(file)
    assert registry.names("layer") == ["Swirl", "Twirl"]
    assert registry.open("layer", "Swirl") is registry.open("layer", "Twirl")
    choice = registry.choose(registry.open("layer", "Swirl"), "layer", ("cpu",))
    assert outcome(choice)[0] == "K"
    registry.load_file(file)
    assert len(registry.plugins()) == 1
    swirl = registry.open("layer", "Swirl")
    assert registry.offers_of(swirl, "layer") and registry.kernels_for("layer", "Swirl", "cpu")
    file.write_text("")
    registry.load_file(file)
    assert not registry.offers_of(swirl, "layer") and not registry.kernels_for("layer", "Swirl", "cpu")


def test_a_file_that_registers_by_itself_is_not_registered_again(tmp_path: Path, new_registry: NewRegistry) -> None:
    file = tmp_path / "selfmade.py"
    file.write_text("from nacre import register\n@register\nclass A:\n    nacre_kind = 'neuron'\n")
    registry = new_registry(discover=False)
    registry.load_file(file)
    assert registry.names("neuron") == ["A"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\nraise ValueError('bad')\n", ":2: ValueError: bad"),
        ("x = 1\nif x\n", ":2: SyntaxError"),
        (offering(offer_layers="{'no name': 'a:B'}"), ":3: offer_layers: layer 'no name'"),
        (offering(offer_layers="1 / 0"), ":5: offer_layers raised ZeroDivisionError"),
        (None, "wrong.py: no such file"),
    ],
)
def test_errors_in_a_file_name_file_and_line(tmp_path: Path, text: str | None, words: str) -> None:
    file = tmp_path / "wrong.py"
    if text is not None:
        file.write_text(text)
    registry = Registry(discover=False)
    with pytest.raises(PluginError) as caught:
        registry.load_file(file)
    assert str(file) in str(caught.value)
    assert words in str(caught.value)
    assert registry.plugins() == []


@pytest.mark.parametrize(
    ("variables", "rule"),
    [
        ({"NACRE_DISABLE_PLUGINS": "lay"}, "NACRE_DISABLE_PLUGINS"),
        ({"NACRE_PLUGINS": "other"}, "not in NACRE_PLUGINS"),
        ({"NACRE_NO_PLUGINS": "1"}, "NACRE_NO_PLUGINS"),
    ],
)
def test_a_file_is_switched_off_as_an_installed_plugin_is(variables: dict[str, str], rule: str, tmp_path: Path) -> None:
    file = tmp_path / "lay.py"
    file.write_text("raise ValueError('imported')\n")
    registry = Registry(entry_points=[], environ=variables)
    assert registry.load_file(file).status == f"disabled: {rule}"
    assert registry.load_file(file) in registry.plugins() and len(registry.plugins()) == 1
    assert not any(problem.distribution == "lay" for problem in registry.problems)  # it is installed after all
    with pytest.raises(RegistryError, match=f"lay is disabled: {rule}"):
        registry.open("layer", "Lay")


def test_a_file_that_is_named_among_the_only_ones_is_used(tmp_path: Path) -> None:
    file = tmp_path / "lay.py"
    file.write_text("class LayLayer:\n    nacre_kind = 'layer'\n")
    registry = Registry(entry_points=[], environ={"NACRE_PLUGINS": "lay"})
    registry.load_file(file)
    assert registry.names("layer") == ["Lay"]
    assert registry.problems == []


def test_a_pin_in_the_settings_settles_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    one, other = type("One", (), {"nacre_kind": "layer"}), type("Other", (), {"nacre_kind": "layer"})
    registry = Registry(entry_points=[])
    registry.register(one, "Both", distribution="acme")
    registry.register(other, "Both", distribution="bits")
    with pytest.raises(RegistryError, match="acme and bits"):
        registry.open("layer", "Both")
    Path("nacre.toml").write_text('[plugins]\npin = { "layer:Both" = "acme" }\n')
    assert registry.open("layer", "Both") is one
    registry.pins = {"layer:Both": "bits"}
    assert registry.open("layer", "Both") is other
    assert registry.open("layer", "Both", {"layer:Both": "acme"}) is one
    assert Registry(discover=False).pinned(["layer:Both"]) == ""  # the environment is none of a test's business


def test_an_unknown_name_says_what_to_do() -> None:
    registry = Registry(discover=False)
    with pytest.raises(RegistryError) as nothing:
        registry.open("layer", "Twirl")
    registry.register(type("TwirlLayer", (), {"nacre_kind": "layer"}))
    with pytest.raises(RegistryError) as unknown:
        registry.open("layer", "Twril")
    assert nothing.value.remedy == "install a plugin that offers it"
    assert "`nacre layers` lists them all" in unknown.value.remedy


def test_a_file_may_not_take_the_name_of_a_plugin(install: Install, tmp_path: Path) -> None:
    install("acme", {"acme": layers(Swirl="x:Swirl")})
    file = tmp_path / "acme.py"
    file.write_text("")
    with pytest.raises(RegistryError, match="'acme'"):
        Registry().load_file(file)


# Requirements


@pytest.mark.parametrize(
    ("bound", "met"),
    [
        ("", True),
        ("==1.2", True),
        ("== 1.2.0, <2", True),
        (">=1.10", False),
        (">1.2", False),
        ("<=1.2.0.1", True),
        ("<1.2", False),
        ("!=1.2", False),
        ("~=1.1", True),
        ("~=1.1.0", False),
        ("~=1.3", False),
        ("[extra]>=1", True),
    ],
)
def test_requirements(install: Install, bound: str, met: bool) -> None:
    install("acme-layers", {"acme": ""}, version="1.2")
    if met:
        parse_requirements([f"Acme_Layers{bound}"])
    else:
        with pytest.raises(RegistryError, match=r"1\.2 is installed"):
            parse_requirements([f"acme-layers{bound}"])


def test_all_unmet_requirements_are_told(install: Install) -> None:
    install("acme", {"acme": ""}, version="1.2")
    with pytest.raises(RegistryError) as caught:
        parse_requirements(["acme>=2", "nowhere-layers>=1.2", "acme"])
    assert "acme>=2 (1.2 is installed), nowhere-layers>=1.2 (not installed)" in str(caught.value)
    assert 'pip install "acme>=2" "nowhere-layers>=1.2"' in str(caught.value)


@pytest.mark.parametrize("requirement", ["", ">=1", "acme>=x", "acme===1", "acme; python_version > '3'", "acme ~= 1"])
def test_a_requirement_that_cannot_be_read_is_an_error(install: Install, requirement: str) -> None:
    install("acme", {"acme": ""})
    with pytest.raises(RegistryError, match="must be like"):
        parse_requirements([requirement])


# Cheapness


def test_importing_the_registry_is_cheap() -> None:
    heavy = "numpy h5py rich click pluggy importlib_metadata importlib.metadata"
    code = f"import sys, nacre.discovery.registry; print([name for name in {heavy.split()!r} if name in sys.modules])"
    root = str(Path(importlib.util.find_spec("nacre.discovery.registry").origin).parents[2])  # type: ignore[union-attr, arg-type] - it is there
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_a_plugin_that_ends_the_program_is_one_that_fails(install: Install) -> None:
    install("acme", {"acme_light": "import sys\nsys.exit(7)\n"})
    install("calm", {"calm_light": layers(Calm="calm:CalmLayer")})
    registry = Registry()
    assert problems(registry) == [("acme", "import")]
    assert "Calm" in registry.names("layer")


def test_a_place_without_a_line_names_no_line_0() -> None:
    told = Problem("acme", "1.0", "hook", "bad", "acme.py", 0, "")
    assert str(told) == "acme 1.0 (hook): bad [acme.py]"
    assert str(replace(told, line=7)) == "acme 1.0 (hook): bad [acme.py:7]"
    assert str(replace(told, file="")) == "acme 1.0 (hook): bad"
