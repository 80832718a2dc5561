"""Reading data beside other readers, in turns: `python -m benchmarks.data`.

Each line is a kind of data and a peer: records per second of nacre, and of the peer, the best of its kind; then how
many times as many nacre reads, the median of the rounds and their range, above 1 where it is faster; and the goal.
"""

from __future__ import annotations

import argparse
import csv
import io
import random
import statistics
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import h5py
import numpy as np

from nacre import Field, Layer, Net, Solver, Store, Transformer
from nacre_data import (
    CSV,
    HDF5,
    LMDB,
    NPY,
    NPZ,
    Crop,
    DataLayer,
    HDF5DataLayer,
    ImageDataLayer,
    MemoryDataLayer,
    Mirror,
    PrefetchLayer,
    Record,
    Shard,
    SubMean,
    Tar,
)

from . import loaders
from .nets import load
from .sides import machine

SECONDS = 0.3  # of each sample
PAUSE = 0.1  # before each: threads and processes of the side before it, which read ahead, come to rest
BATCH, BATCHES = 256, 80
WORKERS = (0, 1, 2, 4)
PICTURES, PICTURES_BATCH, PICTURES_PAUSE = 256, 32, 1.0
PICTURES_WORKERS = (0, 1, 2)

Batches = Iterator[tuple[Any, Any]]
"""Data and labels of one batch after the other, without end; a batch is valid until the next one."""


@dataclass(frozen=True)
class Side:
    """Something that reads batches. Of the peers of one kind the best is compared; `goal` is for nacre's times its."""

    name: str
    start: Callable[[ExitStack], Batches]
    kind: str = ""
    goal: float = 0.0
    ahead: int = 0  # batches that it may have read before they are asked for


@dataclass(frozen=True)
class Case:
    """Records that nacre and peers read; `records` says what they are, by their numbers.

    Labels are the numbers of records, if they are `shuffled`. Numbers of the data may differ by `apart`.
    """

    name: str
    ours: Sequence[Side]
    peers: Sequence[Side]
    records: Callable[[np.ndarray], np.ndarray]
    shuffled: bool = False
    apart: float = 0.0
    batch: int = BATCH
    pause: float = PAUSE


