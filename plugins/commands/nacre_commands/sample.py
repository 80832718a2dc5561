"""`nacre sample`: a text that a trained net goes on with, one character or word after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nacre.cli import net_argument, net_options, snapshot_argument

if TYPE_CHECKING:
    import numpy as np

    from nacre import Net, Snapshot, Wanted
    from nacre.config import NetFile


def _temperature(_: click.Context, __: click.Parameter, value: float) -> float:
    if not 0 <= value < float("inf"):
        raise click.BadParameter(f"{value:g} must be 0 or more, such as 0.8")
    return value


@click.command()
@net_argument
@snapshot_argument
@click.option("--prompt", required=True, help="Text to go on with.")
@click.option(
    "--length", type=click.IntRange(1), default=300, show_default=True, help="Number of characters or words to add."
)
@click.option(
    "--temperature",
    type=float,
    default=1.0,
    show_default=True,
    callback=_temperature,
    help="Below 1 likely ones are drawn more often; with 0 the likeliest one is always taken.",
)
@click.option("--blob", default="", metavar="NAME", help="Blob of scores; by default the one that no layer reads.")
@net_options
def command(
    net: Path,
    snapshot: Path,
    prompt: str,
    length: int,
    temperature: float,
    blob: str,
    backend: str | None,
    seed: int | None,
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Let a net that was trained on texts go on with a text.

    The net reads one character or word at a time, and its layers carry their states on. Scores become probabilities by
    a softmax; what is drawn with them is read next. The vocabulary is that of the snapshot. The text is the same for
    the same --seed.
    """
    from nacre.cli import print_json, read_trained

    file, saved = read_trained(net, sets, seed, snapshot)
    text = sample(file, saved, prompt, length, temperature, blob, backend)
    if as_json:
        print_json({"prompt": prompt, "text": text})
    else:
        click.echo(text)


def sample(
    file: NetFile,
    saved: Snapshot,
    prompt: str,
    length: int = 300,
    temperature: float = 1.0,
    blob: str = "",
    backend: str | None = None,
) -> str:
    """Return a text that begins with the prompt, and goes on as a trained net does.

    `file` has to know the vocabulary of the snapshot (`file.fitted`), as that of `nacre.cli.read_trained`.

    Raises:
        DataError: the net does not go on with texts, or the prompt has what is not in the vocabulary.
    """
    from nacre import wanted
    from nacre.cli import written_net

    want = wanted(file.layers, blob, file.algorithm)
    numbers, others = inputs_of(file, want)
    vocabulary = Vocabulary.of(file.fitted[numbers])
    begin = vocabulary.numbers(prompt)
    shapes = dict.fromkeys((numbers, *others), (1,))
    with written_net(file, want, shapes, 1, backend, {numbers: "int64"}) as net:
        net.parameters.load(saved, strict=False)
        check_carries(file, net)
        for other in others:
            net.write(other, [[1]])  # no stream begins anew
        drawn = [*sampled(net, numbers, want.outputs[0], begin, len(vocabulary.names), length, temperature)]
    return vocabulary.text([*vocabulary.pieces(prompt), *(vocabulary.names[number] for number in drawn)])


def inputs_of(file: NetFile, want: Wanted) -> tuple[str, list[str]]:
    """Return the blob of a source with the numbers of a text, and the others, which say where its streams go on.

    Raises:
        DataError: the snapshot knows no vocabulary for what the net reads, or the net reads anything else.
    """
    from nacre import DataError

    if len(want.outputs) > 1:
        raise DataError(
            f"{file.path}: no layer reads the blobs {', '.join(want.outputs)}, and any of them may be the scores",
            "choose one (--blob)",
        )
    texts = [blob for blob in want.needed if "units" in file.fitted.get(blob, {})]
    read = ", ".join(want.needed) or "nothing"
    if not texts:
        raise DataError(
            f"{file.path}: the snapshot has no vocabulary of a text for what the net reads ({read})",
            "train the net with a source of texts, such as CharText",
        )
    others = [blob for blob in want.needed if blob not in texts]
    if len(texts) > 1 or not {*others} <= {*want.source_of(texts[0]).tops}:
        raise DataError(
            f"{file.path}: a net for `sample` must read the numbers of one text, and nothing but where its streams go "
            f"on beside them; but it reads {read}",
            "exclude layers that read other blobs from the phase predict, or choose a blob that does not need them "
            "(--blob)",
        )
    return texts[0], others


