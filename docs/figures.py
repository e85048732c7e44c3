"""The figures that README.md and the pages of docs/ quote, taken from results/.

`python docs/figures.py` prints them; `python docs/figures.py --write` puts them where they belong, between the marks
<!-- figures: NAME --> and <!-- end of figures -->. A test fails while a page says anything else.
"""

import gzip
import json
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from math import exp
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT), str(ROOT / "docs")]

from drift_figures import DRIFT  # noqa: E402
from few_rows_figures import FEW_ROWS  # noqa: E402
from large_files_figures import LARGE_FILES  # noqa: E402
from leaving_figures import EXPORT  # noqa: E402
from quoted_figures import DEFAULT_RUNS, histories  # noqa: E402
from result_commands import as_typed  # noqa: E402
from scale_figures import HUNDRED, PROCESSES, SCALE  # noqa: E402
from serving_figures import SERVING  # noqa: E402
from speed_figures import SPEED  # noqa: E402

from memgrow.methods import RECOMMENDED_FOR_ENCODERS  # noqa: E402
from research.common.replies import unpack  # noqa: E402
from research.common.tables import MISSING, Table, signed  # noqa: E402
from research.encoders.figures import ALL_ORDERS  # noqa: E402
from research.encoders.report import NO_FIGURES, slots_taken_away, study_page  # noqa: E402
from research.paper.dialogue import LETTERS  # noqa: E402
from research.paper.page import block  # noqa: E402
from research.which_method.report import NAMES, choice_page  # noqa: E402

RESULTS = ROOT / "results/demo/demo.json"
IN_TURN, AT_ONCE = "bag of words", "bag, all data"  # rows beside the methods

Results = dict[str, Any]


def load() -> Results:
    results: Results = json.loads(RESULTS.read_text(encoding="utf-8"))
    return results


def comparison(results: Results) -> str:
    """One line for each method, mean ± standard deviation over the seeds, and what slots add to new words."""
    rows = [
        [
            method,
            _spread(_averages(results, method)),
            _spread([run["forgetting"] for run in runs]),
            _spread([_first_domain(run) for run in runs]),
            f"{fmean(run['stages'][-1]['parameters'] for run in runs):,.0f}",
        ]
        for method, runs in results["runs"].items()
    ]
    header = (
        "method",
        "average accuracy at the end, %",
        "forgetting, points",
        "first domain at the end, %",
        "parameters",
    )
    plain, words, both = (_averages(results, method) for method in ("F", "F+V", "F+M+V"))
    return _with_table(
        header,
        rows,
        f"Mean ± standard deviation over {results['seeds']} seeds. Compared seed by seed, F+M+V ends "
        f"{_gain(both, plain)} points above F, F+V ends {_gain(words, plain)} points above F, and F+M+V ends "
        f"{_gain(both, words)} points above F+V.",
    )


def _with_table(header: Sequence[str], rows: Sequence[Sequence[str]], sentence: str) -> str:
    return f"{Table(None, header, rows).to_markdown()}\n\n{sentence}"


def matrix(results: Results) -> str:
    """The tutorial's matrix after three domains: the first run of F+M+V, as the terminal shows it."""
    rows = results["runs"]["F+M+V"][0]["matrix"][:3]
    names = [row["learned"][0] for row in rows]
    lines = ["```text", "  after learning " + "".join(f"  {name:>7}" for name in names)]
    for row in rows:
        lines.append(f"  {row['learned'][0]:<15}" + "".join(f"  {100 * row['scores'][name]:7.1f}" for name in names))
    return "\n".join([*lines, "```"])


def sentiment(_: Results) -> str:
    """Methods on four small real domains, as `memgrow compare sentiment` found them."""
    found = json.loads((ROOT / "results/sentiment/compare.json").read_text(encoding="utf-8"))
    rows = []
    for name, one in found["methods"].items():
        average = f"{100 * one['average']['mean']:.1f} ± {100 * one['average']['spread']:.1f}"
        lost = one["forgetting"]
        forgot = (
            "-"
            if not lost or lost["mean"] is None
            else f"{100 * lost['mean'] + 0.0:.1f} ± {100 * lost['spread']:.1f}".replace("-0.0", "0.0")
        )
        against = one["against"].get("F")
        gain = (
            f"{_signed(against['difference'])} [{_signed(against['low'])}, {_signed(against['high'])}]"
            if against
            else "-"
        )
        rows.append([name, average, forgot, gain])
    domains = ", ".join(found["domains"])
    header = ("method", "average accuracy at the end, %", "forgetting, points", "against F, points [95% interval]")
    return _with_table(header, rows, f"{domains} in this order; {len(found['seeds'])} seeds (`{_compared_by(found)}`).")


