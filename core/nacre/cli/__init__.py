"""The command line `nacre COMMAND`, and help for authors of commands: options, reading, training, printing.

Each command is a file, which imports what it needs only when it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..discovery.lazy import lazy

if TYPE_CHECKING:
    from .commands.test import run_test as run_test
    from .completion import offered as offered
    from .divided import summary_of_ranks as summary_of_ranks
    from .inputs import fed as fed
    from .inputs import written_net as written_net
    from .options import InputFile as InputFile
    from .options import OutputFile as OutputFile
    from .options import backend_option as backend_option
    from .options import common as common
    from .options import json_option as json_option
    from .options import net_argument as net_argument
    from .options import net_options as net_options
    from .options import phase_option as phase_option
    from .options import ranks_option as ranks_option
    from .options import read_net as read_net
    from .options import remote_option as remote_option
    from .options import seed_option as seed_option
    from .options import set_option as set_option
    from .options import snapshot_argument as snapshot_argument
    from .options import write_options as write_options
    from .pictures import drawing_for as drawing_for
    from .pictures import write_picture as write_picture
    from .predictor import Predictor as Predictor
    from .screen import command_line as command_line
    from .screen import print_json as print_json
    from .screen import print_table as print_table
    from .screen import statistic_text as statistic_text
    from .screen import warn as warn
    from .screen import working as working
    from .snapshots import read_trained as read_trained
    from .training import Screen as Screen
    from .training import end_line as end_line
    from .training import exit_code as exit_code
    from .training import print_end as print_end
    from .training import train as train

_PLACES = {
    "commands.test": "run_test",
    "completion": "offered",
    "divided": "summary_of_ranks",
    "inputs": "fed written_net",
    "options": "InputFile OutputFile backend_option common json_option net_argument net_options phase_option "
    "ranks_option read_net remote_option seed_option set_option snapshot_argument write_options",
    "pictures": "drawing_for write_picture",
    "predictor": "Predictor",
    "screen": "command_line print_json print_table statistic_text warn working",
    "snapshots": "read_trained",
    "training": "Screen end_line exit_code print_end train",
}
_PLACE = {name: f"{__name__}.{module}:{name}" for module, names in _PLACES.items() for name in names.split()}
__all__ = ["main", *sorted(_PLACE)]  # pyright: ignore[reportUnsupportedDunderAll] - from the table above
__getattr__ = lazy(__name__, _PLACE)


def main() -> None:
    """Run the command of this process, and end the process with its exit code."""
    import sys

    try:
        from .streams import keep_stdout, open_closed_streams

        open_closed_streams()
        if "--json" in sys.argv:
            keep_stdout()
        from .app import nacre
        from .screen import show_warnings

        show_warnings()
        nacre.main()
    except KeyboardInterrupt:  # also while it is being imported, for which there is time to press Ctrl-C
        sys.exit(130)
