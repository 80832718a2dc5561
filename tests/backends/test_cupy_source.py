"""Pictures are sent to the device as bytes and changed there, as nacre's transformers change them on the host."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cupy_standin
from cuda_on_host import missing
from nacre import DataError, L, Net
from nacre.config import load
from nacre_cupy.kernels import source

if reason := missing():
    pytest.skip(reason, allow_module_level=True)

PICTURES = np.random.default_rng(0).integers(0, 256, (11, 3, 9, 10)).astype(np.uint8)
CLASSES = np.arange(11) % 4
CUT = [
    ["x", {"type": "Crop", "size": [6, 8]}],
    ["x", {"type": "Mirror"}],
    ["x", {"type": "SubMean", "mean": [104.0, 117.0, 123.0]}],
    ["x", {"type": "Scale", "scale": 0.0625}],
]
SHIFTED = [["x", {"type": "Scale", "scale": 0.5}], ["x", {"type": "RandomShift", "pixels": 1}]]
PAINTED = [["x", {"type": "Cutout", "size": 2}]]
EXAMPLES = Path(__file__).parents[2] / "examples"


@contextmanager
def sent_by(backend: Any, monkeypatch: pytest.MonkeyPatch) -> Generator[list[tuple[str, int]]]:
    """Give a list that gets the type and the bytes of every array that is sent to the device in a pass."""
    sent, real = [], backend.upload
    with monkeypatch.context() as patch:
        patch.setattr(
            backend, "upload", lambda host, array: (sent.append((str(host.dtype), host.nbytes)), real(host, array))
        )
        yield sent


def layers(transformers: Any, pictures: Any = PICTURES, **fields: Any) -> Any:
    data, tops = [pictures, CLASSES], ["x", "label"]
    source = L.MemoryData(
        name="data", data=data, tops=tops, batch_size=4, shuffle=True, transformers=transformers, **fields
    )
    x, label = source()
    return [L.SoftmaxLoss(name="loss")(L.InnerProduct(output_dim=4)(L.Pooling(name="pool", kernel=2)(x)), label)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("phase", ["train", "validation"])
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("changes", [CUT, SHIFTED], ids=["cut", "shifted"])
def test_a_source_gives_what_it_gives_on_the_host(
    phase: Any, dtype: str, changes: Any, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    """Pictures and labels that lie in memory are kept on the device if they fit; else each batch is sent."""
    if not kept:
        monkeypatch.setattr(source, "SHARE", 1 << 60)
    with cupy_standin.installed(), sent_by(backend := cupy_standin.watched()(), monkeypatch) as sent:
        for fields in ({}, {"ahead": 2}):
            made = layers(changes, **fields)
            options: dict[str, Any] = {"phase": phase, "dtype": dtype, "seed": 5, "keep": ["x", "label"]}
            with Net("n", made, backend=backend, **options) as net, Net("n", made, backend="numpy", **options) as own:
                state: Any = net.node_ops["data"].state
                assert type(state).__name__ == "SourceKernel" and state.converted == ({0, 1} if kept else {0})
                assert "data" not in [step.name for step in net.steps("forward") if step.kind == "copy"]
                for turn in range(5):
                    losses = [one.forward() for one in (net, own)]
                    np.testing.assert_allclose(*losses, rtol=1e-5)
                    assert state.rows == net.rows == own.rows and net.epoch == own.epoch
                    for blob in ("x", "label"):
                        np.testing.assert_allclose(net.blob(blob), own.blob(blob), rtol=1e-6, err_msg=f"{turn}: {blob}")
        kinds = {kind for kind, _ in sent}
        assert {"int32", "int64"} <= kinds and ("uint8" in kinds) == (not kept) and dtype not in kinds - {"float64"}


FLOATS = np.random.default_rng(1).normal(size=(11, 4, 5, 6)).astype(np.float32)
SCALED = [["x", {"type": "Scale", "scale": 0.5}], ["x", {"type": "SubMean", "mean": 0.25}]]


@pytest.mark.parametrize("compute", ["float32", "bf16"])
@pytest.mark.parametrize(
    ("pictures", "changes"),
    [
        (FLOATS, []),  # which lie with their channels last there
        (FLOATS, SCALED),
        (FLOATS.reshape(11, -1), []),
        (FLOATS.reshape(11, -1).astype(np.float64), SCALED),
        (PICTURES, []),
        (np.arange(44, dtype=np.int16).reshape(11, 4), []),
        (np.random.default_rng(2).normal(size=(11, 2, 3, 4, 5)), SCALED),
    ],
)
def test_records_that_lie_in_memory_are_kept_on_the_device(
    pictures: np.ndarray, changes: Any, compute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cupy_standin.installed():
        backend = cupy_standin.watched()()
        x, label = L.MemoryData(
            name="data",
            data=[pictures, CLASSES.astype(np.uint8)],
            tops=["x", "label"],
            batch_size=4,
            shuffle=True,
            transformers=changes,
            split={"part": "a", "fractions": {"a": 0.8, "b": 0.2}},
        )()
        made = [L.SoftmaxLoss(name="loss")(L.InnerProduct(output_dim=4)(x), label)]
        how: dict[str, Any] = {"seed": 5, "keep": ["x", "label"]}
        with (
            Net("n", made, backend=backend, compute=compute, **how) as net,
            Net("n", made, backend="numpy", **how) as own,
        ):
            state: Any = net.node_ops["data"].state
            assert state.converted == {0, 1}
            with sent_by(backend, monkeypatch) as sent:
                for _ in range(4):
                    net.forward()
                    own.forward()
                    for blob in ("x", "label"):
                        np.testing.assert_allclose(net.blob(blob), own.blob(blob), rtol=2e-7, atol=1e-8)
            assert ("int64", 4 * 8) in sent, "the numbers of records"
            assert {*sent} <= {("int64", 4 * 8), ("int32", 4 * 3 * 4)}, "and where pixels come from"


def test_the_records_of_lenet_stay_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pictures are bytes in a file, scaled and shifted."""
    with cupy_standin.installed():
        backend, file = cupy_standin.watched()(), load(EXAMPLES / "digits" / "lenet.toml")
        with file.net("train", backend=backend) as net, file.solver().start(net) as training:
            state: Any = net.node_ops["train"].state
            assert state.converted == {0, 1}
            training.step()
            with sent_by(backend, monkeypatch) as sent:
                training.step()
    pictures = 64 * 8 * 8
    assert {kind for kind, _ in sent} == {"int64", "int32"} and sum(size for _, size in sent) < pictures


