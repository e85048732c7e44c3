"""`memgrow compare` and `demo`: methods side by side on your own domains, and on made-up ones."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from memgrow.cli import options as opt
from memgrow.cli.adapt import fetch_encoder
from memgrow.cli.app import console, notice, progress_console, save_picture, say, split_names, write_json
from memgrow.cli.report import REPORT, check_replaceable, write_report
from memgrow.errors import SettingsError, counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from memgrow.data import Stream
    from memgrow.evaluation.compare import Run, Settings
    from memgrow.evaluation.comparison import Comparison, RunResult
    from memgrow.evaluation.progress_bars import ProgressBar
    from memgrow.training.settings import Defaults

Given = Annotated[list[str], opt.argument("STREAM", "A corpus, a folder, or files: a domain each.")]
Methods = Annotated[
    str | None,
    typer.Option(metavar="A,B,C", help="Methods; finetune and multi-task are always added.", show_default=opt.COMPARED),
]
Seeds = Annotated[int, typer.Option(metavar="N", help="Number of runs of each method.", min=1)]
On = Annotated[
    str, typer.Option(metavar="WHERE", help="local, ray, or the address of a Ray cluster (ray://HOST:PORT).")
]
Workers = Annotated[int | None, typer.Option(metavar="N", help="Processes on this machine.", min=1)]
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for figures, plot and report.")]
DEMO_NEXT = "Next: memgrow adapt model/ YOUR.jsonl"
REAL_ROWS = 160  # of each split, at most
# The recorded results of public corpora were made with these; a user's own data is learned as `adapt` learns it.
CORPUS_MODEL: dict[str, Any] = {"lowercase": False}
CORPUS_TRAINING: dict[str, Any] = {"min_documents": 1, "patience": 2}


@opt.grouped
def compare(
    stream: Given,
    settings: opt.SettingOptions,
    rows: opt.TrainingDataOptions,
    methods: Methods = None,
    seeds: Seeds = 3,
    out: Out = Path("memgrow-compare"),
    workers: Workers = None,
    on: On = opt.LOCAL,
    as_json: opt.AsJson = False,
) -> None:
    """Compare methods on your own domains: accuracy, forgetting, size, time; for replies BLEU-2 and perplexity.

    Finished runs are kept in the folder --out: the same command again continues from them.

    Example: memgrow compare books.jsonl dvds.jsonl
    """
    from memgrow.data.corpora import CORPORA
    from memgrow.data.domain import PARTS
    from memgrow.evaluation import compare as comparing
    from memgrow.evaluation.baselines import INSTALL_SKLEARN, is_installed
    from memgrow.evaluation.plots import draw_comparison
    from memgrow.evaluation.progress_bars import ProgressBar
    from memgrow.evaluation.ray_executor import check_place
    from memgrow.methods import find_method
    from memgrow.training.settings import sizes_line

    # Quick checks first: a misspelt method should not wait for a long file.
    check_place(on)
    check_replaceable(out / REPORT)
    asked, vectors, device = settings.changes(), settings.vectors_file, settings.device
    names = split_names(methods) or []
    for name in (*names, *([asked.method] if asked.method else [])):
        find_method(name)
    loaded = _open(stream, rows)
    is_dialogue = any(domain.has_replies for domain in loaded)
    usual = asked.defaults(device, methods=[*names, asked.method], replies=is_dialogue, vectors=vectors)
    used = _settings(asked, usual, vectors, is_public=all(name in CORPORA for name in stream))
    say(sizes_line(used.model, used.training, len(loaded[0].train)), "dim")
    names = names or [*comparing.usual_methods(used.model, is_dialogue), *([asked.method] if asked.method else [])]
    sizes = [sum(len(getattr(domain, part)) for domain in loaded) for part in PARTS]
    say(f"{' → '.join(loaded.names)}: {sizes[0]:,} training, {sizes[1]:,} validation, {sizes[2]:,} test examples")
    if not is_dialogue and not is_installed():
        notice(INSTALL_SKLEARN)
    first = asked.seed or 0
    with ProgressBar(progress_console()) as bar:
        bar.show("runs", 0, None, "")
        comparison = comparing.compare(
            loaded,
            names,
            folder=out / "runs",
            seeds=range(first, first + seeds),
            settings=used,
            vectors=vectors,
            device=device,
            workers=workers,
            on=on,
            on_run=lambda *ended: _show_run(bar, *ended),
        )
    if comparison.results:
        retraining = comparing.retraining_settings(used.training, loaded)
        reference = comparing.convergence(comparison, retraining)
        _show(comparison, seeds, reference)
        content = {
            "domains": {domain.name: {part: len(getattr(domain, part)) for part in PARTS} for domain in loaded},
            "seeds": list(range(first, first + seeds)),
            "measure": comparison.kind,
            "settings": used.to_json(),
            "methods": comparison.to_json(),
            **({"reference": reference} if reference else {}),
            "failures": [vars(failure) for failure in comparison.failures],
        }
        title = f"{' → '.join(loaded.names)} ({counted(seeds, 'seed')})"
        _write(content, out / "compare.json", lambda: draw_comparison(comparison, title))
        if as_json:
            write_json(content, indent=1)
    if failures := comparison.failures:
        which = ", ".join(dict.fromkeys(failure.method for failure in failures))
        raise SettingsError(f"{counted(len(failures), 'run')} failed ({which}): {failures[0].reason}; run it again")


def _show_run(bar: "ProgressBar", run: "Run", outcome: "RunResult | str", ended: int, total: int) -> None:
    if isinstance(outcome, str):
        said = f"failed: {outcome}"
    else:
        average = 100 * (outcome.matrix.average() or 0.0)
        said = f"average {average:.1f}, {counted(round(outcome.seconds), 'second')}"
        for sentence in outcome.notes:
            bar.say(Text(f"{run}: {sentence}", "dim"))
    bar.say(Text(f"{run}: {said} ({ended} of {total})"))
    bar.show("runs", ended, total, f"{ended} of {total}")


def _open(given: list[str], rows: opt.TrainingDataOptions) -> "Stream":
    """The stream that was named: a corpus, a folder or files."""
    from memgrow.data.corpora import CORPORA, open_corpus

    domains = split_names(rows.domains)
    if any(name in CORPORA or Path(name).is_dir() for name in given):
        if rows.validation or rows.test:
            raise SettingsError(f"{given[0]} has its own splits: leave out --validation and --test")
        loaded = open_corpus(given, columns=rows.columns(rows.group), domains=domains, limit=rows.limit)
    else:
        loaded = rows.load([Path(name) for name in given], domains)
    notice(*loaded.notices)
    return loaded.stream


def _settings(asked: opt.SettingChanges, usual: "Defaults", vectors: Path | None, *, is_public: bool) -> "Settings":
    """The recipe's settings on top of the defaults of `adapt`."""
    from memgrow.evaluation.compare import Settings

    if usual.model.is_pretrained:
        if vectors is not None:
            raise SettingsError("a pretrained encoder takes no word vectors: leave them out, or use --encoder lstm")
        model = asked.section("model", usual.model)
        fetch_encoder(model)
        model, _ = model.resolve()
    else:
        if is_public:
            training = replace(usual.training, **CORPUS_TRAINING)
            usual = replace(usual, model=replace(usual.model, **CORPUS_MODEL), training=training)
        model = asked.model(usual.model, vectors)
    return Settings(model, asked.section("training", usual.training), asked.section("options", usual.options))


