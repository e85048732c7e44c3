"""`memgrow compare` and `demo`: methods side by side on your own domains, and on made-up ones."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from memgrow.cli import options as opt
from memgrow.cli.app import console, notice, progress_console, save_picture, say, split_names, write_json
from memgrow.cli.report import REPORT, check_replaceable, write_report
from memgrow.errors import SettingsError, counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from memgrow.cli.settings import SettingChanges
    from memgrow.data import Stream
    from memgrow.evaluation.compare import Run, Settings
    from memgrow.evaluation.comparison import Comparison, RunResult
    from memgrow.evaluation.progress_bars import ProgressBar

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
DEMO_NEXT = "These domains are synthetic: memgrow compare FILES... compares the methods on yours."
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

    Example: memgrow compare sentiment --methods finetune+vocab,finetune+ema --seeds 3
    """
    from memgrow.data.corpora import CORPORA
    from memgrow.data.domain import PARTS
    from memgrow.evaluation import compare as comparing
    from memgrow.evaluation.baselines import INSTALL_SKLEARN, is_installed
    from memgrow.evaluation.plots import draw_comparison
    from memgrow.evaluation.progress_bars import ProgressBar
    from memgrow.evaluation.ray_executor import check_place
    from memgrow.methods import find_method

    # Quick checks first: a misspelt method should not wait for a long file.
    check_place(on)
    check_replaceable(out / REPORT)
    asked, vectors, device = settings.changes(), settings.vectors_file, settings.device
    usual = comparing.METHODS if asked.encoder is None else comparing.ENCODER_METHODS
    names = split_names(methods) or [*usual, *([asked.method] if asked.method else [])]
    for name in names:
        find_method(name)
    loaded = _open(stream, rows)
    is_dialogue = any(domain.has_replies for domain in loaded)
    used = _settings(
        asked, vectors, device=device, is_dialogue=is_dialogue, is_public=all(name in CORPORA for name in stream)
    )
    sizes = [sum(len(getattr(domain, part)) for domain in loaded) for part in PARTS]
    say(f"{' → '.join(loaded.names)}: {sizes[0]:,} training, {sizes[1]:,} validation, {sizes[2]:,} test examples")
    if not is_dialogue and not is_installed():
        notice(INSTALL_SKLEARN)
    first = (asked.seed or 0) if settings.seed is None else settings.seed
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
    for sentence in loaded.notices:
        notice(sentence)
    return loaded.stream


def _settings(
    asked: "SettingChanges", vectors: Path | None, *, device: str, is_dialogue: bool, is_public: bool
) -> "Settings":
    """The recipe's settings on top of the defaults of `adapt`."""
    from memgrow.evaluation.compare import Settings
    from memgrow.training.settings import sizes_line

    usual = asked.defaults(device, is_dialogue)
    if asked.encoder is not None:
        if vectors is not None or is_dialogue:
            raise SettingsError("a pretrained encoder takes neither replies nor word vectors: leave out --encoder")
        model, _ = asked.section("model", usual.model).resolve()
    else:
        if is_public:
            training = replace(usual.training, **CORPUS_TRAINING)
            usual = replace(usual, model=replace(usual.model, **CORPUS_MODEL), training=training)
        model = asked.model(usual.model, vectors)
    settings = Settings(model, asked.section("training", usual.training), asked.section("options", usual.options))
    say(sizes_line(model, settings.training), "dim")
    return settings


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
    methods: Annotated[str, typer.Option(metavar="A,B,C", help="Which methods to compare.")] = opt.DEMO,
    seeds: Seeds = 1,
    seed: Annotated[int, opt.setting("Random seed.")] = 0,
    out: Out = Path("memgrow-demo"),
    device: opt.Device = "auto",
    as_json: opt.AsJson = False,
) -> None:
    """Four made-up domains in turn: fine-tuning, a domain memory, and retraining on everything.

    Example: memgrow demo --seeds 3
    """
    from memgrow.evaluation.comparison_tables import compared_table, legend, marked, verdict
    from memgrow.evaluation.demo import METHODS as DEMO_METHODS
    from memgrow.evaluation.demo import run_demo
    from memgrow.evaluation.plots import draw_matrices
    from memgrow.evaluation.progress_bars import TrainingBar
    from memgrow.evaluation.tables import matrix_table

    check_replaceable(out / REPORT)
    out.mkdir(parents=True, exist_ok=True)  # fails before anything is learned
    say("Four domains arrive one after another; cues of one conflict with those of the next.")
    with TrainingBar(progress_console()) as bar:
        made = run_demo(split_names(methods) or DEMO_METHODS, range(seed, seed + seeds), device, bar)
    matrices = {marked(method): made.comparison.mean_matrix(method) for method in made.comparison.results}
    for method, matrix in matrices.items():
        console.print(matrix_table(matrix, f"{method}: test accuracy, %"))
    console.print(compared_table(made.comparison, seeds))
    for sentence in (legend(made.comparison, seeds), verdict(made.comparison), DEMO_NEXT):
        say(sentence)
    title = f"Four synthetic domains in turn ({counted(seeds, 'seed')})"
    forgot = {marked(name): values["forgetting"].mean for name, values in made.comparison.summary.items()}
    content = made.to_json()
    _write(content, out / "demo.json", lambda: draw_matrices(matrices, title, forgot))
    if as_json:
        write_json(content, indent=1)
