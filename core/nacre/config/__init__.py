"""Net files: reading a net from a TOML file, and writing one."""

from .netfile import NetFile as NetFile
from .netfile import based_on as based_on
from .netfile import dumps as dumps
from .netfile import load as load
