"""The same net in PyTorch: one module for each layer, with the same weights. Nothing of nacre is imported."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .nets import read

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
DECONVOLUTIONS = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
LARGEST = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
MEANS = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
"""Modules by the number of axes after the channels, less one."""

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
        self.steps: list[tuple[nn.Module, list[str], list[str]]] = []
        self.named: dict[str, nn.Module] = {}
        for layer in told["layers"]:
            modules = _modules(layer, told)
            self.named[layer["name"]] = modules[-1]  # behind a Flatten
            if layer.get("neuron", "Identity") != "Identity":
                modules.append(_neuron(layer["neuron"]))
            whole = modules[0] if len(modules) == 1 else Chain(*modules)
            self.steps.append((whole, layer["bottoms"], layer.get("tops") or layer["bottoms"]))
        self.all = nn.ModuleList(module for module, _, _ in self.steps)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        blobs = {"data": data}
        for module, bottoms, tops in self.steps:
            y = module(*[blobs[name] for name in bottoms])
            blobs |= dict.fromkeys(tops, y)
        return blobs[self.scores]

    def learned(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the parameters by the names that nacre has for them."""
        for name, module in self.named.items():
            own = dict(module.named_parameters())
            if isinstance(module, Sequences):
                yield from ((f"{name}/{one.rpartition('.')[2]}", parameter) for one, parameter in own.items())
                continue
            first = "scale" if isinstance(module, (*NORMS, nn.LayerNorm)) else "weight"
            for nacre_name, parameter in ((first, own.get("weight")), ("bias", own.get("bias"))):
                if parameter is not None:
                    yield f"{name}/{nacre_name}", parameter

    def fill(self, folder: Path) -> None:
        """Take the values that nacre's parameters begin with."""
        with torch.no_grad():
            for name, parameter in self.learned():
                parameter.copy_(torch.from_numpy(read(folder, name)))


def _neuron(told: Any) -> nn.Module:
    """Return the module of a neuron, told by its name or with its fields."""
    fields = {"type": told} if isinstance(told, str) else told
    if fields["type"] == "LReLU":
        return nn.LeakyReLU(fields["slope"], inplace=True)
    return {"ReLU": nn.ReLU(inplace=True), "GELU": nn.GELU(), "Tanh": nn.Tanh()}[fields["type"]]


def _modules(layer: dict[str, Any], told: dict[str, Any]) -> list[nn.Module]:
    """Return the modules of a layer, the last of them the one with its parameters.

    Raises:
        NotImplementedError: there is no twin of it here.
    """
    kind, shape = layer["type"], told["blobs"][layer["bottoms"][0]]
    axes = len(shape) - 2
    if kind in ("Convolution", "Deconvolution"):
        sizes = {"kernel_size": "kernel", "stride": "stride", "padding": "pad", "dilation": "dilation"}
        if kind == "Deconvolution":
            sizes["output_padding"] = "extra"
        fields = {theirs: _along(layer[ours], axes) for theirs, ours in sizes.items()}
        module = (CONVOLUTIONS if kind == "Convolution" else DECONVOLUTIONS)[axes - 1]
        return [module(shape[1], layer["n_filter"], groups=layer["n_group"], bias=layer["bias"], **fields)]
    if kind == "InnerProduct":
        features = told["parameters"][f"{layer['name']}/weight"][1]
        linear = nn.Linear(features, layer["output_dim"], bias=layer["bias"])
        return [linear] if layer["axis"] in (-1, len(shape) - 1) else [nn.Flatten(), linear]
    if kind == "Pooling":
        return [_pooling(layer, axes)]
    if kind == "LRN" and layer["mode"] == "across":
        return [nn.LocalResponseNorm(layer["kernel"], layer["scale"], layer["power"], layer["shift"])]
    if kind == "LRN":
        return [LocalNormWithin(layer)]
    if kind == "BatchNorm":
        norm = NORMS[max(axes, 1) - 1](shape[1], layer["epsilon"], 1 - layer["decay"])
        if not layer["bias"]:
            norm.register_parameter("bias", None)
        return [norm]
    if kind == "LayerNorm":
        return [nn.LayerNorm(shape[layer["axis"] :], layer["epsilon"])]
    if kind == "Dropout":
        return [nn.Dropout(layer["ratio"])]
    if kind == "Embedding" and not layer["bias"]:
        return [nn.Embedding(layer["input_dim"], layer["output_dim"])]
    if kind == "OneHot":
        return [OneHot(layer["n_class"])]
    if kind == "LSTM" and (layer["n_layer"], layer["direction"], layer["sequences"]) == (1, "forward", "full"):
        return [Sequences(nn.LSTM(shape[2], layer["output_dim"], batch_first=not layer["time_major"]))]
    if kind == "ElementWise" and layer["operation"] == "Add":
        return [Sum()]
    if kind == "Split":
        return [nn.Identity()]
    if kind == "Concat":
        return [Function(lambda *inputs: torch.cat(inputs, layer["axis"]))]
    if kind == "Transpose":
        return [Function(lambda x: x.permute(0, *layer["axes"]))]
    if kind == "Reshape":
        return [Function(lambda x: x.reshape(len(x), *told["blobs"][layer["tops"][0]][1:]))]
    raise NotImplementedError(f"layer '{layer['name']}' of type {kind} has no twin")


