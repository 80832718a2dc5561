"""What docs/from-pytorch.md says of layers, losses, functions and parameters' names: each row in both, and compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nacre import Net
from nacre.config import load
from nacre.files.toml import toml_text
from nacre.testing.close import assert_close
from page_tables import code, rows

torch = pytest.importorskip("torch")
nn, functional = torch.nn, torch.nn.functional

PAGE = Path(__file__).resolve().parents[1] / "docs/from-pytorch.md"
TABLES = [(section, cells) for section, _, cells in rows(PAGE)]
PARAMETERS = {
    module: dict(re.findall(r"`(\w+)` → `(\w+)`", cells[1]))
    for section, cells in TABLES
    if section == "Names of parameters"
    for module in code(cells[0])
}
"""{module: {name there: name here}}, as the page has it."""

Table = dict[str, Any]
Inputs = Sequence[np.ndarray]
Case = tuple[Any, list[Table], Inputs]
"""(module or function; layers that begin with x0, x1 ... and end in y, or in a loss; what x0, x1 ... hold)"""


def numbers(*shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    return np.random.default_rng([7, *shape]).uniform(low, high, shape)


def wholes(*shape: int, below: int) -> np.ndarray:
    return np.random.default_rng([7, *shape]).integers(0, below, shape)


def layer(kind: str, bottoms: Any = "x0", tops: Any = "y", **fields: Any) -> Table:
    return {"type": kind, "bottoms": bottoms, "tops": tops, **fields}


def loss(kind: str, bottoms: Any, **fields: Any) -> Table:
    return {"type": kind, "bottoms": bottoms, **fields}


def one(module: Any, kind: str, *shape: int, **fields: Any) -> Case:
    """Return the case of a single layer on a bottom of a shape."""
    return module, [layer(kind, **fields)], [numbers(*shape)]


def nacre_net(tables: Sequence[Table], inputs: Inputs, folder: Path, phase: str) -> Net:
    sources = [
        {
            "type": "Input",
            "tops": [f"x{place}"],
            "shape": list(x.shape[1:]),
            "batch_size": len(x),
            "dtype": str(x.dtype),
        }
        for place, x in enumerate(inputs)
    ]
    file = folder / "net.toml"
    file.write_text(toml_text({"layer": [*sources, *tables]}), encoding="utf-8")
    return Net("ours", load(file).layers, backend="numpy", dtype="float64", phase=phase, keep="all")


def copy_state(module: Any, net: Net, layer: str) -> None:
    """Copy a module's parameters and buffers, under the names that the page gives them."""
    names = PARAMETERS.get(type(module).__name__, {})
    state = {name: value for name, value in module.state_dict().items() if name != "num_batches_tracked"}
    assert set(state) <= set(names), f"{type(module).__name__}: the page does not tell all of {list(state)}"
    for name, value in state.items():
        here = net.parameters[f"{layer}/{names[name]}"]
        assert here.shape == tuple(value.shape), f"{type(module).__name__}.{name}"
        here.value = value.numpy()


def check(case: Case, folder: Path) -> None:
    module, tables, inputs = case
    is_module = isinstance(module, nn.Module)
    phase = "train" if not is_module or module.training else "test"
    with nacre_net(tables, inputs, folder, phase) as net:
        if is_module:
            module.double()
            for parameter in module.parameters():  # not all 0 or 1, as some begin
                parameter.data.uniform_(0.25, 1.0)
            copy_state(module, net, "y")
        for place, x in enumerate(inputs):
            net.write(f"x{place}", x)
        net.forward()
        theirs = module(*(torch.tensor(x) for x in inputs))
        if "tops" not in tables[-1]:
            assert net.loss() == pytest.approx(theirs.item(), rel=1e-12)
            return
        tops = tables[-1]["tops"]
        for name, top in zip([tops] if isinstance(tops, str) else tops, _several(theirs), strict=True):
            assert_close(net.blob(name), top.detach().numpy(), name)
        if is_module:  # what the pass has changed: running values
            state = module.state_dict()
            for name, here in PARAMETERS.get(type(module).__name__, {}).items():
                if name in state:
                    assert_close(net.parameters[f"y/{here}"].value, state[name].numpy(), name)


