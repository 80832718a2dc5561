"""Pictures: files, folders with one sub-folder for each class, and lists of them."""

from __future__ import annotations

import math
import os
import re
import shutil
import warnings
from collections.abc import Mapping, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from nacre import Check, DataError, Field, FileKey, Paths, Reader, Store, Writer, class_order, default
from nacre.files import Watched, check_file, os_errors, unchanged

from ..checks import checked_rows
from ..codecs.picture import MODES, Picture, ending_of
from .lines import check_different
from .names import DATA, LABEL, data_and_label

MOST_CLASSES = 1 << 16  # that are numbers: each gets a folder, also those without a picture
WHOLE = re.compile(r"-?[0-9]{1,18}\Z")  # a label that int64 holds
HEAD = 1 << 16  # bytes of a list in which its first line is looked for
PARTS = re.compile(r"[/\\:]")  # what is between the parts of a key: of a path, or behind the name of a file
LONGEST, LONGEST_FILE = 200, 255  # bytes of a name that a key becomes, and of one that a file has
REMEDY = "put the pictures of each class into a sub-folder with the name of the class"

UNREAD = (".avif", ".cr2", ".dng", ".heic", ".heif", ".jfif", ".jp2", ".jxl", ".nef", ".raw")
"""Endings of pictures, as telephones and cameras write them, that no codec reads."""

RootFolder = Annotated[
    Paths,
    Check(lambda value, _: None if len(value) <= 1 else "it must be a single folder"),
    "folder that the paths in lists are relative to; by default the list's own",
]


class Pictures(Store):
    """Pictures in files: a single one, a folder, or a list of paths (`.txt`).

    In a folder each sub-folder is a class, to which the pictures in it belong at any depth; or there are no
    sub-folders, and no labels. Where only pictures are wanted, as by `predict`, they may be anywhere. A list has a
    path, or a path and a label, on each line, relative to `root_folder`; labels are whole numbers, which stay as they
    are, or names of classes, behind a tab if they contain blanks. Names that begin with a dot are ignored, and so are
    files that are no pictures by their names. Fields are called "data" and "label", unless other names are wanted.
    """

    endings = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
    folder = f"pictures that end in {', '.join(endings)}"
    root_folder: RootFolder = default(())

    @classmethod
    def fits(cls, path: Path) -> bool:
        """Return whether it is a picture by its name, a folder with pictures, or a list whose first line names one."""
        try:
            if path.is_dir():
                return _has_pictures(path)
            if path.suffix.lower() != ".txt" or not path.is_file():
                return super().fits(path)
            with path.open("rb") as file:
                text = file.read(HEAD).decode("utf-8-sig", "replace").strip()
            return bool(text) and _split(text.split("\n", 1)[0].strip()) is not None
        except PermissionError:
            raise
        except OSError:
            return False

    def open(self, path: Path, fields: Sequence[str] = ()) -> Reader:
        with os_errors(path, "cannot be read", DataError):
            if path.is_dir():
                labelled = LABEL in data_and_label(path, fields)
                return PicturesReader(str(path), path, fields, *_of_folder(path, labelled=labelled))
            if path.suffix.lower() == ".txt":
                root = Path(self.root_folder[0]) if self.root_folder else path.parent
                return PicturesReader(str(path), root, fields, *_of_list(path))
            check_file(path, "a picture")
            return PicturesReader(str(path), path.parent, fields, [path.name], None, ())

    def create(self, path: Path, fields: Mapping[str, Field], *, append: bool = False) -> Writer:
        """Begin a folder of pictures, with a sub-folder for each class."""
        if append:
            raise DataError(f"{path}: nothing can be appended to a folder of pictures", "use an .h5 file")
        return PicturesWriter(path, fields)


ENDINGS = f"endings of pictures are {', '.join(Pictures.endings)}"


class PicturesReader(Reader):
    """Pictures by their paths; `labels` are None, whole numbers, or numbers of `classes`."""

    named = True

    def __init__(
        self,
        where: str,
        root: Path,
        fields: Sequence[str],
        names: Sequence[str],
        labels: np.ndarray | None,
        classes: tuple[str, ...],
    ) -> None:
        wanted = data_and_label(where, fields or (DATA, LABEL)[: 1 if labels is None else 2])
        if labels is None and LABEL in wanted:
            remedy = f"{REMEDY}, or write a list with a path and a label on each line"
            raise DataError(f"{where}: the pictures have no labels, but '{wanted[LABEL]}' is wanted", remedy)
        self.root = root
        self.names = names
        self.labels = labels
        self.count: int | None = len(names)
        parts = {DATA: Field(None, "uint8", codec="Picture"), LABEL: Field((), "int64", classes)}
        self.fields: Mapping[str, Field] = {name: parts[part] for part, name in wanted.items()}

    def read(self, numbers: np.ndarray, out: Mapping[str, Any]) -> None:
        for name, rows in out.items():
            if self.fields[name].codec:
                rows[:] = [self._bytes(number) for number in numbers.tolist()]
            else:
                assert self.labels is not None
                rows[...] = self.labels[numbers]

    def _bytes(self, number: int) -> bytes:
        path = self.root / self.names[number]
        check_file(path, "a picture")
        with (
            os_errors(path, "cannot be read", DataError),
            path.open("rb") as file,
            Watched(file.fileno(), str(path)).reading(),
        ):
            return file.read()

    def key(self, number: int) -> str:
        """Return the path; bytes in it that are no text are escaped."""
        name = self.names[number]
        return FileKey(name.encode("utf-8", "backslashreplace").decode(), Path(name).name)