def _compared_by(found: Results) -> str:
    names = ",".join(name for name in found["methods"] if name not in ("F", "multi-task", IN_TURN, AT_ONCE))
    return f"memgrow compare sentiment --methods {names} --seeds {len(found['seeds'])} --out results/sentiment"


def five_genres(_: Results) -> str:
    """Methods after five genres of MultiNLI, against retraining on everything."""
    found = json.loads((ROOT / "results/paper/recommended.json").read_text(encoding="utf-8"))
    rows = found["sheets"][0]["rows"]
    shown = []
    for row in sorted(rows, key=lambda row: -row["validation"]["mean"]):
        end, lost = row["cells"]["average"], row["forgetting"]
        against = end.get("tests", {}).get("multi-task")
        shown.append(
            [
                row["name"],
                f"{row['validation']['mean']:.1f}",
                f"{end['mean']:.1f} ± {end['spread']:.1f}",
                "-" if lost["mean"] is None else f"{lost['mean']:.1f} ± {lost['spread']:.1f}".replace("-", "−"),
                _interval(against) if against else "-",
                str(len(end["values"])),
            ]
        )
    header = (
        "method",
        "validation, %",
        "test, %",
        "forgetting, points",
        "against multi-task [95% interval]",
        "seeds",
    )
    return _with_table(header, shown, f"The average of the five genres' test parts. From `{as_typed(found)}`.")


def _interval(test: Results) -> str:
    return f"{signed(test['difference'])} [{signed(test['low'])}, {signed(test['high'])}]"


def _signed(share: float) -> str:
    return signed(100 * share)


def false_positives(_: Results) -> str:
    """How often the paper's test sees a difference between equal methods."""
    found = json.loads((ROOT / "results/paper/false-positives.json").read_text(encoding="utf-8"))
    rows = [(_simulated(one), one) for one in found["simulated"]]
    between = found["between_seeds"]
    for genre, one in between["genres"].items():
        rows.append((f"{one['pairs']} pairs of seeds of {between['method']}, on {genre}", one))
    shown = []
    for name, one in rows:
        shares = {rate["level"]: rate["either"] for rate in one["rates"]}
        shown.append([name, f"{shares[0.05]:.0%}", f"{shares[0.01]:.0%}", f"{one['mcnemar']:.0%}"])
    header = ("equal methods", "p < 0.05 (promised: 10%)", "p < 0.01 (promised: 2%)", "McNemar, 0.05")
    return _with_table(header, shown, f"From `{as_typed(found)}`.")


def case(_: Results) -> str:
    """What lower case does for texts as they are written and in capitals."""
    found = json.loads((ROOT / "results/case.json").read_text(encoding="utf-8"))
    texts = ("as written, %", "in capitals, %")
    header = ("texts are read", "words", *texts, *(f"unknown {text}" for text in texts))
    rows = [
        [
            name,
            f"{one['words']:,.0f}",
            *(f"{100 * one[f'{text}, accuracy']:.1f}" for text in ("as written", "in capitals")),
            *(f"{100 * one[f'{text}, unknown words']:.0f}" for text in ("as written", "in capitals")),
        ]
        for name, one in found["read"].items()
    ]
    about = found["about"]
    sentence = (
        f"Mean validation accuracy after {' → '.join(about['domains'])} (at most {about['limit']:,} training examples "
        f"each, {about['epochs']} epochs, {about['seeds']} seeds) on texts as written and in capitals, and the "
        f"share of their words that is unknown. From `{as_typed(found)}`."
    )
    return _with_table(header, rows, sentence)


def averaging(_: Results) -> str:
    """What other rules for the share of the old weights end with, beside `keep: auto`."""
    found = json.loads((ROOT / "results/averaging.json").read_text(encoding="utf-8"))

    def against(one: Results) -> str:
        ends = [signed(100 * one[name]) for name in ("difference", "low", "high") if one["low"] is not None]
        return f"{ends[0]} [{ends[1]}, {ends[2]}]" if ends else MISSING

    rows = [[name, f"{100 * one['average']:.1f}", against(one["against_auto"])] for name, one in found["rows"].items()]
    return _with_table(
        ("how far back", "accuracy on both, %", "against auto [95% interval]"),
        rows,
        f"All ordered pairs of {', '.join(found['domains'])}: one is learnt after the other, by F+V or, where it says "
        f"E,\nby F+V+E; the mean of both on test examples, {found['seeds']} seeds, at most {found['limit']} training "
        f"examples each.\nFrom `{as_typed(found)}`.",
    )


