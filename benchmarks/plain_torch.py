"""The examples' nets as a PyTorch user writes them, without nacre in the process: for peak memory."""

from __future__ import annotations

import os

import torch
from torch import nn


def lenet() -> tuple[nn.Module, tuple[int, ...]]:
    layers = [nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10)), (64, 1, 28, 28)


def mlp() -> tuple[nn.Module, tuple[int, ...]]:
    layers = [nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 500), nn.ReLU(), nn.Linear(500, 10)]
    return nn.Sequential(*layers), (128, 784)


def quick() -> tuple[nn.Module, tuple[int, ...]]:
    first = [nn.Conv2d(3, 32, 5, padding=2), nn.MaxPool2d(3, 2, ceil_mode=True), nn.ReLU()]
    second = [nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3, 2, ceil_mode=True)]
    third = [nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3, 2, ceil_mode=True)]
    last = [nn.Flatten(), nn.Linear(1024, 64), nn.Linear(64, 10)]
    return nn.Sequential(*first, *second, *third, *last), (100, 3, 32, 32)


MODELS = {"LeNet-64": lenet, "MLP-128": mlp, "CIFAR quick-100": quick}


def train(name: str, steps: int) -> None:
    """Train a model for some steps on one random batch."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model, shape = MODELS[name]()
    data, label = torch.randn(shape), torch.randint(0, 10, shape[:1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    criterion = nn.CrossEntropyLoss()
    for _ in range(steps):
        optimizer.zero_grad()
        criterion(model(data), label).backward()
        optimizer.step()
