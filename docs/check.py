"""Holds the README and the pages of docs/ against results/, against the code and against each other.

    python docs/check.py        (or: make docs-check)

prints a line for each check. A check that does not hold says what is wrong and what to do; then the exit code is 1.
The code that the pages show is run by tests/docs.
"""

import hashlib
import json
import os
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import fields
from math import exp, isclose
from pathlib import Path
from statistics import fmean
from typing import Any

from memgrow.cli.recipe import SECTIONS
from PIL import Image
from typer.main import get_command

from memgrow.cli import app
from memgrow.methods import LETTERS, METHODS, RECOMMENDED, RECOMMENDED_FOR_ENCODERS, RECOMMENDED_FOR_REPLIES
from memgrow.models import PretrainedSettings
from memgrow.models.pretrained.settings import OF_ITS_OWN
from memgrow.training.defaults import defaults_for

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT), str(ROOT / "docs"), str(ROOT / "benchmarks")]

import figures  # noqa: E402
import notebook  # noqa: E402
import quoted_figures  # noqa: E402
import report_picture  # noqa: E402
import result_commands  # noqa: E402

import chart  # noqa: E402
from research.common.plots import checksum  # noqa: E402
from research.encoders.figures import ALL_ORDERS  # noqa: E402

OUTSIDE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES = [*OUTSIDE, *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
TUNED = ("F", "F+V", "F+M", "F+M+V", "F+H", "F+H+V")
TESTED = ("bleu2_S", "bleu2_T", "w2v_sim_S", "w2v_sim_T")

Check = Callable[[], Iterator[str]]  # a sentence for each thing that is wrong
CHECKS: list[Check] = []


def check(function: Check) -> Check:
    CHECKS.append(function)
    return function


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def results(path: str) -> Any:
    return json.loads(text_of(f"results/{path}"))


# Figures


@check
def figures_are_those_that_were_measured() -> Iterator[str]:
    for name, (page, shown) in figures.PLACES.items():
        quoted = figures.quoted(text_of(page), name)
        if quoted is None:
            yield f"{page} has no place for the figures {name!r}"
        elif quoted[1] != shown(figures.load()) + "\n":
            yield f"{page}: the figures {name!r} are out of date; run python docs/figures.py --write"


@check
def the_chart_of_speed_shows_the_results_as_they_are() -> Iterator[str]:
    with Image.open(ROOT / "docs/speed.png") as picture:
        if picture.text["Description"] != chart.checksum(ROOT / "results"):
            yield "docs/speed.png is out of date; run python benchmarks/chart.py"


@check
def pictures_of_studies_show_the_results_as_they_are() -> Iterator[str]:
    for name, script in {"encoders": "encoder_study", "which-method": "which_method"}.items():
        folder, picture = ROOT / f"results/{name}", ROOT / f"docs/{name}.png"
        if not list(folder.glob("*.json")):
            continue
        drawn = picture.is_file() and Image.open(picture).text["Description"]
        if drawn != checksum(folder):
            yield f"docs/{name}.png is out of date; run python benchmarks/{script}.py figures --picture docs/{name}.png"


@check
def the_picture_of_a_report_shows_the_results_as_they_are() -> Iterator[str]:
    with Image.open(report_picture.PICTURE) as picture:
        if picture.text["Description"] != report_picture.checksum():
            yield "docs/report.png is out of date; run python docs/report_picture.py"
    if report_picture.PICTURE.stat().st_size > 200_000:
        yield "docs/report.png has more than 200 kB: show less of the page"


@check
def the_demos_figures_come_from_the_command_that_is_named_beside_them() -> Iterator[str]:
    page, _ = figures.PLACES["comparison"]
    demo = figures.load()
    command = f"memgrow demo --methods {','.join(demo['runs'])} --seeds {demo['seeds']} --out results/demo"
    if f"`{command}`" not in text_of(page):
        yield f"{page} does not name `{command}`, from which results/demo comes"


@check
def results_name_the_command_that_wrote_them() -> Iterator[str]:
    yield from result_commands.what_is_wrong(ROOT)


@check
def the_default_methods_are_those_that_the_protocol_found() -> Iterator[str]:
    taken = {"bilstm": RECOMMENDED, "encoder": RECOMMENDED_FOR_ENCODERS, "replies": RECOMMENDED_FOR_REPLIES}
    for family, method in taken.items():
        figures_of = results(f"which-method/{family}.json")
        found = figures_of["candidates"][figures_of["default"]]["method"]
        if found != method:
            yield f"{found} is the default by results/which-method/{family}.json, but {method} is taken"


@check
def the_picture_of_a_hundred_domains_shows_the_results_as_they_are() -> Iterator[str]:
    with Image.open(ROOT / "docs/hundred-domains.png") as picture:
        told = hashlib.sha256(json.dumps(results("hundred-domains.json"), sort_keys=True).encode()).hexdigest()
        if picture.text["Description"] != told:
            draw = "--draw results/hundred-domains.json --picture docs/hundred-domains.png"
            yield f"docs/hundred-domains.png is out of date; run python benchmarks/hundred_domains.py {draw}"


# Sentences that were written from figures: after new runs that fail here, they have to be written anew


@check
def what_is_read_from_the_protocols_runs_holds() -> Iterator[str]:
    labels, replies = (results(f"which-method/{family}.json") for family in ("bilstm", "replies"))
    if any(one["low"] > 0 or one["high"] < 0 for one in labels["choice"]["against"].values()):
        yield "a candidate for a BiLSTM is not level with F+V"
    for stream in ("sentiment", "sentiment-reversed"):
        lost = {name: row["forgetting"]["mean"] for name, row in labels["streams"][stream]["rows"].items()}
        if min(lost, key=lost.__getitem__) != "F+V+D":
            yield f"F+V+D does not forget least on {stream}"
    if "F+V+D" not in labels["choice"]["out"]:
        yield "F+V+D is not below F+V on any stream"
    slots = labels["streams"]["slots"]["rows"]["F+M+V"]
    gain = slots["against"]["average"]
    if not (gain["low"] < 0 < gain["high"] and gain["high"] - gain["low"] <= 0.006 and len(slots["seeds"]) == 21):
        yield "what slots bring on the five genres is not within half a point of nothing in 21 seeds"
    for stream in ("five-genres", "made"):
        gain = labels["streams"][stream]["rows"]["F+V+E"]["against"]["average"]
        if not gain["low"] < 0 < gain["high"]:
            yield f"F+V+E is not level with F+V on {stream}"
    more = {name: labels["streams"][name]["more_seeds"]["F+V+E"] for name in ("five-genres", "made")}
    if [_side(one["against"]["average"]) for one in more.values()] != [1, 0] or any(
        len(one["seeds"]) != 20 for one in more.values()
    ):
        yield "F+V+E with twenty seeds is not above F+V on the five genres and level with it on what is made by rule"
    for stream, found in replies["streams"].items():
        if not found["rows"]["F+V+E"]["against"]["average"]["low"] > 0:
            yield f"F+V+E is not better than F+V for replies on {stream}"


FRESH = ("made-anew", "few-reviews")  # streams of the third rule


@check
def what_is_read_from_the_protocols_runs_on_an_encoder_holds() -> Iterator[str]:
    tuned = results("which-method/encoder.json")
    gains = {name: one["rows"] for name, one in tuned["streams"].items()}
    ema, back = (
        {name: rows[method]["against"] for name, rows in gains.items() if method in rows}
        for method in ("F+E", "F+A auto")
    )
    if tuned["choice"]["winner"] != "F+E" or _side(tuned["choice"]["against"]["F+A auto"]) != 1:
        yield "F+E does not win on the streams for choosing, or F+A with keep auto is not better than F there"
    if set(tuned["choice"]["out"]) != {"ridge", "LoRA", "frozen+M", "EWC", "LoRA+A auto", "F+A half"}:
        yield "others are out than the page says"
    for stream in ("sentiment", "sentiment-reversed"):
        sides = [_side(one[stream][what]) for one in (ema, back) for what in ("average", "forgetting")]
        if sides != [1, -1, 1, -1]:
            yield f"F+E and F+A do not both end above F and forget less on {stream}"
    gained, forgot = (
        [100 * ema[stream][what]["difference"] for stream in ("sentiment", "sentiment-reversed")]
        for what in ("average", "forgetting")
    )
    if [round(one, 1) for one in gained] != [0.7, 2.0] or not -3 <= min(forgot) <= max(forgot) <= -1:
        yield f"F+E gains {gained} and forgets {forgot} points on sentiment"
    alike = ("reviews", "other-reviews", "other-reviews-reversed")
    if max(one[stream]["average"]["difference"] for one in (ema, back) for stream in alike) > 0.01 / 3:
        yield "F+E or F+A gains more than a third of a point on reviews"
    if _side(ema["made"]["average"]) != -1 or any(_side(back[stream]["average"]) for stream in (*alike, "made")):
        yield "F+E is not below F on what is made by rule, or F+A is not level with it on the streams for checking"
    second, fresh = tuned["second_check"], back["five-genres"]["average"]
    if second["default"] != "F+A auto" or _side(fresh) != 0 or fresh["difference"] < 0 or len(second["streams"]) != 4:
        yield "F+A is not the default by the second rule, or not level with F on the five genres, if anything above"
    if round(100 * second["forgets"]["difference"], 1) != -0.4 or _side(second["forgets"]) != -1:
        yield "F+A does not forget four tenths of a point less on the streams for checking"
    less = {name: -100 * one["forgetting"]["difference"] for name, one in back.items() if name not in FRESH}
    by_much = [less.pop(name) for name in ("sentiment", "sentiment-reversed")]
    if min(by_much) < 1 or not 0 < min(less.values()) < max(less.values()) < 1:
        yield "F+A does not forget over a point less on sentiment and by less than a point less elsewhere"
    learns = [one["when_learnt"]["difference"] for one in back.values()]
    if max(learns) > 0:
        yield "F+A learns a new domain better than F on a stream"
    third = tuned["third_check"]
    (mended,) = third["asked"].values()
    if tuned["default"] != "F+E auto" or _side(third["reason"]) != 1 or not mended["holds"]:
        yield "F+E with smooth auto is not the default by the third rule"
    sides = {stream: {name: _side(one) for name, one in some.items()} for stream, some in mended["gains"].items()}
    if set(sides) != set(FRESH) or any(side for some in sides.values() for side in some.values()):
        yield "F+E with smooth auto is not level with F and F+A on the fresh streams"
    few, anew = (mended["gains"][stream] for stream in ("few-reviews", "made-anew"))
    forgets = gains["few-reviews"]["F+E auto"]["against"]["forgetting"]
    if abs(few["F"]["difference"]) > 0.001 or few["F+A auto"]["difference"] < 0 or _side(forgets) != -1:
        yield "on few reviews F+E with smooth auto does not end level with F, above F+A, and forget less"
    if round(300 * anew["F+A auto"]["difference"]) != -1 or not 0 <= anew["F+A auto"]["high"] < 0.001:
        yield "on what is made anew F+E with smooth auto is not a third of a point below F+A, up to zero"


@check
def what_is_read_of_rules_for_averaging_holds() -> Iterator[str]:
    rows = {name: one["against_auto"] for name, one in results("averaging.json")["rows"].items()}
    better = [name for name, one in rows.items() if one["low"] is not None and one["low"] > 0]
    if better != ["nothing, of E", "auto, of E"]:
        yield f"these rules are better than keep: auto: {', '.join(better)}"


@check
def what_is_read_from_the_demos_figures_holds() -> Iterator[str]:
    runs = figures.load()["runs"]
    average, forgetting = (
        {method: fmean(run[what] for run in runs[method]) for method in runs} for what in ("average", "forgetting")
    )
    first = {method: fmean(run["matrix"][-1]["scores"]["kitchen"] for run in runs[method]) for method in runs}
    gain = average["F+M+V"] - average["F"]
    if gain <= 0.05:
        yield "F+M+V no longer gains over fine-tuning"
    if average["F+V"] - average["F"] <= 0.8 * gain:
        yield "the gain no longer comes almost wholly from the new words"
    if forgetting["F+M+V"] <= forgetting["F"] - 0.01:
        yield "F+M+V forgets less than fine-tuning now: say so"
    if max(first.values()) - min(first.values()) >= 0.03:
        yield "the first domain no longer ends about level"


@check
def what_the_tutorial_reads_from_the_figures_holds() -> Iterator[str]:
    first, second, third = (row["scores"] for row in figures.load()["runs"]["F+M+V"][0]["matrix"][:3])
    if not first["kitchen"] > second["kitchen"] > third["kitchen"]:
        yield "the kitchen no longer falls with each further domain"
    if not second["harbour"] > third["harbour"]:
        yield "the harbour no longer falls with the third domain"


@check
def what_is_read_from_the_studies_of_conditions_holds() -> Iterator[str]:
    studies = results("paper/conditions.json")["studies"]
    if len(studies) != 10:
        yield f"there are {len(studies)} studies, no longer ten"
    found = list(_compared(studies))
    if any(test["p_holm"] <= 0.05 for _, test, _ in found):
        yield "a difference is significant now"
    low = [(where, difference) for where, test, difference in found if test["p"] < 0.05]
    if [where for where, _ in low] != [("patience", "5", "last")] or low[0][1] >= 0:
        yield f"without correction the significant differences are now {low}"
    rises = []
    for name, most in (("pairs", "all and guessed"), ("pairs", "all"), ("data", "all")):
        sheets = {sheet["title"]: sheet["rows"] for sheet in studies[name]["sheets"]}
        least, much = ({row["name"]: row["cells"]["average"]["mean"] for row in sheets[t]} for t in ("2,000", most))
        rises += [much[method] - least[method] for method in ("F+V", "F+M+V")]
    if min(rises) <= 6 or round(max(rises)) != 12:
        yield f"with more data accuracy rises by {min(rises):.1f} to {max(rises):.1f} points, no longer by 6 to 12"
    missing = [
        (name, sheet["title"], row["name"])
        for name, study in studies.items()
        for sheet in study["sheets"]
        for row in sheet["rows"]
        if row["cells"]["average"].get("mean") is None
    ]
    if missing != [("data", "all and guessed", "F+V"), ("data", "all and guessed", "F+M+V")]:
        yield f"not only the incremental methods of five genres with guessed pairs are missing: {missing}"


def _compared(studies: dict[str, Any]) -> Iterator[tuple[tuple[str, str, str], dict[str, Any], float]]:
    """Where each study tests its second method against its first, the test, and the difference of the means."""
    for name, study in studies.items():
        first, second = study["methods"][:2]
        for sheet in study["sheets"]:
            cells = {row["name"]: row["cells"] for row in sheet["rows"]}
            for column, cell in cells[second].items():
                if test := cell.get("tests", {}).get(first):
                    yield (name, sheet["title"], column), test, cell["mean"] - cells[first][column]["mean"]


@check
def what_is_read_from_the_figures_of_a_hundred_domains_holds() -> Iterator[str]:
    found = results("hundred-domains.json")
    for kind in ("transformer", "bilstm"):
        whole, near = (found[kind][reading]["ratio"]["answers, one domain"] for reading in ("all", "nearest"))
        if near > 1.5 or whole < 1.5:
            yield f"{kind}: a batch of one domain takes {near:.2f} times as long, {whole:.2f} where all are read"
    wide = found["wide"]["timed"]["nearest"]["ratio"]
    if wide["answers, all domains mixed"] < 1.5:
        yield f"a mixed batch of the wide network no longer takes longer: {wide}"
    spent = found["saving"]["s of the CPU a GiB"]
    if spent["read and hashed"] < spent["loaded"] / 2:
        yield f"reading and hashing are no longer most of what a load takes of the CPU: {spent}"
    if max(spent["saved once more"], spent["loaded"]) > 2:
        yield f"saving and loading take more than 2 s of the CPU a GiB: {spent}"


@check
def what_is_read_from_the_figures_of_large_files_holds() -> Iterator[str]:
    base, *others = results("big-files.json")["runs"]
    for run in others:
        for command in run.keys() & {"adapt", "predict"}:
            if run[command]["peak_mib"] - base[command]["peak_mib"] >= 1536:
                yield f"{command} of {run['mb']} MB takes 1.5 GiB or more beyond the model"
    if max(run["mb"] for run in others if {"adapt", "predict"} <= run.keys()) < 5000:
        yield "no file of 5 GB was learnt and predicted"


class _Table5:
    """The rows of Table 5 by name."""

    def __init__(self) -> None:
        self.table = results("paper/table5.json")
        self.rows = {row["name"]: row["cells"] for row in self.table["sheets"][0]["rows"]}

    def mean(self, row: str, column: str) -> float:
        value: float = self.rows[row][column]["mean"]
        return value

    def beside(self, row: str) -> list[tuple[str, bool]]:
        """For each tested column whether the row lies above or below F+M+V, and whether that is significant."""
        return [self.against(row, column) for column in TESTED]

    def against(self, row: str, column: str) -> tuple[str, bool]:
        test = self.rows[row][column]["tests"]["F+M+V"]
        return "+" if test["difference"] > 0 else "-", test["p_holm"] < 0.05


@check
def what_is_read_from_table_5_about_perplexity_holds() -> Iterator[str]:
    table = _Table5()
    learnt = table.mean("S", "perplexity_S")
    for row in TUNED:
        if table.mean(row, "perplexity_S") <= 2 * learnt:
            yield f"{row} no longer doubles the perplexity on the source"
    if table.mean("EWC", "perplexity_S") >= 2 * learnt:
        yield "EWC doubles the perplexity on the source"
    plain = table.mean("F", "perplexity_T")
    if not plain < table.mean("EWC", "perplexity_T") < 1.1 * plain:
        yield "EWC's perplexity on the target is no longer up to a tenth above fine-tuning's"
    if max(table.rows, key=lambda row: table.mean(row, "perplexity_S") or 0) != "Progressive":
        yield "Progressive no longer has the highest perplexity on the source"
    for more, less in (("F+M+V", "F+V"), ("F+M", "F")):
        for column in ("perplexity_S", "perplexity_T"):
            if not isclose(table.mean(more, column), table.mean(less, column), rel_tol=0.01):
                yield f"slots change {column}: {more} against {less}"
        for column in TESTED:
            spread = max(table.rows[row][column]["spread"] for row in (more, less))
            if table.mean(more, column) - table.mean(less, column) >= spread:
                yield f"slots bring a gain in {column}: {more} against {less}"


@check
def what_is_read_from_table_5_about_significance_holds() -> Iterator[str]:
    table = _Table5()
    expected = {  # above or below F+M+V, and in which of the tested columns significantly
        "EWC": ("+", [True, False, True, True]),
        "Progressive": ("-", [True, True, True, True]),
        "F": ("+", [False, False, True, False]),
        "F+H": ("+", [False, False, True, True]),
        "F+H+V": ("-", [False, False, False, False]),
    }
    for row, (side, significant) in expected.items():
        if table.beside(row) != [(side, one) for one in significant]:
            yield f"{row} no longer lies beside F+M+V as the page says: {table.beside(row)}"
    if any(significant for _, significant in table.beside("F+V")):
        yield "F+V differs significantly from F+M+V"
    for row in ("RNN: S", "S", "S+T", "RNN: T", "T"):
        if table.against(row, "w2v_sim_T") != ("-", True):
            yield f"{row} is no longer significantly below F+M+V in w2v_sim_T"
        if table.against(row, "bleu2_T")[1] != ("T" not in row or row == "S+T"):
            yield f"{row}: whether it differs from F+M+V in bleu2_T has changed"


@check
def what_is_read_from_table_5_about_replies_holds() -> Iterator[str]:
    table = _Table5()
    for letter in "ST":
        if max(table.mean(row, f"length_{letter}") for row in ("RNN: S", "S", "S+T")) >= 5:
            yield f"replies of models of the source are no longer short ({letter})"
        if not all(7 < table.mean(row, f"length_{letter}") < 10 for row in (*TUNED, "EWC")):
            yield f"replies of adapted models no longer have 7 to 10 words ({letter})"
        if max(table.rows, key=lambda row, letter=letter: table.mean(row, f"bleu2_{letter}")) != "echo":
            yield f"the message itself no longer has the best BLEU-2 ({letter})"
    lowest = min(table.mean(row, "bleu2_S") for row in (*TUNED, "EWC"))
    if not table.mean("Progressive", "bleu2_S") < table.mean("S", "bleu2_S") < lowest:
        yield "BLEU-2 on the source: Progressive, S and the adapted models no longer come in this order"


@check
def the_chosen_strength_of_ewc_lies_inside_the_range_and_beats_the_source_alone() -> Iterator[str]:
    table = _Table5().table
    tried = {float(name): value for name, value in table["strength"]["validation_average"].items() if value}
    chosen = table["strength"]["chosen"]
    if not min(tried) < chosen < max(tried):
        yield f"the chosen strength, {chosen:g}, lies at the edge of what was tried"
    (alone,) = (row["validation_loss"] for row in table["sheets"][0]["rows"] if row["name"] == "S")
    if exp((alone["S"]["mean"] + alone["T"]["mean"]) / 2) <= 1.5 * max(tried.values()):
        yield "a model of the source alone is no longer far behind EWC of any strength"


@check
def figures_within_sentences_are_those_that_were_measured() -> Iterator[str]:
    for page, told in quoted_figures.quoted():
        if told not in " ".join(text_of(page).split()):
            yield f"{page} does not say {told!r}, which results/ do"


@check
def what_is_read_from_the_study_of_encoders_holds() -> Iterator[str]:
    found = {name: results(f"encoders/{name}.json")["encoders"]["minilm"] for name in figures.STUDIED}
    whole = found["sentiment"]["orders"][ALL_ORDERS]
    expected = {  # the sides of zero on which the intervals lie, of average and forgetting; 0: on both
        "LoRA": (0, -1),
        "LoRA+A": (-1, 0),
        "adapter": (1, -1),
        "fixed keys": (1, 0),
        "one slot": (1, 0),
        "head only": (1, 1),
        "F": (-1, -1),
        "F+A": (-1, 0),
    }
    asked = {f"frozen+M - {rival}": sides for rival, sides in expected.items()}
    asked |= {"F+M - F": (0, 0), "F+M+A - F+A": (0, 0), "sparse - frozen+M": (0, -1), "sparse - F": (-1, -1)}
    for question, sides in asked.items():
        one = whole["differences"][question]["test"]
        if sides != (now := tuple(_side(one[what]) for what in ("average", "forgetting"))):
            yield f"{question} lies on the sides {now} of zero, no longer {sides}"
        if sides[0] and not one["average"]["p_holm"] < 0.05:
            yield f"{question} no longer differs after correction"
    if len(whole["differences"]) != 22:
        yield f"there are {len(whole['differences'])} questions"
    clean = results("encoders/multinli.json")["encoders"]["distilbert-grammar"]
    for study in (found["multinli"], clean):
        pairs = study["orders"]["1"]["differences"]
        behind = {name for name, one in pairs.items() if one["test"]["average"]["p_holm"] < 0.05}
        if not {f"frozen+M - {rival}" for rival in ("F", "LoRA", "LoRA+A")} <= behind:
            yield f"on MultiNLI these differ after correction: {', '.join(sorted(behind))}"
    for order in ("1", "3"):
        held = {name: one["test"]["average"] for name, one in found["reviews"]["orders"][order]["differences"].items()}
        behind = [100 * held[f"frozen+M - {rival}"]["difference"] for rival in ("F", "F+A", "LoRA", "LoRA+A")]
        if (
            max(behind[:2]) > -1.25
            or min(behind[:2]) < -1.75
            or not -1.25 <= min(behind[2:]) <= max(behind[2:]) <= -0.75
        ):
            yield f"frozen+M is no longer one and a half points below F and one below LoRA on reviews in order {order}"
        if not all(held[f"frozen+M - {rival}"]["p_holm"] < 0.05 for rival in ("F", "F+A")):
            yield f"frozen+M on reviews in order {order} no longer differs from F and F+A after correction"
        if _side(held["frozen+M - adapter"]):
            yield f"frozen+M is no longer level with an adapter on reviews in order {order}"
    over_the_head = [
        study["orders"]["1"]["differences"]["frozen+M - head only"]["test"]["average"]
        for study in (found["reviews"], found["multinli"])
    ]
    if [round(100 * one["difference"]) for one in over_the_head] != [2, 3] or any(
        one["low"] < 0 for one in over_the_head
    ):
        yield "slots no longer end two points above the head alone on reviews and three on pairs"
    if _side(found["multinli"]["orders"]["1"]["differences"]["frozen+M - adapter"]["test"]["average"]):
        yield "frozen+M is no longer level with an adapter on pairs"
    every = [found["sentiment"]["orders"][order] for order in "123"]
    every += [found["reviews"]["orders"][order] for order in "123"]
    every += [study["orders"]["1"] for study in (found["multinli"], clean)]
    for one in every:
        ends = {name: row["test"]["average"]["mean"] for name, row in one["rows"].items()}
        if ends["frozen+M"] >= min(ends[name] for name in ("F", "F+A", "LoRA+A")):
            yield f"frozen+M is no longer below the others on {', '.join(one['domains'])}"
        forgotten = {name: one["rows"][name]["test"]["forgetting"]["mean"] for name in ("frozen+M", "adapter")}
        if forgotten["frozen+M"] >= forgotten["adapter"]:
            yield f"frozen+M forgets no less than an adapter on {', '.join(one['domains'])}"
        if not 0.0095 <= ends["F+A"] - ends["frozen+M"] <= 0.055:
            yield f"frozen+M is no longer one to five points below F+A on {', '.join(one['domains'])}"
    tweets_first = {name: row["test"] for name, row in found["sentiment"]["orders"]["2"]["rows"].items()}
    slots, alone = (tweets_first[name]["average"]["mean"] for name in ("frozen+M", "head only"))
    if not slots < min(alone, tweets_first["frozen+M"]["without_slots"]["mean"]):
        yield "with tweets first, slots no longer end below the head alone and below themselves taken away"


def _side(test: dict[str, Any]) -> int:
    return int(test["low"] > 0) - int(test["high"] < 0)


# Links


@check
def columns_have_names() -> Iterator[str]:
    for page in PAGES:
        for header in re.findall(r"^\|(.*)\|\n\|[-:| ]+\|$", _prose(page), flags=re.MULTILINE):
            if not all(name.strip() for name in re.split(r"(?<!\\)\|", header)):
                yield f"{page.relative_to(ROOT)}: a column of |{header}| has no name"


@check
def links_lead_somewhere() -> Iterator[str]:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", _prose(page)):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists():
                yield f"{page.relative_to(ROOT)}: {link} leads nowhere"
            elif anchor and anchor not in _anchors(target):
                yield f"{page.relative_to(ROOT)}: {link}: there is no such heading"


def _prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@check
def the_index_names_every_page() -> Iterator[str]:
    index = text_of("docs/README.md")
    for page in PAGES:
        name = os.path.relpath(page, ROOT / "docs")
        if page.name != "README.md" and f"]({name})" not in index:
            yield f"docs/README.md does not name {name}"


@check
def the_notebook_is_that_of_the_tutorial() -> Iterator[str]:
    if text_of("docs/tutorial.ipynb") != notebook.written():
        yield "docs/tutorial.ipynb is out of date; run python docs/notebook.py --write"


# Tables of what the code has


@check
def the_tables_name_every_method_and_every_letter() -> Iterator[str]:
    for page, names in (("README.md", {*LETTERS, *"FVMH"}), ("docs/how-it-works.md", {*METHODS, *LETTERS})):
        cells = re.findall(r"^\| ([^|]+) \|", text_of(page), flags=re.MULTILINE)
        named = {name for cell in cells for name in cell.split(", ")}
        for missing in names - named:
            yield f"{page} has no row for {missing}"


@check
def every_setting_is_listed_with_its_default() -> Iterator[str]:
    """For a recurrent network and for a pretrained encoder; a bar where it cannot be set."""
    pattern = r"^\| `(\w+\.\w+)` \| `?([^`|]+)`? \| `?([^`|]+)`? \|"
    rows = re.findall(pattern, text_of("docs/commands.md"), flags=re.MULTILINE)
    plain, tuned = defaults_for(None), defaults_for("minilm")
    expected = []
    for section, kind in SECTIONS.items():
        for one in fields(kind):
            values = [_default(getattr(usual, section), one.name) for usual in (plain, tuned)]
            expected.append((f"{section}.{one.name}", *values))
    for name, *values in expected:
        if (name, *values) not in rows:
            yield f"docs/commands.md does not list {name} with its defaults, {' and '.join(values)}"
    for name, *values in rows:
        if (name, *values) not in expected:
            yield f"docs/commands.md lists {name} with {' and '.join(values)}, which is not so"
    if sorted(rows) == sorted(expected) and rows != expected:
        yield "docs/commands.md lists the settings in another order than the code"


def _default(settings: object, name: str) -> str:
    if not hasattr(settings, name) or (isinstance(settings, PretrainedSettings) and name in OF_ITS_OWN):
        return "–"
    value = getattr(settings, name)
    return value if isinstance(value, str) else json.dumps(value)


@check
def every_command_has_a_section_that_names_its_options() -> Iterator[str]:
    text = text_of("docs/commands.md")
    for name, command in get_command(app).commands.items():
        if f"\n## {name}\n" not in text:
            yield f"docs/commands.md has no section {name}"
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--") and option != "--help" and option not in text:
                    yield f"docs/commands.md does not tell of {name} {option}"


@check
def make_has_what_the_pages_promise() -> Iterator[str]:
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), flags=re.MULTILINE))
    for page in PAGES:
        for _, code in FENCE.findall(page.read_text(encoding="utf-8")):
            for target in set(re.findall(r"^make ([a-z-]+)", code, flags=re.MULTILINE)) - targets:
                yield f"{page.relative_to(ROOT)}: there is no make {target}"


