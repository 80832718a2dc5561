from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import nacre
from nacre import (
    ConfigError,
    ContractError,
    Identity,
    Layer,
    LayerState,
    Names,
    Net,
    Neuron,
    Pair,
    Parameter,
    SourceState,
    about_statistic,
    at_least,
    default,
    non_negative,
    positive,
)
from nacre.protocols.layer import TRAITS
from nacre_layers.elementwise.dropout import DropoutLayer
from nacre_layers.initializers import Constant
from nacre_layers.linear.inner_product import InnerProductLayer
from nacre_layers.pooling.pooling import PoolingLayer
from small_layers import HalveLayer, MatrixLayer, SquareLossLayer, State, data

REPOSITORY = Path(__file__).parents[3]


class WindowLayer(Layer, can_do_bp=True, has_neuron=True):
    """DESIGN's example."""

    bottoms: Annotated[Names, at_least(1)]
    tops: Names
    kernel: Annotated[Pair, positive, "window, in pixels"] = default((1, 1))
    pad: Annotated[Pair, non_negative, "border, in pixels"] = default((0, 0))
    neuron: Neuron = Identity()


def test_the_error_of_a_field_names_layer_field_value_and_what_would_do() -> None:
    with pytest.raises(ConfigError) as caught:
        WindowLayer(name="pool1", bottoms="data", tops="pool1", kernel=(0, 2))
    assert str(caught.value) == "pool1: kernel=(0, 2), but every number must be above 0"


@pytest.mark.parametrize(
    ("fields", "called"),
    [
        ({"name": "first", "bottoms": "x", "tops": "y"}, "first"),
        ({"bottoms": "x", "tops": "y"}, "y"),
        ({"bottoms": "x", "tops": ["y", "z"]}, "y"),
        ({"bottoms": "x"}, "Window"),
        ({"name": 3, "bottoms": "x", "tops": "y"}, "3"),
    ],
)
def test_an_error_names_the_layer_even_where_it_has_no_name(fields: dict[str, Any], called: str) -> None:
    with pytest.raises(ConfigError) as caught:
        WindowLayer(**fields, kernel="three")
    assert all(line.startswith(f"{called}: ") for line in str(caught.value).splitlines())


def test_traits_are_false_unless_the_class_or_its_parent_says_so() -> None:
    class Same(WindowLayer):
        """Says nothing."""

    class Stops(WindowLayer, can_do_bp=False):
        """Takes one back."""

    given = {trait: getattr(Same, trait) for trait in TRAITS}
    assert given == dict.fromkeys(TRAITS, False) | {"can_do_bp": True, "has_neuron": True}
    assert (Stops.can_do_bp, Stops.has_neuron) == (False, True)
    assert not any(getattr(Layer, trait) for trait in TRAITS)


def test_a_misspelt_trait_is_told_the_right_name() -> None:
    with pytest.raises(ContractError, match=r"can_do_pb.*did you mean 'can_do_bp'"):

        class Wrong(Layer, can_do_pb=True):  # type: ignore[arg-type]
            """Misspelt."""


def test_traits_that_forbid_or_demand_a_field() -> None:
    with pytest.raises(ContractError, match=r"Source .*is_source.*'bottoms'"):

        class Source(Layer, is_source=True):
            bottoms: Names

    with pytest.raises(ContractError, match=r"Sink .*is_sink.*'tops'"):

        class Sink(WindowLayer, is_sink=True):
            """Inherits tops."""

    with pytest.raises(ContractError, match=r"InPlace .*is_inplace.*'tops'"):

        class InPlace(Layer, is_inplace=True):
            tops: Names

    with pytest.raises(ContractError, match=r"Plain .*has_neuron.*'neuron'"):

        class Plain(Layer, has_neuron=True):
            bottoms: Names


