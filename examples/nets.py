"""Write the net files of this folder that are too long to be written by hand.

    python examples/nets.py

Each net is a Python function here, and a TOML file beside it, which is what `nacre` reads; a test keeps both equal.
The comments in the files tell the shapes of the tops.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nacre import Net, registry
from nacre.config import based_on
from nacre.files import toml_text

Table = dict[str, Any]

HERE = Path(__file__).resolve().parent
INPUTS = """
The blobs `data` and `label` are written from outside (`net.write("data", images)`), so the net needs no files: it is
there to be looked at (`nacre summary {file}`), timed (`nacre time {file}`) and compared with other frameworks. To train
it, put a source in place of the two Input layers, as in ../digits/lenet.toml.
"""


@dataclass
class Example:
    """A net file: what its head says, its layers, and how it is trained."""

    name: str
    about: str
    layers: list[Table]
    solver: Table
    options: Table = field(default_factory=dict[str, Any])
    callbacks: list[Table] = field(default_factory=list[Table])

    def text(self, path: Path) -> str:
        """Return the text of the file that will lie at `path`; the shape of each top stands beside its name."""
        inputs = INPUTS.format(file=path.name) if any(layer["type"] == "Input" for layer in self.layers) else ""
        paragraphs = f"{self.about}\n{inputs}\nWritten by ../nets.py: change it there.".strip().split("\n\n")
        body: Table = {"name": self.name, **self.options, "layer": self.layers, "solver": self.solver}
        if self.callbacks:
            body["callback"] = self.callbacks
        shapes = self._shapes(path.parent)

        def with_shape(line: re.Match[str]) -> str:
            return f"{line[0]}  # {shapes[line[1]]}" if line[1] in shapes else line[0]

        layers = re.sub(r'^tops = \["(\w+)"\]$', with_shape, toml_text(body), flags=re.M)
        return "#\n".join(map(_comment, paragraphs)) + "\n" + layers

    def _shapes(self, folder: Path) -> dict[str, tuple[int, ...]]:
        made = registry()
        with based_on(folder):
            layers = [made.open("layer", table["type"])(**_without_type(table)) for table in self.layers]
        net = Net(self.name, layers, backend="numpy", allocate=False, **self.options)
        return {name: value.shape for name, value in net.memory.final.items()}


def _comment(paragraph: str) -> str:
    """Return a paragraph as lines of comment; what is indented stays as it is."""
    text = paragraph.strip("\n")
    return textwrap.indent(text if text.startswith(" ") else textwrap.fill(text, 118), "# ") + "\n"


def _without_type(table: Table) -> Table:
    return {name: value for name, value in table.items() if name != "type"}


class Stack:
    """Layers that lie one upon the other: each reads `top`, the blob that the one below it has written."""

    def __init__(self, sources: Sequence[Table], **weighted: Any) -> None:
        self.layers = list(sources)
        self.top = "data"
        self.weighted = weighted  # fields of all layers with a weight

    def lay(self, kind: str, name: str, bottoms: Sequence[str] = (), **fields: Any) -> str:
        """Lay a layer on top, or upon the blobs that are named; give the name of its own top."""
        self.layers.append({"type": kind, "name": name, "bottoms": list(bottoms) or [self.top]})
        if kind != "Dropout":  # which works in place
            self.layers[-1]["tops"] = [name]
            self.top = name
        usual = self.weighted if kind in ("Convolution", "InnerProduct") else {}
        self.layers[-1] |= {**fields, **{key: value for key, value in usual.items() if key not in fields}}
        return self.top

    def end(self) -> list[Table]:
        """Lay a classifier's last layers on the scores at the top; give all layers."""
        labelled = [self.top, "label"]
        trained = ["train", "validation", "test"]
        return [
            *self.layers,
            {"type": "SoftmaxLoss", "name": "loss", "bottoms": labelled, "exclude": ["predict"]},
            {"type": "Accuracy", "name": "accuracy", "bottoms": labelled, "exclude": ["train", "predict"]},
            {"type": "Softmax", "name": "prob", "bottoms": [self.top], "tops": ["prob"], "exclude": trained},
        ]


def written_from_outside(batch_size: int, *shape: int) -> list[Table]:
    """Return layers for images of this shape, and for a label for each."""
    data = {"type": "Input", "name": "data", "tops": ["data"], "shape": shape}
    label = {"type": "Input", "name": "label", "tops": ["label"], "exclude": ["predict"]}
    return [{**one, "batch_size": batch_size} for one in (data, label)]