def main() -> None:
    """Print the lines of all cases."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--case", default="", help="only those with this text in their names")
    parser.add_argument("--cpu", action="store_true", help="count this process's time instead of the clock's")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.cpu else time.perf_counter
    print(machine(2))
    print("\n| data | nacre, records/s | peer | its records/s | nacre / peer | goal |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for made in (stores, archives, sources, databases, trainings, prefetched, pictures):
            for case in made(Path(folder)):
                if arguments.case in case.name:
                    check(case) if not case.apart else None
                    for line in lines(case, arguments.rounds, clock):
                        print(line, flush=True)


def lines(case: Case, rounds: int, clock: Callable[[], float]) -> Iterator[str]:
    """Yield a line for each side of nacre and kind of peer."""
    rates = measured(case, rounds, clock)
    for ours in case.ours:
        for kind in dict.fromkeys(peer.kind for peer in case.peers):
            best = max(
                (peer for peer in case.peers if peer.kind == kind), key=lambda one: statistics.median(rates[one])
            )
            ratios = [one / other for one, other in zip(rates[ours], rates[best], strict=True)]
            span = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            numbers = [f"{statistics.median(rates[side]):,.0f}" for side in (ours, best)]
            name = f"{case.name}, {ours.name}"
            yield f"| {name} | {numbers[0]} | {best.name} | {numbers[1]} | {span} | {best.goal:.2f} |"


def measured(case: Case, rounds: int, clock: Callable[[], float]) -> dict[Side, list[float]]:
    """Return the records per second of each side, round by round."""
    sides = [*case.peers, *case.ours]  # peers first: their workers are forks, and nacre has threads
    rates: dict[Side, list[float]] = {side: [] for side in sides}
    with ExitStack() as stack:
        streams = {side: side.start(stack) for side in sides}
        for stream in streams.values():
            sample(stream, clock)  # caches fill
        for _ in range(rounds):
            for side in random.sample(sides, len(sides)):
                time.sleep(case.pause)
                for _ in range(side.ahead):
                    next(streams[side])
                rates[side].append(case.batch * sample(streams[side], clock))
    return rates


def sample(stream: Batches, clock: Callable[[], float]) -> float:
    """Return the batches per second, over a while."""
    read, start, begin = 0, clock(), time.perf_counter()
    while not read or time.perf_counter() - begin < SECONDS:
        next(stream)
        read += 1
    return read / (clock() - start)


def check(case: Case) -> None:
    """Raise ValueError unless the first batches of every side are the records."""
    for side in (*case.peers, *case.ours):
        with ExitStack() as stack:
            for number, (data, labels) in enumerate(islice(side.start(stack), 3)):
                data, labels = np.asarray(data, np.float64), np.asarray(labels)
                numbers = labels if case.shuffled else np.arange(number * case.batch, (number + 1) * case.batch)
                if not case.shuffled and not case.apart and not np.array_equal(labels, numbers):
                    raise ValueError(f"{case.name}, {side.name}: the labels are {labels}, but should be {numbers}")
                if not (np.abs(data - case.records(numbers)) <= case.apart).all():
                    raise ValueError(f"{case.name}, {side.name}: batch {number} has other data than the records")


def orders(records: int, *, shuffled: bool) -> Iterator[np.ndarray]:
    """Yield the numbers of the records of each batch, pass after pass."""
    generator = np.random.default_rng(0)
    while True:
        order = generator.permutation(records) if shuffled else np.arange(records)
        yield from np.split(order, records // BATCH)


# Stores


def stores(folder: Path, batches: int = BATCHES) -> Iterator[Case]:
    """Yield cases in which a store, and the library that it could be replaced by, read a file by numbers."""
    records = BATCH * batches
    images, labels = images_of((3, 32, 32), records), np.arange(records)
    fields = {"data": Field(images.shape[1:], "uint8"), "label": Field((), "int64")}
    table = np.random.default_rng(1).standard_normal((records, 16)).round(6)
    columns = {"data": Field(table.shape[1:], "float64"), "label": Field((), "int64")}
    write(HDF5(), folder / "images.h5", fields, data=images, label=labels)
    with h5py.File(folder / "plain.h5", "w") as file:
        file["data"], file["label"] = images, labels
    with h5py.File(folder / "packed.h5", "w") as file:
        file.create_dataset("data", data=images // 32, chunks=(16, *images.shape[1:]), compression="gzip")
        file.create_dataset("label", data=labels)
    write(NPY(), folder / "images.npy", {"data": fields["data"]}, data=images)
    write(NPY(), folder / "twice.npy", {"data": fields["data"]}, data=np.concatenate([images, images]))
    write(NPZ(), folder / "images.npz", fields, data=images, label=labels)
    write(CSV(), folder / "table.csv", columns, data=table, label=labels)
    for shuffled in (False, True):
        for name, store, file, peer, library, array in [
            ("HDF5, contiguous", HDF5(), "plain.h5", by_h5py, "h5py", images),
            ("HDF5, as nacre writes it", HDF5(), "images.h5", by_h5py, "h5py", images),
            ("HDF5, gzip in chunks of 16", HDF5(), "packed.h5", by_h5py, "h5py", images // 32),
            ("npy, 63 MB", NPY(), "images.npy", by_mapping, "np.load, mapped", images),
            ("npy, 126 MB", NPY(), "twice.npy", by_mapping, "np.load, mapped", images),
            ("npz", NPZ(), "images.npz", by_loading, "np.load", images),
            ("CSV", CSV(), "table.csv", by_csv, "csv", table),
        ]:
            options: dict[str, Any] = {"records": records, "shuffled": shuffled}
            ours = Side("store", partial(by_store, store, folder / file, **options))
            theirs = Side(library, partial(peer, folder / file, **options), library, 0.8)
            yield Case(name + order_of(shuffled), [ours], [theirs], array.__getitem__, shuffled)


def images_of(shape: tuple[int, ...], records: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (records, *shape), np.uint8)


def order_of(shuffled: bool) -> str:
    return ", shuffled" if shuffled else ", in order"


def write(store: Store, path: Path, fields: dict[str, Field], **arrays: np.ndarray) -> None:
    with store.create(path, fields) as writer:
        writer.append(arrays)


def by_store(store: Store, path: Path, stack: ExitStack, **order: Any) -> Batches:
    one = isinstance(store, NPY)
    reader = stack.enter_context(store.open(path, ("data",) if one else ("data", "label")))
    places = {name: np.empty((BATCH, *(field.shape or ())), field.dtype) for name, field in reader.fields.items()}
    for numbers in orders(**order):
        reader.read(numbers, places)
        yield places["data"], numbers if one else places["label"]


def by_h5py(path: Path, stack: ExitStack, *, records: int, shuffled: bool) -> Batches:
    file: Any = stack.enter_context(h5py.File(path))
    data, label = file["data"], file["label"]
    for numbers in orders(records, shuffled=shuffled):
        if shuffled:
            some, back = np.unique(numbers, return_inverse=True)  # h5py wants increasing numbers
            yield data[some][back], label[some][back]
        else:
            part = slice(numbers[0], numbers[-1] + 1)
            yield data[part], label[part]


def by_mapping(path: Path, stack: ExitStack, **order: Any) -> Batches:
    mapped = np.load(path, mmap_mode="r")
    for numbers in orders(**order):
        yield taken(mapped, numbers, shuffled=order["shuffled"]), numbers


def by_loading(path: Path, stack: ExitStack, **order: Any) -> Batches:
    with np.load(path) as archive:
        data, label = archive["data"], archive["label"]
    for numbers in orders(**order):
        found, those = (taken(one, numbers, shuffled=order["shuffled"]) for one in (data, label))
        yield found, those


def taken(array: np.ndarray, numbers: np.ndarray, *, shuffled: bool) -> np.ndarray:
    """Return records by the fastest way of indexing, as a copy: what is mapped is read only then."""
    return array[numbers] if shuffled else np.array(array[numbers[0] : numbers[-1] + 1])


def by_csv(path: Path, stack: ExitStack, *, records: int, shuffled: bool) -> Batches:
    file = stack.enter_context(path.open("rb"))
    starts = [0, *np.cumsum([len(line) for line in file]).tolist()]

    def lines(numbers: np.ndarray) -> Iterator[str]:
        for number in numbers.tolist():
            file.seek(starts[number + 1])  # behind the header
            yield file.readline().decode()

    def passes() -> Iterator[list[str]]:
        while True:
            with path.open(newline="") as text:
                yield from islice(csv.reader(text), 1, None)

    rows = passes()
    for numbers in orders(records, shuffled=shuffled):
        found = csv.reader(lines(numbers)) if shuffled else islice(rows, BATCH)
        batch = np.array([[*map(float, row)] for row in found])
        yield batch[:, :-1], batch[:, -1].astype(np.int64)


# Sources


def sources(folder: Path, batches: int = BATCHES) -> Iterator[Case]:
    """Yield cases in which sources feed a net, and PyTorch's loader or indexing by hand make the same batches."""
    records = BATCH * batches
    for name, shape in (("MNIST", (1, 28, 28)), ("CIFAR", (3, 32, 32))):
        images, labels = images_of(shape, records), np.arange(records)
        fields = {"data": Field(shape, "uint8"), "label": Field((), "int64")}
        path = folder / f"{name}.h5"
        write(HDF5(), path, fields, data=images, label=labels)
        for shuffled in (False, True):
            common: dict[str, Any] = {"batch_size": BATCH, "shuffle": shuffled}
            ours: list[Layer] = [
                MemoryDataLayer(name="memory", data=[images, labels], **common),
                HDF5DataLayer(name="hdf5", source=str(path), **common),
                DataLayer(name="data", source=str(path), **common),
            ]
            by_hand = partial(converted, partial(indexed, images, labels, records=records, shuffled=shuffled))
            peers = [*loading(partial(loaders.Arrays, images, labels), shuffled, WORKERS, 2.0)]
            peers.append(Side("indexing by hand", by_hand, "by hand", 1.0))
            yield Case(name + order_of(shuffled), [*map(fed, ours)], peers, images.__getitem__, shuffled)

            from_file: list[Layer] = [
                HDF5DataLayer(name="hdf5", source=str(path), cache_bytes=0, **common),
                DataLayer(name="data", source=str(path), cache_bytes=0, **common),
            ]
            by_hand = partial(converted, partial(by_h5py, path, records=records, shuffled=shuffled))
            peers = [*loading(partial(loaders.Datasets, path), shuffled, WORKERS, 2.0)]
            peers.append(Side("h5py by hand", by_hand, "by hand", 1.0))
            case = f"{name}, too large for memory{order_of(shuffled)}"
            yield Case(case, [*map(fed, from_file)], peers, images.__getitem__, shuffled)


