"""Mistakes that a user can put right. Each is one sentence: what is wrong, where, and what to do."""


class MemgrowError(ValueError):
    """Something the user gave cannot be used; the message says what, where and what to do instead."""


class DataError(MemgrowError):
    """A file or an example that cannot be read as data."""


class ModelError(MemgrowError):
    """A model folder that cannot be read or written."""


class SettingsError(MemgrowError):
    """A setting, a method or a size that does not exist or cannot be."""
