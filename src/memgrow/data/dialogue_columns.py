"""Which columns hold messages and the replies to them, by the names that people commonly give."""

from collections.abc import Collection, Sequence

from memgrow.errors import DataError

MESSAGES = ("message", "text", "prompt", "question", "query", "post", "context", "input")  # the first there is taken
REPLIES = ("response", "reply", "answer", "completion", "output")


def first_of(usual: Sequence[str], names: Collection[str], taken: Collection[str | None]) -> str | None:
    """The first of the usual names that is there and serves for nothing else."""
    return next((name for name in usual if name in names and name not in taken), None)


def is_dialogue(message: str | None, reply: str | None, plain: bool, label: bool, labelled: bool) -> bool:
    """Whether a file is to be answered rather than labelled, from which columns it has.

    `plain` is whether it has a text as labelled files do. A label beside such a text, or beside only one of message
    and reply, speaks for labelling; where neither labels nor replies are asked for, a message is enough.
    """
    if plain:
        return labelled and not label and reply is not None
    if not labelled:
        return message is not None
    return bool(message and reply) or (not label and bool(message or reply))


def check_both(message: str | None, reply: str | None, names: Collection[str], where: str) -> None:
    """Messages without replies are nothing to learn from, nor are replies without messages."""
    there = f"; its columns are {', '.join(names)}"
    if message is None:
        has = f"has replies (column {reply}), but no column for the messages that they answer"
        raise DataError(f"{where} {has}, such as {' or '.join(MESSAGES[:3])}{there}: add one, or name it with --text")
    if reply is None:
        has = f"has messages (column {message}), but no column for the replies to them"
        raise DataError(f"{where} {has}, such as {' or '.join(REPLIES[:3])}{there}: add one, or name it with --reply")