def check_carries(file: NetFile, net: Net) -> None:
    """Raise DataError if no layer carries a state: then each step would know only one character or word."""
    from nacre import DataError

    if not net.carries:
        raise DataError(
            f"{file.path}: no layer carries a state from step to step, so the net would know only what was drawn last",
            "add carry = true to its recurrent layers, or for this command: --set layer.NAME.carry=true",
        )


@dataclass(frozen=True)
class Vocabulary:
    """The names of the numbers of a text, which consists of characters or of words; perhaps one stands for all others.

    Words stand between white space, and the end of a line is a word too.
    """

    names: Sequence[str]
    units: str
    unknown: str | None

    @classmethod
    def of(cls, fitted: Mapping[str, Any]) -> Vocabulary:
        return cls(fitted["classes"], fitted["units"], fitted.get("unknown"))

    def numbers(self, text: str) -> list[int]:
        """Return the numbers of a text. Raises DataError if it is empty, or has what is not in the vocabulary."""
        from nacre import DataError

        pieces = self.pieces(text)
        if not pieces:
            raise DataError(f"the prompt has no {self.units}s", "give at least one: it is what the net reads first")
        places = {name: number for number, name in enumerate(self.names)}
        if self.unknown is None and (strange := [piece for piece in pieces if piece not in places]):
            raise DataError(
                f"the prompt has the {self.units} {strange[0]!r}, which is not one of the {len(self.names)} "
                f"{self.units}s of the snapshot's vocabulary",
                'use others, or train with unknown = "own", so that all unknown ones share a number',
            )
        return [places[piece if piece in places else str(self.unknown)] for piece in pieces]

    def pieces(self, text: str) -> list[str]:
        """Return the characters or words of a text."""
        return [*text] if self.units == "character" else re.findall(r"\n|\S+", text)

    def text(self, pieces: Sequence[str]) -> str:
        """Return the text of characters or words."""
        return "".join(pieces) if self.units == "character" else re.sub(r" ?\n ?", "\n", " ".join(pieces))


def sampled(
    net: Net, blob: str, output: str, begin: Sequence[int], count: int, length: int, temperature: float
) -> Iterator[int]:
    """Yield the numbers that follow those of the prompt; `count` is that of the vocabulary."""
    from nacre.random import Random

    random = Random(net.seed, "sample", lambda: 0).generator()
    read = [*begin]
    for _ in range(length):
        for number in read:
            net.write(blob, [[number]])
            net.forward()
            net.advance()
        number = drawn(net.blob(output), output, count, temperature, random)
        yield number
        read = [number]


def drawn(scores: np.ndarray, blob: str, count: int, temperature: float, random: np.random.Generator) -> int:
    """Return the number of a class that is drawn by its score, or by its probability if scores add up to 1.

    Raises:
        DataError: there is not one score for each class, or a score is not finite.
    """
    import numpy as np

    from nacre import DataError

    given = scores.reshape(-1).astype("float64")
    if given.size != count:
        raise DataError(
            f"the blob '{blob}' has {given.size} numbers, but the vocabulary has {count} names",
            "choose a blob with a score for each of them (--blob)",
        )
    if not np.isfinite(given).all():
        raise DataError(f"the blob '{blob}' has numbers that are not finite", "look at how the training went")
    if not temperature:
        return int(given.argmax())
    if (given >= 0).all() and np.isclose(given.sum(), 1, atol=1e-3):
        with np.errstate(divide="ignore"):
            given = np.log(given)
    with np.errstate(over="ignore"):  # far below the highest a share is 0
        shares = np.exp((given - given.max()) / temperature)
    return int(random.choice(count, p=shares / shares.sum()))
