"""Names in sentences, and tables."""

import pytest

from nacre.text import align, with_article

AN = "Adam ELU 8-bit 80 11-bit 18 initializer lr_policy L2 LReLU LRN SGD HDF5Data MVN svg int SPP x1"
A = "policy uint8 layer_policy momentum_policy Uniform uniform unit onednn oneDNN one EuclideanLoss str float"
A += " SiLU GELU ReLU PReLU SquareLoss list tuple NoneType XavierFanIn Negative csv BNLL 110 180 1 3"


@pytest.mark.parametrize("name", AN.split())
def test_an(name: str) -> None:
    assert with_article(name) == f"an {name}"


@pytest.mark.parametrize("name", A.split())
def test_a(name: str) -> None:
    assert with_article(name) == f"a {name}"


def test_no_name_gives_orders_to_a_terminal() -> None:
    assert align(["class"], [["a\x1b[31mred\nb"]])[2:] == ["a\\x1b[31mred\\nb"]


def test_long_names_are_wrapped_behind_slashes() -> None:
    lines = align(["layer", "type"], [["net/stage1/convolution1", "a, b/c"]], width=25)
    assert [line.split() for line in lines[2:]] == [["net/stage1/", "a,", "b/c"], ["convolution1"]]
    assert align(["x"], [["0123456789abcdef"]], width=12)[2:] == ["0123456789ab", "cdef"]
