"""Attention, positions and blocks: nacre's kit with naive references, and PyTorch's numbers and gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from nacre_transformer import AttentionLayer, PositionsLayer, TransformerBlockLayer

from nacre import ConfigError, InputLayer, Layer, Net
from nacre.testing import Example, LayerTests

MASK = np.array([[1, 1, 0, 1], [0, 1, 1, 1]], np.int64)
PAIRS = np.random.default_rng(3).integers(0, 2, (2, 3, 4))
PAIRS[0, 1] = 0  # a query that may look at nothing


def attention(layer: Any, inputs: list[Any], parameters: dict[str, Any], prefix: str = "") -> Any:
    """Compute attention naively, one query of one head of one image after the other."""
    mask = inputs[-1] if layer.masked else None
    blobs = inputs[: len(inputs) - layer.masked]
    sources = [blobs[0], blobs[min(1, len(blobs) - 1)], blobs[-1]]
    size = sources[0].shape[2]
    weights = parameters[f"{prefix}weight"].reshape(3, size, size)
    q, k, v = (x @ w.T for x, w in zip(sources, weights, strict=True))
    if layer.bias:
        q, k, v = (x + b for x, b in zip((q, k, v), parameters[f"{prefix}bias"].reshape(3, size), strict=True))
    d = size // layer.heads
    seen = np.zeros_like(q)
    for image, head, i in np.ndindex(len(q), layer.heads, q.shape[1]):
        part = slice(head * d, (head + 1) * d)
        query = turned(q[image, i, part], i) if layer.rotary else q[image, i, part]
        scores = {}
        for j in range(k.shape[1]):
            open_ = mask is None or (mask[image, j] if mask.ndim == 2 else mask[image, i, j])
            if open_ and not (layer.causal and j > i):
                key = turned(k[image, j, part], j) if layer.rotary else k[image, j, part]
                scores[j] = np.exp(query @ key / np.sqrt(d))
        for j, score in scores.items():
            seen[image, i, part] += score / sum(scores.values()) * v[image, j, part]
    y = seen @ parameters[f"{prefix}out_weight"].T
    return y + parameters[f"{prefix}out_bias"] if layer.bias else y


def turned(x: Any, position: int) -> Any:
    """Turn pairs of features by angles of a position, as complex numbers."""
    half = len(x) // 2
    turn = np.exp(1j * position / 10000.0 ** (np.arange(half) / half))
    found = (x[:half] + 1j * x[half:]) * turn
    return np.concatenate([found.real, found.imag])


class TestAttention(LayerTests):
    """Of a sequence with itself and with others, with masks of both kinds."""

    layer = AttentionLayer

    def examples(self) -> Iterator[Example]:
        x, memory = (2, 3, 8), (2, 4, 8)
        yield Example(fields={"heads": 2}, inputs=[x], tops=1, label="self")
        yield Example(fields={"heads": 4, "causal": True, "bias": False}, inputs=[memory], tops=1, label="causal")
        yield Example(fields={"heads": 2, "rotary": True}, inputs=[x, memory], tops=1, label="two bottoms, rotary")
        yield Example(fields={"heads": 1}, inputs=[x, memory, memory], tops=1, label="three bottoms")
        yield Example(fields={"heads": 2, "masked": True}, inputs=[memory, MASK], tops=1, label="mask of keys")
        yield Example(fields={"heads": 2, "masked": True}, inputs=[x, memory, PAIRS], tops=1, label="mask of pairs")

    def reference(self, layer: AttentionLayer, inputs: list[Any], parameters: dict[str, Any]) -> list[Any]:
        return [attention(layer, inputs, parameters)]


class TestPositions(LayerTests):
    """With as many positions as there may be, and with fewer."""

    layer = PositionsLayer

    def examples(self) -> Iterator[Example]:
        yield Example(fields={"most": 3}, inputs=[(2, 3, 4)])
        yield Example(fields={"most": 7}, inputs=[(2, 3, 4)])

    def reference(self, layer: PositionsLayer, inputs: list[Any], parameters: dict[str, Any]) -> list[Any]:
        return [inputs[0] + parameters["weight"][: inputs[0].shape[1]]]


class TestTransformerBlock(LayerTests):
    """A block of each norm."""

    layer = TransformerBlockLayer

    def examples(self) -> Iterator[Example]:
        sizes = {"features": 8, "heads": 2, "hidden": 6}
        yield Example(fields={**sizes, "causal": True, "neuron": "Tanh"}, inputs=[(2, 3, 8)])
        rms = {**sizes, "masked": True, "rotary": True, "norm": "RMSNorm", "neuron": "Tanh"}
        yield Example(fields=rms, inputs=[(2, 4, 8), MASK], tops=1)

    def reference(self, layer: Any, inputs: list[Any], parameters: dict[str, Any]) -> list[Any]:
        def norm(x: Any, number: int) -> Any:
            if layer.norm == "LayerNorm":
                x = x - x.mean(axis=2, keepdims=True)
            normal = x / np.sqrt((x**2).mean(axis=2, keepdims=True) + 1e-5) * parameters[f"norm{number}/scale"]
            return normal + parameters.get(f"norm{number}/bias", 0)

        inner = next(one for one in layer.expand() if isinstance(one, AttentionLayer))
        x, *mask = inputs
        h = x + attention(inner, [norm(x, 1), *mask], parameters, "attention/")
        hidden = np.tanh(norm(h, 2) @ parameters["up/weight"].T + parameters["up/bias"])
        return [h + hidden @ parameters["down/weight"].T + parameters["down/bias"]]


def put(net: Net, name: str, module: Any, names: dict[str, str]) -> None:
    """Give a layer the parameters of a module of PyTorch's."""
    for ours, theirs in names.items():
        net.parameters[f"{name}/{ours}"].value = dict(module.named_parameters())[theirs].detach().numpy()