def _several(tops: Any) -> Sequence[Any]:
    return tops if isinstance(tops, list | tuple) else [tops]


def evaluated(module: Any) -> Any:
    return module.eval()


TIME_MAJOR, RELU = {"time_major": True}, {"activation": "ReLU"}


def without_states(module: type[Any]) -> type[Any]:
    """Return a recurrent module that returns its outputs alone."""
    return type(module.__name__, (module,), {"forward": lambda self, x: module.forward(self, x)[0]})


LAYERS: Mapping[str, list[Case]] = {
    "Linear": [
        one(nn.Linear(6, 4), "InnerProduct", 3, 6, output_dim=4),
        one(nn.Linear(4, 5, bias=False), "InnerProduct", 2, 3, 4, output_dim=5, axis=-1, bias=False),
    ],
    "Conv1d": [
        one(nn.Conv1d(4, 6, 3, padding=1, groups=2), "Convolution", 2, 4, 7, n_filter=6, kernel=3, pad=1, n_group=2),
        one(
            nn.Conv2d(3, 4, (3, 2), 2, (1, 0)),
            "Convolution",
            2,
            3,
            7,
            6,
            n_filter=4,
            kernel=[3, 2],
            stride=2,
            pad=[1, 0],
        ),
        one(nn.Conv3d(2, 3, 2, dilation=2), "Convolution", 2, 2, 4, 5, 3, n_filter=3, kernel=2, dilation=2),
    ],
    "ConvTranspose2d": [
        one(
            nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
            "Deconvolution",
            2,
            4,
            5,
            3,
            n_filter=6,
            kernel=3,
            stride=2,
            pad=1,
            extra=1,
            n_group=2,
        ),
        one(nn.ConvTranspose1d(2, 3, 3, dilation=2), "Deconvolution", 2, 2, 5, n_filter=3, kernel=3, dilation=2),
    ],
    "MaxPool2d": [
        one(nn.MaxPool2d(2), "Pooling", 2, 3, 5, 6, kernel=2, stride=2, rounding="floor"),
        one(nn.MaxPool2d(3, 2, 1, ceil_mode=True), "Pooling", 2, 3, 6, 6, kernel=3, stride=2, pad=1),
        one(nn.MaxPool1d(3, 1), "Pooling", 2, 3, 5, kernel=3, pooling="Max"),
        one(
            nn.MaxPool2d(2, return_indices=True),
            "Pooling",
            2,
            3,
            4,
            4,
            tops=["y", "places"],
            kernel=2,
            stride=2,
        ),
    ],
    "AvgPool2d": [
        one(nn.AvgPool2d(3, 2, 1), "Pooling", 2, 3, 6, 5, kernel=3, stride=2, pad=1, pooling="Mean", rounding="floor"),
        one(
            nn.AvgPool2d(3, 2, 1, count_include_pad=False),
            "Pooling",
            2,
            3,
            6,
            5,
            kernel=3,
            stride=2,
            pad=1,
            rounding="floor",
            pooling={"type": "Mean", "divide_by": "image"},
        ),
    ],
    "AdaptiveAvgPool2d(1)": [
        one(nn.AdaptiveAvgPool2d(1), "GlobalPooling", 2, 3, 4, 5),
        one(nn.AdaptiveAvgPool2d(1), "Pooling", 2, 3, 4, 5, whole=True, pooling="Mean"),
    ],
    "AdaptiveAvgPool2d": [
        one(nn.AdaptiveAvgPool2d((3, 2)), "AdaptivePooling", 2, 3, 7, 5, size=[3, 2]),
        one(nn.AdaptiveMaxPool1d(3), "AdaptivePooling", 2, 3, 7, size=3, pooling="Max"),
    ],
    "Unfold": [
        (
            lambda x: functional.unfold(x, (2, 3), stride=2, padding=1).reshape(2, 18, 3, 3),
            [layer("Im2col", kernel=[2, 3], stride=2, pad=1)],
            [numbers(2, 3, 4, 5)],
        )
    ],
    "Upsample": [
        one(nn.Upsample(scale_factor=2), "Resize", 1, 2, 5, 4, factor=2),
        one(nn.Upsample(scale_factor=2, mode="bilinear"), "Resize", 1, 2, 5, 4, factor=2, mode="bilinear"),
        one(nn.Upsample((3, 7), mode="bilinear"), "Resize", 1, 2, 5, 4, size=[3, 7], mode="bilinear"),
        one(nn.Upsample(9, mode="linear"), "Resize", 1, 2, 5, size=9, mode="bilinear"),
        one(nn.Upsample(scale_factor=1.5, mode="trilinear"), "Resize", 1, 2, 2, 3, 5, factor=1.5, mode="bilinear"),
    ],
    "ZeroPad2d": [
        one(nn.ZeroPad2d(2), "Pad", 2, 3, 4, 5, pad=2),
        one(nn.ConstantPad2d((1, 2, 3, 0), 0.5), "Pad", 2, 3, 4, 5, pad=[3, 1], end=[0, 2], value=0.5),
        one(nn.ReplicationPad2d((2, 2, 1, 1)), "Pad", 2, 3, 4, 5, pad=[1, 2], mode="edge"),
        one(nn.ReflectionPad2d(3), "Pad", 2, 3, 4, 5, pad=3, mode="reflect"),
    ],
    "BatchNorm1d": [
        one(nn.BatchNorm2d(3), "BatchNorm", 4, 3, 2, 5),
        one(nn.BatchNorm1d(3, eps=1e-3, momentum=0.25), "BatchNorm", 4, 3, epsilon=1e-3, decay=0.75),
        one(evaluated(nn.BatchNorm3d(2)), "BatchNorm", 2, 2, 2, 3, 2),
        one(nn.BatchNorm2d(3, affine=False), "BatchNorm", 4, 3, 2, 2, scale=False, bias=False),
        one(
            evaluated(nn.BatchNorm2d(3, track_running_stats=False)),
            "BatchNorm",
            4,
            3,
            2,
            2,
            use_batch=True,
        ),
    ],
    "InstanceNorm2d": [
        one(nn.GroupNorm(2, 6), "GroupNorm", 3, 6, 2, 2, n_group=2),
        one(nn.InstanceNorm2d(6, affine=True), "GroupNorm", 3, 6, 2, 2, n_group=6),
        one(nn.InstanceNorm2d(4), "GroupNorm", 3, 4, 2, 3, n_group=4, scale=False, bias=False),
    ],
    "LayerNorm": [
        one(nn.LayerNorm(4), "LayerNorm", 2, 3, 4, axis=-1),
        one(nn.LayerNorm((3, 4)), "LayerNorm", 2, 3, 4),
    ],
    "RMSNorm": [
        one(nn.RMSNorm(4, eps=1e-5), "RMSNorm", 2, 3, 4, axis=-1),
        one(nn.RMSNorm((3, 4), eps=0.1, elementwise_affine=False), "RMSNorm", 2, 3, 4, epsilon=0.1, scale=False),
    ],
    "LocalResponseNorm": [
        one(
            nn.LocalResponseNorm(5, alpha=0.5, beta=0.6, k=2.0),
            "LRN",
            2,
            7,
            3,
            2,
            kernel=5,
            scale=0.5,
            power=0.6,
            shift=2.0,
        ),
        one(nn.LocalResponseNorm(3), "LRN", 2, 4, 3, kernel=3, scale=1e-4),
    ],
    "Dropout": [
        (
            evaluated(nn.Dropout(0.3)),
            [layer("Identity"), loss("Dropout", "y", ratio=0.3), layer("Identity", "y", "z")],
            [numbers(2, 3)],
        )
    ],
    "Embedding": [
        (nn.Embedding(7, 3), [layer("Embedding", input_dim=7, output_dim=3, bias=False)], [wholes(4, 2, below=7)])
    ],
    "RNN": [
        one(without_states(nn.RNN)(4, 3, batch_first=True), "RNN", 2, 5, 4, output_dim=3),
        one(without_states(nn.RNN)(4, 3, nonlinearity="relu"), "RNN", 5, 2, 4, output_dim=3, **TIME_MAJOR, **RELU),
        one(without_states(nn.GRU)(4, 3, batch_first=True), "GRU", 2, 5, 4, output_dim=3),
        one(without_states(nn.LSTM)(4, 3), "LSTM", 5, 2, 4, output_dim=3, **TIME_MAJOR),
    ],
    "Flatten": [
        one(nn.Flatten(2), "Flatten", 2, 3, 4, 5, axis=2),
        one(nn.Flatten(0), "Flatten", 2, 3, 4, axis=0),
        one(nn.Unflatten(1, (2, 3)), "Reshape", 4, 6, shape=[2, 3]),
    ],
    "Softmax": [one(nn.Softmax(1), "Softmax", 3, 4), one(nn.Softmax(0), "Softmax", 3, 4, axis=0)],
    "LogSoftmax": [(nn.LogSoftmax(1), [layer("Softmax", tops="p"), layer("Log", "p")], [numbers(3, 4)])],
    "ReLU": [
        *(
            one(getattr(nn, name)(), name, 3, 5)
            for name in (
                *("ReLU", "ELU", "SELU", "GELU", "SiLU", "Mish", "Hardswish"),
                *("Sigmoid", "Tanh", "Softplus"),
            )
        ),
        one(nn.ELU(0.3), "ELU", 3, 5, alpha=0.3),
        one(nn.GELU(approximate="tanh"), "GELU", 3, 5, approximate="tanh"),
    ],
    "LeakyReLU": [one(nn.LeakyReLU(), "LReLU", 3, 5), one(nn.LeakyReLU(0.2), "LReLU", 3, 5, slope=0.2)],
    "GLU": [
        one(nn.GLU(1), "GLU", 3, 6, 2),
        one(nn.GLU(), "GLU", 3, 5, 4, axis=-1),
        one(lambda x: x[:, :3] * functional.silu(x[:, 3:]), "GLU", 3, 6, gate="SiLU"),
        one(lambda x: x[:, :3] * functional.gelu(x[:, 3:]), "GLU", 3, 6, gate="GELU"),
    ],
    "PReLU": [one(nn.PReLU(), "PReLU", 3, 5, shared=True), one(nn.PReLU(5), "PReLU", 3, 5, 2)],
    "ReLU6": [
        one(nn.ReLU6(), "Clip", 3, 5, low=0, high=6),
        one(nn.Hardtanh(-1.5, 0.5), "Clip", 3, 5, low=-1.5, high=0.5),
    ],
    "Identity": [one(nn.Identity(), "Identity", 3, 5)],
}
"""{first name of a row: its cases}."""
NO_LAYERS = {"Sequential", "a module of your own"}