def databases(folder: Path, batches: int = BATCHES) -> Iterator[Case]:
    """Yield a case in which records come from LMDB through a process, if py-lmdb is installed."""
    if not find_spec("lmdb"):
        return
    images, labels = images_of((3, 32, 32), BATCH * batches), np.arange(BATCH * batches)
    path = folder / "images.lmdb"
    write(
        LMDB(), path, {"data": Field(images.shape[1:], "uint8"), "label": Field((), "int64")}, data=images, label=labels
    )
    layer = DataLayer(name="lmdb", source=str(path), batch_size=BATCH, cache_bytes=0, processes=1, ahead=2)
    by_hand = Side("py-lmdb and the codec", partial(converted, partial(by_lmdb, path)), "by hand", 0.5)
    yield Case("LMDB through a process, in order", [fed(layer)], [by_hand], images.__getitem__)


def archives(folder: Path, batches: int = BATCHES) -> Iterator[Case]:
    """Yield cases in which the stores of shards and of tar archives, and reading and decoding by hand, read a file."""
    records = BATCH * batches
    images, labels = images_of((3, 32, 32), records), np.arange(records)
    fields = {"data": Field(images.shape[1:], "uint8"), "label": Field((), "int64")}
    write(Shard(), folder / "images.shard", fields, data=images, label=labels)
    write(Tar(), folder / "images.tar", fields, data=images, label=labels)
    for name, store, file, how, by_hand in [
        ("shard", Shard(), "images.shard", "read() and the codec", by_shard),
        ("tar archive", Tar(), "images.tar", "read() and np.load", by_tar),
    ]:
        ours = Side("store", partial(by_store, store, folder / file, records=records, shuffled=False))
        peer = Side(how, partial(by_hand, folder / file), "by hand", 0.8)
        yield Case(f"{name}, in order", [ours], [peer], images.__getitem__)


