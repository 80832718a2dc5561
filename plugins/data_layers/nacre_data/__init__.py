"""nacre's own data layers, transformers, stores, and the file formats of `predict`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from nacre.feed import InputLayer as InputLayer

    from .csv_table import CsvReader as CsvReader
    from .csv_table import CsvWriter as CsvWriter
    from .hdf5_data import HDF5DataLayer as HDF5DataLayer
    from .hdf5_records import HDF5Reader as HDF5Reader
    from .hdf5_records import HDF5Writer as HDF5Writer
    from .hdf5_store import HDF5Store as HDF5Store
    from .memory_data import MemoryDataLayer as MemoryDataLayer
    from .npy import NpyReader as NpyReader
    from .npy import NpyWriter as NpyWriter
    from .npy import NpzWriter as NpzWriter
    from .picture import PictureReader as PictureReader
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
PICTURES = ("bmp", "gif", "jpeg", "jpg", "pgm", "png", "ppm", "tif", "tiff", "webp")
RECORDS = {
    "csv": "nacre_data.csv_table:CsvReader",
    "h5": "nacre_data.hdf5_records:HDF5Reader",
    "hdf5": "nacre_data.hdf5_records:HDF5Reader",
    "npy": "nacre_data.npy:NpyReader",
    **dict.fromkeys(PICTURES, "nacre_data.picture:PictureReader"),
}
OUTPUTS = {
    "csv": "nacre_data.csv_table:CsvWriter",
    "h5": "nacre_data.hdf5_records:HDF5Writer",
    "hdf5": "nacre_data.hdf5_records:HDF5Writer",
    "npy": "nacre_data.npy:NpyWriter",
    "npz": "nacre_data.npy:NpzWriter",
}


@hookimpl
def offer_layers() -> dict[str, str]:
    return LAYERS


@hookimpl
def offer_components() -> dict[str, dict[str, str]]:
    return {"transformer": TRANSFORMERS, "store": STORES, "record": RECORDS, "output": OUTPUTS}


__getattr__ = lazy(__name__, LAYERS, TRANSFORMERS, STORES, RECORDS, OUTPUTS)
