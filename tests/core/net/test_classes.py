"""Names of classes: their order is one everywhere, whatever they come from."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from nacre import Input, L, Net, class_order, open_records

KIND = np.arange(24) % 12
"""A class for each record, of twelve."""


@pytest.mark.parametrize(
    ("names", "ordered"),
    [
        (["10", "9", "9", "-1"], ("-1", "9", "10")),
        (["10", "9", "9.5"], ("10", "9", "9.5")),
        (["b", "a", "B"], ("B", "a", "b")),
        (["1", "01"], ("01", "1")),
        (["2", "1" * 19], ("1" * 19, "2")),  # too large for int64
        ([], ()),
    ],
)
def test_whole_numbers_go_by_value_and_others_by_code_points(names: list[str], ordered: tuple[str, ...]) -> None:
    assert class_order(names) == ordered


def folders(path: Path) -> Path:
    for number, kind in enumerate(KIND):
        (path / str(kind)).mkdir(parents=True, exist_ok=True)
        Image.new("L", (2, 2), 10 * int(kind)).save(path / str(kind) / f"{number}.png")
    return path


def lines(path: Path) -> Path:
    path = path.with_suffix(".jsonl")
    path.write_text("".join(f'{{"data": {kind}, "label": "{kind}"}}\n' for kind in KIND))
    return path


@pytest.mark.parametrize("made", [folders, lines])
def test_fit_and_files_give_the_same_classes_the_same_numbers(made: Any, tmp_path: Path) -> None:
    with open_records([made(tmp_path / "records")]) as reader:
        assert reader.fields["label"].classes == tuple(map(str, range(12)))
    x, y = Input(12, name="x"), Input(name="y", dtype="int64")
    score = L.InnerProduct(output_dim=12, name="score")(x)
    net = Net("n", [L.SoftmaxLoss(name="loss")(score, y), L.Accuracy(name="a")(score, y)], backend="numpy")
    net.fit(np.eye(12)[KIND], KIND.astype(str), epochs=20, lr=0.1, quiet=True)
    assert net.classes["y"] == tuple(map(str, range(12)))
    assert net.evaluate(np.eye(12)[KIND], KIND) == net.evaluate(np.eye(12)[KIND], KIND.astype(str))
    assert net.evaluate(np.eye(12)[KIND], KIND)["a/accuracy"] == 1