def digits(batch_size: int) -> list[Table]:
    """Return the sources of the handwritten digits, as digits/lenet.toml has them."""
    scale, shift = ["data", {"type": "Scale", "scale": 1 / 16}], ["data", {"type": "RandomShift", "pixels": 1}]
    source = {"type": "HDF5Data", "tops": ["data", "label"]}
    training = {"source": ["train.h5"], "batch_size": batch_size, "shuffle": True, "transformers": [scale, shift]}
    held_out = {"source": ["test.h5"], "batch_size": 100, "transformers": [scale]}
    return [
        {**source, "name": "train", "exclude": ["validation", "test", "predict"], **training},
        {**source, "name": "test", "exclude": ["train", "predict"], **held_out},
    ]


# --- AlexNet and CaffeNet ---------------------------------------------------------------------------------------------


def alexnet() -> Example:
    """AlexNet: Caffe's bvlc_alexnet."""
    about = """
AlexNet for ImageNet: 227 x 227 pixels in colour, 1,000 classes; 60,965,224 parameters. Krizhevsky, Sutskever and
Hinton, "ImageNet Classification with Deep Convolutional Neural Networks", 2012, in the form of Caffe's bvlc_alexnet,
which reaches 57.1 % of the validation images (80.2 % among five guesses). An update is made by 256 images: the mean
gradient of 16 batches of 16.
"""
    return Example(
        "alexnet", about, _alexnet(normal_first=True, bias=0.1), _imagenet_solver(0.01, 16, 450_000, 100_000)
    )


def caffenet() -> Example:
    """CaffeNet: AlexNet with pooling before normalisation."""
    about = """
CaffeNet for ImageNet, Caffe's variant of AlexNet: pooled first, normalised then, so with a quarter of the work for it;
60,965,224 parameters. Jia and others, "Caffe: Convolutional Architecture for Fast Feature Embedding", 2014; Caffe's
bvlc_reference_caffenet reaches 57.4 % of the validation images. An update is made by 256 images: the mean gradient of
16 batches of 16.
"""
    return Example(
        "caffenet", about, _alexnet(normal_first=False, bias=1.0), _imagenet_solver(0.01, 16, 450_000, 100_000)
    )


def _alexnet(*, normal_first: bool, bias: float) -> list[Table]:
    net = Stack(written_from_outside(16, 3, 227, 227), bias_lr=2.0, neuron="ReLU")

    def begin(std: float, bias: float) -> Table:
        return {"weight_init": {"type": "Gaussian", "std": std}, "bias_init": {"type": "Constant", "value": bias}}

    def convolve(number: int, n_filter: int, kernel: int, bias: float = 0.0, **fields: Any) -> None:
        net.lay("Convolution", f"conv{number}", n_filter=n_filter, kernel=kernel, **fields, **begin(0.01, bias))

    def normalise_and_pool(number: int) -> None:
        normalise = ("LRN", f"norm{number}", {"kernel": 5, "scale": 1e-4, "power": 0.75})
        pool = ("Pooling", f"pool{number}", {"kernel": 3, "stride": 2})
        for kind, name, fields in (normalise, pool) if normal_first else (pool, normalise):
            net.lay(kind, name, **fields)

    convolve(1, 96, 11, stride=4)
    normalise_and_pool(1)
    convolve(2, 256, 5, bias, pad=2, n_group=2)
    normalise_and_pool(2)
    convolve(3, 384, 3, pad=1)
    convolve(4, 384, 3, bias, pad=1, n_group=2)
    convolve(5, 256, 3, bias, pad=1, n_group=2)
    net.lay("Pooling", "pool5", kernel=3, stride=2)
    for number in (6, 7):
        net.lay("InnerProduct", f"fc{number}", output_dim=4096, **begin(0.005, bias))
        net.lay("Dropout", f"drop{number}", ratio=0.5)
    net.lay("InnerProduct", "fc8", output_dim=1000, **begin(0.01, 0.0), neuron="Identity")
    return net.end()


