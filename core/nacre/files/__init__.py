"""Bytes and tables on disk, whole or not at all."""

from .descriptors import above_streams as above_streams
from .descriptors import anonymous_file as anonymous_file
from .durable import NewFile as NewFile
from .durable import OutputLock as OutputLock
from .durable import atomic_write as atomic_write
from .durable import hold as hold
from .durable import make_empty as make_empty
from .durable import make_folder as make_folder
from .durable import os_errors as os_errors
from .durable import put_in_place as put_in_place
from .durable import replaced_after as replaced_after
from .json import begin_line as begin_line
from .json import event_line as event_line
from .json import finite as finite
from .json import is_log as is_log
from .reading import Watched as Watched
from .reading import check_file as check_file
from .reading import unchanged as unchanged
from .remote import is_there as is_there
from .remote import is_url as is_url
from .remote import upload as upload
from .toml import toml_text as toml_text
