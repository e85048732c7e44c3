"""The marks of the Ubuntu Dialogue Corpus: where an utterance ends, where a turn ends, and which answers are right."""

from memgrow.errors import DataError

END_OF_UTTERANCE, END_OF_TURN = "__eou__", "__eot__"
RIGHT = {"1": True, "1.0": True, "0": False, "0.0": False}


def last_turn(context: str) -> str:
    """What was said last, all utterances of that turn as one text; empty if nothing was."""
    turns = (turn for turn in reversed(context.split(END_OF_TURN)) if turn.strip())
    return one_text(next(turns, ""))


def one_text(turn: str) -> str:
    """The utterances of a turn without their marks, with one space for any white space."""
    return " ".join(turn.replace(END_OF_TURN, " ").replace(END_OF_UTTERANCE, " ").split())


def is_right(label: str, where: str) -> bool:
    """Whether the label says that the utterance did follow the context."""
    right = RIGHT.get(label.strip())
    if right is None:
        raise DataError(f"{where} has the label {label!r}, where the corpus has 1 or 0; fetch it again")
    return right
