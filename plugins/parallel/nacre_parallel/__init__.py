"""nacre's own communicators, by which several processes train one net, and the frameworks that say how they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .frameworks.all_reduce import AllReduce as AllReduce
    from .launch import Ranks as Ranks
    from .local import LocalCommunicator as LocalCommunicator
    from .mpi import MpiCommunicator as MpiCommunicator
    from .shm import ShmCommunicator as ShmCommunicator

nacre_api = "1"

COMMUNICATORS = {
    "local": "nacre_parallel.local:LocalCommunicator",
    "mpi": "nacre_parallel.mpi:MpiCommunicator",
    "shm": "nacre_parallel.shm:ShmCommunicator",
}
FRAMEWORKS = {"AllReduce": "nacre_parallel.frameworks.all_reduce:AllReduce"}
OTHERS = {"Ranks": "nacre_parallel.launch:Ranks"}


@hookimpl
def offer_components() -> dict[str, dict[str, str]]:
    return {
        "communicator": COMMUNICATORS,
        "framework": FRAMEWORKS,
        "default_of": {"framework": FRAMEWORKS["AllReduce"]},
    }


__getattr__ = lazy(__name__, {place.partition(":")[2]: place for place in COMMUNICATORS.values()}, FRAMEWORKS, OTHERS)
