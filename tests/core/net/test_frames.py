"""Texts that people give as arrays: some libraries, such as h5py, give them as bytes in UTF-8."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nacre import DataError, Input, L, Net
from nacre.net.frames import array_of
from nacre_data import MemoryDataLayer

TEXTS = ["Mü", "b"]
BYTES = [one.encode() for one in TEXTS]


@pytest.mark.parametrize("given", [BYTES, np.array(BYTES), np.array(BYTES, object), np.array([BYTES[0], "b"], object)])
def test_texts_may_be_bytes(given: Any) -> None:
    assert array_of("y", given).tolist() == TEXTS


def test_a_net_learns_classes_that_are_bytes() -> None:
    net = Net(
        "n", [L.SoftmaxLoss()(L.InnerProduct(output_dim=2)(Input(3, name="x")), Input(name="y"))], backend="numpy"
    )
    x = np.arange(18).reshape(6, 3) / 18
    net.fit(x, BYTES * 3, epochs=1, quiet=True)
    assert net.classes["y"] == ("Mü", "b")
    assert net.evaluate(x, np.array(BYTES * 3, object)) == net.evaluate(x, TEXTS * 3)


def test_bytes_that_are_no_text_are_told() -> None:
    with pytest.raises(DataError, match=r"'y': record 1 is b'M\\xfc', which is no text in UTF-8\n  decode the texts"):
        array_of("y", [b"b", "Mü".encode("latin-1")])


@pytest.mark.parametrize("given", [[[1, None, 3]], np.array([[1, None, 3]], object)])
def test_none_is_no_number(given: Any) -> None:
    net = Net("n", [L.InnerProduct(output_dim=2, name="ip")(Input(3, name="x"))], backend="numpy")
    with pytest.raises(DataError, match="'x': record 0 is None, but numbers are needed\n  fill what is missing"):
        net.predict(given)
    with pytest.raises(DataError, match="blob 'x' needs numbers"):
        net.write("x", given)
    with pytest.raises(DataError, match=r"parameter 'ip/weight' needs numbers of shape \(2, 3\)"):
        net.parameters["ip/weight"].value = [*given, *given]
    assert not np.isnan(net.parameters["ip/weight"].value).any()


def test_a_source_fills_what_is_none() -> None:
    x = np.arange(12.0).reshape(4, 3)
    source = MemoryDataLayer(tops="x", data=[x], batch_size=4, transformers=[["x", "FillMissing"]])
    net = Net("n", [source, L.Reshape(shape=(3,), name="y", bottoms="x", tops="y")], backend="numpy")
    np.testing.assert_array_equal(net.predict([[1, None, 3]]), [[1, x[:, 1].mean(), 3]])
