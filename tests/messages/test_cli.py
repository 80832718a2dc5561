"""The errors of the command line, as a person reads them: the command, and what it prints to stderr."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from command_line import NET, run
from command_line import folder as folder

TRAIN = ("train", "small.toml")
PREDICT = ("predict", "small.toml", "snapshots")

MESSAGES = [
    (("trane",), ("there is no command 'trane' (did you mean 'train'?)\n  `nacre --help` lists the commands")),
    (("train",), ("Missing argument 'NET.toml'.\n  nacre train --help shows the options and arguments")),
    (("train", "smal.toml"), ("smal.toml: no such file\n  did you mean small.toml?")),
    (
        (*TRAIN, "--seed", "one"),
        (
            "Invalid value for '--seed': 'one' is not a valid integer.\n"
            "  nacre train --help shows the options and arguments"
        ),
    ),
    (
        (*TRAIN, "--set", "solver.max_itr=1"),
        (
            "small.toml: [solver]: unknown field 'max_itr' (did you mean 'max_iter'?)\n"
            "  the fields are algorithm, check_finite, clip_norm, clip_value, framework, lr_policy, max_epoch, "
            "max_iter, momentum_policy, n_accumulate, regu_coef"
        ),
    ),
    (
        (*TRAIN, "--rename", "ip1=ip2"),
        ("--rename is only for --weights, which is missing\n  add --weights FILE, or leave --rename out"),
    ),
    ((*TRAIN, "--weights", "a.h5", "--rename", "ip1"), ("--rename ip1: there is no '='\n  write --rename THERE=HERE")),
    (
        (*TRAIN, "--weights", "a.h5,,b.h5"),
        ("--weights 'a.h5,,b.h5': a name is missing\n  write --weights FILE, or FILE,FILE"),
    ),
    (
        (*TRAIN, "--weights", "a.h5", "--resume", "b.h5"),
        (
            "--weights is for a training that begins anew, but --resume continues from a snapshot\n"
            "  leave one of them out; --resume auto uses the weights if there is no snapshot yet"
        ),
    ),
    (
        (*TRAIN, "--reset-solver"),
        ("--reset-solver is only for --resume, which is missing\n  add --resume, or leave --reset-solver out"),
    ),
    (
        ("train", "plain.toml", "--resume", "auto"),
        (
            "plain.toml has no callback that saves snapshots, so there is no folder to resume from\n"
            "  add one to the net file, or use --resume PATH"
        ),
    ),
    (("test", "small.toml", "none"), ("none: no such file\n  nacre looked for it in HERE")),
    ((*PREDICT, "none.npy"), ("none.npy: no such file\n  did you mean fine.npy?")),
    (
        (*PREDICT, "wide.npy"),
        (
            "wide.npy: its records have the shape (2, 5), but the net needs (2, 4)\n"
            "  scale or cut the records to this shape"
        ),
    ),
    ((*PREDICT, "empty.npy"), "empty.npy: it has no records"),
    (
        (*PREDICT, "texts.npy"),
        "texts.npy: the array is of type <U1, but it must hold whole or floating-point numbers",
    ),
    (
        (*PREDICT, "fine.npy", "--divide", "0"),
        ("--divide 0: it must be a finite number other than 0\n  leave it out, or use another number"),
    ),
    (
        (*PREDICT, "fine.npy", "--shape", "1,x"),
        (
            "Invalid value for '--shape': '1,x' must be like 1,8,8, but 'x' is not a whole number above 0\n"
            "  nacre predict --help shows the options and arguments"
        ),
    ),
    (
        (*PREDICT, "fine.npy", "--shape", "2,5"),
        ("fine.npy: its records have the shape (2, 4), but --shape is (2, 5)\n  correct --shape, or leave it out"),
    ),
    (
        (*PREDICT, "fine.npy", "--blob", "prbo"),
        (
            "no layer writes blob 'prbo' in this phase (did you mean 'prob'?)\n"
            "  the blobs are data, label, ip1, ip2, prob"
        ),
    ),
    (
        (*PREDICT, "fine.npy", "--blob", "prob,ip1", "--out", "x.npy"),
        ("x.npy: it can hold one array, but there are 2 fields: prob, ip1\n  use a .npz or .h5 file"),
    ),
    ((*PREDICT, "fine.npy", "--classes", "none.txt"), ("none.txt: no such file\n  did you mean two.txt?")),
    (
        (*PREDICT, "fine.npy", "--classes", "two.txt"),
        (
            "two.txt: it has 2 names of classes, but blob 'prob' has 3 numbers per record\n"
            "  write one name on each line, in the order of the classes"
        ),
    ),
    (
        (*PREDICT, "fine.npy", "--set", "layer.ip1.output_dim=5"),
        (
            "the snapshot does not fit net 'small': parameter 'ip1/weight' has the shape (12, 8) in the "
            "snapshot, but (5, 8) in this net; 'ip1/bias' has the shape (12,) in the snapshot, but (5,) in "
            "this net; 'ip2/weight' has the shape (3, 12) in the snapshot, but (3, 5) in this net\n"
            "  use the net file with which the snapshot was trained"
        ),
    ),
    (
        ("layers", "Convolutoin"),
        (
            "there is no layer and no component 'Convolutoin' (did you mean 'Convolution'?)\n"
            "  `nacre layers --all` lists them"
        ),
    ),
    (
        ("graph", "small.toml", "--out", "net.pdf"),
        ("net.pdf: the ending of a drawing must be .dot or .gv or .png or .svg\n  use another name"),
    ),
    (
        ("gradcheck", "small.toml", "--tolerance=-1"),
        (
            "Invalid value for '--tolerance': -1.0 must be 0 or more, such as 1e-4\n"
            "  nacre gradcheck --help shows the options and arguments"
        ),
    ),
]


def written_error(arguments: tuple[str, ...]) -> str:
    """Return what a command that fails prints to stderr, in a folder with nets, records and maybe a snapshot."""
    Path("plain.toml").write_text(NET.partition("[[callback]]")[0])
    Path("two.txt").write_text("one\ntwo\n")
    for name, records in (("fine", np.zeros((3, 2, 4))), ("wide", np.zeros((3, 2, 5))), ("empty", np.zeros((0, 2, 4)))):
        np.save(f"{name}.npy", records)
    np.save("texts.npy", np.full((3, 2, 4), "x"))
    if "snapshots" in arguments:
        run("train", "small.toml", "--set", "solver.max_iter=1", "--json")
    return run(*arguments, code=2).err.replace(str(Path.cwd()), "HERE")


@pytest.mark.parametrize(
    ("arguments", "text"), MESSAGES, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_the_text_of_an_error(arguments: tuple[str, ...], text: str) -> None:
    assert written_error(arguments) == f"error: {text}\n"