def by_shard(path: Path, stack: ExitStack) -> Batches:
    """Yield the records of a shard that nacre wrote; its first value describes the others."""
    codec, file = Record(), stack.enter_context((path / "shard.dat" if path.is_dir() else path).open("rb"))

    def values() -> Iterator[bytes]:
        while length := file.read(8):
            file.seek(int.from_bytes(length, "little"), 1)  # the key
            yield file.read(int.from_bytes(file.read(8), "little"))

    while True:
        file.seek(0)
        yield from by_codec(islice(values(), 1, None), codec)


def by_tar(path: Path, stack: ExitStack) -> Batches:
    """Yield the records of an archive that nacre wrote: a .npy and a .cls file for each."""
    with tarfile.open(path) as archive:
        places = [(one.name, one.offset_data, one.size) for one in archive.getmembers()]
    file = stack.enter_context(path.open("rb"))
    parts = {ending: [one[1:] for one in places if one[0].endswith(ending)] for ending in ("npy", "cls")}

    def read(place: tuple[int, int]) -> bytes:
        file.seek(place[0])
        return file.read(place[1])

    while True:
        for first in range(0, len(parts["npy"]), BATCH):
            some = {ending: [read(one) for one in found[first : first + BATCH]] for ending, found in parts.items()}
            data = np.stack([np.load(io.BytesIO(one)) for one in some["npy"]])
            yield data, np.array([*map(int, some["cls"])])