def _simulated(one: Results) -> str:
    spread = f", seeds spread by {100 * one['seed_spread']:g} point" if one["seed_spread"] else ""
    return f"simulated, {one['examples']:,} test examples, {one['subsets']} subsets{spread}"


def reply_lengths(_: Results) -> str:
    """What the penalty for short replies does to BLEU-2, from Table 5 and the lengths of the corpora's own replies."""
    found = json.loads((ROOT / "results/paper/table5.json").read_text(encoding="utf-8"))
    with gzip.open(ROOT / "results/paper/runs-dialogue/records.jsonl.gz", "rt", encoding="utf-8") as records:
        tried = json.loads(next(records))["replies"]["test"]
    own = {letter: fmean(unpack(tried[domain]["said"]["references"])) for letter, domain in LETTERS.items()}
    names = [f"{what} {letter}" for letter in LETTERS for what in ("words", "factor", "BLEU-2 without it")]
    shown = []
    for row in found["sheets"][0]["rows"]:
        cells = []
        for letter in LETTERS:
            words, scores = (row["cells"][f"{what}_{letter}"] for what in ("length", "bleu2"))
            factors = [exp(min(0.0, 1 - own[letter] / count)) for count in words["values"]]
            bare = [score / factor for score, factor in zip(scores["values"], factors, strict=True)]
            cells += [f"{words['mean']:.1f}", f"{fmean(factors):.2f}", f"{fmean(bare):.1f}"]
        shown.append([row["name"], *cells])
    means = " and ".join(f"{mean:.1f} words on {letter}" for letter, mean in own.items())
    sentence = f"Means over seeds. The corpora's own replies to the test messages have {means}."
    return _with_table(("row", *names), shown, sentence)


def paper(name: str) -> Callable[[Results], str]:
    """A table of the paper's experiments, as `memgrow paper page` shows it."""
    return lambda _: block(name, ROOT / "results/paper", ROOT / "docs/paper-tables.md")


def encoders(stream: str) -> Callable[[Results], str]:
    """The study of pretrained encoders on one stream; a page without figures says so."""
    return lambda _: study_page(found) if (found := _study(stream)) else NO_FIGURES


def pretrained(_: Results) -> str:
    """A pretrained encoder beside the recurrent network, on one stream: the rows that a newcomer chooses among."""
    study, found = _study("sentiment"), json.loads((ROOT / "results/sentiment/compare.json").read_text("utf-8"))
    if study is None:
        return NO_FIGURES
    tuned = study["encoders"]["minilm"]["orders"]["1"]
    if list(found["domains"]) != tuned["domains"]:
        raise SystemExit("results/sentiment and results/encoders/sentiment.json are of different streams")
    names = {"multi-task": "multi-task: retrained on everything"}
    default = [f"{RECOMMENDED_FOR_ENCODERS}, the default with an encoder", *_spreads(histories(DEFAULT_RUNS))]
    rows = [["MiniLM", *default]] + [
        ["MiniLM", names.get(name, name), *_end_and_lost(tuned["rows"][name]["test"])]
        for name in ("F+A", "F", "frozen+M", "LoRA", "ridge", "multi-task")
    ]
    names["F+V"] = "F+V, the default without an encoder"
    rows += [
        ["BiLSTM", names.get(name, name), *_end_and_lost(found["methods"][name])] for name in ("F+V", "multi-task")
    ]
    study_of = "python benchmarks/encoder_study.py run --stream sentiment --data data/sentiment --orders 1"
    seeds = len(tuned["rows"]["F+A"]["seeds"])
    return _with_table(
        ("encoder", "method", "average accuracy at the end, %", "forgetting, points"),
        rows,
        f"{', '.join(tuned['domains'])} in this order; test, {seeds} seeds.\n"
        "The default: `memgrow adapt`, as [above](#your-own-files), on two cores; its histories are in\n"
        f"[{DEFAULT_RUNS}]({DEFAULT_RUNS}).\n"
        f"Others with MiniLM: `{study_of} --seeds {seeds}`.\nBiLSTM: `{_compared_by(found)}`.",
    )