def _is_picture(name: str) -> bool:
    return name.lower().endswith(Pictures.endings) and not name.startswith(".")


# Folders


def _has_pictures(path: Path) -> bool:
    for _, folders, files in os.walk(path, onerror=_refuse):
        if any(map(_is_picture, files)):
            return True
        folders[:] = [name for name in folders if not name.startswith(".")]
    return False


def _refuse(error: OSError) -> None:
    """Raise an error that `os.walk` would pass over: a folder that cannot be read would seem empty."""
    raise error


def _of_folder(path: Path, *, labelled: bool) -> tuple[list[str], np.ndarray | None, tuple[str, ...]]:
    """Return the paths of the pictures in a folder, their labels, and the classes.

    Where no labels are wanted, pictures may also be beside the sub-folders; the labels are not used then.
    """
    names, others, folders = _entries(path, path)
    if labelled and folders and names:
        message = f"{path}: it has pictures, such as '{names[0]}', beside sub-folders, such as '{folders[0]}'"
        raise DataError(f"{message}: the class of these pictures is not known", REMEDY)
    classes, labels = class_order(folders), [-1] * len(names)
    empty: dict[str, list[str]] = {}
    for label, one in enumerate(classes):
        inside, beside = _all_inside(path / one, path)
        names += [f"{one}/{name}" for name in inside]
        labels += [label] * len(inside)
        if labelled and beside and not inside:
            empty[one] = beside
        others += [f"{one}/{name}" for name in beside]
    if not names:
        raise DataError(f"{path}: it has no pictures{_ignored(others)}", ENDINGS)
    unread = [name for name in others if name.lower().endswith(UNREAD) and name.partition("/")[0] not in empty]
    problems = [f"class '{one}' has no picture{_ignored(beside)}" for one, beside in empty.items()]
    problems += [_ignored(unread, "pictures in other formats").removeprefix("; ")] * bool(unread)
    if labelled and (parts := _alike(names, classes)):
        few, inner = (", ".join(map(repr, some[:4])) + ", ..." * (len(some) > 4) for some in (classes, parts))
        one = path / ("train" if "train" in classes else classes[0])
        message = f"{path}: the classes are {few}, but each has the sub-folders {inner}"
        warnings.warn(f"{message}: if these are the classes, give {one}", stacklevel=2)
    for problem in problems:
        warnings.warn(f"{path}: {problem}; {ENDINGS}", stacklevel=2)
    return names, np.array(labels, np.int64) if folders else None, classes


def _alike(names: Sequence[str], classes: Sequence[str]) -> list[str]:
    """Return the sub-folders that each class has, if all have the same, and no pictures beside them.

    So does a folder with parts, such as train/cat, train/dog, test/cat, test/dog.
    """
    inside: dict[str, set[str]] = {one: set() for one in classes}
    for name in names:
        one, _, rest = name.partition("/")
        inside.setdefault(one, set()).add(rest.partition("/")[0] if "/" in rest else "")
    first, *others = inside.values() if inside else [set[str]()]
    same = len(first) > 1 and "" not in first and others and all(one == first for one in others)
    return sorted(first) if same else []


def _ignored(names: Sequence[str], what: str = "files with other endings") -> str:
    """Return how many files are ignored, as the end of a sentence."""
    return f"; of {len(names)} {what}, such as '{names[0]}', nothing is read" if names else ""


def _all_inside(folder: Path, root: Path) -> tuple[list[str], list[str]]:
    """Return the pictures and the other files in a folder at any depth, in the order of their paths."""
    found: list[str] = []
    others: list[str] = []
    waiting = [""]
    while waiting:
        inner = waiting.pop()
        pictures, beside, folders = _entries(folder / inner, root)
        found += [inner + name for name in pictures]
        others += beside
        waiting += [f"{inner}{name}/" for name in folders]
    return sorted(found), others


