"""Theorem 1 in numbers, all of it: both sides drawn, the assumption on attention put to the test, trained models."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memgrow.data import Domain
from memgrow.errors import SettingsError
from memgrow.experiments.theorem.closed_form import ALWAYS_SAFE
from memgrow.experiments.theorem.measure import GROWTHS, check, measure
from memgrow.experiments.theorem.simulate import SETTINGS, SHAPES, TIED, draw, sweep
from memgrow.learner import Learner

SAMPLES, DRAWS, EXAMPLES = 2000, 3, 100
NUMBERS = len(SETTINGS) + len(TIED) + len(SHAPES)  # parts of a report that need no model


def parts(models: int = 0, domains: int = 0, draws: int = DRAWS) -> int:
    """How often a report ticks."""
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
) -> dict[str, Any]:
    """What `theorem.json` holds: the draws, the sweeps and, of each model on each domain's test part, the measured.

    Of a domain `examples` are taken at random, the same for every model; None takes all. `tick` hears of every part.
    """
    for name, value in {"samples": samples, "draws": draws}.items():
        if value < 2:
            raise SettingsError(f"an error needs 2 or more {name}, not {value}")
    chosen = {domain.name: _some(domain, examples, seed) for domain in domains}
    pairs = [(name, learner, domain) for name, learner in (models or {}).items() for domain in chosen]
    for _, learner, domain in pairs:
        check(learner, chosen[domain], domain)
    measured = [
        {"model": name}
        | measure(learner, chosen[domain], domain=domain, slots=slots, draws=draws, seed=seed, tick=tick).to_json()
        for name, learner, domain in pairs
    ]
    drawn, tied = (_drawn(settings, samples, seed, tick) for settings in (SETTINGS, TIED))
    swept = []
    for shape in SHAPES:
        swept.append(sweep(shape, samples, seed).to_json())
        tick(shape)
    settings = {"samples": samples, "draws": draws, "examples": examples, "seed": seed}
    return {
        "settings": settings,
        "always_safe": ALWAYS_SAFE,
        "drawn": drawn,
        "tied": tied,
        "swept": swept,
        "measured": measured,
    }


def _drawn(settings: Mapping[str, Any], samples: int, seed: int, tick: Callable[[str], None]) -> dict[str, Any]:
    drawn = {}
    for name, sizes in settings.items():
        drawn[name] = draw(sizes, samples, seed).to_json()
        tick(name)
    return drawn


def _some(domain: Domain, count: int | None, seed: int) -> Sequence[Any]:
    if count is None or count >= len(domain.test):
        return domain.test
    return random.Random(f"{seed}:{domain.name}").sample(domain.test, count)
