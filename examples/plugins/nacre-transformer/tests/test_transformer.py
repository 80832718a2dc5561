"""Attention, positions and blocks: nacre's kit with naive references, and PyTorch's numbers and gradients."""

from __future__ import annotations

import ctypes
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from nacre_transformer import (
    AttentionLayer,
    DotProductAttentionLayer,
    FlashKernel,
    PositionsLayer,
    TransformerBlockLayer,
)
from nacre_transformer.kernel import library

from nacre import ConfigError, DataError, InputLayer, Layer, NacreError, Net, open_backend
from nacre.testing import Example, KernelTests, LayerTests, check_plugin
from nacre_layers import EmbeddingLayer, SquareLossLayer


def reason() -> str:
    """Return why the kernel cannot be tested here, or ""."""
    try:
        open_backend("onednn")
    except NacreError as error:
        return str(error)
    return "" if library() else "the kernel was not compiled"


needs_onednn = pytest.mark.skipif(bool(reason()), reason=reason())
SCRIPT = Path(__file__).resolve().parents[1] / "text/text.py"
ONE: Any = {"name": "a", "bottoms": "x", "tops": "y"}
HEADS: Any = {"features": 8, "heads": 2}

MASK = np.array([[1, 1, 0, 1], [0, 1, 1, 1]], np.int64)
PAIRS = np.random.default_rng(3).integers(0, 2, (2, 3, 4))
PAIRS[0, 1] = 0  # a query that may look at nothing


