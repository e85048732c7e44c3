"""The studies run: each point a sheet, corrected for the number of points."""

from collections.abc import Sequence
from typing import Any

from memgrow.errors import SettingsError
from memgrow.experiments.paper.protocol import Protocol
from memgrow.experiments.paper.rows import Results, Row
from memgrow.experiments.paper.sheet import Columns, sheet
from memgrow.experiments.paper.studies import STUDIES, Study
from memgrow.metrics.significance import holm

NOTES = (
    "Each point has the methods of its study, with all else as the paper has it. `earlier` is the mean over all "
    "domains but the last, `last` the last one. Tests are of the second method against the first; Holm's correction is "
    "over a study's points.",
)


def chosen(protocol: Protocol) -> list[Study]:
    known = {study.name: study for study in STUDIES}
    for name in protocol.studies or ():
        if name not in known:
            raise SettingsError(f"there is no study {name!r}; there are {', '.join(known)}")
    return [known[name] for name in protocol.studies or known]


def rows(protocol: Protocol) -> list[Row]:
    return [row for study in chosen(protocol) for _, some in study.sheets(protocol) for row in some]


def make(protocol: Protocol, results: Results, seeds: int) -> dict[str, Any]:
    studies = {study.name: _study(study, protocol, results, seeds) for study in chosen(protocol)}
    return {"studies": studies, "notes": list(NOTES)}


def _study(study: Study, protocol: Protocol, results: Results, seeds: int) -> dict[str, Any]:
    sheets = []
    for point, rows in study.sheets(protocol):
        learns = rows[0].learns
        columns: Columns = {"earlier": learns[:-1], "last": learns[-1:], "average": learns}
        reference = {study.methods[0]: dict.fromkeys(columns, study.methods[0])}
        made = sheet(rows, columns, protocol, results, seeds, references=reference)
        sheets.append({"title": point.label, **made})
    _correct(sheets, study)
    return {"about": study.about, "methods": list(study.methods), "learns": _path(study), "sheets": sheets}


def _path(study: Study) -> list[str]:
    """The domains in their order; one in which the points differ is left open."""
    paths = [point.learns or study.learns for point in study.points]
    return [names[0] if len(set(names)) == 1 else "…" for names in zip(*paths, strict=True)]


def _correct(sheets: Sequence[dict[str, Any]], study: Study) -> None:
    """Holm over the points, column by column, for the one comparison that each point is made for."""
    for column in ("earlier", "last", "average"):
        tests = {
            sheet["title"]: test
            for sheet in sheets
            for row in sheet["rows"]
            if row["name"] == study.methods[1]
            and (test := row["cells"][column].get("tests", {}).get(study.methods[0])) is not None
        }
        for label, adjusted in holm({label: test["p"] for label, test in tests.items()}).items():
            tests[label]["p_holm"] = adjusted
