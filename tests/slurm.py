"""A Slurm of one node for tests: munge, a controller and a daemon of their own, with the packages of Debian.

They are slurmctld, slurmd, slurm-client and munge; none of their services has to run, and nobody has to be root.
"""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sinfo")
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
MISSING = [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]
LIMIT = 60.0  # seconds for the node to come up
PROCESSORS = 4  # that the node says it has, so that two steps of two tasks fit wherever this runs


@contextmanager
def slurm(folder: Path) -> Generator[Path]:
    """Run a Slurm in a folder; yield its configuration, the SLURM_CONF of those who use it."""
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    config = folder / "slurm.conf"
    config.write_text(settings(folder, socket.gethostname().partition(".")[0]))
    of_munge = {name: folder / f"munge.{name}" for name in ("socket", "pid-file", "log-file", "seed-file")}
    with ExitStack() as stack:
        for name, options in (
            ("munged", ["--foreground", "--force", f"--key-file={key}", *(f"--{a}={b}" for a, b in of_munge.items())]),
            ("slurmctld", ["-D", "-c", "-f", str(config)]),
            ("slurmd", ["-D", "-f", str(config)]),
        ):
            output = stack.enter_context((folder / f"{name}.out").open("wb"))
            program = shutil.which(name, path=PATH) or name
            process = subprocess.Popen([program, *options], stdout=output, stderr=output)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            if name == "munged":
                wait(process, of_munge["socket"].exists, folder)
        wait(process, lambda: "idle" in nodes(config), folder)
        yield config


def settings(folder: Path, host: str) -> str:
    """Return a configuration in which nothing outside the folder is written, and nothing of the system is changed."""
    user = getpass.getuser()
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = one.getsockname()[1], other.getsockname()[1]
    return f"""ClusterName=nacre
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={PROCESSORS}
PartitionName=all Nodes=ALL Default=YES
"""


def nodes(config: Path) -> str:
    """Return the states of the nodes; "" if the controller does not answer."""
    command = ["sinfo", "--noheader", "--format=%T"]
    env = os.environ | {"SLURM_CONF": str(config)}
    done = subprocess.run(command, env=env, check=False, capture_output=True, text=True)
    return done.stdout


def wait(process: subprocess.Popen[bytes], ready: Callable[[], bool], folder: Path) -> None:
    """Wait until something is ready; the error has what the programs have written."""
    until = time.monotonic() + LIMIT
    while not ready():
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError("\n".join(path.read_text() for path in folder.glob("*.out")))
        time.sleep(0.1)