def by_lmdb(path: Path, stack: ExitStack) -> Batches:
    """Yield the records of a database that nacre wrote; its first value describes the others."""
    import lmdb

    codec = Record()
    transaction = stack.enter_context(stack.enter_context(lmdb.open(str(path), readonly=True, lock=False)).begin())
    while True:
        yield from by_codec(islice(transaction.cursor().iternext(keys=False), 1, None), codec)


def by_codec(values: Iterator[bytes], codec: Record) -> Batches:
    """Yield batches of records in nacre's format."""
    while some := list(islice(values, BATCH)):
        rows = [codec.decode(value, {}) for value in some]
        yield np.stack([row["data"] for row in rows]), np.stack([row["label"] for row in rows])


def fed(layer: Any, phase: Any = "train") -> Side:
    """Return a source at work in a net."""

    def start(stack: ExitStack) -> Batches:
        net = Net("data", [layer], backend="numpy", phase=phase)
        stack.callback(net.shutdown)
        source = net.ops[0].state
        while True:
            source.forward([])
            yield tuple(source.blobs)

    return Side(type(layer).__name__.removesuffix("Layer"), start, ahead=1 + layer.ahead if layer.ahead else 0)


def loading(
    dataset: Callable[[], Any], shuffled: bool, workers: Sequence[int], goal: float, size: int = BATCH
) -> Iterator[Side]:
    """Yield PyTorch's loader with each number of workers, if it is installed."""
    if loaders.installed():
        for number in workers:
            start = partial(loaders.batches, dataset, number, shuffled=shuffled, size=size)
            yield Side(f"DataLoader, {number} workers", start, "DataLoader", goal, 1 + 2 * number if number else 0)


def indexed(images: np.ndarray, labels: np.ndarray, stack: ExitStack, *, records: int, shuffled: bool) -> Batches:
    for numbers in orders(records, shuffled=shuffled):
        part = numbers if shuffled else slice(numbers[0], numbers[-1] + 1)
        yield images[part], labels[part]


def converted(start: Callable[[ExitStack], Batches], stack: ExitStack) -> Batches:
    """Yield batches as nets take them."""
    for data, labels in start(stack):
        yield data.astype(np.float32), labels.astype(np.int64)


# Trainings


def trainings(folder: Path, batches: int = 40) -> Iterator[Case]:
    """Yield a case in which Caffe's quick net trains from bytes in a file, and from finished numbers in memory."""
    size = 100
    images, labels = images_of((3, 36, 36), size * batches), np.arange(size * batches) % 10
    path = folder / "bytes.h5"
    write(
        HDF5(), path, {"data": Field(images.shape[1:], "uint8"), "label": Field((), "int64")}, data=images, label=labels
    )
    changes = [["data", Crop(size=32)], ["data", Mirror()], ["data", SubMean(mean=(125.3, 123.0, 113.9))]]
    common: dict[str, Any] = {"batch_size": size, "shuffle": True}
    finished = (images[..., 2:34, 2:34] - np.float32(120)).astype(np.float32)
    sides = [
        (HDF5DataLayer(name="data", source=str(path), transformers=changes, **common), "HDF5Data, mean, crop, mirror"),
        (
            HDF5DataLayer(name="data", source=str(path), transformers=changes, ahead=2, **common),
            "HDF5Data, mean, crop, mirror, ahead = 2",
        ),
        (MemoryDataLayer(name="data", data=[finished, labels], **common), "MemoryData"),
    ]
    *ours, memory = (Side(name, partial(trained, layer), name, 0.95) for layer, name in sides)
    yield Case("training of CIFAR quick-100", ours, [memory], images.__getitem__, apart=1.0, batch=size)


