"""The figures that README.md and the pages of docs/ quote, taken from results/.

`python docs/figures.py` prints them; `python docs/figures.py --write` puts them where they belong, between the marks
<!-- figures: NAME --> and <!-- end of figures -->. A test fails while a page says anything else.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from memgrow.report.paper_page import block

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results/demo/demo.json"

LOOP = "plain loop, memgrow's batches"

Results = dict[str, Any]


def load() -> Results:
    results: Results = json.loads(RESULTS.read_text(encoding="utf-8"))
    return results


def comparison(results: Results) -> str:
    """One line for each method, mean ± standard deviation over the seeds, and what slots add to new words."""
    lines = [
        "| method | average accuracy at the end, % | forgetting, points | first domain at the end, % | parameters |",
        "|---|---|---|---|---|",
    ]
    for method, runs in results["runs"].items():
        cells = (
            _spread(_averages(results, method)),
            _spread([run["forgetting"] for run in runs]),
            _spread([_first_domain(run) for run in runs]),
            f"{fmean(run['stages'][-1]['parameters'] for run in runs):,.0f}",
        )
        lines.append(f"| {method} | {' | '.join(cells)} |")
    plain, words, both = (_averages(results, method) for method in ("F", "F+V", "F+M+V"))
    lines += [
        "",
        f"Mean ± standard deviation over {results['seeds']} seeds. Compared seed by seed, F+M+V ends "
        f"{_gain(both, plain)} points above F, F+V ends {_gain(words, plain)} points above F, and F+M+V ends "
        f"{_gain(both, words)} points above F+V.",
    ]
    return "\n".join(lines)


def matrix(results: Results) -> str:
    """What the tutorial's reader sees after three domains: the first run of F+M+V, as the terminal shows it."""
    rows = results["runs"]["F+M+V"][0]["matrix"][:3]
    names = [row["learned"][0] for row in rows]
    lines = ["```text", "  after learning " + "".join(f"  {name:>7}" for name in names)]
    for row in rows:
        lines.append(f"  {row['learned'][0]:<15}" + "".join(f"  {100 * row['scores'][name]:7.1f}" for name in names))
    return "\n".join([*lines, "```"])


def speed(_: Results) -> str:
    """Milliseconds of one layer, forward and backward, way by way and machine by machine."""
    files = ("recurrence-h200-tf32", "recurrence-h200", "recurrence-cpu")
    lines = []
    for file in files:
        found = json.loads((ROOT / f"results/{file}.json").read_text(encoding="utf-8"))
        ways = list(next(iter(found["milliseconds"].values())))
        precision = "TF32" if "tf32" in found["command"] else "float32"
        lines += [
            f"{found['machine']}, {precision}, torch {found['torch']} (`{found['command']}`), milliseconds:",
            "",
            f"| size | {' | '.join(ways)} |",
            f"|---|{'---|' * len(ways)}",
            *(f"| {size} | {' | '.join(f'{t[w]:.2f}' for w in ways)} |" for size, t in found["milliseconds"].items()),
            "",
        ]
    return "\n".join(lines[:-1])


def curves(_: Results) -> str:
    """How the time of one layer grows with each of its sizes, and what a step costs."""
    found = json.loads((ROOT / "results/recurrence-h200-tf32.json").read_text(encoding="utf-8"))
    lines = ["| | milliseconds |", "|---|---|"]
    points = {
        name: {int(size): times["cuda, graph"] for size, times in curve.items()}
        for name, curve in found["curves"].items()
    }
    lines += [
        f"| {name} | {', '.join(f'{n:,}: {t:.2f}' for n, t in curve.items())} |" for name, curve in points.items()
    ]
    (few, short), *_, (many, long) = points["steps"].items()
    each = (long - short) / (many - few)
    outside = short - few * each
    lines += [
        "",
        f"A step there and back takes {1000 * each:.0f} microseconds, all that is not in a step {outside:.2f} ms.",
    ]
    return "\n".join(lines)


def training(_: Results) -> str:
    """Pairs a second of the whole pair classifier against what people write by hand."""
    found = json.loads((ROOT / "results/training-cpu.json").read_text(encoding="utf-8"))
    ways = found["pairs_per_second"]["training"]
    lines = ["| pairs a second | training | prediction |", "|---|---|---|"]
    for way in ways:
        cells = [
            f"{found['pairs_per_second'][part][way]:.0f} ({found['ratio_to_by_hand'][part][way]:.2f} times by hand)"
            for part in ("training", "prediction")
        ]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    shares = {way: f"{share:.0%}" for way, share in found["share_of_large_product"].items()}
    lengths, rate = " and ".join(map(str, found["mean_lengths"])), found["large_product_gflops"]
    lines += [
        "",
        f"{found['machine']}; mean lengths {lengths} words. memgrow reaches {shares['memgrow']} of the rate "
        f"of a large matrix product ({rate:.0f} GFLOP/s), the plain loop {shares[LOOP]} on the same batches and "
        f"{shares['by hand']} by hand.",
    ]
    return "\n".join(lines)


