"""`memgrow compare`, `demo` and `report`: methods side by side, and a page about a comparison or a model."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from memgrow.cli import options as opt
from memgrow.cli.app import (
    console,
    note_to_stderr,
    notice,
    progress_console,
    say,
    say_verdict,
    split_names,
    write_json,
)
from memgrow.errors import SettingsError, counted

if TYPE_CHECKING:
    from memgrow.data import Stream
    from memgrow.evaluation.compare import Run, Settings
    from memgrow.evaluation.comparison import Comparison, RunResult
    from memgrow.evaluation.progress_bars import ProgressBar
    from memgrow.evaluation.report import Report
    from memgrow.training.settings import Defaults

Given = Annotated[list[str], opt.argument("STREAM", "A corpus, a folder, or files: a domain each.")]
Data = Annotated[list[Path] | None, opt.argument("DATA", "Of a model: files of its domains, to test it on.")]
METHODS_HELP = "Methods; finetune and multi-task are always added."
ON_HELP = "local, ray, or the address of a Ray cluster (ray://HOST:PORT)."
METHOD_HELP = "For a comparison: the method to report on [the best]."
seeds_option = partial(opt.option, "Number of runs of each method.", metavar="N", min=1)
out_option = partial(opt.option, "Folder for figures and report.", metavar="FOLDER")
REAL_HELP = "Real sentences and MiniLM, which are fetched: about five minutes."
DEMO_NEXT = "Next: memgrow adapt model/ YOUR.jsonl"
REAL_ROWS = 160  # of each split, at most
REPORT = "report.html"
BEGINNING = 1000  # bytes of a page in which its maker is named


@opt.grouped
def compare(
    stream: Given,
    settings: opt.SettingOptions,
    rows: opt.TrainingDataOptions,
    methods: str | None = opt.option(METHODS_HELP, metavar="A,B,C", show_default=opt.COMPARED),
    seeds: int = seeds_option(default=3),
    out: Path = out_option(default="memgrow-compare"),
    workers: int | None = opt.option("Processes on this machine.", metavar="N", min=1),
    on: str = opt.option(ON_HELP, default=opt.LOCAL, metavar="WHERE"),
    as_json: opt.AsJson = False,
) -> None:
    """Compare methods on your own domains: accuracy, forgetting, size, time; for replies BLEU-2 and perplexity.

    Finished runs are kept in the folder --out: the same command again continues from them.

    Example: memgrow compare books.jsonl dvds.jsonl
    """
    from memgrow.data.corpora import open_corpus
    from memgrow.data.domain import PARTS
    from memgrow.evaluation import compare as comparing
    from memgrow.evaluation.baselines import INSTALL_SKLEARN, is_installed
    from memgrow.evaluation.progress_bars import ProgressBar
    from memgrow.evaluation.ray_executor import check_place
    from memgrow.evaluation.tables import matrix_table
    from memgrow.methods import find_method
    from memgrow.training.settings import sizes_line

    # Quick checks first: a misspelt method should not wait for a long file.
    check_place(on)
    check_replaceable(out / REPORT)
    asked, vectors, device = settings.changes(), settings.vectors_file, settings.device
    names, extra = split_names(methods) or [], [asked.method] if asked.method else []
    for name in (*names, *extra):
        find_method(name)
    opened = open_corpus(
        stream,
        columns=rows.columns(rows.group),
        validation=rows.validation or (),
        test=rows.test or (),
        domains=split_names(rows.domains),
        limit=rows.limit,
    )
    notice(*opened.notices)
    loaded = opened.stream
    is_dialogue = any(domain.has_replies for domain in loaded)
    usual = asked.defaults(device, methods=[*names, *extra], replies=is_dialogue, vectors=vectors)
    used = _settings(asked, usual, vectors)
    say(sizes_line(used.model, used.training, len(loaded[0].train)), "dim")
    sizes = {domain.name: {part: len(getattr(domain, part)) for part in PARTS} for domain in loaded}
    train, validation, test = (sum(one[part] for one in sizes.values()) for part in PARTS)
    say(f"{' → '.join(loaded.names)}: {train:,} training, {validation:,} validation, {test:,} test examples")
    if not is_dialogue and not is_installed():
        notice(INSTALL_SKLEARN)
    numbers = range(asked.seed or 0, (asked.seed or 0) + seeds)
    with ProgressBar(progress_console()) as bar:
        bar.show("runs", 0, None, "")
        comparison = comparing.compare(
            loaded,
            names or [*comparing.usual_methods(used.model, is_dialogue), *extra],
            folder=out / "runs",
            seeds=numbers,
            settings=used,
            vectors=vectors,
            device=device,
            workers=workers,
            on=on,
            on_run=lambda *ended: _show_run(bar, *ended),
        )
    if comparison.results:
        for method in comparison.order:
            matrix = comparison.mean_matrix(method)
            if len(matrix.rows) > 1:
                console.print(matrix_table(matrix, comparison.measure, method))
        content = {
            "domains": sizes,
            "seeds": list(numbers),
            "measure": comparison.kind,
            "settings": used.to_json(),
            "methods": comparison.to_json(),
            "failures": [vars(failure) for failure in comparison.failures],
        }
        say(comparing.not_converged(comparison, comparing.retraining_settings(used.training, loaded)))
        _show(comparison, seeds, content, out / "compare.json", as_json)
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
            bar.note(f"{run}: {sentence}")
    bar.say(Text(f"{run}: {said} ({ended} of {total})"))
    bar.show("runs", ended, total, f"{ended} of {total}")


def _settings(asked: opt.SettingChanges, usual: "Defaults", vectors: Path | None) -> "Settings":
    """The recipe's settings on top of the defaults of `adapt`."""
    from memgrow.evaluation.compare import Settings

    model = asked.model(usual.model, vectors)
    if model.is_pretrained:
        if vectors is not None:
            raise SettingsError("a pretrained encoder takes no word vectors: leave them out, or use --encoder lstm")
        model, _ = model.resolve()
    return Settings(model, asked.section("training", usual.training), asked.section("options", usual.options))