def test_a_layer_without_bottoms_or_tops_must_say_so() -> None:
    class NoBottoms(Layer):
        tops: Names

    class NoTops(Layer):
        bottoms: Names

    with pytest.raises(ContractError, match=r"NoBottoms .*'bottoms'.*is_source=True"):
        NoBottoms(tops="x")
    with pytest.raises(ContractError, match=r"NoTops .*'tops'.*is_sink=True"):
        NoTops(bottoms="x")


def test_default_names() -> None:
    assert WindowLayer(bottoms="x", tops=["y", "z"]).name == "y"
    assert DropoutLayer(bottoms="ip1").name == "Dropout-ip1"
    assert SquareLossLayer(bottoms="ip1").name == "SquareLoss-ip1"
    assert data(1, top="x").name == "in-x"


@pytest.mark.parametrize("name", ["a/b", "a@last", "dist:Name", "a#1", "a b"])
def test_reserved_characters_in_a_name(name: str) -> None:
    with pytest.raises(ConfigError, match="name='"):
        WindowLayer(name=name, bottoms="x", tops="y")
    with pytest.raises(ConfigError, match="tops="):
        WindowLayer(bottoms="x", tops=name)


def test_exclude_takes_phases_only() -> None:
    assert WindowLayer(bottoms="x", tops="y", exclude="train").exclude == ("train",)
    with pytest.raises(ConfigError, match="a list of phases: train, validation, test, predict"):
        WindowLayer(bottoms="x", tops="y", exclude=["training"])


