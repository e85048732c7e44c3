"""Under which conditions do new slots help? One study for each condition, its values as points.

To add a value: add a point to a study. To add a study: add one to STUDIES, and `memgrow paper conditions --study NAME`
runs it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memgrow.experiments.paper.beyond import BAR
from memgrow.experiments.paper.protocol import GENRES, PAIR, PROPOSED, Protocol
from memgrow.experiments.paper.rows import Row


@dataclass(frozen=True)
class Point:
    """One value of a condition: what it changes in the settings or the data."""

    label: str
    model: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    learns: tuple[str, ...] = ()  # the study's, if none are named


@dataclass(frozen=True)
class Study:
    """One condition, the others being the protocol's. The second method is tested against the first."""

    name: str
    about: str
    points: tuple[Point, ...]
    methods: tuple[str, ...] = ("F+V", PROPOSED, BAR)
    learns: tuple[str, ...] = PAIR

    def sheets(self, protocol: Protocol) -> list[tuple[Point, Sequence[Row]]]:
        """The rows of each point that can be had."""
        there = [point for point in self.points if protocol.extra or not point.data.get("extra")]
        return [(point, [self._row(point, method) for method in self.methods]) for point in there[: protocol.points]]

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