def _along(numbers: list[int], axes: int) -> tuple[int, ...]:
    """Return one number for each axis, of a list of one or of as many."""
    return tuple(numbers * (axes // len(numbers)))


def _pooling(layer: dict[str, Any], axes: int) -> nn.Module:
    mean = layer["pooling"] != "Max"
    if layer["axes"] and layer["whole"] and mean:
        return Function(lambda x: x.mean(layer["axes"], keepdim=True))
    if layer["whole"] and mean:
        return MEANS[axes - 1](1)
    sizes, ceil = [_along(layer[name], axes) for name in ("kernel", "stride", "pad")], layer["rounding"] == "ceil"
    if not mean and not layer["axes"] and not layer["whole"]:
        return LARGEST[axes - 1](*sizes, ceil_mode=ceil)
    if mean and not layer["axes"] and axes == 2:
        # Without padding it is the same either way, but PyTorch 2.13 compiles count_include_pad=True with ceil_mode to
        # wrong gradients: windows that reach over the edge are divided by their whole size.
        return nn.AvgPool2d(*sizes, ceil_mode=ceil, count_include_pad=any(sizes[2]))
    raise NotImplementedError(f"layer '{layer['name']}' pools in a way that has no twin")


class Function(nn.Module):
    """A function without parameters."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


class OneHot(nn.Module):
    """Vectors that are 1 at the place of a number, and 0 elsewhere, in the type of the model."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.register_buffer("rows", torch.eye(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.embedding(x, self.get_buffer("rows"))


class Sequences(nn.Module):
    """A recurrent module's states after all steps."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x)[0]


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


ENDS = (("words", "data"), ("classes", "label"))
"""What whole numbers are counted by, where there are any, in the blobs of a batch."""


class _Peer:
    """A twin at work in one mode, in float32 or with bf16 autocast.

    To be `compared`, it begins with nacre's parameters, takes its batch, and drops nothing until `with_dropout`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        compared: bool,
        bf16: bool,
        compiled: bool | str = False,
        channels_last: bool = False,
        device: str = "cpu",
    ):
        told = json.loads((folder / "net.json").read_text(encoding="utf-8"))
        self.bf16, self.device, self.axis = bf16, device, told["axis"]
        self.model = Twin(told)
        if compared:
            self.model.fill(folder)
            self._drop(False)
            self.data, self.label = (torch.from_numpy(read(folder, name)) for name in ("data", "label"))
        else:
            self.data, self.label = (
                torch.randint(0, below, shape) if below else torch.randn(shape)
                for below, shape in ((told[end], told["blobs"][blob]) for end, blob in ENDS)
            )
        self.classes: bool = told["classes"] is not None
        layout = {4: torch.channels_last, 5: torch.channels_last_3d}.get(self.data.ndim)
        if channels_last and layout is not None:
            self.model = self.model.to(memory_format=layout)  # pyright: ignore[reportCallIssue]
            self.data = self.data.contiguous(memory_format=layout)
        self.model, self.data, self.label = (one.to(device) for one in (self.model, self.data, self.label))
        mode = compiled if isinstance(compiled, str) else None
        self.call: Any = torch.compile(self.model, mode=mode) if compiled else self.model

    def _drop(self, wanted: bool) -> None:
        for module in self.model.modules():
            if isinstance(module, nn.Dropout):
                module.train(wanted)

    def scores(self) -> torch.Tensor:
        with torch.autocast(self.device, torch.bfloat16, enabled=self.bf16):
            scores = self.call(self.data)
        return scores.float() if self.bf16 else scores


class Training(_Peer):
    """Trains the batch again and again, by SGD with momentum, fused or by foreach: whichever is faster here."""

    def __init__(self, folder: Path, rate: float, momentum: float, **mode: Any) -> None:
        super().__init__(folder, **mode)
        self.criterion = nn.CrossEntropyLoss() if self.classes else nn.MSELoss(reduction="sum")
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
            yield name, parameter.grad.contiguous().cpu().numpy()
        self.choose_update()

    def with_dropout(self) -> None:
        """Go on with dropout."""
        self._drop(True)

    def _loss(self) -> torch.Tensor:
        scores = self.scores()
        if not self.classes:
            return self.criterion(scores, self.label) / (2 * len(scores))
        if self.axis > 1:  # the last one, where PyTorch has the second
            return self.criterion(scores.flatten(0, -2), self.label.flatten())
        return self.criterion(scores, self.label.squeeze(1) if self.label.ndim == scores.ndim else self.label)

    def step(self) -> float:
        """Train one batch; give its loss, as a nacre step does."""
        self.optimizer.zero_grad()
        loss = self._loss()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())


