"""Nets that are divided among rank processes learn what one process learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from divided_ranks import trained
from rank_pool import pool

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BY = {
    "data for convolutions, features for inner products": {"ip1": 1, "drop1": 1, "ip2": 1, "loss": -1},
    "features": {"conv1": 1, "conv2": 1, "pool2": 1, "ip1": 1, "drop1": 1, "ip2": 1, "loss": -1, "train": -1},
}


@pytest.mark.parametrize("way", BY)
def test_lenet_on_two_rank_processes(tmp_path: Path, way: str) -> None:
    text = (EXAMPLES / "digits/lenet.toml").read_text().replace("seed = 0", 'seed = 0\ndtype = "float64"')
    text = text.replace("train.h5", str(EXAMPLES / "digits/train.h5")).replace(
        "test.h5", str(EXAMPLES / "digits/test.h5")
    )
    text = text.replace("batch_size = 64", "batch_size = 63")  # which two ranks divide unevenly
    for name, dim in BY[way].items():
        text = text.replace(f'name = "{name}"\n', f'name = "{name}"\npartition_dim = {dim}\n')
    file = tmp_path / "lenet.toml"
    file.write_text(text)
    alone = trained(None, str(file), 4)
    first, second = pool(2).run("divided_ranks:trained", str(file), 4)
    np.testing.assert_allclose(first["losses"], alone["losses"], rtol=1e-10)
    assert second["losses"] == first["losses"]
    for name, value in alone["parameters"].items():
        np.testing.assert_allclose(first["parameters"][name], value, rtol=1e-10, atol=1e-10, err_msg=name)
