"""Names in sentences, and tables."""

import pytest

from nacre.text import align, counted, fill, plain, wide, with_article

AN = "Adam ELU 8-bit 80 11-bit 18 initializer lr_policy L2 LReLU LRN SGD HDF5Data MVN svg int SPP x1"
A = "policy uint8 layer_policy momentum_policy Uniform uniform unit onednn oneDNN one EuclideanLoss str float"
A += " SiLU GELU ReLU PReLU SquareLoss list tuple NoneType XavierFanIn Negative csv BNLL 110 180 1 3"


@pytest.mark.parametrize("name", AN.split())
def test_an(name: str) -> None:
    assert with_article(name) == f"an {name}"


@pytest.mark.parametrize("name", A.split())
def test_a(name: str) -> None:
    assert with_article(name) == f"a {name}"


def test_what_nobody_sees_is_escaped_but_joiners_and_blanks() -> None:
    assert plain("é\u200d\u200cö\xa0 ü\U0001f600") == "é\u200d\u200cö\xa0 ü\U0001f600"
    assert plain("a\tb\x9b\u202e\udc80\n") == r"a\tb\x9b\u202e\udc80\n"
    assert plain("one\ntwo\r", lines=True) == "one\ntwo\\r"


def test_no_name_gives_orders_to_a_terminal() -> None:
    assert align(["class"], [["a\x1b[31mred\nb"]])[2:] == ["a\\x1b[31mred\\nb"]


def test_long_names_are_wrapped_behind_slashes() -> None:
    lines = align(["layer", "type"], [["net/stage1/convolution1", "a, b/c"]], width=25)
    assert [line.split() for line in lines[2:]] == [["net/stage1/", "a,", "b/c"], ["convolution1"]]
    assert align(["x"], [["0123456789abcdef"]], width=12)[2:] == ["0123456789ab", "cdef"]


def test_words_are_only_broken_if_that_is_the_last_resort() -> None:
    head = ["layer", "type", "tops", "parameters", "memory"]
    body = [
        ["inner_product1", "InnerProduct", "inner_product1 1x8", "40", "192 B"],
        ["mae", "MeanAbsoluteError", "", "", "0 B"],
    ]
    assert [line.split() for line in align(head, body, right=(3, 4), width=48)] == [
        ["layer", "type", "tops", "parameters", "memory"],
        ["--------", "--------", "--------", "----------", "------"],
        ["inner_", "Inner", "inner_", "40", "192", "B"],
        ["product1", "Product", "product1"],
        ["1x8"],
        ["mae", "Mean", "0", "B"],
        ["Absolute"],
        ["Error"],
    ]
    assert align(head, body, width=40)[0].split() == ["layer", "type", "tops", "paramete", "memory"]
    assert max(map(len, align(head, body, width=46))) <= 46


def test_paragraphs_are_wrapped_but_what_is_indented_is_not() -> None:
    text = "one two three\nfour five\n\n    type = 'Indented as it is'\n\nshort\nlines"
    assert fill(text, 10) == "one two\nthree four\nfive\n\n    type = 'Indented as it is'\n\nshort\nlines"
    assert fill("Example:\n    type = 'a b c d e f g'", 10) == "Example:\n    type = 'a b c d e f g'"
    assert fill("  cpu: because it is", 12, "    ") == "  cpu:\n    because\n    it is"


def test_wide_letters_take_two_columns_and_accents_none() -> None:
    assert (wide("cat"), wide("猫とé"), wide("e\u0301"), wide("\U0001f600"), wide("")) == (3, 5, 1, 2, 0)
    lines = align(["class", "records"], [["猫", "3"], ["cafe\u0301", "12"], ["犬のおまわりさん", "7"]], right=(1,))
    assert [wide(line) for line in lines] == [25] * 5
    assert lines[2] == "猫" + " " * 22 + "3"


def test_wide_letters_are_wrapped_by_their_columns() -> None:
    lines = align(["class", "n"], [["犬のおまわりさん犬のおまわりさん", "1"]], width=15)
    assert max(map(wide, lines)) <= 15
    assert "".join(line[:6].strip() for line in lines[2:]).startswith("犬のおまわり")


def test_things_are_counted() -> None:
    assert [counted(number, "record") for number in (0, 1, 2)] == ["0 records", "1 record", "2 records"]


def test_words_that_fit_on_a_line_are_not_broken() -> None:
    lines = align(["name", "what it is"], [["AbsVal", "y = |x|, after Caffe's `AbsVal`"]], width=32)
    assert lines[2:] == ["AbsVal  y = |x|, after Caffe's", "        `AbsVal`"]
