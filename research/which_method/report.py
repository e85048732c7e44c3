"""Which method is the default: the tables of research/which_method/README.md, from the JSON files of its figures."""

from collections.abc import Iterator, Mapping
from math import exp
from typing import Any

from research.common.tables import MISSING, Table, p_value, signed, to_page

Figures = Mapping[str, Any]
"""All that is known of one family."""

UNITS = {False: "points", True: "hundredths of a nat"}
NAMES = {"bilstm": "BiLSTM", "encoder": "Encoder", "replies": "Replies"}


def choice_page(figures: Figures) -> str:
    """What was found for one family: in a sentence, on the streams for choosing, on those for checking, in full."""
    parts: list[Table | str] = [f"**{NAMES.get(figures['family'], figures['family'])}.** {verdict(figures)}"]
    for part, heading in (
        ("choosing", "Against {baseline} on the streams for choosing, {unit} [95% interval]:"),
        ("checking", "Against {baseline} on the streams for checking, {unit} [95% interval]:"),
        ("third", "Against {baseline} on the streams of the third rule, {unit} [95% interval]:"),
        ("power", "Further questions, against {baseline}, {unit} [95% interval]:"),
    ):
        if any(one["part"] == part for one in figures["streams"].values()):
            unit = UNITS[figures["is_dialogue"]]
            parts += [heading.format(baseline=figures["baseline"], unit=unit), against_table(figures, part)]
        if part == "checking" and any(map(_has_more, figures["streams"].values())):
            parts += ["With ten more seeds, for a narrower interval and not for the choice:", more_seeds_table(figures)]
    return to_page([*parts, "In full:", details_table(figures)])


def verdict(figures: Figures) -> str:
    """Who won and what became of it, in sentences."""
    choice, check = figures["choice"], figures["check"]
    if choice["winner"] is None:
        return "No stream for choosing is whole as yet."
    expected = [name for name, one in figures["streams"].items() if one["part"] == "choosing"]
    said = []
    if lacking := [name for name in expected if name not in choice["streams"]]:
        said.append(f"Not whole, so that they do not count: {', '.join(lacking)}.")
    if choice["best"] is None:
        said.append(f"No candidate is better than {figures['baseline']}.")
    else:
        level = [name for name in choice["level"] if name != choice["best"]]
        others = f", {' and '.join(level)} level with it: {choice['winner']} wins as the simplest of these."
        said.append(f"{choice['best']} is best{others if level else ' and wins.'}")
    if check is None or (not check["against"] and choice["best"] is not None):
        return " ".join([*said, "Nothing is checked as yet."])
    if check["above"]:
        said.append(f"On the streams for checking it is above {figures['baseline']} on {', '.join(check['above'])}.")
    if check["below"]:
        said.append(f"It is clearly below {figures['baseline']} on {', '.join(check['below'])}.")
    if not check["enough"]:
        said.append("Too few streams are whole to change the default.")
    second, third = figures.get("second_check"), figures.get("third_check")
    if second is not None and second["gain"] is not None:
        said += [f"By the first rule the default is {check['default']}.", *_second_verdict(figures, second)]
    if third is not None:
        said += _third_verdict(figures, third)
    return " ".join([*said, f"The default is {figures['default']}."])


def _second_verdict(figures: Figures, second: Figures) -> list[str]:
    baseline, name, unit = figures["baseline"], second["asked"][0], UNITS[figures["is_dialogue"]]
    return [
        f"By the second {name} is asked: against {baseline} it gains {_interval(second['gain'])} {unit} on "
        f"{second['stream']}; over {', '.join(second['streams'])} the difference in what it forgets is "
        f"{_interval(second['forgets'])}.",
    ]