def adaptation(_: Results) -> str:
    """Seconds of a whole two-domain adaptation, of one learner and of several side by side."""
    path = ROOT / "results/adaptation-h200.json"
    if not path.exists():
        return "Not measured yet."
    found = json.loads(path.read_text(encoding="utf-8"))
    lines = [
        "| learners | seconds | of these training | epochs | test accuracy: fiction, government, % |",
        "|---|---|---|---|---|",
    ]
    for mode, one in found["modes"].items():
        learners = one["learners"]
        training = sum(seconds for part, seconds in one["parts"].items() if part.endswith(": training"))
        epochs = " and ".join(f"{fmean(learner['epochs'][stage] for learner in learners):.3g}" for stage in range(2))
        tests = ", ".join(
            f"{100 * fmean(learner['test'][name] for learner in learners):.1f}" for name in learners[0]["test"]
        )
        lines.append(f"| {len(learners)}, {mode} | {one['seconds']:.1f} | {training:.1f} | {epochs} | {tests} |")
    machine = f"{found['machine']}, {found['precision']}, torch {found['torch']} (`{found['command']}`)"
    return "\n".join([*lines, "", f"{machine}. Epochs and accuracies are means over learners."])


def sentiment(_: Results) -> str:
    """Methods on four small real domains, as `memgrow compare sentiment` found them."""
    found = json.loads((ROOT / "results/sentiment/compare.json").read_text(encoding="utf-8"))
    lines = [
        "| method | average accuracy at the end, % | forgetting, points | against F, points [95% interval] |",
        "|---|---|---|---|",
    ]
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
        lines.append(f"| {name} | {average} | {forgot} | {gain} |")
    names = ",".join(name for name in found["methods"] if name not in ("F", "multi-task"))
    command = f"memgrow compare sentiment --methods {names} --seeds {len(found['seeds'])} --out results/sentiment"
    domains = ", ".join(found["domains"])
    return "\n".join([*lines, "", f"{domains} in this order; {len(found['seeds'])} seeds (`{command}`)."])


def five_genres(_: Results) -> str:
    """Methods after five genres of MultiNLI, against retraining on everything."""
    found = json.loads((ROOT / "results/paper/recommended.json").read_text(encoding="utf-8"))
    rows = found["sheets"][0]["rows"]
    lines = [
        "| method | validation, % | test, % | forgetting, points | against multi-task [95% interval] | seeds |",
        "|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: -row["validation"]["mean"]):
        end, lost = row["cells"]["average"], row["forgetting"]
        against = end.get("tests", {}).get("multi-task")
        cells = [
            row["name"],
            f"{row['validation']['mean']:.1f}",
            f"{end['mean']:.1f} ± {end['spread']:.1f}",
            "-" if lost["mean"] is None else f"{lost['mean']:.1f} ± {lost['spread']:.1f}".replace("-", "−"),
            _interval(against) if against else "-",
            str(len(end["values"])),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"The average of the five genres' test parts. From `{found['command']}`."])


def _interval(test: Results) -> str:
    return f"{_points(test['difference'])} [{_points(test['low'])}, {_points(test['high'])}]"


def _points(points: float) -> str:
    return f"{points:+.1f}".replace("-", "−")


def _signed(share: float) -> str:
    return _points(100 * share)


def false_positives(_: Results) -> str:
    """How often the paper's test sees a difference between equal methods."""
    found = json.loads((ROOT / "results/paper/false-positives.json").read_text(encoding="utf-8"))
    rows = [(_simulated(one), one) for one in found["simulated"]]
    between = found["between_seeds"]
    for genre, one in between["genres"].items():
        rows.append((f"{one['pairs']} pairs of seeds of {between['method']}, on {genre}", one))
    lines = [
        "| equal methods | p < 0.05 (promised: 10%) | p < 0.01 (promised: 2%) | McNemar, 0.05 |",
        "|---|---|---|---|",
    ]
    for name, one in rows:
        shares = {rate["level"]: rate["either"] for rate in one["rates"]}
        lines.append(f"| {name} | {shares[0.05]:.0%} | {shares[0.01]:.0%} | {one['mcnemar']:.0%} |")
    return "\n".join([*lines, "", f"From `{found['command']}`."])


def _simulated(one: Results) -> str:
    spread = f", seeds spread by {100 * one['seed_spread']:g} point" if one["seed_spread"] else ""
    return f"simulated, {one['examples']:,} test examples, {one['subsets']} subsets{spread}"


def paper(name: str) -> Callable[[Results], str]:
    """A table of the paper's experiments, as `memgrow paper page` shows it."""
    return lambda _: block(name, ROOT / "results/paper", ROOT / "docs/paper.md")


TABLES = ("table1", "table2", "table3", "table4", "recommended", "slots", "rates", "conditions", "tuning")
PLACES = {
    "comparison": ("README.md", comparison),
    "matrix": ("docs/tutorial.md", matrix),
    "speed": ("docs/speed.md", speed),
    "curves": ("docs/speed.md", curves),
    "training": ("docs/speed.md", training),
    "adaptation": ("docs/speed.md", adaptation),
    "sentiment": ("README.md", sentiment),
    "five-genres": ("README.md", five_genres),
    "false-positives": ("docs/paper.md", false_positives),
    **{f"paper-{name}": ("docs/paper.md", paper(name)) for name in ("legend", *TABLES, "theorem")},
}


def quoted(page: str, name: str) -> re.Match[str] | None:
    """Where a page quotes the figures of that name; the first group is what it says."""
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
