"""A learner and its history, for the terminal: `inspect`, and the scores of `evaluate`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import rich.table
from rich.text import Text

from memgrow.errors import counted, listed
from memgrow.evaluation.calibration import Reliability
from memgrow.evaluation.history import AccuracyMatrix, Grew, History, Stage
from memgrow.evaluation.metrics import Confusion
from memgrow.evaluation.replies import ReplyFigures
from memgrow.learner import Learner
from memgrow.models import REPLY, PretrainedEncoder
from memgrow.nn import MemoryBank, count_parameters
from memgrow.report.measures import Measure, measure_of_task
from memgrow.report.table import Column, Table, numbers, percent, perplexity_text, score_cell, validation_text
from memgrow.storage.checkpoint import REHEARSAL

TITLES = {"reply": "test: 100 / perplexity"}
ACCURACY = "test accuracy, %"
SHORT = 16  # letters of a checksum that stand for it
LONGEST = 60  # letters of a text that stand above its table
MOST = 30  # rows of a table that has one for each stage or domain
SUMMARY = {  # by figure: its name, and whether it is a difference, which has a sign
    "average": ("average accuracy at the end", False),
    "forgetting": ("forgetting (best minus last)", True),
    "backward_transfer": ("backward transfer", True),
    "forward_transfer": ("forward transfer", True),
}
GROWN = {"slots": "slot", "hidden": "hidden unit", "words": "word", "labels": "label"}
REPLY_COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {  # by figure: its column's name, and how it is written
    "examples": ("examples", "{:,.0f}".format),
    "perplexity": ("perplexity", perplexity_text),
    "bleu2": ("BLEU-2", "{:.2f}".format),
    "distinct1": ("dist-1", "{:.3f}".format),
    "distinct2": ("dist-2", "{:.3f}".format),
    "length": ("length", "{:.1f}".format),
    "w2v_similarity": ("W2V-Sim", "{:.3f}".format),
}


@dataclass(frozen=True)
class About:
    """Facts about a model: the names are those of `inspect --json`."""

    task: str | None
    labels: tuple[str, ...]
    labels_by_domain: Mapping[str, tuple[str, ...]]  # in the order in which the domains were learnt, if noted
    method: str
    encoder: str | None  # if it is pretrained
    weights: str | None  # SHA-256 of those that the encoder came with
    pieces: int | None  # that it knows
    memory_layers: Sequence[int] | None  # after which its banks stand
    domains: tuple[str, ...]
    slots_in_each_bank: Mapping[str, int]  # by domain
    banks: int
    words: int | None  # None: they are not counted, as its encoder has pieces
    hidden_units: Sequence[int] | None  # of each column
    parameters: int
    rows_kept: Mapping[str, int]  # by domain, in rehearsal.json; none unless the method is one that keeps rows
    temperature: float | None  # that probabilities are calibrated by; None: they are not
    calibration_error: Mapping[str, float]  # by domain, on its validation examples when it was learnt


def about(learner: Learner) -> About:
    model, settings = learner.trained(), learner.settings
    encoder = model.encoder if isinstance(model.encoder, PretrainedEncoder) else None
    slots: dict[str, int] = {}
    for segment in model.banks[0].segments if model.banks else ():
        slots[segment.domain] = slots.get(segment.domain, 0) + segment.stop - segment.start
    return About(
        task=learner.task,
        labels=tuple(learner.labels or ()),
        labels_by_domain=learner.history.labels,
        method=learner.method.name,
        encoder=getattr(settings, "encoder", None),
        weights=getattr(settings, "weights", None),
        pieces=encoder.vocabulary_size if encoder else None,
        memory_layers=encoder.memory_layers if encoder else None,
        domains=learner.history.domains,
        slots_in_each_bank=slots,
        banks=sum(isinstance(part, MemoryBank) and len(part) > 0 for part in model.modules()),
        words=None if encoder else len(learner.vocabulary) - 2,
        hidden_units=None if encoder else model.encoder.hidden_units,
        parameters=count_parameters(model),
        rows_kept={domain: len(rows) for domain, rows in learner.state.method_state.rows.items()},
        temperature=learner.calibration.temperature if learner.calibration.domains else None,
        calibration_error={name: one.after.ece for name, one in learner.calibration.domains.items()},
    )


def about_table(learner: Learner) -> rich.table.Table:
    table = rich.table.Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in vars(about(learner)).items():
        unsaid = value is None or (name in ("calibration_error", "rows_kept") and not value)
        if not unsaid and (name != "labels_by_domain" or _differ(value, learner.labels)):
            shown = SHOWN.get(name, _in_words)(value)
            table.add_row(name.replace("_", " "), Text(shown))
    return table


def _differ(labels: Mapping[str, Sequence[str]], known: Sequence[str] | None) -> bool:
    """Whether any domain lacks a label that the model has: if not, its labels are those of all domains."""
    return any(set(own) != set(known or ()) for own in labels.values())


def _by_domain(labels: Mapping[str, Sequence[str]]) -> str:
    """Those of domains that have the same labels once."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for domain, own in labels.items():
        alike.setdefault(tuple(own), []).append(domain)
    return "; ".join(f"{listed(domains, longest=LONGEST)}: {listed(own)}" for own, domains in alike.items())


