"""`python -m nacre_parallel -n 4 COMMAND`: starts a command as so many ranks, which find each other by shared memory.

As `mpiexec -n 4 COMMAND`, without an MPI: `ShmCommunicator.connect()` in the command's processes connects them. A file
that ends in .py is run by this Python.
"""

from __future__ import annotations

import signal
import sys

import click

from nacre import NacreError

from .launch import Ranks

if __name__ == "__main__":
    words = sys.argv[1:]
    if len(words) < 3 or words[0] != "-n" or not words[1].isdecimal():
        sys.exit("usage: python -m nacre_parallel -n RANKS COMMAND ...")
    command = [*([sys.executable] if words[2].endswith(".py") else []), *words[2:]]
    try:
        with Ranks(command, int(words[1]), all_print=True) as ranks:
            code = ranks.run()
    except (NacreError, OSError) as error:  # such as a command that there is not
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:  # while they were being started
        sys.exit(128 + signal.SIGINT)
    if ranks.message:
        click.echo(f"error: {ranks.message}", err=True)
    sys.exit(code)
