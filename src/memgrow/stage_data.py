"""The data of one stage, checked: before it is learnt, each example is known to be one that the model can take."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from memgrow.data import Domain, Example
from memgrow.data.records import filled
from memgrow.errors import DataError, SettingsError, listed
from memgrow.history import History
from memgrow.methods import Method
from memgrow.models import REPLY

KINDS = {1: "text", 2: "pair"}
READS = {"text": 1, "pair": 2, REPLY: 1}  # texts
ASKS = {"text": "one text", "pair": "two texts", REPLY: "one message"}
SECOND_TEXT = " (the second value of Example is a second text: write Example(text, label=label) for a label)"
LEARN_FIRST = "learns others from training examples alone: adapt it to a domain that has the label, or correct the row"


@dataclass(frozen=True)
class StageData:
    """The data of one stage: one domain, or several for a method that sees them together."""

    domains: tuple[Domain, ...]
    task: str
    labels: tuple[str, ...]  # of the model once it has learnt this: those it had, then those that join
    joined: tuple[str, ...]  # labels that the model did not have

    @property
    def learned(self) -> tuple[str, ...]:
        return tuple(domain.name for domain in self.domains)

    @property
    def name(self) -> str:
        return "+".join(self.learned)

    @property
    def train(self) -> Sequence[Example]:
        return [example for domain in self.domains for example in domain.train]

    @property
    def validation(self) -> Sequence[Example]:
        return [example for domain in self.domains for example in domain.validation]

    @cached_property
    def fingerprint(self) -> str:
        return "+".join(domain.fingerprint() for domain in self.domains)


def validate(domains: Sequence[Domain], task: str | None, labels: Sequence[str] | None) -> StageData:
    """Check that domains can be learnt in one stage; the task, where not settled yet, is theirs.

    Labels of training examples that are not among those given join them, in alphabetical order.
    """
    for domain in domains:
        for part in ("train", "validation"):
            if not getattr(domain, part):
                raise DataError(
                    f"{domain.name} has no {part} examples: give more rows, or that part's own file (from Python: "
                    "Domain.from_rows draws the parts that are missing)"
                )
    first = domains[0].train[0]
    task = task or (KINDS[len(first.texts)] if first.reply is None else REPLY)
    new = sorted({label for domain in domains for label in domain.labels}.difference(labels or ()))
    known = (*(labels or ()), *new) if task != REPLY else ()
    if len(known) == 1:
        count, name = len(domains[0].train), domains[0].name
        raise DataError(
            f"all {count:,} training examples of the domain {name} have the label {known[0]} (the first is "
            f"{first.where or 'example 1'}); give examples of at least two labels: only a later domain may have one"
        )
    for domain in domains:
        nowhere = f"no training row of {domain.name} has it: correct the row, or give more rows with that label"
        check_examples([*domain.train, *domain.validation, *domain.test], task, known, nowhere)
    return StageData(tuple(domains), task, known, tuple(new))


def check_examples(
    examples: Sequence[Example], task: str, labels: Sequence[str] | None, unknown: str = LEARN_FIRST
) -> None:
    """Every example has as many texts as the task asks for, none of them empty, and, where labels are given, one of
    them, or a reply.

    The sentence about an `unknown` label ends in what is to be done.
    """
    known = set(labels or ())
    for number, example in enumerate(examples, 1):
        where = example.where or f"example {number}"
        for text in example.texts:
            filled(text, where)
        if len(example.texts) != READS[task]:
            raise DataError(
                f"{where}: this model reads {ASKS[task]}, but the example has {len(example.texts)}"
                + (SECOND_TEXT if example.pair is not None else "")
            )
        if (task == REPLY) != (example.reply is not None) and labels is not None:
            has = "no reply" if task == REPLY else "a reply and no label"
            raise DataError(
                f"{where}: this model answers with {'words' if task == REPLY else 'labels'}, but there is {has}"
            )
        if task != REPLY and labels is not None and example.label is None:
            raise DataError(
                f"{where}: there is no label: give one, or leave the row out"
                + (SECOND_TEXT if example.pair is not None else "")
            )
        if task != REPLY and labels is not None and example.label not in known:
            raise DataError(
                f"{where}: unknown label {example.label!r}; this model knows {listed(labels)}, and {unknown}"
            )


def check_tests(watched: Iterable[Domain], *stages: StageData) -> None:
    """Check the test examples of domains that are tried, but are not among those learnt, which have been checked.

    They may have labels that the model does not have: such examples count as wrong, and `warnings_of` says so.
    """
    checked = {id(domain) for stage in stages for domain in stage.domains}
    for domain in watched:
        if id(domain) not in checked:
            check_examples(domain.test, stages[-1].task, (*stages[-1].labels, *labels_in(domain.test)))


def warnings_of(stage: StageData, tested: Iterable[Domain], before: Mapping[str, float]) -> Iterator[str]:
    """Sentences about labels that may be a mistake, or that domains which are tried have and the model does not.

    `before` has the share of the most frequent label among the examples that each domain was tested on so far: where it
    is another now, these are other examples.
    """
    first: dict[str, str] = {}  # of labels that look alike
    for label in stage.labels:
        known = first.setdefault("".join(label.split()).casefold(), label)
        if known != label and label in stage.joined:
            yield (
                f"{stage.name}: the labels {known!r} and {label!r} differ by case or white space alone and are two "
                "labels to the model: if they mean the same, give them one name"
            )
    if len(only := labels_in(stage.train)) == 1:
        yield (
            f"{stage.name}: all training examples have the label {only.pop()}; what tells it from other labels is not "
            "to be learnt from them, and the model may come to give it to all texts"
        )
    for domain in tested:
        if strange := labels_in(domain.test) - set(stage.labels):
            count = sum(example.label in strange for example in domain.test)
            yield (
                f"{domain.name}: {count:,} of {len(domain.test):,} test examples have labels that the model does not "
                f"have yet ({listed(sorted(strange))}) and count as wrong"
            )
        if domain.test and before.get(domain.name, share := most_frequent_share(domain.test)) != share:
            yield (
                f"{domain.name}: these are not the test examples that it was tested on before: what it seems to forget "
                "or to gain may be the difference between them; give the same test file each time"
            )


def weak_scores(
    stage: StageData, validation: float, tests: Mapping[str, float], advice: str = "give it more rows"
) -> Iterator[str]:
    """Sentences about domains on which the model is no better than whoever always gives the most frequent label.

    `validation` is the score of the stage on its validation examples, `tests` those of domains on their test examples,
    which decide where there are any: a handful of validation rows shall not gainsay the table that is shown.
    """
    if stage.task == REPLY:
        return
    tested = [domain for domain in stage.domains if domain.test and domain.name in tests]
    found = {domain.name: (domain.test, tests[domain.name], "test") for domain in tested}
    if len(stage.domains) == 1 and not found:
        found[stage.name] = (stage.validation, validation, "validation")
    for name, (examples, score, part) in found.items():
        label, share = most_frequent(examples)
        if score <= share < 1:
            yield (
                f"{name}: the model gets {100 * score:.1f}% of its {part} examples right, and to answer {label} to all "
                f"would be right in {100 * share:.1f}%: it has learnt nothing of use; {advice}"
            )


def labels_in(examples: Sequence[Example]) -> set[str]:
    return {example.label for example in examples if example.label is not None}


def most_frequent_share(examples: Sequence[Example]) -> float:
    """The share of the most frequent label: what one gets right without reading. Of replies, nothing."""
    if any(example.reply is not None for example in examples):
        return 0.0
    return most_frequent(examples)[1]


def most_frequent(examples: Sequence[Example]) -> tuple[str | None, float]:
    """The most frequent label, and its share of the examples."""
    ((label, count),) = Counter(example.label for example in examples).most_common(1)
    return label, count / len(examples)


def domains_of_stage(method: Method, history: History, domain: Domain, earlier: Sequence[Domain]) -> list[Domain]:
    """The domains that are learnt in one stage: for a method that sees all at once, the earlier ones are needed too."""
    if not method.together:
        return [domain]
    missing = [name for name in history.domains if name not in {d.name for d in (*earlier, domain)}]
    if missing:
        raise SettingsError(
            f"{method.name} trains on all domains at once and needs the data of {', '.join(missing)} again: "
            "give it too, or use a method that is incremental"
        )
    return [*earlier, domain]