def _show(comparison: "Comparison", seeds: int, reference: dict[str, Any]) -> None:
    from memgrow.evaluation.comparison_tables import compared_table, domains_table, legend, verdict
    from memgrow.evaluation.tables import matrix_table

    for method in comparison.order:
        matrix = comparison.mean_matrix(method)
        if len(matrix.rows) > 1:
            console.print(matrix_table(matrix, f"{method}: {comparison.measure.axis}", comparison.measure.digits))
    console.print(domains_table(comparison))
    console.print(compared_table(comparison, seeds))
    say(legend(comparison, seeds))
    if reference and not reference["converged"]:
        epochs = reference["epochs_at_most"]
        say(f"{reference['method']} had not converged after {epochs} epochs: --set epochs={epochs} gives it more")
    say(verdict(comparison))


def _write(content: dict[str, Any], results: Path, draw: "Callable[[], Figure]") -> None:
    """Write the results and, with matplotlib, a plot and a report beside them."""
    from memgrow.data.disk import atomic_write, pack_json
    from memgrow.evaluation.report import read_results

    atomic_write(results, pack_json(content))
    say(f"The figures are in {results}.")
    save_picture(results.with_suffix(".png"), draw, named=False)
    try:
        write_report(read_results(results), results.with_name(REPORT))
    except SettingsError as error:
        notice(f"There is no report: {error}")


