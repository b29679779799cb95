"""A PostgreSQL of our own, for development, tests and small installations."""

from .binaries import Binaries, EmbeddedError, NoBinaries, find_binaries
from .server import EmbeddedServer

__all__ = ["Binaries", "EmbeddedError", "EmbeddedServer", "NoBinaries", "find_binaries"]