def test_a_layer_is_the_object_and_frozen() -> None:
    one, other = (PoolingLayer(bottoms="x", tops="y", kernel=2) for _ in range(2))
    assert one != other
    assert {one: 1, other: 2} == {one: 1, other: 2}
    assert len({one, other}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.kernel = 3  # type: ignore[misc]
    with pytest.raises(ConfigError, match="'y' given without a name"):
        PoolingLayer("y")  # type: ignore[call-arg, misc]


def test_replace_gives_another_layer_and_checks_it() -> None:
    one = PoolingLayer(name="p", bottoms="x", tops="y", kernel=2)
    other = dataclasses.replace(one, kernel=(3, 4), bottoms="z")
    assert (other.name, other.kernel, other.bottoms, other.stride) == ("p", (3, 4), ("z",), (1,))
    with pytest.raises(ConfigError, match="p: kernel="):
        dataclasses.replace(one, kernel=0)


# Promises that are checked when the layer is set up


class PassLayer(Layer, can_do_bp=True):
    """Made with a state of the test's."""

    bottoms: Names
    tops: Names
    state: Any

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> Any:
        return self.state(self, backend, inputs, diffs)


class PassState(State):
    def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        self.blobs = [backend.alias(inputs[0])]

    def forward(self, inputs: list[Any]) -> None:
        """Passes on."""

    def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
        """Passes on."""


def refuse(match: str, state: Any, layer: type[Layer] = PassLayer, **fields: Any) -> None:
    """Expect a ContractError when a net with this state is made."""
    made = layer(name="it", bottoms="data", state=state, **({"tops": "y"} if not layer.is_sink else {}), **fields)
    with pytest.raises(ContractError, match=match):
        Net("net", [data(2), made], backend="numpy")


def test_setup_must_be_defined() -> None:
    class Bare(Layer):
        bottoms: Names
        tops: Names

    with pytest.raises(ContractError, match="Bare has no state"):
        Net("net", [data(2), Bare(bottoms="data", tops="y")], backend="numpy")


def test_setup_must_give_a_state() -> None:
    refuse("Pass.setup .* LayerState, not a NoneType", lambda *_: None)


def test_what_a_layer_says_of_its_statistics() -> None:
    class ScoresLayer(PassLayer, has_loss=True, statistics={"top": ("higher", "%"), "class_*": ("lower", "")}):
        pass

    class MoreLayer(ScoresLayer, statistics={"bits": ("lower", "bits")}):
        pass

    layer = MoreLayer(bottoms="x", tops="y", state=None)
    assert layer.has_stats
    said = {"top": ("higher", "%"), "class_7": ("lower", ""), "bits": ("lower", "bits"), "loss": ("lower", "")}
    assert {name: about_statistic(layer, name) for name in said} == said
    assert about_statistic(layer, "records") == ("", "")
    assert about_statistic(ScoresLayer(bottoms="x", tops="y", state=None), "bits") == ("", "")
    with pytest.raises(ContractError, match=r"statistics=\{'a': \('best', ''\)\}, but the first must be one of"):
        type("BadLayer", (PassLayer,), {}, statistics={"a": ("best", "")})


@pytest.mark.parametrize("missing", ["forward", "backward"])
def test_the_life_cycle_must_be_defined(missing: str) -> None:
    methods = {name: getattr(PassState, name) for name in ("__init__", "forward", "backward", "shutdown")}
    del methods[missing]

    def init(self: Any, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        LayerState.__init__(self, layer, backend, inputs, diffs)
        self.blobs = [backend.blob((3, 2))]

    Partial = type("Partial", (LayerState,), methods | {"__init__": init})
    refuse(f"Partial does not define {missing}", Partial)


def test_a_state_must_call_the_constructor_of_its_base() -> None:
    class Forgetful(PassState):
        def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
            self.layer = layer

    refuse(r"Forgetful does not call super\(\).__init__", Forgetful)


def test_the_number_of_blobs() -> None:
    class Two(PassState):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.blobs *= 2

    refuse(r"layer 'it' \(Pass\): Two declares 2 blobs for 1 tops", Two)


def test_parameters_need_has_param() -> None:
    class Learns(PassState):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.parameters = [Parameter("w", (2,), init=Constant())]

    refuse(r"layer 'it' \(Pass\): Learns .*PassLayer .*has_param", Learns)


def test_has_param_needs_a_list_of_parameters() -> None:
    class ParamLayer(PassLayer, has_param=True):
        """Says so."""

    class Nothing(PassState):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.parameters = None  # type: ignore[assignment]

    class Wrong(PassState):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.parameters = [np.zeros(2)]  # type: ignore[list-item]

    refuse(r"layer 'it' \(Param\): Nothing.parameters is None, but must be a list", Nothing, ParamLayer)
    refuse(r"layer 'it' \(Param\): Wrong.parameters has a ndarray", Wrong, ParamLayer)


def test_has_loss_needs_a_loss() -> None:
    class LossLayer(Layer, is_sink=True, has_loss=True):
        bottoms: Names
        state: Any

        def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> Any:
            return self.state(self, backend, inputs, diffs)

    class NoLoss(State):
        def forward(self, inputs: list[Any]) -> None:
            """Computes nothing."""

        def backward(self, inputs: list[Any], diffs: list[Any]) -> None:
            """Computes nothing."""

    refuse(r"layer 'it' \(Loss\): .*has_loss, .*NoLoss .*'loss'", NoLoss, LossLayer)


@pytest.mark.parametrize("missing", ["dump_statistics", "reset_statistics"])
def test_has_stats_needs_two_methods(missing: str) -> None:
    class StatsLayer(PassLayer, has_stats=True):
        """Says so."""

    methods = {"dump_statistics": lambda self: {}, "reset_statistics": lambda self: None}
    del methods[missing]
    refuse(f"has_stats, but Counts does not define {missing}", type("Counts", (PassState,), methods), StatsLayer)


def test_a_source_needs_a_source_state() -> None:
    class Source(Layer, is_source=True):
        tops: Names

        def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> Any:
            state = PassState(self, backend, [backend.blob((1,))], diffs)
            state.blobs = [backend.blob((1,))]
            return state

    with pytest.raises(ContractError, match=r"layer 'x' \(Source\): PassState .* must be a SourceState"):
        Net("net", [Source(tops="x")], backend="numpy")


def test_a_source_state_must_say_how_it_begins_anew() -> None:
    with pytest.raises(ContractError, match="SourceState does not define rewind"):
        SourceState(None, None, [], []).rewind()  # type: ignore[arg-type]


def test_reads_names_inputs_and_blobs() -> None:
    with pytest.raises(ContractError, match="Wrong: reads='outputs'"):

        class Wrong(LayerState, reads="outputs"):
            """Misspelt."""

    with pytest.raises(ContractError, match="did you mean 'reads'"):

        class Misspelt(LayerState, read="inputs"):  # type: ignore[arg-type]
            """Misspelt."""


def test_what_a_state_says_goes_to_its_subclasses() -> None:
    class One(LayerState, reads="inputs", elementwise=True, dtypes=("float32",)):
        """Says three things."""

    class Other(One, elementwise=False):
        """Takes one back."""

    assert (Other.reads, Other.elementwise, Other.dtypes) == ("inputs", False, ("float32",))
    assert (LayerState.reads, LayerState.elementwise, LayerState.dtypes) == ("inputs blobs", False, ())


def test_an_alias_must_be_of_an_input() -> None:
    class Stranger(PassState):
        def __init__(self, layer: Any, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
            super().__init__(layer, backend, inputs, diffs)
            self.blobs = [backend.alias(backend.blob((3, 2)))]

    refuse("it: top 'y' is an alias of .*inputs", Stranger)


def test_parameters_need_an_initializer() -> None:
    with pytest.raises(ConfigError, match="parameter 'w' needs an initializer"):
        Parameter("w", (2,))
    assert Parameter("w", (2, 3), tied="a/w", transposed=True).size == 6


# What is imported, and what editors and type checkers say


def loaded(code: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after `code`."""
    code += "\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout))


HEAVY = {"numpy", "h5py", "rich", "click", "pluggy", "importlib_metadata"}


def test_import_nacre_is_light() -> None:
    assert not loaded("import nacre") & HEAVY
    assert not loaded("from nacre import Layer, Net, Solver, Component, Names, lazy") & (HEAVY - {"pluggy"})


def test_a_class_of_a_light_module_imports_its_own_file_only() -> None:
    modules = loaded("from nacre_layers import DropoutLayer")
    own = {name for name in modules if name.startswith("nacre_layers.")}
    assert own == {"nacre_layers.cutting", "nacre_layers.elementwise", "nacre_layers.elementwise.dropout"}
    assert not modules & (HEAVY - {"pluggy"})


def test_a_state_says_whose_it_is_and_the_layer_makes_it() -> None:
    class PlainLayer(Layer):
        bottoms: Names
        tops: Names

    class HeirLayer(PlainLayer):
        """A layer without a state of its own."""

    class PlainState(LayerState, of=PlainLayer):
        """The state of both."""

    class FasterState(PlainState):
        """A kernel, say: it is nobody's state."""

    view: Any = None
    for cls in (PlainLayer, HeirLayer):
        assert type(cls(bottoms="x", tops="y").setup(view, [], [])) is PlainState

    with pytest.raises(ContractError, match=r"PlainState and OtherState .*PlainLayer"):

        class OtherState(LayerState, of=PlainLayer):
            """One too many."""

    class OldLayer(PlainLayer):
        def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> Any:
            raise NotImplementedError

    class NewLayer(OldLayer):
        """It inherits a setup, but has a state of its own."""

    class NewState(LayerState, of=NewLayer):
        """Which wins."""

    assert type(NewLayer(bottoms="x", tops="y").setup(view, [], [])) is NewState
    with pytest.raises(ContractError, match=r"OldLayer defines setup.*OldState"):

        class OldState(LayerState, of=OldLayer):
            """One of two ways too many."""

    again = type(
        "PlainState", (LayerState,), {"__qualname__": PlainState.__qualname__, "__module__": __name__}, of=PlainLayer
    )
    assert type(PlainLayer(bottoms="x", tops="y").setup(view, [], [])) is again, "as where a notebook's cell runs again"


def test_registry_is_a_function_whatever_was_imported_before() -> None:
    for before in ("import nacre.discovery.registry", "from nacre.discovery.registry import Registry"):
        loaded(f"{before}; import nacre; assert nacre.registry() is nacre.registry()")


def test_type_checkers_are_told_of_every_field_of_a_solver() -> None:
    tree = ast.parse(inspect.getsource(sys.modules[nacre.Solver.__module__]))
    (told,) = [
        node.args
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__init__" and node.args.kwonlyargs
    ]
    names = [argument.arg for argument in (*told.args[1:], *told.kwonlyargs)]
    assert names == [field.name for field in nacre.Solver.fields()]


def test_every_public_name_is_there() -> None:
    for name in nacre.__all__:
        assert getattr(nacre, name) is not None
    with pytest.raises(AttributeError, match="module 'nacre' has no attribute 'Lair'"):
        _ = nacre.Lair  # type: ignore[attr-defined]


AUTHOR = '''
from __future__ import annotations

from typing import Annotated, Any

from nacre import Array, Identity, Layer, LayerState, Maybe, Names, Neuron, Pair, Regularizer, View, at_least, default
from nacre import positive


class SwirlLayer(Layer, can_do_bp=True, has_neuron=True):
    """An author's layer."""

    bottoms: Annotated[Names, at_least(1)]
    tops: Names
    kernel: Annotated[Pair, positive, "window"] = default((1, 1))
    neuron: Neuron = Identity()
    kernel_regu: Annotated[Maybe[Regularizer], "regulariser of the kernel"] = default("L2")

    def setup(self, backend: Any, inputs: list[Any], diffs: list[Any]) -> SwirlState:
        return SwirlState(self, backend, inputs, diffs)


class SwirlState(LayerState, reads="inputs"):
    def __init__(self, layer: SwirlLayer, backend: Any, inputs: list[Any], diffs: list[Any]) -> None:
        super().__init__(layer, backend, inputs, diffs)
        rows, columns = layer.kernel
        self.cells: int = rows * columns
        first: str = layer.bottoms[0]
        self.first = first

    def forward(self, inputs: list[Array]) -> None: ...
    def backward(self, inputs: list[Array], diffs: list[Array | None]) -> None: ...
    def shutdown(self) -> None: ...


class Softsign(Neuron):
    def forward(self, backend: View, x: Array, y: Array) -> None:
        backend.xp.divide(x, 1 + abs(x), out=y)

    def backward(self, backend: View, x: Array | None, y: Array, dy: Array, dx: Array) -> None:
        backend.xp.multiply(dy, (1 - abs(y)) ** 2, out=dx)


SwirlLayer(name="a", bottoms="x", tops=["y"], kernel=3, kernel_regu="none")
found = SwirlLayer(bottoms=["x"], tops="y", kernel=(2, 3), exclude="train", kernel_regu=None)
regu: Regularizer | None = found.kernel_regu
'''
WRONG = """
from nacre import Layer, Names, Pair, default


class Misspelt(Layer, can_do_pb=True):
    bottoms: Names
    tops: Names
"""
ALSO_WRONG = """
from author import SwirlLayer

SwirlLayer(name="a", bottoms="x", tops="y", kernle=3)
SwirlLayer(name="a", bottoms="x", tops="y", kernel="three")
SwirlLayer(name="a", tops="y")
"""
USES = """
from nacre import Callback, LayerState, Neuron, Solver
from nacre.config import load
from nacre_layers import ActivationLayer, ConvolutionLayer, PoolingLayer, ReLU
from nacre_solvers import SGD

PoolingLayer(bottoms="x", tops="y", kernel=2, rounding="floor", pooling="Mean", exclude=["train", "test"])
ActivationLayer(bottoms="x", tops="y", neuron="Tanh")
ActivationLayer(bottoms="x", tops="y", neuron={"type": "ELU", "alpha": 0.3})
found: Neuron = ActivationLayer(bottoms="x", tops="y", neuron=ReLU()).neuron
ConvolutionLayer(bottoms="x", tops="y", n_filter=3, weight_init=0.5)
ConvolutionLayer(bottoms="x", tops="y", n_filter=3, weight_regu="none", weight_cons=None, bias_regu={"type": "L2"})
Solver(SGD(), max_iter=10, lr_policy=0.1, momentum_policy="Fixed", callbacks=["TrainingSummary"])
load("net.toml").net("test")
"""
WRONG_USES = [
    ('PoolingLayer(bottoms="x", tops="y", kernel=2, rounding="up")', "rounding"),
    ('PoolingLayer(bottoms="x", tops="y", kernel=2, exclude="training")', "exclude"),
    ('ActivationLayer(bottoms="x", tops="y", neuron=3)', "neuron"),
    ('ConvolutionLayer(bottoms="x", tops="y", n_filter=3, weight_init=[1])', "weight_init"),
    ('ConvolutionLayer(bottoms="x", tops="y", n_filter=3, weight_regu=ReLU())', "weight_regu"),
    ("Solver(SGD(), max_iters=10)", "max_iters"),
    ('Solver(SGD(), max_iter="ten")', "max_iter"),
    ("Solver(SGD(), lr_policy=SGD())", "lr_policy"),
    ('load("net.toml").net("testing")', "testing"),
    ('class State(LayerState, reads="outputs"): ...', "reads"),
    ("class State(LayerState, of=Neuron): ...", "of"),
]
"""What a type checker must refuse, and the word that it must say."""


@pytest.mark.long
@pytest.mark.parametrize("checker", [["pyright"], ["mypy", "--config-file", str(REPOSITORY / "pyproject.toml")]])
def test_type_checkers_understand_an_authors_layer(checker: list[str], tmp_path: Path) -> None:
    pytest.importorskip(checker[0])
    (tmp_path / "author.py").write_text(AUTHOR)
    (tmp_path / "misspelt.py").write_text(WRONG)
    (tmp_path / "fields.py").write_text(ALSO_WRONG)
    config = {
        "extraPaths": [str(folder) for folder in (REPOSITORY / "core", *(REPOSITORY / "plugins").iterdir(), tmp_path)],
        "include": ["."],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))

    def complaints(name: str) -> str:
        run = subprocess.run(
            [sys.executable, "-m", *checker, str(tmp_path / name)],
            capture_output=True,
            text=True,
            check=False,
            cwd=REPOSITORY if checker[0] == "mypy" else tmp_path,
        )
        assert run.returncode in (0, 1), run.stderr
        return run.stdout if run.returncode else ""

    assert complaints("author.py") == ""
    assert "can_do_pb" in complaints("misspelt.py")
    wrong = complaints("fields.py")
    assert all(word in wrong for word in ("kernle", "kernel", "bottoms"))
    (tmp_path / "uses.py").write_text(USES)
    assert complaints("uses.py") == ""
    (tmp_path / "wrong_uses.py").write_text("\n".join([USES, *(line for line, _ in WRONG_USES)]))
    told = complaints("wrong_uses.py").splitlines()
    for number, (line, word) in enumerate(WRONG_USES, 2 + len(USES.splitlines())):
        assert any(f"wrong_uses.py:{number}:" in one for one in told), (line, told)
        assert any(word in one for one in told), line


def test_layers_of_the_tests_work_in_a_net() -> None:
    layers = [data(2), MatrixLayer(bottoms="data", tops="y", width=3), HalveLayer(bottoms="y")]
    with Net("net", [*layers, SquareLossLayer(bottoms="y")], backend="numpy") as net:
        assert net.forward() > 0
    assert isinstance(InnerProductLayer(bottoms="x", tops="y", output_dim=1).neuron, Identity)
