"""What `inspect`, the report and the service say about a model: facts, what it forgot, stages, what a text reads."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal, cast

import rich.table
from rich.text import Text

from memgrow.data import Domain, Example
from memgrow.errors import listed
from memgrow.evaluation.attention import attention_by_bank, unknown_words
from memgrow.evaluation.calibration import Reliability, reliability
from memgrow.evaluation.history import AccuracyMatrix, History
from memgrow.evaluation.metrics import Confusion, confusion_of, margin
from memgrow.evaluation.tables import (
    MISSING,
    Column,
    Measure,
    Table,
    domain_scores,
    duration,
    in_bytes,
    measure_of_task,
    numbers,
    percent,
    rows_kept,
)
from memgrow.learner import Learner
from memgrow.models import REPLY, Classifier, PretrainedEncoder
from memgrow.nn import MemoryBank, count_parameters
from memgrow.storage.versions import SavedVersion

MAX_TEXT = 60  # letters of a fact
HIDDEN = ("labels_by_domain", "weights", "pieces")  # --json has them
OF_SLOTS = ("memory_layers", "banks", "slots_in_each_bank")
DAY = len("2026-01-31")
Level = Literal["green", "amber", "red", "unknown"]
# Losses above which a verdict is amber and red: of accuracy, and how many times its best a perplexity is.
LIMITS, RISES = (0.02, 0.10), (1.05, 1.25)
TITLES = {
    "green": "Little or nothing forgotten",
    "amber": "Some forgetting",
    "red": "Severe forgetting",
    "unknown": "Forgetting is not measured",
}


def about(learner: Learner) -> dict[str, Any]:
    """Facts about a model, as in `inspect --json`; None where a model has no such thing."""
    model, settings = learner.trained(), learner.settings
    encoder = model.encoder if isinstance(model.encoder, PretrainedEncoder) else None
    memory = model.memory if isinstance(model, Classifier) else None
    slots: dict[str, int] = {}
    for segment in model.banks[0].segments if model.banks else ():
        slots[segment.domain] = slots.get(segment.domain, 0) + segment.stop - segment.start
    return {
        "task": learner.task,
        "labels": tuple(learner.labels or ()),
        "labels_by_domain": learner.history.labels,
        "method": learner.method.name,
        "encoder": getattr(settings, "encoder", None),
        "weights": getattr(settings, "weights", None),
        "pieces": encoder.vocabulary_size if encoder else None,
        "memory_layers": encoder.memory_layers if encoder else None,
        "domains": learner.history.domains,
        "slots_in_each_bank": slots,
        "domain_memory": memory.names if memory is not None else None,
        "banks": sum(isinstance(part, MemoryBank) and len(part) > 0 for part in model.modules()),
        "words": None if encoder else len(learner.vocabulary) - 2,
        "hidden_units": None if encoder else model.encoder.hidden_units,
        "parameters": count_parameters(model),
        "rows_kept": {domain: len(rows) for domain, rows in learner.state.method_state.rows.items()},
        "temperature": learner.calibration.temperature if learner.calibration.domains else None,
        "calibration_error": {name: one.after.ece for name, one in learner.calibration.domains.items()},
    }


def about_table(learner: Learner) -> rich.table.Table:
    table = rich.table.Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    facts = about(learner)
    for name, value in facts.items():
        if value in (None, {}, ()) or name in HIDDEN or (name in OF_SLOTS and not facts["banks"]):
            continue
        table.add_row(name.replace("_", " "), Text(_in_words(value)))
    return table


def _in_words(value: object) -> str:
    if isinstance(value, Mapping):
        return listed((f"{name} {_in_words(part)}" for name, part in value.items()), longest=MAX_TEXT) or "none"
    if isinstance(value, list | tuple):
        return listed(map(_in_words, value), longest=MAX_TEXT) or "none"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}" if isinstance(value, float) else str(value)


# What was forgotten


@dataclass(frozen=True)
class Verdict:
    """What the earlier domains lost between their best test score and now."""

    level: Level
    title: str
    sentence: str
    forgetting: float | None = None  # the mean
    lost: Mapping[str, float] = field(default_factory=dict)  # by domain
    test_examples: Mapping[str, int] = field(default_factory=dict)  # of these, as far as known
    unsure: Sequence[str] = ()  # domains with too few


def judge(
    matrix: AccuracyMatrix,
    measure: Measure,
    tests: Mapping[str, int] | None = None,
    forgetting: float | None = None,
) -> Verdict:
    """The verdict by the number of `tests` of each domain; `forgetting` is its mean over seeds, of a mean matrix."""
    earlier = [name for name, stage in matrix.learned_at().items() if stage < len(matrix.rows) - 1]
    lost = {name: one for name in earlier if (one := measure.lost_of(matrix, name)) is not None}
    if not lost:
        untested = "No earlier domain was tested at the end: test files of earlier domains are needed."
        none = "There is no earlier domain that could be forgotten."
        return Verdict("unknown", TITLES["unknown"], untested if earlier else none)
    mean = (measure.forgetting(matrix) or 0.0) if forgetting is None else forgetting
    worst = max(lost, key=lambda name: lost[name])
    same = 1.0 if measure.is_perplexity else 0.0
    _, best, now = domain_scores(matrix, worst)

    def change(by: float) -> str:
        if measure.is_perplexity:
            return f"has {by:.2f} times its lowest perplexity"
        return f"{'gained' if by < 0 else 'lost'} {percent(abs(by), digits=measure.digits)} points"

    parts = []
    if lost[worst] > same:
        parts.append(
            f"{worst} {change(lost[worst])} since it was learned ({measure.text(best)} → {measure.text(now)})."
        )
    elif mean <= same:
        parts.append("No earlier domain is below its best score since it was learned.")
    if len(lost) > 1 or not parts:
        parts.append(f"On average an earlier domain {change(mean)}.")
    if missing := [name for name in earlier if name not in lost]:
        parts.append(f"Not tested at the end: {listed(missing)}.")
    if counts := {name: tests[name] for name in lost if tests and name in tests}:
        few, most = min(counts.values()), max(counts.values())
        parts.append(f"Test rows: {few:,}{'' if few == most else f' to {most:,}'}.")
    unsure = [] if measure.is_perplexity else [name for name in counts if _by_chance(matrix, name, counts[name])]
    sure = [lost[name] for name in lost if name not in unsure]
    level = level_of(max(sure if unsure else [*sure, mean], default=same), measure)
    title = TITLES[level]
    if level == "green" and unsure:
        fewest = min(unsure, key=lambda name: counts[name])
        level, title = "unknown", f"Too few test rows to tell ({counts[fewest]:,})"
        seen = margin(domain_scores(matrix, fewest)[2] or 0.0, counts[fewest])
        parts.append(
            f"They cannot show a change of less than {percent(seen, digits=0)} points: test some hundred rows."
        )
    elif level == "green" and mean < (1 / RISES[1] if measure.is_perplexity else -LIMITS[1]):
        level, title = "unknown", "Earlier domains gained much: they were not learned well at first"
    return Verdict(level, title, " ".join(parts), mean, lost, counts, unsure)


def verdict_of(learner: Learner) -> Verdict:
    """The verdict on a model."""
    return judge(learner.history.matrix, measure_of_task(learner.task), learner.history.test_examples)


def _by_chance(matrix: AccuracyMatrix, name: str, tests: int) -> bool:
    """Whether what a domain lost or gained may be chance on so few rows, which cannot exclude severe forgetting."""
    _, best, now = domain_scores(matrix, name)
    lost = (best or 0.0) - (now or 0.0)
    return abs(lost) <= (error := margin(((best or 0.0) + (now or 0.0)) / 2, tests)) and lost + error > LIMITS[1]


def level_of(lost: float | None, measure: Measure) -> Level:
    if lost is None:
        return "unknown"
    limits = RISES if measure.is_perplexity else LIMITS
    return ("green", "amber", "red")[sum(round(lost, 6) > limit for limit in limits)]


# Scores on labeled texts


@dataclass(frozen=True)
class LabelScores:
    """What a model of labels scores on test examples, by domain."""

    scores: Mapping[str, Reliability]
    uncalibrated: Mapping[str, Reliability]  # empty if not asked for
    confusions: Mapping[str, Confusion]
    given: Mapping[str, float]  # accuracy where the domain is given, as far as that makes a difference

    def table(self) -> Table:
        """Accuracy and calibration error, with baseline and F1 or with more of calibration."""
        columns = {
            "examples": {name: f"{one.examples:,}" for name, one in self.scores.items()},
            "accuracy, %": {name: percent(one.accuracy) for name, one in self.scores.items()},
        }
        if self.given:
            columns["domain given, %"] = {name: percent(self.given.get(name)) for name in self.scores}
        if not self.uncalibrated:
            columns["baseline, %"] = {name: percent(one.baseline) for name, one in self.confusions.items()}
            columns["macro F1, %"] = {name: percent(one.macro_f1) for name, one in self.confusions.items()}
        columns["ECE, %"] = {name: percent(one.ece) for name, one in self.scores.items()}
        if self.uncalibrated:
            columns["at temperature 1"] = {name: percent(one.ece) for name, one in self.uncalibrated.items()}
            columns["confidence, %"] = {name: percent(one.confidence) for name, one in self.scores.items()}
            columns["NLL"] = {name: f"{one.nll:.3f}" for name, one in self.scores.items()}
        rows = [(name, *(column[name] for column in columns.values())) for name in self.scores]
        return Table(None, ["domain", *numbers(*columns)], rows)


def score_labels(learner: Learner, domains: Sequence[Domain], calibration: bool) -> LabelScores:
    outputs = {domain.name: learner.logits(domain, calibrated=True) for domain in domains}
    return LabelScores(
        {name: reliability(*one) for name, one in outputs.items()},
        {domain.name: reliability(*learner.logits(domain)) for domain in domains if calibration},
        {name: confusion_of(learner.labels or (), *one) for name, one in outputs.items()},
        learner.accuracy_with_domain(domains),
    )


# Stages


def stages_table(history: History, measure: Measure, versions: Sequence[SavedVersion] = ()) -> Table:
    """The stages of a model, with the size of each version that is kept."""
    matrix = history.matrix
    kept = {one.number: "damaged" if one.history is None else in_bytes(one.own) for one in versions}
    rows: list[dict[str, str]] = []
    for number, stage in enumerate(history.stages, 1):
        tested = [score for name in stage.learned if (score := matrix.score(number - 1, name)) is not None]
        figures = {
            "#": str(number),
            "domain": "+".join(stage.learned),
            "method": stage.method,
            "date": (stage.date or MISSING)[:DAY],
            "examples": f"{stage.examples:,}",
            "time": duration(stage.seconds),
            "valid.": measure.text(stage.validation, unit=False),
            "test": measure.text(fmean(tested) if tested else None, unit=False),
            "forgot": measure.lost_text(measure.forgetting(AccuracyMatrix(matrix.rows[:number]))),
            "rows": str(rows_kept(stage) or MISSING),
            "on disk": kept.get(number, MISSING),
        }
        rows.append(figures)
    left_out = {name for name in ("rows", "on disk") if all(row[name] == MISSING for row in rows)}
    left_out |= {"method"} if len({stage.method for stage in history.stages}) < 2 else set()
    names = [name for name in (rows or [{}])[0] if name not in left_out]
    columns = [Column(name) if name in ("domain", "method") else numbers(name)[0] for name in names]
    return Table(None, columns, [[row[name] for name in names] for row in rows])


# What a text reads


def memory_entries(learner: Learner, example: Example) -> dict[str, float]:
    """How probable each entry of the domain memory is for a text; none if the newest one answers for all."""
    model = learner.trained()
    memory = model.memory if isinstance(model, Classifier) else None
    return learner.route([example])[0] if memory is not None and memory.routes else {}


def reading_lines(learner: Learner, example: Example) -> Iterator[str]:
    """The prediction of a text, the entries that it is like and that answered, the slots it reads, unknown words."""
    if learner.task == REPLY:
        yield f"Reply: {learner.reply([example])[0].text}"
    else:
        (answer,) = learner.predict([example])
        yield f"Prediction: {answer.label} ({percent(answer.confidence)}%)"
        if entries := memory_entries(learner, example):
            yield f"Looks like: {_largest(entries, 3)}"
            model = cast(Classifier, learner.trained())
            assert model.memory is not None
            (answers,), _ = model.memory.readers_of(model, learner.encode([example], labeled=False))
            readers = [name for name, reads in zip(model.memory.names, answers, strict=True) if reads]
            yield f"Answered by: the weights of {' and '.join(readers)}"
        elif len(learner.history.domains) > 1:
            yield "Answered by: the newest weights, for all domains"
    banks = attention_by_bank(learner, example)
    if domains := dict.fromkeys(domain for shares in banks for domain in shares):
        yield f"Reads slots of: {_largest({name: fmean(one.get(name, 0.0) for one in banks) for name in domains}, 10)}"
    if unknown := unknown_words(learner, example):
        yield f"Unknown words: {listed(unknown)}"


def _largest(shares: Mapping[str, float], most: int) -> str:
    largest = sorted(shares, key=lambda name: -shares[name])[:most]
    return ", ".join(f"{name} {percent(shares[name])}%" for name in largest)