class Late(Transformer):
    """Changes nothing, but takes its time, as a slow disk does."""

    seconds: Annotated[float, "for a batch"] = 0.0

    def transform(self, batch: Any, random: Any, phase: str) -> None:
        time.sleep(self.seconds)


def prefetched(folder: Path, steps: int = 50) -> Iterator[Case]:
    """Yield a case in which a source takes as long as a step of Caffe's quick net, and Prefetch runs it meanwhile."""
    size = 100
    common: dict[str, Any] = {"name": "data", "batch_size": size, "shuffle": True}
    images, labels = np.zeros((size * 4, 3, 32, 32), np.float32), np.arange(size * 4) % 10

    def made(seconds: float) -> Layer:
        return MemoryDataLayer(data=[images, labels], transformers=[["data", Late(seconds=seconds)]], **common)

    with ExitStack() as stack:
        training = trained(made(0), stack)
        next(training)
        begin = time.perf_counter()
        for _ in range(steps):
            next(training)
        seconds = (time.perf_counter() - begin) / steps
    sides = [
        Side("Prefetch", partial(trained, PrefetchLayer(layer=[made(seconds)])), ahead=3),
        Side("without Prefetch", partial(trained, made(seconds))),
    ]
    longer = Side("the longer of the two", partial(paced, made(0), seconds), "longer", 1 / 1.15)
    name = "training of CIFAR quick-100, a source as slow as a step"
    yield Case(name, sides, [longer], images.__getitem__, apart=1.0, batch=size)


def paced(source: Layer, seconds: float, stack: ExitStack) -> Batches:
    """Train so that no step takes less than this."""
    training = trained(source, stack)
    while True:
        end = time.perf_counter() + seconds
        yield next(training)
        time.sleep(max(0.0, end - time.perf_counter()))


def trained(source: Layer, stack: ExitStack) -> Batches:
    net = Net("quick", [source, *load("CIFAR quick-100").layers[2:]])
    stack.callback(net.shutdown)
    training = stack.enter_context(Solver("SGD", lr_policy=1e-3, momentum_policy=0.9).start(net))
    while True:
        training.step()
        yield (), ()


# Pictures


def pictures(folder: Path, number: int = PICTURES, phase: str = "train") -> Iterator[Case]:
    """Yield cases in which photographs are unpacked, scaled, and cut; at random places in phase train."""
    paths = photographs(folder / "photographs", number)
    dataset = partial(loaders.Photographs, paths, varies=phase == "train")
    whole = loaders.Photographs(paths, varies=False)
    for name, processes, goal in (("", 0, 1.3), (", two processes", 2, 1.5)):
        layer = ImageDataLayer(
            name="images",
            source=str(folder / "photographs"),
            batch_size=PICTURES_BATCH,
            shuffle=phase == "train",
            short_side=256,
            crop_size=(224, 224),
            mirror=True,
            threads=2,
            processes=processes,
            ahead=2,
        )
        yield Case(
            f"JPEGs of 500 x 375{name}",
            [fed(layer, phase)],
            [*loading(dataset, phase == "train", PICTURES_WORKERS, goal, PICTURES_BATCH)],
            lambda numbers: np.stack([whole.pixels(one) for one in numbers.tolist()]),
            apart=2.0,
            batch=PICTURES_BATCH,
            pause=PICTURES_PAUSE,
        )


def photographs(folder: Path, number: int) -> list[Path]:
    """Write pictures as smooth as photographs are, in folders of eight classes; return their paths, class by class."""
    from PIL.Image import Resampling, fromarray

    generator, paths = np.random.default_rng(0), []
    for index in range(number):
        pixels = np.zeros((375, 500, 3), np.float32)
        for rows, columns, amplitude in ((6, 8, 160), (24, 32, 60), (94, 125, 20), (375, 500, 4)):
            noise = (amplitude * generator.random((rows, columns, 3))).astype(np.uint8)
            pixels += np.asarray(fromarray(noise).resize((500, 375), Resampling.BICUBIC))
        path = folder / f"class {index * 8 // number}" / f"{index:04}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=90)
        paths.append(path)
    return paths


if __name__ == "__main__":
    main()
