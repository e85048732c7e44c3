"""Errors that a user can put right, each a sentence (what is wrong, where, what to do), and the grammar of such."""


class MemgrowError(ValueError):
    """Something the user gave cannot be used; the message says what, where and what to do instead."""


class DataError(MemgrowError):
    """A file or an example that cannot be read as data."""


class ModelError(MemgrowError):
    """A model folder that cannot be read or written."""


class SettingsError(MemgrowError):
    """A setting, a method or a size that does not exist or cannot be."""


def counted(count: int, what: str) -> str:
    """A count with its noun: 1 pair, 1,200 pairs."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def was_or_were(count: int) -> str:
    """The verb that agrees with a count."""
    return "was" if count == 1 else "were"
