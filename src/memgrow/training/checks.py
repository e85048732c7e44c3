"""Checks of a domain's data before it is learned, and warnings about what may be a mistake."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from memgrow.data import Domain, Example
from memgrow.data.domain import PARTS
from memgrow.data.rows import check_text
from memgrow.errors import DataError, SettingsError, counted, listed
from memgrow.evaluation.history import History
from memgrow.evaluation.metrics import margin
from memgrow.methods import MethodSpec
from memgrow.models import REPLY

USEFUL = 0.2  # of accuracy above the majority-class baseline: where chance may hide as much, nothing is said of use
MIN_ROWS = 4  # of a domain: two labels to learn, one row to validate and one to test
MUCH = 0.1  # of accuracy: more is forgotten only by mistake
TEXTS = {"text": 1, "pair": 2, REPLY: 1}  # texts in an example of each task
EXPECTED = {"text": "one text", "pair": "two texts", REPLY: "one message"}


@dataclass(frozen=True)
class StageData:
    """The data of one stage: one domain, or several for joint training."""

    domains: tuple[Domain, ...]
    task: str
    labels: tuple[str, ...]  # of the model after this stage: those it had, then the new ones
    new_labels: tuple[str, ...]

    @property
    def learned(self) -> tuple[str, ...]:
        return tuple(domain.name for domain in self.domains)

    @property
    def name(self) -> str:
        return "+".join(self.learned)

    @property
    def train(self) -> list[Example]:
        return [example for domain in self.domains for example in domain.train]

    @property
    def validation(self) -> list[Example]:
        return [example for domain in self.domains for example in domain.validation]

    @cached_property
    def fingerprint(self) -> str:
        return "+".join(domain.fingerprint() for domain in self.domains)


def check_stage(domains: Sequence[Domain], task: str | None, labels: Sequence[str] | None) -> StageData:
    """Check that domains can be learned in one stage. The task, if None, is taken from the data.

    Labels of training examples that are not among `labels` join them, in alphabetical order.
    """
    for domain in domains:
        for part in ("train", "validation"):
            if not getattr(domain, part):
                count = sum(len(getattr(domain, one)) for one in PARTS)
                few = f"{domain.name} has {counted(count, 'row')} and no {part} examples"
                raise DataError(f"{few}: give at least {max(MIN_ROWS, count + 1)} rows, or a file for that part")
    first = domains[0].train[0]
    task = task or (REPLY if first.reply is not None else "pair" if first.pair is not None else "text")
    new = sorted({label for domain in domains for label in domain.labels}.difference(labels or ()))
    known = (*(labels or ()), *new) if task != REPLY else ()
    if len(known) == 1:
        raise DataError(
            f"all {len(domains[0].train):,} training examples of {domains[0].name} have the label {known[0]} "
            f"({first.where or 'example 1'}): a new model needs examples of at least two labels"
        )
    for domain in domains:
        for examples in (domain.train, domain.validation, domain.test):
            check_examples(examples, task, known, f"no training row of {domain.name} has it: correct it")
    return StageData(tuple(domains), task, known, tuple(new))


def check_examples(
    examples: Iterable[Example],
    task: str,
    labels: Sequence[str] | None,
    advice: str = "adapt it to a domain that has the label, or correct the row",
) -> None:
    """Check the texts of every example and, if `labels` are given, its label or reply."""
    known = set(labels or ())
    for number, example in enumerate(examples, 1):
        where = example.where or f"example {number}"
        for text in example.texts:
            check_text(text, where)
        second = "" if example.pair is None else " (for a label write Example(text, label=label))"
        if len(example.texts) != TEXTS[task]:
            raise DataError(f"{where}: this model reads {EXPECTED[task]}, not {len(example.texts)}{second}")
        if labels is None:
            continue
        if (task == REPLY) != (example.reply is not None):
            lacks = "replies, and this row has none" if task == REPLY else "labels, and this row has a reply"
            raise DataError(f"{where}: this model learns {lacks}: correct or remove it")
        if task != REPLY and example.label is None:
            raise DataError(f"{where}: there is no label: add one, or remove the row{second}")
        if task != REPLY and example.label not in known:
            raise DataError(f"{where}: unknown label {example.label!r}; known are {listed(labels)}; {advice}")


def check_watched(watched: Iterable[Domain], *stages: StageData) -> None:
    """Check the test examples of domains that are evaluated but not learned. Unknown labels are allowed there."""
    checked = {id(domain) for stage in stages for domain in stage.domains}
    for domain in watched:
        if id(domain) not in checked and not is_plain_text(domain):
            check_examples(domain.test, stages[-1].task, (*stages[-1].labels, *labels_in(domain.test)))


def is_plain_text(domain: Domain) -> bool:
    """Whether a watched domain is a text without messages: see `load_for_evaluation`."""
    return bool(domain.test) and all(not example.text and example.reply for example in domain.test)


def domains_of_stage(
    method: MethodSpec, learned: Sequence[str], domain: Domain, earlier: Sequence[Domain]
) -> list[Domain]:
    """The domains that are learned in one stage: joint training needs all earlier ones again."""
    if not method.joint:
        return [domain]
    missing = [name for name in learned if name not in {one.name for one in (*earlier, domain)}]
    if missing:
        raise SettingsError(f"{method.name} trains on all domains at once: give the data of {', '.join(missing)} again")
    return [*earlier, domain]


def label_warnings(stage: StageData, tested: Iterable[Domain], baseline: Mapping[str, float]) -> Iterator[str]:
    """Warnings about labels that may be a mistake. `baseline` has earlier majority-class shares of test sets."""
    first: dict[str, str] = {}
    for label in stage.labels:
        known = first.setdefault("".join(label.split()).casefold(), label)
        if known != label and label in stage.new_labels:
            yield f"{stage.name}: the labels {known!r} and {label!r} differ in case or spaces only: are they the same?"
    if len(only := labels_in(stage.train)) == 1:
        yield f"{stage.name}: all training examples have the label {only.pop()}; the model may always predict it"
    for domain in tested:
        if unknown := labels_in(domain.test) - set(stage.labels):
            count = sum(example.label in unknown for example in domain.test)
            labels = listed(sorted(unknown))
            of = f"{count:,} of {len(domain.test):,} test examples"
            yield f"{domain.name}: {of} have labels that the model has not learned yet ({labels})"
        if domain.test and baseline.get(domain.name, share := majority(domain.test)[1]) != share:
            yield f"{domain.name}: the test examples differ from those used before: give the same ones each time"


def forgetting_warnings(history: History) -> Iterator[str]:
    """A warning about domains that have lost more than ten points since they were learned, some in the last stage."""
    matrix, lost = history.matrix, dict[str, tuple[float, float]]()
    for name, stage in matrix.learned_at().items():
        *before, now = matrix.scores_since(stage, name) if matrix.score(-1, name) is not None else [0.0]
        if before and max(before) - now > MUCH and now < before[-1]:
            lost[name] = max(before), now
    if lost:
        newest = "+".join(history.stages[-1].learned)
        falls = (f"{name} fell from {100 * best:.1f}% to {100 * now:.1f}%" for name, (best, now) in lost.items())
        yield (
            f"Forgotten: {'; '.join(falls)}. `memgrow undo` takes {newest} back; a method with +memory or ridge "
            "forgets less, and --max-forgetting 2 refuses such an update"
        )


def weak_scores(
    stage: StageData, validation: float, tests: Mapping[str, float], advice: str = "give it more rows"
) -> Iterator[str]:
    """Warnings about domains on which the model is no better than the majority-class baseline."""
    if stage.task == REPLY:
        return
    tested = [domain for domain in stage.domains if domain.test and domain.name in tests]
    found = {domain.name: (domain.test, tests[domain.name], "test") for domain in tested}
    if len(stage.domains) == 1 and not found:
        found[stage.name] = (stage.validation, validation, "validation")
    for name, (examples, score, part) in found.items():
        label, share = majority(examples)
        if score <= share < 1:
            few = margin(score, len(examples)) > USEFUL
            found_out = "too few rows to tell if it has learned anything" if few else "it has learned nothing of use"
            yield (
                f"{name}: {part} accuracy is {100 * score:.1f}% on {counted(len(examples), 'row')}, no better than "
                f"always predicting {label} ({100 * share:.1f}%): {found_out}; {advice}"
            )


def labels_in(examples: Iterable[Example]) -> set[str]:
    return {example.label for example in examples if example.label is not None}


def majority(examples: Sequence[Example]) -> tuple[str | None, float]:
    """The most frequent label and its share; 0 for replies."""
    if any(example.reply is not None for example in examples):
        return None, 0.0
    ((label, count),) = Counter(example.label for example in examples).most_common(1)
    return label, count / len(examples)
