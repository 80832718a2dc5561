"""The same net in PyTorch: one module for each layer, with the same weights. Nothing of nacre is imported."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .nets import read

MODES = {
    "eager": {},
    "channels last": {"channels_last": True},
    "compile": {"compiled": True},
    "compile, channels last": {"compiled": True, "channels_last": True},
}


class Twin(nn.Module):
    """The scores of a net that `nets.describe` has told: its layers in order, wired by the names of their blobs."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__()
        self.scores: str = told["scores"]
        self.steps: list[tuple[nn.Module, list[str], str]] = []
        self.named: dict[str, nn.Module] = {}
        for layer in told["layers"]:
            modules = _modules(layer, told)
            self.named[layer["name"]] = modules[-1]  # behind a Flatten
            if layer.get("neuron", "Identity") != "Identity":
                modules.append({"ReLU": nn.ReLU(inplace=True)}[layer["neuron"]])
            whole = modules[0] if len(modules) == 1 else Chain(*modules)
            self.steps.append((whole, layer["bottoms"], (layer.get("tops") or layer["bottoms"])[0]))
        self.all = nn.ModuleList(module for module, _, _ in self.steps)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        blobs = {"data": data}
        for module, bottoms, top in self.steps:
            blobs[top] = module(*[blobs[name] for name in bottoms])
        return blobs[self.scores]

    def learned(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the parameters by the names that nacre has for them."""
        for name, module in self.named.items():
            own = dict(module.named_parameters())
            first = "scale" if isinstance(module, nn.BatchNorm2d) else "weight"
            for nacre_name, parameter in ((first, own.get("weight")), ("bias", own.get("bias"))):
                if parameter is not None:
                    yield f"{name}/{nacre_name}", parameter

    def fill(self, folder: Path) -> None:
        """Take the values that nacre's parameters begin with."""
        with torch.no_grad():
            for name, parameter in self.learned():
                parameter.copy_(torch.from_numpy(read(folder, name)))


def _modules(layer: dict[str, Any], told: dict[str, Any]) -> list[nn.Module]:
    """Return the modules of a layer, the last of them the one with its parameters.

    Raises:
        NotImplementedError: there is no twin of it here.
    """
    kind, shape = layer["type"], told["blobs"][layer["bottoms"][0]]
    if kind == "Convolution":
        sizes = {"kernel_size": "kernel", "stride": "stride", "padding": "pad"}
        fields = {theirs: tuple(layer[ours] * (2 // len(layer[ours]))) for theirs, ours in sizes.items()}
        return [nn.Conv2d(shape[1], layer["n_filter"], groups=layer["n_group"], bias=layer["bias"], **fields)]
    if kind == "InnerProduct":
        features = told["parameters"][f"{layer['name']}/weight"][1]
        linear = nn.Linear(features, layer["output_dim"], bias=layer["bias"])
        return [nn.Flatten(), linear] if len(shape) > 2 else [linear]
    if kind == "Pooling":
        mean = layer["pooling"] != "Max"
        if layer["whole"]:
            return [(nn.AdaptiveAvgPool2d if mean else nn.AdaptiveMaxPool2d)(1)]
        sizes, ceil = [layer[name][0] for name in ("kernel", "stride", "pad")], layer["rounding"] == "ceil"
        if not mean:
            return [nn.MaxPool2d(*sizes, ceil_mode=ceil)]
        # Without padding it is the same either way, but PyTorch 2.13 compiles count_include_pad=True with ceil_mode to
        # wrong gradients: windows that reach over the edge are divided by their whole size.
        return [nn.AvgPool2d(*sizes, ceil_mode=ceil, count_include_pad=layer["pad"][0] > 0)]
    if kind == "LRN" and layer["mode"] == "across":
        return [nn.LocalResponseNorm(layer["kernel"], layer["scale"], layer["power"], layer["shift"])]
    if kind == "LRN":
        return [LocalNormWithin(layer)]
    if kind == "BatchNorm":
        return [nn.BatchNorm2d(shape[1], layer["epsilon"], 1 - layer["decay"])]
    if kind == "Dropout":
        return [nn.Dropout(layer["ratio"])]
    if kind == "ElementWise" and layer["operation"] == "Add":
        return [Sum()]
    raise NotImplementedError(f"layer '{layer['name']}' of type {kind} has no twin")


class LocalNormWithin(nn.Module):
    """LRN within a channel, which PyTorch has no module for."""

    def __init__(self, layer: dict[str, Any]) -> None:
        super().__init__()
        self.scale, self.shift, self.power = layer["scale"], layer["shift"], layer["power"]
        self.mean_square = nn.AvgPool2d(layer["kernel"], 1, layer["kernel"] // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / (self.shift + self.scale * self.mean_square(x * x)) ** self.power


class Sum(nn.Module):
    """The sum of its inputs, in the memory of the first, as torchvision's residual nets have it."""

    def forward(self, first: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        for one in others:
            first = first.add_(one)
        return first


class Chain(nn.Sequential):
    """Modules one after the other, of which the first may have several inputs."""

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        first, *others = self
        x = first(*inputs)
        for module in others:
            x = module(x)
        return x


class _Peer:
    """A twin at work in one mode, in float32 or with bf16 autocast.

    To be `compared`, it begins with nacre's parameters, takes its batch, and drops nothing until `with_dropout`.
    """

    def __init__(
        self, folder: Path, *, compared: bool, bf16: bool, compiled: bool = False, channels_last: bool = False
    ):
        told = json.loads((folder / "net.json").read_text(encoding="utf-8"))
        self.bf16 = bf16
        self.model = Twin(told)
        if compared:
            self.model.fill(folder)
            self._drop(False)
            self.data, self.label = (torch.from_numpy(read(folder, name)) for name in ("data", "label"))
        else:
            shape, classes = told["blobs"]["data"], told["blobs"][told["scores"]][1]
            self.data, self.label = torch.randn(shape), torch.randint(0, classes, shape[:1])
        if channels_last and self.data.ndim == 4:
            self.model = self.model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
            self.data = self.data.contiguous(memory_format=torch.channels_last)
        self.call: Any = torch.compile(self.model) if compiled else self.model

    def _drop(self, wanted: bool) -> None:
        for module in self.model.modules():
            if isinstance(module, nn.Dropout):
                module.train(wanted)

    def scores(self) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            scores = self.call(self.data)
        return scores.float() if self.bf16 else scores


class Training(_Peer):
    """Trains the batch again and again, by SGD with momentum, fused or by foreach: whichever is faster here."""

    def __init__(self, folder: Path, rate: float, momentum: float, **mode: Any) -> None:
        super().__init__(folder, **mode)
        self.criterion = nn.CrossEntropyLoss()
        self.settings = {"lr": rate, "momentum": momentum}
        self.optimizer = torch.optim.SGD(self.model.parameters(), fused=True, **self.settings)

    def choose_update(self) -> None:
        """Time both ways to update, on parameters that it does not change."""
        seconds: dict[str, float] = {}
        for way in ("fused", "foreach"):
            optimizer = torch.optim.SGD(self.model.parameters(), **{**self.settings, "lr": 0.0, way: True})
            optimizer.step()
            begin = time.perf_counter()
            for _ in range(5):
                optimizer.step()
            seconds[way] = time.perf_counter() - begin
        best = min(seconds, key=lambda way: seconds[way])
        self.optimizer = torch.optim.SGD(self.model.parameters(), **{**self.settings, best: True})

    def gradients(self) -> Iterator[tuple[str, Any]]:
        """Compute the gradients of the first batch; give them by nacre's names."""
        self.optimizer.zero_grad()
        self._loss().backward()
        for name, parameter in self.model.learned():
            assert parameter.grad is not None
            yield name, parameter.grad.contiguous().numpy()
        self.choose_update()

    def with_dropout(self) -> None:
        """Go on with dropout."""
        self._drop(True)

    def _loss(self) -> torch.Tensor:
        return self.criterion(self.scores(), self.label)

    def step(self) -> float:
        """Train one batch; give its loss, as a nacre step does."""
        self.optimizer.zero_grad()
        loss = self._loss()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())


class Predicting(_Peer):
    """Gives the probabilities of the batch again and again, in inference mode."""

    def __init__(self, folder: Path, *, frozen: bool = False, **mode: Any) -> None:
        super().__init__(folder, **mode)
        self.model.eval()
        if frozen:
            import torch._inductor.config as inductor  # pyright: ignore[reportMissingImports]

            inductor.freezing = True  # the compiler may lay out the weights anew

    def output(self) -> Any:
        """Return the probabilities (images, classes)."""
        with torch.inference_mode():
            return torch.softmax(self.scores(), 1).numpy()

    def step(self) -> float:
        """Predict one batch; give a number of it."""
        return float(self.output()[0, 0])


class OnnxRuntime:
    """Gives the probabilities of the batch through onnxruntime, on the twin as PyTorch exports it."""

    def __init__(self, folder: Path, threads: int) -> None:
        import onnxruntime

        twin = Predicting(folder, compared=True, bf16=False)
        path = folder / "twin.onnx"
        model = nn.Sequential(copy.deepcopy(twin.model), nn.Softmax(1)).eval()
        torch.onnx.export(model, (twin.data,), path, input_names=["data"], dynamo=True, verbose=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.data = {"data": twin.data.numpy()}
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def output(self) -> Any:
        """Return the probabilities (images, classes)."""
        return self.session.run(None, self.data)[0]

    def step(self) -> float:
        """Predict one batch; give a number of it."""
        return float(self.output()[0, 0])