def _imagenet_solver(rate: float, batches: int, max_iter: int, stepsize: int, regu_coef: float = 5e-4) -> Table:
    return {
        "type": "SGD",
        "max_iter": max_iter,
        "n_accumulate": batches,
        "lr_policy": {"type": "Step", "base": rate, "gamma": 0.1, "stepsize": stepsize},
        "momentum_policy": 0.9,
        "regu_coef": regu_coef,
    }


# --- VGG --------------------------------------------------------------------------------------------------------------


def vgg_a() -> Example:
    """VGG-A: eleven layers with weights."""
    return _vgg("A", 11, (1, 1, 2, 2, 2), 132_863_336, "70.4 % of the validation images (89.6 % among five guesses)")


def vgg_16() -> Example:
    """VGG-16: configuration D, sixteen layers with weights."""
    return _vgg("D", 16, (2, 2, 3, 3, 3), 138_357_544, "74.4 % of the validation images (91.9 % among five guesses)")


def _vgg(letter: str, depth: int, blocks: Sequence[int], parameters: int, reached: str) -> Example:
    about = f"""
VGG, configuration {letter} of the paper, for ImageNet: 224 x 224 pixels in colour, 1,000 classes; {depth} layers with
weights, {parameters:,} parameters. Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image
Recognition", 2014, where it reaches {reached}. An update is made by 256 images: the mean gradient of 32 batches of 8.
The weights begin as Glorot's, which the authors found later to make pre-training needless.
"""
    net = Stack(written_from_outside(8, 3, 224, 224), neuron="ReLU", weight_init="Xavier")
    for block, count in enumerate(blocks, start=1):
        for number in range(1, count + 1):
            n_filter = min(64 * 2 ** (block - 1), 512)
            net.lay("Convolution", f"conv{block}_{number}", n_filter=n_filter, kernel=3, pad=1)
        net.lay("Pooling", f"pool{block}", kernel=2, stride=2)
    for number in (6, 7):
        net.lay("InnerProduct", f"fc{number}", output_dim=4096)
        net.lay("Dropout", f"drop{number}", ratio=0.5)
    net.lay("InnerProduct", "fc8", output_dim=1000, neuron="Identity")
    return Example(f"vgg-{letter.lower()}", about, net.end(), _imagenet_solver(0.01, 32, 370_000, 100_000))


# --- Residual nets ----------------------------------------------------------------------------------------------------


HE = {"type": "He", "fan": "out"}


