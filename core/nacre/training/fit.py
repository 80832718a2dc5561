"""`net.fit`: trains a net with Inputs on arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import floor
from typing import TYPE_CHECKING, Any, cast

from ..arguments import check_count
from ..errors import ConfigError, DataError, brief
from ..fields.component import Written, need_default_of
from ..fields.types import is_number
from ..fields.whole import too_large
from ..net.arrays import Inputs, Records, with_sources
from ..net.evaluate import file_records
from ..net.given import are_files, listed_files
from ..protocols.graph import Node
from ..protocols.layer import PHASES, Layer
from ..text import free_name
from .callback import Callback
from .method import Method
from .policies import LrPolicy
from .solver import Solver
from .weighing import weighed

if TYPE_CHECKING:
    from ..net.net import Net
    from .training import Training

EPOCHS = 10
LR = 0.001
"""How long, and at which rate, a fit trains if nobody says it."""
AT_ONCE = 1 << 18
"""Numbers that are checked in one call: what is found of them stays in the processor's cache."""


def fit(
    net: Net,
    x: Any,
    y: Any,
    *,
    epochs: int | None,
    batch_size: int,
    solver: Solver | Method | Written,
    lr: LrPolicy | Written | float | None,
    validation: Any,
    class_weight: Any,
    sample_weight: Any,
    early_stopping: int,
    callbacks: Sequence[Callback | Written],
    quiet: bool,
) -> Training:
    """Do the work of `Net.fit`: train a net of the same layers, in which sources over the arrays are the Inputs."""
    inputs = Inputs.of(net, "train")
    _refuse_no_loss(net, inputs)
    if epochs is not None:
        check_count("epochs", epochs, 1)
    check_count("batch_size", batch_size, 1)
    check_count("early_stopping", early_stopping, 0)
    records = _records(net, inputs, x, y)
    share = _share(validation, len(records))
    pair = (
        [] if validation is None or share else [_validation(net, replace(inputs, columns=records.columns), validation)]
    )
    for part in (records, *pair):
        _refuse_nan(part, net.dtype)
    weights = weighed(net.name, net.layers, inputs, [records, *pair], class_weight, sample_weight)
    names = [free_name(name, {layer.name for layer in net.layers}) for name in ("fitted", "validated")]
    sources = _sources(weights.parts, names, batch_size, share, net.seed)
    if len(sources) == 1 and early_stopping:
        raise ConfigError(
            f"early_stopping={early_stopping!r}, but there are no records to validate on",
            "give validation=(x, y), or a fraction: validation=0.2",
        )
    solver = _solver(solver, lr, epochs, callbacks, validates=len(sources) > 1, patience=early_stopping)
    needless = _needless(inputs.nodes)
    layers = [
        replace(layer, exclude=[*layer.exclude, "train"]) if layer in needless else weights.instead.get(layer, layer)
        for layer in with_sources(net, sources)
    ]
    with net.derive("train", layers, name=net.name) as trained:
        try:
            training = solver.solve(trained, quiet=quiet)
        finally:  # the parameters have changed, too
            net.learned = trained.fitted
            net.step = trained.parameters.iterations
    return training


def _needless(nodes: Sequence[Node]) -> set[Layer]:
    """Return the layers that no loss needs, such as a Softmax for predictions, and those that read what they write.

    No gradient would come to them, so a training is without them. Layers with parameters, which would never learn, are
    not among them.
    """
    read_by_losses = {name for node in nodes if node.layer.has_loss for name in node.bottoms}
    needed = _spread(
        read_by_losses, nodes[::-1], lambda node, found: node.bottoms if found.intersection(node.tops) else ()
    )

    def is_end(node: Node, ends: set[str]) -> bool:
        if node.layer.has_loss or node.layer.has_param or needed.intersection(node.tops):
            return False
        return bool(node.layer.can_do_bp and node.tops) or bool(ends.intersection(node.bottoms))

    ends = _spread(set(), nodes, lambda node, found: node.tops if is_end(node, found) else ())
    others = {node.outermost for node in nodes if not is_end(node, ends)}
    return {node.outermost for node in nodes} - others


def _spread(found: set[str], nodes: Sequence[Node], more: Callable[[Node, set[str]], Iterable[str]]) -> set[str]:
    """Return blobs and those that `more` adds to them, node by node, until there are no more."""
    count = -1
    while len(found) > count:
        count = len(found)
        for node in nodes:
            found.update(more(node, found))
    return found


def _refuse_no_loss(net: Net, inputs: Inputs) -> None:
    if net.algorithm is None and not any(node.layer.has_loss for node in inputs.nodes):
        raise ConfigError(
            f"net '{net.name}' has no loss in phase 'train', so there is nothing to make smaller",
            "give it one, such as L.SoftmaxLoss()(score, label) or L.SquareLoss()(prediction, target)",
        )