SCORES, CLASSES = numbers(5, 4), np.array([0, 3, 1, 2, 3])
SHARES = numbers(5, 4, low=0.1, high=0.9)
LOSSES: Mapping[str, list[Case]] = {
    "CrossEntropyLoss": [
        (functional.cross_entropy, [loss("SoftmaxLoss", ["x0", "x1"])], [SCORES, CLASSES]),
        (
            functional.cross_entropy,
            [loss("SoftmaxLoss", ["x0", "x1"])],
            [numbers(2, 3, 2, 2), wholes(2, 2, 2, below=3)],
        ),
        (
            lambda x, label: functional.cross_entropy(x, label, label_smoothing=0.1),
            [loss("SoftmaxLoss", ["x0", "x1"], label_smoothing=0.1)],
            [SCORES, CLASSES],
        ),
        (
            lambda x, label: functional.cross_entropy(x, label, ignore_index=3),
            [loss("SoftmaxLoss", ["x0", "x1"], ignore_label=3)],
            [SCORES, CLASSES],
        ),
        (
            lambda x, label: functional.cross_entropy(x, label, torch.arange(1.0, 5.0).double(), reduction="sum") / 5,
            [loss("SoftmaxLoss", ["x0", "x1"], weights=[1, 2, 3, 4], normalize_weights="no")],
            [SCORES, CLASSES],
        ),
    ],
    'reduction="sum"': [
        (
            lambda x, label: functional.cross_entropy(x, label, reduction="sum"),
            [loss("SoftmaxLoss", ["x0", "x1"], normalize="none")],
            [SCORES, CLASSES],
        )
    ],
    "the same with probabilities as labels": [
        (functional.cross_entropy, [loss("SoftlabelSoftmaxLoss", ["x0", "x1"])], [SCORES, SHARES]),
        (
            functional.cross_entropy,
            [loss("SoftlabelSoftmaxLoss", ["x0", "x1"])],
            [numbers(2, 3, 4), SHARES[:2, :3, None] * np.ones(4)],
        ),
    ],
    "NLLLoss": [
        (
            lambda p, label: functional.nll_loss(p.log(), label),
            [loss("MultinomialLogisticLoss", ["x0", "x1"])],
            [SHARES, CLASSES],
        )
    ],
    "BCEWithLogitsLoss": [
        (
            functional.binary_cross_entropy_with_logits,
            [loss("SigmoidCrossEntropyLoss", ["x0", "x1"], normalize="full")],
            [SCORES, SHARES],
        ),
        (
            lambda x, t: functional.binary_cross_entropy_with_logits(x, t, reduction="sum") / len(x),
            [loss("SigmoidCrossEntropyLoss", ["x0", "x1"])],
            [SCORES, SHARES],
        ),
    ],
    "BCELoss": [
        (
            lambda p, t: functional.binary_cross_entropy(p, t, reduction="sum") / len(p),
            [loss("BinaryCrossEntropyLoss", ["x0", "x1"])],
            [SHARES, SHARES[::-1].copy()],
        )
    ],
    "KLDivLoss": [
        (
            lambda p, t: functional.kl_div(p.log(), t, reduction="batchmean"),
            [loss("KLDivergenceLoss", ["x0", "x1"])],
            [SHARES, SHARES[::-1].copy()],
        )
    ],
    "HuberLoss": [
        (
            lambda x, t: functional.huber_loss(x, t, delta=0.5),
            [loss("HuberLoss", ["x0", "x1"], delta=0.5, weight=1 / 4)],
            [SCORES, SHARES],
        ),
        (
            lambda x, t: functional.smooth_l1_loss(x, t, beta=0.5),
            [loss("HuberLoss", ["x0", "x1"], delta=0.5, weight=1 / 4 / 0.5)],
            [SCORES, SHARES],
        ),
    ],
    "MSELoss": [(functional.mse_loss, [loss("SquareLoss", ["x0", "x1"], weight=2 / 4)], [SCORES, SHARES])],
    "L1Loss": [
        (
            functional.l1_loss,
            [
                layer("ElementWise", ["x0", "x1"], "d", operation="Subtract"),
                layer("AbsVal", "d", "size"),
                loss("SumLoss", "size", weight=1 / 20),
            ],
            [SCORES, SHARES],
        )
    ],
}


