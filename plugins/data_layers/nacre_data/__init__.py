"""nacre's own data layers, transformers and stores, and the commands `nacre data`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from nacre import InputLayer as InputLayer

    from .async_hdf5_data import AsyncHDF5DataLayer as AsyncHDF5DataLayer
    from .augmentation import ColorJitter as ColorJitter
    from .augmentation import Cutout as Cutout
    from .augmentation import RandomAffine as RandomAffine
    from .codecs.datum import Datum as Datum
    from .codecs.example import Example as Example
    from .codecs.picture import Picture as Picture
    from .codecs.record import Record as Record
    from .codecs.single_label_image_record import SingleLabelImageRecord as SingleLabelImageRecord
    from .csv_data import CSVDataLayer as CSVDataLayer
    from .data import DataLayer as DataLayer
    from .hdf5_data import HDF5DataLayer as HDF5DataLayer
    from .hdf5_store import HDF5Store as HDF5Store
    from .image_data import ImageDataLayer as ImageDataLayer
    from .iterable_data import IterableDataLayer as IterableDataLayer
    from .lmdb_data import LMDBDataLayer as LMDBDataLayer
    from .memory_data import MemoryDataLayer as MemoryDataLayer
    from .memory_output import MemoryOutputLayer as MemoryOutputLayer
    from .numpy_data import NumpyDataLayer as NumpyDataLayer
    from .output import CSVOutputLayer as CSVOutputLayer
    from .output import HDF5OutputLayer as HDF5OutputLayer
    from .output import JSONLOutputLayer as JSONLOutputLayer
    from .output import LMDBOutputLayer as LMDBOutputLayer
    from .output import NumpyOutputLayer as NumpyOutputLayer
    from .output import OutputLayer as OutputLayer
    from .output import ShardOutputLayer as ShardOutputLayer
    from .parsers.label import Label as Label
    from .parsers.label import LabelLayer as LabelLayer
    from .parsers.mnist_image import MnistImage as MnistImage
    from .parsers.mnist_image import MnistImageLayer as MnistImageLayer
    from .parsers.rgb_image import RGBImage as RGBImage
    from .parsers.rgb_image import RGBImageLayer as RGBImageLayer
    from .prefetch import PrefetchLayer as PrefetchLayer
    from .random_normal import RandomNormalLayer as RandomNormalLayer
    from .shard_data import ShardDataLayer as ShardDataLayer
    from .stores.cifar import CIFAR as CIFAR
    from .stores.csv import CSV as CSV
    from .stores.hdf5 import HDF5 as HDF5
    from .stores.idx import IDX as IDX
    from .stores.json_lines import JSONLines as JSONLines
    from .stores.lmdb import LMDB as LMDB
    from .stores.npy import NPY as NPY
    from .stores.npy import NPZ as NPZ
    from .stores.pictures import Pictures as Pictures
    from .stores.shard import Shard as Shard
    from .stores.tar import Tar as Tar
    from .stores.tf_record import TFRecord as TFRecord
    from .tables import Categories as Categories
    from .tables import FillMissing as FillMissing
    from .tables import Standardize as Standardize
    from .tar_data import TarDataLayer as TarDataLayer
    from .text import CharTextLayer as CharTextLayer
    from .text import WordTextLayer as WordTextLayer
    from .transformers import Crop as Crop
    from .transformers import Mirror as Mirror
    from .transformers import RandomShift as RandomShift
    from .transformers import Scale as Scale
    from .transformers import SubMean as SubMean
    from .words import Words as Words

nacre_api = "1"
nacre_libraries = ("h5py",)

LAYERS = {
    "AsyncHDF5Data": "nacre_data.async_hdf5_data:AsyncHDF5DataLayer",
    "CSVData": "nacre_data.csv_data:CSVDataLayer",
    "CSVOutput": "nacre_data.output:CSVOutputLayer",
    "CharText": "nacre_data.text:CharTextLayer",
    "Data": "nacre_data.data:DataLayer",
    "HDF5Data": "nacre_data.hdf5_data:HDF5DataLayer",
    "HDF5Output": "nacre_data.output:HDF5OutputLayer",
    "ImageData": "nacre_data.image_data:ImageDataLayer",
    "Input": "nacre.net.input:InputLayer",
    "IterableData": "nacre_data.iterable_data:IterableDataLayer",
    "JSONLOutput": "nacre_data.output:JSONLOutputLayer",
    "LMDBData": "nacre_data.lmdb_data:LMDBDataLayer",
    "LMDBOutput": "nacre_data.output:LMDBOutputLayer",
    "Label": "nacre_data.parsers.label:LabelLayer",
    "MemoryData": "nacre_data.memory_data:MemoryDataLayer",
    "MemoryOutput": "nacre_data.memory_output:MemoryOutputLayer",
    "MnistImage": "nacre_data.parsers.mnist_image:MnistImageLayer",
    "NumpyData": "nacre_data.numpy_data:NumpyDataLayer",
    "NumpyOutput": "nacre_data.output:NumpyOutputLayer",
    "Output": "nacre_data.output:OutputLayer",
    "Prefetch": "nacre_data.prefetch:PrefetchLayer",
    "RGBImage": "nacre_data.parsers.rgb_image:RGBImageLayer",
    "RandomNormal": "nacre_data.random_normal:RandomNormalLayer",
    "ShardData": "nacre_data.shard_data:ShardDataLayer",
    "ShardOutput": "nacre_data.output:ShardOutputLayer",
    "TarData": "nacre_data.tar_data:TarDataLayer",
    "WordText": "nacre_data.text:WordTextLayer",
}
TRANSFORMERS = {
    "Categories": "nacre_data.tables:Categories",
    "ColorJitter": "nacre_data.augmentation:ColorJitter",
    "Crop": "nacre_data.transformers:Crop",
    "Cutout": "nacre_data.augmentation:Cutout",
    "FillMissing": "nacre_data.tables:FillMissing",
    "Label": "nacre_data.parsers.label:Label",
    "Mirror": "nacre_data.transformers:Mirror",
    "MnistImage": "nacre_data.parsers.mnist_image:MnistImage",
    "RGBImage": "nacre_data.parsers.rgb_image:RGBImage",
    "RandomAffine": "nacre_data.augmentation:RandomAffine",
    "RandomShift": "nacre_data.transformers:RandomShift",
    "Scale": "nacre_data.transformers:Scale",
    "Standardize": "nacre_data.tables:Standardize",
    "SubMean": "nacre_data.transformers:SubMean",
    "Words": "nacre_data.words:Words",
}
SNAPSHOT_STORES = {"HDF5": "nacre_data.hdf5_store:HDF5Store"}
STORES = {
    "CIFAR": "nacre_data.stores.cifar:CIFAR",
    "CSV": "nacre_data.stores.csv:CSV",
    "HDF5": "nacre_data.stores.hdf5:HDF5",
    "IDX": "nacre_data.stores.idx:IDX",
    "JSONLines": "nacre_data.stores.json_lines:JSONLines",
    "LMDB": "nacre_data.stores.lmdb:LMDB",
    "NPY": "nacre_data.stores.npy:NPY",
    "NPZ": "nacre_data.stores.npy:NPZ",
    "Pictures": "nacre_data.stores.pictures:Pictures",
    "Shard": "nacre_data.stores.shard:Shard",
    "TFRecord": "nacre_data.stores.tf_record:TFRecord",
    "Tar": "nacre_data.stores.tar:Tar",
}
CODECS = {
    "Datum": "nacre_data.codecs.datum:Datum",
    "Example": "nacre_data.codecs.example:Example",
    "Picture": "nacre_data.codecs.picture:Picture",
    "Record": "nacre_data.codecs.record:Record",
    "SingleLabelImageRecord": "nacre_data.codecs.single_label_image_record:SingleLabelImageRecord",
}
COMMANDS = {"data": "nacre_data.commands:command"}


@hookimpl
def offer_layers() -> dict[str, str]:
    return LAYERS


@hookimpl
def offer_commands() -> dict[str, str]:
    return COMMANDS


@hookimpl
def offer_components() -> dict[str, dict[str, str]]:
    return {
        "transformer": TRANSFORMERS,
        "store": STORES,
        "codec": CODECS,
        "snapshot_store": SNAPSHOT_STORES,
        "default_of": {"snapshot_store": SNAPSHOT_STORES["HDF5"], "arrays": LAYERS["MemoryData"]},
    }


__getattr__ = lazy(__name__, LAYERS, TRANSFORMERS, SNAPSHOT_STORES, STORES, CODECS)