def _show(comparison: "Comparison", seeds: int, content: dict[str, Any], results: Path, as_json: bool) -> None:
    """Print the tables of a comparison, and write its results with a report beside them."""
    from memgrow.evaluation.comparison import compared_table, domains_table, legend, verdict

    console.print(domains_table(comparison), compared_table(comparison, seeds))
    say(legend(comparison, seeds))
    say(verdict(comparison))
    _write(content, results, as_json)


def _write(content: dict[str, Any], results: Path, as_json: bool) -> None:
    from memgrow.data.disk import atomic_write, pack_json
    from memgrow.evaluation.report import read_results

    atomic_write(results, pack_json(content))
    say(f"The figures are in {results}.")
    write_report(read_results(results), results.with_name(REPORT))
    if as_json:
        write_json(content, indent=1)


def demo(
    methods: str | None = opt.option("Methods.", metavar="A,B,C", show_default=opt.DEMO),
    real: bool = opt.option(REAL_HELP, "--real", default=False),
    seeds: int = seeds_option(default=1),
    seed: int = opt.setting("Random seed.", default=0),
    out: Path = out_option(default="memgrow-demo"),
    device: str = opt.DEVICE,
    as_json: opt.AsJson = False,
) -> None:
    """Four domains in turn: what fine-tuning forgets, what memgrow keeps, and an update that is refused.

    Example: memgrow demo
    """
    from memgrow.data import synthetic_stream
    from memgrow.evaluation import demo as acts
    from memgrow.evaluation.compare import Settings
    from memgrow.evaluation.comparison import BASELINE, RETRAINING, ends_sentence, ends_table
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
        asked, numbers = split_names(methods) or names, range(seed, seed + seeds)
        made = acts.run_demo(streams, asked, numbers, settings, device=device, progress=bar)
        gate = acts.try_gate(first, settings, out / "model", seed=seed, device=device, progress=bar)
    comparison = acts.comparison_of(made)
    console.print(ends_table(comparison))
    say(ends_sentence(comparison))
    limit, now = f"--max-forgetting {acts.MAX_FORGETTING:g}", f"{percent(gate.before)}% to {percent(gate.after)}%"
    said = "refused, and the model is unchanged" if gate.refused else "within the limit, and kept"
    say(
        f"The gate: with {limit}, fine-tuning the model of {gate.learned} on {gate.offered} would take {gate.learned} "
        f"from {now}. The update is {said} (digest {gate.digests[1]})."
    )
    _write({**made, "gate": gate.to_json()}, out / "demo.json", as_json)
    say(DEMO_NEXT)


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
    return Settings(usual.model.resolve()[0], usual.training, usual.options)


@opt.grouped
def report(
    what: Annotated[Path, opt.argument("RUN_OR_MODEL", "A model's folder, or what compare or demo has written.")],
    rows: opt.DataOptions,
    data: Data = None,
    out: Path = opt.option("The page.", "-o", "--out", default=REPORT, metavar="FILE"),
    method: str | None = opt.option(METHOD_HELP, metavar="NAME"),
    device: str = opt.DEVICE,
    as_json: opt.AsJson = False,
) -> None:
    """Write an HTML report: what each domain gained, what was forgotten, and what it cost.

    Example: memgrow report model/ books_test.jsonl dvds_test.jsonl -o report.html
    """
    from memgrow.evaluation.report import find_results, read_results, report_of_model
    from memgrow.learner import Learner

    check_replaceable(out)
    results = find_results(what)
    if results is not None:
        if data:
            raise SettingsError(f"{what} holds results and no model: leave out the data, or give a model's folder")
        made = read_results(results, method)
    else:
        if method is not None:
            raise SettingsError(f"--method is for comparisons, and {what} is none: leave it out")
        learner = Learner.load(what, device)
        loaded = rows.load_for_evaluation(data, what) if data else None
        note_to_stderr(*(loaded.notices if loaded else ()))
        with progress_console().status("reading the texts" if data else "reading the model"):
            made = report_of_model(learner, str(what), tuple(loaded.stream) if loaded else ())
    write_report(made, out)
    say_verdict(made.verdict)
    if as_json:
        write_json({"report": str(out), **made.to_json()})


def write_report(made: "Report", out: Path) -> None:
    """Write the page whole or not at all, and say where it is."""
    from memgrow.data.disk import open_output
    from memgrow.evaluation.report import render

    page = render(made).encode()
    with open_output(out) as file:
        file.write(page)
    say(f"The report is {out}.")


def check_replaceable(out: Path) -> None:
    """Refuse to write over anything but an earlier report."""
    from memgrow.data.disk import check_output
    from memgrow.evaluation.report import GENERATOR

    check_output(out)
    if not out.is_file():
        return  # a pipe would wait for somebody to write
    with out.open("rb") as file:
        if f'content="{GENERATOR}"'.encode() not in file.read(BEGINNING):
            raise SettingsError(f"{out} exists and is no report of memgrow's: choose another name")
