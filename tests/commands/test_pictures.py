"""Pictures of matrices and curves, as SVG, and PNG made of it."""

from __future__ import annotations

import io
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from command_line import run
from nacre import ConfigError
from nacre.cli import write_picture
from nacre_commands.curves import curves_svg
from nacre_commands.drawing import Png
from nacre_commands.matrix import CHARACTER, LEGEND, MARGIN, matrix_svg
from nacre_commands.raster import png

SVG = "{http://www.w3.org/2000/svg}"
MATRIX = [[8.0, 2.0], [0.0, 5.0]]
PANELS = {
    "loss": {"a": ([0, 10, 20], [2.0, 0.5, 0.05]), "b": ([0, 20], [1.0, float("nan")])},
    "accuracy": {"a": ([20], [0.9])},
}


def texts(drawing: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(drawing).iter(f"{SVG}text")]


def test_a_matrix_has_a_cell_for_each_pair() -> None:
    drawing = matrix_svg("pets, test: confusion", ["cat", "<dog>"], MATRIX)
    cells = [cell for cell in ET.fromstring(drawing).iter(f"{SVG}rect") if cell.find(f"{SVG}title") is not None]
    assert [cell.findtext(f"{SVG}title") for cell in cells] == [
        "cat as cat: 8",
        "cat as <dog>: 2",
        "<dog> as cat: 0",
        "<dog> as <dog>: 5",
    ]
    fills = [cell.attrib["fill"] for cell in cells]
    assert fills[2] == "#ffffff" and fills[3] == "#2f6f4e" and len(set(fills)) == 4
    assert {"8", "2", "5", "cat", "<dog>"} <= set(texts(drawing)) and "0" not in texts(drawing)


def test_a_matrix_of_many_classes_has_small_cells_without_numbers() -> None:
    names = [f"a very long name of class {number}" for number in range(100)]
    drawing = matrix_svg("many", names, [[1.0] * 100 for _ in range(100)])
    assert float(ET.fromstring(drawing).attrib["width"]) < 1500
    assert "1" not in texts(drawing) and "a very long nam…class 42" in texts(drawing)


def test_curves_have_a_panel_each_and_a_legend() -> None:
    drawing = curves_svg("two runs", PANELS)
    found = texts(drawing)
    assert found[0] == "two runs" and found.count("a (0.05)") == 1 and "a (0.9)" in found and "b (1)" in found
    assert {"0.01", "0.1", "1", "10"} <= set(found)  # a logarithmic axis
    assert found.count("iteration") == 2
    assert curves_svg("none", {"loss": {"a": ([], [])}}).count("<path") > 0


def pixels(data: bytes) -> tuple[tuple[int, int], set[tuple[int, ...]]]:
    image = pytest.importorskip("PIL.Image")
    with image.open(io.BytesIO(data)) as picture:
        return picture.size, {colour for _, colour in picture.getcolors(1 << 24)}


def test_png_has_the_colours_of_the_svg() -> None:
    drawing = matrix_svg("pets", ["cat", "dog"], MATRIX)
    size, colours = pixels(png(drawing))
    root = ET.fromstring(drawing).attrib
    assert size == (2 * int(root["width"]), 2 * int(root["height"]))
    assert {(255, 255, 255), (0x2F, 0x6F, 0x4E), (0, 0, 0)} <= colours
    assert (0x3B, 0x6E, 0xA5) in pixels(Png().draw_curves("two runs", PANELS))[1]


def test_graph_is_a_png_too() -> None:
    run("graph", "small.toml", "--out", "net.png")
    size, colours = pixels(Path("net.png").read_bytes())
    assert size[0] > 200 and (0xEE, 0xF6, 0xEA) in colours  # the ground of a layer with parameters


def test_without_pillow_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ConfigError, match="drawn by Pillow, which is not installed") as failed:
        png(matrix_svg("pets", ["cat", "dog"], MATRIX))
    assert "nacre[images]" in failed.value.remedy and ".svg" in failed.value.remedy


def test_what_xml_cannot_hold_is_escaped() -> None:
    drawn = matrix_svg("n\udce9t", ["cl\udce9", "a\0b", "\uffff\x1b", "\xe9\U0001f408"], [[1.0] * 4] * 4)
    assert {"n\\udce9t", "cl\\udce9", "a\\x00b", "\\uffff\\x1b", "\xe9\U0001f408"} <= {*texts(drawn)}
    assert "cl\\udce9 as a\\x00b: 1" in drawn
    assert pixels(png(drawn))[0][0] > 200


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text there")
@pytest.mark.parametrize("ending", ["svg", "png", "dot"])
def test_graph_of_a_file_whose_name_is_not_utf_8(ending: str) -> None:
    net = Path("small.toml").rename("net \udce9.toml")
    net.write_text(net.read_text().replace('name = "small"\n', ""))
    run("graph", net, "--out", f"net.{ending}")
    assert ending == "png" or "net \\udce9" in Path(f"net.{ending}").read_text()


def test_a_drawing_by_a_plugin_is_written_too(tmp_path: Path) -> None:
    write_picture(tmp_path / "x.txt", "n\udce9t")
    assert (tmp_path / "x.txt").read_bytes() == b"n\\udce9t"


def test_the_legend_of_a_small_matrix_is_not_cut_off() -> None:
    drawn = matrix_svg("pets", ["cat", "dog"], [[3, 1], [0, 4]])
    assert float(ET.fromstring(drawn).attrib["width"]) > MARGIN + len(LEGEND) * CHARACTER


def test_a_curve_that_stays_at_its_best_has_no_room_above() -> None:
    drawn = curves_svg("pets", {"accuracy": {"validation": ([20, 40], [1.0, 1.0])}})
    assert {"0.8", "1"} < {*texts(drawn)} and "1.2" not in texts(drawn)
    assert "0" in texts(curves_svg("pets", {"loss": {"validation": ([20, 40], [0.0, 0.0])}}))
