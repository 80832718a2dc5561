"""The recipe of docs/from-pytorch.md carries a whole model over: ResNet-18 computes the same in both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from doc_pages import DOCS, blocks
from nacre import Input, L, Net
from nacre.testing.close import assert_close

torch = pytest.importorskip("torch")
nn = torch.nn
WIDTHS = (64, 128, 256, 512)


class Block(nn.Module):
    """Two convolutions and a shortcut, with the names of torchvision's."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        if stride > 1:
            self.downsample = nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Any) -> Any:
        h = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (h + (self.downsample(x) if hasattr(self, "downsample") else x)).relu()


class ResNet18(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        for number, (channels, width) in enumerate(zip((64, *WIDTHS), WIDTHS, strict=False), 1):
            blocks = Block(channels, width, 1 + (number > 1)), Block(width, width, 1)
            setattr(self, f"layer{number}", nn.Sequential(*blocks))
        self.fc = nn.Linear(512, 1000)

    def forward(self, x: Any) -> Any:
        h = nn.functional.max_pool2d(self.bn1(self.conv1(x)).relu(), 3, 2, 1)
        for number in range(1, 5):
            h = getattr(self, f"layer{number}")(h)
        return self.fc(h.mean((2, 3)))


def convolved(x: Any, conv: str, norm: str, width: int, kernel: int, stride: int) -> Any:
    layer = L.Convolution(name=conv, n_filter=width, kernel=kernel, stride=stride, pad=kernel // 2, bias=False)
    return L.BatchNorm(name=norm)(layer(x))


def block(x: Any, name: str, width: int, stride: int) -> Any:
    h = L.ReLU()(convolved(x, f"{name}.conv1", f"{name}.bn1", width, 3, stride))
    h = convolved(h, f"{name}.conv2", f"{name}.bn2", width, 3, 1)
    if stride > 1:
        x = convolved(x, f"{name}.downsample.0", f"{name}.downsample.1", width, 1, stride)
    return L.ReLU()(L.ElementWise(operation="Add")(h, x))


def resnet18(x: Any) -> Any:
    h = L.ReLU()(convolved(x, "conv1", "bn1", 64, 7, 2))
    h = L.Pooling(kernel=3, stride=2, pad=1, rounding="floor")(h)
    for number, width in enumerate(WIDTHS, 1):
        h = block(block(h, f"layer{number}.0", width, 1 + (number > 1)), f"layer{number}.1", width, 1)
    return L.InnerProduct(name="fc", output_dim=1000)(L.Pooling(whole=True, pooling="Mean")(h))


def test_the_recipe_carries_a_resnet18_over() -> None:
    (recipe,) = (code for code in blocks(DOCS / "from-pytorch.md", "python") if "def copy_state" in code)
    names: dict[str, Any] = {"torch": torch}
    exec(recipe, names)
    torch.manual_seed(0)
    model = ResNet18().double()
    model(torch.randn(4, 3, 32, 32, dtype=torch.float64))  # so that running values are not 0 and 1
    images = np.random.default_rng(0).normal(size=(2, 3, 64, 64))
    with Net("resnet18", [resnet18(Input((3, 64, 64)))], phase="predict", backend="numpy", dtype="float64") as net:
        names["copy_state"](model, net)
        with torch.inference_mode():
            assert_close(net.predict(images), model.eval()(torch.tensor(images)).numpy(), "scores")
        assert sum(one.value.size for one in net.parameters.values()) == 11_689_512 + 9_600  # and running values
