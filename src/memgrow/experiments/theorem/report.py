"""Theorem 1 in numbers, all of it: both sides drawn, the assumption on attention put to the test, trained models."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from memgrow.data import Domain, Example
from memgrow.errors import SettingsError
from memgrow.experiments.theorem.closed_form import ALWAYS_SAFE, Sizes
from memgrow.experiments.theorem.measure import GROWTHS, Expansion, check, measure
from memgrow.experiments.theorem.simulate import SETTINGS, SHAPES, TIED, Drawn, Sweep, draw, sweep
from memgrow.learner import Learner

SAMPLES, DRAWS, EXAMPLES = 2000, 3, 100
NUMBERS = len(SETTINGS) + len(TIED) + len(SHAPES)  # parts of a report that need no model


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


def parts(models: int = 0, domains: int = 0, draws: int = DRAWS) -> int:
    """The number of ticks of a report."""
    return NUMBERS + models * domains * draws * len(GROWTHS)


def theorem_report(
    models: Mapping[str, Learner] | None = None,
    domains: Sequence[Domain] = (),
    *,
    samples: int = SAMPLES,
    slots: int | None = None,
    draws: int = DRAWS,
    examples: int | None = EXAMPLES,
    seed: int = 0,
    tick: Callable[[str], None] = lambda what: None,
) -> TheoremReport:
    """Draw, sweep, and measure each model on each domain's test part.

    Of a domain `examples` are taken at random, the same for every model; None takes all. `tick` hears of every part.
    """
    for name, value in {"samples": samples, "draws": draws}.items():
        if value < 2:
            raise SettingsError(f"an error needs 2 or more {name}, not {value}")
    chosen = {domain.name: _some(domain, examples, seed) for domain in domains}
    pairs = [(name, learner, domain) for name, learner in (models or {}).items() for domain in chosen]
    for _, learner, domain in pairs:
        check(learner, chosen[domain], domain)

    measured = tuple(
        replace(
            measure(learner, chosen[domain], domain=domain, slots=slots, draws=draws, seed=seed, tick=tick), model=name
        )
        for name, learner, domain in pairs
    )
    drawn, tied = (_drawn(settings, samples, seed, tick) for settings in (SETTINGS, TIED))
    swept = []
    for shape in SHAPES:
        swept.append(sweep(shape, samples, seed))
        tick(shape)
    settings = ReportSettings(samples, draws, examples, seed)
    return TheoremReport(settings, ALWAYS_SAFE, drawn, tied, tuple(swept), measured)


def _drawn(settings: Mapping[str, Sizes], samples: int, seed: int, tick: Callable[[str], None]) -> dict[str, Drawn]:
    drawn = {}
    for name, sizes in settings.items():
        drawn[name] = draw(sizes, samples, seed)
        tick(name)
    return drawn


def _some(domain: Domain, count: int | None, seed: int) -> Sequence[Example]:
    if count is None or count >= len(domain.test):
        return domain.test
    return random.Random(f"{seed}:{domain.name}").sample(domain.test, count)