def bag_of_words(_: Results) -> str:
    """When a bag of words is enough, beside what a BiLSTM and an encoder end with on the same stream."""
    every = json.loads((ROOT / "results/bag-of-words.json").read_text("utf-8"))
    methods = json.loads((ROOT / "results/sentiment/compare.json").read_text("utf-8"))["methods"]
    words, everything, network = (100 * methods[name]["average"]["mean"] for name in (IN_TURN, AT_ONCE, "F+V"))
    encoder = fmean(100 * history["average"] for history in histories(DEFAULT_RUNS))
    pairs = 100 * every["genres"]["rows"][IN_TURN]["average"]["mean"]
    return (
        "**Is a bag of words enough?** It is where words by themselves tell the labels: on the sentiment stream it "
        f"ends at\n{words:.1f}% within seconds, domain after domain, and at {everything:.1f}% fitted to everything; a "
        f"BiLSTM ends at {network:.1f}%.\nIt is not where that leaves too many errors (MiniLM ends at "
        f"{encoder:.1f}%), nor for pairs of texts (two genres\nof MultiNLI: {pairs:.1f}%)."
    )


def which_method(family: str) -> Callable[[Results], str]:
    """What the protocol for the default found for one family; a page without figures says so."""

    def figures(_: Results) -> str:
        path = ROOT / f"{WHICH_METHOD}/{family}.json"
        name = NAMES[family]
        return choice_page(json.loads(path.read_text("utf-8"))) if path.is_file() else f"**{name}.** {NO_FIGURES}"

    return figures


def which_method_picture(_: Results) -> str:
    if not list((ROOT / WHICH_METHOD).glob("*.json")):
        return NO_FIGURES
    return "![What is gained when learnt against what is forgotten, a point for each candidate](which-method.png)"


def references(_: Results) -> str:
    """Bags of words on the streams for choosing."""
    every = json.loads((ROOT / "results/bag-of-words.json").read_text("utf-8"))
    rows = [
        [stream, name, *_end_and_lost(row), f"{row['seconds']['mean']:.1f}"]
        for stream, one in every.items()
        for name, row in one["rows"].items()
    ]
    header = ("stream", "reference", "average accuracy at the end, %", "forgetting, points", "seconds")
    seeds = len(next(iter(every.values()))["seeds"])
    return _with_table(header, rows, f"{seeds} seeds; seconds on a busy machine, one core.")


def by_the_command(_: Results) -> str:
    """What `memgrow adapt` itself ended with: the histories that it wrote, one for each seed."""
    rows = []
    for folder, (machine, command) in COMMAND_RUNS.items():
        runs = histories(folder)
        minutes = [sum(stage["seconds"] for stage in history["stages"]) / 60 for history in runs]
        took = " to ".join(dict.fromkeys(f"{minute:.1f}" for minute in (min(minutes), max(minutes))))
        rows.append([command, *_spreads(runs), str(len(runs)), f"{took}, {machine}"])
    header = ("options", "average at the end, %", "forgetting, points", "seeds", "minutes of a run")
    where = ", ".join(f"`{folder}`" for folder in COMMAND_RUNS)
    return _with_table(header, rows, f"Test, from the histories that the command wrote ({where}).")


def _spreads(runs: Sequence[Results]) -> list[str]:
    """Average and forgetting of some histories, with their standard deviations."""
    each = ([100 * history[name] for history in runs] for name in ("average", "forgetting"))
    return [f"{fmean(values):.1f} ± {stdev(values):.1f}" for values in each]


def answering(machine: str) -> Callable[[Results], str]:
    """Prediction, and training where it was measured, beside their peers in one run."""

    def figures(_: Results) -> str:
        found = json.loads((ROOT / f"results/encoders/speed/{machine}.json").read_text("utf-8"))
        parts = [part for part in ("predict", "train") if part in found]
        texts = found[parts[0]]["texts"]
        products = f", memgrow in {found['precision']}" if "precision" in found else ""
        asked = shlex.split(found["command"])
        stopped = " That run was stopped after prediction." if "train" in asked and "train" not in found else ""
        # Older results of a CPU may hold, as a rival's peak, that of the process which measured it.
        most = "" if products or not found["machine"].startswith("CPU") else "≤ "
        rows = [
            [f"{part}: {name}", f"{one['seconds']:.2f}", f"{one['times_memgrow']:.1f}", f"{most}{one['peak_mib']:,.0f}"]
            for part in parts
            for name, one in found[part]["rivals"].items()
        ]
        return _with_table(
            ("work", "seconds", "times memgrow's", "peak memory, MiB"),
            rows,
            f"{texts:,} sentences, MiniLM, {found['machine']}{products}, torch "
            f"{found['torch'].partition('+')[0]}; from `{as_typed(found)}`.{stopped}",
        )

    return figures