def _in_words(value: object) -> str:
    if isinstance(value, Mapping):
        return listed((f"{name} {_in_words(part)}" for name, part in value.items()), longest=LONGEST) or "none"
    if isinstance(value, list | tuple):
        return listed(map(_in_words, value), longest=LONGEST) or "none"
    return f"{value:,}" if isinstance(value, int) else str(value)


SHOWN: Mapping[str, Callable[[Any], str]] = {  # facts that have a form of their own
    "weights": lambda checksum: f"{checksum[:SHORT]}… (SHA-256)",
    "labels_by_domain": _by_domain,
    "rows_kept": lambda counts: f"{_in_words(counts)}: texts of the data, in {REHEARSAL}",
    "temperature": lambda temperature: f"{temperature:.3f}",
    "calibration_error": lambda errors: _in_words({name: f"{percent(error)}%" for name, error in errors.items()}),
}


def stages_table(history: History, task: str | None = None) -> Table:
    """The stages of a model for that task; of very many the latest."""
    replies = task == REPLY
    earlier = max(0, len(history.stages) - MOST)
    title = f"the latest of {len(history.stages):,} stages (--json has all)" if earlier else "stages"
    words = [Column(name, wrap="letters") for name in ("domain", "method", "grew")]
    rows = [
        (
            "+".join(stage.learned),
            stage.method,
            growth(stage.grew),
            f"{stage.parameters:,}",
            f"{stage.best_epoch}/{stage.epochs}",
            score_cell(stage.validation, replies),
            f"{stage.seconds:.1f}",
        )
        for stage in history.stages[earlier:]
    ]
    return Table(
        title, [*words, *numbers("parameters", "epochs", "perplexity" if replies else "valid.", "seconds")], rows
    )


def stage_line(stage: Stage, task: str | None = None) -> Text:
    """A line about a stage of a model for that task."""
    replies = task == REPLY
    return Text.assemble(
        ("+".join(stage.learned), "bold"),
        f": {counted(stage.examples, 'example')}, {_how_long(stage)}, {stage.seconds:.0f} s; "
        f"validation {validation_text(stage.validation, replies)}; grew {growth(stage.grew)}"
        f"{_last_kept(stage, replies)}{_went_back(stage, replies)}{_kept_rows(stage)}",
    )


def _how_long(stage: Stage) -> str:
    return counted(stage.epochs, "epoch") if stage.epochs else "solved in closed form"


def _last_kept(stage: Stage, replies: bool) -> str:
    """That the last weights are kept in the place of their mean, where validation wanted that, and its score then."""
    if stage.note.get("kept") != "last":
        return ""
    left = validation_text(stage.note["validation_of_kept"], replies)
    return f"; kept the last weights and not their mean: validation {left}"


