"""Theorem 1 in numbers, all of it: both sides drawn, the assumption on attention put to the test, trained models."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from memgrow import Domain, Example, Learner
from memgrow.errors import SettingsError
from research.theorem.closed_form import ALWAYS_SAFE
from research.theorem.measure import Expansion, check, measure
from research.theorem.simulate import SETTINGS, SHAPES, TIED, Drawn, Sweep, draw, sweep

SAMPLES, DRAWS, EXAMPLES = 2000, 3, 100


@dataclass(frozen=True)
class ReportSettings:
    """The number of draws, and of examples of a domain; None: all."""

    samples: int
    draws: int
    examples: int | None
    seed: int


@dataclass(frozen=True)
class TheoremReport:
    """The content of `theorem.json`."""

    settings: ReportSettings
    always_safe: float  # new attention over old, up to which the bound holds for every attention
    drawn: dict[str, Drawn]  # by the choice of sizes
    tied: dict[str, Drawn]  # the same where it matters whether the values are the keys
    swept: tuple[Sweep, ...]
    measured: tuple[Expansion, ...]  # each model on each domain

    def to_json(self) -> dict[str, Any]:
        """With the closed forms, which follow from the rest, beside what was drawn."""
        return {
            "settings": asdict(self.settings),
            "always_safe": self.always_safe,
            "drawn": {name: drawn.to_json() for name, drawn in self.drawn.items()},
            "tied": {name: drawn.to_json() for name, drawn in self.tied.items()},
            "swept": [sweep.to_json() for sweep in self.swept],
            "measured": [asdict(measured) for measured in self.measured],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "TheoremReport":
        report: TheoremReport = _read(cls, value)
        return report


def _read(kind: Any, value: Any) -> Any:
    """JSON as the dataclass that it was written from, or as a dict, a tuple or an optional of such."""
    if value is None:
        return None
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{one.name: _read(hints[one.name], value[one.name]) for one in fields(kind)})  # type: ignore[operator]
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return _read(inner[0], value)
    if origin is dict:
        return {name: _read(inner[1], one) for name, one in value.items()}
    return tuple(_read(inner[0], one) for one in value) if origin is tuple else value


def theorem_report(
    models: Mapping[str, Learner] | None = None,
    domains: Sequence[Domain] = (),
    *,
    samples: int = SAMPLES,
    slots: int | None = None,
    draws: int = DRAWS,
    examples: int | None = EXAMPLES,
    seed: int = 0,
) -> TheoremReport:
    """Draw, sweep, and measure each model on each domain's test part.

    Of a domain `examples` are taken at random, the same for every model; None takes all.
    """
    for name, value in {"samples": samples, "draws": draws}.items():
        if value < 2:
            raise SettingsError(f"an error needs 2 or more {name}, not {value}")
    chosen = {domain.name: _some(domain, examples, seed) for domain in domains}
    pairs = [(name, learner, domain) for name, learner in (models or {}).items() for domain in chosen]
    for _, learner, domain in pairs:
        check(learner, chosen[domain], domain)

    measured = tuple(
        replace(measure(learner, chosen[domain], domain=domain, slots=slots, draws=draws, seed=seed), model=name)
        for name, learner, domain in pairs
    )
    drawn, tied = ({name: draw(sizes, samples, seed) for name, sizes in some.items()} for some in (SETTINGS, TIED))
    swept = tuple(sweep(shape, samples, seed) for shape in SHAPES)
    settings = ReportSettings(samples, draws, examples, seed)
    return TheoremReport(settings, ALWAYS_SAFE, drawn, tied, swept, measured)


def _some(domain: Domain, count: int | None, seed: int) -> Sequence[Example]:
    if count is None or count >= len(domain.test):
        return domain.test
    return random.Random(f"{seed}:{domain.name}").sample(domain.test, count)