# What a release says of itself


@check
def the_oldest_versions_that_are_tested_are_those_that_are_allowed() -> Iterator[str]:
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    (tested,) = (name for name in extras["dev"] if name.startswith("memgrow["))
    wanted = [*project["dependencies"], *(one for name in re.findall(r"\w+", tested)[1:] for one in extras[name])]
    allowed = dict(re.match(r"([\w-]+)>=([\d.]+)", one).groups() for one in wanted)  # type: ignore[union-attr]
    pins = re.findall(r"^([\w-]+)==([\d.]+)$", text_of("constraints-minimum.txt"), flags=re.MULTILINE)
    for name in sorted(name for name, count in Counter(name for name, _ in pins).items() if count > 1):
        yield f"constraints-minimum.txt names {name} more than once"
    pinned = dict(pins)
    pinned |= re.findall(r"^MINIMUM_(TORCH) \?= ([\d.]+)$", text_of("Makefile"), flags=re.MULTILINE)
    found = {name.lower(): version for name, version in pinned.items()}
    for name, version in allowed.items():
        if not f"{found.get(name, '')}.0.0".startswith(f"{version}."):
            yield f"{name} is allowed from {version} on, but tested from {found.get(name)} on (constraints-minimum.txt)"


@check
def the_workflow_runs_what_ci_runs() -> Iterator[str]:
    if "- run: .ci/run\n" not in text_of(".github/workflows/ci.yml"):
        yield ".github/workflows/ci.yml does not run .ci/run"


@check
def the_workflow_tests_the_pythons_that_the_package_names() -> Iterator[str]:
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    named = [one.rpartition(" ")[2] for one in project["classifiers"] if re.search(r":: Python :: 3\.\d+$", one)]
    if project["requires-python"] != f">={named[0]}":
        yield f"pyproject.toml allows Python {project['requires-python']} and names {', '.join(named)}"
    lists = re.findall(r"^ +python-version: \[(.+)\]$", text_of(".github/workflows/ci.yml"), flags=re.MULTILINE)
    for tested in (re.findall(r"[\d.]+", one) for one in lists or [""]):
        if tested != named:
            yield f"pyproject.toml names Python {', '.join(named)}; ci.yml tests {', '.join(tested) or 'none of them'}"


def main() -> int:
    wrong = 0
    for one in CHECKS:
        sentences = list(one())
        wrong += len(sentences)
        print("wrong" if sentences else "ok   ", one.__name__.replace("_", " "))
        for sentence in sentences:
            print("        ", sentence)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
