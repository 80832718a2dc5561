"""Pins, enabled distributions and kernels' keys that have no effect are told, with the name that may be meant."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path

import pytest

import nacre
import nacre_cupy
import nacre_layers
import nacre_onednn
from command_line import run
from nacre.config import load
from nacre.discovery.discovery import new_manager, read_module
from nacre.discovery.known import KNOWN
from nacre.discovery.offers import Plugin, Provenance
from nacre.discovery.registry import Registry
from nacre.discovery.typos import kernel_without_thing, without_effect
from nacre.errors import RegistryError
from nacre.protocols.making import make_layer
from registries import NewRegistry, install_plugin

FAST = [
    ("kernel", "Poolng@numpy", "fast:K"),
    ("kernel", "Swirl@numpy", "fast:K"),
    ("kernel", "neuron/ReLU@numpy", "fast:K"),
    ("layer", "Gain", "fast:G"),
]


@pytest.fixture
def here() -> Registry:
    registry = Registry()
    install_plugin(registry, "nacre-fast", FAST)
    install_plugin(registry, "acme", [("layer", "Gain", "acme:G")])
    return registry


@pytest.mark.parametrize(
    ("key", "distribution", "words"),
    [
        ("layer:Gian", "acme", "has no effect: nobody offers a layer 'Gian' (did you mean 'Gain'?)"),
        ("layr:Gain", "acme", "has no effect: nobody offers anything of the kind 'layr' (did you mean 'layer'?)"),
        ("layer:Gain", "acem", "pin 'layer:Gain' names 'acem', but no such plugin is installed (did you mean 'acme'?)"),
        ("layer:Pooling", "acme", "has no effect: it offers no such layer"),
        ("kernel:Poling@numpy", "nacre-fast", "nobody offers a layer 'Poling' (did you mean 'Pooling'?)"),
        ("kernel:Pooling@numpi", "nacre-fast", "nobody offers a backend 'numpi' (did you mean 'numpy'?)"),
        ("kernel:neurn/ReLU@numpy", "nacre-fast", "nobody offers a neurn 'ReLU'"),
        ("kernel:AbsVal@numpy", "nacre-fast", "has no effect: it offers no such kernel"),
    ],
)
def test_a_pin_that_has_no_effect_is_told(here: Registry, key: str, distribution: str, words: str) -> None:
    (told,) = without_effect(here, {key: distribution}, ())
    assert words in told


@pytest.mark.parametrize(
    ("key", "distribution"),
    [
        ("layer:Gain", "ACME"),
        ("layer:nacre-fast:Gain", "nacre-fast"),
        ("kernel:neuron/ReLU@numpy", "nacre_fast"),
        ("kernel:neuron/nacre:ReLU@numpy", "nacre-fast"),
    ],
)
def test_a_pin_that_has_one_is_not(here: Registry, key: str, distribution: str) -> None:
    assert list(without_effect(here, {key: distribution}, ())) == []


def test_enabled_distributions_and_their_kernels(here: Registry) -> None:
    assert list(without_effect(here, {}, ["nacre-fsat"])) == [
        "kernels has 'nacre-fsat', but no such plugin is installed (did you mean 'nacre-fast'?)"
    ]
    assert list(without_effect(here, {}, ["Acme"])) == ["kernels has 'Acme', but it offers no kernel and no backend"]
    typo = "the kernel 'Poolng@numpy' of nacre-fast 1.0 is never used: nobody offers a layer 'Poolng' (did you mean "
    assert list(without_effect(here, {}, ["nacre-fast"])) == [f"{typo}'Pooling'?)"]
    # that of an optional layer, which is not installed, is no mistake: only the doctor tells it
    (swirl,) = here.offers("kernel", "Swirl@numpy")
    assert "nobody offers a layer 'Swirl'" in kernel_without_thing(here, swirl)


def test_what_is_disabled_or_failed_has_told_already(here: Registry) -> None:
    here._plugins[-1].status = "failed"
    here._withdraw(here._plugins[-1], list(here._plugins[-1].offers))
    assert list(without_effect(here, {"layer:Gain": "acme"}, ["acme"])) == []


def test_a_net_file_tells_them_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_registry: NewRegistry) -> None:
    monkeypatch.chdir(tmp_path)
    install_plugin(new_registry(), "nacre-fast", FAST)
    text = 'layer = [{type = "Input", tops = ["data"], shape = [3], batch_size = 2}]\n'
    text += '[plugins]\nkernels = ["nacre-fsat"]\n[solver]\ntype = "SGD"\n'
    (tmp_path / "net.toml").write_text(text)
    words = "net.toml: kernels has 'nacre-fsat', but no such plugin is installed (did you mean 'nacre-fast'?)"
    assert run("summary", "net.toml").err == f"warning: {words}\n"
    with pytest.warns(UserWarning, match="kernels has 'nacre-fsat'"):
        load("net.toml")


# Known packages


PLUGINS = Path(__file__).resolve().parents[3] / "examples/plugins"


def offered(name: str, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return what an example plugin offers, by its light module."""
    project = tomllib.loads((PLUGINS / name / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: set[str] = set()
    for module in project.get("entry-points", {}).get("nacre.plugins", {}).values():
        monkeypatch.syspath_prepend(PLUGINS / name)
        file = PLUGINS / name / module / "__init__.py"
        plugin = Plugin(name, name, Provenance(name, "1.0", str(file), False, module))
        try:
            assert read_module(plugin, importlib.import_module(module), new_manager()) == []
        finally:
            sys.modules.pop(module, None)  # other tests ask whether such a package is installed
        found |= {f"{offer.kind}/{offer.name}" for offer in plugin.offers if offer.kind != "kernel"}
    return found


@pytest.mark.parametrize("name", sorted(one.name for one in PLUGINS.iterdir() if (one / "pyproject.toml").exists()))
def test_the_examples_are_known_packages(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {offer for offer in KNOWN.get(name, ()) if not offer.startswith("ending/")}
    assert offered(name, monkeypatch) == known


def test_known_packages_are_examples() -> None:
    assert all((PLUGINS / name / "pyproject.toml").exists() for name in KNOWN)


@pytest.mark.parametrize(
    ("kind", "name", "package"),
    [
        ("layer", "Swirl", "nacre-swirl"),
        ("layer", "nacre-swirl:Swirl", "nacre-swirl"),
        ("command", "serve", "nacre-serve"),
        ("ending", ".parquet", "nacre-parquet"),
    ],
)
def test_an_unknown_name_says_what_to_install(kind: str, name: str, package: str) -> None:
    assert Registry(entry_points=()).how_to_get(kind, name) == f"{package} offers it: pip install {package}"


def test_a_name_with_a_distribution_says_what_to_install() -> None:
    here = Registry(discover=False)
    told = "acme-odd is not installed: pip install acme-odd, or name its file with --plugin"
    assert here.how_to_get("layer", "Acme_Odd:Swirl") == told
    for name in ("Whirl", "x; rm -rf /:Whirl", "--user:Whirl", "local:Whirl"):
        assert here.how_to_get("layer", name) == "", name


def test_what_is_installed_is_not_to_be_installed(new_registry: NewRegistry) -> None:
    here = new_registry()
    install_plugin(here, "nacre-swirl", [])
    assert here.how_to_get("layer", "Swirl") == ""  # an old version, perhaps
    here.plugins()[-1].status = "disabled: NACRE_DISABLE_PLUGINS"
    with pytest.raises(RegistryError) as raised:
        here.open("layer", "Swirl")
    assert raised.value.remedy.startswith("nacre-swirl is installed, but not used\n  nacre-swirl is disabled: NACRE_")


ELSEWHERE = nacre_layers.ELSEWHERE | nacre_cupy.offer_names_elsewhere() | nacre_onednn.offer_names_elsewhere()


@pytest.mark.parametrize("ours", ELSEWHERE)
def test_names_of_other_libraries_mean_what_nacre_offers(ours: str) -> None:
    here = nacre.registry()
    kind, _, wanted = ours.partition("/")
    wrapped = [one.name for one in here.offers("layer_of")]
    for name in ELSEWHERE[ours].split():
        for others in ([kind], ["layer", *wrapped]) if kind in wrapped else ([kind],):
            assert name not in [known for one in others for known in here.names(one)]
            assert here.suggested(name.upper(), others) == f" (did you mean '{wanted}'?)"
            with pytest.raises(RegistryError, match=rf"no {others[0]} '{name}' \(did you mean '{wanted}'\?\)"):
                here.find(others[0], name, others=others[1:])
        if kind in ("layer", *wrapped):
            with pytest.raises(RegistryError, match=rf"no layer '{name}' \(did you mean '{wanted}'\?\)"):
                getattr(nacre.L, name)


def test_a_neuron_is_found_where_a_layer_stands() -> None:
    with pytest.raises(RegistryError, match=r"no layer 'Relu' \(did you mean 'ReLU'\?\)"):
        make_layer({"type": "Relu", "bottoms": "x", "tops": "y"})


def test_errors_have_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_registry: NewRegistry) -> None:
    monkeypatch.chdir(tmp_path)
    new_registry()
    Path("net.toml").write_text('[[layer]]\ntype = "Swirl"\nbottoms = ["a"]\ntops = ["b"]\n')
    assert "nacre-swirl offers it: pip install nacre-swirl" in run("summary", "net.toml", code=2).err
    assert "nacre-serve offers it: pip install nacre-serve" in run("serve", code=2).err
    with pytest.raises(RegistryError) as raised:
        _ = nacre.L.Swirl
    assert raised.value.remedy == "nacre-swirl offers it: pip install nacre-swirl"
