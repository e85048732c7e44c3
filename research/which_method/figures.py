"""The figures of the protocol, made from records alone: a file for each family."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from research.common.files import atomic_write, pack_json
from research.common.matrix import Matrix
from research.common.runs import Record
from research.common.statistics import paired_over_seeds
from research.common.store import Store
from research.which_method.candidates import FAMILIES, Candidate, Family
from research.which_method.decision import Choice, Scores, Trials, check, choose, second_check, third_check
from research.which_method.trial import TrialMaterial

MEASURES = ("average", "forgetting", "when_learnt")
MORE = 10  # seeds after those of a part that may have been run for the sake of a narrower interval
DIGITS = 6


@dataclass(frozen=True)
class RunScores:
    """The scores of one run, of which more is better, and what it cost."""

    average: float
    forgetting: float
    when_learnt: float
    parameters: int
    seconds: float
    kept: tuple[float, ...]  # shares of the old weights that were chosen, of `keep: auto`

    @classmethod
    def of(cls, records: Sequence[Record]) -> "RunScores":
        matrix = Matrix()
        for record in records:
            matrix.add(record.stage["learned"], _scores(record))
        stages = [record.stage for record in records]
        notes = [stage.get("note", {}) for stage in stages]
        return cls(
            matrix.average() or 0.0,
            matrix.forgetting() or 0.0,
            fmean(matrix.when_learned().values()),
            stages[-1]["parameters"],
            sum(stage["seconds"] for stage in stages),
            tuple(note["keep"] for note in notes if "keep_chosen" in note),
        )


def _scores(record: Record) -> dict[str, float]:
    """By domain, the test accuracy; of replies, the mean log-probability of a word."""
    replies = record.replies.get("test", {})
    return {name: fmean(right) for name, right in record.test.items() if right} | {
        name: -float(one.loss.sum() / one.tokens.sum())
        for name, one in replies.items()
        if one.loss is not None and one.tokens is not None
    }


Found = dict[str, dict[int, RunScores]]
"""On one stream, by candidate and seed."""


def found_in(material: TrialMaterial, store: Store, candidates: Sequence[Candidate]) -> Found:
    """The runs of which every stage has a record."""
    ledger, found = material.ledger(store), Found()
    for (name, seed), run in material.runs(candidates, _looked_for(material)).items():
        records = ledger.records(run)
        if len(records) == len(run.stages()):
            found.setdefault(name, {})[seed] = RunScores.of(records)
    return found


def _looked_for(material: TrialMaterial) -> range:
    return range(min(material.seeds), max(material.seeds) + 1 + MORE)


def scores_of(found: Found, what: str = "average") -> Scores:
    return {name: {seed: getattr(one, what) for seed, one in runs.items()} for name, runs in found.items()}


def trials_of(part: str, found: Mapping[str, Found], some: Mapping[str, TrialMaterial]) -> Trials:
    """What was run of a part."""
    streams = [name for name, one in some.items() if one.part == part]
    seeds = some[streams[0]].seeds if streams else ()
    accuracy, forgetting = (
        {name: scores_of(found[name], what) for name in streams} for what in ("average", "forgetting")
    )
    return Trials(seeds, accuracy, forgetting)


def choice_of(family: Family, found: Mapping[str, Found], some: Mapping[str, TrialMaterial]) -> Choice:
    """Who wins on the streams for choosing that have records."""
    trials = trials_of("choosing", found, some)
    return choose(family, trials.accuracy, trials.seeds)


def figures_of(family: Family, some: Mapping[str, TrialMaterial], store: Store) -> dict[str, Any]:
    """All that is known of a family; `some` are the materials of its streams, in the order in which they are run."""
    candidates = (*family.candidates, *family.late)
    found = {name: found_in(one, store, candidates) for name, one in some.items()}
    choice = choice_of(family, found, some)
    choosing, checking, asked_third = (trials_of(part, found, some) for part in ("choosing", "checking", "third"))
    checked = check(family, choice, checking.accuracy, checking.seeds) if choice.winner else None
    second = second_check(family, checked.default, choosing, checking) if checked else None
    third = third_check(family, second.default, choosing, asked_third) if second else None
    rules = {"check": checked, "second_check": second, "third_check": third}
    default = next((rule.default for rule in (third, second, checked) if rule), family.default)
    return {
        "family": family.name,
        "about": family.about,
        "is_dialogue": family.is_dialogue,
        "baseline": family.baseline,
        "default_until_now": family.default,
        "candidates": {one.name: {"method": one.method, "options": dict(one.options)} for one in candidates},
        "streams": {name: _stream(family, one, found[name]) for name, one in some.items()},
        "choice": _rounded(asdict(choice)),
        **{name: rule and _rounded(asdict(rule)) for name, rule in rules.items()},
        "default": default,
    }


def _stream(family: Family, material: TrialMaterial, found: Found) -> dict[str, Any]:
    first = {seed: one for seed, one in found.get(family.baseline, {}).items() if seed in material.seeds}
    return {
        "part": material.part,
        "domains": list(material.domains),
        "sizes": {name: dict(sizes) for name, sizes in material.sizes.items()},
        "encoder": material.encoder,
        "model": dict(material.model),
        "training": asdict(material.training),
        "seeds": list(material.seeds),
        "rows": {
            name: _row({seed: one for seed, one in found[name].items() if seed in material.seeds}, first)
            for name in found
        },
        "more_seeds": {
            name: _row(found[name], found[family.baseline])
            for name in found
            if family.baseline in found and set(found[name]) - set(material.seeds)
        },
    }


def _row(runs: Mapping[int, RunScores], baseline: Mapping[int, RunScores]) -> dict[str, Any]:
    """A candidate's figures over its seeds, and its differences from the baseline over those that both have."""
    some = list(runs.values())
    kept = [share for one in some for share in one.kept]
    return {
        "seeds": list(runs),
        **{what: _over_seeds([getattr(one, what) for one in some]) for what in MEASURES if some},
        "against": {what: _difference(runs, baseline, what) for what in MEASURES} if some and runs != baseline else {},
        "parameters": some[0].parameters if some else None,
        "seconds": round(fmean(one.seconds for one in some), 1) if some else None,
        "kept": round(fmean(kept), 3) if kept else None,
    }