def _end_and_lost(one: Results) -> list[str]:
    lost = one.get("forgetting")
    cells = [one["average"], lost if lost and lost["mean"] is not None else None]
    return [
        "-" if cell is None else f"{100 * cell['mean']:.1f} ± {100 * cell['spread']:.1f}".replace("-0.0", "0.0")
        for cell in cells
    ]


def memory_pays(_: Results) -> str:
    """What slots beside a frozen encoder bring against each rival, with what either costs."""
    study = _study("sentiment")
    if study is None:
        return NO_FIGURES
    one = study["encoders"]["minilm"]["orders"][ALL_ORDERS]
    shown = [["frozen+M itself", *_end_and_lost(one["rows"]["frozen+M"]["test"]), *_costs(one["rows"]["frozen+M"])]]
    for question, found in one["differences"].items():
        first, _, rival = question.partition(" - ")
        if first == "frozen+M":
            cells = [_in_points(found["test"][what]) for what in ("average", "forgetting")]
            shown.append([f"against {rival}", *cells, *_costs(one["rows"][rival])])
    found = one["differences"]["F+M - F"]["test"]
    more = [_in_points(found[what]) for what in ("average", "forgetting")]
    shown.append(["F+M against F", *more, *_costs(one["rows"]["F"])])
    header = (
        "row",
        "average at the end, points",
        "forgetting, points",
        "new parameters a domain",
        "trained parameters",
    )
    sentence = "The last two columns are of the row that it is held against; a LoRA is merged and adds none."
    return _with_table(header, shown, sentence)


def _in_points(test: Results) -> str:
    return f"{_signed(test['difference'])} [{_signed(test['low'])}, {_signed(test['high'])}]"


def _costs(row: Results) -> list[str]:
    return [f"{row['added']:,.0f}", f"{row['trained']:,}"]


def without_slots(_: Results) -> str:
    found = {stream: slots_taken_away(study) for stream in STUDIED if (study := _study(stream))}
    tables = [f"{stream}:\n\n{table.to_markdown()}" for stream, table in found.items() if table.rows]
    return "\n\n".join(tables) or NO_FIGURES


def _study(stream: str) -> Results | None:
    path = ROOT / f"results/encoders/{stream}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def rehearsal(_: Results) -> str:
    """The demo with rehearsal beside fine-tuning and the default: what keeping rows is worth there."""
    path = ROOT / "results/rehearsal.json"
    if not path.is_file():
        return NO_FIGURES
    found = json.loads(path.read_text("utf-8"))
    rows = [
        [method, *(f"{100 * fmean(run[what] for run in runs):.1f}" for what in ("average", "forgetting"))]
        for method, runs in found["runs"].items()
    ]
    header = ("method", "average accuracy at the end, %", "forgetting, points")
    doubt = "One seed: another may differ by points." if found["seeds"] == 1 else f"Mean of {found['seeds']} seeds."
    return _with_table(header, rows, f"The demo's four made-up domains. {doubt}")


def torture(_: Results) -> str:
    """What `make torture` did, part by part."""
    path = ROOT / "results/torture/counts.json"
    if not path.is_file():
        return NO_FIGURES
    parts = json.loads(path.read_text("utf-8"))["parts"]
    rows = [
        [
            name,
            "; ".join(
                f"{what} {count}" if isinstance(count, str) else f"{what}: {count:,}"
                for what, count in one["counts"].items()
            ),
            str(len(one["failures"])),
            f"{one['seconds']:,}",
        ]
        for name, one in parts.items()
    ]
    return Table(None, ("part", "counts", "failures", "seconds"), rows).to_markdown()


