"""Pictures are sent to the device as bytes and changed there, as nacre's transformers change them on the host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cupy_standin
from cuda_on_host import missing
from nacre import L, Net
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
SHIFTED = [["x", {"type": "RandomShift", "pixels": 1}], ["x", {"type": "Scale", "scale": 0.5}]]


def layers(transformers: Any, **fields: Any) -> Any:
    data, tops = [PICTURES, CLASSES], ["x", "label"]
    source = L.MemoryData(
        name="data", data=data, tops=tops, batch_size=4, shuffle=True, transformers=transformers, **fields
    )
    x, label = source()
    return [L.SoftmaxLoss(name="loss")(L.InnerProduct(output_dim=4)(L.Pooling(name="pool", kernel=2)(x)), label)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("phase", ["train", "validation"])
@pytest.mark.parametrize("kept", [True, False])
def test_a_source_gives_what_it_gives_on_the_host(
    phase: Any, dtype: str, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    """Pictures that lie in memory are kept on the device if they fit; else each batch is sent."""
    if not kept:
        monkeypatch.setattr(source, "SHARE", 1 << 60)
    with cupy_standin.installed():
        backend, sent = cupy_standin.watched()(), set[str]()
        real = backend.upload
        monkeypatch.setattr(backend, "upload", lambda host, array: (sent.add(str(host.dtype)), real(host, array)))
        for fields in ({}, {"ahead": 2}):
            made = layers(CUT, **fields)
            options: dict[str, Any] = {"phase": phase, "dtype": dtype, "seed": 5, "keep": ["x", "label"]}
            with Net("n", made, backend=backend, **options) as net, Net("n", made, backend="numpy", **options) as own:
                state: Any = net.node_ops["data"].state
                assert type(state).__name__ == "SourceKernel" and state.converted == {0}
                assert "data" not in [step.name for step in net.steps("forward") if step.kind == "copy"]
                for turn in range(5):
                    losses = [one.forward() for one in (net, own)]
                    np.testing.assert_allclose(*losses, rtol=1e-5)
                    assert state.rows == net.rows == own.rows and net.epoch == own.epoch
                    for blob in ("x", "label"):
                        np.testing.assert_allclose(net.blob(blob), own.blob(blob), rtol=1e-6, err_msg=f"{turn}: {blob}")
        assert {"int32", "int64"} <= sent and ("uint8" in sent) == (not kept) and dtype not in sent - {"float64"}


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
            assert type(state).__name__ == "SourceKernel" and state.converted == {0}
            for _ in range(4):
                np.testing.assert_allclose(net.forward(), own.forward(), rtol=1e-5)
                np.testing.assert_allclose(net.blob("x"), own.blob("x"), rtol=1e-6)


def test_a_source_that_changes_pictures_otherwise_is_its_own() -> None:
    with cupy_standin.installed(), Net("n", layers(SHIFTED), backend=cupy_standin.watched()()) as net:
        assert type(net.node_ops["data"].state).__name__ == "RecordSourceState"


def test_a_mean_that_does_not_fit_is_told_as_on_the_host() -> None:
    wrong = [["x", {"type": "SubMean", "mean": [1.0, 2.0]}]]
    told: list[str] = []
    with cupy_standin.installed():
        for backend in (cupy_standin.watched()(), "numpy"):
            with pytest.raises(Exception, match="SubMean") as error, Net("n", layers(wrong), backend=backend) as net:
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
