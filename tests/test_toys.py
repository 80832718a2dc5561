"""What the small scripts under examples/ reach, as their headers say."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
pytestmark = pytest.mark.long


def script(path: str) -> Callable[..., Any]:
    """Return the function that an example is."""
    return runpy.run_path(str(EXAMPLES / path))["run"]


def test_regression_finds_the_matrix() -> None:
    assert script("toys/regression.py")() < 0.01


def test_the_wasserstein_loss_finds_the_distribution() -> None:
    assert script("toys/wasserstein.py")() < 0.01


def test_the_variational_auto_encoder(tmp_path: Path) -> None:
    picture = tmp_path / "samples.png"
    assert script("vae/vae.py")(str(picture)) < 24.2
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_pre_training_does_not_hurt() -> None:
    found = [script("autoencoder/autoencoder.py")(seed) for seed in range(5)]
    assert sum(one for one, _ in found) >= sum(other for _, other in found), found


def test_machines_one_above_the_other_begin_an_autoencoder(tmp_path: Path) -> None:
    picture = tmp_path / "reconstructions.png"
    with_it, without = script("rbm/rbm.py")(str(picture))
    assert with_it < 1.05
    assert without > 4.5
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_fine_tuned_net_hits_97_of_100_digits_over_five_seeds() -> None:
    found = [script("fine_tuning/fine_tuning.py")(seed) for seed in range(5)]
    assert sum(found) / len(found) >= 0.97, found


def test_cifars_net_knows_the_pictures_that_it_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert script("cifar/cifar.py")() >= 0.94


@pytest.mark.parametrize("model", ["gru", "lstm"])
def test_a_model_of_characters_knows_half_a_bit_more_than_a_bigram_model(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = script("text/text.py")(model)
    assert found.net < found.counted[1] - 0.5
    assert found.text.startswith("def ")
