"""The version of memgrow, in a module that imports nothing, so that every layer can read it."""

__version__ = "0.1.0"