def _difference(runs: Mapping[int, RunScores], baseline: Mapping[int, RunScores], what: str) -> dict[str, Any] | None:
    both = [seed for seed in runs if seed in baseline]
    if not both:
        return None
    pairs = [[getattr(one[seed], what) for seed in both] for one in (runs, baseline)]
    found: dict[str, Any] = _rounded(paired_over_seeds(*pairs).to_json())
    return found


def _over_seeds(values: Sequence[float]) -> dict[str, Any]:
    spread = stdev(values) if len(values) > 1 else None
    found: dict[str, Any] = _rounded({"mean": fmean(values), "spread": spread, "values": list(values)})
    return found


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(inner) for inner in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def by_family(folder: Path, order: Sequence[str]) -> dict[str, dict[str, TrialMaterial]]:
    """The materials in a folder by family and stream; streams in the order that is given."""
    found: dict[str, dict[str, TrialMaterial]] = {}
    for one in sorted(
        TrialMaterial.all_in(folder), key=lambda one: order.index(one.stream) if one.stream in order else len(order)
    ):
        found.setdefault(one.family, {})[one.stream] = one
    return found


def write_figures(
    folder: Path, out: Path, order: Sequence[str], families: Mapping[str, Family] = FAMILIES
) -> list[Path]:
    """A file for each family that has records in the folder."""
    store = Store(folder)
    return [
        atomic_write(out / f"{name}.json", pack_json(figures_of(families[name], some, store)))
        for name, some in by_family(folder, order).items()
    ]
