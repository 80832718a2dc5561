"""What all suites of the conformance kit have in common: names of checks, expected failures, and nacre's report."""

import os
import pydoc
import subprocess
import sys
import textwrap

import click
import pytest

import nacre.testing
from nacre import ContractError
from nacre.testing import CodecTests, CommandTests, InitializerTests, LayerTests, TransformerTests
from nacre.testing.suite import Checks
from nacre_data import Scale
from nacre_layers import AccuracyLayer, ConcatLayer, Constant, SequentialLayer

EVERY = [getattr(nacre.testing, name) for name in nacre.testing.__all__]
SUITES = [one for one in EVERY if isinstance(one, type) and issubclass(one, Checks)]


class Mean(LayerTests):
    layer = AccuracyLayer


# Names


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.__name__)
def test_every_check_says_what_must_hold(suite):
    table = suite.table()
    assert len(table) >= 3
    for check in table:
        assert check.name.isidentifier() and check.promise.endswith("."), check
    assert len({check.name for check in table}) == len(table)


def test_which_checks_apply():
    assert {"rows", "forward", "shutdown"} <= set(Mean.required())
    assert not {"gradients", "random_shapes", "container_survives_a_file"} & set(Mean.required())
    assert "rows" not in type("Concat", (LayerTests,), {"layer": ConcatLayer}).required()
    container = type("Container", (LayerTests,), {"layer": SequentialLayer})
    assert "container_survives_a_file" in container.required()
    assert container.test_reads is None
    assert callable(type("Derived", (container,), {"layer": ConcatLayer}).test_reads)


def test_what_a_suite_gives_decides_which_checks_apply():
    scale = type("Of", (TransformerTests,), {"component": Scale, "reference": lambda *_: None})
    assert {"reference", "by_record"} <= set(scale.required())
    assert not {"wrong_shapes", "wrong_fields", "fit", "fit_blocks"} & set(scale.required())
    more = type("More", (scale,), {"wrong_shapes": [(3,)], "wrong": [{"scale": float("nan")}]})
    assert {"reference", "wrong_shapes", "wrong_fields"} <= set(more.required())
    with pytest.raises(ContractError, match=r"Of has no reference\(\)"):
        type("Of", (TransformerTests,), {"component": Scale})
    plain = type("Of", (InitializerTests,), {"component": Constant})
    assert not {"spread", "few_axes"} & set(plain.required())
    more = type("More", (plain,), {"spread": lambda *_: (0.0, 0.0), "axes": 2})
    assert {"spread", "few_axes"} <= set(more.required())
    silent = type("Of", (CommandTests,), {"command": click.Command("silent"), "name": "silent"})
    assert not {"json", "json_errors"} & set(silent.required())
    assert {one.name: one.applies for one in CodecTests.table()}["encode"] == "codecs with `encode`"


def test_a_check_is_not_replaced():
    for own, word in ((None, "switches off"), (lambda self: None, "takes the place of")):
        with pytest.raises(ContractError, match=rf"Off\.test_rows {word} the check 'rows' of LayerTests") as caught:
            type("Off", (Mean,), {"test_rows": own})
        assert "expected_failures = {'rows': 'the reason'}" in caught.value.remedy

    class More(Mean):
        def test_rows(self, backend, dtype, example):
            super().test_rows(backend, dtype, example)

    assert More.test_rows is not Mean.test_rows


def test_unknown_expected_failures():
    with pytest.raises(ContractError, match=r"names 'row', but there is no such check \(did you mean 'rows'\?\)"):
        type("Unknown", (Mean,), {"expected_failures": {"row": "a slip"}})
    with pytest.raises(ContractError, match=r"names 'gradients\[numpy-float64-0\]', but there is no such check"):
        type("Unknown", (Mean,), {"expected_failures": {"gradients[numpy-float64-0]": "it has none"}})
    type("Known", (Mean,), {"expected_failures": {"rows": "why", "test_forward": "as it was called in 0.1"}})


def test_help_shows_the_suites():
    shown = pydoc.plain(pydoc.render_doc(nacre.testing))
    for suite in SUITES:
        assert f"class {suite.__name__}(" in shown
        assert suite.__doc__.splitlines()[0] in shown


# Under pytest