def test_a_number_that_a_label_cannot_be_is_told_as_on_the_host() -> None:
    told = []
    with cupy_standin.installed():
        for backend in (cupy_standin.watched()(), "numpy"):
            data = [PICTURES, CLASSES.astype(np.uint64) + 2**63]
            x, label = L.MemoryData(name="data", data=data, tops=["x", "label"], batch_size=4)()
            made = [L.SoftmaxLoss(name="loss")(L.InnerProduct(output_dim=4)(x), label)]
            with Net("n", made, backend=backend) as net, pytest.raises(DataError, match="too large for int64") as error:
                net.forward()
            told.append(str(error.value))
    assert told[0] == told[1]


@pytest.mark.parametrize(("kind", "fields"), [("NumpyData", {}), ("Data", {"cache_bytes": 0})])
def test_sources_of_files_send_bytes(kind: str, fields: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "records.npz", x=PICTURES, label=CLASSES)
    given = {
        "source": str(tmp_path / "records.npz"),
        "tops": ["x", "label"],
        "batch_size": 4,
        "transformers": CUT,
        **fields,
    }
    with cupy_standin.installed():
        x, label = getattr(L, kind)(name="data", **given)()
        made = [L.SoftmaxLoss(name="loss")(L.InnerProduct(output_dim=4)(x), label)]
        backend = cupy_standin.watched()()
        with Net("n", made, backend=backend, keep=["x"]) as net, Net("n", made, backend="numpy", keep=["x"]) as own:
            state: Any = net.node_ops["data"].state
            assert type(state).__name__ == "SourceKernel" and state.converted == ({0} if fields else {0, 1})
            for _ in range(4):
                np.testing.assert_allclose(net.forward(), own.forward(), rtol=1e-5)
                np.testing.assert_allclose(net.blob("x"), own.blob("x"), rtol=1e-6)


def test_pictures_that_are_changed_otherwise_are_sent() -> None:
    with cupy_standin.installed():
        made, how = layers(PAINTED), {"seed": 5, "keep": ["x"]}
        with (
            Net("n", made, backend=cupy_standin.watched()(), **how) as net,
            Net("n", made, backend="numpy", **how) as own,
        ):
            state: Any = net.node_ops["data"].state
            assert state.converted == {1}, "the labels"
            for _ in range(4):
                np.testing.assert_allclose(net.forward(), own.forward(), rtol=1e-5)
                np.testing.assert_array_equal(net.blob("x"), own.blob("x"))


@pytest.mark.parametrize(("kind", "field"), [("SubMean", "mean"), ("Scale", "scale")])
def test_a_mean_or_factors_that_do_not_fit_are_told_as_on_the_host(kind: str, field: str) -> None:
    wrong = [["x", {"type": kind, field: [1.0, 2.0]}]]
    told: list[str] = []
    with cupy_standin.installed():
        for backend in (cupy_standin.watched()(), "numpy"):
            with pytest.raises(DataError, match=kind) as error, Net("n", layers(wrong), backend=backend) as net:
                net.forward()
            told.append(str(error.value))
    assert told[0] == told[1]


def test_snapshots_have_where_a_source_was() -> None:
    with cupy_standin.installed():
        backend = cupy_standin.watched()()
        with Net("n", layers(CUT), backend=backend, keep=["x"]) as one:
            for _ in range(2):
                one.forward()
            memory = one.node_ops["data"].state.memory()
            one.forward()
            wanted = one.blob("x")
        with Net("n", layers(CUT), backend=backend, keep=["x"]) as other:
            other.node_ops["data"].state.remember(memory)
            other.forward()
            np.testing.assert_array_equal(other.blob("x"), wanted)
