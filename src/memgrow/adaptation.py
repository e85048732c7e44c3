"""`memgrow adapt`: create a model or go on from it, domain by domain, with a bar and a line for each."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console

from memgrow.data import Domain, Stream
from memgrow.errors import SettingsError
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings
from memgrow.recipe import Recipe
from memgrow.report.bar import Bar
from memgrow.report.tables import percent
from memgrow.training import TrainingSettings

DEFAULT_METHOD = "F+M+V"


def adapt_model(
    folder: Path,
    stream: Stream,
    watched: Iterable[Domain],
    *,
    recipe: Recipe,
    method: str | None,
    seed: int | None,
    device: str,
    vectors: Path | None,
    again: bool,
    console: Console,
) -> Learner:
    """Learn each domain of the stream that the model has not learnt yet, saving it after each."""
    method, seed = method or recipe.method, recipe.seed if seed is None else seed
    learner = (
        _opened(folder, recipe, method, seed, device) if folder.exists() else _created(recipe, method, seed, device)
    )
    watch = [*watched, *stream]
    common: dict[str, Any] = {"watch": watch, "folder": folder, "vectors": vectors}
    with Bar(console) as bar:
        if learner.method.together:
            _tell(console, learner, learner.adapt(stream[-1], earlier=stream[:-1], progress=bar, **common))
            return learner
        for domain in stream:
            if learner.history.has(domain.fingerprint()) and not again:
                bar.note(f"{domain.name} has been learnt from this very data: skipped (--again learns it anew)")
                continue
            stage = learner.adapt(domain, progress=bar, **common)
            bar.done()
            _tell(console, learner, stage)
    return learner


def _created(recipe: Recipe, method: str | None, seed: int | None, device: str) -> Learner:
    return Learner.create(
        method or DEFAULT_METHOD,
        model=recipe.section("model", ModelSettings()),
        training=recipe.section("training", TrainingSettings()),
        options=recipe.section("options", MethodSettings()),
        seed=seed or 0,
        device=device,
    )


def _opened(folder: Path, recipe: Recipe, method: str | None, seed: int | None, device: str) -> Learner:
    learner = Learner.load(folder, device)
    asked = recipe.section("model", learner.settings)
    if asked != learner.settings:
        names = [name for name, value in vars(asked).items() if value != getattr(learner.settings, name)]
        raise SettingsError(
            f"{folder} was made with another {', '.join(names)}, and a model keeps its sizes: "
            "leave them out, or start a model of another name"
        )
    learner.training = recipe.section("training", learner.training)
    learner.use(method or learner.method.name, recipe.section("options", learner.options))
    learner.seed = learner.seed if seed is None else seed
    return learner


def _tell(console: Console, learner: Learner, stage: Any) -> None:
    grew = ", ".join(f"{count:,} {what}" for what, count in vars(stage.grew).items() if count) or "nothing"
    console.print(
        f"[bold]{'+'.join(stage.learned)}[/bold]: {stage.examples:,} examples, {stage.epochs} epochs, "
        f"{stage.seconds:.0f} s; validation {percent(stage.validation)}%; grew {grew}",
        highlight=False,
    )
