"""The parts of a comparison: its settings, what it says before, and what it shows and writes in the end."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from memgrow.cli.output import console, notice, save_picture, say
from memgrow.cli.recipe import Recipe
from memgrow.cli.report import REPORT, write_report
from memgrow.data import Stream
from memgrow.errors import SettingsError, counted
from memgrow.experiments.bag_of_words import HOW_TO_GET, References, is_installed, reference_records
from memgrow.experiments.comparison import Comparison, Settings
from memgrow.experiments.comparison_setup import RECORDED, Kind
from memgrow.experiments.convergence import Convergence
from memgrow.experiments.grid import Grid
from memgrow.models import PretrainedSettings
from memgrow.report.comparison import compared_table, digits, domains_table, legend, verdict
from memgrow.report.matrix import MatrixTable
from memgrow.report.picture_layout import path_text
from memgrow.report.plots import draw_comparison
from memgrow.report.stored_figures import read_figures
from memgrow.storage import atomic_write, pack_json
from memgrow.training.defaults import Defaults, sizes_line, training_line


def settings_for(recipe: Recipe, vectors: Path | None, kind: Kind, device: str) -> Settings:
    """The recipe's settings, on top of those that `adapt` begins with."""
    if recipe.encoder is not None:
        return _encoder_settings(recipe, vectors, kind)
    usual = recipe.defaults(device, kind.is_dialogue)
    known = {name: getattr(kind.training, name) for name in RECORDED}
    training = replace(usual.training, **known)
    model = replace(usual.model, lowercase=kind.model.lowercase)
    return Settings(
        recipe.model(model, vectors),
        recipe.section("training", training),
        recipe.section("options", usual.options),
    )


def _encoder_settings(recipe: Recipe, vectors: Path | None, kind: Kind) -> Settings:
    """The recipe's settings on top of those that suit a pretrained encoder."""
    if vectors is not None or kind.is_dialogue:
        raise SettingsError(
            f"{recipe.encoder} is a pretrained encoder, which classifies texts and has pieces of words of its own: "
            f"leave out --encoder, or {'give rows with labels' if kind.is_dialogue else '--vectors'}"
        )
    usual = recipe.defaults("cpu")
    model, _ = recipe.section("model", usual.model).resolved()
    return Settings(model, recipe.section("training", usual.training), recipe.section("options", usual.options))


def references(grid: Grid, kind: Kind, seeds: range) -> References:
    """What a user would pick instead; nothing of the kind makes replies."""
    if kind.is_dialogue:
        return {}
    if not is_installed():
        notice(HOW_TO_GET)
        return {}
    return reference_records(grid.ledger, seeds)


def introduce(stream: Stream, settings: Settings, usual: Defaults) -> None:
    """Say what will be compared; `usual` is what holds where nobody named anything."""
    sizes = [sum(len(getattr(domain, part)) for domain in stream) for part in ("train", "validation", "test")]
    say(f"{' → '.join(stream.names)}: {sizes[0]:,} training, {sizes[1]:,} validation, {sizes[2]:,} test examples")
    model, training = settings.model, settings.training
    if isinstance(model, PretrainedSettings):
        say(f"encoder {model.encoder}, {training_line(training)}", "dim")
        return
    more = " (--recipe and --set change them)" if usual.suits else ""
    say(sizes_line(usual, model, training) + more, "dim")


def show(comparison: Comparison, seeds: int, reference: Convergence | None = None) -> None:
    for method in comparison.order:
        matrix = comparison.mean_matrix(method)
        if len(matrix.rows) > 1:
            console.print(MatrixTable(matrix, f"{method}: {comparison.kind.title}", digits(comparison)))
    if comparison.results:
        console.print(domains_table(comparison))
        console.print(compared_table(comparison, seeds))
        for sentence in (legend(comparison, seeds), reference.sentence() if reference else "", verdict(comparison)):
            say(sentence)


def write(
    comparison: Comparison,
    stream: Stream,
    settings: Settings,
    seeds: range,
    out: Path,
    reference: Convergence | None = None,
) -> dict[str, Any]:
    """Write figures, picture and report; the figures."""
    parts = ("train", "validation", "test")
    content = {
        "domains": {domain.name: {part: len(getattr(domain, part)) for part in parts} for domain in stream},
        "seeds": list(seeds),
        "measure": comparison.kind.measure,
        "settings": settings.to_json(),
        "methods": comparison.to_json(),
        **({"reference": reference.to_json()} if reference else {}),
        "failures": [
            {"method": one.run.method, "seed": one.run.seed, "stage": one.stage, "reason": one.reason}
            for one in comparison.failures
        ],
    }
    figures = atomic_write(out / "compare.json", pack_json(content))
    say(f"The figures are in {figures}.")
    title = f"{path_text(stream.names)} ({counted(len(seeds), 'seed')})"
    save_picture(out / "compare.png", lambda file: draw_comparison(comparison, file, title))
    write_report(read_figures(figures), out / REPORT)
    return content


def failed(comparison: Comparison, runs: int) -> str:
    """A sentence about the runs that failed: which, the reason of the first, and what to do."""
    failures = comparison.failures
    which = ", ".join(dict.fromkeys(failure.run.method for failure in failures))
    return (
        f"{len(failures)} of {counted(runs, 'run')} failed ({which}): {failures[0].reason}; "
        "the same command again tries only what failed"
    )
