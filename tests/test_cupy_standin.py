"""The stand-in for CuPy refuses what CuPy does not do, and has nothing that CuPy lacks."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cupy_standin
import nacre_cupy


@pytest.fixture(scope="module")
def cupy():
    with cupy_standin.installed() as found:
        yield found


def of(cupy: Any, *numbers: float) -> Any:
    return cupy.array(np.array(numbers, np.float32))


def product_of_numpy(cupy: Any) -> None:
    cupy.multiply(of(cupy, 1, 2), np.ones(2, np.float32))


def operator_of_numpy(cupy: Any) -> None:
    np.ones(2, np.float32) * of(cupy, 1, 2)


def index_of_numpy(cupy: Any) -> None:
    of(cupy, 1, 2)[np.array([0])]


def value_of_numpy(cupy: Any) -> None:
    of(cupy, 1, 2)[...] = np.ones(2, np.float32)


def function_of_numpy(cupy: Any) -> None:
    np.exp(of(cupy, 1, 2))


def converted(cupy: Any) -> None:
    np.asarray(of(cupy, 1, 2))


def looked_at(cupy: Any) -> None:
    with cupy.machine.step():
        float(cupy.sum(of(cupy, 1, 2)))


def decided_by(cupy: Any) -> None:
    with cupy.machine.step():
        assert of(cupy, 1)[0] > 0


def counted_by(cupy: Any) -> None:
    with cupy.machine.step():
        range(cupy.count_nonzero(of(cupy, 1, 2)))


def chosen_by_truths(cupy: Any) -> None:
    with cupy.machine.step():
        of(cupy, 1, 2)[of(cupy, 1, 2) > 1]


def written_where_true(cupy: Any) -> None:
    x = of(cupy, 1, 2)
    with cupy.machine.step():
        x[x > 1] = 0


def mode_of_take(cupy: Any) -> None:
    cupy.take(of(cupy, 1, 2), cupy.array([0]), mode="clip")


def where_of_ufuncs(cupy: Any) -> None:
    cupy.add(of(cupy, 1), 1, where=of(cupy, 1) > 0)


def where_of_sum(cupy: Any) -> None:
    cupy.sum(of(cupy, 1, 2), where=of(cupy, 1, 2) > 1)


def type_of_subtract(cupy: Any) -> None:
    cupy.subtract(of(cupy, 1) > 0, of(cupy, 1) > 2)


def type_of_out(cupy: Any) -> None:
    cupy.add(of(cupy, 1), 0.5, out=cupy.zeros(1, "int32"))


def type_of_takes_out(cupy: Any) -> None:
    cupy.take(of(cupy, 1), cupy.array([0]), out=cupy.zeros(1, "float64"))


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (product_of_numpy, "Unsupported type <class 'numpy.ndarray'>"),
        (operator_of_numpy, "unsupported operand|Unsupported type"),
        (index_of_numpy, "Unsupported type <class 'numpy.ndarray'>"),
        (value_of_numpy, "Unsupported type <class 'numpy.ndarray'>"),
        (function_of_numpy, "does not support ufuncs"),
        (converted, "Implicit conversion to a NumPy array is not allowed"),
        (looked_at, r"float\(\) of an array inside a step waits for the device"),
        (decided_by, r"bool\(\) of an array inside a step"),
        (counted_by, r"int\(\) of an array inside a step"),
        (chosen_by_truths, "an index of truths.*inside a step"),
        (written_where_true, "an index of truths.*inside a step"),
        (mode_of_take, r"take\(\) got an unexpected keyword argument 'mode'"),
        (where_of_ufuncs, "Wrong arguments {'where'"),
        (where_of_sum, r"sum\(\) got an unexpected keyword argument 'where'"),
        (type_of_subtract, "Wrong type|boolean subtract"),
        (type_of_out, "casting rule"),
        (type_of_takes_out, "Output dtype mismatch"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_mistake_is_refused(cupy: Any, mistake: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        mistake(cupy)


def test_a_function_that_cupy_lacks_is_not_there(cupy: Any) -> None:
    assert hasattr(np, "putmask") and hasattr(cupy, "putmask")
    assert hasattr(np, "nditer")
    with pytest.raises(AttributeError, match="module 'cupy' has no attribute 'nditer'"):
        cupy.nditer  # noqa: B018


USES = {
    r"(?:self\._?|\b)cupy\.(\w+)(?<!cupy\.dev)": "",
    r"\bcuda\.(?!pathfinder)(\w+)": "cuda",
    r"\bruntime\.(\w+)": "cuda.runtime",
    r"(?:\bself\.|_)?stream\.(\w+)": "cuda.Stream",
    r"\bself\._?device\.(\w+)": "cuda.Device",
    r"\bpool\.(\w+)": "cuda.MemoryPool",
}
SET_BY_INIT = {"ptr"}
"""What a Stream has that its class has not."""


@pytest.mark.parametrize("pattern", USES)
def test_what_the_backend_uses_of_cupy_is_there(cupy: Any, pattern: str) -> None:
    from cupy._interface import INTERFACE

    files = sorted(Path(nacre_cupy.__file__).parent.glob("*.py"))
    used = {name for file in files for name in re.findall(pattern, file.read_text(encoding="utf-8"))}
    path = USES[pattern]
    if not path:
        known = {"cuda", *INTERFACE["functions"], *INTERFACE["ufuncs"], *INTERFACE["others"][""]}
    else:
        known = {*INTERFACE["others"][path], *SET_BY_INIT}
    assert used and used - {"__version__", "__enter__", "__exit__"} <= known


def test_its_arrays_have_nothing_that_cupys_lack(cupy: Any) -> None:
    from cupy._interface import INTERFACE

    assert {name for name in vars(cupy.ndarray) if not name.startswith("_")} <= set(INTERFACE["ndarray"])


def test_its_own_functions_take_what_cupys_take(cupy: Any) -> None:
    from cupy import _functions
    from cupy._interface import INTERFACE

    for name, function in _functions.OWN.items():
        ours = list(inspect.signature(function).parameters)
        theirs = [one.rstrip("=") for one in INTERFACE["functions"][name] if not one.startswith("*")]
        assert [one for one in theirs if one in ours] == ours, name


KINDS = ["bool", "int8", "int64", "uint8", "float32", "float64"]
NUMBERS = [2, 0.5] if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else []  # an older NumPy looks at their values


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "divide", "greater", "exp", "sqrt"])
def test_types_are_those_of_numpy_where_the_loops_are(cupy: Any, name: str) -> None:
    function, of_numpy = getattr(cupy, name), getattr(np, name)
    for one in KINDS:
        for other in [*KINDS, *NUMBERS] if function.nin == 2 else [None]:
            kinds = [one, other][: function.nin]
            given, plain = (
                [xp.ones(3, kind) if isinstance(kind, str) else kind for kind in kinds] for xp in (cupy, np)
            )
            assert function(*given).dtype == of_numpy(*plain).dtype, kinds


def test_memory_that_is_free_is_handed_out_again_and_is_not_clean(cupy: Any) -> None:
    pool = cupy.cuda.MemoryPool()
    with cupy.cuda.using_allocator(pool.malloc):
        first = cupy.zeros(100, "float32")
        address = first.data.ptr
        del first
        second = cupy.empty(100, "float32")
        assert second.data.ptr == address and pool.total_bytes() == 512
        assert np.isnan(second.get()).all()


def test_a_capture_records_and_computes_nothing(cupy: Any) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    x, y = of(cupy, 1, 2), of(cupy, 0, 0)
    places, truths = cupy.array(np.array([1, 0])), x > 1
    with stream:
        stream.begin_capture()
        cupy.add(x, 1, out=y)
        for call, told in (
            (y.get, "the current stream is capturing, so D2H transfers are disallowed"),
            (lambda: float(y[0]), "so D2H transfers"),
            (lambda: x[truths], "so D2H transfers"),
            (lambda: x.__setitem__(truths, y[:1]), "so D2H transfers"),
            (lambda: y.set(np.zeros(2, np.float32)), "so H2D transfers"),
            (lambda: x[[0, 1]], "so H2D transfers"),
            (lambda: x.__setitem__(places, 3), "so H2D transfers"),
            (lambda: cupy.matmul(x, y), "calling cuBLAS API during stream capture"),
        ):
            with pytest.raises((RuntimeError, NotImplementedError), match=told):
                call()
        graph = stream.end_capture()
    assert y.get().tolist() == [0, 0]
    graph.launch(stream)
    assert y.get().tolist() == [2, 3]
    x.fill(5)
    graph.launch(stream)
    assert y.get().tolist() == [6, 6]


def test_waiting_for_a_stream_spoils_its_capture(cupy: Any) -> None:
    stream, error = cupy.cuda.Stream(non_blocking=True), cupy.cuda.runtime.CUDARuntimeError
    x = of(cupy, 1, 2)
    with stream:
        stream.begin_capture()
        with pytest.raises(error, match="StreamCaptureUnsupported"):
            stream.synchronize()
        with pytest.raises(RuntimeError, match="has invalidated the capture"):
            stream.is_capturing()
        with pytest.raises(error, match="StreamCaptureInvalidated"):
            cupy.add(x, 1, out=x)
        with pytest.raises(error, match="StreamCaptureInvalidated"):
            stream.end_capture()
        assert not stream.is_capturing()
        cupy.add(x, 1, out=x)
    assert x.get().tolist() == [2, 3]


def test_arguments_of_compiled_functions_have_their_types(cupy: Any) -> None:
    from cupy.cuda import nccl

    for call, told in (
        (
            lambda: nccl.NcclCommunicator(1, tuple(nccl.get_unique_id()), 0),
            "'commId' has incorrect type .expected bytes",
        ),
        (lambda: cupy.cuda.alloc_pinned_memory(1.5), "float"),
        (lambda: cupy.cuda.runtime.memcpyAsync(0, 0, 0, 1), "missing a required argument: 'stream'"),
        (lambda: cupy.cuda.Event(timing=False), "unexpected keyword argument 'timing'"),
        (lambda: cupy.RawModule(code="", options=["-std=c++17"]), "'options' has incorrect type .expected tuple"),
    ):
        with pytest.raises(TypeError, match=told):
            call()


@pytest.mark.parametrize("option", ["-default-device", "--device-as-default-execution-space", "-ftz=true"])
def test_no_option_of_the_compiler_is_given_that_cupy_gives(cupy: Any, option: str) -> None:
    with pytest.raises(RuntimeError, match="defined more than once"):
        cupy.RawModule(code="", options=("-std=c++17", option))


def test_a_missing_event_shows_where_the_device_runs_late(cupy: Any) -> None:
    one, other = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    x, y = of(cupy, 1), of(cupy, 0)
    with cupy_standin.lazily(cupy):
        with one:
            cupy.add(x, 1, out=x)
            done = one.record()
        with other:
            cupy.add(x, 0, out=y)
            other.synchronize()
            assert y.get().tolist() == [1], "nobody has waited for the first stream"
            other.wait_event(done)
            cupy.add(x, 0, out=y)
            assert y.get().tolist() == [2]