def demo(
    methods: Annotated[str | None, typer.Option(metavar="A,B,C", help="Methods.", show_default=opt.DEMO)] = None,
    real: Annotated[
        bool, typer.Option("--real", help="Real sentences and MiniLM, which are fetched: about five minutes.")
    ] = False,
    seeds: Seeds = 1,
    seed: Annotated[int, opt.setting("Random seed.")] = 0,
    out: Out = Path("memgrow-demo"),
    device: opt.Device = "auto",
    as_json: opt.AsJson = False,
) -> None:
    """Four domains in turn: what fine-tuning forgets, what memgrow keeps, and an update that is refused.

    Example: memgrow demo
    """
    from memgrow.data import synthetic_stream
    from memgrow.evaluation import demo as acts
    from memgrow.evaluation.compare import Settings
    from memgrow.evaluation.comparison import BASELINE, RETRAINING
    from memgrow.evaluation.comparison_tables import ends_sentence, ends_table, marked
    from memgrow.evaluation.plots import draw_matrices
    from memgrow.evaluation.progress_bars import TrainingBar
    from memgrow.evaluation.tables import percent
    from memgrow.methods import RECOMMENDED_FOR_ENCODERS

    check_replaceable(out / REPORT)
    out.mkdir(parents=True, exist_ok=True)  # fails before anything is learned
    kind, settings, names = "synthetic", Settings(acts.MODEL, acts.TRAINING), acts.METHODS
    if real:
        kind, settings, names = "real", _real_settings(), (BASELINE, RECOMMENDED_FOR_ENCODERS, RETRAINING)

    def streams(seed: int) -> "Stream":
        return _real_stream() if real else synthetic_stream(seed=seed)

    first = streams(seed)
    say(f"Four {kind} domains arrive one after another: {', '.join(first.names)}. Their rows are not kept.")

    class Bar(TrainingBar):
        def note(self, sentence: str) -> None:
            """Notes are about data of one's own."""

    with Bar(progress_console()) as bar:
        given: Any = {"streams": streams, "settings": settings}
        made = acts.run_demo(split_names(methods) or names, range(seed, seed + seeds), device, bar, **given)
        gate = acts.try_gate(first, settings, out / "model", seed=seed, device=device, progress=bar)
    console.print(ends_table(made.comparison))
    say(ends_sentence(made.comparison))
    limit, now = f"--max-forgetting {acts.MAX_FORGETTING:g}", f"{percent(gate.before)}% to {percent(gate.after)}%"
    said = "refused, and the model is unchanged" if gate.refused else "within the limit, and kept"
    say(
        f"The gate: with {limit}, fine-tuning the model of {gate.learned} on {gate.offered} would take {gate.learned} "
        f"from {now}. The update is {said} (digest {gate.digests[1]})."
    )
    title = f"Four {kind} domains in turn ({counted(seeds, 'seed')})"
    matrices = {marked(method): made.comparison.mean_matrix(method) for method in made.comparison.results}
    forgot = {marked(name): values["forgetting"].mean for name, values in made.comparison.summary.items()}
    content = {**made.to_json(), "gate": gate.to_json()}
    _write(content, out / "demo.json", lambda: draw_matrices(matrices, title, forgot))
    say(DEMO_NEXT)
    if as_json:
        write_json(content, indent=1)


def _real_stream() -> "Stream":
    """Few rows of the corpus sentiment, which is fetched if need be."""
    from memgrow.data.corpora import CORPORA, get, open_corpus

    corpus = CORPORA["sentiment"]
    if not corpus.is_here():
        notice(*get(corpus))
    return open_corpus(corpus.name, limit=REAL_ROWS).stream


def _real_settings() -> "Settings":
    from memgrow.evaluation.compare import Settings
    from memgrow.models.hub import DEFAULT_ENCODER
    from memgrow.training.settings import defaults_for

    usual = defaults_for(DEFAULT_ENCODER)
    fetch_encoder(usual.model)
    return Settings(usual.model.resolve()[0], usual.training, usual.options)
