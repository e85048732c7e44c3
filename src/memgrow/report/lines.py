"""The curves of a report: which methods have a line, which domains a panel, and the points of each."""

from dataclasses import dataclass
from math import ceil

from memgrow.evaluation.comparison import BASELINE, RETRAINING
from memgrow.evaluation.history import AccuracyMatrix
from memgrow.report.run_report import RunReport
from memgrow.report.table import shortened

PANELS = 12  # domains that have curves of their own
NAMED, EVERY = 5, 12  # stages up to which they are named below an axis, and up to which each has its number
BESIDE = {BASELINE: ("fine", "fine-tuning"), RETRAINING: ("all", "retraining on everything")}


@dataclass(frozen=True)
class Line:
    """The scores of a method; `kind` (own, fine, all) decides its looks."""

    name: str
    kind: str
    matrix: AccuracyMatrix
    spread: "Spread | None" = None

    def points(self, domain: str, stages: int) -> list[tuple[int, float]]:
        """(stage, score); of a method with one stage its score from end to end, as a line to hold others against."""
        if len(self.matrix.rows) == 1 and stages > 1:
            score = self.matrix.score(0, domain)
            return [] if score is None else [(0, score), (stages - 1, score)]
        found = ((stage, self.matrix.score(stage, domain)) for stage in range(len(self.matrix.rows)))
        return [(stage, score) for stage, score in found if score is not None]


def stage_marks(matrix: AccuracyMatrix, letters: int) -> tuple[dict[int, str], str]:
    """The stages that are marked below an axis, each by its name, or of many by its number, and the axis' own name."""
    names = ["+".join(row.learned) for row in matrix.rows]
    if len(names) <= NAMED:
        return {stage: shortened(name, letters) for stage, name in enumerate(names)}, "after learning"
    every = 1 if len(names) <= EVERY else ceil(len(names) / 10)
    return {stage: str(stage + 1) for stage in range(0, len(names), every)}, "after learning stage"


Spread = dict[tuple[int, str], float]
"""By stage and domain: the standard deviation over seeds."""


def report_lines(report: RunReport) -> list[Line]:
    """The method that a report is about, then fine-tuning and retraining on everything where they were run."""
    own = report.own_name
    lines = [_line(report, own, "own") if report.history is None else Line(own, "own", report.matrix)]
    known = report.comparison.results if report.comparison is not None else {}
    for method, (kind, about) in BESIDE.items():
        if method in known and method != own:
            line = _line(report, method, kind)
            lines.append(Line(f"{method}: {about}", kind, line.matrix, line.spread))
    return lines


def _line(report: RunReport, method: str, kind: str) -> Line:
    if report.comparison is None:
        return Line(method, kind, report.matrix)
    matrix = report.comparison.mean_matrix(method)
    spread = {
        (stage, domain): away
        for stage, row in enumerate(matrix.rows)
        for domain in row.scores
        if (away := report.spread(method, stage, domain)) is not None
    }
    return Line(method, kind, matrix, spread or None)


def tested_domains(report: RunReport) -> list[str]:
    """The domains in their order that any line has a point of: the others have no curve."""
    lines, stages = report_lines(report), len(report.matrix.rows)
    return [name for name in report.matrix.domains if any(line.points(name, stages) for line in lines)]


def shown_domains(report: RunReport) -> list[str]:
    """The tested domains in their order; of very many those that lost most."""
    matrix, learned, tested = report.matrix, report.matrix.learned_at(), tested_domains(report)
    lost = {name: report.measure.lost_of(matrix, name) or 0.0 if name in learned else -1.0 for name in tested}
    most = set(sorted(lost, key=lambda name: -lost[name])[:PANELS])
    return [name for name in tested if name in most]