def two(function: Callable[..., Any], kind: str, **fields: Any) -> Case:
    return function, [layer(kind, ["x0", "x1"], **fields)], [numbers(3, 4), numbers(3, 4, 1)[..., 0]]


FUNCTIONS: Mapping[str, list[Case]] = {
    "a + b": [
        two(getattr(torch, name), "ElementWise", operation=name.title())
        for name in ("add", "subtract", "multiply", "divide")
    ],
    "maximum": [two(torch.maximum, "ElementWise", operation="Maximum")],
    "broadcasting": [
        (lambda x, s: x * s[..., None], [layer("Scale", ["x0", "x1"])], [numbers(3, 4, 2), numbers(3, 4)]),
        (lambda x, b: x + b[..., None, None], [layer("Bias", ["x0", "x1"])], [numbers(3, 4, 2), numbers(3)]),
    ],
    "matmul": [
        (torch.bmm, [layer("MatMul", ["x0", "x1"])], [numbers(2, 3, 4), numbers(2, 4, 5)]),
        (
            lambda a, b: a @ b.mT,
            [layer("MatMul", ["x0", "x1"], transpose_b=True)],
            [numbers(2, 3, 4, 2), numbers(2, 3, 5, 2)],
        ),
    ],
    "permute": [
        one(lambda x: x.permute(0, 2, 3, 1), "Transpose", 2, 3, 4, 5, axes=[2, 3, 1]),
        one(lambda x: x.transpose(1, 2), "Transpose", 2, 3, 4, axes=[2, 1]),
    ],
    "F.interpolate": [
        one(lambda x: functional.interpolate(x, (6, 3)), "Resize", 2, 3, 4, 5, size=[6, 3]),
        one(lambda x: functional.pad(x, (1, 2), "reflect"), "Pad", 2, 3, 4, pad=1, end=2, mode="reflect"),
    ],
    "cat": [
        two(lambda a, b: torch.cat([a, b], 1), "Concat"),
        one(lambda x: x.split([1, 3, 2], 1), "Slice", 3, 6, tops=["a", "b", "c"], points=[1, 4]),
        one(lambda x: x.chunk(2, 2), "Slice", 3, 5, 6, tops=["a", "b"], axis=2),
    ],
    "a tensor used twice": [one(lambda x: [x, x], "Split", 3, 4, tops=["a", "b"])],
    "sum": [
        one(lambda x: x.sum((1, 2)), "Reduction", 3, 4, 2),
        one(lambda x: x.mean(-1), "Reduction", 3, 4, 2, operation="mean", axis=-1),
    ],
    "tile": [one(lambda x: x.tile(1, 3), "Tile", 3, 4, tiles=3)],
    "argmax": [
        one(lambda x: x.argmax(1, keepdim=True), "Argmax", 3, 4),
        one(lambda x: x.topk(2, 1)[1], "Argmax", 3, 4, top_k=2),
        one(lambda x: x.topk(2, 1)[0], "Argmax", 3, 4, top_k=2, values=True),
    ],
    "F.one_hot": [
        (lambda x: functional.one_hot(x[:, 0], 5), [layer("Index2Onehot", n_class=5)], [wholes(4, 1, below=5)]),
    ],
    "abs": [
        one(torch.abs, "AbsVal", 3, 4),
        one(lambda x: x.clamp(-1, 0.5), "Clip", 3, 4, low=-1, high=0.5),
        one(torch.exp, "Exp", 3, 4),
        (torch.log, [layer("Log")], [SHARES]),
        (lambda x: x**1.5, [layer("Power", power=1.5)], [SHARES]),
    ],
    "x.detach()": [one(lambda x: x.detach(), "StopGradient", 3, 4)],
}
NO_FUNCTIONS = {"randn"}


