"""The same net in PyTorch: one module for each layer, with the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from nacre import Net


def twin(net: Net) -> nn.Sequential:
    """Give a chain of PyTorch modules that computes the scores that the net's loss reads.

    Raises:
        NotImplementedError: the net has a layer that has no twin here.
    """
    modules: list[nn.Module] = []
    for node in net.wiring.nodes:
        layer: Any = node.layer
        kind = type(layer).__name__.removesuffix("Layer")
        if layer.is_source or layer.is_sink:
            continue
        if kind == "Convolution":
            channels = net.parameters[f"{layer.name}/weight"].shape[1] * layer.n_group
            sizes = {"kernel_size": layer.kernel, "stride": layer.stride, "padding": layer.pad}
            single = {name: size[0] if len(size) == 1 else size for name, size in sizes.items()}
            modules.append(_filled(net, layer, nn.Conv2d(channels, layer.n_filter, groups=layer.n_group, **single)))
        elif kind == "InnerProduct":
            features = net.parameters[f"{layer.name}/weight"].shape[1]
            if modules and not isinstance(modules[-1], nn.ReLU | nn.Linear):
                modules.append(nn.Flatten())
            modules.append(_filled(net, layer, nn.Linear(features, layer.output_dim)))
        elif kind == "Pooling":
            make = {"Max": nn.MaxPool2d, "Mean": nn.AvgPool2d}[type(layer.pooling).__name__]
            modules.append(make(layer.kernel[0], layer.stride[0], layer.pad[0], ceil_mode=layer.rounding == "ceil"))
        elif kind != "ReLU":
            raise NotImplementedError(f"layer '{layer.name}' of type {kind} has no twin")
        if type(getattr(layer, "neuron", None)).__name__ == "ReLU":
            modules.append(nn.ReLU())
    return nn.Sequential(*modules)


def _filled(net: Net, layer: Any, module: Any) -> Any:
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(np.array(net.parameters[f"{layer.name}/weight"].value)))
        module.bias.copy_(torch.from_numpy(np.array(net.parameters[f"{layer.name}/bias"].value)))
    return module


class Peer:
    """A twin in training: eager mode, fused SGD with momentum."""

    def __init__(
        self, net: Net, data: Any, label: Any, rate: float, momentum: float, *, channels_last: bool = False
    ) -> None:
        self.model = twin(net)
        self.data, self.label = torch.from_numpy(data), torch.from_numpy(label)
        if channels_last:
            self.model = self.model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
            self.data = self.data.contiguous(memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=rate, momentum=momentum, fused=True)
        self.criterion = nn.CrossEntropyLoss()

    def step(self) -> float:
        """Train one batch; give its loss, as a nacre step does."""
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(self.data), self.label)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())