def _went_back(stage: Stage, replies: bool) -> str:
    """How far a method chose to go back to the old weights, and what that left of the validation score."""
    if "keep_chosen" not in stage.note:
        return ""
    keep, validation = stage.note["keep"], stage.note["validation_after_averaging"]
    left = validation_text(validation, replies)
    return f"; went {percent(keep, digits=0)}% back to the old weights: validation {left}"


def _kept_rows(stage: Stage) -> str:
    return f"; {counted(stage.note['rows_kept'], 'row')} kept" if "rows_kept" in stage.note else ""


def growth(grew: Grew) -> str:
    """The growth of a model in a stage, in words."""
    # A new model is a column itself: that goes without saying. Of one whose encoder is pretrained the head is new.
    added = [counted(count, GROWN[what]) for what, count in vars(grew).items() if count and what in GROWN]
    return ", ".join(added) or ("a head" if grew.columns else "nothing")


def summary_line(history: History, task: str | None = None) -> str:
    """Average, forgetting and transfer of a model for that task in one line, as far as they are known."""
    if task == REPLY:
        parts = _perplexities(history.matrix, measure_of_task(task))
    else:
        known = {name: value for name, value in history.summary().items() if value is not None}
        parts = [f"{SUMMARY[name][0]} {percent(value, SUMMARY[name][1])}" for name, value in known.items()]
    untested = [name for name in history.domains if history.matrix.score(-1, name) is None]
    if parts and untested:
        parts.append(f"not tested at the end: {listed(untested)} (--watch FILE tests earlier domains)")
    return "; ".join(parts)


def _perplexities(matrix: AccuracyMatrix, measure: Measure) -> list[str]:
    """The perplexity at the end of the domains learnt, as a page has it, and how far it has risen since its lowest."""
    average, rise = measure.average(matrix), measure.forgetting(matrix)
    parts = [] if average is None else [f"perplexity at the end {measure.shown(average)} (geometric mean)"]
    if rise is not None:
        parts.append(f"that of earlier domains is {rise:.2f} times what it was at its lowest")
    return parts


def matrix_title(task: str | None) -> str:
    """The title of the matrix of a model for that task."""
    return TITLES.get(task or "", ACCURACY)


def scores_table(
    scores: Mapping[str, Reliability],
    uncalibrated: Mapping[str, Reliability] | None = None,
    confusions: Mapping[str, Confusion] | None = None,
) -> Table:
    """Accuracy and calibration error of each domain, and what is known of its labels.

    Beside errors at temperature 1, if they are given, stands more of calibration instead, as there is no room for all.
    """
    of_labels = ("baseline, %", "macro F1, %") if confusions and not uncalibrated else ()
    more = ("at temperature 1", "confidence, %", "NLL") if uncalibrated else ()

    def figures(name: str, one: Reliability) -> Iterator[str]:
        yield from (f"{one.examples:,}", percent(one.accuracy))
        if confusions and of_labels:
            yield from (percent(confusions[name].baseline), percent(confusions[name].macro_f1))
        yield percent(one.ece)
        if uncalibrated:
            yield from (percent(uncalibrated[name].ece), percent(one.confidence), f"{one.nll:.3f}")

    rows = [(name, *figures(name, one)) for name, one in scores.items()]
    names = ("examples", "accuracy, %", *of_labels, "ECE, %", *more)
    return Table(None, [Column("domain", wrap="letters"), *numbers(*names)], rows)


def replies_table(figures: Mapping[str, ReplyFigures]) -> Table:
    found = {name: one.known() for name, one in figures.items()}
    shown = {name: kind for name, kind in REPLY_COLUMNS.items() if any(name in one for one in found.values())}
    rows = [(domain, *(written(one[name]) for name, (_, written) in shown.items())) for domain, one in found.items()]
    return Table(None, [Column("domain", wrap="letters"), *numbers(*(head for head, _ in shown.values()))], rows)
