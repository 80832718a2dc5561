"""nacre's frameworks, by the kit's suite."""

from __future__ import annotations

from collections.abc import Iterable

from nacre.testing import Example, FrameworkTests
from nacre_parallel import AllReduce, Cluster, Downpour, Hogwild, Sandblaster


class TestAllReduce(FrameworkTests):
    component = AllReduce
    exact = True
    wrong = ({"batch": "some"},)


class TestSandblaster(FrameworkTests):
    component = Sandblaster
    exact = True
    wrong = ({"servers": 0},)

    def examples(self) -> Iterable[Example]:
        yield Example()


class TestDownpour(FrameworkTests):
    component = Downpour
    sizes = (3, 5)
    wrong = ({"staleness": -1}, {"worker_groups": 0})

    def examples(self) -> Iterable[Example]:
        yield Example()
        yield Example({"staleness": 0, "warmup_steps": 2, "decide_every": 1})


class TestDownpourOfOneGroup(FrameworkTests):
    component = Downpour
    exact = True

    def examples(self) -> Iterable[Example]:
        yield Example({"worker_groups": 1})


class TestDownpourOfWorkersThatServe(FrameworkTests):
    component = Downpour
    sizes = (2, 4, 6)

    def examples(self) -> Iterable[Example]:
        yield Example({"separate": False})
        yield Example({"separate": False, "staleness": 0, "warmup_steps": 2, "decide_every": 1})


class TestDownpourOfServerGroups(FrameworkTests):
    component = Downpour
    sizes = (4, 6)
    wrong = ({"server_groups": 0}, {"worker_groups": 3, "server_groups": 2})

    def examples(self) -> Iterable[Example]:
        yield Example({"server_groups": 2})
        yield Example({"server_groups": 2, "separate": False, "sync_freq": 2, "warmup_steps": 2})


class TestHogwild(FrameworkTests):
    component = Hogwild
    sizes = (2, 4)
    wrong = ({"sync_freq": 0},)

    def examples(self) -> Iterable[Example]:
        yield Example({"warmup_steps": 2})
        yield Example({"nodes": 2, "sync_freq": 2, "neighbours": 1})


class TestCluster(FrameworkTests):
    component = Cluster
    sizes = (3,)
    wrong = ({"nworker_groups": 0}, {"nworker_groups": 2, "nworkers_per_group": 2, "nservers_per_group": 3})

    def examples(self) -> Iterable[Example]:
        yield Example({"nworker_groups": 2, "server_worker_separate": True})