def _entries(folder: Path, root: Path) -> tuple[list[str], list[str], list[str]]:
    """Return the names of the pictures, of the other files, and of the folders in a folder."""
    pictures: list[str] = []
    others: list[str] = []
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                _check_link(entry, root)
            into = folders if entry.is_dir() else pictures if _is_picture(entry.name) else others
            into.append(entry.name)
    return sorted(pictures), others, folders


def _check_link(entry: os.DirEntry[str], root: Path) -> None:
    target = Path(os.path.realpath(entry.path))
    if entry.is_dir():
        problem = "a link to a folder"
    elif not target.is_relative_to(os.path.realpath(root)):
        problem = f"a link out of the folder, to {target}"
    else:
        return
    raise DataError(f"{entry.path}: this is {problem}", "copy what it leads to, or write a list of the pictures")


# Lists


def _of_list(path: Path) -> tuple[list[str], np.ndarray | None, tuple[str, ...]]:
    """Return the paths in a list, their labels, and the classes."""
    check_file(path, "a list of pictures")
    names: list[str] = []
    labels: list[str] = []
    try:
        with unchanged(path), path.open(encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if line := line.strip():
                    name, label = _split_checked(line, f"{path}: line {number}", labels[:1])
                    names.append(name)
                    labels.append(label)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: this is not a list of pictures: {error}", "write it in UTF-8") from error
    if not names:
        raise DataError(f"{path}: this list is empty")
    if not labels[0]:
        return names, None, ()
    if WHOLE.match(labels[0]):
        return names, np.array(labels).astype(np.int64), ()
    classes = class_order(labels)
    numbers = {name: number for number, name in enumerate(classes)}
    return names, np.array([numbers[label] for label in labels], np.int64), classes


def _split_checked(line: str, where: str, first: Sequence[str]) -> tuple[str, str]:
    """Return the path and the label on a line; the label must be of the same kind as the `first` one."""
    found = _split(line)
    if found is None:
        endings = ", ".join(Pictures.endings)
        message = f"{where} is neither the path of a picture nor a path and a label: {line[:80]!r}"
        raise DataError(message, f"pictures end in {endings}; names of classes with blanks stand behind a tab")
    if first and _kind(found[1]) != _kind(first[0]):
        message = f"{where} has {_kind(found[1])}, but the first picture has {_kind(first[0])}"
        raise DataError(message, "write all lines alike")
    return found


def _split(line: str) -> tuple[str, str] | None:
    """Return the path and the label on a line; None if there is no picture."""
    if "\0" in line:
        return None
    if line.lower().endswith(Pictures.endings):
        return line, ""
    name, _, label = line.rpartition("\t" if "\t" in line else " ")
    name = name.rstrip()
    return (name, label.strip()) if name.lower().endswith(Pictures.endings) else None


def _kind(label: str) -> str:
    return "a number as its label" if WHOLE.match(label) else "the name of a class" if label else "no label"


# Writing


class PicturesWriter(Writer):
    """Files in a folder, which is beside its place until it is complete.

    They have the names that the records have, else numbers in the records' order. Pictures are written as PNG, bytes as
    they are.
    """

    def __init__(self, path: Path, fields: Mapping[str, Field]) -> None:
        self.path = path
        self.fields = fields
        self.codec = Picture()
        self.data, self.label = _picture_and_label(path, fields)
        self.classes = fields[self.label].classes if self.label else ()
        check_different(path, self.label, self.classes)
        self.count = 0
        self.taken: set[str] = set()
        if os.path.lexists(path):
            raise DataError(
                f"{path}: it exists already, and a folder is not replaced", "remove it, or use another name"
            )
        self.temporary: Path | None = path.with_name(f".{path.name}.tmp")
        with os_errors(path, "cannot be written", DataError):
            if self.temporary.exists():  # a killed process left it
                shutil.rmtree(self.temporary)
            self.temporary.mkdir()
            self.own = self.temporary.stat()
            # while it is open, its number goes to no other folder; Windows opens no folder, and uses no number again
            self.held = os.open(self.temporary, os.O_RDONLY) if os.name == "posix" else None
        self.made = 0
        try:
            for name in self.classes:
                self._make(name)
        except BaseException:
            self.close(commit=False)
            raise

    def _make(self, name: str) -> None:
        if not name or name.startswith(".") or re.search(r"[/\\\0]", name):
            raise DataError(f"{self.path}: the class {name!r} cannot be the name of a folder", "rename the class")
        assert self.temporary is not None
        with os_errors(self.path, "cannot be written", DataError):
            (self.temporary / name).mkdir()

    def append(self, rows: Mapping[str, Any], keys: Sequence[str] = ()) -> None:
        assert self.temporary is not None
        self._check_own(self.temporary)
        rows = checked_rows(self.path, self.fields, rows)
        labels = np.asarray(rows[self.label]).reshape(-1).tolist() if self.label else None
        for row, picture in enumerate(rows[self.data]):
            folder = "" if labels is None else f"{self._folder(labels[row])}/"
            stem, ending = _stem(keys[row]) if keys else ("", "")
            if isinstance(picture, bytes):
                data, ending = picture, ending or ending_of(picture)
            else:
                data, ending = self.codec.encode({self.data: np.asarray(picture)}), ".png"
            name = self._free(folder, stem, ending)
            with os_errors(self.path, "cannot be written", DataError):
                (self.temporary / name).write_bytes(data)
            self.count += 1

    def _free(self, folder: str, stem: str, ending: str) -> str:
        """Return a name in a folder that no file has yet: with this stem, if there is one and it is not too long."""
        number = f"{self.count:08d}"
        stems = chain([stem or number, f"{stem}-{number}", number], (f"{number}-{again}" for again in count(1)))
        names = (f"{one}{ending}" for one in stems)
        free = next(one for one in names if _size(one) <= LONGEST_FILE and not self._has(f"{folder}{one}"))
        self.taken.add(f"{folder}{free}".lower())
        return f"{folder}{free}"

    def _has(self, name: str) -> bool:
        return name.lower() in self.taken  # some file systems do not tell them apart

    def _folder(self, label: int) -> str:
        """Return the folder of a class; without names, all smaller numbers get folders too, or labels would change."""
        most = len(self.classes) or MOST_CLASSES
        if not 0 <= label < most:
            message = f"{self.path}: record {self.count} has the label {label}"
            raise DataError(message, f"labels must be from 0 to {most - 1}: they count the classes")
        if self.classes:
            return self.classes[label]
        for number in range(self.made, label + 1):
            self._make(str(number))
        self.made = max(self.made, label + 1)
        return str(label)

    def close(self, commit: bool) -> None:
        if self.temporary is None:
            return
        temporary, self.temporary = self.temporary, None
        try:
            if commit:
                with os_errors(self.path, "cannot be written", DataError):
                    if hasattr(os, "sync"):
                        os.sync()  # the files reach the disk before the folder has its name
                    self._check_own(temporary)
                    temporary.rename(self.path)
        finally:
            if self._owns(temporary):
                shutil.rmtree(temporary, ignore_errors=True)
            if self.held is not None:
                os.close(self.held)

    def _check_own(self, temporary: Path) -> None:
        """Raise a DataError if another writer took the folder for one that was left behind."""
        if not self._owns(temporary):
            raise DataError(f"{self.path}: another process writes this folder too", "use another name")

    def _owns(self, temporary: Path) -> bool:
        try:
            return os.path.samestat(temporary.stat(), self.own)
        except FileNotFoundError:
            return False


def _stem(key: str) -> tuple[str, str]:
    """Return what a file can be called after the key of a record, and its ending if the key is that of a picture.

    The name of a file stays as it is, also with colons, or with bytes that are not UTF-8.
    """
    file = Path(key.file).name if isinstance(key, FileKey) else ""
    name = file or PARTS.split(key)[-1].strip()
    stem, dot, ending = name.rpartition(".") if name.lower().endswith(Pictures.endings) else (name, "", "")
    fits = "\0" not in name if file else name.isprintable()
    fits = fits and stem and not stem.startswith(".") and _size(name) <= (LONGEST_FILE if file else LONGEST)
    return (stem if fits else ""), dot + ending


def _size(name: str) -> float:
    """Return how many bytes the name of a file has; one that cannot be a file's is too long."""
    try:
        return len(os.fsencode(name))
    except UnicodeEncodeError:
        return math.inf


def _picture_and_label(path: Path, fields: Mapping[str, Field]) -> tuple[str, str]:
    """Return the names of the field with pictures and of the one with labels, "" if there is none."""
    pictures = [name for name, field in fields.items() if _holds_pictures(field)]
    labels = [
        name for name, field in fields.items() if field.shape in ((), (1,)) and np.dtype(field.dtype).kind in "biu"
    ]
    if len(pictures) != 1 or len(labels) > 1 or len(fields) != len(pictures) + len(labels):
        listed = ", ".join(f"'{name}' of shape {field.shape} and type {field.dtype}" for name, field in fields.items())
        message = f"{path}: a folder of pictures cannot hold {listed or 'no field'}"
        raise DataError(message, "it holds pictures, (1, 3 or 4, rows, columns) of uint8, and at most one label")
    return pictures[0], labels[0] if labels else ""


def _holds_pictures(field: Field) -> bool:
    if field.codec:
        return field.codec == "Picture"
    return field.dtype == "uint8" and (field.shape is None or (len(field.shape) == 3 and field.shape[0] in MODES))