class Predicting(_Peer):
    """Gives the probabilities of the batch, or what else the net makes, again and again, in inference mode."""

    def __init__(self, folder: Path, *, frozen: bool = False, **mode: Any) -> None:
        super().__init__(folder, **mode)
        self.model.eval()
        if frozen:
            import torch._inductor.config as inductor  # pyright: ignore[reportMissingImports]

            inductor.freezing = True  # the compiler may lay out the weights anew

    def output(self) -> Any:
        """Return the probabilities (images, classes, ...), or the scores."""
        with torch.inference_mode():
            scores = self.scores()
            return (torch.softmax(scores, 1) if self.classes else scores).numpy()

    def step(self) -> float:
        """Predict one batch; give a number of it."""
        return float(self.output().flat[0])


class OnnxRuntime:
    """Gives the probabilities of the batch through onnxruntime, on the twin as PyTorch exports it."""

    def __init__(self, folder: Path, threads: int) -> None:
        import onnxruntime

        twin = Predicting(folder, compared=True, bf16=False)
        path = folder / "twin.onnx"
        ends = [nn.Softmax(1)] if twin.classes else []
        model = nn.Sequential(copy.deepcopy(twin.model), *ends).eval()
        torch.onnx.export(model, (twin.data,), path, input_names=["data"], dynamo=True, verbose=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.data = {"data": twin.data.numpy()}
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def output(self) -> Any:
        """Return the probabilities (images, classes, ...), or the scores."""
        return self.session.run(None, self.data)[0]

    def step(self) -> float:
        """Predict one batch; give a number of it."""
        return float(self.output().flat[0])
