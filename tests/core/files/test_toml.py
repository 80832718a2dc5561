"""What is no TOML is told with its line, and with what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre import ConfigError
from nacre.files.toml import read_toml

POINT = "in TOML a number has digits on both sides of its point"


@pytest.mark.parametrize(
    ("text", "line", "remedy"),
    [
        ('[layer]\ntype = "a"\n\n[[layer]]\n', "'[[layer]]'", "write [[layer]] each time; [layer] may stand only once"),
        ("[layer]\n[layer]\n", "'[layer]'", "write [[layer]] each time; [layer] may stand only once"),
        ("x = 1\nscale = True  # why\n", "'scale = True  # why'", "write true and false in small letters"),
        ("x = [false, False]", "'x = [false, False]'", "write true and false in small letters"),
        ("x = None\ny = 2\n", "'x = None'", "leave out what has no value"),
        ("x = “a”\n", "'x = “a”'", 'write straight quotes: "'),
        ("x = 'a’\n\n", '"x = \'a’"', 'write straight quotes: "'),
        ("type = InnerProduct\n", "'type = InnerProduct'", "write a text in quotes, and a number without a unit"),
        ('x = ["a" "b"]\n', '\'x = ["a" "b"]\'', "an array has commas between its entries, and ] at its end"),
        ('x = "a\ny = 1\n', "'x = \"a'", "end the text with the quote that it begins with"),
        ("x = 1\nx = 2\n", "'x = 2'", "a key stands once in its table"),
        ("\nx = 1.\n", "'x = 1.'", f"write 1.0: {POINT}"),
        ("x = .5  # half\n", "'x = .5  # half'", f"write 0.5: {POINT}"),
        ("x = { y = -.5e-3 }\n", "'x = { y = -.5e-3 }'", f"write -0.5e-3: {POINT}"),
        ("x = [1.5, +1_0.e3, 2]\n", "'x = [1.5, +1_0.e3, 2]'", f"write +1_0.0e3: {POINT}"),
        ("x = [\n    1.5,\n    .25,\n]\n", "'.25,'", f"write 0.25: {POINT}"),
        ("x = 1.2.3\n", "'x = 1.2.3'", ""),
        ("x = 1.x\n", "'x = 1.x'", ""),
        ('x = ".5" 1\n', "'x = \".5\" 1'", ""),
        ("x = \x1b[2J", "'x = \\x1b[2J'", ""),
    ],
)
def test_the_line_and_what_to_write(text: str, line: str, remedy: str, tmp_path: Path) -> None:
    path = tmp_path / "net.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_toml(path)
    assert caught.value.args[0].startswith(f"{path}: not TOML: ")
    assert caught.value.args[0].endswith(f"): {line}")
    assert caught.value.remedy == remedy


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = 1\n" + f"[[{'a.' * 16}a]]\n", "a key has more than 16 parts (at line 2)"),
        ("x = " + "[" * 2000 + "]" * 2000, "too many tables and lists stand inside each other"),
    ],
)
def test_what_is_too_deep_is_told_with_what_to_do(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "net.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_toml(path)
    assert caught.value.args[0] == f"{path}: {reason}"
    assert caught.value.remedy == "use fewer tables, or containers, inside each other"


@pytest.mark.parametrize(
    ("name", "text", "remedy"),
    [
        ("net.py", "import nacre\n", "this is a program: run it with Python"),
        (
            "net.prototxt",
            'layer { name: "a" }\n',
            "this is a net of Caffe: docs/from-caffe.md says how to write it here",
        ),
    ],
)
def test_files_of_other_kinds(name: str, text: str, remedy: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="not TOML: Expected '='") as caught:
        read_toml(tmp_path / name)
    assert caught.value.remedy == remedy