@pytest.mark.parametrize(
    ("section", "cases", "others"),
    [("Layers", LAYERS, NO_LAYERS), ("Losses", LOSSES, set()), ("Functions", FUNCTIONS, NO_FUNCTIONS)],
)
def test_every_row_is_compared(section: str, cases: Mapping[str, list[Case]], others: set[str]) -> None:
    told = [next(iter(code(cells[0])), cells[0]) for where, cells in TABLES if where == section]
    assert sorted(told) == sorted({*cases, *others})


ALL = [
    (f"{name}-{number}", case)
    for table in (LAYERS, LOSSES, FUNCTIONS)
    for name, its in table.items()
    for number, case in enumerate(its)
]


@pytest.mark.parametrize("case", [case for _, case in ALL], ids=[name for name, _ in ALL])
def test_a_row_is_so(case: Case, tmp_path: Path) -> None:
    torch.manual_seed(0)
    check(case, tmp_path)


def test_every_module_with_parameters_is_among_the_names() -> None:
    compared = {
        type(module).__name__
        for cases in LAYERS.values()
        for module, _, _ in cases
        if isinstance(module, nn.Module) and module.state_dict()
    }
    assert compared <= set(PARAMETERS)
    for name, names in PARAMETERS.items():  # and those that the page names are PyTorch's
        sizes = {
            "GroupNorm": (2, 2),
            "Embedding": (2, 2),
            "Linear": (2, 2),
            "LayerNorm": (2,),
            "RMSNorm": (2,),
            "PReLU": (),
        }
        usual = (2, 2, 1) if name.startswith("Conv") else (2,)
        usual = (2, 2) if name in ("RNN", "GRU", "LSTM") else usual
        made = getattr(nn, name)(
            *sizes.get(name, usual),
            **({"affine": True, "track_running_stats": False} if name.startswith("Instance") else {}),
        )
        assert set(names) == set(made.state_dict()) - {"num_batches_tracked"}, name