def _third_verdict(figures: Figures, third: Figures) -> Iterator[str]:
    unit, before = UNITS[figures["is_dialogue"]], figures["second_check"]["default"]
    for name, trial in third["asked"].items():
        if trial["forgets"] is None:
            continue
        gains = "; ".join(
            f"{', '.join(f'{_interval(one)} against {rival}' for rival, one in some.items())} on {stream}"
            for stream, some in trial["gains"].items()
        )
        yield (
            f"By the third {name} is asked: it gains {gains} ({unit}); over both it forgets "
            f"{_interval(trial['forgets'])} more than {before}. It {'holds' if trial['holds'] else 'falls'}."
        )


def against_table(figures: Figures, part: str) -> Table:
    """Differences from the baseline: a line for each candidate, a column for each stream of that part."""
    streams = {name: one for name, one in figures["streams"].items() if one["part"] == part}
    choice = figures["choice"]
    rows = []
    for name in figures["candidates"]:
        cells = [_difference(one["rows"].get(name)) for one in streams.values()]
        if name != figures["baseline"] and any(cell != MISSING for cell in cells):
            over = choice["against"].get(name)
            more = [_interval(over), p_value(over["p_holm"]) if over else MISSING, _place(name, choice)]
            rows.append([name, *cells, *(more if part == "choosing" else [])])
    header = ["candidate", *streams, *(["mean", "p (Holm)", "outcome"] if part == "choosing" else [])]
    return Table(None, header, rows)


def more_seeds_table(figures: Figures) -> Table:
    """The same differences where more seeds were run than the choice is made by."""
    streams = {name: one["more_seeds"] for name, one in figures["streams"].items() if _has_more(one)}
    names = [name for name in figures["candidates"] if any(name in rows for rows in streams.values())]
    rows = [[name, *(_difference(one.get(name)) for one in streams.values())] for name in names]
    return Table(None, ["candidate", *streams], [row for row in rows if row[0] != figures["baseline"]])


def _has_more(stream: Figures) -> bool:
    return stream["part"] == "checking" and bool(stream["more_seeds"])


def _place(name: str, choice: Mapping[str, Any]) -> str:
    if name in choice["out"]:
        return f"out by {choice['out'][name]}"
    if name == choice["winner"]:
        return "wins"
    return "level with the best" if name in choice["level"] else ""


def details_table(figures: Figures) -> Table:
    """Each candidate on each stream: what it ends with, what it forgets, and how well it learns."""
    replies = figures["is_dialogue"]
    rows = [
        [
            stream,
            name,
            _perplexity(row["average"]) if replies else _percent(row["average"]),
            _percent(row["forgetting"]),
            _perplexity(row["when_learnt"]) if replies else _percent(row["when_learnt"]),
            MISSING if row["kept"] is None else f"{row['kept']:.2f}",
            f"{len(row['seeds'])}",
        ]
        for stream, one in figures["streams"].items()
        for name in figures["candidates"]
        if (row := one["rows"].get(name)) and row["seeds"]
    ]
    what, unit = ("perplexity", "") if replies else ("accuracy", ", %")
    ends = (f"{what} at the end{unit}", f"forgetting, {UNITS[replies]}", f"{what} when learnt{unit}")
    header = ("stream", "candidate", *ends)
    return Table(None, (*header, "share kept", "seeds"), rows)


def _difference(row: Mapping[str, Any] | None) -> str:
    return _interval(row["against"].get("average")) if row and row["against"] else MISSING


def _interval(test: Mapping[str, Any] | None) -> str:
    if test is None:
        return MISSING
    mean = signed(100 * test["difference"])
    return mean if test["low"] is None else f"{mean} [{signed(100 * test['low'])}, {signed(100 * test['high'])}]"


def _percent(cell: Mapping[str, Any]) -> str:
    around = f" ± {100 * cell['spread']:.1f}" if cell["spread"] is not None else ""
    return f"{round(100 * cell['mean'], 1) + 0.0:.1f}{around}".replace("-", "−")


def _perplexity(cell: Mapping[str, Any]) -> str:
    """The geometric mean over domains and seeds."""
    return f"{exp(-cell['mean']):.1f}"
