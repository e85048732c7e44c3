"""Beyond the paper: methods that it does not have, and the conditions under which new slots might help.

To try another method: add a row to CANDIDATES, such as _row("F+V+A", "F+V+A, a third", keep=1 / 3), and its name to
FINALISTS if it is to go on through five genres. Options that a row does not name are the protocol's.

To try another condition: add a point to a study, or a study to STUDIES, and run
`python -m research.paper conditions --study NAME`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memgrow.errors import SettingsError
from research.common.methods import method_called
from research.common.statistics import holm
from research.paper.accuracies import FIVE, S_AND_T, Columns, sheet
from research.paper.figures import Json
from research.paper.protocol import GENRES, PAIR, PROPOSED, SOURCE, TARGET, Protocol
from research.paper.rows import Changes, Results, Row

GROUP = "beyond the paper"
BAR = "multi-task"  # all data at once: what is to be reached without it


def _row(method: str, name: str | None = None, **options: Any) -> Row:
    return Row(name or method, method, options=options, group=GROUP)


CANDIDATES: tuple[Row, ...] = (
    _row("F+V+A"),
    _row("F+V+A", "F+V+A, 0.7", keep=0.7),
    _row("F+V+E"),
    _row("F+V+A+E"),
    _row("F+V+D"),
    _row("F+V+D+E"),
    _row("F+V+A+D", "F+V+A+D, light", keep=0.3, distil=0.5),
    _row("F+M+V+Q"),
    _row("F+M+V+A"),
    _row("F+M+V+L"),
    _row("EWC+M+V"),
)
# The best on validation from the first genre to the second; the simplest of those next to it; and the two together.
FINALISTS = ("F+V+E", "F+V+A", "F+V+A+E")

BASELINES = tuple(Row(name, name) for name in (PROPOSED, BAR, f"{BAR}+E"))
PAIR_BASELINES = tuple(Row(name, name) for name in (PROPOSED, "F+V", BAR))


def finalists() -> list[Row]:
    return [row for row in CANDIDATES if row.name in FINALISTS]


def recommended_rows(protocol: Protocol) -> list[Row]:
    return [*_from_one_to_another(), *BASELINES, *finalists()]


def _from_one_to_another() -> list[Row]:
    """A first look at every candidate, which costs little beside five genres."""
    return [replace(row, learns=PAIR) for row in (*PAIR_BASELINES, *CANDIDATES)]


def recommended(protocol: Protocol, results: Results, seeds: int) -> Json:
    def made(rows: Sequence[Row], columns: Columns, title: str) -> Json:
        references = {name: dict.fromkeys(columns, name) for name in (PROPOSED, BAR)}
        return sheet(rows, columns, protocol, results, seeds, references=references, title=title)

    five = made([*BASELINES, *finalists()], FIVE, "after five genres")
    pair = made(_from_one_to_another(), S_AND_T, f"{SOURCE}, then {TARGET}")
    notes = (
        "A: halfway back to the old weights after a domain; D: the old model's answers to the new texts are held on "
        "to; E: a running mean of the weights is kept, from the old ones on; Q: new slots are let in slowly; L: old "
        "parameters take smaller steps. None of these sees old data. multi-task+E shows what the mean is worth with "
        "all data there.",
        f"All candidates go from the first genre to the second; of these, {', '.join(FINALISTS)} go on through five. "
        "F+V is in Tables 3 and 4 after five genres.",
        "The choice goes by the column of validation; the test parts are for reporting.",
    )
    return {"sheets": [five, pair], "best_on_validation": best(five["rows"], seeds), "notes": list(notes)}


def best(lines: Sequence[Json], seeds: int) -> str | None:
    """The best without old data; None while a finalist lacks a seed: means over other seeds cannot be compared."""
    whole = {line["name"]: line for line in lines if len(line["validation"]["values"]) >= seeds}
    if any(line.get("group") == GROUP and line["name"] not in whole for line in lines):
        return None
    known = {
        name: line["validation"]["mean"] or 0.0
        for name, line in whole.items()
        if not method_called(line["method"]).joint
    }
    return max(known, key=lambda name: known[name], default=None)


@dataclass(frozen=True)
class Point:
    """One value of a condition: what it changes in the settings or the data."""

    label: str
    model: Changes = field(default_factory=dict)
    training: Changes = field(default_factory=dict)
    options: Changes = field(default_factory=dict)
    data: Changes = field(default_factory=dict)
    learns: tuple[str, ...] = ()  # the study's, if none are named


@dataclass(frozen=True)
class Study:
    """One condition, the others being the protocol's. The second method is tested against the first."""

    name: str
    about: str
    points: tuple[Point, ...]
    methods: tuple[str, ...] = ("F+V", PROPOSED, BAR)
    learns: tuple[str, ...] = PAIR

    def rows(self, protocol: Protocol) -> dict[str, list[Row]]:
        """Those of each point that can be had."""
        there = [point for point in self.points if protocol.extra or not point.data.get("extra")]
        return {
            point.label: [self._row(point, method) for method in self.methods] for point in there[: protocol.points]
        }

    def _row(self, point: Point, method: str) -> Row:
        return Row(
            method,
            method,
            point.learns or self.learns,
            model=point.model,
            training=point.training,
            options=point.options,
            data=point.data,
        )

    def path(self) -> list[str]:
        """The domains in their order; one in which the points differ is left open."""
        paths = [point.learns or self.learns for point in self.points]
        return [names[0] if len(set(names)) == 1 else "…" for names in zip(*paths, strict=True)]


