"""`memgrow tune`: a search for the settings of a method, on the validation examples of anybody's own stream."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memgrow.cli import options as opt
from memgrow.cli.compare import Given, Workers
from memgrow.cli.output import console, notice, opened, progress_console, save_picture, say, split_names, write_json
from memgrow.errors import SettingsError, counted

if TYPE_CHECKING:
    from memgrow.cli.recipe import Recipe
    from memgrow.data import Stream
    from memgrow.experiments.comparison import Settings
    from memgrow.experiments.tuning.space import Space
    from memgrow.experiments.tuning.trials import Found

Trials = Annotated[int, typer.Option(metavar="N", help="How many trials, those of earlier commands included.", min=1)]
Seeds = Annotated[int, typer.Option(metavar="N", help="Seeds of each trial, whose mean counts.", min=1)]
Over = Annotated[
    str | None,
    typer.Option("--search", metavar="A,B,C", help="Which settings; else all that the method has a range for."),
]
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="For recipe, figures, picture and trials.")]


def tune(
    stream: Given,
    method: opt.Method = None,
    trials: Trials = 30,
    seeds: Seeds = 2,
    search: Over = None,
    out: Out = Path("memgrow-tune"),
    workers: Workers = None,
    on: opt.On = opt.LOCAL,
    encoder: opt.Encoder = None,
    vectors: opt.Vectors = None,
    recipe: opt.Recipe = None,
    set_: opt.Set = None,
    seed: opt.Seed = None,
    device: opt.Device = "auto",
    text: opt.Text = None,
    pair: opt.Pair = None,
    label: opt.Label = None,
    reply: opt.Reply = None,
    by: opt.By = None,
    domains: opt.Domains = None,
    group: opt.Group = None,
    split_column: opt.SplitColumn = None,
    validation: opt.Validation = None,
    test: opt.Test = None,
    held_out: opt.HeldOut = None,
    limit: opt.Limit = None,
    skip_empty: opt.SkipEmpty = False,
    delimiter: opt.Delimiter = None,
    encoding: opt.Encoding = None,
    map_label: opt.MapLabel = None,
    as_json: opt.AsJson = False,
) -> None:
    """Search for a method's settings on validation data: rate, epochs, and what the method itself leaves open.

    Test examples are never looked at. Trials are kept in the folder --out: the same command again goes on.

    Example: memgrow tune sentiment --method F+V+A --trials 30
    """
    from memgrow.cli.comparing import settings_for
    from memgrow.cli.recipe import read_recipe
    from memgrow.experiments.comparison_setup import LABELS, for_data, kind_of, open_stream, suitable
    from memgrow.experiments.grid import Grid
    from memgrow.experiments.on_ray import find_backend
    from memgrow.experiments.store import Store
    from memgrow.experiments.tuning.search import Search, find_optuna
    from memgrow.experiments.tuning.trials import ValidationReplies, without_test
    from memgrow.methods import find_method
    from memgrow.report.tuning import SearchBar

    find_optuna()
    backend = find_backend(on)
    asked, vectors = read_recipe(recipe, set_ or (), encoder), opt.vectors_file(vectors)
    named = method or asked.method
    first = (asked.seed or 0) if seed is None else seed
    early = settings_for(asked, vectors, for_data(LABELS, stream), device)
    if named is not None:  # what is wrong with it is told before the data is read
        _space(find_method(named).name, early, search)
    loaded = open_stream(
        stream,
        columns=opt.columns(
            text=text,
            pair=pair,
            label=label,
            by=by,
            group=group,
            split_column=split_column,
            reply=reply,
            map_label=map_label,
            delimiter=delimiter,
            encoding=encoding,
        ),
        validation=validation or (),
        test=test or (),
        held_out=held_out or (),
        domains=split_names(domains),
        limit=limit,
        skip_empty=skip_empty,
    )
    for sentence in loaded.notices:
        notice(sentence)
    seen = without_test(loaded.stream)
    kind = for_data(kind_of(seen), stream)
    name = find_method(named or asked.defaults(device, kind.is_dialogue).method).name
    suitable([name], seen, [name])
    settings = settings_for(asked, vectors, kind, device)
    space = _space(name, settings, search)
    _introduce(seen, name, space, seeds)
    with opened(backend), SearchBar(progress_console(), kind.is_dialogue) as bar:
        grid = Grid(
            seen,
            Store(out / "runs"),
            vectors=vectors,
            device=device,
            workers=workers,
            stack=1 if settings.model.kind.is_pretrained else kind.stack,
            reply_evaluation=ValidationReplies(samples=0) if kind.is_dialogue else None,
            backend=backend,
            stack_single=False,
        )
        found = Search(grid, name, settings, space, folder=out, seeds=seeds, first_seed=first, watcher=bar).run(trials)
    _write(found, settings, asked, name, out, kind.is_dialogue)
    if as_json:
        write_json({"method": name, "recipe": str(out / "recipe.yaml"), **found.to_json()}, indent=1)


def _space(method: str, settings: "Settings", search: str | None) -> "Space":
    from memgrow.experiments.tuning.space import space_of
    from memgrow.methods import check_method, find_method

    check_method(find_method(method), settings.model)
    return space_of(find_method(method), settings, split_names(search) or ())


def _introduce(stream: "Stream", method: str, space: "Space", seeds: int) -> None:
    if len(stream):
        sizes = [sum(len(getattr(domain, part)) for domain in stream) for part in ("train", "validation")]
        say(f"{' → '.join(stream.names)}: {sizes[0]:,} training and {sizes[1]:,} validation examples")
    ranges = ", ".join(f"{name.partition('.')[2]} {span}" for name, span in space.items())
    say(f"{method}, {counted(seeds, 'seed')} a trial; searched: {ranges}", "dim")


def _write(found: "Found", settings: "Settings", asked: "Recipe", method: str, out: Path, replies: bool) -> None:
    from memgrow.defaults import defaults_for
    from memgrow.experiments.comparison import Settings
    from memgrow.experiments.tuning.space import recipe_of
    from memgrow.report.table import validation_text
    from memgrow.report.tuning import best_table, draw_search
    from memgrow.storage import atomic_write, pack_json

    best = found.best
    atomic_write(out / "tune.json", pack_json({"method": method, "settings": settings.to_json(), **found.to_json()}))
    if best is None:
        reason = next((trial.reason for trial in found.trials if trial.reason), "none was finished")
        raise SettingsError(f"no trial of {len(found.trials)} succeeded: {reason}")
    console.print(best_table(found, replies))
    score = validation_text(best.scores[-1], replies)
    count = {state: sum(trial.state == state for trial in found.trials) for state in ("pruned", "failed")}
    say(
        f"Best of {counted(len(found.trials), 'trial')} ({count['pruned']} given up early, {count['failed']} failed): "
        f"validation {score}, mean of {counted(found.seeds, 'seed')}. It was chosen by these examples, so that others "
        "will show somewhat worse figures."
    )
    usual = defaults_for(asked.encoder)
    content = recipe_of(settings, Settings(usual.model, usual.training, usual.options), best.values, method)
    path = atomic_write(out / "recipe.yaml", _yaml(content, found, score))
    say(f"The recipe is {path}: memgrow adapt MODEL DATA --recipe {shlex.quote(str(path))}", soft_wrap=True)
    say(f"The figures are in {out / 'tune.json'}.", soft_wrap=True)
    save_picture(out / "tune.png", lambda file: draw_search(found, file, f"{method}: what mattered", replies))


def _yaml(content: dict[str, Any], found: "Found", score: str) -> str:
    import yaml

    about = f"# By memgrow tune: the best of {counted(len(found.trials), 'trial')} of {counted(found.seeds, 'seed')}"
    return f"{about} each, validation {score}.\n{yaml.safe_dump(content, sort_keys=False)}"
