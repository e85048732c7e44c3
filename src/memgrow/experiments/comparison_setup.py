"""The start of a comparison: its stream, the methods that can learn it, and which score is compared."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from memgrow.data import Columns, Loaded, Stream, load_stream
from memgrow.data.corpora import CORPORA, open_corpus
from memgrow.data.splits import fair_slice
from memgrow.errors import DataError, SettingsError
from memgrow.experiments.run import Record
from memgrow.methods import find_method
from memgrow.metrics.replies import perplexity
from memgrow.models import REPLY, ModelSettings
from memgrow.training.checks import check_stage
from memgrow.training.defaults import READS_LOWER, RECURRENT, SMALL, SMALL_REPLIES
from memgrow.training.settings import TrainingSettings

Scores = Mapping[str, float]
"""By domain."""


@dataclass(frozen=True)
class Kind:
    """A kind of score: its name in figures, and how tables and pictures speak of it; 1 is shown as 100."""

    measure: str
    unit: str
    share: str  # of what it is the share or the score
    title: str  # of a matrix of scores
    average: str
    scores: Callable[[Record], Scores]
    model: ModelSettings  # as in the recipes small, small-dialogue
    training: TrainingSettings
    stack: int = 10  # seeds that are trained together on a GPU, at most
    is_dialogue: bool = False  # whether models answer with words, whose scores may well be below a tenth


def _accuracies(record: Record) -> Scores:
    return {name: fmean(right) for name, right in record.test.items() if right}


def _bleu2(record: Record) -> Scores:
    test = record.replies.get("test", {})
    return {name: replied.scores.counts.score() / 100 for name, replied in test.items() if replied.scores is not None}


def perplexities(record: Record) -> Scores:
    """The perplexities of the replies given, by domain; none where models answer with labels."""
    test = record.replies.get("test", {})
    return {
        name: perplexity(replied.loss, replied.tokens)
        for name, replied in test.items()
        if replied.loss is not None and replied.tokens is not None
    }


RECORDED: dict[str, Any] = {"min_documents": 1, "patience": 2}  # what the studies of public corpora were made with
LABELS = Kind(
    "accuracy",
    "%",
    "% of the test examples",
    "test accuracy, %",
    "average accuracy at the end, %",
    _accuracies,
    replace(SMALL.model, lowercase=False),
    replace(SMALL.training, **RECORDED),
)
REPLIES = Kind(
    "bleu2",
    "BLEU-2",
    "BLEU-2 of the test replies",
    "BLEU-2 of the test replies",
    "average BLEU-2 at the end",
    _bleu2,
    replace(SMALL_REPLIES.model, lowercase=False),
    replace(SMALL_REPLIES.training, **RECORDED),
    stack=1,  # models that answer with words are not stacked: seeds go to different workers instead
    is_dialogue=True,
)

KINDS = {kind.measure: kind for kind in (LABELS, REPLIES)}


def kind_of(stream: Stream) -> Kind:
    return REPLIES if any(domain.has_replies for domain in stream) else LABELS


def for_data(kind: Kind, given: Sequence[str]) -> Kind:
    """The kind with what suits the data that was named: all may know a public corpus, but not a user's own words.

    Public corpora are read with their capitals, as in the records that there are of them.
    """
    if all(name in CORPORA for name in given):
        return kind
    own = {name: getattr(RECURRENT, name) for name in RECORDED}
    model = replace(kind.model, lowercase=READS_LOWER.lowercase)
    return replace(kind, model=model, training=replace(kind.training, **own))


def open_stream(
    given: Sequence[str],
    *,
    columns: Columns,
    validation: Sequence[Path] = (),
    test: Sequence[Path] = (),
    held_out: Sequence[Path] = (),
    domains: Sequence[str] | None = None,
    limit: int | None = None,
    skip_empty: bool = False,
) -> Loaded:
    """The stream that was named, as `adapt` would read it: with a `limit`, at most this many examples of each part."""
    if any(name in CORPORA or Path(name).is_dir() for name in given):
        if validation or test or held_out or skip_empty:
            raise SettingsError(
                f"{given[0]} is a corpus or a folder, and has its parts: leave out --validation, --test, --held-out "
                "and --skip-empty, or give files"
            )
        loaded = open_corpus(given, columns=columns, domains=domains, limit=limit)
        return Loaded(Stream(_limited(loaded.stream, limit)), loaded.notices)
    return load_stream(
        given,
        columns=columns,
        validation=validation,
        test=test,
        held_out=held_out,
        domains=domains,
        limit=limit,
        skip_empty=skip_empty,
    )


def refuse_incomparable(stream: Stream) -> None:
    """Refuse what one of the methods would refuse in the end: all of a comparison or nothing."""
    if len(stream) < 2:
        raise DataError(
            f"a comparison needs at least two domains, and there is only {', '.join(stream.names) or 'none'}: "
            "give more files, or name the column of the domain with --by"
        )
    stage = check_stage(stream[:1], None, None)
    for domain in stream[1:]:
        stage = check_stage([domain], stage.task, stage.labels)
    for domain in stream:
        if not domain.test:
            raise DataError(f"{domain.name} has no test examples: give more rows, or that part's own file")


def suitable(names: Sequence[str], stream: Stream, chosen: Sequence[str]) -> list[str]:
    """The methods that this stream can be learnt by; of those that somebody has `chosen`, others are refused."""
    if not any(domain.has_replies for domain in stream):
        return list(names)
    for name in chosen:
        find_method(name).check_task(REPLY)
    return [name for name in names if all(REPLY in part.tasks for part in find_method(name).parts)]


def _limited(stream: Stream, limit: int | None) -> Stream:
    return Stream(
        replace(domain, validation=fair_slice(domain.validation, limit), test=fair_slice(domain.test, limit))
        for domain in stream
    )
