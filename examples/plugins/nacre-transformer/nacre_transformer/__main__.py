"""`python -m nacre_transformer`: a training step of a character model beside PyTorch's, in turns.

The model is that of text.toml: an embedding, blocks with rotary positions, a LayerNorm and scores; the loss, all
gradients and AdamW's update are part of a step. PyTorch has the same model with scaled_dot_product_attention, in four
modes: as it is and compiled, each with the allocator's defaults and with one that keeps its memory. Each side is a
process of its own, and waits while others work. A line has the median of a side's rounds, and the median of its time
divided by nacre's in the same round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from nacre_transformer.kernel import library

KEPT = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "268435456",
}
SIDES = {
    "nacre": {"NACRE_CACHE": ""},  # plans that a busy machine made are not taken again
    "eager": {},
    "eager, kept memory": KEPT,
    "compiled": {},
    "compiled, kept memory": KEPT,
}
VOCABULARY = 100


def main() -> None:
    """Print a line for each side, or be one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, value in (("batch", 32), ("steps", 128), ("features", 192), ("heads", 6), ("blocks", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--side", choices=SIDES, action="append", help="only nacre and this one")
    parser.add_argument("--worker", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(nacre_step(arguments) if arguments.worker == "nacre" else torch_step(arguments))
        return
    if library() is None:
        print("the flash kernel is not compiled here: install the package, and run this from another folder")
    workers = {side: started(side, arguments) for side in dict.fromkeys(["nacre", *(arguments.side or SIDES)])}
    try:
        losses = {side: asked(worker, 20)[1] for side, worker in workers.items()}
        times: dict[str, list[float]] = {side: [] for side in workers}
        for number in range(arguments.rounds):
            for side in list(workers)[:: 1 if number % 2 else -1]:
                times[side].append(asked(workers[side], 5)[0])
    finally:
        for worker in workers.values():
            worker.terminate()
            worker.wait()
    for side, seconds in times.items():
        ratio = statistics.median(one / ours for one, ours in zip(seconds, times["nacre"], strict=True))
        median = 1000 * statistics.median(seconds)
        print(f"{side:<22} {median:7.1f} ms   {ratio:.2f} times nacre's   loss after 20 steps {losses[side]:.4f}")


def started(side: str, arguments: argparse.Namespace) -> subprocess.Popen[str]:
    """Start the process of a side."""
    threads = str(arguments.threads)
    variables = {"OMP_NUM_THREADS": threads, "NACRE_NUM_THREADS": threads, **SIDES[side]}
    numbers = [f"--{name}={getattr(arguments, name)}" for name in ("batch", "steps", "features", "heads", "blocks")]
    command = [sys.executable, "-m", "nacre_transformer", *numbers, f"--threads={threads}", "--worker", side]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env={**os.environ, **variables}, **pipes)


def asked(worker: subprocess.Popen[str], count: int) -> tuple[float, float]:
    """Let a side make so many steps; return the seconds of one, and the loss."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(f"{count}\n")
    worker.stdin.flush()
    seconds, loss = json.loads(worker.stdout.readline())
    return seconds, loss


def work(step: Callable[[], float]) -> None:
    """Answer requests."""
    step()
    for line in sys.stdin:
        begun = time.perf_counter()
        losses = [step() for _ in range(int(line))]
        print(json.dumps([(time.perf_counter() - begun) / len(losses), losses[-1]]), flush=True)


def texts(arguments: argparse.Namespace) -> np.ndarray:
    """Return texts in which each letter depends on the one before."""
    random = np.random.default_rng(0)
    letters = random.integers(0, VOCABULARY, (arguments.batch, arguments.steps + 1))
    for place in range(1, arguments.steps + 1):
        follows = random.random(arguments.batch) < 0.7
        letters[follows, place] = (letters[follows, place - 1] * 7 + 3) % VOCABULARY
    return letters


def nacre_step(arguments: argparse.Namespace) -> Callable[[], float]:
    """Return the function that makes a step with nacre, and returns the loss."""
    from nacre import InputLayer, Layer, Net, Solver
    from nacre_layers import EmbeddingLayer, InnerProductLayer, LayerNormLayer, SoftmaxLossLayer
    from nacre_solvers import AdamW

    from .block import TransformerBlockLayer

    options: Any = {"shape": arguments.steps, "batch_size": arguments.batch, "dtype": "int64"}
    features, count = arguments.features, arguments.blocks
    sizes: Any = {"features": features, "heads": arguments.heads, "hidden": 4 * features}
    layers: list[Layer] = [
        InputLayer(name="x", tops="x", **options),
        InputLayer(name="label", tops="label", **options),
        EmbeddingLayer(name="letters", bottoms="x", tops="h0", input_dim=VOCABULARY, output_dim=features, bias=False),
    ]
    layers += [
        TransformerBlockLayer(
            name=f"block{number}", bottoms=f"h{number}", tops=f"h{number + 1}", causal=True, rotary=True, **sizes
        )
        for number in range(count)
    ]
    layers += [
        LayerNormLayer(name="norm", bottoms=f"h{count}", tops="normal", axis=-1),
        InnerProductLayer(name="score", bottoms="normal", tops="score", output_dim=VOCABULARY, axis=-1),
        SoftmaxLossLayer(name="loss", bottoms=["score", "label"], axis=-1),
    ]
    net = Net("characters", layers, backend="onednn", insert_splits=True)
    training = Solver(AdamW(), lr_policy=1e-3, max_iter=10**9).start(net)
    letters = texts(arguments)

    def step() -> float:
        net.write("x", letters[:, :-1])
        net.write("label", letters[:, 1:])
        training.step()
        return float(training.loss)

    return step


def torch_step(arguments: argparse.Namespace) -> Callable[[], float]:
    """Return the function that makes a step with PyTorch, and returns the loss."""
    import torch
    from torch import nn
    from torch.nn import functional

    torch.set_num_threads(arguments.threads)
    features, heads, steps = arguments.features, arguments.heads, arguments.steps
    size = features // heads
    angles = torch.arange(steps)[:, None] / 10000 ** (torch.arange(size // 2) * 2 / size)
    cosines, sines = angles.cos(), angles.sin()

    def turned(x: Any) -> Any:
        one, other = x.chunk(2, -1)
        return torch.cat([one * cosines - other * sines, other * cosines + one * sines], -1)

    class Block(nn.Module):  # type: ignore[misc]  # torch is not read here
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(features)
            self.qkv, self.out = nn.Linear(features, 3 * features), nn.Linear(features, features)
            self.up, self.down = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)

        def forward(self, x: Any) -> Any:
            q, k, v = (
                part.unflatten(-1, (heads, size)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1)
            )
            seen = functional.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).flatten(2))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Embedding(VOCABULARY, features),
        *(Block() for _ in range(arguments.blocks)),
        nn.LayerNorm(features),
        nn.Linear(features, VOCABULARY),
    )
    method = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0, fused=True)
    letters = torch.tensor(texts(arguments))

    def loss_of(x: Any, label: Any) -> Any:
        return functional.cross_entropy(model(x).flatten(0, 1), label.flatten())

    called: Any = torch.compile(loss_of) if arguments.worker.startswith("compiled") else loss_of

    def step() -> float:
        loss = called(letters[:, :-1], letters[:, 1:])
        method.zero_grad(set_to_none=True)
        loss.backward()
        method.step()
        return float(loss.detach())

    return step


if __name__ == "__main__":
    main()
