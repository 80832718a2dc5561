"""nacre's own data layers: sources, transformers and stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from nacre.feed import InputLayer as InputLayer

    from .hdf5_data import HDF5DataLayer as HDF5DataLayer
    from .hdf5_store import HDF5Store as HDF5Store
    from .memory_data import MemoryDataLayer as MemoryDataLayer
    from .transformers import RandomShift as RandomShift
    from .transformers import Scale as Scale

nacre_api = "1"

LAYERS = {
    "HDF5Data": "nacre_data.hdf5_data:HDF5DataLayer",
    "Input": "nacre.feed:InputLayer",
    "MemoryData": "nacre_data.memory_data:MemoryDataLayer",
}
TRANSFORMERS = {
    "RandomShift": "nacre_data.transformers:RandomShift",
    "Scale": "nacre_data.transformers:Scale",
}
STORES = {"HDF5": "nacre_data.hdf5_store:HDF5Store"}


@hookimpl
def offer_layers() -> dict[str, str]:
    return LAYERS


@hookimpl
def offer_components() -> dict[str, dict[str, str]]:
    return {"transformer": TRANSFORMERS, "store": STORES}


__getattr__ = lazy(__name__, LAYERS, TRANSFORMERS, STORES)
