"""nacre's own communicators, by which several processes train one net, and the frameworks that say how they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre import hookimpl, lazy

if TYPE_CHECKING:
    from .frameworks.all_reduce import AllReduce as AllReduce
    from .frameworks.cluster import Cluster as Cluster
    from .frameworks.downpour import Downpour as Downpour
    from .frameworks.hogwild import Hogwild as Hogwild
    from .frameworks.sandblaster import Sandblaster as Sandblaster
    from .launch import Ranks as Ranks
    from .local import LocalCommunicator as LocalCommunicator
    from .mpi import MpiCommunicator as MpiCommunicator
    from .nccl import NcclCommunicator as NcclCommunicator
    from .shm import ShmCommunicator as ShmCommunicator

nacre_api = "1"

COMMUNICATORS = {
    "local": "nacre_parallel.local:LocalCommunicator",
    "mpi": "nacre_parallel.mpi:MpiCommunicator",
    "nccl": "nacre_parallel.nccl:NcclCommunicator",
    "shm": "nacre_parallel.shm:ShmCommunicator",
}
FRAMEWORKS = {
    "AllReduce": "nacre_parallel.frameworks.all_reduce:AllReduce",
    "Cluster": "nacre_parallel.frameworks.cluster:Cluster",
    "Downpour": "nacre_parallel.frameworks.downpour:Downpour",
    "Hogwild": "nacre_parallel.frameworks.hogwild:Hogwild",
    "Sandblaster": "nacre_parallel.frameworks.sandblaster:Sandblaster",
}
OTHERS = {"Ranks": "nacre_parallel.launch:Ranks"}


@hookimpl
def offer_components() -> dict[str, dict[str, str]]:
    return {
        "communicator": COMMUNICATORS,
        "framework": FRAMEWORKS,
        "default_of": {
            "communicator": COMMUNICATORS["shm"],
            "framework": FRAMEWORKS["AllReduce"],
            "cluster": FRAMEWORKS["Cluster"],
        },
    }


__getattr__ = lazy(__name__, {place.partition(":")[2]: place for place in COMMUNICATORS.values()}, FRAMEWORKS, OTHERS)