FILES = {
    "test_mine.py": """
        from nacre.testing import Example, LayerTests
        from nacre_layers import ReshapeLayer, SplitLayer

        class TestMine(LayerTests):
            layer = SplitLayer
            expected_failures = {
                "forward": "the reference is wrong on purpose",
                "shapes": "this works",
                "reads[numpy-float64-two tops]": "this works, too",
                "batch_of_one[numpy-float64-two tops]": "the reference is wrong on purpose",
            }

            def examples(self):
                yield Example({}, [(2, 3)], tops=2, label="two tops")
                yield Example({}, [(2, 4)], tops=2, label="wider")

            def reference(self, layer, inputs, parameters):
                return [inputs[0], inputs[0] + (inputs[0].shape[1] == 3)]

            def test_of_my_own(self, backend, nacre_backend):
                assert backend == "numpy"

            def backends(self):
                return ["numpy"]

        class TestWrong(TestMine):
            expected_failures = {}

        class TestAlias(LayerTests):
            layer = ReshapeLayer

            def examples(self):
                yield Example({"shape": [3]}, [(2, 3)])

            def reference(self, layer, inputs, parameters):
                return [inputs[0]]

            def backends(self):
                return ["numpy"]
        """,
    "test_empty.py": """
        from nacre.testing import LayerTests
        from nacre_layers import SplitLayer

        class TestEmpty(LayerTests):
            layer = SplitLayer

            def examples(self):
                return []
        """,
    "test_no_case.py": """
        from test_mine import TestMine

        class TestNoCase(TestMine):
            expected_failures = {"rows": "no", "forward[numpy-float64-three]": "no"}
        """,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a function that runs pytest, with these options, on one of `FILES`."""
    folder = tmp_path_factory.mktemp("suites")
    for name, text in FILES.items():
        (folder / name).write_text(textwrap.dedent(text))

    def run(file, *options):
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", folder, *options, file]
        wide = {**os.environ, "COLUMNS": "200"}
        return subprocess.run(command, cwd=folder, env=wide, capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="module")
def output(run):
    result = run("test_mine.py", "-v", "-n1")
    assert result.returncode == 1
    return result.stdout


def test_tests_are_named_by_backend_type_and_example(output):
    for line in (
        "TestMine::test_gradients[numpy-float64-two tops]",
        "TestMine::test_of_my_own[numpy-numpy]",
        "TestWrong::test_forward[numpy-float32-two tops]",
    ):
        assert line in output


def test_an_expected_failure_that_passes_in_all_cases_fails(output):
    assert "FAILED test_mine.py::TestMine::test_forward" not in output  # half of its cases fail
    assert "FAILED test_mine.py::TestMine::test_batch_of_one[numpy-float64-two tops]" not in output
    assert "TestMine: 'shapes' is expected to fail (this works), but all its 2 cases pass" in output
    assert "FAILED test_mine.py::TestMine::test_reads[numpy-float64-two tops]" in output
    assert "FAILED test_mine.py::TestWrong::test_forward[numpy-float32-two tops]" in output


def test_the_report_says_what_ran(output):
    assert "test_mine.py::TestMine: ran " in output
    assert ", 2 failed as expected" in output
    assert " skipped: fails because of what the check 'forward' finds" in output
    (alias,) = (line for line in output.splitlines() if line.startswith("test_mine.py::TestAlias: ran "))
    assert "skipped" in alias
    assert " skipped: no kernel is offered for Reshape on 'numpy'" in output


def test_a_suite_without_an_example_is_told(run):
    assert "TestEmpty has no example to test with" in run("test_empty.py").stdout


def test_a_case_that_does_not_exist_is_told(run):
    told = run("test_no_case.py", "-k", "NoCase").stdout
    assert "expected_failures names 'rows', but there is no such check" in told


def test_a_check_that_is_not_collected_fails(run):
    result = run("test_mine.py", "-o", "python_functions=test_of_my_own test_s*", "-k", "Alias")
    assert result.returncode == 1
    assert "all_checks: the checks inputs_are_left_alone, forward_twice, " in result.stdout
    assert run("test_mine.py::TestAlias::test_shapes").returncode == 0


def test_the_suites_need_no_plugin(run):
    result = run("test_mine.py", "-p", "no:nacre", "-k", "Alias")
    assert (result.returncode, "conformance" in result.stdout) == (0, False)


# What there is of nacre in a session that does not use it


def test_the_plugin_imports_nothing(run):
    code = "import sys, nacre.testing.plugin as _; print(*(name for name in sys.modules if name.startswith('nacre')))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(result.stdout.split()) == {"nacre", "nacre._version", "nacre.testing", "nacre.testing.plugin"}


def test_a_suite_of_nothing_is_one_to_derive_from():
    class Base(Checks):
        SUBJECT = "thing"

    assert Base.names_of_tests() == []