STUDIES: tuple[Study, ...] = (
    Study(
        "pairs",
        "training pairs of each genre, from one genre to another",
        (
            Point("2,000", data={"limit": 2000}),
            Point("all"),
            Point("all and guessed", data={"extra": True, "limit": None}),
        ),
        methods=("F+V", PROPOSED),
    ),
    Study(
        "data",
        "training pairs of each genre, five genres in turn",
        (
            Point("2,000", data={"limit": 2000}),
            Point("4,000", data={"limit": 4000}),
            Point("8,000", data={"limit": 8000}),
            Point("all"),
            Point("all and guessed", data={"extra": True, "limit": None}),
        ),
        learns=GENRES,
    ),
    Study("dropout", "dropout", tuple(Point(f"{share:g}", model={"dropout": share}) for share in (0.0, 0.2, 0.5))),
    Study(
        "patience",
        "epochs without a better one before training stops",
        tuple(Point(str(epochs), training={"patience": epochs}) for epochs in (1, 2, 5)),
    ),
    Study(
        "epochs",
        "epochs at most",
        tuple(Point(str(epochs), training={"epochs": epochs}) for epochs in (1, 3, 20)),
    ),
    Study("rate", "learning rate", tuple(Point(f"{rate:g}", training={"rate": rate}) for rate in (1e-4, 3e-4, 1e-3))),
    Study(
        "quiet",
        "how much lower the logits of new slots start",
        tuple(Point(f"{bias:g}", options={"quiet": bias}) for bias in (0.0, 2.0, 5.0)),
    ),
    Study(
        "added",
        "slots that the second domain adds to 500",
        tuple(Point(f"{slots:,}", options={"slots": slots}) for slots in (50, 500, 2000)),
    ),
    Study(
        "distance",
        "which genre comes second",
        tuple(Point(genre, learns=(GENRES[0], genre)) for genre in GENRES[1:]),
    ),
    Study(
        "old-rate",
        "share of a step that old parameters take",
        tuple(Point(f"{share:g}", options={"old_rate": share}) for share in (1.0, 0.3, 0.1)),
        methods=("F+V+L", "F+M+V+L", BAR),
    ),
)


def chosen(protocol: Protocol) -> list[Study]:
    known = {study.name: study for study in STUDIES}
    for name in protocol.studies or ():
        if name not in known:
            raise SettingsError(f"there is no study {name!r}; there are {', '.join(known)}")
    return [known[name] for name in protocol.studies or known]


def conditions_rows(protocol: Protocol) -> list[Row]:
    return [row for study in chosen(protocol) for rows in study.rows(protocol).values() for row in rows]


def conditions(protocol: Protocol, results: Results, seeds: int) -> Json:
    notes = (
        "Each point has the methods of its study, with all else as the paper has it. `earlier` is the mean over all "
        "domains but the last, `last` the last one. Tests are of the second method against the first; Holm's "
        "correction is over a study's points.",
    )
    studies = {}
    for study in chosen(protocol):
        sheets = [_sheet(*point, protocol, results, seeds) for point in study.rows(protocol).items()]
        studies[study.name] = {
            "about": study.about,
            "methods": list(study.methods),
            "learns": study.path(),
            "sheets": _corrected(sheets, study),
        }
    return {"studies": studies, "notes": list(notes)}


def _sheet(label: str, rows: Sequence[Row], protocol: Protocol, results: Results, seeds: int) -> Json:
    learns, first = rows[0].learns, rows[0].name
    columns: Columns = {"earlier": learns[:-1], "last": learns[-1:], "average": learns}
    reference = {first: dict.fromkeys(columns, first)}
    return sheet(rows, columns, protocol, results, seeds, references=reference, title=label)


def _corrected(sheets: list[Json], study: Study) -> list[Json]:
    """Holm over the points, column by column, for the one comparison that each point is made for."""
    first, second = study.methods[:2]
    for column in ("earlier", "last", "average"):
        tests = {}
        for made in sheets:
            (line,) = (line for line in made["rows"] if line["name"] == second)
            tests[made["title"]] = line["cells"][column].get("tests", {}).get(first, {})
        adjusted = holm({title: test.get("p") for title, test in tests.items()})
        for title, test in tests.items():
            if test:
                test["p_holm"] = adjusted[title]
    return sheets
