"""The two domains: as published or prepared, in a folder or fetched; or made by rule, to see that all works."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from memgrow.data import Domain, Stream, synthetic_dialogue
from memgrow.data.corpora import corpus_called, open_cornell, open_ubuntu
from memgrow.data.load import Loaded
from memgrow.data.splits import fair_slice
from memgrow.errors import SettingsError
from memgrow.experiments.paper.dialogue.protocol import PAIR, SOURCE, TARGET
from memgrow.experiments.paper.protocol import Data

HELD_OUT = {SOURCE: 10_000, TARGET: 3_000}  # the paper's validation pairs, and as many for test
TRAIN = 9_000  # the paper's training pairs of the target


def open_pair(folder: Path | None, data: Data, tell: Callable[[str], None] = lambda sentence: None) -> Stream:
    """Both domains from one folder, or from where they were fetched to; `tell` hears how they were read."""
    loaded = [_source(_folder(SOURCE, folder), data), _target(_folder(TARGET, folder), data)]
    for name, one in zip(PAIR, loaded, strict=True):
        for notice in one.notices:
            tell(f"{name}: {notice}")
    return _cut([domain for one in loaded for domain in one.stream], data)


def made_pair(data: Data) -> Stream:
    """Dialogues made by rule, under the names of the two corpora."""
    held_out = data.held_out or 100
    made = synthetic_dialogue(2, train=data.limit or 1000, validation=held_out, test=held_out)
    return Stream(replace(domain, name=name) for domain, name in zip(made, PAIR, strict=True))


def _source(folder: Path, data: Data) -> Loaded:
    held_out = data.held_out or HELD_OUT[SOURCE]
    return open_cornell(folder, held_out, held_out)


def _target(folder: Path, data: Data) -> Loaded:
    held_out = data.held_out or HELD_OUT[TARGET]
    return open_ubuntu(folder, (min(data.limit or TRAIN, TRAIN), held_out, held_out))


def _cut(domains: list[Domain], data: Data) -> Stream:
    return Stream(replace(domain, train=fair_slice(domain.train, data.limit)) for domain in domains)


def _folder(name: str, given: Path | None) -> Path:
    corpus = corpus_called(name)
    folder = given or corpus.folder
    if not corpus.is_in(folder):
        how = f"{folder} holds no {name}" if given else f"there is no {name} to learn from"
        raise SettingsError(
            f"{how}: fetch it with `memgrow data get {name}`, or name the folder of both, {' and '.join(PAIR)}, "
            "with --data"
        )
    return folder
