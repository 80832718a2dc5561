"""Unroll: layers repeated over the steps of sequences."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Annotated, Any

from nacre import ConfigError, Inner, Layer, Layers, Names, at_least, default, nearest

from ..fields import Learning
from ..shapes.silence import SilenceLayer
from ..shapes.stack import StackLayer
from ..shapes.unstack import UnstackLayer
from ..shapes.zeros import ZerosLayer
from .chain import Chain, repetitions
from .connections import Connection, Connections


class UnrollLayer(Learning):
    """The same layers at every step of sequences, with the same parameters: a recurrent net as a chain of layers.

    Sequences are (images, steps, ...); the layers see one step of them, (images, ...). At step t they read the bottoms'
    step t and the `connections`, which bring blobs of other steps, and write step t of the tops:
    h_t = layers(x_t, h_{t-1}), with a connection from `h` that is called, for example, `before`. Parameters are named
    without the step, `unroll/ip/weight`, so that other numbers of steps load and share them; all else has the number,
    counted from 1, in its full name: `unroll/3/drop`. After SINGA's unrolling.

    Example:
        [[layer]]
        type = "Unroll"
        bottoms = ["data"]  # (8, 20, 5)
        tops = ["h"]  # (8, 20, 10)
        steps = 20
        connections = [{ type = "OneToOne", name = "before", blob = "h", shape = [10] }]
        layer = [
            { type = "Concat", bottoms = ["data", "before"] },
            { type = "InnerProduct", output_dim = 10, neuron = "Tanh" },
        ]
    """

    bottoms: Annotated[Names, at_least(1), "sequences, and what steps read whole"]
    tops: Annotated[Names, at_least(1), "blobs of the layers, as sequences"]
    steps: Annotated[int, repetitions, "number of steps"]
    connections: Annotated[Connections, "what the layers read of other steps"] = default(())
    whole: Annotated[Names, "bottoms that every step reads whole; those that are `initial` are, too"] = default(())
    last: Annotated[Names, "tops that are the last step's blob alone, without an axis of steps"] = default(())
    layer: Annotated[Layers, at_least(1), "the layers of one step"]

    def _complete(self) -> None:
        super()._complete()
        initial = {one.initial for one in self.connections}
        named = [one.name for one in self.connections]
        first = [one for one in (*self.bottoms, *named) if one not in initial]
        chain = Chain(self.name, self.layer, first, self.tops)
        vars(self).update(layer=chain.layers, _chain=chain)

    def complaints(self) -> Iterator[str]:
        yield from super().complaints()
        for field, within in (("whole", "bottoms"), ("last", "tops")):
            for name in getattr(self, field):
                if name not in (known := getattr(self, within)):
                    yield f"{field} has '{name}', but the {within} are {', '.join(known)}{nearest(name, known)}"
        written = {top for one in self._inner for top in one.tops or getattr(one.layer, "tops", ())}
        taken = {*self.bottoms, *written}
        sources = written | ({*self.bottoms} - self._whole())
        named = [one.name for one in self.connections]
        read = {bottom for one in self._inner for bottom in _bottoms(one.layer)}
        read |= {one.initial for one in self.connections}
        for one in self.connections:
            if one.name not in read:
                yield f"connection '{one.name}', but no layer reads it{nearest(one.name, read)}"
            if one.name in taken or named.count(one.name) > 1:
                yield f"connection '{one.name}': another blob has this name; give it one of its own"
            if one.blob not in sources:
                known = nearest(one.blob, sources)
                yield f"connection '{one.name}': blob='{one.blob}', but there is no such blob in a step{known}"
            if one.initial and one.initial not in {*self.bottoms, *named}:
                what = f"initial='{one.initial}', but there is no such bottom or connection"
                yield f"connection '{one.name}': {what}{nearest(one.initial, {*self.bottoms, *named})}"

    def _whole(self) -> set[str]:
        return {*self.whole, *(one.initial for one in self.connections if one.initial in self.bottoms)}

    def implied(self, inner: Any) -> Collection[str]:
        return vars(self)["_chain"].implied(inner)

    def expand(self) -> Sequence[Inner | Layer]:
        return Unrolled(self, self._inner).inner()

    @property
    def _inner(self) -> list[Inner]:
        return vars(self)["_chain"].inner


def _bottoms(layer: Layer) -> tuple[str, ...]:
    return tuple(getattr(layer, "bottoms", ()))


class StepLayer(Layer):
    """The layers of one step: the same object at every step."""

    bottoms: Names
    tops: Names

    def expand(self) -> Sequence[Inner | Layer]:
        return vars(self)["_inner"]


class Unrolled:
    """The layers that an Unroll is made of, and the names of its blobs: that of step 3's `h` is `3/h`."""

    def __init__(self, unroll: UnrollLayer, layers: Sequence[Inner]) -> None:
        self.unroll = unroll
        self.steps = range(1, unroll.steps + 1)
        self.whole = unroll._whole()  # pyright: ignore[reportPrivateUsage]
        self.connections = {one.name: one for one in unroll.connections}
        read = {name for one in layers for name in _bottoms(one.layer)}
        brought = {one.blob for one in unroll.connections}
        self.read = [name for name in (*unroll.bottoms, *self.connections) if name in read]
        self.written = [*unroll.tops, *sorted(brought - {*unroll.tops, *unroll.bottoms})]
        self.made: dict[str, Inner] = {}
        self.used: set[str] = set()
        self.step = StepLayer(name="step", bottoms=self.read, tops=self.written)
        vars(self.step)["_inner"] = layers

    def inner(self) -> list[Inner]:
        """Return the layers: those that take the bottoms apart, the steps, and those that put the tops together."""
        unroll = self.unroll
        used = {*self.read, *(one.blob for one in unroll.connections)}
        apart = [name for name in unroll.bottoms if name in used and name not in self.whole]
        inner = [
            self._new(UnstackLayer, f"{name}.steps", [name], [f"{step}/{name}" for step in self.steps])
            for name in apart
        ]
        for step in self.steps:
            below = tuple(self._read(name, step) for name in self.read)
            above = tuple(self._blob(name, step) for name in self.written)
            inner.append(Inner(self.step, str(step), below, above, owner=""))
        for top in unroll.tops:
            if top not in unroll.last:
                inner.append(self._new(StackLayer, f"{top}.sequence", [f"{step}/{top}" for step in self.steps], [top]))
                self.used.update(f"{step}/{top}" for step in self.steps)
        unread = {self._blob(name, step) for name in (*apart, *self.written) for step in self.steps}
        unread -= {*self.used, *unroll.tops}
        inner += self.made.values()
        if unread:  # such as the last step's blob that only the next one would read, of the layers or of a bottom
            inner.append(self._new(SilenceLayer, "unread", sorted(unread)))
        return inner

    def _blob(self, name: str, step: int) -> str:
        """Return the name of a step's blob within the container."""
        last = name in self.unroll.last and step == self.unroll.steps
        return name if last or name in self.whole else f"{step}/{name}"

    def _read(self, name: str, step: int, before: tuple[str, ...] = ()) -> str:
        """Return the blob that a bottom or a connection means at a step."""
        if name not in self.connections:
            self.used.add(blob := self._blob(name, step))
            return blob
        one = self.connections[name]
        found = self._sources(one, step)
        if isinstance(found, tuple):
            below = [self._blob(one.blob, number) for number in found]
            top = f"{name}/{'+'.join(map(str, found))}"
            self.used.update(below)
            return self._make(top, lambda label: self._new(StackLayer, f"{name}.{label}", below, [top]))
        if found in self.steps:
            self.used.add(source := self._blob(one.blob, found))
            return source
        if one.initial in before:
            raise ConfigError(f"{self.unroll.name}: connection '{name}' is its own initial: {' of '.join(before)}")
        if one.initial:
            return self._read(one.initial, step, (*before, name))
        if not one.shape:
            raise ConfigError(
                f"{self.unroll.name}: connection '{name}' has nothing to read at step {step}",
                "give it the `shape` of zeros, or `initial`, such as a bottom with first values",
            )
        image = self.unroll.bottoms[0]
        top, shape = f"{name}/0", {"shape": one.shape}
        return self._make(top, lambda label: self._new(ZerosLayer, f"{name}.{label}", [image], [top], **shape))

    def _sources(self, one: Connection, step: int) -> int | tuple[int, ...]:
        try:
            found = one.source(step, self.unroll.steps)
        except IndexError:
            found = ()
        found = found if isinstance(found, int) else tuple(found)
        if found == () or (isinstance(found, tuple) and not set(found) <= set(self.steps)):
            raise ConfigError(
                f"{self.unroll.name}: connection '{one.name}' reads steps that do not exist at step {step}: {found}",
                f"its list must have an entry for each step, of steps from 1 to {self.unroll.steps}",
            )
        return found

    def _make(self, top: str, make: Callable[[str], Inner]) -> str:
        """Note the layer that makes a blob, once; return the blob."""
        if top not in self.made:
            self.made[top] = make(str(len(self.made)))
        return top

    @staticmethod
    def _new(kind: type[Layer], name: str, bottoms: Sequence[str], tops: Sequence[str] = (), **fields: Any) -> Inner:
        """Return a layer of its own name, connected to blobs whose names nobody can write."""
        own: dict[str, Any] = {"bottoms": [one.replace("/", ".") for one in bottoms]}
        if tops:
            own["tops"] = [one.replace("/", ".").replace("+", ".") for one in tops]
        return Inner(kind(name=name, **own, **fields), bottoms=tuple(bottoms), tops=tuple(tops))
