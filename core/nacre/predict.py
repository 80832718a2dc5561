"""`net.predict`: any number of records through a net derived for phase `predict`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from .errors import DataError
from .feed import InputLayer
from .layer import Layer, bottoms_of
from .topology import Graph, ancestors, sort

if TYPE_CHECKING:
    import numpy as np

    from .net import Net


def predict(net: Net, data: Any, output: str | Sequence[str], batch_size: int, made: dict[Any, Net]) -> Any:
    """See `Net.predict`; `made` keeps the derived nets."""
    import numpy as np

    sources = [layer for layer in net.layers if layer.is_source]
    graph = Graph.of(layer for layer in net.layers if "predict" not in layer.exclude and not layer.is_source)
    given = tuple(dict.fromkeys(top for source in sources for top in source.tops))
    outputs = ((output,) if isinstance(output, str) else tuple(output)) if output else _ends(graph)
    layers = [node.layer for node in ancestors(graph, outputs, given)]
    needed = [name for name in given if name in outputs or any(name in bottoms_of(layer) for layer in layers)]
    arrays = _arrays(data, needed)
    counts = {len(array) for array in arrays.values()}
    if len(counts) != 1:
        raise DataError(f"the arrays have different numbers of records: {', '.join(map(str, sorted(counts)))}")
    count = counts.pop()
    if not batch_size:
        batch_size = _batch_size(net, needed) or min(count, 256)
    shapes = {name: array.shape[1:] for name, array in arrays.items()}
    key = (outputs, batch_size, tuple(shapes.items()))
    if key not in made:
        made[key] = _derive(net, layers, sources, shapes, batch_size, outputs)
    derived = made[key]
    results: dict[str, list[np.ndarray]] = {name: [] for name in outputs}
    for start in range(0, count, batch_size):
        rows = min(batch_size, count - start)
        for name, array in arrays.items():
            derived.write(name, _transformed(array[start : start + rows], name, sources, derived))
        derived.forward()
        for name in outputs:
            results[name].append(derived.blob(name)[:rows])
    joined = {name: np.concatenate(parts) for name, parts in results.items()}
    return joined if not isinstance(output, str) or len(joined) > 1 else joined.popitem()[1]


def _ends(graph: Graph) -> tuple[str, ...]:
    """Give the blobs that nobody reads: what a net is asked for when no output is named."""
    read = {name for node in graph.nodes if not node.layer.is_inplace for name in node.bottoms if node.tops}
    ends = tuple(dict.fromkeys(name for node in graph.nodes for name in node.tops if name not in read))
    if not ends:
        raise DataError("no layer of the net has a top that can be asked for; name an output")
    return ends


def _arrays(data: Any, needed: Sequence[str]) -> dict[str, np.ndarray]:
    import numpy as np

    if isinstance(data, Mapping):
        arrays = {str(name): np.asarray(array) for name, array in cast("Mapping[Any, Any]", data).items()}
        if missing := [name for name in needed if name not in arrays]:
            raise DataError(f"the net needs the blobs {', '.join(needed)}, but {', '.join(missing)} is not given")
        arrays = {name: arrays[name] for name in needed}
    elif len(needed) != 1:
        raise DataError(f"the net needs the blobs {', '.join(needed) or 'none'}; give them as {{name: array}}")
    else:
        arrays = {needed[0]: np.asarray(data)}
    for name, array in arrays.items():
        if array.ndim == 0 or not len(array):
            raise DataError(f"blob '{name}': no record is given")
        if array.dtype.kind not in "fiub":
            raise DataError(f"blob '{name}': an array of {array.dtype} has no numbers")
    return arrays


def _batch_size(net: Net, names: Sequence[str]) -> int:
    known = [net.schedule.final[name].shape[0] for name in names if name in net.schedule.final]
    return known[0] if known else 0


def _derive(
    net: Net,
    layers: Sequence[Layer],
    sources: Sequence[Layer],
    shapes: Mapping[str, tuple[int, ...]],
    batch_size: int,
    outputs: Sequence[str],
) -> Net:
    from .net import Net

    for name, shape in shapes.items():
        value = net.schedule.final.get(name)
        if value is not None and value.shape[1:] != shape:
            raise DataError(f"blob '{name}' has records of shape {value.shape[1:]}, but those given have {shape}")
    inputs = [
        InputLayer(name=f"predict-{name}", tops=[name], shape=shape, batch_size=batch_size, dtype=_type(net, name))
        for name, shape in shapes.items()
    ]
    order = [node.layer for node in sort(Graph.of([*inputs, *layers])).nodes]
    return Net(
        f"{net.name} (predict)",
        order,
        backend=net.backend,
        phase="predict",
        seed=net.seed,
        dtype=net.dtype,
        keep=outputs,
        share=net,
        pins=net.pins,
    )


def _type(net: Net, name: str) -> str:
    """Give the type of a source's blob in `net`; "" stands for the net's floating type."""
    return next((value.dtype for value in net.schedule.values if value.name == name), "")


def _transformed(batch: np.ndarray, name: str, sources: Sequence[Layer], net: Net) -> np.ndarray:
    """Change a batch as the source that it stands for would."""
    import numpy as np

    transformers = [
        transformer
        for source in sources
        if name in source.tops
        for top, transformer in getattr(source, "transformers", ())
        if top == name
    ]
    used = [source for source in sources if name in source.tops]
    if len(used) > 1:  # a training and a validation source of one blob: the first one's
        transformers = [one for top, one in getattr(used[0], "transformers", ()) if top == name]
    changed = np.array(batch, net.dtype)
    random = net.view(net.backend).random(f"predict-{name}")
    for transformer in transformers:
        transformer.transform(changed, random, "predict")
    return changed