def _refuse_nan(records: Records, dtype: str) -> None:
    """Raise DataError for a number that is not finite, or not as a `dtype`, before it spoils the parameters.

    Transformers may fill it.
    """
    import numpy as np

    filled = {name for name, _ in records.changes}
    for name, array in records.arrays.items():
        if array.dtype.kind != "f" or name in filled:
            continue
        step = max(1, AT_ONCE // max(1, array[0].size))
        for first in range(0, len(array), step):
            part = array[first : first + step]
            with np.errstate(over="ignore"):
                finite = np.isfinite(part.astype(dtype, copy=False))
            if not finite.all():
                found = first + (row := int(finite.reshape(len(finite), -1).all(axis=1).argmin()))
                if np.isfinite(part[row]).all():
                    raise too_large(f"'{name}': record {found}", dtype)
                raise DataError(
                    f"'{name}': record {found} has a number that is not finite",
                    "leave such records out, or put numbers in: np.nan_to_num(x)",
                )


def _share(validation: Any, count: int) -> float:
    """Return the fraction of the records to validate on, or 0."""
    if not is_number(validation):
        return 0.0
    if not 0 < validation < 1:
        raise ConfigError(f"validation={brief(validation)}, but a fraction must be above 0 and below 1", "such as 0.2")
    share = float(validation)
    if not 0 < trained_on(share, count) < count:
        raise ConfigError(
            f"validation={validation!r}, but of {count} records such a fraction leaves none on one side",
            "give more records, or another fraction",
        )
    return share


def _records(net: Net, inputs: Inputs, x: Any, y: Any) -> Records:
    if y is None and are_files(x):
        return file_records(net, inputs, listed_files(x), learns=True)
    return inputs.records(x, y)


def _validation(net: Net, inputs: Inputs, validation: Any) -> Records:
    if are_files(validation):
        return file_records(net, inputs, listed_files(validation))
    if isinstance(validation, tuple | list) and len(cast("Sequence[Any]", validation)) == 2:
        return inputs.records(*cast("Sequence[Any]", validation), what="the arrays of validation")
    raise ConfigError(
        f"validation={brief(cast('object', validation))}, but it must be a pair of arrays, a file or a fraction",
        "write validation=(x, y), or validation=0.2",
    )


def trained_on(share: float, count: int) -> int:
    """Return how many of `count` records are trained on if a share of them is not."""
    return floor(count * (1 - share) + 0.5)


def _sources(parts: Sequence[Records], names: Sequence[str], batch_size: int, share: float, seed: int) -> list[Layer]:
    """Return the source of the training, and that of the validations: of their own records, or of a share of all."""
    train: dict[str, Any] = {"shuffle": True, "exclude": [phase for phase in PHASES if phase != "train"]}
    validation: dict[str, Any] = {"exclude": [phase for phase in PHASES if phase != "validation"]}
    first, last = parts[0], parts[-1]
    if share:
        split = {"fractions": {"train": 1 - share, "validation": share}, "seed": seed}
        train["split"], validation["split"] = {**split, "part": "train"}, {**split, "part": "validation"}
    sources = [first.fed(names[0], min(batch_size, trained_on(share, len(first))), **train)]
    if share or len(parts) > 1:
        sources.append(last.fed(names[1], batch_size, **validation))
    return sources


def _undisputed(solver: Solver, lr: Any, epochs: Any) -> Solver:
    """Return a solver that is given to a fit. Raises ConfigError if the fit is told again what the solver says."""
    if lr is not None:
        raise ConfigError(
            f"lr={brief(lr)} is given beside a Solver, which has a rate of its own",
            f"write Solver(..., lr_policy={brief(lr)}), or the name of the method: solver='Adam'",
        )
    ends = ", ".join(f"{name}={end}" for name in ("max_iter", "max_epoch") if (end := getattr(solver, name)))
    if epochs is not None and ends:
        raise ConfigError(
            f"epochs={epochs} is given beside a Solver with {ends}, but one of them ends the training",
            f"leave epochs out, or make the Solver without {ends}",
        )
    return solver


def _solver(
    given: Any, lr: Any, epochs: int | None, callbacks: Sequence[Callback | Written], *, validates: bool, patience: int
) -> Solver:
    """Return the solver of a fit; one that is given keeps its fields, and may say itself what ends the training."""
    if isinstance(given, Solver):
        solver = _undisputed(given, lr, epochs)
    else:
        solver = Solver(given, lr_policy=LR if lr is None else lr)
    if solver.max_iter is None and solver.max_epoch is None:
        solver = replace(solver, max_epoch=EPOCHS if epochs is None else epochs)
    more = callbacks if isinstance(callbacks, list | tuple) else [callbacks]
    solver = replace(solver, callbacks=[*solver.callbacks, *cast("list[Any]", more)])
    own: list[Callback] = list(solver.callbacks)
    if validates and not any(one.validates for one in own):
        own.append(need_default_of("validation")(every_n_epoch=1))
    if patience:
        own.append(need_default_of("early_stopping")(patience=patience, restore=True))
    return replace(solver, callbacks=own)
