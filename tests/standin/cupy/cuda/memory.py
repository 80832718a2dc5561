"""`cupy.cuda.memory`."""

from .._machine import MemoryPointer as MemoryPointer
from .._machine import MemoryPool as MemoryPool
from .._machine import OutOfMemoryError as OutOfMemoryError