def looked(layer: Any, inputs: list[Any]) -> Any:
    """Compute the means of the values naively, one query of one head of one image after the other."""
    mask = inputs[-1] if layer.masked else None
    blobs = inputs[: len(inputs) - layer.masked]
    size = blobs[0].shape[2] // {1: 3, 2: 1, 3: 1}[len(blobs)]
    q, k, v = (x for blob in blobs for x in np.split(blob, blob.shape[2] // size, axis=2))
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
    return seen


def attention(layer: Any, inputs: list[Any], parameters: dict[str, Any], prefix: str = "") -> Any:
    """Compute attention naively."""

    def product(x: Any, name: str) -> Any:
        y = x @ parameters[f"{prefix}{name}/weight"].T
        return y + parameters[f"{prefix}{name}/bias"] if layer.bias else y

    count = len(inputs) - layer.masked
    names = {1: ["qkv"], 2: ["q", "kv"], 3: ["q", "k", "v"]}[count]
    products = [product(x, name) for name, x in zip(names, inputs[:count], strict=True)]
    return product(looked(layer, [*products, *inputs[count:]]), "out")


def turned(x: Any, position: int) -> Any:
    """Turn pairs of features by angles of a position, as complex numbers."""
    half = len(x) // 2
    turn = np.exp(1j * position / 10000.0 ** (np.arange(half) / half))
    found = (x[:half] + 1j * x[half:]) * turn
    return np.concatenate([found.real, found.imag])


LONG = np.random.default_rng(4).integers(0, 2, (2, 70, 130))
LONG[1, 65] = 0


class Looking:
    """Examples of DotProductAttention."""

    def examples(self) -> Iterator[Example]:
        q, k = (2, 3, 8), (2, 4, 8)
        yield Example(fields={"heads": 2}, inputs=[(2, 3, 24)], tops=1, label="one blob")
        yield Example(fields={"heads": 4, "causal": True}, inputs=[(2, 4, 24)], tops=1, label="causal")
        yield Example(fields={"heads": 2, "rotary": True}, inputs=[q, (2, 4, 16)], tops=1, label="two, rotary")
        yield Example(fields={"heads": 2, "rotary": True, "causal": True}, inputs=[q, k, k], tops=1, label="three")
        yield Example(fields={"heads": 2, "masked": True}, inputs=[(2, 4, 24), MASK], tops=1, label="mask of keys")
        pairs = {"heads": 2, "masked": True, "causal": True}
        yield Example(fields=pairs, inputs=[q, k, k, PAIRS], tops=1, label="mask of pairs")


class TestDotProductAttention(Looking, LayerTests):
    """Of one blob, of two and of three, with masks of both kinds."""

    layer = DotProductAttentionLayer

    def reference(self, layer: Any, inputs: list[Any], parameters: dict[str, Any]) -> list[Any]:
        return [looked(layer, inputs)]


@needs_onednn
class TestFlashKernel(Looking, KernelTests):
    """Also of several blocks, and of heads of any size."""

    layer = DotProductAttentionLayer

    kernel = FlashKernel

    backend_name = "onednn"

    def examples(self) -> Iterator[Example]:
        yield from super().examples()
        for causal in (False, True):
            fields = {"heads": 2, "causal": causal}
            yield Example(fields=fields, inputs=[(2, 130, 3 * 40)], tops=1, label=f"blocks, causal={causal}")
            yield Example(fields={**fields, "rotary": True}, inputs=[(1, 70, 32), (1, 130, 64)], tops=1)
            yield Example(fields={**fields, "heads": 3}, inputs=[(1, 128, 3 * 3 * 64)], tops=1, label="whole blocks")
        fields = {"heads": 1, "masked": True}
        floats = MASK.astype(np.float32)
        yield Example(fields=fields, inputs=[(2, 4, 24), floats], tops=1, wanted=[0], label="a mask of float32")
        yield Example(fields=fields, inputs=[(2, 70, 5), (2, 130, 10), LONG], tops=1, label="blocks and a mask")

    def strategy(self) -> Any:
        """Draw lengths around the blocks' ends, and sizes around those of registers."""
        return st.builds(
            lambda heads, size, rows, keys, causal: Example(
                fields={"heads": heads, "causal": causal},
                inputs=[(2, rows, heads * size), (2, keys, heads * size), (2, keys, heads * size)],
                tops=1,
            ),
            *(st.integers(1, 3), st.integers(1, 70), st.integers(1, 70), st.integers(1, 140), st.booleans()),
        )


@needs_onednn
@pytest.mark.parametrize("fields", [{}, {"causal": True, "rotary": True}])
@pytest.mark.parametrize("size", [7, 16, 40, 64])
def test_all_instructions_compute_the_same(size: int, fields: dict[str, Any]) -> None:
    """And one thread has the bits of two."""
    size += size % 2
    layers = [
        InputLayer(name="x", tops="x", shape=(131, 6 * size), batch_size=2),
        InputLayer(name="zero", tops="zero", shape=(131, 2 * size), batch_size=2),
        DotProductAttentionLayer(**ONE, heads=2, **fields),
        SquareLossLayer(name="loss", bottoms=["y", "zero"]),
    ]
    x = np.random.default_rng(0).normal(size=(2, 131, 6 * size))
    found: dict[tuple[int, int], list[Any]] = {}
    backend: Any = open_backend("onednn")
    threads = backend.threads
    try:
        for most in (0, 1, 2):
            for count in (1, 2):
                backend.threads = count
                if library().nacre_transformer_use(ctypes.c_int64(most)) != most:
                    continue
                with Net("n", layers, backend=backend, keep="y", input_gradients=["x"]) as net:
                    net.write("x", x)
                    net.forward()
                    net.backward()
                    found[most, count] = [net.blob("y"), net.gradient("x")]
    finally:
        backend.threads = threads
        library().nacre_transformer_use(ctypes.c_int64(2))
    for (most, _), arrays in found.items():
        for one, first, plain in zip(arrays, found[most, 1], found[0, 1], strict=True):
            assert np.array_equal(one, first)
            assert np.linalg.norm(one - plain) < 1e-6 * np.linalg.norm(plain)


@needs_onednn
def test_a_mask_has_no_gradient() -> None:
    """It is 0 in each pass, though other blobs may use its memory between them."""
    layers = [
        InputLayer(name="x", tops="x", shape=(5, 24), batch_size=2),
        InputLayer(name="mask", tops="mask", shape=5, batch_size=2),
        InputLayer(name="zero", tops="zero", shape=(5, 8), batch_size=2),
        DotProductAttentionLayer(name="a", bottoms=["x", "mask"], tops="y", heads=2, masked=True),
        SquareLossLayer(name="loss", bottoms=["y", "zero"]),
    ]
    with Net("n", layers, backend="onednn", input_gradients=["x", "mask"]) as net:
        net.write("x", np.random.default_rng(0).normal(size=(2, 5, 24)))
        net.write("mask", np.ones((2, 5)))
        state: Any = net.ops[3].state
        assert isinstance(state, FlashKernel)
        for _ in range(2):
            net.forward()
            net.backward()
            assert not net.gradient("mask").any()
            assert net.gradient("x").any()
            net.ops[3].given_diffs[1].memory[...] = 7


@needs_onednn
def test_a_nan_stays_where_it_is_looked_at() -> None:
    """And numbers that are not finite do not get into what does not look at them."""
    shape = (70, 3 * 4)
    layers = [InputLayer(name="x", tops="x", shape=shape), DotProductAttentionLayer(**ONE, heads=1, causal=True)]
    x = np.random.default_rng(0).normal(size=(1, *shape))
    x[0, 66, :8] = np.nan  # a query and a key
    with Net("nan", layers, backend="onednn", phase="predict") as net:
        net.write("x", x)
        net.forward()
        assert isinstance(net.ops[1].state, FlashKernel)
        assert np.isnan(net.blob("y")[0, 66:]).all()
        assert np.isfinite(net.blob("y")[0, :66]).all()


class TestAttention(LayerTests):
    """Of a sequence with itself and with others, with masks of both kinds."""

    layer = AttentionLayer

    def examples(self) -> Iterator[Example]:
        x, memory, eight = (2, 3, 8), (2, 4, 8), {"features": 8, "heads": 2}
        yield Example(fields={**eight, "causal": True, "bias": False}, inputs=[memory], tops=1, label="causal")
        yield Example(fields={**eight, "rotary": True}, inputs=[x, memory], tops=1, label="two bottoms, rotary")
        three = {
            **eight,
            "bias": False,
        }  # the gradient of a bias of the keys alone is 0
        yield Example(fields=three, inputs=[x, memory, memory], tops=1, label="three bottoms")
        yield Example(fields={**eight, "masked": True}, inputs=[x, memory, PAIRS], tops=1, label="mask of pairs")

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


def net_of(layer: Layer, mask: tuple[int, ...] = ()) -> Net:
    """Return a net in float64 with a loss of y; `mask` is the shape of a record of the mask, if there is one."""
    blobs = [InputLayer(name=name, tops=name, shape=(6, 8), batch_size=3) for name in ("x", "zero")]
    if mask:
        blobs.append(InputLayer(name="mask", tops="mask", shape=mask, batch_size=3, dtype="int64"))
    loss = SquareLossLayer(name="loss", bottoms=["y", "zero"])
    return Net("one", [*blobs, layer, loss], dtype="float64", keep="y", input_gradients=["x"], insert_splits=True)


ATTENTION = {
    "qkv/weight": "in_proj_weight", "qkv/bias": "in_proj_bias",
    "out/weight": "out_proj.weight", "out/bias": "out_proj.bias",
}  # fmt: skip


@pytest.mark.parametrize("mask", ["", "causal", "keys", "pairs"])
def test_attention_is_pytorchs(mask: str) -> None:
    """Values and gradients in float64, with each kind of mask."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    random = np.random.default_rng(0)
    x = random.normal(size=(3, 6, 8))
    masks = {"keys": random.integers(0, 2, (3, 6)), "pairs": random.integers(0, 2, (3, 6, 6))}
    for one in masks.values():
        one[..., 0] = 1  # a query that may look at nothing gets NaN from PyTorch
    fields: Any = {"features": 8, "heads": 2, "causal": mask == "causal", "masked": mask in masks}
    bottoms = ["x", "mask"] if mask in masks else ["x"]
    layer = AttentionLayer(name="a", bottoms=bottoms, tops="y", **fields)
    with net_of(layer, masks[mask].shape[1:] if mask in masks else ()) as net:
        put(net, "a", theirs, ATTENTION)
        if mask in masks:
            net.write("mask", masks[mask])
        found = gradients(net, x)
        given = torch.tensor(x, requires_grad=True)
        shut = {
            "": {},
            "causal": {"attn_mask": torch.ones(6, 6, dtype=torch.bool).triu(1)},
            "keys": {"key_padding_mask": torch.tensor(masks["keys"] == 0)},
            "pairs": {"attn_mask": torch.tensor(masks["pairs"] == 0).repeat_interleave(2, 0)},
        }[mask]
        y, _ = theirs(given, given, given, **shut)
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
        ({"heads": 3}, [(6, 24)], "heads=3, but 8 features cannot be divided by it"),
        ({"heads": 1}, [(24,)], "must be .images, positions, 3 . features."),
        ({"heads": 1}, [(6, 8), (5, 15)], "must be .images, positions, 2 . features., beside .1, 6, 8. of 'in0'"),
        ({"heads": 1}, [(6, 8), (5, 8), (4, 8)], "there are 5 keys, but 4 values"),
        ({"heads": 1, "masked": True}, [(6, 24), (5,)], "the mask 'in1' has the shape"),
        ({"heads": 1, "masked": True}, [(6, 8)], "there must be 2 or more"),
        ({"heads": 8, "rotary": True}, [(6, 24)], "a head has 1 features, not pairs"),
        ({"heads": 1, "carry": 4}, [(6, 24)], "causal=False lets positions look at later ones"),
        ({"heads": 1, "carry": 4, "causal": True, "masked": True}, [(6, 24), (6,)], "a mask says nothing of earlier"),
        ({"heads": 1, "carry": 4, "causal": True}, [(6, 8), (5, 16)], "queries and keys are of different positions"),
    ],
)
def test_mistakes_are_told(fields: Any, shapes: Any, what: str) -> None:
    """With the names of layer and blobs."""
    names = [f"in{place}" for place in range(len(shapes))]
    blobs = [InputLayer(name=name, tops=name, shape=shape) for name, shape in zip(names, shapes, strict=True)]
    with pytest.raises(ConfigError, match=what) as error:
        Net("one", [*blobs, DotProductAttentionLayer(name="a", bottoms=names, tops="y", **fields)])
    assert str(error.value).startswith("a: ")


@pytest.mark.parametrize(("bottom", "top"), [("h", "seen"), ("hidden", "qkv"), ("mean", "normal1")])
def test_blobs_may_have_the_names_of_inner_ones(bottom: str, top: str) -> None:
    """Of the block, and of the attention in it."""
    sizes: Any = {"features": 8, "heads": 2, "hidden": 16, "ratio": 0.1}
    layers = [
        InputLayer(name="in", tops=bottom, shape=(6, 8)),
        TransformerBlockLayer(name="one", bottoms=bottom, tops=top, **sizes),
        AttentionLayer(name="two", bottoms=top, tops="q", features=8, heads=2),
    ]
    with Net("names", layers, phase="predict", backend="numpy") as net:
        net.write(bottom, np.ones((1, 6, 8)))
        net.forward()
        assert net.blob("q").shape == (1, 6, 8)


def model(steps: int, most: int = 40, **fields: Any) -> list[Layer]:
    """Return a small model of letters; `fields` are those of its blocks."""
    sizes: Any = {"features": 16, "heads": 2, "hidden": 24, "causal": True}
    middle: list[Layer] = [PositionsLayer(name="positions", bottoms="h0", tops="h1", most=most, carry=True)]
    if fields.get("rotary"):
        middle = []
    return [
        InputLayer(name="x", tops="x", shape=steps, dtype="int64", batch_size=2),
        EmbeddingLayer(name="letters", bottoms="x", tops="h0", input_dim=7, output_dim=16),
        *middle,
        TransformerBlockLayer(name="b1", bottoms=f"h{len(middle)}", tops="h2", **sizes, **fields),
        TransformerBlockLayer(name="b2", bottoms="h2", tops="y", **sizes, **fields),
    ]


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("backend", ["numpy", pytest.param("onednn", marks=needs_onednn)])
def test_batches_go_on_from_each_other(backend: str, rotary: bool) -> None:
    """Some positions at a time give what all give at once; a second forward begins where the first one began."""
    text = np.random.default_rng(0).integers(0, 7, (2, 24))
    options: Any = {"backend": backend, "phase": "predict", "seed": 3}
    with Net("whole", model(24, rotary=rotary), **options) as whole:
        whole.write("x", text)
        whole.forward()
        expected = whole.blob("y")
        assert whole.carries != rotary  # positions are counted
    for steps in (1, 4):
        with Net("parts", model(steps, carry=24, rotary=rotary), **options) as net:
            assert net.carries
            for again in range(2):
                for start in range(0, 24, steps):
                    net.write("x", text[:, start : start + steps])
                    net.forward()
                    net.forward()
                    found = net.blob("y")
                    assert np.abs(found - expected[:, start : start + steps]).max() < 1e-5, (again, start)
                    net.advance()
                net.rewind()


def test_what_is_too_old_is_forgotten() -> None:
    """Each position sees `carry` ones before it, and no others."""
    text = np.random.default_rng(0).integers(0, 7, (2, 30))
    with Net("parts", model(1, carry=5, rotary=True)[:3], phase="predict", backend="numpy", seed=3) as net:
        for start in range(30):
            net.write("x", text[:, start : start + 1])
            net.forward()
            net.advance()
        found = net.blob("h2")
        net.rewind()
        for start in range(24, 30):
            net.write("x", text[:, start : start + 1])
            net.forward()
            net.advance()
        assert np.abs(net.blob("h2") - found).max() < 1e-5


@pytest.mark.parametrize("backend", ["numpy", pytest.param("onednn", marks=needs_onednn)])
def test_the_net_plans_what_attention_keeps(backend: str) -> None:
    """So layers share it where no gradient is computed, and where one is, each has its own, and a kernel little."""
    layers: list[Layer] = [InputLayer(name=name, tops=name, shape=(6, 8), batch_size=2) for name in ("x", "wanted")]
    layers += [AttentionLayer(name=f"y{n}", bottoms=f"y{n - 1}" if n else "x", tops=f"y{n}", **HEADS) for n in range(2)]
    shared: dict[str, bool] = {}
    for phase in ("predict", "train"):
        ending = [SquareLossLayer(name="loss", bottoms=["y1", "wanted"])] if phase == "train" else []
        with Net("n", [*layers, *ending], phase=phase, backend=backend) as net:
            if ending:
                net.write("x", np.ones((2, 6, 8)))
                net.write("wanted", np.ones((2, 6, 8)))
                net.forward()
                net.backward()
            one, two = (op.state.intermediates for op in net.ops if "DotProduct" in type(op.layer).__name__)
            shared[phase] = any(np.shares_memory(here, there) for here in one for there in two)
            assert sum(array.size for array in one) == (432 if backend == "numpy" else 24 * (phase == "train"))
    assert shared == {"predict": backend == "numpy", "train": False}


def test_kept_keys_are_remembered() -> None:
    """By another net, which goes on; one of other images says that it begins anew."""
    text = np.random.default_rng(0).integers(0, 7, (2, 9))
    options: Any = {"phase": "predict", "backend": "numpy", "seed": 3}
    layers = model(3, carry=8, rotary=True)
    with Net("one", layers, **options) as net, Net("other", layers, **options) as other:
        for start in (0, 3):
            net.write("x", text[:, start : start + 3])
            net.forward()
            net.advance()
        for one, another in zip(net.ops, other.ops, strict=True):
            assert another.state.remember(one.state.memory()) is None
        for each in (net, other):
            each.write("x", text[:, 6:])
            each.forward()
        assert np.array_equal(net.blob("y"), other.blob("y"))
        look = next(op.state for op in net.ops if type(op.state).__name__ == "DotProductAttentionState")
        memory = look.memory()
        assert "do not fit here" in str(look.remember({**memory, "k": memory["k"][:1]}))


def test_positions_end() -> None:
    """And say what to do."""
    with Net("n", model(4, most=6, carry=8), phase="predict", backend="numpy") as net:
        net.write("x", np.zeros((2, 4)))
        net.forward()
        net.advance()
        with pytest.raises(DataError, match="positions: most=6, but this is position 8"):
            net.forward()


def test_the_text_model_learns_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few iterations on a small text."""
    if not SCRIPT.exists():
        pytest.skip("the example is not beside the tests")
    example = runpy.run_path(str(SCRIPT))
    monkeypatch.chdir(tmp_path)
    files = [tmp_path / f"{number:02}.py" for number in range(12)]
    for number, file in enumerate(files):
        file.write_text(f"def f{number}(x):\n    return x + {number}\n" * 60, encoding="utf-8")
    found = example["run"](30, files, 40)
    assert 0 < found.net < 5
    assert found.text.startswith("def ")
    assert len(found.text) == 44


def test_the_trigram_model_counts() -> None:
    """As one does by hand."""
    if not SCRIPT.exists():
        pytest.skip("the example is not beside the tests")
    train, text = "abracadabra abba cab", "a dab abrac"
    names = sorted({*train})
    codes = [np.array([names.index(one) for one in part]) for part in (train, text)]

    def share(history: str, letter: str) -> float:
        behind = [train[i + len(history)] for i in range(len(train) - len(history)) if train[i:].startswith(history)]
        rest = share(history[1:], letter) if history else 1 / len(names)
        return (behind.count(letter) + len({*behind}) * rest) / (len(behind) + len({*behind})) if behind else rest

    expected = np.mean([-np.log2(share(text[max(0, i - 2) : i], text[i])) for i in range(1, len(text))])
    assert abs(runpy.run_path(str(SCRIPT))["trigram"](*codes, len(names)) - expected) < 1e-9


def test_everything_that_is_offered_can_be_used() -> None:
    """As `nacre check nacre-transformer` says."""
    check_plugin("nacre-transformer")
