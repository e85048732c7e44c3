"""What `inspect`, the report and the service say about a model: facts, what it forgot, stages, what a text reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal, cast

import rich.table
from rich.console import Group, RenderableType
from rich.text import Text

from memgrow.data import Example
from memgrow.errors import listed
from memgrow.evaluation.attention import attention_by_bank, unknown_words
from memgrow.evaluation.history import AccuracyMatrix, History
from memgrow.evaluation.metrics import margin
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

MAX_TEXT = 60  # letters of a text above its table
HIDDEN = ("labels_by_domain", "weights", "pieces")  # --json has them
OF_SLOTS = ("memory_layers", "banks", "slots_in_each_bank")
MAX_ROWS = 30  # of a table with one row per domain
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
        if name == "calibration_error":
            errors = listed(f"{one} {percent(error)}%" for one, error in value.items())
            value = f"{errors}, on validation rows when learned (`memgrow evaluate` measures it on test files)"
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
    matrix: AccuracyMatrix, measure: Measure, tests: Mapping[str, int] | None = None, forgetting: float | None = None
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


def reading_table(learner: Learner, example: Example) -> RenderableType:
    """How the attention of a text divides among the domains' slots, by bank and on average."""
    banks, said = attention_by_bank(learner, example), [Text(line) for line in _about_text(learner, example)]
    domains = list(dict.fromkeys(domain for shares in banks for domain in shares))
    text = Text(" | ".join(example.texts), "bold")
    text.truncate(MAX_TEXT, overflow="ellipsis")
    if not domains:
        return Group(text, *said)
    encoder = learner.trained().encoder
    layers = encoder.memory_layers if isinstance(encoder, PretrainedEncoder) else ()
    places = [f"layer {layer}" for layer in layers] or [f"bank {number}" for number in range(1, len(banks) + 1)]
    names = [f"{place}, %" for place in (*places, "mean")]

    most = sorted(domains, key=lambda domain: -sum(bank.get(domain, 0.0) for bank in banks))[:MAX_ROWS]
    rows = []
    for domain in (name for name in domains if name in most):
        shares = [bank.get(domain, 0.0) for bank in banks]
        rows.append((domain, *map(percent, (*shares, fmean(shares)))))
    columns: list[str | Column] = ["reads slots of", *(Column(name, right=True) for name in names)]
    return Group(Table(text, columns, rows), *said)


def memory_entries(learner: Learner, example: Example) -> dict[str, float]:
    """How probable each entry of the domain memory is for a text; none if the newest one answers for all."""
    model = learner.trained()
    memory = model.memory if isinstance(model, Classifier) else None
    return learner.route([example])[0] if memory is not None and memory.routes else {}


def _about_text(learner: Learner, example: Example) -> list[str]:
    if learner.task == REPLY:
        lines = [f"Reply: {learner.reply([example])[0].text}"]
    else:
        (answer,) = learner.predict([example])
        lines = [f"Prediction: {answer.label} ({percent(answer.confidence)}%)"]
        if entries := memory_entries(learner, example):
            best = sorted(entries, key=lambda name: -entries[name])[:3]
            lines.append(f"Looks like: {', '.join(f'{name} {percent(entries[name])}%' for name in best)}")
            model = cast(Classifier, learner.trained())
            assert model.memory is not None
            (answers,), _ = model.memory.readers_of(model, learner.encode([example], labeled=False))
            readers = [name for name, reads in zip(model.memory.names, answers, strict=True) if reads]
            lines.append(f"Answered by: the weights of {' and '.join(readers)}")
        elif len(learner.history.domains) > 1:
            lines.append("Answered by: the newest weights, for all domains")
    if unknown := unknown_words(learner, example):
        lines.append(f"Unknown words: {listed(unknown)}")
    return lines