WHICH_METHOD = "results/which-method"
COMMAND_RUNS = {  # with the machine, and what was said beside the files and the seed
    DEFAULT_RUNS: ("one of two busy cores", "`--encoder minilm --threads 1`"),
    "results/encoders/adapt-cpu": ("two busy cores", "`--encoder minilm --method F+A`, while it was the default"),
    "results/encoders/adapt-h200": ("a shared H200", "`--encoder minilm --method F+A`, before it was the default"),
}
STUDIED = ("sentiment", "reviews", "multinli")
TABLES = (
    *(f"table{number}" for number in range(1, 7)),
    *("recommended", "slots", "rates", "conditions", "tuning"),
)
PLACES = {
    "comparison": ("docs/results.md", comparison),
    "matrix": ("docs/tutorial.md", matrix),
    "rehearsal": ("docs/how-it-works.md", rehearsal),
    **{name: ("docs/speed.md", figures) for name, figures in SPEED.items()},
    **{name: ("docs/large-files.md", figures) for name, figures in LARGE_FILES.items()},
    **{name: ("docs/scale.md", figures) for name, figures in SCALE.items()},
    **{name: ("docs/leaving.md", figures) for name, figures in EXPORT.items()},
    **{name: ("docs/drift.md", figures) for name, figures in DRIFT.items()},
    **{name: ("docs/service.md", figures) for name, figures in SERVING.items()},
    **{name: ("docs/many-domains.md", figures) for name, figures in HUNDRED.items()},
    **{name: ("docs/encoders.md", figures) for name, figures in (PROCESSES | FEW_ROWS).items()},
    "encoders": ("README.md", pretrained),
    "bag-of-words": ("README.md", bag_of_words),
    "which-method-picture": ("docs/which-method.md", which_method_picture),
    **{f"which-method-{family}": ("docs/which-method.md", which_method(family)) for family in NAMES},
    "which-method-references": ("docs/which-method.md", references),
    "sentiment": ("docs/results.md", sentiment),
    "five-genres": ("docs/results.md", five_genres),
    "false-positives": ("docs/paper.md", false_positives),
    "reply-lengths": ("docs/paper.md", reply_lengths),
    **{f"encoders-{stream}": ("docs/encoders.md", encoders(stream)) for stream in STUDIED},
    "encoders-command": ("docs/encoders.md", by_the_command),
    "encoders-speed": ("docs/speed.md", answering("h200")),
    "encoders-speed-train": ("docs/speed.md", answering("h200-train")),
    "encoders-speed-cpu": ("docs/speed.md", answering("cpu")),
    "encoders-speed-bfloat16": ("docs/speed.md", answering("cpu-bfloat16")),
    "torture": ("docs/promises.md", torture),
    "case": ("docs/how-it-works.md", case),
    "averaging": ("docs/how-it-works.md", averaging),
    "encoders-answer": ("docs/encoders.md", memory_pays),
    "encoders-without-slots": ("docs/encoders.md", without_slots),
    **{f"paper-{name}": ("docs/paper-tables.md", paper(name)) for name in ("legend", *TABLES, "theorem")},
}


def quoted(page: str, name: str) -> re.Match[str] | None:
    """A pattern for the place where a page quotes the figures of that name; the first group is what it says."""
    return re.search(rf"<!-- figures: {name} -->\n(.*?)<!-- end of figures -->", page, flags=re.DOTALL)


def write() -> None:
    for name, (page, figures) in PLACES.items():
        path = ROOT / page
        text = path.read_text(encoding="utf-8")
        place = quoted(text, name)
        if place is None:
            raise SystemExit(f"{page} has no place for the figures {name!r}: put the marks back")
        path.write_text(text[: place.start(1)] + figures(load()) + "\n" + text[place.end(1) :], encoding="utf-8")


def _averages(results: Results, method: str) -> list[float]:
    return [run["average"] for run in results["runs"][method]]


def _first_domain(run: Results) -> float:
    first, last = run["matrix"][0], run["matrix"][-1]
    score: float = last["scores"][first["learned"][0]]
    return score


def _gain(better: list[float], worse: list[float]) -> str:
    return _spread([a - b for a, b in zip(better, worse, strict=True)])


def _spread(shares: list[float]) -> str:
    return f"{100 * fmean(shares):.1f} ± {100 * stdev(shares):.1f}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    elif sys.argv[1:]:
        raise SystemExit("usage: python docs/figures.py [--write]")
    else:
        sys.stdout.write("\n\n".join(figures(load()) for _, figures in PLACES.values()) + "\n")