def convolve(n_filter: int, kernel: int, stride: int = 1, neuron: str = "", **named: str) -> list[Table]:
    """Return a convolution that keeps the image's size but for the stride, has no bias, and is normalised."""
    sizes = {"kernel": kernel} | ({"stride": stride} if stride > 1 else {})
    sizes |= {"pad": kernel // 2} if kernel > 1 else {}
    normalised = {"neuron": neuron} if neuron else {}
    return [
        {"type": "Convolution", **named, "n_filter": n_filter, **sizes, "bias": False, "weight_init": HE},
        {"type": "BatchNorm", **normalised},
    ]


def block(convolutions: Sequence[tuple[int, int]], stride: int = 1, *, project: bool = False, **named: str) -> Table:
    """Return convolutions, each (filters, kernel), added to what they read; `project` where they change its shape."""
    layers: list[Table] = []
    for number, (n_filter, kernel) in enumerate(convolutions, start=1):
        own = stride if number == 1 else 1, "ReLU" if number < len(convolutions) else ""
        layers += convolve(n_filter, kernel, *own)
    made: Table = {"type": "Residual", **named, "neuron": "ReLU", "layer": layers}
    return {**made, "projection": convolve(convolutions[-1][0], 1, stride)} if project else made


def stage(
    number: int, count: int, convolutions: Sequence[tuple[int, int]], stride: int, *, project: bool
) -> list[Table]:
    """Return so many blocks one after the other, of which the first may change the shape."""
    first = [block(convolutions, stride, project=True, name=f"stage{number}_1")] if project else []
    others = {"type": "Repeat", "name": f"stage{number}", "times": count - len(first), "layer": [block(convolutions)]}
    return [*first, others]


def _residual(sources: Sequence[Table], layers: Sequence[Table], classes: int) -> list[Table]:
    """Return a net whose scores are computed by one container: these layers, and the mean of each channel."""
    scores = {"type": "InnerProduct", "name": "scores", "output_dim": classes, "weight_init": "Xavier"}
    body = [*layers, {"type": "Pooling", "whole": True, "pooling": "Mean"}, scores]
    head = {"type": "Sequential", "name": "net", "bottoms": ["data"], "tops": ["scores"]}
    net = Stack([*sources, {**head, "layer": body}])
    net.top = "scores"
    return net.end()


def _resnet20(sources: Sequence[Table]) -> list[Table]:
    layers = convolve(16, 3, neuron="ReLU", name="conv1")
    for number, n_filter in enumerate((16, 32, 64), start=2):
        changes = number > 2
        layers += stage(number, 3, [(n_filter, 3)] * 2, 2 if changes else 1, project=changes)
    return _residual(sources, layers, 10)


def resnet20() -> Example:
    """ResNet-20 for CIFAR-10."""
    about = """
ResNet-20 for CIFAR-10: 32 x 32 pixels in colour; 20 layers with weights, 272,474 parameters. He, Zhang, Ren and Sun,
"Deep Residual Learning for Image Recognition", 2015, where it reaches 91.25 % of the test images. Where the shape
changes, the short cut here is a convolution of one pixel with its own normalisation (the paper's option B), there zeros
for the new channels (option A, 2,752 parameters less).
"""
    layers = _resnet20(written_from_outside(128, 3, 32, 32))
    rates = {"type": "MultiStep", "base": 0.1, "gamma": 0.1, "steps": [32_000, 48_000]}
    solver = {"type": "SGD", "max_iter": 64_000, "lr_policy": rates, "momentum_policy": 0.9, "regu_coef": 1e-4}
    return Example("resnet-20", about, layers, solver)


def resnet20_digits() -> Example:
    """ResNet-20 on the handwritten digits."""
    about = """
ResNet-20 (He and others, 2015; see ../cifar/resnet20.toml) on the handwritten digits of this folder: 8 x 8 pixels, so
that the last blocks see 2 x 2. Train it with

    nacre train resnet20.toml

It hits 98 % of the 360 digits held out.
"""
    solver = {
        "type": "SGD",
        "max_iter": 1500,
        "lr_policy": {"type": "Step", "base": 0.1, "gamma": 0.1, "stepsize": 600},
        "momentum_policy": 0.9,
        "regu_coef": 5e-3,
    }
    callbacks = [
        {"type": "TrainingSummary", "every_n_iter": 100},
        {"type": "ValidationPerformance", "every_n_iter": 250},
        {"type": "Snapshot", "every_n_iter": 500, "folder": "snapshots/resnet20"},
    ]
    return Example("resnet-20-digits", about, _resnet20(digits(64)), solver, callbacks=callbacks)


def resnet50() -> Example:
    """ResNet-50 for ImageNet."""
    about = """
ResNet-50 for ImageNet: 224 x 224 pixels in colour, 1,000 classes; 50 layers with weights, 25,557,032 parameters. He,
Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", 2015; their model reaches 75.3 % of the validation
images (92.2 % among five guesses). As in the paper it is the first convolution of a block that makes the image smaller.
An update is made by 256 images: the mean gradient of 32 batches of 8, each normalised by itself.
"""
    layers = convolve(64, 7, 2, "ReLU", name="conv1")
    layers.append({"type": "Pooling", "kernel": 3, "stride": 2})
    for number, count in enumerate((3, 4, 6, 3), start=2):
        n_filter = 64 * 2 ** (number - 2)
        convolutions = [(n_filter, 1), (n_filter, 3), (4 * n_filter, 1)]
        layers += stage(number, count, convolutions, 2 if number > 2 else 1, project=True)
    solver = _imagenet_solver(0.1, 32, 600_000, 150_000, 1e-4)
    return Example("resnet-50", about, _residual(written_from_outside(8, 3, 224, 224), layers, 1000), solver)


EXAMPLES: dict[str, Callable[[], Example]] = {
    "cifar/resnet20.toml": resnet20,
    "digits/resnet20.toml": resnet20_digits,
    "imagenet/alexnet.toml": alexnet,
    "imagenet/caffenet.toml": caffenet,
    "imagenet/resnet50.toml": resnet50,
    "imagenet/vgg_16.toml": vgg_16,
    "imagenet/vgg_a.toml": vgg_a,
}


def main() -> None:
    """Write all files, into the folder given on the command line or into this script's own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write into")
    folder: Path = parser.parse_args().out
    for name, make in EXAMPLES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(make().text(HERE / name), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
