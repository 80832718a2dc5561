"""Writes dnn.json: what cuDNN's real frontend has. It needs no GPU: pip install nvidia-cudnn-frontend, then this."""

from __future__ import annotations

from pathlib import Path

import cudnn
from cudnn import _pygraph
from recorded import parameters, text

ENUMS = ("data_type", "heur_mode", "numerical_note")
FUNCTIONS = (
    "backend_version_string",
    "create_device_properties",
    "create_handle",
    "destroy_handle",
    "get_stream",
    "set_stream",
)


def method(kind: type, name: str) -> list[str] | None:
    """Return the parameters of a method, also of one that the frontend makes from a table."""
    common = ["name=", "compute_data_type="]
    if (spec := _pygraph._STRUCTURED_OPS.get(name)) is not None and kind is cudnn.pygraph:
        listed = (*spec["inputs"], *spec.get("list_inputs", ()))
        return [*listed, *(f"{one}=" for one in spec.get("attrs", ())), *common, "out_dims="]
    made = getattr(kind, name)
    tensors = cudnn.pygraph._POINTWISE_TENSOR_ARGS.get(name)
    if tensors is not None and "kwargs" in made.__code__.co_varnames and kind is cudnn.pygraph:
        return [*tensors, *common]
    return [one for one in parameters(made) or [] if one != "self"]


def methods(kind: type) -> dict[str, list[str] | None]:
    return {name: method(kind, name) for name in sorted(dir(kind)) if callable(getattr(kind, name)) and name[0] != "_"}


def interface() -> dict:
    return {
        "version": cudnn.__version__,
        "enums": {name: sorted(getattr(cudnn, name).__members__) for name in ENUMS},
        "functions": {name: parameters(getattr(cudnn, name)) for name in FUNCTIONS},
        "pygraph": {**methods(cudnn.pygraph), "__init__": method(cudnn.pygraph, "__init__")},
        "tensor": methods(cudnn.Tensor),
    }


if __name__ == "__main__":
    Path(__file__).with_name("dnn.json").write_text(text(interface()), encoding="utf-8")
