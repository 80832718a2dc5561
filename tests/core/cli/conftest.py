"""Every test here runs in a folder with the small net."""

from command_line import folder as folder
from command_line import trained as trained
