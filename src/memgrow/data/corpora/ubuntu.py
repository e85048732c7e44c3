"""The Ubuntu Dialogue Corpus, as published or prepared: what is asked in a help channel, and what is answered.

As published a row has a context of several turns, an utterance, and a label that says whether it did follow; marks in
the text say where an utterance and where a turn ends.
"""

import gzip
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from memgrow.data.columns import DEFAULT_COLUMNS
from memgrow.data.corpora.dialogue_splits import draw_parts, each_once, sizes_told
from memgrow.data.corpora.download import Watch, copy_stream, find_file, no_progress
from memgrow.data.domain import Domain, Example, Stream
from memgrow.data.files import read_rows, where
from memgrow.data.load import Loaded
from memgrow.data.rows import read_file
from memgrow.errors import DataError, SettingsError, counted, was_or_were

FILES = ("train.csv", "valid.csv", "test.csv")  # as published: contexts of several turns, right and wrong utterances
PREPARED = ("ubuntu_train.tsv", "ubuntu_dev.tsv", "ubuntu_test.tsv")  # a message and a response in each row

CONTEXT, LABEL = "Context", "Label"
REPLIES = ("Ground Truth Utterance", "Utterance")  # of the held-out files, which have no label, and of the other

END_OF_UTTERANCE, END_OF_TURN = "__eou__", "__eot__"
RIGHT = {"1": True, "1.0": True, "0": False, "0.0": False}


@dataclass(frozen=True, slots=True)
class Read:
    """The pairs of one file, and how many of its rows had an empty message or reply."""

    pairs: list[Example]
    empty: int


def holds_ubuntu(folder: Path) -> bool:
    """Whether a folder has the corpus, as published or as prepared; other files have such names, so one is opened."""
    if all(find_file(folder, name) for name in PREPARED):
        return True
    found = [find_file(folder, name) for name in FILES]
    if found[0] is None or None in found:
        return False
    try:
        _, first = next(read_rows(found[0]))
    except DataError:
        return False
    return CONTEXT in first and REPLIES[1] in first


def unpack_ubuntu(archive: Path, folder: Path, watch: Watch = no_progress) -> tuple[str, ...]:
    """Write the three files under the names that they were published under."""
    lines: dict[str, int] = {}
    try:
        with tarfile.open(archive, "r:gz") as packed:
            for info in packed:
                name = PurePosixPath(info.name).name
                # A link is no file of its own, and could lead anywhere.
                if name in FILES and info.isreg():
                    source = packed.extractfile(info)
                    assert source is not None  # it is a regular file
                    lines[name] = copy_stream(source, folder / name, info.size, watch)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{archive} cannot be unpacked ({error}); fetch it again") from None
    missing = [name for name in FILES if name not in lines]
    if missing:
        raise DataError(f"{archive} holds no file {', '.join(missing)}; it is another archive: fetch the right one")
    return tuple(f"{name}: {lines[name]:,} lines" for name in FILES)


def open_ubuntu(folder: str | Path, sizes: tuple[int, int, int] = (9000, 3000, 3000), seed: int = 0) -> Loaded:
    """One domain: the last turn of a context is the message, the right utterance the reply; parts of these sizes.

    The paper chose this many pairs at random. Each part comes from its own file if that has enough, otherwise all three
    from all files together; no message is in two parts.
    """
    if min(sizes) < 1:
        raise SettingsError(f"parts of {', '.join(map(str, sizes))} pairs cannot be drawn; give 1 or more for each")
    folder = Path(folder)
    files = _files(folder)
    read = [_prepared(path) if name in PREPARED else _published(path) for name, path in files.items()]
    once = [each_once(one.pairs) for one in read]
    together = each_once(example for pairs in once for example in pairs)
    own = draw_parts(once, sizes, seed)
    parts = own or draw_parts([together] * len(sizes), sizes, seed)
    if parts is None:
        raise DataError(
            f"{folder} has {len(together):,} different pairs, too few to draw {' + '.join(f'{n:,}' for n in sizes)} "
            "with no message in two parts; give the whole corpus, or ask for fewer"
        )
    notices = [f"the parts ({sizes_told(parts)}) were drawn so that no message is in two of them"]
    if own is None:
        have = ", ".join(f"{path.name} {len(pairs):,}" for path, pairs in zip(files.values(), once, strict=True))
        notices.append(f"they were drawn from all files together ({have} different pairs), as one alone has too few")
    empty, twice = sum(one.empty for one in read), sum(len(one.pairs) for one in read) - len(together)
    notices += (
        [f"{counted(empty, 'pair')} {was_or_were(empty)} left out, with an empty message or reply"] if empty else []
    )
    notices += [f"{counted(twice, 'pair')} {was_or_were(twice)} left out, as the same comes before"] if twice else []
    return Loaded(Stream([Domain("ubuntu", *parts)]), tuple(notices))


def _files(folder: Path) -> Mapping[str, Path]:
    for layout in (PREPARED, FILES):
        found = {name: path for name in layout if (path := find_file(folder, name))}
        if len(found) == len(layout):
            return found
    raise DataError(
        f"{folder} has neither {', '.join(FILES)} nor {', '.join(PREPARED)}, plain or with .gz; name the folder to "
        "which the corpus was unpacked, or run `memgrow data get ubuntu`"
    )


def _prepared(path: Path) -> Read:
    table = read_file(path, DEFAULT_COLUMNS, skip_empty=True)
    if table.columns.reply is None:
        raise DataError(f"{path} has labelled texts and not messages with replies; give another file")
    return Read([record.example for record in table.records], sum(table.left_out.values()))


def _published(path: Path) -> Read:
    pairs: list[Example] = []
    empty = 0
    for line, values in read_rows(path):
        reply = next((name for name in REPLIES if name in values), None)
        if reply is None or CONTEXT not in values:
            raise DataError(
                f"{path.name} has not the columns of the corpus, {CONTEXT} and {' or '.join(REPLIES)}; "
                f"its columns are {', '.join(values)}: fetch it again"
            )
        place = where(path, line)
        if LABEL in values and not is_right(str(values[LABEL]), place):
            continue
        message, answer = last_turn(str(values[CONTEXT])), one_text(str(values[reply]))
        if message and answer:
            pairs.append(Example(message, where=place, reply=answer))
        else:
            empty += 1
    return Read(pairs, empty)


def last_turn(context: str) -> str:
    """The last turn of a context, all its utterances as one text; empty if there is none."""
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
