"""Layers that are cut along their features: the parts give together what the whole gives."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from ..errors import ConfigError, NacreError
from ..protocols.making import fresh
from ..protocols.part import FEATURES
from .close import GRADIENT_TOLERANCES, assert_close, both_zero
from .crew import crew, own_backend, together
from .states import Look, StateTests
from .trial import Example, Trial


def why_uncut(whole: Trial, parts: int) -> str | None:
    """Return why the layer of a trial cannot be cut along its features into so many parts; None if it can."""
    try:
        for part in range(parts):
            whole.layer.partition(part, parts)
    except ConfigError as error:
        return str(error.args[0])
    axis = whole.layer.feature_axis
    shapes = [tuple(one.shape) for one in (*whole.op.outputs, *whole.op.inputs[: axis is None])]
    lengths = [shape[1 if axis is None else axis] if len(shape) > 1 else 0 for shape in shapes]
    return f"its blobs {shapes} have too few features" if min(lengths, default=parts) < parts else None


def check_partition(suite: StateTests, backend: str, dtype: str, example: Example, parts: int) -> None:
    """Compare a layer with its parts on several ranks, which are threads; do nothing if it cannot be cut.

    Compared are the first values of the parameters, tops, loss, gradients, and the buffers after the pass.

    Raises:
        AssertionError: they differ; the message names the part.
    """
    with ExitStack() as stack:
        whole = stack.enter_context(suite.trial(example, backend, dtype, parameters=None))
        if why_uncut(whole, parts) is not None:
            return
        ranks, trials = crew(parts), list[Trial]()
        for rank in ranks:
            options: dict[str, Any] = {"made": fresh(suite.make(example), partition_dim=FEATURES), "keep": "all"}
            try:
                alone = own_backend(backend)
                trial = suite.trial(example, alone, dtype, parameters=None, communicator=rank, **options)
                trials.append(stack.enter_context(trial))
            except NacreError as error:
                raise AssertionError(f"part {rank.rank} of {parts} cannot be set up: {error}") from error
        _compare_parameters(whole, trials, "first values: those of a part must be the whole's")
        for name, value in whole.parameters().items():
            drawn = suite.put_parameters()(name, whole.parameter(name).parameter)
            value = value if drawn is None else drawn
            for trial in (whole, *trials):
                cut = trial.parameter(name).storage.cut
                trial.set_parameter(name, value if cut is None else cut.of(value))
        expected = Look.at(whole)
        found = together(ranks, lambda rank: Look.at(trials[rank]))
        for rank, (trial, look) in enumerate(zip(trials, found, strict=True)):
            _compare(trial, look, expected, f"part {rank} of {parts}", suite.tolerances[dtype], dtype)
        _compare_parameters(whole, trials, "after the pass", suite.tolerances[dtype])


def _compare_parameters(whole: Trial, trials: list[Trial], what: str, tolerance: float = 0.0) -> None:
    for name, value in whole.parameters().items():
        for rank, trial in enumerate(trials):
            cut = trial.parameter(name).storage.cut
            part = value if cut is None else cut.of(value)
            assert_close(
                trial.parameters()[name], part, f"part {rank} of {len(trials)}: parameter {name}, {what}", tolerance
            )


def _compare(trial: Trial, look: Look, expected: Look, where: str, tolerance: float, dtype: str) -> None:
    for value, part, top in zip(trial.op.outputs, look.tops, expected.tops, strict=True):
        box = value.box
        assert box is not None
        place = tuple(slice(start, start + length) for start, length in zip(box.start, box.shape, strict=True))
        assert_close(part, top[place], f"{where}: top '{value.name}', {place} of the whole's", tolerance)
    assert_close(look.loss, expected.loss, f"{where}: loss of the net", tolerance)
    for name, gradient in look.gradients.items():
        wanted = expected.gradients[name]
        if name in trial.parameters() and (cut := trial.parameter(name).storage.cut) is not None:
            wanted = cut.of(wanted)
        if not both_zero(gradient, wanted, expected.gradients.values()):
            assert_close(gradient, wanted, f"{where}: gradient of {name}", GRADIENT_TOLERANCES[dtype])
