"""The weights of classes and of records in `fit`: losses read them from a blob, in which each record has a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from ..errors import ConfigError, DataError, brief, nearest
from ..fields.types import amount
from ..net.arrays import Inputs, Records
from ..protocols.layer import Layer, bottoms_of, layer_type
from ..text import free_name

if TYPE_CHECKING:
    import numpy as np

BALANCED = "balanced"


@dataclass(frozen=True)
class Weighed:
    """The losses that weigh records in place of others, and the records with the blobs of the weights."""

    instead: Mapping[Layer, Layer]
    parts: Sequence[Records]


def weighed(
    net: str, layers: Sequence[Layer], inputs: Inputs, parts: Sequence[Records], class_weight: Any, sample_weight: Any
) -> Weighed:
    """Return the losses and the records of a fit with weights; `parts` are the records of the training, and others.

    Raises:
        ConfigError: `class_weight` has another form, or a loss cannot weigh its records.
        DataError: there is not one weight for each record.
    """
    losses = {layer.name: layer for layer in layers if layer.has_loss and "train" not in layer.exclude}
    labels = {name: label for name, loss in losses.items() if (label := _label(loss, inputs, parts[0]))}
    of_classes = _by_loss(net, class_weight, losses, labels)
    of_records = None if sample_weight is None else _sample_weight(sample_weight, len(parts[0]))
    if class_weight is not None or of_records is not None:
        hidden = [node.name for node in inputs.nodes if node.layer.has_loss and node.outermost is not node.layer]
        if hidden or not losses:
            what = f"loss '{hidden[0]}' stands in a container" if hidden else "there is no loss"
            raise ConfigError(
                f"net '{net}': {what}, so that its records cannot be weighed", "give the net a loss of its own"
            )
    instead: dict[Layer, Layer] = {}
    blobs = {top for node in inputs.nodes for top in node.tops}.union(inputs.layers)
    for name in losses if of_records is not None else of_classes:
        blob = free_name(f"{name}-weight", blobs)
        if (loss := losses[name].weighing(blob)) is None:
            raise ConfigError(
                f"net '{net}': loss '{name}' ({layer_type(type(losses[name]))}) cannot weigh records",
                "use another loss, or one without weights; class_weight={loss: ...} names the losses that weigh",
            )
        instead[losses[name]] = loss
        weights = _class_weights(losses[name], of_classes[name], parts[0], labels[name]) if name in of_classes else {}
        columns = [_column(part, labels.get(name, ""), weights) for part in parts]
        if of_records is not None:
            columns[0] = columns[0] * of_records
        parts = [
            replace(part, arrays={**part.arrays, blob: column}) for part, column in zip(parts, columns, strict=True)
        ]
    return Weighed(instead, parts)


def _label(loss: Layer, inputs: Inputs, records: Records) -> str:
    """Return the Input from which a loss reads the class of each record, or ""."""
    import numpy as np

    for name in () if loss.compares_numbers else bottoms_of(loss):
        if name in inputs.targets:
            array = records.arrays[name]
            if array.size == len(array) and (array.dtype.kind in "iub" or bool((array == np.rint(array)).all())):
                return name
    return ""


def _by_loss(net: str, given: Any, losses: Mapping[str, Layer], labels: Mapping[str, str]) -> dict[str, Any]:
    """Return what is said of each loss: "balanced", or {class: weight}."""
    if given is None:
        return {}
    forms = 'it must be "balanced", {class: weight}, or {loss: either}'
    table = dict(cast("Mapping[Any, Any]", given)) if isinstance(given, Mapping) else dict[Any, Any]()
    if not (table or (isinstance(given, str) and given == BALANCED)):
        raise ConfigError(f"class_weight={brief(cast('object', given))}, but {forms}")
    if table and all(isinstance(value, str | Mapping) for value in table.values()):
        for name, value in table.items():
            if name not in losses:
                raise ConfigError(
                    f"class_weight has '{name}', but net '{net}' has no such loss{nearest(str(name), losses)}",
                    f"its losses are {', '.join(losses)}",
                )
            if value != BALANCED and not isinstance(value, Mapping):
                raise ConfigError(f"class_weight: {name}={brief(value)}, but {forms}")
        chosen = table
    else:
        chosen = dict.fromkeys(labels, table or BALANCED)
        if len(chosen) > 1 and table:
            raise ConfigError(
                f"class_weight={brief(table)}, but net '{net}' has several losses with classes: {', '.join(chosen)}",
                "say which one: class_weight={loss: {class: weight}}",
            )
    if bare := [name for name in chosen if name not in labels] or ([] if chosen else list(losses)):
        raise ConfigError(
            f"class_weight is given, but loss '{bare[0]}' reads no class of each record from an Input",
            "leave it out, or give weights of records: sample_weight",
        )
    return chosen


def _class_weights(loss: Layer, given: Any, records: Records, label: str) -> dict[Any, float]:
    """Return the weight of each class, by its name if there are names, else by its number."""
    keys, _, counts = _classes(records, label)
    if given == BALANCED:
        of = dict(zip(keys, counts, strict=True))
        if (ignored := loss.ignored()) is not None:
            of.pop(_name(ignored, records.classes.get(label)), None)
        return {key: sum(of.values()) / (len(of) * count) for key, count in of.items()}
    weights: dict[Any, float] = {}
    for key, weight in cast("Mapping[Any, Any]", given).items():
        if key not in keys:
            known = ", ".join(map(repr, keys[:20]))
            alike = nearest(key, map(str, keys)) if isinstance(key, str) and key not in map(str, keys) else ""
            raise ConfigError(
                f"class_weight: loss '{loss.name}': no record has the class {key!r}{alike}", f"its classes are {known}"
            )
        try:
            weights[key] = amount(weight)
        except ValueError:
            message = f"class_weight: class '{key}' has the weight {brief(weight)}, but it must be a finite number"
            raise ConfigError(f"{message}, 0 or more") from None
    return weights


def _classes(records: Records, label: str) -> tuple[list[Any], np.ndarray, list[int]]:
    """Return the classes in a blob, the index of each record's in them, and how many records each has."""
    import numpy as np

    found, index, counts = np.unique(records.arrays[label].reshape(-1), return_inverse=True, return_counts=True)
    keys = [_name(int(number), records.classes.get(label)) for number in found]
    return keys, index.reshape(-1), counts.tolist()


def _name(number: int, names: Sequence[str] | None) -> Any:
    """Return the name of a class, or its number if that has none, as that of ignored labels."""
    return names[number] if names and 0 <= number < len(names) else number


def _column(records: Records, label: str, weights: Mapping[Any, float]) -> np.ndarray:
    """Return the weight of each record by its class; 1 for classes that are not named."""
    import numpy as np

    if not weights:
        return np.ones(len(records))
    keys, index, _ = _classes(records, label)
    return np.array([weights.get(key, 1.0) for key in keys])[index]


def _sample_weight(given: Any, count: int) -> np.ndarray:
    import numpy as np

    try:
        weights = np.asarray(given, dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise DataError(f"sample_weight={brief(given)}, but it must be an array of numbers") from error
    if weights.size != count or weights.shape[:1] != (count,):
        raise DataError(
            f"sample_weight has the shape {weights.shape}, but there are {count} records", "give one for each"
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise DataError("sample_weight has numbers that are negative or not finite", "give finite numbers, 0 or more")
    return weights.reshape(-1)