def gradients(net: Net, x: Any) -> dict[str, Any]:
    """Return the gradients of half the sum of the squares of y."""
    net.write("x", x)
    net.write("zero", np.zeros(x.shape))
    net.forward()
    net.backward()
    return {"x": net.gradient("x"), **{name: handle.gradient for name, handle in net.parameters.items()}}


def net_of(layer: Layer) -> Net:
    """Return a net in float64 with a loss of y."""
    from nacre_layers import SquareLossLayer

    blobs = [InputLayer(name=name, tops=name, shape=(6, 8), batch_size=3) for name in ("x", "zero")]
    loss = SquareLossLayer(name="loss", bottoms=["y", "zero"])
    return Net("one", [*blobs, layer, loss], dtype="float64", keep="y", input_gradients=["x"], insert_splits=True)


ATTENTION = {
    "weight": "in_proj_weight", "bias": "in_proj_bias", "out_weight": "out_proj.weight", "out_bias": "out_proj.bias"
}  # fmt: skip


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_pytorchs(causal: bool) -> None:
    """Values and gradients in float64."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    x = np.random.default_rng(0).normal(size=(3, 6, 8))
    with net_of(AttentionLayer(name="a", bottoms="x", tops="y", heads=2, causal=causal)) as net:
        put(net, "a", theirs, ATTENTION)
        found = gradients(net, x)
        given = torch.tensor(x, requires_grad=True)
        shut = torch.ones(6, 6, dtype=torch.bool).triu(1) if causal else None
        y, _ = theirs(given, given, given, attn_mask=shut)
        ((y**2).sum() / 2 / 3).backward()
        assert np.abs(net.blob("y") - y.detach().numpy()).max() < 1e-12
    assert np.abs(found["x"] - given.grad.numpy()).max() < 1e-12
    for name, tensor in ATTENTION.items():
        assert np.abs(found[f"a/{name}"] - dict(theirs.named_parameters())[tensor].grad.numpy()).max() < 1e-12, name


def test_a_block_is_pytorchs() -> None:
    """`TransformerEncoderLayer` with the norms first."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    options = {"dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": True, "dtype": torch.float64}
    theirs = torch.nn.TransformerEncoderLayer(8, 2, 16, **options)
    names = {f"attention/{ours}": f"self_attn.{tensor}" for ours, tensor in ATTENTION.items()}
    for ours, name in (("norm1", "norm1"), ("norm2", "norm2"), ("up", "linear1"), ("down", "linear2")):
        names |= {f"{ours}/{'scale' if 'norm' in ours else 'weight'}": f"{name}.weight", f"{ours}/bias": f"{name}.bias"}
    x = np.random.default_rng(0).normal(size=(3, 6, 8))
    with net_of(TransformerBlockLayer(name="b", bottoms="x", tops="y", features=8, heads=2, hidden=16)) as net:
        put(net, "b", theirs, names)
        found = gradients(net, x)
        given = torch.tensor(x, requires_grad=True)
        y = theirs(given)
        ((y**2).sum() / 2 / 3).backward()
        assert np.abs(net.blob("y") - y.detach().numpy()).max() < 1e-6
    assert np.abs(found["x"] - given.grad.numpy()).max() < 1e-6
    for name, tensor in names.items():
        assert np.abs(found[f"b/{name}"] - dict(theirs.named_parameters())[tensor].grad.numpy()).max() < 1e-6, name


@pytest.mark.parametrize(
    ("fields", "shapes", "what"),
    [
        ({"heads": 3}, [(6, 8)], "heads=3, but 8 features cannot be divided by it"),
        ({"heads": 1}, [(8,)], "must be .images, positions, features."),
        ({"heads": 1}, [(6, 8), (5, 7)], "with images and features as 'in0'"),
        ({"heads": 1}, [(6, 8), (5, 8), (4, 8)], "there are 5 keys, but 4 values"),
        ({"heads": 1, "masked": True}, [(6, 8), (5,)], "the mask 'in1' has the shape"),
        ({"heads": 1, "masked": True}, [(6, 8)], "there must be 2 or more"),
        ({"heads": 8, "rotary": True}, [(6, 8)], "a head has 1 features, not pairs"),
    ],
)
def test_mistakes_are_told(fields: Any, shapes: Any, what: str) -> None:
    """With the names of layer and blobs."""
    names = [f"in{place}" for place in range(len(shapes))]
    blobs = [InputLayer(name=name, tops=name, shape=shape) for name, shape in zip(names, shapes, strict=True)]
    with pytest.raises(ConfigError, match=what) as error:
        Net("one", [*blobs, AttentionLayer(name="a", bottoms=names, tops="y", **fields)])
    assert str(error.value).startswith("a: ")
