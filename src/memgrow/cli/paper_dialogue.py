"""`memgrow paper table5` and `table6`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memgrow.report.grid_bar import GridBar
from memgrow.report.paper_dialogue import show_dialogue

if TYPE_CHECKING:
    from rich.console import Console

    from memgrow.experiments.paper.making import Ran


@dataclass(frozen=True)
class Asked:
    """What the command line says."""

    data: Path | None
    vectors: Path | None  # for the words that models read
    w2v: Path | None  # for W2V-Sim
    seeds: int | None
    limit: int | None
    quick: bool
    out: Path
    device: str
    workers: int | None
    makes: bool  # False: only what is in the store


def make_dialogue(console: "Console", asked: Asked, names: Sequence[str], words: Sequence[str], shows: bool) -> "Ran":
    """Make the runs of these tables, and unless told otherwise write and show the tables."""
    from memgrow.experiments.grid import Grid
    from memgrow.experiments.paper.dialogue.corpus import made_pair, open_pair
    from memgrow.experiments.paper.dialogue.protocol import protocol
    from memgrow.experiments.paper.dialogue.session import RUNS, DialogueSession
    from memgrow.experiments.paper.protocol import VECTOR
    from memgrow.experiments.store import Store

    settings = protocol(asked.quick, asked.seeds, asked.limit, VECTOR if asked.vectors else None)
    with GridBar(console) as bar:
        if asked.quick and asked.data is None:
            bar.note("dialogues made by rule stand in for both corpora: the figures mean nothing")
            stream = made_pair(settings.data)
        else:
            stream = open_pair(asked.data, settings.data, bar.note)
        grid = Grid(
            stream,
            Store(asked.out / RUNS),
            vectors=asked.vectors,
            device=asked.device,
            workers=asked.workers,
            stack=1,  # models that answer with words are not stacked: seeds go to different workers instead
            progress=bar,
            reply_evaluation=settings.trial(asked.w2v),
        )
        session = DialogueSession(settings, asked.out, grid, words, asked.makes)
        ran = session.run(names)
    for name in names if shows else ():
        figures = session.table(name, ran)
        show_dialogue(console, figures, asked.out, lambda domain, index: stream[domain].test[index].text)
    return ran
